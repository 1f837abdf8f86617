"""Where a request may go: what its URL names, what people have allowed, and what is public."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..failures import EXECUTION_FAILED, VALIDATION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PORTS = {"http": 80, "https": 443}  # by scheme
SAFE = "!$%&'()*+,/:;=?@[]~"  # stand in a path and a query as they are
# Not told by the standard library: tunnels to any IPv4 address, and networks of a site.
FURTHER = ("2002::/16", "2001::/32", "64:ff9b:1::/48", "fec0::/10")
TRANSLATED = "64:ff9b::/96"  # an IPv4 address for those who have none of their own
OLD_BITS = (1 << 32) - 1
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")


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
        raise _unfit("holds a blank, a backslash or a control character")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
        path = quote(parts.path or "/", safe=SAFE)
        query = quote(parts.query, safe=SAFE)
    except ValueError as error:
        raise _unfit("has a host or a port that is none") from error
    if parts.scheme not in PORTS:
        raise _unfit('must begin with "http://" or "https://"')
    if "@" in parts.netloc:
        raise _unfit('holds a name or a password: use "auth" or "headers" of the tool\'s config')
    if port == 0:
        raise _unfit("names the port 0, which is none")
    spelled = host_of(host or "")
    if not spelled:
        raise _unfit("names no host, or one that cannot be")
    target = f"{path}?{query}" if query else path
    return Target(parts.scheme, spelled, port or PORTS[parts.scheme], target)


def host_of(text: str) -> str:
    """Return a host in its one spelling: an address, or a name in small ASCII letters.

    Empty if none.
    """
    from ipaddress import IPv6Address

    try:
        if ":" in text:
            return "" if "%" in text else str(IPv6Address(text))
        name = text.encode("idna").decode().lower().removesuffix(".")
    except ValueError:
        return ""
    return name if _NAME.fullmatch(name) else ""


def check_allowed(target: Target, hosts: Sequence[str]) -> None:
    """Raise `CodedError` where people have named hosts, and not this one.

    A name without a port stands for the ports of both schemes.
    """
    ports = (str(target.port), "") if target.port == PORTS[target.scheme] else (str(target.port),)
    if hosts and not {(target.host, port) for port in ports} & {*map(_entry, hosts)}:
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.authority}" is not one of the hosts that this server may ask: a person can '
            'add it to "hosts" of [rye] in .ralph/ralphgen.toml and run "ralphgen regen"',
        )


def check_public(target: Target, addresses: Sequence[str]) -> None:
    """Raise `CodedError` where one of the addresses of a host is not public."""
    if not all(map(is_public, addresses)):
        raise CodedError(
            EXECUTION_FAILED,
            f'"{target.host}" is not a public host: a person can add "{target.authority}" to '
            '"hosts" of [rye] in .ralph/ralphgen.toml and run "ralphgen regen", which then '
            "allows no others",
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
    """Return the host and the port of what people have written.

    An empty port where they named none.
    """
    if text.count(":") > 1 and not text.startswith("["):
        return host_of(text), ""
    host, _, port = text.removeprefix("[").partition("]:" if "[" in text else ":")
    return host_of(host.removesuffix("]")), port


def _unfit(why: str) -> CodedError:
    return CodedError(VALIDATION_FAILED, f"the URL {why}")
