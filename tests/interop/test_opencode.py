"""The real OpenCode starts the server that its file names."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from driving import create_project
from node_packages import NEEDED, PATIENCE, program

from ralphgen.emit.clients import ClientEntries
from ralphgen.emit.connected import client_file

pytestmark = NEEDED


def test_it_starts_the_server_that_its_file_names(tmp_path: Path) -> None:
    root = create_project(tmp_path / "project")
    client_file(ClientEntries("opencode", root, ["ralph"])).write(root)
    inner = root / "src"
    inner.mkdir()
    git = str(shutil.which("git"))
    subprocess.run([git, "init", "-q"], cwd=root, check=True)  # it looks for files up to its root
    done = subprocess.run(
        [str(program("opencode")), "mcp", "list"],
        cwd=inner,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)

    assert 0 == done.returncode
    assert re.search(r"✓ ralph +connected\s", said), f"{said}{done.stderr}"
    assert "ralphgen serve ralph" in said
