"""The files that `connect` writes for MCP clients: `check` compares and `regen` rewrites them."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ralphgen.emit.clients import (
    CLIENTS,
    GATE_FILES,
    PLUGIN,
    SKILLS,
    SUBAGENTS,
    ClientEntries,
    file_entries,
    with_gate,
)
from ralphgen.emit.skills import (
    AGENTS_FOLDER,
    FILE,
    MARK,
    PLUGIN_FOLDER,
    read_personas,
    render_agents,
    render_plugin,
    render_section,
    render_skills,
    with_section,
)
from ralphgen.emit.skills import SKILLS as SKILLS_FOLDER
from ralphgen.emit.write import Drift, compare, file_diff, write
from ralphgen.errors import EditedError, Problem, ProjectError, Say, plain
from ralphgen.files import MANIFEST, Files, interrupted, put, whole_text
from ralphgen.kits.project import Project
from ralphgen.project.database import NoConnectionError
from ralphgen.project.root import OutsideDatabaseError, has_database

AWAY = "move it to another place, then run the command again"


class ConnectTarget(Protocol):
    """A file or directory for clients; `path` is relative to the project's root, or absolute."""

    @property
    def path(self) -> str:
        """The path as messages show it."""

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of the project in it, by path."""

    def write(self, root: Path, *, force: bool = False) -> int:
        """Write it; return the number of changed files. Raises `ProjectError`."""

    def drift(self, root: Path) -> Drift:
        """Return the difference to the disk, by path. Raises `ProjectError` if unreadable."""


@dataclass(frozen=True, slots=True)
class SealedFolder:
    """A directory of generated files with a manifest; other files in it are the user's."""

    path: str
    files: Files

    @property
    def texts(self) -> Mapping[str, str]:
        """All files."""
        return {f"{self.path}/{name}": text for name, text in self.files.items()}

    def write(self, root: Path, *, force: bool = False) -> int:
        """Write all files or none; `force` overwrites hand-edited ones, else `EditedError`."""
        known = is_sealed(root / self.path)
        try:
            written = write(root / self.path, self.files, force=force)
        except EditedError as error:
            raise EditedError.of(
                self._problem_with_server(one, known=known) for one in error.problems
            ) from error
        return len((*written.added, *written.changed, *written.removed))

    def drift(self, root: Path) -> Drift:
        """Compare the generated files; an interrupted write shows as missing files."""
        found = compare(root / self.path, self.files)
        stale, edited, missing, leftover = (
            tuple(f"{self.path}/{name}" for name in names)
            for names in (found.stale, found.edited, found.missing, found.leftover)
        )
        parts = {
            f"{self.path}/{name}": self._part_label(part) for name, part in found.parts.items()
        }
        return Drift(stale, edited, missing, leftover, parts=parts, hint=found.hint)

    def _problem_with_server(self, problem: Problem, *, known: bool) -> Problem:
        quote = '"' if problem.text.startswith('"') else ""
        text = f"{quote}{self.path}/{problem.text.removeprefix(quote)}"
        return Problem(text, problem.hint if known else problem.hint and AWAY)

    def _part_label(self, part: str) -> str:
        old, new, lines = part.split("\n", 2)
        old = old.replace("--- a/", f"--- a/{self.path}/")
        return f"{old}\n{new.replace('+++ b/', f'+++ b/{self.path}/')}\n{lines}"


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file that also has content of the user; `merge` puts the project's `text` into it."""

    path: str
    text: str
    merge: Callable[[str], str]

    @property
    def texts(self) -> Mapping[str, str]:
        """The text of the project alone."""
        return {self.path: self.text}

    def write(self, root: Path, **_: bool) -> int:
        """Write the text of the project; everything else in the file is unchanged."""
        old, new = self._both(root)
        if old != new:
            put(root / self.path, new)
        return int(old != new)

    def drift(self, root: Path) -> Drift:
        """Compare the text of the project."""
        old, new = self._both(root)
        if old == new:
            return Drift()
        part = "".join(file_diff(self.path, old.encode(), new.encode(), context=0))
        return Drift(stale=(self.path,), parts={self.path: part})

    def _both(self, root: Path) -> tuple[str, str]:
        old = whole_text(root / self.path, self.path, missing="")
        return old, self.merge(old)


def is_sealed(folder: Path) -> bool:
    """Return whether ralphgen wrote the directory."""
    try:
        return interrupted(folder) or b'"ralphgen"' in (folder / MANIFEST).read_bytes()
    except OSError:
        return False


def client_file(entries: ClientEntries) -> SharedFile:
    """Return the client's own configuration file, with the project's servers in it."""
    root, file = entries.root, entries.file
    path = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    return SharedFile(path, entries.text, entries.merge)


def gate_file(client: str) -> SharedFile:
    """Return the client's settings with the Stop hook of the gate in it."""
    path = GATE_FILES[client]
    return SharedFile(path, with_gate(path, ""), partial(with_gate, path))


def agents_md(project: Project) -> SharedFile:
    """Return `AGENTS.md` with its section on the project's servers."""
    done = project.facts.done
    section = render_section(project.plan, [one.name for one in done.checks] if done else [])
    return SharedFile(FILE, section, partial(with_section, section))


def targets(kind: str, project: Project) -> list[ConnectTarget]:
    """Return the files of a kind. Raises `ProjectError` if the project has none."""
    if kind == SKILLS:
        return [SealedFolder(skill.folder, skill.files) for skill in render_skills(project.plan)]
    if kind == SUBAGENTS:
        return [SealedFolder(AGENTS_FOLDER, render_agents(read_personas(project)))]
    if kind == PLUGIN:
        return [SealedFolder(PLUGIN_FOLDER, render_plugin(project.plan))]
    return [agents_md(project)]


def connected(project: Project, say: Say) -> Iterator[ConnectTarget]:
    """Yield the files that `connect` wrote; of a shared file, the entries that exist in it."""
    root, kits = project.root, [kit.key for kit in project.plan.kits]
    for entries in all_entries(root, kits):
        yield client_file(entries)
    skills = targets(SKILLS, project) if (root / SKILLS_FOLDER).is_dir() else ()
    yield from (skill for skill in skills if is_sealed(root / skill.path))
    for path, kit in _leftovers(root, kits):
        say(
            plain(
                f'note: {path} is for the kit "{kit}", which is off; delete it, or enable the kit'
            )
        )
    if is_sealed(root / PLUGIN_FOLDER):
        yield from targets(PLUGIN, project)
    if is_sealed(root / AGENTS_FOLDER):
        try:
            if not has_database(root):
                say(f"warning: {AGENTS_FOLDER} is not compared: the database is missing")
            else:
                yield from targets(SUBAGENTS, project)
        except (NoConnectionError, OutsideDatabaseError) as error:
            say(f"warning: {AGENTS_FOLDER} is not compared: {error.problems[0].text}")
    try:
        has_section = MARK.encode() in (root / FILE).read_bytes()
    except OSError:
        has_section = False
    if has_section:
        yield agents_md(project)


def all_entries(root: Path, kits: Sequence[str]) -> Iterator[ClientEntries]:
    """Yield the entries of each client for the project, in its files and in the user's."""
    for client, form in CLIENTS.items():
        for personal in (True,) if form.personal else (False, True):
            if entries := file_entries(client, root, kits, personal=personal):
                yield entries


def write_targets(
    root: Path, chosen: Iterable[ConnectTarget], *, force: bool = False
) -> Iterator[tuple[ConnectTarget, int]]:
    """Write each target; yield it with the number of changed files.

    A target that cannot be written does not stop the others: its `ProjectError` comes at the end.
    """
    errors: list[ProjectError] = []
    for target in chosen:
        try:
            yield target, target.write(root, force=force)
        except ProjectError as error:
            errors.append(error)
    if errors:
        raise type(errors[0]).of(one for error in errors for one in error.problems)


def connected_drift(project: Project, say: Say) -> Drift:
    """Return how the files that `connect` wrote differ from what it would write now."""
    drift = Drift()
    for target in connected(project, say):
        drift = drift.plus(target.drift(project.root))
    return drift


def _leftovers(root: Path, kits: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the kit of each skill whose kit is off."""
    for manifest in sorted((root / SKILLS_FOLDER).glob(f"*/{MANIFEST}")):
        try:
            facts = json.loads(manifest.read_bytes())
            kit = facts["kit"] if "ralphgen" in facts else ""
        except (OSError, ValueError, RecursionError, LookupError, TypeError):
            continue
        if isinstance(kit, str) and kit and kit not in kits:
            yield f"{SKILLS_FOLDER}/{manifest.parent.name}", kit
