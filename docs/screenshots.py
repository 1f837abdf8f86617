"""Takes the screenshots of the board that the documentation shows.

`python docs/screenshots.py FOLDER` writes the pictures into the folder. It needs Chromium and the
packages of the browser tests (see tests/README.md).
"""

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from board_browsers import running_board  # noqa: E402
from browser.browsing import open_chromium  # noqa: E402
from mornings import morning  # noqa: E402

# The name of a picture, the address of its page and the colour scheme.
SCREENSHOTS = (
    ("board-inbox", "", "light"),
    ("board-inbox-dark", "", "dark"),
    ("board-review", "tasks/11", "light"),
    ("board-tasks", "tasks", "light"),
    ("board-agents", "agents", "light"),
)
SIZE = {"width": 1280, "height": 800}


def take_screenshots(folder: Path) -> None:
    """Write the screenshots of a project on the morning after a loop into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        project = morning(Path(temporary) / "tidewatch")
        with running_board(project) as board, open_chromium() as browser:
            for name, address, scheme in SCREENSHOTS:
                with browser.page(board.url + address, viewport=SIZE, colorScheme=scheme) as page:
                    time.sleep(1.5)  # the selected pane is fetched after the page is loaded
                    page.steps(("screenshot", {"path": str(folder.resolve() / f"{name}.png")}))


if __name__ == "__main__":
    take_screenshots(Path(sys.argv[1]))
