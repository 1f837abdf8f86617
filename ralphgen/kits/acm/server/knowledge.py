"""The tool on the knowledge base: entries whose name or text holds a term."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError

from .front_matter import read_front_matter
from .workspace import (
    UnreadableDocumentError,
    brief,
    first_entries,
    fitted,
    inside,
    read_path,
    words_for,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

FOLDER = "kb"
README = "README.md"
SHOWN = 50  # entries of an answer
AROUND = 80  # characters on either side of a match
NAMED = 200  # characters of a title


class KnowledgeEntry:
    """A matching entry: its file's name, its text, and the position of the term in the text.

    `at` is -1 if only the name contains the term.
    """

    __slots__ = ("at", "name", "text")

    def __init__(self, name: str, text: str, at: int) -> None:
        self.name = name
        self.text = text
        self.at = at


def query_knowledge(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the entries with a term, each with its title, the words around it and its place.

    If the term is the place of an entry, return the text of that entry. Raises `ToolError` for a
    blank term, and if the knowledge base or the entry cannot be read.
    """
    term = arguments["query"].strip()
    if not term:
        raise ToolError('argument "query" is blank: use a word or a topic')
    root = acm.documents_folder()
    entries = _entries(root)
    if not entries:
        return "The knowledge base has no entries."
    for name, path in entries:
        if _relative_place(name) == term:
            return _whole(name, path)
    hits, unreadable = _search(entries, term.lower())
    note = ["", f"Skipped because unreadable: {unreadable}"] if unreadable else []
    if not hits:
        return "\n".join([f'No KB entries match "{brief(term, NAMED)}".', *note])
    return "\n".join([*_hit_lines(hits, len(term)), *note])


def _relative_place(name: str) -> str:
    """Return the place of an entry below the documents."""
    return f"{FOLDER}/{brief(name, NAMED)}"


def _whole(name: str, path: str) -> str:
    """Return the text of an entry, cut if it is too long; raises `ToolError`."""
    try:
        return fitted(read_path(path), f"{FOLDER}/{name}")
    except UnreadableDocumentError as error:
        raise ToolError(
            f'"{_relative_place(name)}" {error.why}: ask the user to fix the file'
        ) from error


def _entries(root: str) -> list[tuple[str, str]]:
    """Return name and real path of every entry, in the order of the names' bytes.

    Entries are files; links that lead out of the documents are ignored.
    """
    try:
        folder = inside(root, FOLDER)
        with os.scandir(folder) as found:
            files = [entry for entry in found if _may_be_entry(entry)]
    except (UnreadableDocumentError, OSError) as error:
        why = error.why if isinstance(error, UnreadableDocumentError) else words_for(error)
        raise ToolError(
            f'the knowledge base "{FOLDER}/" {why}: add the directory, or set ACM_ROOT to '
            "documents that contain one"
        ) from error
    files.sort(key=lambda entry: os.fsencode(entry.name))
    placed = ((entry.name, _real(root, folder, entry)) for entry in files)
    return [(name, path) for name, path in placed if path]


def _may_be_entry(entry: os.DirEntry[str]) -> bool:
    if not entry.name.endswith(".md") or entry.name == README:
        return False
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def _real(root: str, folder: str, entry: os.DirEntry[str]) -> str:
    """Return the real path of an entry, or "" if it leads out of the documents."""
    if not entry.is_symlink():
        return entry.path
    try:
        return inside(root, os.path.join(folder, entry.name))
    except UnreadableDocumentError:
        return ""


def _search(entries: list[tuple[str, str]], term: str) -> tuple[list[KnowledgeEntry], int]:
    """Return the entries that contain the lowercase term, and the number of unreadable ones."""
    hits: list[KnowledgeEntry] = []
    unreadable = 0
    for name, path in entries:
        try:
            text = read_path(path)
        except UnreadableDocumentError:
            unreadable += 1
            continue
        lowered = text.lower()
        at = lowered.find(term)
        if at >= 0 or term in name.lower():
            hits.append(
                KnowledgeEntry(name, text, at if len(lowered) == len(text) else _place(text, at))
            )
    return hits, unreadable


def _place(text: str, at: int) -> int:
    """Return the position in a text for `at` in its lowercase form, which may be longer."""
    seen = 0
    for place, character in enumerate(text):
        if seen >= at:
            return place if at >= 0 else at
        seen += len(character.lower())
    return len(text)


def _hit_lines(hits: list[KnowledgeEntry], length: int) -> list[str]:
    """Return the lines on the matches, as many entries as fit into an answer."""
    lines = [f"Found {len(hits)} KB {'entry' if len(hits) == 1 else 'entries'}:"]
    shown = first_entries(_entry(hit, length) for hit in hits[:SHOWN])
    for entry in shown:
        lines += ["", entry]
    more = f"and {len(hits) - len(shown)} more: use a longer term"
    return [*lines, "", more] if len(shown) < len(hits) else lines


def _entry(hit: KnowledgeEntry, length: int) -> str:
    title = read_front_matter(hit.text).text("title") or hit.name.removesuffix(".md")
    lines = [f"**{brief(title, NAMED)}**"]
    if hit.at >= 0:
        lines.append(f"> {_snippet(hit.text, hit.at, length)}")
    return "\n".join([*lines, f"Path: {_relative_place(hit.name)}"])


def _snippet(text: str, at: int, length: int) -> str:
    """Return the words around the first place of the term, on one line."""
    first, last = max(at - AROUND, 0), at + length + AROUND
    words = brief(text[first:last].removeprefix("\ufeff"), 4 * NAMED)
    return f"{'...' if first else ''}{words}{'...' if last < len(text) else ''}"
