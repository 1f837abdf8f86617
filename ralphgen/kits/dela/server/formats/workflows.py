"""Finds the workflows of GitHub Actions, which act runs on this machine."""

from __future__ import annotations

import os

from ..folder import UnreadableError
from ..parsing import mapping, read_yaml
from ..task import Task, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..folder import Folder

_MAIN = ".github/workflows"
_SINGLE = ("workflow.yml", "workflow.yaml", ".github/workflow.yml", ".github/workflow.yaml")
_MORE = ("workflows", "custom/workflows", ".gitlab/workflows")
_ENDINGS = (".yml", ".yaml")


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each workflow file, named after it; what is no workflow is reported."""
    for place in _places(folder):
        name = os.path.splitext(os.path.basename(place))[0]
        path = folder.place(place)
        if not _is_name(name) or not folder.is_file(path):
            continue
        try:
            description = _title(folder, path)
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        yield Task(
            name,
            runner="act",
            argv=("act", "-W", place),
            path=os.path.realpath(path),
            description=description,
        )


def _places(folder: Folder) -> Iterator[str]:
    """Yield where workflows may be, as paths within the folder."""
    yield from _inside(folder, _MAIN)
    yield from _SINGLE
    for name in _MORE:
        yield from _inside(folder, name)


def _inside(folder: Folder, name: str) -> Iterator[str]:
    for entry in folder.entries(folder.place(name)):
        if entry.endswith(_ENDINGS) and not entry.startswith("."):
            yield f"{name}/{entry}"


def _is_name(name: str) -> bool:
    return bool(name.strip()) and name.isprintable()


def _title(folder: Folder, path: str) -> str | None:
    """Return the name of a workflow. Raises `UnreadableError` where the file is none."""
    workflow = mapping(read_yaml(folder, path))
    if not mapping(workflow.get("jobs")):
        raise UnreadableError(path, "is no workflow: it has no jobs")
    return one_line(workflow.get("name"))
