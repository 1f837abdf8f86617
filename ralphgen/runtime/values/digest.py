"""Gives sha256 digests without hashlib, which would load OpenSSL at every start."""

from __future__ import annotations

try:
    from _sha2 import sha256  # CPython 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256  # CPython 3.11
    except ImportError:
        from hashlib import sha256  # a Python built without its own digests


def sha256_hex(data: bytes) -> str:
    """Return the sha256 of `data` as 64 lower-case hex digits."""
    digest: str = sha256(data).hexdigest()
    return digest
