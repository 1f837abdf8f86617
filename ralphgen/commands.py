"""What the commands do: init, regen and check are one pipeline with different last steps."""

import json
from dataclasses import dataclass
from pathlib import Path

from ralphgen import __version__
from ralphgen.errors import ProjectError, Say, UsageError
from ralphgen.generation import FOLDER, Generated, generate
from ralphgen.kits import KITS
from ralphgen.output import Drift, Written, compare, diff, finish_interrupted, write
from ralphgen.runtime.nearest import nearest


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found: the drift, and what else a person should know."""

    drift: Drift
    warnings: tuple[str, ...]

    def summary(self) -> str:
        """One sentence on what differs."""
        kinds = ("stale", "edited", "missing", "leftover", "unknown")
        found = [f"{kind}: {', '.join(getattr(self.drift, kind))}" for kind in kinds]
        named = [line for line in found if not line.endswith(": ")]
        return f"{FOLDER} is not what would be generated now ({'; '.join(named)})"

    def hint(self) -> str:
        """What to do about it."""
        if self.drift.hint:
            return self.drift.hint
        force = " --force, which overwrites the edits" if self.drift.edited else ""
        return f'run "ralphgen regen"{force}, and commit what it writes'

    def as_json(self) -> dict[str, object]:
        """The report for other programs."""
        return {
            "ok": not self.drift,
            "stale": list(self.drift.stale),
            "edited": list(self.drift.edited),
            "missing": list(self.drift.missing),
            "leftover": list(self.drift.leftover),
            "unknown": list(self.drift.unknown),
            "diff": self.drift.diff,
            "warnings": list(self.warnings),
        }


def initialize(path: Path, *, title: str, stack: str, kits: tuple[str, ...], say: Say) -> Path:
    """Lay a project down in the folder and write its server; returns the folder, resolved.

    Raises `UsageError` for a kit that ralphgen does not have, `ProjectError` for a folder that
    cannot hold a project. What is there already is kept.
    """
    from ralphgen.setup import create_database, switch_on, write_default_context
    from ralphgen.stacks import load_stack

    _refuse_unknown_kits(kits)
    root = path.resolve()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProjectError(f'"{path}" cannot hold a project: {error.strerror}') from error
    loaded = load_stack(stack)
    if create_database(root, title or root.name or "Untitled Project", loaded):
        say(f"created .ralph/db/ralph.db with {len(loaded.disciplines)} disciplines ({stack})")
    else:
        say("kept .ralph/db/ralph.db as it is")
    switch_on(root, kits)
    generated = regenerate(root, force=False, say=say)
    if write_default_context(root, generated.plan):
        say(f"wrote {FOLDER}/context.json: a client of your own sees every tool")
    return root


def regenerate(root: Path, *, force: bool, say: Say) -> Generated:
    """Write the project's server; raises `EditedError` for hand edits unless forced."""
    finish_interrupted(root / FOLDER)
    generated = _generated(root, say)
    written = write(root / FOLDER, generated.files, force=force)
    say(_written(written))
    return generated


def preview(root: Path, *, say: Say) -> str:
    """The unified diff from the files on disk to what would be written now."""
    return diff(root / FOLDER, _generated(root, say).files)


def checked(root: Path, *, say: Say) -> Report:
    """Compare the server on disk with what would be written now; writes nothing."""
    version = _version_on_disk(root)
    if version not in ("", __version__):
        say(f"{FOLDER} was written by ralphgen {version}, and this is {__version__}")
    generated = _generated(root, say)
    return Report(compare(root / FOLDER, generated.files), generated.plan.warnings)


def install_environment(root: Path, *, say: Say) -> None:
    """Make the environment that the project's lock asks for, and compile the server's modules."""
    from ralphgen.environment import compile_modules, ensure_environment

    lock = (root / FOLDER / "requirements.lock").read_text(encoding="utf-8")
    compile_modules(ensure_environment(lock, say=say), root / FOLDER)


def _generated(root: Path, say: Say) -> Generated:
    generated = generate(root)
    for warning in generated.plan.warnings:
        say(f"warning: {warning}")
    return generated


def _refuse_unknown_kits(kits: tuple[str, ...]) -> None:
    known = [kit.key for kit in KITS]
    for kit in kits:
        if kit not in known:
            near = nearest(kit, known)
            hint = f'did you mean "{near}"?' if near else f"the kits are {', '.join(known)}"
            raise UsageError(f'there is no kit "{kit}"', hint)


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
