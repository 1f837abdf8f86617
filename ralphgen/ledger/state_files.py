"""Makes rows of what the state files of a machine hold, and files of the rows again."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import ProjectError
from ralphgen.runtime.engine.entries import KEPT
from ralphgen.runtime.files import read_file, reason
from ralphgen.runtime.files.entry_log import write_entry

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

STATE_FILES = ("progress.txt", "learnings.txt")
MOST = 1 << 30  # bytes of a file

_ENTRY = re.compile(r"^(?=[^ \t\r\n])", re.MULTILINE)
_ROWS = f"SELECT entry FROM {KEPT} WHERE file = ? ORDER BY number"
_ADD = (
    f"INSERT INTO {KEPT} (file, entry) SELECT ?::text, one FROM unnest(?::text[]) "
    "WITH ORDINALITY AS its (one, place) ORDER BY place"
)


def entries_of(path: Path) -> list[str]:
    """Return the entries of a state file, in its order; none where there is no file.

    Bytes that are not UTF-8 and U+0000, which rows cannot hold, become U+FFFD. Raises
    `ProjectError` if the file cannot be read.
    """
    try:
        data, _ = read_file(str(path), MOST)
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f'"{path.name}" cannot be read: {reason(error)}'
        raise ProjectError(text, "move it elsewhere, or make it readable") from error
    text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    return [piece.removesuffix("\n") for piece in _ENTRY.split(text) if piece]


def take_in(database: "Database", folder: Path) -> int:
    """Make rows of the entries of the files in a folder, where there are no rows; return how many.

    The caller is in a transaction of `database.writing`. The files stay. Raises
    `ProjectError` as `entries_of` does.
    """
    if database.row(f"SELECT 1 FROM {KEPT} LIMIT 1") is not None:
        return 0
    found = {file: entries_of(folder / file) for file in STATE_FILES}
    for file, entries in found.items():
        database.change(_ADD, [file, entries])
    return sum(map(len, found.values()))


def take_in_others(database: "Database", folder: Path) -> int:
    """Make rows of those entries of the files in a folder that are none yet; return how many.

    They are those of a machine whose files were not there when the others' became rows. The caller
    is in a transaction as for `take_in`.
    """
    added = 0
    for file in STATE_FILES:
        entries = entries_of(folder / file)
        left = _others(database, file, entries)
        found = []
        for entry in entries:
            if left[entry]:
                left[entry] -= 1
                found.append(entry)
        database.change(_ADD, [file, found])
        added += len(found)
    return added


def move_in(database: "Database", folder: Path) -> tuple[int, tuple[str, ...]]:
    """Make rows as `take_in`; return how many, and what is to be told of the files."""
    names = " and ".join(STATE_FILES)
    found = {file: entries_of(folder / file) for file in STATE_FILES}
    if database.row("SELECT to_regclass(?) IS NOT NULL", [KEPT]) != (1,):
        told = f"left out: {names}; without a ledger they remain files"
        return 0, (told,) * any(found.values())
    if not any(_others(database, file, entries) for file, entries in found.items()):
        return 0, ()
    added = take_in(database, folder)
    if not added:
        return 0, (f"left out: {names}; the database already has such entries",)
    return added, (f"moved the entries of {names} into the database; the files are no longer read",)


def give_back(database: "Database", folder: Path) -> None:
    """Add the entries that are rows to the files in a folder, but for those that these hold.

    The caller is in a transaction. Raises `ProjectError` and `ToolError` where a file cannot be
    read or written.
    """
    for file in STATE_FILES:
        known = Counter(entries_of(folder / file))
        for (entry,) in database.rows(_ROWS, [file]):
            if known[entry]:
                known[entry] -= 1
            else:
                write_entry(str(folder / file), entry)


def _others(database: "Database", file: str, entries: Sequence[str]) -> Counter[str]:
    """Return those entries of a file that are none of its rows."""
    return Counter(entries) - Counter(entry for (entry,) in database.rows(_ROWS, [file]))
