"""The installed programs that run tasks."""

import os
import shutil
import sys
from pathlib import Path

import pytest

PLACES = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""Where runners are looked for: those that are installed beside this interpreter go first."""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test if one of the programs is not installed."""
    missing = [name for name in programs if shutil.which(name, path=PLACES) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
