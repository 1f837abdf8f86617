"""Looks a project over, from its database to a real handshake with its server."""

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralphgen.environment import Environment, check_environment, environment_for
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.generation import FOLDER, Generated, generate
from ralphgen.inspection.database import open_without_trace
from ralphgen.inspection.project import DATABASE
from ralphgen.output import compare, interrupted

HANDSHAKE = Path(__file__).with_name("handshake.py")
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
        yield Finding("project", error.problems[0].text, error.problems[0].hint or MEND_FILES)
        return
    yield Finding("project", f"{len(generated.plan.kits)} kit(s), facts are readable")
    drift = _files(root, generated)
    yield drift
    yield _fingerprint(root, generated)
    environment, finding = _environment(root)
    yield finding
    if finding.mend or not (root / FOLDER / "server.py").is_file():
        return
    for kit in generated.plan.kits:
        yield _handshake(root, environment, kit.key)


def _database(root: Path) -> Finding:
    try:
        with open_without_trace(root / DATABASE) as connection:
            (answer,) = connection.execute("PRAGMA quick_check").fetchone()
    except ProjectError as error:
        return Finding("database", error.problems[0].text, error.problems[0].hint or "restore it")
    except sqlite3.Error as error:
        return Finding("database", str(error), "restore it from a backup")
    if answer != "ok":
        return Finding("database", f"quick_check: {answer}", "restore it from a backup")
    return Finding("database", f"{DATABASE}: quick_check says ok")


def _files(root: Path, generated: Generated) -> Finding:
    folder = root / FOLDER
    if interrupted(folder):
        return Finding("files", "a write was interrupted", MEND_FILES)
    drift = compare(folder, generated.files)
    if not drift:
        return Finding("files", f"{len(generated.files)} files are as generated")
    kinds = ("stale", "edited", "missing", "leftover", "unknown")
    counts = ", ".join(
        f"{len(getattr(drift, kind))} {kind}" for kind in kinds if getattr(drift, kind)
    )
    return Finding("files", counts, 'see "ralphgen check", then run "ralphgen regen"')


def _fingerprint(root: Path, generated: Generated) -> Finding:
    try:
        manifest = json.loads((root / FOLDER / "manifest.json").read_text(encoding="utf-8"))
        built_for = manifest["schema"]["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return Finding("schema", "the manifest cannot be read", MEND_FILES)
    if built_for != generated.plan.schema_fingerprint:
        return Finding("schema", "the server was built for another schema", MEND_FILES)
    return Finding("schema", f"fingerprint {built_for[:12]} is the database's")


def _environment(root: Path) -> tuple[Environment, Finding]:
    lock = root / FOLDER / "requirements.lock"
    environment = environment_for(lock.read_text(encoding="utf-8") if lock.is_file() else "")
    problems = check_environment(environment)
    if problems:
        mend = f'run "ralphgen regen {root}", which makes it'
        return environment, Finding("environment", problems[0], mend)
    return environment, Finding("environment", f"complete: {environment.folder}")


def _handshake(root: Path, environment: Environment, kit: str) -> Finding:
    """Start the server as a client does; the official SDK's client lists and calls its tools."""
    subject = f"server {kit}"
    server = str(root / FOLDER / "server.py")
    refusal = _run(environment, server, kit, "--check")
    if refusal.returncode:
        return Finding(subject, refusal.stderr.strip() or "it ends at once", MEND_FILES)
    shaken = _run(environment, str(HANDSHAKE), str(environment.python), server, kit)
    try:
        outcome = json.loads(shaken.stdout)
    except ValueError:
        return Finding(subject, shaken.stderr.strip()[-500:] or "no answer", MEND_FILES)
    if outcome.get("error"):
        return Finding(subject, str(outcome["error"]), "mend what it names")
    called = f", {outcome['called']} called" if "called" in outcome else ""
    return Finding(subject, f"{outcome['tools']} tools listed{called} by the official client")


def _run(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(environment.python), "-I", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=60,
        check=False,
    )
