"""Pieces of Python in processes of their own."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def said(script: str, *arguments: str) -> str:
    """What a script prints that may import ralphgen, and must end well."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
