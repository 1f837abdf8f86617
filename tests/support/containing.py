"""The tests that contain processes, on the machines that can."""

import shutil
import subprocess

import pytest


def _lacking() -> str:
    """Return why this machine cannot contain anything, empty if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    probe = ["bwrap", "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"no user namespaces: {done.stderr.strip()}" if done.returncode else ""


CONTAINING = pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "it can")
