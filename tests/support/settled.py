"""Files that are old enough for a start of a server to rely on what it keeps of them."""

import time
from pathlib import Path

from driving import create_project

from ralphgen.runtime import verification


def settle() -> None:
    """Wait until what was written just now is old enough."""
    time.sleep(2 * verification.UNSETTLED / 1e9)


def unkept_project(root: Path, kept: Path) -> Path:
    """A settled project of which nothing is kept yet, in the folder where it would be."""
    assert not kept.exists()
    create_project(root)
    settle()
    return root
