"""Connects with the host of a URL, if people allow it, at checked addresses, and asks it once."""

from __future__ import annotations

import re
import time

from ralphgen.runtime.errors import CodedError

from ..values import EXECUTION_FAILED, VALIDATION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from typing import Any

PORTS = {"http": 80, "https": 443}  # by scheme
USER_FILE = '"rye.toml" in the user space'
PROJECT_FILE = '[rye] in .ralph/ralphgen.toml, and run "ralphgen regen"'
SAFE = "!$%&'()*+,/:;=?@[]~"  # stand in a path and a query as they are
# Not told by the standard library: tunnels to any IPv4 address, and networks of a site.
FURTHER = ("2002::/16", "2001::/32", "64:ff9b:1::/48", "fec0::/10")
TRANSLATED = "64:ff9b::/96"  # an IPv4 address for those who have none of their own
OLD_BITS = (1 << 32) - 1
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")
MOST = 1 << 20  # bytes of an answer's body


class Target:
    """The parts of a URL: a host in its one spelling, its port, and the path with the query."""

    __slots__ = ("host", "path", "port", "scheme")

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path = path

    @property
    def authority(self) -> str:
        """Return the host and its port, unless that is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Return what a URL names; raises `CodedError`."""
    from urllib.parse import quote, urlsplit

    if _CONTROL.search(url):
        raise _unfit("contains a space, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
        path = quote(parts.path or "/", safe=SAFE)
        query = quote(parts.query, safe=SAFE)
    except ValueError as error:
        raise _unfit("has an invalid host or port") from error
    if parts.scheme not in PORTS:
        raise _unfit('must begin with "http://" or "https://"')
    if "@" in parts.netloc:
        raise _unfit(
            'contains a user name or a password: use "auth" or "headers" of the tool\'s config'
        )
    if port == 0:
        raise _unfit("has the invalid port 0")
    spelled = host_of(host or "")
    if not spelled:
        raise _unfit("has no valid host")
    target = f"{path}?{query}" if query else path
    return Target(parts.scheme, spelled, port or PORTS[parts.scheme], target)


def host_of(text: str) -> str:
    """Return a host in its one spelling: an address, or an ASCII name in small letters; else ""."""
    from ipaddress import IPv6Address

    try:
        if ":" in text:
            return "" if "%" in text else str(IPv6Address(text))
        name = text.encode("idna").decode().lower().removesuffix(".")
    except ValueError:
        return ""
    return name if _NAME.fullmatch(name) else ""


def check_allowed(target: Target, hosts: Sequence[str], file: str = USER_FILE) -> None:
    """Raise `CodedError` if a file has named hosts, and not this one.

    A name without a port stands for the ports of both schemes.
    """
    ports = (str(target.port), "") if target.port == PORTS[target.scheme] else (str(target.port),)
    if hosts and not {(target.host, port) for port in ports} & {*map(_entry, hosts)}:
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.authority}" is not an allowed host: ask the user to add it to "hosts" in '
            f"{file}",
        )


def check_public(target: Target, addresses: Sequence[str]) -> None:
    """Raise `CodedError` where one of the addresses of a host is not public."""
    if not all(map(is_public, addresses)):
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.host}" is not a public host: ask the user to add "{target.authority}" to '
            f'"hosts" in {USER_FILE}; this then allows only the listed hosts',
        )


def is_public(text: str) -> bool:
    """Return whether an address is public, and is no tunnel to one that is not."""
    from ipaddress import IPv4Address, ip_address, ip_network

    address = ip_address(text)
    if address in ip_network(TRANSLATED):
        address = IPv4Address(int(address) & OLD_BITS)
    if any(address in ip_network(network) for network in FURTHER):
        return False
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    return address.is_global and not special


def _entry(text: str) -> tuple[str, str]:
    """Return the host and the port that people have written; the port is empty for none."""
    if text.count(":") > 1 and not text.startswith("["):
        return host_of(text), ""
    host, _, port = text.removeprefix("[").partition("]:" if "[" in text else ":")
    return host_of(host.removesuffix("]")), port


def _unfit(why: str) -> CodedError:
    return CodedError(VALIDATION_FAILED, f"the URL {why}")


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
            raise ConnectionError("not connected")
        return self._socket


class HostAnswer:
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
) -> HostAnswer:
    """Return what the host answers; raises OSError, and the errors of the protocol of httpcore."""
    from httpcore2 import URL, HTTP11Connection, Origin, Request

    scheme, host = target.scheme.encode(), target.host.encode()
    stream: Any = line
    connection = HTTP11Connection(Origin(scheme, host, target.port), stream)
    url = URL(scheme=scheme, host=host, port=target.port, target=target.path.encode())
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        response = connection.handle_request(Request(method, url, headers=fields, content=body))
        answer = HostAnswer(response.status, response.headers)
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
        raise UnreachableError(f'unknown host "{target.host}"') from error
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
            problem = (error.strerror or "timed out").lower()
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    line.left()
    raise UnreachableError(f'cannot connect to "{target.authority}": {problem}')


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
        message = f'the certificate of "{target.host}" is not trusted: {error.verify_message}'
        raise CodedError(EXECUTION_FAILED, message) from error
    except TimeoutError:
        raise
    except OSError as error:
        reason = (getattr(error, "reason", None) or error.strerror or "connection closed").lower()
        message = f'cannot start TLS with "{target.authority}": {reason.replace("_", " ")}'
        raise CodedError(EXECUTION_FAILED, message) from error
