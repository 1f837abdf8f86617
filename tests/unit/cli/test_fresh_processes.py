"""Each command in an interpreter of its own, as people start it: other tests fork a warm one."""

from pathlib import Path

import pytest
from command_line import initialized, ralphgen

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("fresh") / "p", "--kit", "specum")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("init", "new", "--no-install"), ""),
        (("regen", "."), ""),
        (("check", "."), "up to date"),
        (("inspect", "."), "tasks"),
        (("tools", "."), "task_execution"),
        (("session", "yap"), "mcp.json"),
        (("config",), "mcpServers"),
        (("skill",), ".claude/skills/"),
        (("report", "--output", "report.html"), ""),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_a_command_runs_in_a_fresh_process(
    root: Path, command: tuple[str, ...], expected: str
) -> None:
    done = ralphgen(*command, cwd=root, fresh=True)

    assert 0 == done.returncode, done.stderr
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
