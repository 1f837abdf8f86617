"""The man page is the output of `docs/manpage.py` for the current commands."""

import subprocess
import sys
from pathlib import Path

from goldens import Goldens

ROOT = Path(__file__).parents[2]


def test_the_man_page_lists_the_parameters_of_each_command(goldens: Goldens) -> None:
    """`--update-goldens` regenerates it."""
    command = [sys.executable, str(ROOT / "docs/manpage.py")]
    printed = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    goldens.check("../docs/ralphgen.1", {".": printed})
