"""Examines a project, from its database to a real handshake with its server."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.emit.clients import CLIENTS, GATE_FILES, ClientEntries, has_gate
from ralphgen.emit.connected import all_entries, client_file
from ralphgen.emit.write import TRUST_EDITED, compare
from ralphgen.environment import INTERPRETER_OPTIONS, PYTHON_VARIABLE, base_interpreter
from ralphgen.environment.build import check_environment
from ralphgen.environment.location import environment_for
from ralphgen.environment.program import server_lock
from ralphgen.errors import ProjectError, RalphgenError, UntrustedError, counted
from ralphgen.files import whole_text
from ralphgen.kits.project import Project
from ralphgen.ledger.tables import VERSION, read_state
from ralphgen.loop.trees import worktree_notes
from ralphgen.planning.access import LOGINS, MANY, absent_indexes
from ralphgen.project.database import connected, open_database, open_without_trace
from ralphgen.project.git import committed_texts
from ralphgen.project.inspect import no_database_error
from ralphgen.project.model import DoneRules, OwnTool
from ralphgen.project.own_tools import FOLDER as TOOLS
from ralphgen.project.root import (
    FOLDER,
    DatabasePlace,
    OutsideDatabaseError,
    database_name,
    database_path,
    database_place,
    is_missing,
    place_name,
    project_home,
    refuse_outside_database,
)
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.work_tree import WRITTEN, ignoring_lines, tree_files, untracked_files
from ralphgen.runtime.own_tools.child import OPTION
from ralphgen.runtime.processes.secrets import passed_on
from ralphgen.runtime.tasks import needed_tasks
from ralphgen.runtime.tasks.claims import live_claims, stale_tasks
from ralphgen.sessions.create import require_server, run_to_end
from ralphgen.spelling import sql_name

if TYPE_CHECKING:
    import psycopg


HANDSHAKE = Path(__file__).with_name("handshake.py")
RESTORE = "restore it from a backup"
FINISHED = ("done", "skipped")
NAMED = 20  # tasks in a line
FIX_NAMED = 'fix this, then run "ralphgen doctor" again'
FIX_FILES = 'run "ralphgen regen"'
ADD_LEDGER = 'run "ralphgen db ledger on"'
FIX_TOOL = 'fix it, then run "ralphgen regen"; it can import the packages of the interpreter above'


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one examination; `fix` is empty if nothing is wrong.

    A warning is a choice that has a fix, and no error.
    """

    subject: str
    detail: str
    fix: str = ""
    is_warning: bool = False


def examine(project: Project, *, trust_edited: bool = False) -> Iterator[CheckResult]:
    """Yield the results of the checks; checks that depend on a failed one are skipped.

    A server is started only if ralphgen wrote it or it is trusted, and if its files are unedited or
    `trust_edited` is set. A result reports a server that was not started.
    """
    try:
        yield from _results(project, trust_edited=trust_edited)
    except RalphgenError as error:
        subject = "trust" if isinstance(error, UntrustedError) else "project"
        for problem in error.problems:
            items = "; ".join(line.strip() for line in problem.output.splitlines())
            yield CheckResult(subject, f"{problem.text} {items}".strip(), problem.hint or FIX_NAMED)


def _results(project: Project, *, trust_edited: bool) -> Iterator[CheckResult]:
    """Yield the results. Raises what ends the examination, such as `UntrustedError`."""
    root = project.root
    try:
        place = database_place(root)
        refuse_outside_database(root)
    except OutsideDatabaseError as error:
        yield CheckResult("database", error.problems[0].text, error.problems[0].hint)
        return
    home = project_home(root)
    if home != root:
        yield CheckResult("home", f"{home}, for all worktrees of the repository")
    found = (
        [_database(project)]
        if place is None
        else [CheckResult("database", *one) for one in look_at(place)]
    )
    yield from found
    try:
        kits = [kit.key for kit in project.plan.kits]
    except RalphgenError as error:
        for problem in error.problems:
            if problem.text not in (one.detail for one in found):
                yield CheckResult("settings", problem.text, problem.hint or "fix this")
        return
    missing = place is None and is_missing(database_path(root))
    yield CheckResult("settings", f"valid; kits: {', '.join(kits)}")
    unusable = project.facts.unusable_servers
    yield from (CheckResult("discipline", one.text, one.hint) for one in unusable)
    yield _files(project)
    yield from _clients(root, kits)
    yield from _gates(root, project.facts.done)
    yield _fingerprint(project)
    if not missing:
        yield (ledger := _ledger(project))
        if ledger.fix == ADD_LEDGER:
            return
    if not missing and not project.serves_any_database:  # an app may have other tables named so
        yield from _tasks(project)
    if not all((root / FOLDER / name).is_file() for name in ("server.py", "manifest.json")):
        return
    python, finding = _interpreter(root)
    yield finding
    if finding.fix or missing:
        return
    require_server(root, ["ralph"], trust_edited=trust_edited)
    trusting = (TRUST_EDITED,) if trust_edited else ()
    if own := project.facts.own_tools:
        yield from _own_tools(root, python, own, kits[0], *trusting)
    for kit in kits:
        yield _handshake(root, python, kit, *trusting)


def _database(project: Project) -> CheckResult:
    root = project.root
    try:
        if is_missing(database_path(root)):
            raise no_database_error(root, any_schema=_is_of_app(project))
        with open_without_trace(database_path(root)) as connection:
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
    except ProjectError as error:
        return CheckResult("database", error.problems[0].text, error.problems[0].hint or RESTORE)
    except sqlite3.Error as error:
        return CheckResult("database", str(error), RESTORE)
    if answer != "ok":
        return CheckResult("database", f'quick_check reports "{answer}"', RESTORE)
    is_around = Path.cwd().is_relative_to(root)
    name = database_name(root) if is_around else database_path(root)
    return CheckResult("database", f"{name} passes quick_check")


def _is_of_app(project: Project) -> bool:
    with suppress(ProjectError):  # unreadable settings are a separate result
        return project.serves_any_database
    return False


def _files(project: Project) -> CheckResult:
    try:
        drift = compare(project.root / FOLDER, project.files)
    except ProjectError as error:
        return CheckResult("files", error.problems[0].text, error.problems[0].hint)
    if drift.interrupted:
        return CheckResult("files", "the last write was interrupted", FIX_FILES)
    if not drift:
        return CheckResult("files", f"{len(project.files)} generated files are unmodified")
    kinds = ("stale", "edited", "missing", "leftover", "unknown")
    counts = ", ".join(
        f"{len(getattr(drift, kind))} {kind}" for kind in kinds if getattr(drift, kind)
    )
    return CheckResult("files", counts, 'run "ralphgen check" for details')


def _clients(root: Path, kits: Sequence[str]) -> Iterator[CheckResult]:
    """Compare the servers in files of MCP clients with the entries that `connect` writes."""
    connected = []
    for client, form in CLIENTS.items():
        others = [] if form.personal else ClientEntries(client, root, kits).foreign()
        if others:
            path = client_file(ClientEntries(client, root, kits)).path
            text = f"{path} starts {', '.join(others)} with another command"
            fix = f'remove it there, then run "ralphgen connect {client}"'
            yield CheckResult("clients", text, fix, is_warning=True)
    for entries in all_entries(root, kits):
        target = client_file(entries)
        try:
            is_same = not target.drift(root)
        except ProjectError as error:
            problem = error.problems[0]
            yield CheckResult("clients", problem.text, problem.hint or FIX_NAMED)
            continue
        others = [] if entries.personal else entries.foreign()
        absent = [kit for kit in kits if kit not in (*entries.kits, *others)]
        if is_same and absent:
            text = f"{target.path} has no server for {', '.join(absent)}"
            command = f"ralphgen connect {entries.client}{' --user' * entries.personal}"
            yield CheckResult("clients", text, f'run "{command}"', is_warning=True)
        elif is_same:
            connected.append(entries.client)
        else:
            text = f"{target.path} starts the server with another command or path"
            yield CheckResult("clients", text, FIX_FILES)
    if connected:
        yield CheckResult("clients", f"connected: {', '.join(dict.fromkeys(connected))}")


def _gates(root: Path, done: DoneRules | None) -> Iterator[CheckResult]:
    """Find the Stop hooks of the gate in files of clients, and whether they have a check to run."""
    for path in GATE_FILES.values():
        try:
            is_gated = has_gate(whole_text(root / path, path, missing=""))
        except ProjectError:
            continue  # the client itself reports the file
        if is_gated and (done is None or not done.checks):
            text = f"the Stop hook in {path} has nothing to prove: the project has no checks"
            yield CheckResult("gate", text, "add [[done.checks]]", is_warning=True)
        elif is_gated:
            yield CheckResult("gate", f"{path} proves the files before a turn ends")


def _fingerprint(project: Project) -> CheckResult:
    try:
        manifest = json.loads((project.root / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        built_for = manifest["schema"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return CheckResult("schema", "the manifest cannot be read", FIX_FILES)
    if built_for != project.plan.schema_fingerprint:
        return CheckResult("schema", "the server was generated for another schema", FIX_FILES)
    return CheckResult("schema", "matches the generated server")


def _indexes(project: Project) -> Iterator[CheckResult]:
    """Say which indexes on tasks are missing, once there are so many tasks that it is felt."""
    try:
        with project.rows() as rows:
            tasks = rows.tasks()
            missing = absent_indexes(project.facts, rows.indexes()) if tasks >= MANY else ()
    except ProjectError:
        return  # already reported
    if missing:
        wanted = "; ".join(f"{index.name} for {index.purpose}" for index in missing)
        text = f'{tasks} tasks lack indexes: {wanted}; "ralphgen db indexes" prints their SQL'
        yield CheckResult("indexes", text)
    elif tasks >= MANY:
        yield CheckResult("indexes", f"complete for {tasks} tasks")


def _ledger(project: Project) -> CheckResult:
    """Say whether there is a ledger, which is not made for a database that is committed."""
    root = project.root
    try:
        version = read_state(root).version
    except ProjectError as error:
        return CheckResult("ledger", error.problems[0].text, error.problems[0].hint)
    if version is None and project.facts.schema.table(MARKER) is not None:
        text = "off, but the server was generated with a ledger"
        return CheckResult("ledger", text, ADD_LEDGER)
    if version is None:
        return CheckResult(
            "ledger", 'off; to record sessions and evidence, run "ralphgen db ledger on"'
        )
    if version < VERSION:
        text = f"version {version}; this ralphgen uses version {VERSION}"
        return CheckResult("ledger", text, 'run "ralphgen db ledger upgrade"')
    if database_place(root) is None and committed_texts(database_path(root)):
        text = "the database is in git and changes with every session; better exclude it"
        return CheckResult("ledger", f"version {version}; {text}")
    return CheckResult("ledger", f"version {version}")


def _tasks(project: Project) -> Iterator[CheckResult]:
    """Say how tasks are found, who holds them, what proves that they are done, and what waits."""
    root, done = project.root, project.facts.done
    yield from _indexes(project)
    if project.schema.table(MARKER) is not None:
        yield _claims(root)
    yield from _missing_tasks(project)
    yield _done(done)
    yield from _check_untracked_files(root)
    place = database_place(root)
    if place is not None and done is not None:
        with suppress(ProjectError):  # a database that does not respond is already reported
            yield CheckResult("done", proof_is_walled(place))
    try:
        for note in worktree_notes(root):
            yield CheckResult("worktrees", note)
    except ProjectError as error:
        problem = error.problems[0]
        yield CheckResult("worktrees", problem.text, problem.hint or 'run "git worktree list"')


def _missing_tasks(project: Project) -> Iterator[CheckResult]:
    """Count the tasks that wait for tasks that do not exist."""
    table = project.schema.table("tasks")
    names = {column.name for column in table.columns} if table else set()
    if not {"id", "depends_on", "status"} <= names:
        return
    with open_database(project.root) as connection:
        rows = connection.rows("SELECT id, depends_on, status FROM tasks ORDER BY id")
    ids = {row[0] for row in rows}
    open_rows = [row for row in rows if row[2] not in FINISHED]
    waiting = [(row[0], {*(needed_tasks(row[1]) or ())} - ids) for row in open_rows]
    missing = [(task, sorted(gone)) for task, gone in waiting if gone]
    if missing:
        count = f"{len(missing)} {'task waits' if len(missing) == 1 else 'tasks wait'}"
        shown = [
            f"task {task} waits for missing task {', '.join(map(str, gone))}"
            for task, gone in missing[:NAMED]
        ]
        more = ["…"] if len(missing) > NAMED else []
        yield CheckResult("tasks", f"{count} for missing tasks: {'; '.join(shown + more)}")


def _claims(root: Path) -> CheckResult:
    """Say how many tasks are held, and which were begun by sessions that are gone."""
    with open_database(root) as connection:
        held = len(live_claims(connection))
        stale = sorted(stale_tasks(connection))
    one = "1 task is claimed by a session"
    detail = one if held == 1 else f"{held or 'no'} tasks are claimed by sessions"
    if not stale:
        return CheckResult("claims", f"{detail}, none stale" if held else "none")
    named = ", ".join(map(str, stale[:NAMED])) + (" …" if stale[NAMED:] else "")
    text = f"{detail}; stale, because their sessions have ended: {named}"
    return CheckResult("claims", f'{text}; "ralphgen task next --claim" claims them')


def _done(rules: DoneRules | None) -> CheckResult:
    """Return the checks that prove a task, or a warning if there are none."""
    if rules is None:
        text = "none configured: agents can close tasks without proof"
        fix = 'add [[done.checks]] to .ralph/ralphgen.toml, then run "ralphgen regen"'
        return CheckResult("checks", text, fix, is_warning=True)
    names = ", ".join(one_line(check.name) for check in rules.checks)
    return CheckResult("checks", f"tasks are proved by {names}")


def _check_untracked_files(root: Path) -> Iterator[CheckResult]:
    """Report the untracked files that checks have written, which make their proof worthless."""
    try:
        named = json.loads((root / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if written := untracked_files(str(root), names):
        shown = ", ".join(f'"{one_line(name)}"' for name in written[:NAMED])
        more = f" and {len(written) - NAMED} more" if written[NAMED:] else ""
        lines = ", ".join(map(one_line, ignoring_lines(written, tree_files(str(root)))[:NAMED]))
        text = f"checks write files that git does not ignore: {shown}{more}"
        yield CheckResult("done", text, f"add to .gitignore: {lines}")


def _interpreter(root: Path) -> tuple[str, CheckResult]:
    """Return the interpreter that starts the server, and the result of checking it."""
    subject = "interpreter"
    try:
        lock = server_lock(root / FOLDER)
        environment = environment_for(lock) if lock else None
        python = f"{environment.python if environment else base_interpreter()[0]}"
    except ProjectError as error:
        return "", CheckResult(subject, error.problems[0].text, error.problems[0].hint)
    if environment and (problems := check_environment(environment)):
        fix = FIX_FILES
        if environment.folder.exists():
            fix = f'delete "{environment.folder}", then run "ralphgen regen"'
        return python, CheckResult(subject, "; ".join(problems), fix)
    return python, CheckResult(subject, f"{python}; {PYTHON_VARIABLE} selects another")


def _handshake(root: Path, python: str, kit: str, *trusting: str) -> CheckResult:
    """Start the server as a client does; the official SDK's client lists and calls its tools.

    The client runs in its own process, by the interpreter of ralphgen.
    """
    subject, named = "server", f'"{kit}"'
    server = (python, *INTERPRETER_OPTIONS, str(root / FOLDER / "server.py"), kit, *trusting)
    try:
        refusal = run_to_end([*server, "--check"])
        if refusal.returncode:
            detail = refusal.stderr.strip() or "exits immediately"
            return CheckResult(subject, f"{named}: {detail}", FIX_NAMED)
        shaken = run_to_end([sys.executable, "-I", str(HANDSHAKE), *server])
        outcome = json.loads(shaken.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(subject, f"{named} cannot be run: {error}", FIX_NAMED)
    except ValueError:
        detail = shaken.stderr.strip()[-500:] or "no answer"
        return CheckResult(subject, f"{named}: {detail}", FIX_NAMED)
    if outcome.get("error"):
        return CheckResult(subject, f"{named}: {outcome['error']}", FIX_NAMED)
    called = f"; {outcome['called']} works" if "called" in outcome else ""
    tools = counted(outcome["tools"], "tool")
    return CheckResult(subject, f"{named} answered with {tools}{called}")


def _own_tools(
    root: Path, python: str, tools: Sequence[OwnTool], *arguments: str
) -> Iterator[CheckResult]:
    """Make the server load the files of the custom tools as its first call does.

    Call this only if their files are trusted.
    """
    subject, folder = "own tools", root / FOLDER
    asked = [
        {"root": str(root), "file": tool.file, "sha256": tool.sha256, "tool": tool.name}
        for tool in tools
    ]
    server = [python, *INTERPRETER_OPTIONS, str(folder / "server.py"), *arguments, OPTION]
    try:
        given = "".join(f"{json.dumps(one)}\n" for one in asked)
        done = run_to_end(server, given, cwd=root, env=passed_on(str(folder)))
        _, *answers = [json.loads(line) for line in done.stdout.splitlines()]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        yield CheckResult(subject, f"loading them failed: {one_line(str(error))}", FIX_TOOL)
        return
    failed = {tools[len(answers)].file: "it exits the process"} if len(answers) < len(tools) else {}
    for tool, answer in zip(tools, answers, strict=False):
        if "result" not in answer:
            said = answer.get("refused") or answer["traceback"].strip().splitlines()[-1]
            failed.setdefault(tool.file, one_line(said))
    for file, why in failed.items():
        yield CheckResult(subject, f"{TOOLS}/{file} cannot be loaded: {why}", FIX_TOOL)
    if not failed:
        files = ", ".join(dict.fromkeys(tool.file for tool in tools))
        yield CheckResult(subject, f"can be loaded: {files}")


_SERVER_VERSION = "SELECT pg_catalog.current_setting('server_version')"
_BACKEND = "SELECT pg_catalog.pg_backend_pid()"
POOLED = (
    "a pooler assigns each transaction another connection: servers are not notified of "
    "changes and poll instead"
)


def look_at(place: DatabasePlace) -> Iterator[tuple[str, str]]:
    """Yield each finding with its remedy, which is empty if all is well."""
    try:
        with connected(place) as first, connected(place) as second:
            (version,) = first.execute(_SERVER_VERSION).fetchone() or ("",)
            yield f"{place_name(place)}: PostgreSQL {version} responds", ""
            if _is_pooled(first, second):
                yield POOLED, f"set {place.dsn_env} to the database itself, or use session pooling"
    except ProjectError as error:
        yield error.problems[0].text, error.problems[0].hint


def proof_is_walled(place: DatabasePlace) -> str:
    """Return whether a session's own login prevents it from writing the proof that a task is done.

    Raises `ProjectError` if the database cannot be read.
    """
    with connected(place) as connection:
        table = f"{sql_name(place.schema)}.{LOGINS}"
        row = connection.execute("SELECT to_regclass($1) IS NOT NULL", [table]).fetchone()
    if row == (True,):
        return "protected: sessions with their own login cannot write proof"
    return f"not protected: everyone with {place.dsn_env} can write proof; see docs/logins.md"


def _is_pooled(first: "psycopg.Connection[Any]", second: "psycopg.Connection[Any]") -> bool:
    """Return whether two connections that are open at once are seen to be served by one process.

    While the second is in a transaction, a pooler that goes by transactions gives the first
    another process than before.
    """
    before = first.execute(_BACKEND).fetchone()
    with second.transaction():
        other = second.execute(_BACKEND).fetchone()
        after = first.execute(_BACKEND).fetchone()
    return other == before or after != before
