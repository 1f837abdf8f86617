"""Python scripts in separate processes."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def script_output(script: str, *arguments: str) -> str:
    """Return the output of a script that may import ralphgen, and must succeed."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
