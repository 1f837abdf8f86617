"""The project as resources: its features, disciplines and tasks, and its two state files."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import NotThereError, StartError, ToolError
from ralphgen.runtime.values.arguments import shortened

from . import comments
from .dependencies import LIMIT
from .disciplines import get_discipline
from .features import get_feature
from .state_files import LEARNINGS, PROGRESS
from .tasks import described
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .tables import Table

JSON = "application/json"
TEXT = "text/plain"
FILES = {"progress": PROGRESS, "learnings": LEARNINGS}
NAMED = {"features": ("feature", get_feature), "disciplines": ("discipline", get_discipline)}
FEATURES, DISCIPLINES, TASKS = (
    "ralph://features/{name}",
    "ralph://disciplines/{name}",
    "ralph://tasks/{id}",
)
# What each variable of a template, and each argument of a prompt, is the name of.
VARIABLES = {
    (FEATURES, "name"): "feature",
    (DISCIPLINES, "name"): "discipline",
    (TASKS, "id"): "task",
    (None, "feature"): "feature",
    (None, "discipline"): "discipline",
    (None, "task"): "task",
}
_ID = "0|-?[1-9][0-9]{0,18}"


class ProjectResources:
    """What clients read of the project; the same for every recipe (SPEC-070, resources)."""

    __slots__ = ()

    templates: Sequence[Mapping[str, str]] = (
        {
            "uriTemplate": FEATURES,
            "name": "feature",
            "title": "Feature",
            "description": "A feature with its knowledge and the counts of its tasks.",
            "mimeType": JSON,
        },
        {
            "uriTemplate": DISCIPLINES,
            "name": "discipline",
            "title": "Discipline",
            "description": "A discipline: its prompt, skills and conventions.",
            "mimeType": JSON,
        },
        {
            "uriTemplate": TASKS,
            "name": "task",
            "title": "Task",
            "description": "A whole task, with every comment and what it waits for.",
            "mimeType": JSON,
        },
    )

    def listed(self, workspace: Workspace, cursor: str | None) -> tuple[list[dict[str, str]], str]:
        """Return a page of state files, own task, features and disciplines, and a cursor."""
        from .catalogue import listed

        return workspace.snapshot(lambda: listed(workspace, cursor))

    def read(self, workspace: Workspace, uri: str) -> tuple[str, str]:
        """Return the media type and the text of a resource.

        Raises `NotThereError` for a URI that is malformed or of a row that does not exist.
        """
        from ralphgen.runtime.files.entry_log import read_text

        from .catalogue import located

        kind, name = located(uri)
        if name is None and kind in FILES:
            return TEXT, read_text(os.path.join(workspace.ralph_folder, FILES[kind]))
        if name is not None and kind in NAMED:
            return JSON, _row(workspace, kind, name)
        if name is not None and kind == "tasks":
            return JSON, _task(workspace, name)
        raise NotThereError(f"there is no resource {shortened(uri)}")

    def completed(
        self, workspace: Workspace, template: str | None, argument: str, value: str
    ) -> list[str]:
        """Return names by their beginning, whatever its case, and ids by theirs."""
        from .catalogue import names, task_ids

        named = VARIABLES.get((template, argument))
        if named is None and template is None:
            return []  # an argument of which nothing is known beforehand
        if named is None:
            where = f"no variable {shortened(argument)} in {shortened(template)}"
            raise NotThereError(f"there is {where}")
        if named == "task":
            return workspace.snapshot(lambda: task_ids(workspace, value))
        table = _table(workspace, named)
        known = workspace.snapshot(lambda: names(workspace, table))
        return [name for name in known if name.casefold().startswith(value.casefold())]

    def watched(self, folder: str, workspace: Workspace) -> Workspace:
        """Return the same project on another connection, which is closed with the first.

        Raises `ToolError` where the database cannot be opened.
        """
        try:
            other = Workspace(folder, workspace.session, workspace.tables)
        except StartError as error:
            raise ToolError(str(error)) from error
        workspace.beside.append(other)
        return other

    def moved(self, workspace: Workspace) -> object:
        """Return a value that differs after a write of another connection or to a state file."""
        version = workspace.database.reading(lambda: workspace.database.row("PRAGMA data_version"))
        files = [os.path.join(workspace.ralph_folder, name) for name in FILES.values()]
        return (version, *(_stamp(path) for path in files))


RESOURCES = ProjectResources()


def _row(workspace: Workspace, kind: str, name: str) -> str:
    """Return a feature or a discipline, as the tool of that name answers it."""
    argument, get = NAMED[kind]
    table = _table(workspace, argument)

    def exists() -> None:
        try:
            workspace.known(table, name, argument)
        except ToolError as error:
            raise NotThereError(str(error)) from error

    workspace.snapshot(exists)
    return _json(get(workspace, {"name": name}))


def _task(workspace: Workspace, name: str) -> str:
    """Return a whole task: nothing is cut, and every comment is there."""
    task = int(name) if re.fullmatch(_ID, name) else None
    if task is None or not -LIMIT <= task < LIMIT:
        raise NotThereError(f"there is no task {shortened(name)}: an id is a number")

    def whole() -> dict[str, object]:
        try:
            return described(workspace, task, comments.EVERY)
        except ToolError as error:
            raise NotThereError(str(error)) from error

    return _json(workspace.snapshot(whole))


def _json(record: Mapping[str, object]) -> str:
    """Return compact JSON, with U+FFFD for each lone surrogate, which UTF-8 cannot carry."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _table(workspace: Workspace, named: str) -> Table:
    tables = workspace.tables
    return tables.features if named == "feature" else tables.disciplines


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
