"""A proxy for clients that can send no token: it adds one to each request, and changes no other."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = b"\r\n\r\n"
LONGEST = 1 << 16


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket on the loopback that accepts connections, without answers yet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def pass_on(listener: socket.socket, port: int, token: str) -> None:
    """Answer requests to a socket with a port's answers to the token, until it is closed."""

    def run() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_exchange, args=(client, port, token), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()


def _exchange(client: socket.socket, port: int, token: str) -> None:
    """Pass one request on, and all of its answer."""
    with client, suppress(OSError):
        data = b""
        while HEAD not in data:
            piece = client.recv(LONGEST)
            if not piece:
                return
            data += piece
        head, _, body = data.partition(HEAD)
        lines = [
            line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")
        ]
        lines += [b"Connection: close", f"Authorization: Bearer {token}".encode()]
        with socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(b"\r\n".join(lines) + HEAD + body)
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()
            _pump(server, client)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass on what comes, to its end."""
    with suppress(OSError):
        while piece := source.recv(LONGEST):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
