"""Each command in an interpreter of its own, as people start it: other tests fork a warm one."""

from pathlib import Path

import pytest
from command_line import initialized, ralphgen
from lanes import shortened
from scripts import said

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


@pytest.mark.parametrize(
    ("module", "costly"),
    [
        ("ralphgen.cli.commands", "ralphgen.project.inspect"),
        ("ralphgen.cli.serve", "hashlib"),
        ("ralphgen.cli.serve", "platformdirs"),
    ],
)
def test_a_start_loads_no_costly_module_before_a_command_needs_it(module: str, costly: str) -> None:
    assert "False" == said(f"import sys, {module}; print({costly!r} in sys.modules)")
