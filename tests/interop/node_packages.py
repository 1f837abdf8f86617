"""Programs of npm packages, which are installed beforehand, as processes."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

MODULES = os.environ.get("RALPHGEN_NODE_MODULES", "")
NEEDED = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
]
PATIENCE = 120  # seconds


def modules() -> Path:
    """The folder of packages, by its whole path."""
    assert Path(MODULES).is_dir(), f'RALPHGEN_NODE_MODULES is "{MODULES}", which is no folder'
    return Path(MODULES).resolve()


def program(name: str) -> Path:
    """Return the program of a tested package."""
    found = modules() / ".bin" / name
    assert found.exists(), f'"{found.parent}" has no "{name}": it is a package to test'
    return found


def run_node(
    script: Path, *arguments: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A script's end, run with the packages' own node, or with that of the machine."""
    path = f"{modules() / '.bin'}{os.pathsep}{os.environ['PATH']}"
    node = shutil.which("node", path=path)
    assert node, "RALPHGEN_NODE_MODULES is set, but there is no node on PATH"
    command: Sequence[str] = [node, str(script), *arguments]
    return subprocess.run(
        command,
        env={**os.environ, "PATH": path, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
