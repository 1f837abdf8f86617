"""Each command in a new interpreter, as users start it: other tests fork a warm one."""

from pathlib import Path

import pytest
from command_line import initialized, ralphgen
from lanes import shortened
from scripts import script_output

pytestmark = pytest.mark.slow


EXPECTED = {
    ("init", "new", "--no-install"): "",
    ("regen", "."): "",
    ("check", "."): "up to date",
    ("upgrade", "."): "the server is already from ralphgen",
    ("inspect",): "tasks",
    ("tools",): "task_execution",
    ("session", "create", "yap"): "mcp.json",
    ("call", "ralph:list_tasks"): "tasks",
    ("task", "list"): "no tasks yet",
    ("session", "brief", "yap"): "Discuss the tasks",
    ("connect", "claude", "--print"): "mcpServers",
    ("connect", "claude", "--skills"): "wrote .claude/skills/ralph-project",
    ("board", "--export", "report.html"): "",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("fresh") / "p", "--kit", "specum")


@pytest.mark.parametrize(
    "command", shortened(EXPECTED, ("check", "."), ("task", "list")), ids=lambda part: part[0]
)
def test_a_command_runs_in_a_fresh_process(root: Path, command: tuple[str, ...]) -> None:
    done = ralphgen(*command, cwd=root, fresh=True)

    assert 0 == done.returncode, done.stderr
    assert EXPECTED[command] in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_commands_load_no_kits_before_one_needs_them() -> None:
    modules = script_output("import sys, ralphgen.cli.commands; print(*sys.modules)").split()

    assert "ralphgen.project.inspect" not in modules


def test_serve_becomes_the_server_without_costly_modules(root: Path) -> None:
    script = """\
import os, sys
before = {*sys.modules}
os.execv = lambda *_: sys.exit(print(*sys.modules.keys() - before))
from ralphgen.cli.main import main
sys.argv = ["ralphgen", "serve", "ralph", f"--project={sys.argv[1]}"]
main()
"""
    packages = {name.partition(".")[0] for name in script_output(script, str(root)).split()}

    assert {"ralphgen", "__future__", "_json", "gc"} == packages - {"_sha256", "_sha2", "hashlib"}
