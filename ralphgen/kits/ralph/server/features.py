"""The tools on features and disciplines, whose rows are identified by name."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import (
    Changes,
    checked_path,
    decode_list,
    decode_strings,
    encode,
    normalise,
    now_offset,
    path_warnings,
    plain,
    refuse_blank,
    refuse_unknown,
    row_names,
    today,
)
from ralphgen.runtime.tasks.comments import signed_by
from ralphgen.runtime.values import LONG_KEY, LONGEST_NAME, PAGE, fitted, page, shortened, size

from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from difflib import SequenceMatcher
    from typing import Any

    from ralphgen.runtime.tasks import StoredTable

    from .workspace import Workspace


LONGEST_IN_CURSOR = 400  # characters of a name in a cursor
AFTER_CUT_KEY = (
    "G"  # stands after every hexadecimal digit, so behind all that begins like a cut key
)
_CURSOR = rf"[0-9A-F]{{0,{LONGEST_IN_CURSOR}}}(?:\.[bint]|\.r|{AFTER_CUT_KEY})"
REQUIRED = ("display_name", "icon")  # texts that must say something

MOST_SIMILAR = 5
SHORTEST_PREFIX = 3  # "ui" begins too many words to mean one of them
SIMILAR = 0.8  # of difflib's ratio: one letter in five may differ
SHOWN_NAME = 60  # characters of a name in a sentence

ACRONYM_LENGTH = 4  # characters of an acronym
ACRONYM_SHARES = {
    1: (4,),
    2: (2, 2),
    3: (2, 1, 1),
}  # letters of each word; of more words, one of four
LONGEST_NAMES = 8_000  # characters of display names in a page
UNKNOWN_ACRONYM = "UNKN"  # for names without a single Latin letter or digit
NUMBERED = 1_000  # collisions are numbered 001 to 999 first, in a form that people can read
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Patterns are compiled at their first use.
_NAME = "[a-z0-9]+(?:[-_][a-z0-9]+)*"
_CAMEL = "(?<=[a-z0-9])(?=[A-Z])"
_FOREIGN = "[^a-z0-9]+"
_NOT_IN_ACRONYM = "[^A-Z0-9]"
_VOWELS = "[AEIOU]"


def list_rows(
    workspace: Workspace,
    table: StoredTable,
    columns: Sequence[str],
    arguments: dict[str, Any],
    key: str,
) -> dict[str, Any]:
    """Return a page of the rows under `key`, in the order of their names."""
    limit = arguments.get("limit", PAGE)
    shown = table.available_columns([*columns, *table.added])
    after = _after(arguments)
    names = ", ".join(quoted(column) for column in shown)
    by_name = workspace.database.sql.NAME_KEY
    where = f"WHERE {by_name} > ?" if after else ""
    sql = f"SELECT {by_name}, {names} FROM {table.quoted} {where} ORDER BY 1 LIMIT ?"
    rows = workspace.database.rows(sql, [*after, limit + 1])
    total = workspace.database.rows(f"SELECT COUNT(*) FROM {table.quoted}")[0][0]
    records = [table.decoded(shown, row[1:]) for row in rows]
    cursors = [
        row[0] if len(row[0]) <= LONGEST_IN_CURSOR else row[0][:LONGEST_IN_CURSOR] + AFTER_CUT_KEY
        for row in rows
    ]
    return page(key, records, cursors, limit=limit, total=total)


def create_row(
    workspace: Workspace, table: StoredTable, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Add a named row; returns its name, its acronym and similar names.

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


def update_row(
    workspace: Workspace, table: StoredTable, arguments: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Change the given fields of a named row; returns the names of the changed fields."""
    name = arguments["name"]
    refuse_unknown(workspace.database, table, name, kind)
    refuse_blank(arguments, *REQUIRED)
    if "acronym" in arguments:
        _refuse_duplicate_name(workspace, table, arguments["acronym"], name)
    changes = Changes(workspace.work_tree, table, arguments, key="name")
    changed = changes.apply(workspace.database, "name", name, stamps={})
    return changes.answer({"name": name, "changed": changed})


def delete_row(
    workspace: Workspace, table: StoredTable, name: str, kind: str, still_named_by: Sequence[str]
) -> dict[str, Any]:
    """Delete a named row; raises `ToolError` if there is none, or if a task belongs to it.

    `still_named_by` describes the rows that still mention it.
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
    """Return the reason why a new row must not have this name, `None` if it may.

    Only new names need a form: lower-case letters and digits, with single "-" or "_" between them.
    Stored names are looked up unchanged.
    """
    if re.fullmatch(_NAME, name):
        too_long = f"a name of {len(name)} characters is too long: {LONGEST_NAME} is the most"
        return too_long if len(name) > LONGEST_NAME else None
    form = _normal_form(name) if len(name) <= SHOWN_NAME else ""
    shown = json.dumps(name[:SHOWN_NAME], ensure_ascii=not name.isprintable())
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
        if likeness >= SIMILAR:
            found.append((-likeness, other))
    return [other for _, other in sorted(found)[:MOST_SIMILAR]]


def acronym(name: str, display_name: str, taken: Collection[str]) -> str:
    """Return four characters of A-Z and 0-9 for a new row that are not in `taken`.

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
    """Return the last key before the page; none on the first page."""
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
        _refuse_duplicate_name(workspace, table, arguments["acronym"], arguments["name"])
        return str(arguments["acronym"])
    taken = {row[0] for row in workspace.database.rows(table.select(["acronym"]))}
    return acronym(arguments["name"], arguments.get("display_name", ""), taken)


def _refuse_duplicate_name(
    workspace: Workspace, table: StoredTable, wanted: str, name: str
) -> None:
    differs = workspace.database.sql.DIFFERS
    sql = table.select(["name"], f"WHERE acronym = ? AND name {differs} ?")
    row = workspace.database.row(sql, [wanted, name])
    if row:
        raise ToolError(
            f'the acronym "{wanted}" belongs to {shortened(plain(row[0]))}: use another, or omit it'
        )


def _normal_form(name: str) -> str:
    """Return a name in the form of a new one; it can be empty."""
    from unicodedata import normalize

    plain = normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    spaced = re.sub(_CAMEL, "-", plain).lower()
    return re.sub(_FOREIGN, lambda run: "_" if set(run[0]) == {"_"} else "-", spaced).strip("-_")


def _letters(name: str) -> str:
    """Return a name in one case and without separators."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _likeness(matcher: SequenceMatcher[str], letters: str, other: str) -> float:
    """Return the likeness: 2 for the same letters, 1 to 2 if one name begins with the other."""
    shorter, longer = sorted((letters, other), key=len)
    if len(shorter) >= SHORTEST_PREFIX and longer.startswith(shorter):
        return 1 + len(shorter) / len(longer)
    if len(longer) > LONGEST_NAME:
        return 0
    matcher.set_seq1(other)
    near = matcher.real_quick_ratio() >= SIMILAR and matcher.quick_ratio() >= SIMILAR
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
        return UNKNOWN_ACRONYM
    consonants = re.sub(_VOWELS, "", words[0])
    if len(words) == 1 and len(consonants) >= ACRONYM_LENGTH:
        words = [consonants]
    shares = ACRONYM_SHARES.get(len(words), (1, 1, 1, 1))
    letters = "".join(word[:share] for word, share in zip(words, shares, strict=False))
    return letters.ljust(ACRONYM_LENGTH, letters[-1])


def _candidates(wanted: str) -> Iterator[str]:
    """Yield the preferred one, then its first letter with a number, then all others."""
    yield wanted
    for number in range(1, NUMBERED):
        yield f"{wanted[0]}{number:03}"
    from itertools import product

    first = DIGITS.index(wanted[0])
    for letters in product(DIGITS[first:] + DIGITS[:first], DIGITS, DIGITS, DIGITS):
        yield "".join(letters)


def display_names(workspace: Workspace, records: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the display names of the features and disciplines of some tasks, by column and name.

    Display names that equal the name are left out, and those above the limit of the answer.
    """
    tables, room = workspace.tables, LONGEST_NAMES
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


LISTED = ("name", "display_name", "acronym", "description")
SERVERS = "mcp_servers"


@reading
def list_disciplines(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of disciplines by name (SPEC-070, category 4)."""
    return list_rows(workspace, workspace.tables.disciplines, LISTED, arguments, "disciplines")


@reading
def get_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a discipline, with masked credentials of MCP servers (SPEC-070)."""
    database, disciplines = workspace.database, workspace.tables.disciplines
    name = arguments["name"]
    refuse_unknown(workspace.database, disciplines, name, "discipline")
    columns = list(disciplines.columns)
    may_read = database.sql.can_read
    if SERVERS in columns and not may_read(database, disciplines.name, SERVERS):
        columns.remove(SERVERS)  # what stands there may be secret, and so is masked here
    row = workspace.database.row(disciplines.select(columns, "WHERE name = ?"), [name])
    record = disciplines.decoded(columns, row or ())
    if SERVERS in record or SERVERS in record.get("unreadable", {}):
        from ralphgen.runtime.processes.secrets import MASK, masked_server

        if SERVERS in record:
            record[SERVERS] = [masked_server(server) for server in record[SERVERS]]
        else:
            record["unreadable"][SERVERS] = MASK
    return fitted(record)


@writing
def create_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a discipline, by default with a new acronym (SPEC-070, category 4)."""
    return create_row(workspace, workspace.tables.disciplines, arguments, "discipline")


@writing
def update_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a discipline and no other (SPEC-070, category 4)."""
    return update_row(workspace, workspace.tables.disciplines, arguments, "discipline")


@writing
def delete_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a discipline without tasks; returns the texts that it has signed (SPEC-070)."""
    name = arguments["name"]
    signed = signed_by(workspace.database, workspace.tables, name)
    return delete_row(workspace, workspace.tables.disciplines, name, "discipline", signed)


BEST_LEARNINGS = 50  # of a feature in one answer, and the number from which on we warn
MOST_FILES = 100  # context files of a feature


@reading
def list_features(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of features by name (SPEC-070, category 3)."""
    return list_rows(workspace, workspace.tables.features, LISTED, arguments, "features")


@reading
def get_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a feature, its best learnings and its task counts (SPEC-070)."""
    features, tasks = workspace.tables.features, workspace.tables.tasks
    name = arguments["name"]
    refuse_unknown(workspace.database, features, name, "feature")
    columns = [column for column in features.columns if column != "learnings"]
    row = workspace.database.row(features.select(columns, "WHERE name = ?"), [name])
    record = features.decoded(columns, row or ())
    counted = f"SELECT status, COUNT(*) FROM {tasks.quoted} WHERE feature = ? GROUP BY status"
    by_status = workspace.database.sql.ordered("status")
    statuses = workspace.database.rows(f"{counted} ORDER BY {by_status}", [name])
    counts = {str(plain(status)): count for status, count in statuses}
    missing = [
        path
        for path in record.get("context_files", [])
        if not os.path.exists(os.path.join(workspace.work_tree, path))
    ]
    more = {"missing_files": missing, "tasks": counts, **learnings_of(workspace, name)}
    unreadable = {**record.get("unreadable", {}), **more.get("unreadable", {})}
    more = {**more, "unreadable": unreadable}
    return fitted({**record, **{key: value for key, value in more.items() if value}})


@writing
def create_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a feature, by default with a new acronym (SPEC-070, category 3)."""
    _refuse_too_many_files(arguments)
    return create_row(workspace, workspace.tables.features, arguments, "feature")


@writing
def update_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a feature and no other; learnings are unchanged (SPEC-070)."""
    _refuse_too_many_files(arguments)
    return update_row(workspace, workspace.tables.features, arguments, "feature")


@writing
def delete_feature(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a feature without tasks; returns the rows that still mention it (SPEC-070)."""
    name = arguments["name"]
    naming = _naming(workspace, name)
    return delete_row(workspace, workspace.tables.features, name, "feature", naming)


@writing
def append_feature_learning(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a learning, or count one more hit of the same (SPEC-070, category 3).

    Returns `outcome` (added, duplicate, conflict), the older learning in that case, and the count.
    Raises `ToolError` if the stored list cannot be read: it would be lost.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    refuse_unknown(workspace.database, features, name, "feature")
    refuse_blank(arguments, "text", "reason")
    from .learnings import append, decode  # a server that is just asked for its lists needs none

    text = _exact(workspace, "learnings", name)
    stored = decode(text)
    if not stored.readable:
        raise ToolError(_unreadable("learnings", name))
    outcome = append(
        stored.values,
        arguments["text"],
        source=arguments.get("source", "agent"),
        reason=arguments.get("reason"),
        task_id=arguments.get("task_id"),
        now=now_offset(),
    )
    values = {"learnings": _rewritten(text, stored.values, outcome.learnings)}
    features.update(workspace.database, "name", name, values)
    answer: dict[str, Any] = {"outcome": outcome.kind, "count": len(outcome.learnings)}
    if outcome.stored is not None:
        answer.update(stored=outcome.stored, given=outcome.text, hit_count=outcome.hit_count)
    warnings, task = list(outcome.warnings), arguments.get("task_id")
    sql = workspace.tables.tasks.select(["id"], "WHERE id = ?")
    if task is not None and workspace.database.row(sql, [task]) is None:
        warnings.append(f"there is no task {task}")
    if answer["count"] >= BEST_LEARNINGS:
        warnings.append(
            f"{answer['count']} learnings are many: readers see the best {BEST_LEARNINGS}"
        )
    return {**answer, "warnings": warnings} if warnings else answer


@writing
def add_feature_context_file(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Register a file on a feature, once (SPEC-070, category 3).

    Raises `ToolError` for a path outside the project, at 100 files, and if the stored list cannot
    be read.
    """
    features, name = workspace.tables.features, arguments["feature_name"]
    refuse_unknown(workspace.database, features, name, "feature")
    path = checked_path(arguments["file_path"], "file_path")
    stored = decode_strings(_exact(workspace, "context_files", name))
    if not stored.readable:
        raise ToolError(_unreadable("context_files", name))
    files = list(stored.values)
    added = path not in {normalise(file) for file in files}
    if added and len(files) >= MOST_FILES:
        raise ToolError(
            f"the feature {shortened(name)} has {len(files)} context files, the "
            f"maximum is {MOST_FILES}"
        )
    if added:
        values = {"context_files": encode([*files, path])}
        features.update(workspace.database, "name", name, values)
    answer = {"added": added, "path": path, "count": len(files) + added, "limit": MOST_FILES}
    warnings = path_warnings(workspace.work_tree, path)
    return {**answer, "warnings": warnings} if warnings else answer


def learnings_of(workspace: Workspace, name: str, most: int = BEST_LEARNINGS) -> dict[str, Any]:
    """Return the best learnings of a feature and their number; an unreadable list as stored."""
    features = workspace.tables.features
    if "learnings" not in features:
        return {}
    from .learnings import best, decode

    rows = workspace.database.rows(features.select(["learnings"], "WHERE name = ?"), [name])
    stored = decode(rows[0][0])
    if not stored.readable:
        return {"unreadable": {"learnings": plain(rows[0][0])}}
    return {"learnings": best(stored.values, most), "learnings_total": len(stored.values)}


def mentions(workspace: Workspace, task: int) -> list[str]:
    """Return the features that have a learning from this task."""
    features = workspace.tables.features
    if "learnings" not in features:
        return []
    from .learnings import decode

    by_name = workspace.database.sql.ordered("name")
    sql = features.select(
        ["name", "learnings"], f"WHERE CAST(learnings AS TEXT) LIKE ? ORDER BY {by_name}"
    )
    return [
        f'a learning of the feature "{plain(name)}"'
        for name, text in workspace.database.rows(sql, [f"%task_id%{task}%"])
        if any(learning.get("task_id") == task for learning in decode(text).values)
    ]


def _naming(workspace: Workspace, name: str) -> list[str]:
    """Return the other features that list this one among their dependencies."""
    features = workspace.tables.features
    if "dependencies" not in features:
        return []
    by_name = workspace.database.sql.ordered("name")
    rows = workspace.database.rows(features.select(["name", "dependencies"], f"ORDER BY {by_name}"))
    return [
        f'"dependencies" of the feature "{plain(other)}"'
        for other, stored in rows
        if other != name and name in decode_strings(stored).values
    ]


def _refuse_too_many_files(arguments: Mapping[str, Any]) -> None:
    """Raise `ToolError` for a list of context files above the limit."""
    count = len(arguments.get("context_files", ()))
    if count > MOST_FILES:
        raise ToolError(f'"context_files" has {count} files, the maximum is {MOST_FILES}')


def _exact(workspace: Workspace, column: str, name: str) -> str | None:
    """Return the exact text of a column; raises `ToolError` if it is not valid UTF-8."""
    table = workspace.tables.features.quoted
    sql = f"SELECT {workspace.database.sql.exact(column)} FROM {table} WHERE name = ?"
    raw = workspace.database.rows(sql, [name])[0][0]
    try:
        return None if raw is None else str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(_unreadable(column, name)) from error


def _unreadable(column: str, name: str) -> str:
    return (
        f'"{column}" of the feature {shortened(name)} is not a list, and adding to it would '
        "lose its content: ask the user to fix it"
    )


def _rewritten(text: object, read: Sequence[object], kept: Sequence[object]) -> str:
    """Return the list to store; unchanged learnings keep their spelling."""
    written = decode_list(text).values
    before = [
        old if new is same else new for old, same, new in zip(written, read, kept, strict=False)
    ]
    return encode([*before, *kept[len(before) :]])
