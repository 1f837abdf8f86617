"""Runs a session's server with `--check` or `--describe` and returns what it prints."""

import subprocess
from collections.abc import Sequence

OWN_NAME = "server.py: "  # with which a server's line begins
PATIENCE = 60.0  # seconds


class ServerQueryError(Exception):
    """Why a server gave no answer: its own line, or that it cannot be run at all."""


def query_server(command: Sequence[str], option: str) -> str:
    """Return what a server prints for `--check` or `--describe`; raises `ServerQueryError`."""
    try:
        done = subprocess.run(
            [*command, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerQueryError(f'"{command[0]}" cannot be run: {error}') from error
    if done.returncode:
        said = (done.stderr.splitlines() or [""])[-1].removeprefix(OWN_NAME)
        raise ServerQueryError(said or f"it ends with exit code {done.returncode}")
    return done.stdout
