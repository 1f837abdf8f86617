"""Runs a server to its end and returns what it prints, such as for `--check` or `--describe`."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

OWN_NAME = "server.py: "  # with which a server's line begins
PATIENCE = 60.0  # seconds


class ServerQueryError(Exception):
    """Why a server gave no answer: its own line, or that it cannot be run at all."""


def run_to_end(
    command: Sequence[str],
    given: str = "",
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program on an input that is `given`; return its exit code and both streams as text.

    Raises `OSError` where it cannot be run, and `subprocess.TimeoutExpired` where it does not end.
    """
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        cwd=cwd,
        env=env,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


def query_server(command: Sequence[str], option: str) -> str:
    """Return what a server prints for `--check` or `--describe`; raises `ServerQueryError`."""
    try:
        done = run_to_end([*command, option])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerQueryError(f'"{command[0]}" cannot be run: {error}') from error
    if done.returncode:
        said = (done.stderr.splitlines() or [""])[-1].removeprefix(OWN_NAME)
        raise ServerQueryError(said or f"it ended with exit code {done.returncode}")
    return done.stdout
