"""Reads tasks of other tools: Backlog.md, beads, Spec Kit and Task Master."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.exchange.rows import read_peer_text
from ralphgen.runtime.files.yaml import YamlError, read_texts

Keys = tuple[str, ...]
PRIORITIES = ("low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class PeerComment:
    """A comment on a task, and its time: an ISO time, empty if unknown."""

    author: str
    body: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class PeerTask:
    """A task of another tool; `key` is its id there, `depends_on` are keys of others.

    `status` is one of ours, and so is `priority`, which may be empty. Days are ISO.
    """

    key: str
    title: str
    description: str = ""
    status: str = "pending"
    priority: str = ""
    tags: Keys = ()
    depends_on: Keys = ()
    acceptance_criteria: Keys = ()
    context_files: Keys = ()
    hints: str = ""
    blocked_by: str = ""
    created: str = ""
    updated: str = ""
    completed: str = ""
    comments: tuple[PeerComment, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that was not read, and the reason; `key` is empty if its id is unknown."""

    place: str
    reason: str
    key: str = ""

    def __str__(self) -> str:
        """Return the record as one line for people."""
        return f"{self.place}: {self.reason}"


@dataclass(slots=True)
class PeerRecords:
    """The tasks of a file or folder, and the records that are none."""

    tasks: list[PeerTask] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)

    def add(self, place: object, read: Callable[[], PeerTask], key: str = "") -> PeerTask | None:
        """Add the task that `read` returns, or leave its record out if it is unreadable."""
        try:
            task = read()
        except ProjectError as error:
            self.leave_out(place, error.problems[0].text, key)
            return None
        if not task.title.strip():
            self.leave_out(place, f'"{task.key}" has no title', key)
            return None
        if task.key in self._keys:
            self.leave_out(place, f'duplicate id "{task.key}"', key)
            return None
        self._keys.add(task.key)
        self.tasks.append(task)
        return task

    def leave_out(self, place: object, reason: str, key: str = "") -> None:
        """Count a record that becomes no task."""
        shown = f"{place}: "
        self.left_out.append(LeftOut(str(place), reason.removeprefix(shown), key))

    def wait_for(self, key_of: Callable[[str], str | None]) -> None:
        """Replace each key that tasks wait for by another, or by none."""
        for at, task in enumerate(self.tasks):
            keys = dict.fromkeys(map(key_of, task.depends_on))
            self.tasks[at] = replace(task, depends_on=tuple(key for key in keys if key))

    def status(self, name: str, known: Mapping[str, str], order: Sequence[str] = ()) -> str:
        """Return our status for a peer's: by name, else by its place in the peer's order."""
        folded, names = name.casefold(), [one.casefold() for one in order]
        if folded in known:
            return known[folded]
        status = "in_progress"
        if folded in names:
            by_place = {0: "pending", len(names) - 1: "done"}
            status = by_place.get(names.index(folded), status)
        self.notes[f'the status "{name}" of the other tool becomes "{status}"'] = None
        return status


Reader = Callable[[Path], PeerRecords]
"""Reads a file or folder; raises `ProjectError` if no record of it can be read."""


def broken(place: object, why: str, hint: str = "") -> ProjectError:
    """Return the error for a file or record in a format that the peer does not write."""
    return ProjectError(f"{place}: {why}", hint)


def text_of(value: Any, place: object, name: str) -> str:
    """Return a text of a peer's file, empty for none; a number is read as its digits."""
    if value is None:
        return ""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value).encode("utf-8", "replace").decode()
    raise broken(place, f'"{name}" is not a string')


def texts_of(value: Any, place: object, name: str) -> Keys:
    """Return a list of texts of a peer's file; a text alone is a list of one."""
    items = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(text for item in items if (text := text_of(item, place, name)))


def list_of_objects(value: Any, place: object, name: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects of a peer's file; none for null."""
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise broken(place, f'"{name}" is not a list of objects')
    return items


def waiting_for_parts(
    tasks: Sequence[PeerTask], parts: Mapping[str, Sequence[str]]
) -> list[PeerTask]:
    """Return the tasks so that each waits for its parts, by key, and these for its dependencies.

    A part that itself waits for the whole, directly or not, is not added to the dependencies of the
    whole.
    """
    known = {task.key: task for task in tasks}
    for whole, keys in parts.items():
        if whole not in known:
            continue
        waited_for = known[whole].depends_on
        for key in keys:
            part = known[key]
            more = [one for one in waited_for if not _waits(known, one, key)]
            known[key] = replace(part, depends_on=_joined(part.depends_on, more))
        free = [key for key in keys if not _waits(known, key, whole)]
        known[whole] = replace(known[whole], depends_on=_joined(waited_for, free))
    return [*known.values()]


def _joined(keys: Keys, more: Iterable[str]) -> Keys:
    return tuple(dict.fromkeys([*keys, *more]))


def _waits(known: Mapping[str, PeerTask], task: str, other: str) -> bool:
    """Return whether a task is another one, or waits for it in whatever way."""
    seen, left = set[str](), [task]
    while left:
        key = left.pop()
        if key == other:
            return True
        if key in known and key not in seen:
            seen.add(key)
            left.extend(known[key].depends_on)
    return False


FOLDERS = ("tasks", "completed", "drafts")
CONFIGS = ("config.yml", "config.yaml", "backlog.config.yml", "backlog/config.yml")
BACKLOG_STATUSES = {
    "to do": "pending",
    "todo": "pending",
    "in progress": "in_progress",
    "in review": "in_progress",
    "blocked": "blocked",
    "done": "done",
    "draft": "draft",
}
_FRONT = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_ENTRY = re.compile(r"^([A-Za-z_]\w*):(.*(?:\n(?:[ \t#-].*)?)*)", re.MULTILINE)
_FLOW_LIST = re.compile(r"\[(.*)\](?:\s+#.*)?")
_SECTION = re.compile(
    r"<!-- SECTION:([A-Z_]+):BEGIN -->\n(.*?)\n?<!-- SECTION:\1:END -->", re.DOTALL
)
_HEADED = re.compile(r"^## (.+?)[ \t]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEADINGS = {  # of older versions, which write no marks
    "description": "DESCRIPTION",
    "implementation plan": "PLAN",
    "implementation notes": "NOTES",
    "final summary": "FINAL_SUMMARY",
    "acceptance criteria": "CRITERIA",
}
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_CRITERIA = re.compile(r"<!-- AC:BEGIN -->\n(.*?)<!-- AC:END -->", re.DOTALL)
_CRITERION = re.compile(r"- \[[ xX]\] (?:#[0-9]+ )?(.+)")
_COMMENTS = re.compile(r"<!-- COMMENTS:BEGIN -->\n(.*?)<!-- COMMENTS:END -->", re.DOTALL)
_COMMENT = re.compile(r"((?:(?:author|created): .*\n)+)---\n(.*?)\n---(?:\n|$)", re.DOTALL)
_HEADER = re.compile(r"(author|created): (.*)")


def read_backlog(path: Path) -> PeerRecords:
    """Return the tasks and drafts of a folder, or of one file, without archived ones."""
    records = PeerRecords()
    parts: dict[str, list[str]] = {}
    files = _backlog_files(path)
    above = [path, *path.parents[:2]] if path.is_dir() else [*path.parents[:3]]
    statuses = _config(above).get("statuses")
    order = [one for one in statuses if isinstance(one, str)] if isinstance(statuses, list) else ()
    for file in files:
        try:
            front, body = _split(file)
            whole = text_of(front.get("parent_task_id"), file, "parent_task_id")
        except ProjectError as error:
            records.leave_out(file, error.problems[0].text, _key(file))
            continue
        read = partial(_backlog_task, front, body, file, records, order)
        if (task := records.add(file, read, _key(file))) is not None and whole:
            parts.setdefault(whole, []).append(task.key)
    keys = [*(task.key for task in records.tasks), *(one.key for one in records.left_out)]
    known = {_canonical(key): key for key in reversed(keys)}
    records.wait_for(lambda key: known.get(_canonical(key), key))
    parts = {known.get(_canonical(whole), whole): keys for whole, keys in parts.items()}
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _backlog_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    config = _config([path])
    names = (str(config.get("backlog_directory") or "backlog"), ".backlog")
    inner = next((path / name for name in names if _is_below(path, name)), path)
    files = [file for folder in FOLDERS for file in (inner / folder).glob("*.md") if file.is_file()]
    if not files:
        raise broken(path, "not a Backlog.md directory: it has no tasks/*.md")
    return sorted(files, key=_numbers)


def _is_below(path: Path, name: str) -> bool:
    """Return whether a name is that of a folder within a folder."""
    return (path / name).is_dir() and (path / name).resolve().is_relative_to(path.resolve())


def _numbers(file: Path) -> tuple[list[int], str]:
    """Return what sorts files by the numbers of their tasks."""
    number = re.search(r"-([0-9.]+)", file.name)
    parts = number[1].split(".") if number else []
    return [int(part) for part in parts if part], file.name


def _key(file: Path) -> str:
    """Return the id that a file's name begins with, such as TASK-1.2; empty if it has none."""
    named = re.match(r"[A-Za-z]+-[0-9.]*[0-9]", file.name)
    return named[0].upper() if named else ""


def _canonical(key: str) -> str:
    """Return a canonical form that is equal for task-1, TASK-1, TASK-01 and 1, as in Backlog.md."""
    prefix, _, number = key.upper().rpartition("-")
    return f"{prefix or 'TASK'}-{re.sub(r'(?<![0-9])0+(?=[0-9])', '', number)}"


def _config(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the first configuration of a project in the folders."""
    places = (folder / name for folder in folders for name in CONFIGS)
    file = next((place for place in places if place.is_file()), None)
    return _entries(read_peer_text(file).replace("\r\n", "\n")) if file else {}


def _split(file: Path) -> tuple[Mapping[str, Any], str]:
    """Return the values in front of a file, and its body."""
    found = _FRONT.match(read_peer_text(file).replace("\r\n", "\n"))
    if found is None:
        raise broken(file, "does not start with YAML between two lines of ---")
    front = _entries(found[1])
    if not front.get("id"):
        raise broken(file, 'its YAML has no "id"')
    return front, found[2]


def _entries(text: str) -> dict[str, Any]:
    """Return the top-level values of YAML; a value that YAML rejects is read as plain text.

    Backlog.md quotes such values itself, for example "@ann" and "[@ann, @ben]".
    """
    with suppress(YamlError):
        values = read_texts(text).value
        return values if isinstance(values, dict) else {}
    entries: dict[str, Any] = {}
    for name, raw in _ENTRY.findall(text):
        try:
            entries |= read_texts(f"{name}:{raw}").value
        except YamlError:
            listed = _FLOW_LIST.fullmatch(raw.strip())
            items = [one.strip().strip("\"'") for one in (listed[1] if listed else "").split(",")]
            entries[name] = [*filter(None, items)] if listed else raw.strip().strip("\"'")
    return entries


def _backlog_task(
    front: Mapping[str, Any], body: str, file: Path, records: PeerRecords, order: Sequence[str]
) -> PeerTask:
    status = text_of(front.get("status"), file, "status")
    known = records.status(status, BACKLOG_STATUSES, order) if status else "pending"
    sections = _sections(body)
    priority = text_of(front.get("priority"), file, "priority").casefold()
    described = [sections[name] for name in ("DESCRIPTION", "PLAN") if sections.get(name)]
    updated = text_of(front.get("updated_date"), file, "updated_date")[:10]
    said = [sections[name] for name in ("NOTES", "FINAL_SUMMARY") if sections.get(name)]
    return PeerTask(
        text_of(front["id"], file, "id"),
        text_of(front.get("title"), file, "title"),
        description="\n\n".join(described),
        status=known,
        priority=priority if priority in PRIORITIES else "",
        tags=_front_list(front, "labels", file),
        depends_on=_front_list(front, "dependencies", file),
        acceptance_criteria=tuple(
            criterion[1]
            for text in sections.get("CRITERIA", "").splitlines()
            if (criterion := _CRITERION.match(text))
        ),
        context_files=_front_list(front, "references", file),
        blocked_by="blocked in Backlog.md" if known == "blocked" else "",
        created=text_of(front.get("created_date"), file, "created_date")[:10],
        updated=updated,
        completed=updated if known == "done" else "",
        comments=(*_backlog_comments(body), *(PeerComment("backlog", text) for text in said)),
    )


def _front_list(front: Mapping[str, Any], name: str, file: Path) -> tuple[str, ...]:
    return tuple(text for text in texts_of(front.get(name), file, name) if text not in _NULLS)


def _sections(body: str) -> dict[str, str]:
    """Return the texts of a body by their names: those between marks, else those below headings."""
    sections = {
        _HEADINGS[heading.casefold()]: text.strip()
        for heading, text in _HEADED.findall(body)
        if heading.casefold() in _HEADINGS
    }
    criteria = {"CRITERIA": found[1]} if (found := _CRITERIA.search(body)) else {}
    return sections | {name: text.strip() for name, text in _SECTION.findall(body)} | criteria


def _backlog_comments(body: str) -> Iterator[PeerComment]:
    block = _COMMENTS.search(body)
    for header, text in _COMMENT.findall(block[1]) if block else ():
        facts = dict(_HEADER.findall(header))
        moment = facts.get("created", "").replace(" ", "T")
        yield PeerComment(
            facts.get("author", "backlog"), text.strip(), f"{moment}:00Z" if moment else ""
        )


BEADS_FILES = (
    "",
    "issues.jsonl",
    "beads.jsonl",
    ".beads/issues.jsonl",
    ".beads/beads.jsonl",
)
BEADS_STATUSES = {
    "open": "pending",
    "in_progress": "in_progress",
    "hooked": "in_progress",
    "blocked": "blocked",
    "deferred": "draft",
    "pinned": "pending",
    "closed": "done",
}
REMOVED = "tombstone"
BEADS_PRIORITIES = {"0": "critical", "1": "high", "2": "medium", "3": "low", "4": "low"}
ISSUE = "issue"
PART = "parent-child"
BLOCKS = ("blocks", "conditional-blocks", "waits-for")  # links that block an issue


def read_beads(path: Path) -> PeerRecords:
    """Return the issues as tasks; a line that is not an issue is left out.

    An epic waits for its parts. A "related" link is not a dependency.
    """
    file = next((path / place for place in BEADS_FILES if (path / place).is_file()), path)
    if file.is_dir():
        raise broken(file, "contains no issues.jsonl", "run: bd export -o .beads/issues.jsonl")
    records = PeerRecords()
    parts: dict[str, list[str]] = {}
    removed: set[str] = set()  # no other issue waits for these
    for number, line in enumerate(read_peer_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            records.leave_out(place, "invalid JSON")
            continue
        kind = entry.get("_type", ISSUE) if isinstance(entry, dict) else ISSUE
        if kind != ISSUE:
            records.leave_out(place, f"a record of type {json.dumps(kind)[:60]}, not an issue")
        elif not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            records.leave_out(place, 'expected an issue, an object with an "id"')
        elif entry.get("status") == REMOVED:
            removed.add(entry["id"])
        else:
            read = partial(_bead_task, entry, place, records)
            if (task := records.add(place, read, entry["id"])) is not None:
                for whole in _linked(entry, place, PART):
                    parts.setdefault(whole, []).append(task.key)
    records.wait_for(lambda key: None if key in removed else key)
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _bead_task(entry: Mapping[str, Any], place: str, records: PeerRecords) -> PeerTask:
    texts = {
        name: text_of(entry.get(name), place, name)
        for name in (
            "id",
            "title",
            "description",
            "design",
            "acceptance_criteria",
            "notes",
            "status",
            "priority",
            "close_reason",
            "created_at",
            "updated_at",
            "closed_at",
        )
    }
    _linked(entry, place, PART)  # an unreadable list is a fault of the record
    status = records.status(texts["status"] or "open", BEADS_STATUSES)
    criteria = texts["acceptance_criteria"]
    closed = PeerComment("beads", texts["close_reason"], texts["closed_at"])
    return PeerTask(
        texts["id"],
        texts["title"],
        description="\n\n".join(text for text in (texts["description"], texts["design"]) if text),
        status=status,
        priority=BEADS_PRIORITIES.get(texts["priority"], ""),
        tags=texts_of(entry.get("labels"), place, "labels"),
        depends_on=tuple(_linked(entry, place, *BLOCKS)),
        acceptance_criteria=(criteria,) if criteria else (),
        hints=texts["notes"],
        blocked_by="blocked in beads" if status == "blocked" else "",
        created=texts["created_at"][:10],
        updated=texts["updated_at"][:10],
        completed=texts["closed_at"][:10],
        comments=(*_bead_comments(entry, place), *([closed] if closed.body else [])),
    )


def _linked(entry: Mapping[str, Any], place: str, *kinds: str) -> list[str]:
    """Return the ids of the issues that one depends on in one of these ways."""
    return [
        text_of(one.get("depends_on_id"), place, "depends_on_id")
        for one in list_of_objects(entry.get("dependencies"), place, "dependencies")
        if one.get("type", BLOCKS[0]) in kinds
    ]


def _bead_comments(entry: Mapping[str, Any], place: str) -> list[PeerComment]:
    return [
        PeerComment(
            *(text_of(one.get(name), place, name) for name in ("author", "text", "created_at"))
        )
        for one in list_of_objects(entry.get("comments"), place, "comments")
    ]


FILE = "tasks.md"
_TASK = re.compile(r"\s*[-*] \[([ xX])\] (T[0-9]+[a-z]?)\s+((?:\[[^\]\s]+\]\s+)*)(\S.*)")
_BOX = re.compile(r"[-*] \[[ xX]\] ")
_PHASE = re.compile(r"##\s+(Phase.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_DEPENDS = re.compile(r"\(depends on ([^)]*)\)", re.IGNORECASE)
_ID = re.compile(r"T[0-9]+[a-z]?")
PARALLEL = "P"


def read_spec_kit(path: Path) -> PeerRecords:
    """Return the tasks of a file, of a feature's folder, or of all features of a project.

    The id of a task begins with its feature's folder. A task waits for the one before it.
    Consecutive tasks with `[P]` wait for the task before the row, and the next task waits for the
    whole row. Raises `ProjectError` if there are none.
    """
    records = PeerRecords()
    for file in _spec_files(path):
        for place, task in _read(file, records):
            records.add(place, partial(_same, task), task.key)
    if not records.tasks:
        raise broken(path, 'contains no task such as "- [ ] T001 Create the folders"')
    return records


def _same(task: PeerTask) -> PeerTask:
    return task


def _spec_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / FILE).is_file():
        return [path / FILE]
    specs = path / "specs" if (path / "specs").is_dir() else path
    return sorted(file for file in specs.glob(f"*/{FILE}") if file.is_file())


def _read(file: Path, records: PeerRecords) -> Iterator[tuple[str, PeerTask]]:
    spec = file.resolve().parent.name
    phase, seen = "", set[str]()
    before: tuple[str, ...] = ()  # the group waits for these
    group: tuple[str, ...] = ()
    is_parallel = False
    for number, line in _lines(read_peer_text(file)):
        if heading := _PHASE.match(line):
            phase = heading[1].strip()
        if (found := _TASK.match(line)) is None:
            if _BOX.match(line):
                records.leave_out(f"{file}:{number}", "a checkbox without an id such as T001")
            continue
        mark, name, labels, title = found.groups()
        key = f"{spec}/{name}"
        if key in seen:
            records.leave_out(f"{file}:{number}", f"duplicate {name}", key)
            continue
        marks = re.findall(r"\[([^\]]+)\]", labels)
        if not (is_parallel and PARALLEL in marks):
            before, group = group or before, ()
        is_parallel = PARALLEL in marks
        group = (*group, key)
        named = [f"{spec}/{one}" for part in _DEPENDS.findall(title) for one in _ID.findall(part)]
        seen.add(key)
        task = PeerTask(
            key,
            title.strip(),
            description=phase,
            status="pending" if mark == " " else "done",
            tags=tuple(label for label in marks if label != PARALLEL),
            depends_on=tuple(dict.fromkeys([*before, *(one for one in named if one in seen)])),
        )
        yield f"{file}:{number}", task


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fences and comments, with their numbers."""
    fence, comment = "", False
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and not comment and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            comment = comment or line.lstrip().startswith("<!--")
            if not comment:
                yield number, line
            comment = comment and "-->" not in line


TASK_MASTER_FILES = ("", ".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json")
DEFAULT = "master"
TASK_MASTER_STATUSES = {
    "pending": "pending",
    "in-progress": "in_progress",
    "review": "in_progress",
    "done": "done",
    "completed": "done",
    "deferred": "draft",
    "cancelled": "skipped",
    "blocked": "blocked",
}


def read_task_master(path: Path) -> PeerRecords:
    """Return the tasks of all tags, with the ids `tag/7` and, for a part, `tag/7.2`.

    Raises `ProjectError` if the file is not JSON of task-master's form.
    """
    file = next((path / place for place in TASK_MASTER_FILES if (path / place).is_file()), path)
    if file.is_dir():
        raise broken(file, f"contains no {TASK_MASTER_FILES[1]}")
    try:
        found = json.loads(read_peer_text(file))
    except (ValueError, RecursionError) as error:
        raise broken(file, "invalid JSON") from error
    if isinstance(found, dict) and "tasks" in found:  # before there were tags
        found = {DEFAULT: found}
    tags = found.items() if isinstance(found, dict) else ()
    if not any(isinstance(listed, dict) and "tasks" in listed for _, listed in tags):
        raise broken(file, 'expected an object of tags, each with "tasks"')
    records = PeerRecords()
    parts: dict[str, tuple[str, ...]] = {}
    for tag, listed in tags:
        entries = listed.get("tasks") if isinstance(listed, dict) else None
        if not isinstance(entries, list):
            records.leave_out(f"{file}: tag {tag}", '"tasks" is not a list of objects')
            continue
        for at, entry in enumerate(entries, start=1):
            task = _add(records, tag, "", at, entry, file)
            below = entry.get("subtasks") if isinstance(entry, dict) else None
            if task is None or not below:
                continue
            if not isinstance(below, list):
                place = f"{file}: subtasks of {task.key}"
                records.leave_out(place, '"subtasks" is not a list of objects')
                continue
            whole = f"{task.key.removeprefix(f'{tag}/')}."
            added = [_add(records, tag, whole, *one, file) for one in enumerate(below, start=1)]
            parts[task.key] = tuple(part.key for part in added if part is not None)
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _add(
    records: PeerRecords, tag: str, whole: str, at: int, entry: object, file: Path
) -> PeerTask | None:
    """Add a task, or leave it out; return it if it was added."""
    if not isinstance(entry, dict):
        records.leave_out(f"{file}: entry {whole}{at} of {tag}", "expected an object")
        return None
    number = entry.get("id")
    is_named = isinstance(number, int | str) and not isinstance(number, bool)
    place = f"{file}: task {whole}{number if is_named else f'at {at}'}"
    key = f"{tag}/{whole}{number}" if is_named else ""
    return records.add(place, lambda: _task_master_task(tag, whole, entry, place, records), key)


def _task_master_task(
    tag: str, whole: str, entry: Mapping[str, Any], place: str, records: PeerRecords
) -> PeerTask:
    number = text_of(entry.get("id"), place, "id")
    if not number:
        raise broken(place, 'it has no "id"')
    key = f"{tag}/{whole}{number}"
    status = records.status(
        text_of(entry.get("status"), place, "status") or "pending", TASK_MASTER_STATUSES
    )
    priority = text_of(entry.get("priority"), place, "priority").casefold()
    strategy = text_of(entry.get("testStrategy"), place, "testStrategy")
    described = ("description", "details")
    texts = [text for name in described if (text := text_of(entry.get(name), place, name))]
    return PeerTask(
        key,
        text_of(entry.get("title"), place, "title"),
        description="\n\n".join(texts),
        status=status,
        priority=priority if priority in PRIORITIES else "",
        tags=() if tag == DEFAULT else (tag,),
        depends_on=tuple(_needed(tag, whole, entry, place)),
        acceptance_criteria=(strategy,) if strategy else (),
        blocked_by="blocked in task-master" if status == "blocked" else "",
        updated=text_of(entry.get("updatedAt"), place, "updatedAt")[:10],
    )


def _needed(tag: str, whole: str, entry: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the keys that a task waits for; a bare number of a part is that of its sibling."""
    for needed in texts_of(entry.get("dependencies"), place, "dependencies"):
        yield f"{tag}/{needed}" if "." in needed or not whole else f"{tag}/{whole}{needed}"
