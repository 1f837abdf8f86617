"""Looks a project over, from its database to a real handshake with its server."""

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralphgen.environment.build import check_environment
from ralphgen.environment.location import Environment, environment_for
from ralphgen.environment.lock import LOCK_NAME, read_lock
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.generate.pipeline import Generated, generate
from ralphgen.output import compare
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE
from ralphgen.project.root import FOLDER

HANDSHAKE = Path(__file__).with_name("handshake.py")
RESTORE = "restore it from a copy"
SECONDS = 60
MEND_WORDS = "mend what it names, then run this again"
MEND_FILES = 'run "ralphgen regen"'


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `mend` is empty where all is well."""

    subject: str
    detail: str
    mend: str = ""


def examine(root: Path) -> Iterator[Finding]:
    """One finding after the other, as they are made; later ones are left out without their base."""
    yield _database(root)
    try:
        generated = generate(root)
    except RalphgenError as error:
        for problem in error.problems:
            yield Finding("project", problem.text, problem.hint or "mend what it names")
        return
    yield Finding("project", f"config, recipes and schema are readable, kits: {_kits(generated)}")
    yield _files(root, generated)
    yield _fingerprint(root, generated)
    environment, finding = _environment(root)
    yield finding
    if finding.mend or not (root / FOLDER / "server.py").is_file():
        return
    for kit in generated.plan.kits:
        yield _handshake(root, environment, kit.key)


def _kits(generated: Generated) -> str:
    return ", ".join(kit.key for kit in generated.plan.kits)


def _database(root: Path) -> Finding:
    try:
        with open_without_trace(root / DATABASE) as connection:
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
    except ProjectError as error:
        return Finding("database", error.problems[0].text, error.problems[0].hint or RESTORE)
    except sqlite3.Error as error:
        return Finding("database", str(error), RESTORE)
    if answer != "ok":
        return Finding("database", f"quick_check says {answer}", RESTORE)
    return Finding("database", f"{DATABASE}: quick_check says ok")


def _files(root: Path, generated: Generated) -> Finding:
    try:
        drift = compare(root / FOLDER, generated.files)
    except ProjectError as error:
        return Finding("files", error.problems[0].text, error.problems[0].hint)
    if not drift:
        return Finding("files", f"{len(generated.files)} files are as generated")
    kinds = ("stale", "edited", "missing", "leftover", "unknown")
    counts = ", ".join(
        f"{len(getattr(drift, kind))} {kind}" for kind in kinds if getattr(drift, kind)
    )
    return Finding("files", counts, 'see "ralphgen check", which says what to do')


def _fingerprint(root: Path, generated: Generated) -> Finding:
    try:
        manifest = json.loads((root / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        built_for = manifest["schema"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return Finding("schema", "the manifest cannot be read", MEND_FILES)
    if built_for != generated.plan.schema_fingerprint:
        return Finding("schema", "the server was built for another schema", MEND_FILES)
    return Finding("schema", f"the server was built for it (fingerprint {built_for[:12]})")


def _environment(root: Path) -> tuple[Environment, Finding]:
    try:
        lock = (root / FOLDER / LOCK_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        lock = read_lock()  # the files are told of already
    environment = environment_for(lock)
    problems = check_environment(environment)
    if problems:
        mend = 'run "ralphgen regen", which makes it'
        if environment.folder.exists():
            mend = f'delete "{environment.folder}" and run "ralphgen regen", which makes it anew'
        return environment, Finding("environment", "; ".join(problems), mend)
    return environment, Finding("environment", f"complete: {environment.folder}")


def _handshake(root: Path, environment: Environment, kit: str) -> Finding:
    """Start the server as a client does; the official SDK's client lists and calls its tools."""
    subject = f"server {kit}"
    server = str(root / FOLDER / "server.py")
    try:
        refusal = _run(environment, server, kit, "--check")
        if refusal.returncode:
            return Finding(subject, refusal.stderr.strip() or "it ends at once", MEND_WORDS)
        shaken = _run(environment, str(HANDSHAKE), str(environment.python), server, kit)
        outcome = json.loads(shaken.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(subject, f"it cannot be run: {error}", MEND_WORDS)
    except ValueError:
        return Finding(subject, shaken.stderr.strip()[-500:] or "no answer", MEND_WORDS)
    if outcome.get("error"):
        return Finding(subject, str(outcome["error"]), MEND_WORDS)
    called = f", {outcome['called']} called" if "called" in outcome else ""
    return Finding(subject, f"{outcome['tools']} tools listed{called} by the official client")


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
