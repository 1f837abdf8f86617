"""Reads the tasks of Backlog.md: a Markdown file each, with YAML in front."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.exchange.peers.model import (
    PRIORITIES,
    PeerComment,
    PeerRecords,
    PeerTask,
    broken,
    text_of,
    texts_of,
    waiting_for_parts,
)
from ralphgen.exchange.rows import read_peer_text
from ralphgen.runtime.files.yaml import YamlError, read_texts

FOLDERS = ("tasks", "completed", "drafts")
CONFIGS = ("config.yml", "config.yaml", "backlog.config.yml", "backlog/config.yml")
STATUSES = {
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
    files = _files(path)
    order = _statuses(path)
    for file in files:
        try:
            front, body = _split(file)
            whole = text_of(front.get("parent_task_id"), file, "parent_task_id")
        except ProjectError as error:
            records.leave_out(file, error.problems[0].text, _key(file))
            continue
        read = partial(_task, front, body, file, records, order)
        if (task := records.add(file, read, _key(file))) is not None and whole:
            parts.setdefault(whole, []).append(task.key)
    keys = [*(task.key for task in records.tasks), *(one.key for one in records.left_out)]
    known = {_canonical(key): key for key in reversed(keys)}
    records.wait_for(lambda key: known.get(_canonical(key), key))
    parts = {known.get(_canonical(whole), whole): keys for whole, keys in parts.items()}
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _files(path: Path) -> list[Path]:
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
    """Return what is the same for task-1, TASK-1, TASK-01 and 1, as for Backlog.md."""
    prefix, _, number = key.upper().rpartition("-")
    return f"{prefix or 'TASK'}-{re.sub(r'(?<![0-9])0+(?=[0-9])', '', number)}"


def _statuses(path: Path) -> Sequence[str]:
    """Return the statuses of the project in their order, if its configuration names them."""
    above = [path, *path.parents[:2]] if path.is_dir() else [*path.parents[:3]]
    statuses = _config(above).get("statuses")
    return [one for one in statuses if isinstance(one, str)] if isinstance(statuses, list) else ()


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
    """Return the top-level values of YAML; one that YAML refuses is read as plain text.

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


def _task(
    front: Mapping[str, Any], body: str, file: Path, records: PeerRecords, order: Sequence[str]
) -> PeerTask:
    status = text_of(front.get("status"), file, "status")
    known = records.status(status, STATUSES, order) if status else "pending"
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
        tags=_listed(front, "labels", file),
        depends_on=_listed(front, "dependencies", file),
        acceptance_criteria=tuple(_criteria(sections.get("CRITERIA", ""))),
        context_files=_listed(front, "references", file),
        blocked_by="blocked in Backlog.md" if known == "blocked" else "",
        created=text_of(front.get("created_date"), file, "created_date")[:10],
        updated=updated,
        completed=updated if known == "done" else "",
        comments=(*_comments(body), *(PeerComment("backlog", text) for text in said)),
    )


def _listed(front: Mapping[str, Any], name: str, file: Path) -> tuple[str, ...]:
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


def _criteria(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if criterion := _CRITERION.match(line):
            yield criterion[1]


def _comments(body: str) -> Iterator[PeerComment]:
    block = _COMMENTS.search(body)
    for header, text in _COMMENT.findall(block[1]) if block else ():
        facts = dict(_HEADER.findall(header))
        moment = facts.get("created", "").replace(" ", "T")
        yield PeerComment(
            facts.get("author", "backlog"), text.strip(), f"{moment}:00Z" if moment else ""
        )
