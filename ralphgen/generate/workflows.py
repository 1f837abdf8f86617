"""The pipeline of inspect, plan and render, and init, regen and check as its last steps."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralphgen import __version__
from ralphgen.errors import ProjectError, Say, UsageError
from ralphgen.kits.registry import KITS
from ralphgen.output import Drift, Written, compare, diff, finish_interrupted, write
from ralphgen.output.manifest import Files
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.inspect import DATABASE, inspect_project
from ralphgen.project.model import Project
from ralphgen.project.root import FOLDER, resolved
from ralphgen.rendering.server import render_files
from ralphgen.suggestion import suggestion


@dataclass(frozen=True, slots=True)
class Generated:
    """What a project's state comes to: the facts, the decisions and the text."""

    project: Project
    plan: ServerPlan
    files: Files


def generate(root: Path) -> Generated:
    """Return everything that is emitted for the project in `root`; writes nothing.

    Raises `ProjectError` with every problem of the project's state.
    """
    project = inspect_project(root, KITS)
    plan = plan_server(project, KITS)
    return Generated(project, plan, render_files(plan))


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found: the drift, and what else a person should know."""

    drift: Drift
    warnings: tuple[str, ...]
    written_by: str

    def summary(self) -> str:
        """Return one sentence on what differs."""
        if self.drift.interrupted:
            return f"a write of {FOLDER} was interrupted"
        kinds = ("stale", "edited", "missing", "leftover", "unknown")
        found = [f"{kind}: {', '.join(getattr(self.drift, kind))}" for kind in kinds]
        named = [line for line in found if not line.endswith(": ")]
        return f"{FOLDER} is not what would be generated now ({'; '.join(named)})"

    def hint(self) -> str:
        """Return what to do about it."""
        if self.drift.interrupted:
            return 'run "ralphgen regen", which finishes it'
        if self.drift.hint:
            return self.drift.hint
        if self.drift.edited:
            return 'keep what you need, then "ralphgen regen --force" overwrites the edits'
        if self.drift.stale or self.drift.missing or self.drift.leftover:
            return 'run "ralphgen regen", and commit what it writes'
        return "move modules of your own to another folder: these are on the server's path"

    def as_json(self) -> dict[str, object]:
        """Return the report for other programs."""
        return {
            "ok": not self.drift,
            "ralphgen": __version__,
            "written_by": self.written_by,
            "stale": list(self.drift.stale),
            "edited": list(self.drift.edited),
            "missing": list(self.drift.missing),
            "leftover": list(self.drift.leftover),
            "unknown": list(self.drift.unknown),
            "diff": self.drift.diff,
            "warnings": list(self.warnings),
            "interrupted": self.drift.interrupted,
        }


def initialize(path: Path, *, title: str, stack: str, kits: tuple[str, ...], say: Say) -> Path:
    """Set a project up in the folder and write its server; return the folder, resolved.

    `title` is the folder's name and `stack` generic where it is empty. Raises `UsageError` for a
    kit that ralphgen does not have, `ProjectError` for a folder that cannot hold a project. What
    is there already is kept.
    """
    from ralphgen.init.scaffold import (
        create_database,
        kits_without_tools,
        switch_on,
        write_default_context,
        write_setup_files,
    )
    from ralphgen.init.stacks import load_stack

    _refuse_unknown_kits(kits)
    root = resolved(path)
    _make_folder(root, path)
    finish_interrupted(root / FOLDER)
    _warn_of_nesting(root, say)
    switch_on(root, kits)  # first: a config that cannot be read stops everything
    loaded = load_stack(stack or "generic")
    if create_database(root, _readable(title or root.name) or "Untitled Project", loaded):
        count = len(loaded.disciplines)
        say(f"created {DATABASE} with {count} disciplines ({stack or 'generic'})")
    else:
        ignored = "; --title and --stack are for a new one" if title or stack else ""
        say(f"kept {DATABASE} as it is{ignored}")
    for written in write_setup_files(root, kits):
        say(f"wrote {written}")
    generated = regenerate(root, force=False, say=say)
    if write_default_context(root, generated.plan):
        say(f"wrote {FOLDER}/context.json: a client of your own sees every tool")
    for kit in kits_without_tools(root, generated.plan):
        say(
            f'warning: {FOLDER}/context.json was kept and enables no tool of "{kit}": '
            f'"ralphgen session RECIPE --default" makes a new one for a recipe, manual for all'
        )
    return root


def _warn_of_nesting(root: Path, say: Say) -> None:
    """Warn of a project inside another: every other command finds the nearest one."""
    outer = next((folder for folder in root.parents if (folder / ".ralph").is_dir()), None)
    if outer is not None and not (root / ".ralph").is_dir():
        say(f'warning: "{root}" lies in the project "{outer}" and becomes one of its own')


def _make_folder(root: Path, shown: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        text = f'"{shown}" cannot hold a project: a file is there, expected a folder'
        raise ProjectError(text, "name another folder") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        text = f'"{shown}" cannot hold a project: {reason}'
        raise ProjectError(text, "name a folder that you may write to") from error


def _readable(title: str) -> str:
    """Return the title without bytes of another encoding, which no database could keep as text."""
    return title.encode(errors="replace").decode()


def regenerate(root: Path, *, force: bool, say: Say) -> Generated:
    """Write the project's server; raises `EditedError` for hand edits unless forced."""
    finish_interrupted(root / FOLDER)
    generated = _generated(root, say)
    written = write(root / FOLDER, generated.files, force=force)
    say(_written(written))
    return generated


def preview(root: Path, *, say: Say) -> str:
    """Return the unified diff from the files on disk to what would be written now."""
    return diff(root / FOLDER, _generated(root, say).files)


def checked(root: Path, *, say: Say) -> Report:
    """Compare the server on disk with what would be written now; writes nothing."""
    version = _version_on_disk(root)
    if version not in ("", __version__):
        say(f"{FOLDER} was written by ralphgen {version}, and this is {__version__}")
    generated = _generated(root, say)
    return Report(compare(root / FOLDER, generated.files), generated.plan.warnings, version)


def install_environment(root: Path, *, say: Say) -> None:
    """Make the environment that the project's lock asks for, and the bytecode of its server.

    The environment's interpreter is that of ralphgen, so that it can use what is made here.
    """
    from ralphgen.environment.ensure import ensure_environment
    from ralphgen.runtime.bytecode import verified

    folder = (root / FOLDER).absolute()
    lock = (folder / "requirements.lock").read_text(encoding="utf-8")
    ensure_environment(lock, say=say)
    with suppress(ValueError):  # a file that was edited by hand, of which the server itself tells
        verified(str(folder), (folder / "manifest.json").read_bytes())


def _generated(root: Path, say: Say) -> Generated:
    generated = generate(root)
    for warning in generated.plan.warnings:
        say(f"warning: {warning}")
    return generated


def _refuse_unknown_kits(kits: tuple[str, ...]) -> None:
    known = [kit.key for kit in KITS]
    for kit in kits:
        if kit not in known:
            raise UsageError(f'there is no kit "{kit}"', suggestion(kit, known, "the kits"))


def _written(written: Written) -> str:
    counts = [
        f"{len(paths)} {what}"
        for what, paths in (
            ("added", written.added),
            ("changed", written.changed),
            ("removed", written.removed),
        )
        if paths
    ]
    unknown = f"; left alone: {', '.join(written.unknown)}" if written.unknown else ""
    return f"{FOLDER}: {', '.join(counts) or 'nothing to change'}{unknown}"


def _version_on_disk(root: Path) -> str:
    try:
        manifest = json.loads((root / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        return str(manifest["ralphgen"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
