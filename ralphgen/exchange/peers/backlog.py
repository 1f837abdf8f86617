"""Reads the tasks of Backlog.md: a Markdown file each, with YAML in front."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.exchange.files import read_text
from ralphgen.exchange.peers.model import (
    PRIORITIES,
    PeerComment,
    PeerTask,
    broken,
    text_of,
    texts_of,
    waiting_for_parts,
)
from ralphgen.runtime.files.yaml import YamlError, read_texts

FOLDERS = ("tasks", "completed", "drafts")
STATUSES = {
    "to do": "pending",
    "todo": "pending",
    "in progress": "in_progress",
    "in review": "in_progress",
    "blocked": "blocked",
    "done": "done",
    "draft": "draft",
}
_FRONT = re.compile(r"---\n(.*?\n)---(?:\n|$)(.*)", re.DOTALL)
_SECTION = re.compile(
    r"<!-- SECTION:([A-Z_]+):BEGIN -->\n(.*?)\n?<!-- SECTION:\1:END -->", re.DOTALL
)
_CRITERIA = re.compile(r"<!-- AC:BEGIN -->\n(.*?)<!-- AC:END -->", re.DOTALL)
_CRITERION = re.compile(r"- \[[ xX]\] (?:#[0-9]+ )?(.+)")
_COMMENTS = re.compile(r"<!-- COMMENTS:BEGIN -->\n(.*?)<!-- COMMENTS:END -->", re.DOTALL)
_COMMENT = re.compile(r"((?:(?:author|created): .*\n)+)---\n(.*?)\n---(?:\n|$)", re.DOTALL)
_HEADER = re.compile(r"(author|created): (.*)")


def read_backlog(path: Path) -> list[PeerTask]:
    """Return the tasks and drafts of a folder, or of one file; archived ones are left out.

    Raises `ProjectError` where a file is not as Backlog.md writes it.
    """
    found = [_read(file) for file in _files(path)]
    parts: dict[str, list[str]] = {}
    for task, whole in found:
        if whole:
            parts.setdefault(whole, []).append(task.key)
    tasks = [task for task, _ in found]
    return waiting_for_parts(tasks, parts, path)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = path / "backlog" if (path / "backlog").is_dir() else path
    files = [file for folder in FOLDERS for file in (inner / folder).glob("*.md") if file.is_file()]
    if not files:
        raise broken(path, "is no folder of Backlog.md: it has no tasks/*.md")
    return sorted(files, key=_numbers)


def _numbers(file: Path) -> tuple[list[int], str]:
    """Return what sorts files by the numbers of their tasks."""
    number = re.search(r"-([0-9.]+)", file.name)
    parts = number[1].split(".") if number else []
    return [int(part) for part in parts if part], file.name


def _read(file: Path) -> tuple[PeerTask, str]:
    """Return a task, and the key of the one that it is a part of, empty for none."""
    found = _FRONT.match(read_text(file).replace("\r\n", "\n"))
    if found is None:
        raise broken(file, "does not begin with YAML between two lines of ---")
    try:
        front = read_texts(found[1]).value
    except YamlError as error:
        raise broken(f"{file}:{error.line + 1}", f"its YAML {error}") from error
    if not isinstance(front, dict) or not front.get("id"):
        raise broken(file, 'its YAML has no "id"')
    return _task(front, found[2], file), text_of(front.get("parent_task_id"), file, "parent")


def _task(front: Mapping[str, Any], body: str, file: Path) -> PeerTask:
    status = text_of(front.get("status"), file, "status")
    known = STATUSES.get(status.casefold())
    if known is None:
        raise _unknown_status(file, status)
    sections = {name: text.strip() for name, text in _SECTION.findall(body)}
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
        tags=texts_of(front.get("labels"), file, "labels"),
        depends_on=texts_of(front.get("dependencies"), file, "dependencies"),
        acceptance_criteria=tuple(_criteria(body)),
        context_files=texts_of(front.get("references"), file, "references"),
        blocked_by="blocked in Backlog.md" if known == "blocked" else "",
        created=text_of(front.get("created_date"), file, "created_date")[:10],
        updated=updated,
        completed=updated if known == "done" else "",
        comments=(*_comments(body), *(PeerComment("backlog", text) for text in said)),
    )


def _unknown_status(file: Path, status: str) -> ProjectError:
    expected = ", ".join(f'"{one}"' for one in STATUSES)
    return broken(file, f'"status" is "{status}", expected one of {expected}', "change it there")


def _criteria(body: str) -> Iterator[str]:
    found = _CRITERIA.search(body)
    for line in found[1].splitlines() if found else ():
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
