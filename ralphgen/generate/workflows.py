"""The pipeline of inspect, plan and render, and init, regen and check as its last steps."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.emit.scaffold import write_ignored
from ralphgen.emit.trust import (
    Ask,
    accept_database,
    record_written,
    recorded_writes,
    run_items,
    written_items,
)
from ralphgen.emit.verify import UntrustedError
from ralphgen.emit.write import Written, compare, diff, finish_interrupted, write
from ralphgen.errors import EditedError, Problem, ProjectError, Say, plain
from ralphgen.files import MANIFEST, Files
from ralphgen.generate.connected import connected, connected_drift, write_targets
from ralphgen.generate.default_context import renew_default_context, tools_on_disk
from ralphgen.generate.project_id import name_project
from ralphgen.generate.removals import Recorded, lag, read_recorded, refuse_removals
from ralphgen.generate.report import Report
from ralphgen.kits.registry import KITS, project_config, read_settings
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.preview import long_lists
from ralphgen.planning.server import plan_server
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.git import Merge, read_merge
from ralphgen.project.inspect import FACTS, inspect_project
from ralphgen.project.model import Project
from ralphgen.project.patterns import pattern_notes
from ralphgen.project.root import FOLDER, has_database
from ralphgen.project.versions import (
    refuse_earlier,
    refuse_older,
    refuse_unwanted,
    written_by,
)
from ralphgen.rendering.server import render_files
from ralphgen.runtime.session import DEFAULT_RECIPE


@dataclass(frozen=True, slots=True)
class Before:
    """What was generated last: the facts and the versions on disk, or of both sides of a merge."""

    merge: Merge | None
    recorded: tuple[Recorded, ...]
    versions: tuple[str, ...]

    def refuse_other_versions(self, root: Path) -> None:
        """Raise `VersionError` where another ralphgen than this one has to write the project."""
        for version in self.versions:
            refuse_older(version)
        refuse_unwanted(root, CONFIG)


def read_before(root: Path) -> Before:
    """Return what was generated last in the project in `root`, which may be nothing.

    Raises `ProjectError` where the project's own files have git's marks in them.
    """
    merge = read_merge(root)
    if merge and merge.marked:
        hint = "resolve each conflict, then run the command again"
        texts = (f"{place}: unresolved merge conflict" for place in merge.marked)
        raise ProjectError.of([Problem(text, hint) for text in texts])
    manifests = merge.manifests if merge else _texts(root / FOLDER / MANIFEST)
    facts = merge.facts if merge else _texts(root / FACTS)
    return Before(
        merge,
        tuple(found for text in facts for found in read_recorded(text)),
        tuple(version for text in manifests if (version := written_by(text))),
    )


def _texts(path: Path) -> tuple[bytes, ...]:
    """Return the bytes of a file, or nothing where it cannot be read."""
    try:
        return (path.read_bytes(),)
    except OSError:
        return ()


@dataclass(frozen=True, slots=True)
class Generated:
    """What a project's state comes to: the facts, the decisions and the text."""

    project: Project
    plan: ServerPlan
    files: Files
    notes: tuple[str, ...] = ()  # on patterns, if they were looked at


def generate(root: Path) -> Generated:
    """Return everything that is emitted for the project in `root`; writes nothing.

    Raises `ProjectError` with every problem of the project's state.
    """
    project = inspect_project(root, KITS)
    plan = plan_server(project, KITS)
    return Generated(project, plan, render_files(plan))


def regenerate(
    root: Path,
    *,
    force: bool,
    say: Say,
    allow_removals: bool = False,
    removed: Collection[str] = (),
    records: bool = True,
    ask: Ask | None = None,
    strict: bool = False,
) -> Generated:
    """Write the project's server, then the files of `connect` that exist.

    Raises `EditedError` for hand edits unless forced; for those in files of `connect` only if
    `strict`, else a warning names them. Where git has left generated files unmerged, both sides are
    held against their manifests in place of what is on disk. Raises `VersionError` where another
    ralphgen has to write it, unless forced, and `ProjectError` where tables, columns, values or
    tools would go that the server on disk has, or tasks would be done with less proof, unless
    `allow_removals`. `removed` are tables that the caller itself has taken away. Unless it
    `records` nothing, what the user wrote is put on the record of trust, as `record_written` does
    with `ask`.
    """
    if records:
        try:
            accept_database(root, ask)
        except UntrustedError:
            if ask is not None or not (root / FACTS).exists():
                raise  # else the committed facts are enough to write the server
    finish_interrupted(root / FOLDER)
    before = read_before(root)
    if not force:
        before.refuse_other_versions(root)
    if name_project(root):
        say(f"wrote the project id for tokens to [http] of {CONFIG}")
        for path in write_ignored(root):
            say(f"wrote {path}")
    generated = _generated(root, say)
    if not allow_removals:
        refuse_removals(before.recorded, generated.project, generated.plan, removed)
    if before.merge and not force:
        _refuse_edited_sides(before.merge)
    known = tools_on_disk(root, DEFAULT_RECIPE)
    merged = before.merge.listed if before.merge else None
    is_new = not (root / FACTS).exists()
    written = write(root / FOLDER, generated.files, force=force, merged=merged)
    for line in (
        _written(written, is_new=is_new),
        *renew_default_context(root, generated.plan, known),
        *_remarks(generated.plan),
    ):
        say(line)
    if before.merge:
        say(f'regenerated from both sides of the merge: accept it with "git add {FOLDER}"')
    if records:
        for warning in _recorded(root, generated, ask):
            say(f"warning: {warning}")
    _rewrite_connected(root, generated, say, force=force, records=records, strict=strict)
    return generated


def _rewrite_connected(
    root: Path, generated: Generated, say: Say, *, force: bool, records: bool, strict: bool
) -> None:
    """Write the files of `connect` that exist; one that cannot be written is a warning or error."""
    try:
        chosen = [*connected(root, generated.project, generated.plan, say)]
        places = [root / target.path for target in chosen]
        with recorded_writes(root, places) if chosen and records else nullcontext():
            for target, changed in write_targets(root, chosen, force=force):
                if changed:
                    say(f"wrote {target.path}")
    except ProjectError as error:
        if strict:
            raise
        say(f"warning: {error}")


def _recorded(root: Path, generated: Generated, ask: Ask | None) -> Sequence[str]:
    """Record what the user wrote, as `record_written` does; return its warnings.

    Nothing is recorded without the database, of which a warning has told.
    """
    try:
        if not has_database(root):
            return ()
        config, items = read_settings(root), written_items(root, generated.project)
        run = run_items(root, config)
    except ProjectError as error:  # such as a cell of the database that nobody can read
        return [f"the approval was not recorded: {error.problems[0].text}"]
    return record_written(root, generated.files[MANIFEST], items, run, ask)


def _remarks(plan: ServerPlan) -> Iterator[str]:
    """Yield what a person should know of the lists of tools that were written."""
    for one in plan.wordings:
        yield plain(one.told)
    for line in long_lists(plan):
        yield f"warning: {line}"


def _refuse_edited_sides(merge: Merge) -> None:
    """Raise `EditedError` where a file of a side of the merge is not as it was generated."""
    if merge.problems:
        *others, last = merge.problems
        hint = 'save the edits you need, then run "ralphgen regen --force" to overwrite them'
        raise EditedError.of([*map(Problem, others), Problem(last, hint)])


def preview(root: Path, *, say: Say) -> str:
    """Return the unified diff from the files on disk to what would be written now."""
    before = read_before(root)
    before.refuse_other_versions(root)
    generated = _generated(root, say)
    try:
        refuse_removals(before.recorded, generated.project, generated.plan, ())
    except ProjectError as error:
        for problem in error.problems:
            say(f"warning: {problem.text}")
    drift = connected_drift(root, generated.project, generated.plan, say)
    return diff(root / FOLDER, generated.files) + drift.diff


def checked(root: Path, *, say: Say) -> Report:
    """Compare the server on disk with what would be written now; writes nothing.

    Raises `VersionError` where another release of ralphgen wrote it or has to, and then compares
    nothing.
    """
    before = read_before(root)
    before.refuse_other_versions(root)
    for version in before.versions:
        refuse_earlier(version)
    generated = _generated(root, say)
    return Report(
        compare(root / FOLDER, generated.files),
        connected_drift(root, generated.project, generated.plan, say),
        generated.plan.warnings,
        generated.notes,
        max(before.versions, default=""),
        lag(before.recorded, generated.project),
        before.merge is not None,
    )


def install_environment(root: Path, *, say: Say) -> None:
    """Build the environment of the project's server if it has a lock, and compile its modules."""
    from ralphgen.environment.program import server_program
    from ralphgen.runtime.loader import keep_verified

    folder = (root / FOLDER).absolute()
    server_program(folder, say)
    with suppress(ValueError):  # a file that was edited by hand, of which the server itself tells
        keep_verified(str(folder))


def _generated(root: Path, say: Say) -> Generated:
    generated = generate(root)
    for warning in generated.plan.warnings:
        say(f"warning: {plain(warning)}")
    config = project_config(root)
    notes = tuple(pattern_notes(root, config))
    for note in notes:
        say(f"note: {plain(note)}")
    return replace(generated, notes=notes)


def _written(written: Written, *, is_new: bool) -> str:
    kinds = {"added": written.added, "changed": written.changed, "removed": written.removed}
    counts = [f"{len(paths):,} {what}" for what, paths in kinds.items() if paths]
    unknown = f"; left alone: {', '.join(written.unknown)}" if written.unknown else ""
    if is_new:
        return f"created {FOLDER} (MCP server, {len(written.added):,} files){unknown}"
    if not counts:
        return f"{FOLDER} is up to date{unknown}"
    first, *rest = counts
    noun = "file" if first.startswith("1 ") else "files"
    number, _, what = first.partition(" ")
    return f"regenerated {FOLDER}: {', '.join([f'{number} {noun} {what}', *rest])}{unknown}"
