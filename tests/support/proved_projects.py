"""Projects with checks, in separate repositories, and sessions on their tasks."""

import atexit
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import which

from driving import ROWS, create_database, made_here, quiet

from ralphgen.emit.trust import check_items
from ralphgen.emit.workflows import regenerate
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record

INIT_SCHEMA = Path(__file__).parents[2] / "ralphgen" / "emit" / "schema.sql"
LEDGER = Path(__file__).parents[2] / "ralphgen" / "ledger" / "schema.sql"
MARKER = "INSERT INTO ralphgen_ledger (created) VALUES ('2026-02-10T00:00:00Z');"
TEST = "import sys, pathlib; sys.exit(int(pathlib.Path('code.txt').read_text()))"
"""What passes as long as `code.txt` says 0."""


def check(name: str, *run: str, **more: object) -> str:
    """One check of the config; `run` is an argument list."""
    lines = ["[[done.checks]]", f"name = {json.dumps(name)}"]
    if run:
        lines.append(f"run = {json.dumps(run)}")
    lines += [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    return "\n".join([*lines, ""])


def python(program: str) -> tuple[str, ...]:
    """The argument list of a program of Python."""
    return (sys.executable, "-c", program)


TESTS = check("tests", *python(TEST))


def proved_project(root: Path, config: str = TESTS, *, repository: bool = True) -> Path:
    """Return a project with checks and its server; in a repository, its files are committed.

    It is generated once per test process, and copied. Existing files are committed with it.
    """
    shutil.copytree(_model_project(config), root, copy_function=shutil.copy, dirs_exist_ok=True)
    if repository:
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "begin")
    made_here(root)
    add_to_record(root, [item.digest for item in check_items(read_settings(root).done)])
    return root


@cache
def _model_project(config: str) -> Path:
    root = Path(tempfile.mkdtemp(prefix="ralphgen-model-")) / "p"
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    schema = INIT_SCHEMA.read_text(encoding="utf-8") + LEDGER.read_text(encoding="utf-8")
    create_database(root, schema, MARKER, ROWS)
    (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
    (root / "code.txt").write_text("0", encoding="utf-8")
    (root / ".gitignore").write_text("*.log\n/context-*.json\n", encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return root


def git(folder: Path, *words: str) -> str:
    """Return git's output in a folder."""
    names = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(
        [str(which("git")), *names, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, shlex.join(["git", *words]) + done.stderr
    return done.stdout


def write_files(root: Path, files: Sequence[tuple[str, str]]) -> None:
    """Write files below a folder."""
    for path, text in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
