"""Examines a project, from its database to a real handshake with its server."""

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralphgen.environment.build import check_environment
from ralphgen.environment.location import LOCK_NAME, Environment, environment_for, read_lock
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.generate.workflows import Generated, generate
from ralphgen.output import compare
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE
from ralphgen.project.root import FOLDER

HANDSHAKE = Path(__file__).with_name("handshake.py")
RESTORE = "restore it from a copy"
SECONDS = 60
FIX_NAMED = "fix what it names, then run this again"
FIX_FILES = 'run "ralphgen regen"'


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at; `fix` is empty where all is well."""

    subject: str
    detail: str
    fix: str = ""


def examine(root: Path) -> Iterator[CheckResult]:
    """Yield one result after the other; those that rest on a failed one are left out."""
    yield _database(root)
    try:
        generated = generate(root)
    except RalphgenError as error:
        for problem in error.problems:
            yield CheckResult("project", problem.text, problem.hint or "fix what it names")
        return
    kits = ", ".join(kit.key for kit in generated.plan.kits)
    yield CheckResult("project", f"config, recipes and schema are readable, kits: {kits}")
    yield _files(root, generated)
    yield _fingerprint(root, generated)
    environment, finding = _environment(root)
    yield finding
    if finding.fix or not (root / FOLDER / "server.py").is_file():
        return
    for kit in generated.plan.kits:
        yield _handshake(root, environment, kit.key)


def _database(root: Path) -> CheckResult:
    try:
        with open_without_trace(root / DATABASE) as connection:
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
    except ProjectError as error:
        return CheckResult("database", error.problems[0].text, error.problems[0].hint or RESTORE)
    except sqlite3.Error as error:
        return CheckResult("database", str(error), RESTORE)
    if answer != "ok":
        return CheckResult("database", f"quick_check says {answer}", RESTORE)
    return CheckResult("database", f"{DATABASE}: quick_check says ok")


def _files(root: Path, generated: Generated) -> CheckResult:
    try:
        drift = compare(root / FOLDER, generated.files)
    except ProjectError as error:
        return CheckResult("files", error.problems[0].text, error.problems[0].hint)
    if drift.interrupted:
        return CheckResult("files", "a write of them was interrupted", FIX_FILES)
    if not drift:
        return CheckResult("files", f"{len(generated.files)} files are as generated")
    kinds = ("stale", "edited", "missing", "leftover", "unknown")
    counts = ", ".join(
        f"{len(getattr(drift, kind))} {kind}" for kind in kinds if getattr(drift, kind)
    )
    return CheckResult("files", counts, 'see "ralphgen check", which says what to do')


def _fingerprint(root: Path, generated: Generated) -> CheckResult:
    try:
        manifest = json.loads((root / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        built_for = manifest["schema"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return CheckResult("schema", "the manifest cannot be read", FIX_FILES)
    if built_for != generated.plan.schema_fingerprint:
        return CheckResult("schema", "the server was built for another schema", FIX_FILES)
    return CheckResult("schema", f"the server was built for it (fingerprint {built_for[:12]})")


def _environment(root: Path) -> tuple[Environment, CheckResult]:
    try:
        lock = (root / FOLDER / LOCK_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        lock = read_lock()  # the files are told of already
    environment = environment_for(lock)
    problems = check_environment(environment)
    if problems:
        fix = 'run "ralphgen regen", which makes it'
        if environment.folder.exists():
            fix = f'delete "{environment.folder}" and run "ralphgen regen", which makes it anew'
        return environment, CheckResult("environment", "; ".join(problems), fix)
    return environment, CheckResult("environment", f"complete: {environment.folder}")


def _handshake(root: Path, environment: Environment, kit: str) -> CheckResult:
    """Start the server as a client does; the official SDK's client lists and calls its tools."""
    subject = f"server {kit}"
    server = str(root / FOLDER / "server.py")
    try:
        refusal = _run(environment, server, kit, "--check")
        if refusal.returncode:
            return CheckResult(subject, refusal.stderr.strip() or "it ends at once", FIX_NAMED)
        shaken = _run(environment, str(HANDSHAKE), str(environment.python), server, kit)
        outcome = json.loads(shaken.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(subject, f"it cannot be run: {error}", FIX_NAMED)
    except ValueError:
        return CheckResult(subject, shaken.stderr.strip()[-500:] or "no answer", FIX_NAMED)
    if outcome.get("error"):
        return CheckResult(subject, str(outcome["error"]), FIX_NAMED)
    called = f", {outcome['called']} called" if "called" in outcome else ""
    return CheckResult(subject, f"{outcome['tools']} tools listed{called} by the official client")


def _run(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(environment.python), "-I", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
