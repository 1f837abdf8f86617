"""Files that are old enough for a start of a server to rely on what it keeps of them."""

import time
from pathlib import Path

from driving import create_project

from ralphgen.runtime import verification


def settle() -> None:
    """Wait until files that were just written are old enough."""
    time.sleep(2 * verification.UNSETTLED / 1e9)


def unkept_project(root: Path, kept: Path) -> Path:
    """Return a settled project without kept state, in the folder where that would be."""
    assert not kept.exists()
    create_project(root)
    settle()
    return root
