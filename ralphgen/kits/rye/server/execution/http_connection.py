"""Sends a request to one host, at the addresses that were checked, and reads its answer."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError

from ..failures import EXECUTION_FAILED
from .http_targets import check_public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any

    from .http_targets import Target

MOST = 1 << 20  # bytes of an answer's body


class UnreachableError(CodedError):
    """No connection came about: it can be tried again, nothing was asked for."""

    def __init__(self, message: str) -> None:
        super().__init__(EXECUTION_FAILED, message)


class TimedConnection:
    """A connection that another thread can cut, with the time at which it must be over."""

    __slots__ = ("_deadline", "_is_cut", "_socket")

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._socket: socket | None = None
        self._is_cut = False

    def seconds(self) -> float:
        """Return the seconds that are left; fewer than none when it is over."""
        return self._deadline - time.monotonic()

    def left(self) -> float:
        """Return the seconds that are left; raises TimeoutError where there are none."""
        left = self.seconds()
        if left <= 0 or self._is_cut:
            raise TimeoutError
        return left

    def hold(self, connection: socket) -> None:
        """Set the connection that `cut` shuts down."""
        self._socket = connection
        self.left()

    def cut(self) -> None:
        """Shut the connection down, which wakes whoever reads or writes."""
        import socket

        self._is_cut = True
        if self._socket is not None:
            try:
                # That of a TLS connection would take from it what another thread uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
            except OSError:  # it is closed, or not connected yet
                return

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()

    def read(self, most: int, **_timeout: Any) -> bytes:
        """Return some bytes that have come; none at the end."""
        connection = self._open()
        connection.settimeout(self.left())
        return connection.recv(most)

    def write(self, data: bytes, **_timeout: Any) -> None:
        """Send all of the bytes."""
        from httpcore2 import WriteError

        connection = self._open()
        connection.settimeout(self.left())
        try:
            connection.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:  # the host may have answered before it heard all
            raise WriteError(str(error)) from error

    def _open(self) -> socket:
        if self._socket is None:
            raise ConnectionError("there is no connection")
        return self._socket


class Answer:
    """The answer of a host: the header lines as they came, and the beginning of the body."""

    __slots__ = ("body", "headers", "status", "truncated")

    def __init__(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers = headers
        self.body = bytearray()
        self.truncated = False


def connect(target: Target, line: TimedConnection, *, anywhere: bool) -> None:
    """Connect with a host; `anywhere` says that it need not be a public one.

    Its name is resolved once: the addresses that were checked are those that are connected to.
    Raises `UnreachableError`, `CodedError` and TimeoutError.
    """
    addresses = _addresses(target)
    if not anywhere:
        check_public(target, addresses)
    connection = _connection(target, addresses, line)
    line.hold(connection)
    if target.scheme == "https":
        _secure(target, connection, line)


def ask(
    target: Target, line: TimedConnection, method: str, headers: dict[str, str], body: bytes
) -> Answer:
    """Return what the host answers; raises OSError, and the errors of the protocol of httpcore."""
    from httpcore2 import URL, HTTP11Connection, Origin, Request

    scheme, host = target.scheme.encode(), target.host.encode()
    stream: Any = line
    connection = HTTP11Connection(Origin(scheme, host, target.port), stream)
    url = URL(scheme=scheme, host=host, port=target.port, target=target.path.encode())
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        response = connection.handle_request(Request(method, url, headers=fields, content=body))
        answer = Answer(response.status, response.headers)
        chunks = response.iter_stream()
        for chunk in chunks:
            answer.body += chunk
            if len(answer.body) > MOST:
                break
    finally:
        connection.close()
    answer.truncated = len(answer.body) > MOST
    del answer.body[MOST:]
    return answer


def _addresses(target: Target) -> list[str]:
    """Return the addresses of a host, in the order in which they should be tried."""
    import socket

    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnreachableError(f'the host "{target.host}" is not known') from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _connection(target: Target, addresses: list[str], line: TimedConnection) -> socket:
    """Return a connection to the first of the addresses that takes it."""
    import socket

    problem = ""
    for index, address in enumerate(addresses):
        seconds = line.left() / (len(addresses) - index)
        try:
            connection = socket.create_connection((address, target.port), seconds)
        except OSError as error:
            problem = (error.strerror or "it takes too long").lower()
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    line.left()
    raise UnreachableError(f'"{target.authority}" cannot be connected to: {problem}')


def _secure(target: Target, connection: socket, line: TimedConnection) -> None:
    """Speak TLS over the connection, with the certificate of the host's name."""
    import ssl

    from httpcore2 import default_ssl_context

    context = default_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    secured = context.wrap_socket(
        connection, server_hostname=target.host, do_handshake_on_connect=False
    )
    line.hold(secured)
    secured.settimeout(line.left())
    try:
        secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        message = f'the certificate of "{target.host}" is not to be trusted: {error.verify_message}'
        raise CodedError(EXECUTION_FAILED, message) from error
    except TimeoutError:
        raise
    except OSError as error:
        raise CodedError(EXECUTION_FAILED, f'"{target.authority}" takes no TLS') from error
