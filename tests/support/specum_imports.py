"""Tasks of a spec that are imported into the project."""

from driving import Driver
from specum_runs import ok

HOME = {"feature": "auth", "discipline": "backend"}
IMPORT = {"phase": "tasks", "summary": "cut", "import_tasks": True, **HOME}


def followed(driver: Driver) -> tuple[str, str]:
    """The first line of the next task, and the boxes that were ticked for it."""
    lines = ok(driver, "ralph_implement").splitlines()
    told = [line.rpartition(": ")[2] for line in lines if line.startswith("- **Ticked")]
    return lines[0].rpartition(": ")[2], "".join(told)
