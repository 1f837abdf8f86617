"""Projects with specs, a user's session on them, and the files that it leaves."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command_line import snapshot
from driving import Driver, connected, create_project
from text_answers import TextAnswers

KITS = 'kits = ["ralph", "specum"]\n'
ALONE = 'kits = ["specum"]\n'  # no tasks of the project, which others may be writing
PHASES = ("research", "requirements", "design", "tasks", "execution")
TOOLS = (
    *("ralph_start", "ralph_status", "ralph_switch", "ralph_cancel", "ralph_complete_phase"),
    *("ralph_help", "ralph_research", "ralph_requirements", "ralph_design", "ralph_tasks"),
    "ralph_implement",
)
GOAL = "Export invoices as CSV"
NO_GOAL = "_No goal is recorded yet: ask the user for it, and write it here._"
MOST = 40_000  # characters of an answer
STATE = ".ralph-state.json"
# Server internals that no answer may show.
INTERNALS = ("Traceback", "[Errno", "OSError", "KeyError", 'File "/', "internal error")
FIRST_STATE = {
    "source": "spec",
    "name": "auth",
    "basePath": "./specs/auth",
    "phase": "research",
    "taskIndex": 0,
    "totalTasks": 0,
    "taskIteration": 1,
    "maxTaskIterations": 5,
    "globalIteration": 1,
    "maxGlobalIterations": 100,
    "commitSpec": True,
    "awaitingApproval": False,
    "relatedSpecs": [],
}
"""What `ralph_start` writes for a spec "auth"."""
TASK_LIST = """\
# Tasks

- [ ] 1.1 Write the file
  - **Do**: open it
  - **Verify**: `true`
- [ ] 1.2 [P] Name the columns
- [ ] V1 [VERIFY] Check it
"""


class Desk(TextAnswers):
    """A session of the kit on its own project, and the specs of that project as files."""

    def __init__(self, root: Path, driver: Driver) -> None:
        """Calls the tools through `driver`, a client on the server of the project in `root`."""
        self.root = root
        self.driver = driver
        self.specs = root / "specs"

    def ask(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Return whether a call failed, and its text, which must be presentable to users."""
        failed, text = self.driver.ask(tool, arguments)
        check_presentable(self.root, text)
        return failed, text

    def write(self, spec: str, file: str, text: str) -> Path:
        """Give a file of a spec this text; folders are made."""
        path = self.specs / spec / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
        return path

    def read(self, spec: str, file: str) -> str:
        """The text of a file, with its line ends."""
        return (self.specs / spec / file).read_bytes().decode("utf-8")

    def state(self, spec: str) -> dict[str, Any]:
        """The state of a spec."""
        found: dict[str, Any] = json.loads(self.read(spec, STATE))
        return found

    def change_state(self, spec: str, **fields: Any) -> None:
        """Give fields of a state other values."""
        self.write(spec, STATE, json.dumps({**self.state(spec), **fields}))

    def pointer(self) -> str | None:
        """The content of the pointer to the current spec, `None` if there is none."""
        path = self.specs / ".current-spec"
        return path.read_text(encoding="utf-8") if path.exists() else None

    def names(self) -> list[str]:
        """The folders below `specs/`."""
        if not self.specs.is_dir():
            return []
        return sorted(path.name for path in self.specs.iterdir() if path.is_dir())

    def spec_in(self, phase: str, name: str = "auth", tasks: str = TASK_LIST) -> str:
        """A spec in a phase, now the current one, with the artifacts of the phases before."""
        self.says("ralph_start", name=name, goal=GOAL)
        for earlier in PHASES[: PHASES.index(phase)]:
            text = tasks if earlier == "tasks" else f"# {earlier} of {name}\n"
            self.write(name, f"{earlier}.md", text)
        self.change_state(name, phase=phase)
        return name

    def override(self, file: str, text: str) -> Path:
        """Override one of the kit's texts in the project."""
        path = self.root / ".ralph" / "specum" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def outside(self) -> dict[str, tuple[bytes, int]]:
        """Return everything around `specs/`, including next to the project: bytes and mtimes."""
        found = snapshot(self.root.parent)
        specs = f"{self.root.name}/specs"
        return {
            name: entry
            for name, entry in found.items()
            if name != specs and not name.startswith(f"{specs}/") and "__pycache__" not in name
        }

    def clear(self) -> None:
        """Take all specs away, and what else tests and tools have put into the project."""
        for path in (self.specs, *(self.root / ".ralph" / name for name in ("specum", "sessions"))):
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
        (self.root / ".gitignore").unlink(missing_ok=True)


def check_presentable(root: Path, text: str) -> None:
    """An answer is no longer than agreed, and shows neither the inside nor absolute paths."""
    assert len(text) <= MOST
    assert [] == [word for word in (str(root), str(root.parent), *INTERNALS) if word in text], text


@contextmanager
def sitting(folder: Path, **facts: Any) -> Iterator[Desk]:
    """A user's session of the kit on a new project in a folder."""
    root = create_project(folder / "project", config=KITS)
    with connected(root, kit="specum", **facts) as driver:
        yield Desk(root, driver)
