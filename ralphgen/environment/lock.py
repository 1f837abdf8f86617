"""The dependencies of every emitted server, pinned with hashes."""

from pathlib import Path

LOCK_NAME = "requirements.lock"


def read_lock() -> str:
    """The text of the lock that ships with this ralphgen."""
    return Path(__file__).with_name(LOCK_NAME).read_text(encoding="utf-8")
