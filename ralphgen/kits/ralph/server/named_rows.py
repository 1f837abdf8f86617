"""Rows that go by a name: listing, adding, changing, deleting; the names of new ones."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks.rows import (
    Changes,
    plain,
    refuse_blank,
    refuse_unknown,
    row_names,
    today,
)
from ralphgen.runtime.values import LONG_KEY, LONGEST_NAME, PAGE, page, shortened, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from difflib import SequenceMatcher
    from typing import Any

    from ralphgen.runtime.tasks.rows import StoredTable

    from .workspace import Workspace

LONGEST = 400  # characters of a name in a cursor
PAST = "G"  # stands after every hexadecimal digit, so behind all that begins like a cut key
_CURSOR = rf"[0-9A-F]{{0,{LONGEST}}}(?:\.[bint]|\.r|{PAST})"
REQUIRED = ("display_name", "icon")  # texts that must say something

MOST_SIMILAR = 5
SHORTEST_PREFIX = 3  # "ui" begins too many words to mean one of them
NEAR = 0.8  # of difflib's ratio: one letter in five may differ
SHOWN = 60  # characters of a name in a sentence

LENGTH = 4  # characters of an acronym
SHARES = {1: (4,), 2: (2, 2), 3: (2, 1, 1)}  # letters of each word; of more words, one of four
NAMES = 8_000  # characters of display names in a page
UNKNOWN = "UNKN"  # for names without a single Latin letter or digit
COUNTED = 1_000  # collisions are numbered 001 to 999 first, in a form that people can read
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Patterns are compiled at their first use.
_NAME = "[a-z0-9]+(?:[-_][a-z0-9]+)*"
_CAMEL = "(?<=[a-z0-9])(?=[A-Z])"
_FOREIGN = "[^a-z0-9]+"
_NOT_IN_ACRONYM = "[^A-Z0-9]"
_VOWELS = "[AEIOU]"


def listed(
    workspace: Workspace,
    table: StoredTable,
    columns: Sequence[str],
    arguments: dict[str, Any],
    key: str,
) -> dict[str, Any]:
    """Return a page of the rows under `key`, in the order of their names."""
    limit = arguments.get("limit", PAGE)
    shown = table.chosen([*columns, *table.added])
    after = _after(arguments)
    names = ", ".join(quoted(column) for column in shown)
    by_name = workspace.database.sql.NAME_KEY
    where = f"WHERE {by_name} > ?" if after else ""
    sql = f"SELECT {by_name}, {names} FROM {table.quoted} {where} ORDER BY 1 LIMIT ?"
    rows = workspace.database.rows(sql, [*after, limit + 1])
    total = workspace.database.rows(f"SELECT COUNT(*) FROM {table.quoted}")[0][0]
    records = [table.decoded(shown, row[1:]) for row in rows]
    cursors = [row[0] if len(row[0]) <= LONGEST else row[0][:LONGEST] + PAST for row in rows]
    return page(key, records, cursors, limit=limit, total=total)


def created(
    workspace: Workspace, table: StoredTable, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Add a named row; answers its name, its acronym and names that are much like it.

    Raises `ToolError` for a name that is taken or malformed, and for an acronym that is taken.
    """
    name = arguments["name"]
    refuse_blank(arguments, *REQUIRED)
    problem = name_problem(name)
    if problem:
        raise ToolError(problem)
    names = row_names(workspace.database, table)
    if name in names:
        raise ToolError(
            f"the {kind} {shortened(name)} already exists: change it, or use another name"
        )
    changes = Changes(workspace.work_tree, table, arguments)
    answer: dict[str, Any] = {"name": name}
    if "acronym" in table:
        answer["acronym"] = _acronym(workspace, table, arguments)
    table.insert(workspace.database, {"created": today(), **changes.values, **answer})
    near = similar(name, names)
    return changes.answer({**answer, "similar": near} if near else answer)


def updated(
    workspace: Workspace, table: StoredTable, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Change the given fields of a named row; answers the names of those that differ now."""
    name = arguments["name"]
    refuse_unknown(workspace.database, table, name, kind)
    refuse_blank(arguments, *REQUIRED)
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], name)
    changes = Changes(workspace.work_tree, table, arguments, key="name")
    changed = changes.apply(workspace.database, "name", name, stamps={})
    return changes.answer({"name": name, "changed": changed})


def deleted(
    workspace: Workspace, table: StoredTable, name: str, kind: str, still_named_by: Sequence[str]
) -> dict[str, Any]:
    """Delete a named row; raises `ToolError` where there is none, or a task belongs to it.

    `still_named_by` says in words what goes on naming the row.
    """
    refuse_unknown(workspace.database, table, name, kind)
    tasks = workspace.tables.tasks
    sql = tasks.select(["id", "title"], f"WHERE {kind} = ? ORDER BY id LIMIT 1")
    row = workspace.database.row(sql, [name])
    if row:
        title = shortened(plain(row[1]))
        raise ToolError(
            f"the {kind} {shortened(name)} cannot be deleted: task {row[0]} {title} belongs to it"
        )
    workspace.database.change(f"DELETE FROM {table.quoted} WHERE name = ?", [name])
    answer: dict[str, Any] = {"deleted": name}
    return {**answer, "still_named_by": still_named_by} if still_named_by else answer


def name_problem(name: str) -> str | None:
    """Return one sentence on why nothing new may have this name, `None` where it may.

    Names are looked up exactly as they are stored, so only new ones are held to a form: lower-case
    letters and digits, with single "-" or "_" between them.
    """
    if re.fullmatch(_NAME, name):
        too_long = f"a name of {len(name)} characters is too long: {LONGEST_NAME} is the most"
        return too_long if len(name) > LONGEST_NAME else None
    form = _normal_form(name) if len(name) <= SHOWN else ""
    shown = json.dumps(name[:SHOWN], ensure_ascii=not name.isprintable())
    hint = f': use "{form}"' if form else ""
    return (
        f"invalid name {shown}: use lower-case letters and digits, "
        f'separated by single "-" or "_"{hint}'
    )


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five of the `known` names that may mean the same, the likeliest first.

    One is similar if it begins with the other ("auth", "authentication") or is spelled much
    alike. Case, hyphens, underscores and spaces do not count; the order of `known` neither.
    """
    letters = _letters(name)
    if not letters or len(name) > LONGEST_NAME:
        return []
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=letters, autojunk=False)
    found: list[tuple[float, str]] = []
    for other in set(known) - {name}:
        likeness = _likeness(matcher, letters, _letters(other))
        if likeness >= NEAR:
            found.append((-likeness, other))
    return [other for _, other in sorted(found)[:MOST_SIMILAR]]


def acronym(name: str, display_name: str, taken: Collection[str]) -> str:
    """Return four characters of A-Z and 0-9 for a new row, none of those in `taken`.

    They come from the display name if it has several words, else from the name. The same
    arguments give the same answer. Raises `ToolError` where all 36^4 are taken.
    """
    several = " " in display_name.strip()
    words = (_words(display_name) if several else []) or _words(name) or _words(display_name)
    for candidate in _candidates(_initials(words)):
        if candidate not in taken:
            return candidate
    raise ToolError("no acronym is available: all with four letters or digits are taken")


def _after(arguments: dict[str, Any]) -> list[str]:
    """Return the key after which the page begins; none on the first page."""
    cursor = arguments.get("cursor")
    if cursor is None:
        return []
    if not re.fullmatch(_CURSOR, cursor):
        raise ToolError(
            f'invalid cursor {shortened(cursor)}: use "next_cursor" of a page, '
            "or omit it to start at the beginning"
        )
    return [cursor]


def _acronym(workspace: Workspace, table: StoredTable, arguments: dict[str, Any]) -> str:
    if "acronym" in arguments:
        _refuse_taken(workspace, table, arguments["acronym"], arguments["name"])
        return str(arguments["acronym"])
    taken = {row[0] for row in workspace.database.rows(table.select(["acronym"]))}
    return acronym(arguments["name"], arguments.get("display_name", ""), taken)


def _refuse_taken(workspace: Workspace, table: StoredTable, wanted: str, name: str) -> None:
    differs = workspace.database.sql.DIFFERS
    sql = table.select(["name"], f"WHERE acronym = ? AND name {differs} ?")
    row = workspace.database.row(sql, [wanted, name])
    if row:
        raise ToolError(
            f'the acronym "{wanted}" belongs to {shortened(plain(row[0]))}: use another, or omit it'
        )


def _normal_form(name: str) -> str:
    """Return a name in the form of a new one; empty where nothing of it is left."""
    from unicodedata import normalize

    plain = normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    spaced = re.sub(_CAMEL, "-", plain).lower()
    return re.sub(_FOREIGN, lambda run: "_" if set(run[0]) == {"_"} else "-", spaced).strip("-_")


def _letters(name: str) -> str:
    """Return a name without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _likeness(matcher: SequenceMatcher[str], letters: str, other: str) -> float:
    """Return the likeness: 2 for the same letters, 1 to 2 where one name begins the other."""
    shorter, longer = sorted((letters, other), key=len)
    if len(shorter) >= SHORTEST_PREFIX and longer.startswith(shorter):
        return 1 + len(shorter) / len(longer)
    if len(longer) > LONGEST_NAME:
        return 0
    matcher.set_seq1(other)
    near = matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR
    return matcher.ratio() if near else 0


def _words(text: str) -> list[str]:
    """Return the words in A-Z and 0-9: accents are dropped, "-" and "_" separate words."""
    if not text.isascii():
        from unicodedata import normalize

        text = normalize("NFKD", text)
    spaced = text.upper().replace("-", " ").replace("_", " ")
    words = (re.sub(_NOT_IN_ACRONYM, "", word) for word in spaced.split())
    return [word for word in words if word]


def _initials(words: list[str]) -> str:
    """Return the first letters that stand for the words, filled up with the last of them."""
    if not words:
        return UNKNOWN
    consonants = re.sub(_VOWELS, "", words[0])
    if len(words) == 1 and len(consonants) >= LENGTH:
        words = [consonants]
    shares = SHARES.get(len(words), (1, 1, 1, 1))
    letters = "".join(word[:share] for word, share in zip(words, shares, strict=False))
    return letters.ljust(LENGTH, letters[-1])


def _candidates(wanted: str) -> Iterator[str]:
    """Yield the wanted one, then its first letter with a number, then every one there is."""
    yield wanted
    for number in range(1, COUNTED):
        yield f"{wanted[0]}{number:03}"
    from itertools import product

    first = DIGITS.index(wanted[0])
    for letters in product(DIGITS[first:] + DIGITS[:first], DIGITS, DIGITS, DIGITS):
        yield "".join(letters)


def display_names(workspace: Workspace, records: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return, by column and name, what people call the features and disciplines of some tasks.

    Those that people call by their name are left out, and those that there is no room for.
    """
    tables, room = workspace.tables, NAMES
    by_name = workspace.database.sql.ordered("name")
    shown: dict[str, dict[str, str]] = {}
    for column, table in (("feature", tables.features), ("discipline", tables.disciplines)):
        names = {name for record in records if len(name := str(record.get(column))) <= LONG_KEY}
        if "display_name" not in table or not names:
            continue
        where = f"WHERE name IN ({', '.join('?' * len(names))}) ORDER BY {by_name}"
        sql = table.select(["name", "display_name"], where)
        for name, stored in workspace.database.rows(sql, sorted(names)):
            called = str(plain(stored or name))[:LONG_KEY]
            room -= size({name: called})
            if called != name and room > 0:
                shown.setdefault(column, {})[name] = called
    return shown
