"""Names of rows in the URIs of resources: each is one segment of a path by RFC 3986."""

from __future__ import annotations

import re

from ..errors import NotThereError
from .arguments import shortened

# What may stand in one segment of a path by RFC 3986, section 3.3; compiled at its first use.
_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def segment(name: str) -> str:
    """Return a name as a segment; all but RFC 3986's unreserved characters of it are escaped."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in name.encode("utf-8")
    )


def named(uri: str, spelled: str) -> str:
    """Return the name that a segment of a URI spells; raises `NotThereError` where it spells none.

    The URI is told in the refusal.
    """
    valid = re.match(_SEGMENT, spelled)
    at = valid.end() if valid is not None else 0
    if at < len(spelled):
        raise NotThereError(
            f"the URI {shortened(uri)} is malformed: encode {shortened(spelled[at])} in a name as "
            f'"{segment(spelled[at])}"'
        )
    escaped = re.sub("%(..)", lambda found: chr(int(found[1], 16)), spelled)
    try:
        return escaped.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotThereError(f"the URI {shortened(uri)} is malformed: it is not UTF-8") from error
