"""Spells the names of rows as URIs, and reads them back."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.values.arguments import shortened

SCHEME = "ralph://"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SPELLED = re.compile(r"ralph://([a-z]+)(?:/(.*))?", re.DOTALL)
# What may stand in one segment of a path by RFC 3986, section 3.3.
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")


def spelled(kind: str, name: str) -> str:
    """The URI of a row; all but RFC 3986's unreserved characters of its name are escaped."""
    escaped = "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in name.encode("utf-8")
    )
    return f"{SCHEME}{kind}/{escaped}"


def located(uri: str) -> tuple[str, str | None]:
    """The kind and the name that a URI stands for, None for one that names no row.

    Raises `NotThereError` for what is no URI of ours.
    """
    found = _SPELLED.fullmatch(uri)
    if found is None:
        raise NotThereError(f"there is no resource {shortened(uri)}: each begins with {SCHEME}")
    kind, segment = found.groups()
    return kind, None if segment is None else _name(uri, segment)


def _name(uri: str, segment: str) -> str:
    valid = _SEGMENT.match(segment)
    at = valid.end() if valid is not None else 0
    if at < len(segment):
        meant = spelled("", segment[at]).rpartition("/")[2]
        raise NotThereError(
            f"the URI {shortened(uri)} is malformed: in a name, {shortened(segment[at])} is "
            f'spelled "{meant}"'
        )
    escaped = re.sub("%(..)", lambda found: chr(int(found[1], 16)), segment)
    try:
        return escaped.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotThereError(f"the URI {shortened(uri)} is malformed: it is not UTF-8") from error
