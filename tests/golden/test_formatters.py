"""Formatters and linters of a whole repository do not change its servers."""

import subprocess
import sys
from pathlib import Path

import pytest
from cases import lay_down
from driving import quiet

from ralphgen.emit.workflows import checked, regenerate
from ralphgen.project.root import FOLDER

# Settings of a project with a different style: they would change each of our modules.
TASTE = """
[tool.black]
line-length = 60
[tool.ruff]
line-length = 60
[tool.ruff.lint]
select = ["ALL"]
[tool.ruff.format]
quote-style = "single"
"""
OURS = f"{FOLDER}/server.py"
RUNS = {
    "ruff format": (".",),
    "ruff check --fix --unsafe-fixes": (".",),
    "black": (".",),
    "ruff format ": (OURS,),  # as hooks do, which name the committed files
    "ruff check --fix --unsafe-fixes ": (OURS,),
    "black ": (OURS,),
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with every kind of value, and a module that every formatter changes."""
    root = lay_down("hostile", tmp_path / "project")
    regenerate(root, force=False, say=quiet)
    (root / "pyproject.toml").write_text(TASTE, encoding="utf-8")
    (root / "own.py").write_text("import sys,os\nx = {  'a':1}\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("tool", RUNS)
def test_python_formatters_and_linters_leave_servers_alone(tool: str, repository: Path) -> None:
    name, *options = tool.split()
    if name == "black":
        pytest.importorskip("black")
    own = (repository / "own.py").read_bytes()
    command = (sys.executable, "-m", name, *options, *RUNS[tool], "own.py")
    subprocess.run(command, cwd=repository, capture_output=True, check=False)

    assert own != (repository / "own.py").read_bytes()
    assert not checked(repository, say=quiet).drift
    assert [] == [*(repository / FOLDER).rglob(".ruff_cache")]
