"""Puts together the lock of a project's server from the sets of packages that it imports."""

import re
from collections.abc import Collection
from pathlib import Path

LOCKS = Path(__file__).with_name("locks")
ENTRY = re.compile(r"^\S.*\n(?: .*\n)*", re.MULTILINE)


def merged_lock(needs: Collection[str]) -> str:
    """Return the lock of a server, empty if it needs no packages.

    `needs` are the names of its kits, its engine and "http"; a name without a lock needs no
    packages. All locks pin the same versions.
    """
    entries = {
        entry
        for path in LOCKS.glob("*.lock")
        if path.stem in needs
        for entry in ENTRY.findall(path.read_text(encoding="utf-8"))
    }
    return "".join(sorted(entries))
