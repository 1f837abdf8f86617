"""The pipeline of inspect, plan and render: regen, check, watch and upgrade; refuses removals."""

import ast
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from ralphgen import __version__
from ralphgen.emit.connected import connected, connected_drift, write_targets
from ralphgen.emit.scaffold import CONTEXT, default_context, write_ignored, write_schemas
from ralphgen.emit.trust import (
    Ask,
    accept_database,
    own_file_items,
    record_own_files,
    recorded_writes,
    run_items,
)
from ralphgen.emit.write import (
    Drift,
    Written,
    compare,
    diff,
    finish_interrupted,
    write,
)
from ralphgen.errors import (
    EditedError,
    Problem,
    ProjectError,
    RalphgenError,
    Say,
    UntrustedError,
    counted,
    plain,
)
from ralphgen.files import MANIFEST, put, whole_text
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.tables import VERSION, add_indexes, read_state, upgrade_tables
from ralphgen.planning import ServerPlan, long_lists
from ralphgen.planning.server import plan_server
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import (
    config_lock,
    generator_version,
    is_earlier,
    pattern_notes,
    refuse_earlier,
    refuse_older,
    refuse_unwanted,
)
from ralphgen.project.git import Merge, read_merge
from ralphgen.project.inspect import FACTS, loosened
from ralphgen.project.model import ProjectFacts, table_facts
from ralphgen.project.own_tools import FOLDER as TOOLS
from ralphgen.project.queries import FOLDER as QUERIES
from ralphgen.project.root import (
    DATABASE,
    FOLDER,
    RECIPES,
    database_name,
    database_path,
    has_database,
    project_home,
)
from ralphgen.project.schema import (
    Facts,
    Parts,
    recorded_parts,
    schema_from_facts,
    schema_problems,
)
from ralphgen.runtime.engine import fingerprint, fold
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.policy import ALL, FULL
from ralphgen.runtime.session import DEFAULT_RECIPE

Recorded = Mapping[str, Any]
"""The facts of `project.json`, as one commit or the disk has them."""

ALLOWING = "ralphgen regen --allow-removals"


_CREATED = re.compile(r"CREATE (?:UNIQUE )?(INDEX|TRIGGER) (?:IF NOT EXISTS )?(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lag:
    """The tables, columns and values that each side lacks, in words, sorted.

    If both lack something, each has changes that the other has not seen.
    """

    database: tuple[str, ...] = ()
    server: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return which side is out of date; empty if neither is."""
        of_database = f"the database is out of date: {_absent(self.database)}"
        of_server = f"the server is out of date: {_absent(self.server)}"
        said = [of_database] * bool(self.database) + [of_server] * bool(self.server)
        return "; ".join(said)

    def hint(self) -> str:
        """Return the remedy; empty if neither side is out of date."""
        if self.database and self.server:
            return 'migrate this database first, then run "ralphgen regen" and commit'
        if self.database:
            it = _pronoun(self.database)
            return f'migrate this database; if it is correct, run "{ALLOWING}" to remove {it}'
        return 'run "ralphgen regen" and commit the result' if self.server else ""


def _pronoun(parts: Sequence[str]) -> str:
    return "it" if len(parts) == 1 else "them"


def _absent(parts: Sequence[str]) -> str:
    """Return that these parts are missing."""
    named = ", ".join(part.removeprefix("the ") for part in parts)
    return f"{named} {'is' if len(parts) == 1 else 'are'} missing"


def lag(recorded: Iterable[Recorded], project: ProjectFacts) -> Lag:
    """Return the parts that the project's database and the recorded servers lack of each other.

    Columns that the config hides are ignored on both sides, and so are tables that it no longer
    serves and a ledger that only the database lacks.
    """
    hide = project.schema.hide
    defined = project.schema.definitions
    every_one = [*recorded]
    named = [recorded_parts(one) for one in every_one]
    is_known = defined is not None and None not in named  # an earlier ralphgen recorded none
    found = _parts(table_facts(project.schema.tables), hide)
    known = [_parts(_still_served(one, project), hide) for one in every_one]
    if is_known:
        found |= _names(defined or ())
        known = [one | _names(parts or ()) for one, parts in zip(known, named, strict=True)]
    every = {name: words for parts in known for name, words in parts.items()}
    if not every:
        return Lag()
    return Lag(_absent_parts(every, found), _absent_parts(found, every))


def _still_served(one: Recorded, project: ProjectFacts) -> Facts:
    """Return the recorded tables, except those that the settings no longer serve and the ledger.

    A ledger that the project has counts.
    """
    gone = {*one["config"].get("tables", {})} - {table.name for table in project.tables}
    gone |= set() if project.schema.table(MARKER) else {MARKER}
    return {table: columns for table, columns in one["schema"].items() if table not in gone}


def _missing_ledger(recorded: Iterable[Recorded], project: Project) -> list[Problem]:
    """Return a problem if the recorded servers use a ledger that the database does not have."""
    if project.schema.table(MARKER) or not any(MARKER in one["schema"] for one in recorded):
        return []
    text = f"{database_name(project.root)} has no ledger, but {FOLDER} was generated with one"
    return [Problem(text, 'run "ralphgen db ledger on"')]


def refuse_removals(
    recorded: Sequence[Recorded], project: Project, removed: Collection[str]
) -> None:
    """Raise `ProjectError` with every part of the recorded servers that the new one would lose.

    These are tables, columns, values and tools without a counterpart in the database, and proof
    that tasks are done. Removals in the config are explicit and do not count. `removed` are tables
    that the command itself has removed.
    """
    gone = lag(recorded, project.facts).database
    parts = [one for one in gone if one not in {f'the table "{name}"' for name in removed}]
    tools = sorted({tool for one in recorded for tool in _unsupported_tools(one, project)})
    texts = [f"{FOLDER} would lose {one}" for one in (*parts, *tools)]
    proof: list[str] = []
    for one in recorded:
        lost = loosened(one["config"].get("done"), project.facts.done)
        proof += [f'{what}; this can weaken the proof of "done"' for what in lost]
    problems = [] if MARKER in removed else _missing_ledger(recorded, project)
    if texts or proof:
        *others, last = sorted({*texts, *proof})
        hint = f'apply it with "{ALLOWING}"'
        if texts:
            hint = f'run the missing migration, or remove {_pronoun(texts)} with "{ALLOWING}"'
        problems += [*map(Problem, others), Problem(last, hint)]
    if problems:
        raise ProjectError.of(problems)


def refuse_behind(project: Project) -> None:
    """Raise `ProjectError` if the database lacks tables or columns that the server on disk has."""
    try:
        recorded = read_recorded((project.root / FACTS).read_bytes())
    except OSError:
        return
    if problems := _missing_ledger(recorded, project):
        raise ProjectError.of(problems)
    found = Lag(lag(recorded, project.facts).database)
    if found.database:
        raise ProjectError(found.sentence(), found.hint())


def refuse_unstartable(project: Project) -> None:
    """Raise `ProjectError` if the database is too old for the server on disk to start."""
    try:
        recorded = read_recorded((project.root / FACTS).read_bytes())
    except OSError:
        return
    schema = project.schema
    if any(fingerprint(one["schema"], schema.hide) != schema.fingerprint for one in recorded):
        refuse_behind(project)


def read_recorded(text: bytes) -> list[Recorded]:
    """Return the facts in the text of a `project.json`; empty if it is invalid."""
    try:
        facts = json.loads(text)
        schema_from_facts(facts["schema"])
        _ = facts["config"].get("done"), {*facts["config"].get("tables", {})}
        recorded_parts(facts)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    return [facts]


def _parts(tables: Facts, hide: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Return the tables, columns and values that a server may see, as words by identity."""
    hidden = {fold(entry) for entry in hide}
    parts: dict[tuple[str, ...], str] = {}
    for table, columns in tables.items():
        parts[(table,)] = f'the table "{table}"'
        for column in columns:
            name = f"{table}.{column['name']}"
            if fold(name) in hidden:
                continue
            parts[table, fold(column["name"])] = f'the column "{name}"'
            for value in column["values"] or ():
                parts[table, fold(column["name"]), value] = f'the value "{value}" of "{name}"'
    return parts


def _names(definitions: Parts) -> dict[tuple[str, ...], str]:
    """Return the indexes and triggers of tables, as words by identity."""
    found: dict[tuple[str, ...], str] = {}
    for table, parts in definitions:
        for part in parts:
            if name := _CREATED.match(part):
                words = f'the {name[1].lower()} {name[2]} of "{table}"'
                found[table, f"{name[1]} {name[2]}"] = words
    return found


def _absent_parts(
    wanted: Mapping[tuple[str, ...], str], there: Mapping[tuple[str, ...], str]
) -> tuple[str, ...]:
    """Return the missing parts in words; for a missing whole, not its parts.

    A column without a list of values accepts any value, and lacks none.
    """
    limited = {key[:2] for key in there if len(key) > len(("table", "column"))}
    return tuple(
        words
        for key, words in sorted(wanted.items())
        if key not in there
        and (key[:-1] in there or len(key) == 1)
        and (key[:2] in limited or len(key) <= len(("table", "column")))
    )


def _unsupported_tools(one: Recorded, project: Project) -> list[str]:
    """Return the tools that the recorded schema supports and the project's schema does not.

    Both are planned from the same config, so that only the database can make a difference.
    """
    columns = {
        fold(f"{table}.{column['name']}")
        for table, columns in one["schema"].items()
        for column in columns
    }
    hide = [entry for entry in project.schema.hide if fold(entry) in columns]
    try:
        schema = schema_from_facts(one["schema"], hide)
        lacks = schema_problems(schema, set(one["schema"]))
        if lacks and not project.serves_any_database:
            return []  # it was generated for the tables of an app
        before = plan_server(replace(project.facts, schema=schema), KITS)
    except ProjectError:
        return []
    now = {(kit.key, tool.name) for kit in project.plan.kits for tool in kit.tools}
    return [
        f'the tool "{kit.key}:{tool.name}"'
        for kit in before.kits
        for tool in kit.tools
        if (kit.key, tool.name) not in now
    ]


POLICY_FILE = "policy.py"
NAMED_TOOLS = 5
"""Tools that a sentence names; of more it says how many there are."""
UNREADABLE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError),
    *(SyntaxError, StopIteration, RecursionError),
)
Tools = Mapping[str, Sequence[str]]


def tools_on_disk(root: Path, recipe: str = FULL, *, absent: bool = False) -> Tools:
    """Return, by kit, the tools that a recipe has in the policy of the server on disk.

    With `absent`, the result includes the tools that the project could not support. The policy is
    not run; if it cannot be read, the result is empty.
    """
    found: dict[str, list[str]] = {}
    try:
        tree = ast.parse((root / FOLDER / POLICY_FILE).read_bytes())
        policy: Any = next(node.value for node in tree.body if isinstance(node, ast.Assign))
        said = {one.arg: one.value for one in policy.keywords}
        names = [ast.literal_eval(key) for key in said["recipes"].keys]
        recipes = dict(zip(names, said["recipes"].values, strict=True))
        given = {one.arg: one.value for one in recipes[recipe].keywords}
        every = json.loads((root / FOLDER / MANIFEST).read_bytes()).get("tools", {})
        whole = ast.literal_eval(given["tools"])
        kits = [{kit: every[kit] if named == ALL else named for kit, named in whole.items()}]
        kits += [ast.literal_eval(said["absent"])] if absent and "absent" in said else []
        for tools in kits:
            for kit, named in tools.items():
                found.setdefault(kit, []).extend(named)
    except UNREADABLE:
        return {}
    return found


def _absent_on_disk(root: Path) -> set[str]:
    """Return the tools, as `kit:tool`, that the server on disk names as impossible."""
    both = tools_on_disk(root, absent=True), tools_on_disk(root)
    every, offered = (
        {f"{kit}:{name}" for kit, names in tools.items() for name in names} for tools in both
    )
    return every - offered


def renew_default_context(root: Path, plan: ServerPlan, known: Tools) -> list[str]:
    """Write the default context again if it is as `init` wrote it; return messages.

    `known` are the reading tools of the previous server, by kit: a context that enables exactly
    these was never changed. Any other is kept, and a message names the tools that it lacks and the
    tools that no server has. Raises `ProjectError` if it cannot be written.
    """
    path = root / CONTEXT
    try:
        text = path.read_text(encoding="utf-8")
        context: dict[str, Any] = json.loads(text)
        enabled = {kit: [*tools] for kit, tools in context["enabled_tools"].items()}
        if text == default_context(plan) or path.is_symlink():
            return []
        if _context_text(context) == _context_text(json.loads(default_context(plan, enabled))) and (
            {kit: sorted(tools) for kit, tools in enabled.items() if tools}
            == {kit: sorted(tools) for kit, tools in known.items() if tools}
        ):
            put(path, default_context(plan))
            now = plan.policy.recipes[DEFAULT_RECIPE].tools
            count = sum(map(len, now.values()))
            is_same = {kit: {*tools} for kit, tools in now.items() if tools} == {
                kit: {*tools} for kit, tools in enabled.items() if tools
            }
            having = f"clients without a session now have {counted(count, 'read-only tool')}"
            return [] if is_same else [f"wrote {CONTEXT}: {having}"]
        return _difference(plan, context)
    except UNREADABLE:
        return []  # the server itself refuses a context that cannot be read


def _context_text(context: Mapping[str, Any]) -> str:
    """Return a context as text, where only the presence of removals counts."""
    return json.dumps({**context, "disabled_tools": any(context["disabled_tools"].values())})


def _difference(plan: ServerPlan, context: Mapping[str, Any]) -> list[str]:
    """Return a line on what a context lacks of its recipe's tools and names that is not there."""
    policy, recipe = plan.policy, context["recipe"]
    if recipe not in policy.recipes:
        return []
    enabled, disabled = context["enabled_tools"], context.get("disabled_tools", {})
    whole = {kit.key: (*(tool.name for tool in kit.tools), *kit.absent) for kit in plan.kits}
    lacks = [
        f"{kit.key}:{tool.name}"
        for kit in plan.kits
        for tool in kit.tools
        if tool.name in policy.allowed(recipe, kit.key)
        if tool.name not in {*enabled.get(kit.key, ()), *disabled.get(kit.key, ())}
    ]
    gone = dict.fromkeys(
        f"{kit}:{name}"
        for named in (enabled, disabled)
        for kit, names in named.items()
        for name in names
        if name not in whole.get(kit, ())
    )
    said = [f"lacks {_counted(lacks)}"] * bool(lacks)
    said += [f"contains the removed {_counted([*gone])}"] * bool(gone)
    hint = f'renew it with "ralphgen session create {recipe} --default"'
    return [f"warning: {CONTEXT} was kept; it {' and '.join(said)}: {hint}"] if said else []


def _counted(tools: Sequence[str]) -> str:
    """Return the first of some tools in words, and how many more there are."""
    more = f" and {len(tools) - NAMED_TOOLS} more" if len(tools) > NAMED_TOOLS else ""
    return one_line(f"{', '.join(tools[:NAMED_TOOLS])}{more}")


def name_project(root: Path) -> bool:
    """Write an id into `[http]` of the config if it has none; return whether that was done.

    The id never changes afterwards. Raises `ProjectError` if the config is invalid, or cannot be
    written without changing anything else.
    """
    from ralphgen.project.toml_edit import edited

    path = root / CONFIG
    if not os.path.lexists(path) or not _lacks_id(root):
        return False
    with config_lock(root):
        if not _lacks_id(root):  # another has given it one meanwhile
            return False
        name = str(uuid4())
        try:
            put(path, edited(whole_text(path, CONFIG), [(("http", "id"), name)]))
        except ValueError as error:
            hint = f'add this to [http] by hand: id = "{name}"'
            raise ProjectError(f"{CONFIG} cannot be changed: {error}", hint) from error
    return True


def _lacks_id(root: Path) -> bool:
    """Return whether the config has the project served over HTTP, and gives it no id."""
    http = read_settings(root).http
    return http is not None and http.id is None


LISTED = 5  # files of a kind in the verdict


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of `check`: the drift, which side is out of date, and further messages.

    `server` is the drift of the server, and `connected` that of the files that `connect` wrote.
    `merging` is set if git left generated files unmerged.
    """

    server: Drift
    connected: Drift
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    written_by: str
    lag: Lag
    merging: bool

    @property
    def drift(self) -> Drift:
        """The drift of all files."""
        return self.server.plus(self.connected)

    def summary(self) -> str:
        """Return one sentence on what differs."""
        if self.server.interrupted:
            return f"a write of {FOLDER} was interrupted"
        if self.merging:
            return f"{FOLDER} has unmerged files{self._behind()}"
        places = (
            (f"{FOLDER} is out of date", self.server),
            ("files for clients are out of date", self.connected),
        )
        found = [f"{text} ({_drift_paths(drift)})" for text, drift in places if drift]
        return f"{'; '.join(found)}{self._behind()}"

    def hint(self) -> str:
        """Return what to do about it."""
        drift = self.drift
        behind = drift.stale or drift.missing or drift.leftover
        ways = (
            (drift.interrupted, 'run "ralphgen regen"'),
            (self.lag.database, self.lag.hint()),
            (
                self.merging,
                f'run "ralphgen regen", then "git add {FOLDER}"',
            ),
            (drift.hint, drift.hint),
            (
                drift.edited,
                'save the edits you need, then run "ralphgen regen --force" to overwrite them',
            ),
            (behind, 'run "ralphgen regen" and commit the result'),
        )
        unknown = "remove them, or move your own files to another directory"
        return next((way for applies, way in ways if applies), unknown)

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
            "notes": list(self.notes),
            "interrupted": self.drift.interrupted,
            "merging": self.merging,
            "database_lacks": list(self.lag.database),
            "server_lacks": list(self.lag.server),
        }

    def _behind(self) -> str:
        """Return a line that names the side that is out of date; empty if neither is."""
        sentence = self.lag.sentence()
        return f"\n{sentence}" if sentence else ""


def _drift_paths(drift: Drift) -> str:
    """Return the first paths of a drift, by kind."""
    found = []
    for kind in ("stale", "edited", "missing", "leftover", "unknown"):
        paths: tuple[str, ...] = getattr(drift, kind)
        more = f" and {len(paths) - LISTED} more" if len(paths) > LISTED else ""
        found += [f"{kind}: {plain(', '.join(paths[:LISTED]))}{more}"] * bool(paths)
    return "; ".join(found)


@dataclass(frozen=True, slots=True)
class Before:
    """The last generated state: facts and versions on disk, or those of both sides of a merge."""

    merge: Merge | None
    recorded: tuple[Recorded, ...]
    versions: tuple[str, ...]

    def refuse_other_versions(self, root: Path) -> None:
        """Raise `VersionError` where another ralphgen than this one has to write the project."""
        for version in self.versions:
            refuse_older(version)
        refuse_unwanted(root, CONFIG)


def read_before(root: Path) -> Before:
    """Return the last generated state of the project in `root`, which may be empty.

    Raises `ProjectError` if the project's own files contain conflict markers.
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
        tuple(version for text in manifests if (version := generator_version(text))),
    )


def _texts(path: Path) -> tuple[bytes, ...]:
    """Return the bytes of a file, or nothing if it is unreadable."""
    try:
        return (path.read_bytes(),)
    except OSError:
        return ()


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
) -> Project:
    """Write the project's server, then the files of `connect` that exist.

    Raises `EditedError` for hand edits unless forced; for edits of the files of `connect` only if
    `strict`, else a warning names them. If git left generated files unmerged, both sides are
    compared with their manifests instead of the files on disk. Raises `VersionError` if another
    version of ralphgen is required, unless forced. Raises `ProjectError` if the server would lose
    tables, columns, values or tools, or if tasks could be closed with less proof, unless
    `allow_removals`. `removed` are tables that the caller itself has removed. With `records`, the
    user's own parts are recorded as trusted, as `record_own_files` does with `ask`.
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
    project, _ = _inspected(root, say)
    if not allow_removals:
        refuse_removals(before.recorded, project, removed)
    if before.merge and not force:
        _refuse_edited_sides(before.merge)
    known = tools_on_disk(root, DEFAULT_RECIPE)
    absent = _absent_on_disk(root)
    merged = before.merge.listed if before.merge else None
    is_new = not (root / FACTS).exists()
    written = write(root / FOLDER, project.files, force=force, merged=merged)
    for line in (
        _write_summary(written, is_new=is_new),
        *renew_default_context(root, project.plan, known),
        *([] if is_new else _new_absences(project.plan, absent)),
        *_remarks(project.plan),
    ):
        say(line)
    if before.merge:
        say(f'regenerated from both sides of the merge: accept it with "git add {FOLDER}"')
    if records:
        for warning in _recorded(project, ask):
            say(f"warning: {warning}")
    _rewrite_connected(project, say, force=force, records=records, strict=strict)
    return project


def _rewrite_connected(
    project: Project, say: Say, *, force: bool, records: bool, strict: bool
) -> None:
    """Write the existing files of `connect`; a failure is a warning, or an error if `strict`."""
    root = project.root
    try:
        chosen = [*connected(project, say)]
        places = [root / target.path for target in chosen]
        with recorded_writes(root, places) if chosen and records else nullcontext():
            for target, changed in write_targets(root, chosen, force=force):
                if changed:
                    say(f"wrote {target.path}")
    except ProjectError as error:
        if strict:
            raise
        say(f"warning: {error}")


def _recorded(project: Project, ask: Ask | None) -> Sequence[str]:
    """Record the user's own parts, as `record_own_files` does; return its warnings.

    Nothing is recorded without the database, whose absence a warning has reported.
    """
    try:
        if not has_database(project.root):
            return ()
        items, run = own_file_items(project), run_items(project)
    except ProjectError as error:  # such as an unreadable value in the database
        return [f"the approval was not recorded: {error.problems[0].text}"]
    return record_own_files(project.root, project.files[MANIFEST], items, run, ask)


def _new_absences(plan: ServerPlan, known: Collection[str]) -> Iterator[str]:
    """Yield a message for each impossible tool that is not among the `known` ones."""
    for kit in plan.kits:
        for name, reason in kit.absent.items():
            if f"{kit.key}:{name}" not in known:
                yield plain(f"note: {kit.key}:{name} is not offered: {reason}")


def _remarks(plan: ServerPlan) -> Iterator[str]:
    """Yield messages about the generated lists of tools."""
    for one in plan.wordings:
        yield plain(one.description_message)
    for line in long_lists(plan):
        yield f"warning: {line}"


def _refuse_edited_sides(merge: Merge) -> None:
    """Raise `EditedError` if a file of a side of the merge was edited by hand."""
    if merge.problems:
        *others, last = merge.problems
        hint = 'save the edits you need, then run "ralphgen regen --force" to overwrite them'
        raise EditedError.of([*map(Problem, others), Problem(last, hint)])


def preview(root: Path, *, say: Say) -> str:
    """Return the unified diff from the files on disk to newly generated ones."""
    before = read_before(root)
    before.refuse_other_versions(root)
    project, _ = _inspected(root, say)
    try:
        refuse_removals(before.recorded, project, ())
    except ProjectError as error:
        for problem in error.problems:
            say(f"warning: {problem.text}")
    return diff(root / FOLDER, project.files) + connected_drift(project, say).diff


def checked(root: Path, *, say: Say) -> Report:
    """Compare the server on disk with a newly generated one; writes nothing.

    Raises `VersionError`, without comparing, if another release of ralphgen wrote it or is
    required.
    """
    before = read_before(root)
    before.refuse_other_versions(root)
    for version in before.versions:
        refuse_earlier(version)
    project, notes = _inspected(root, say, with_ledger=True)
    return Report(
        compare(root / FOLDER, project.files),
        connected_drift(project, say),
        project.plan.warnings,
        notes,
        max(before.versions, default=""),
        lag(before.recorded, project.facts),
        before.merge is not None,
    )


def install_environment(root: Path, *, say: Say) -> None:
    """Build the environment of the project's server if it has a lock, and compile its modules."""
    from ralphgen.environment.program import server_program

    server_program((root / FOLDER).absolute(), say)
    compile_server(root)


def compile_server(root: Path) -> None:
    """Compile the modules of the project's server for its first start."""
    from ralphgen.runtime.verification import keep_verified

    with suppress(ValueError):  # a file edited by hand, which the server itself reports
        keep_verified(str((root / FOLDER).absolute()))


def _inspected(
    root: Path, say: Say, *, with_ledger: bool = False
) -> tuple[Project, tuple[str, ...]]:
    """Return the project in `root` and the notes on its patterns; report these and its warnings."""
    project = Project(root, with_ledger=with_ledger)
    for warning in project.plan.warnings:
        say(f"warning: {plain(warning)}")
    notes = tuple(pattern_notes(root, project.config))
    for note in notes:
        say(f"note: {plain(note)}")
    return project, notes


def _write_summary(written: Written, *, is_new: bool) -> str:
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


WATCH_PAUSE = 0.5  # seconds between two looks


def watch(root: Path, say: Say, wait: Callable[[float], None] = time.sleep) -> None:
    """Regenerate the server of the project in `root` after each change of its sources.

    These are its config, its recipes, its queries, its tools and its database. Errors are reported,
    and the next change triggers another try. No hand edit is overwritten, nothing is removed, and
    repeated messages are suppressed. `wait` sleeps for some seconds, and ends the loop by raising
    an exception.
    """
    seen: object = None
    said: list[str] = []
    while True:
        stamps = [*_source_stamps(root)]
        if stamps != seen:
            seen = stamps
            lines = _lines_of_regen(root)
            if lines != said:
                said = lines
                say("\n".join(lines))
        wait(WATCH_PAUSE)


def _lines_of_regen(root: Path) -> list[str]:
    """Write the server; return the messages."""
    lines: list[str] = []
    try:
        regenerate(root, force=False, say=lines.append, records=False)
    except RalphgenError as error:
        lines.append(f"error: {error}")
    return lines


def _source_stamps(root: Path) -> Iterator[object]:
    """Yield what changes with each of the files."""
    try:
        database = database_path(root)
    except RalphgenError:  # an error of the config is reported when it is read
        database = project_home(root) / DATABASE
    log = database.with_name(f"{database.name}-wal")
    written = [*(root / RECIPES).glob("*.toml"), *(root / QUERIES).glob("*.sql")]
    written += (root / TOOLS).glob("*.py")
    for path in (root / CONFIG, database, log, *sorted(written)):
        try:
            found = path.stat()
        except OSError as error:
            yield path, error.errno
        else:
            yield path, found.st_mtime_ns, found.st_size, found.st_ino


VENDORED = "vendored"
# The kind of a file, by its name or its folder; any other file belongs to a kit and holds tools.
KINDS = {
    POLICY_FILE: "policy",
    "project.json": "facts",
    "runtime": VENDORED,
    "requirements.lock": VENDORED,
    MANIFEST: VENDORED,
    **dict.fromkeys(("server.py", "README.md", "ruff.toml"), "server"),
    **dict.fromkeys((".gitattributes", ".gitignore", ".prettierrc"), "server"),
}
ORDER = ("tools", "policy", "facts", "server", VENDORED)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The upgrade of a project's server; `before` is the version that wrote it.

    `gained` and `lost` are tools, as `kit:tool`; `parts` is the diff of each file by its path.
    """

    before: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    parts: Mapping[str, str]

    def text(self) -> str:
        """Return one diff with a line above each kind of files; of vendored ones, the line alone.

        Vendored files are the same in every project, so their number suffices.
        """
        whole = ""
        for kind in ORDER:
            paths = [
                path
                for path in self.parts
                if (KINDS.get(path) or KINDS.get(path.partition("/")[0], "tools")) == kind
            ]
            if not paths:
                continue
            said = [f"{len(paths)} {'file' if len(paths) == 1 else 'files'}"]
            if kind == "tools":
                said += [f"new: {', '.join(self.gained)}"] * bool(self.gained)
                said += [f"removed: {', '.join(self.lost)}"] * bool(self.lost)
            whole += f"# {kind}: {'; '.join(said)}\n"
            whole += "".join(self.parts[path] for path in paths if kind != VENDORED)
        return whole


def plan_upgrade(root: Path) -> Upgrade | None:
    """Return the changes that this version would make to the project in `root`; writes nothing.

    Returns None unless an earlier release wrote the server. Raises `ProjectError` if there is no
    server, or if it would lose parts that the database lacks, and `VersionError` if another version
    of ralphgen is required.
    """
    before = read_before(root)
    before.refuse_other_versions(root)
    if not before.versions:
        raise ProjectError(f"there is no server in {FOLDER}", 'run "ralphgen init"')
    earlier = [version for version in before.versions if is_earlier(version)]
    if not earlier:
        return None
    project = Project(root)
    refuse_removals(before.recorded, project, ())
    old, new = tools_on_disk(root), project.plan.policy.recipes[FULL].tools
    drift = compare(root / FOLDER, project.files)
    return Upgrade(earlier[0], _only_in(new, old), _only_in(old, new), drift.parts)


def upgrade(root: Path, *, say: Say, ask: Ask | None = None) -> None:
    """Regenerate the server with this version, and upgrade the files of the earlier one.

    These are git's list of ignored files, the schemas for editors, and the ledger, after a backup.
    Raises the errors of `regenerate`.
    """
    regenerate(root, force=False, say=say, ask=ask)
    for written in write_ignored(root):
        say(f"wrote {written}")
    write_schemas(root)
    if not has_database(root):
        return
    found = read_state(root).version
    if found is None:
        say('no ledger; to record sessions, claims and evidence, run "ralphgen db ledger on"')
    elif found < VERSION:
        say(backed_up(root))
        upgrade_tables(root)
        say(f"upgraded the ledger from version {found} to {VERSION}")
    elif made := add_indexes(root):
        say(f"added {made} missing ledger {'index' if made == 1 else 'indexes'}")


def _only_in(some: Tools, others: Tools) -> tuple[str, ...]:
    return tuple(
        f"{kit}:{tool}"
        for kit, tools in some.items()
        for tool in tools
        if tool not in others.get(kit, ())
    )
