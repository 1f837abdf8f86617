"""Items of a project, and calls of the tools on them without a server around them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from rye_projects import EXTENSIONS, FOLDERS, permissions, put

from ralphgen.kits.rye import system_items
from ralphgen.kits.rye.server.executing import execute
from ralphgen.kits.rye.server.signing import sign
from ralphgen.kits.rye.server.spaces import Item, read_item
from ralphgen.kits.rye.server.workspace import Rye
from ralphgen.runtime.deferred import settled
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.policy import Policy, Recipe
from ralphgen.runtime.session import Session

POLICY = {"directive": "warn", "tool": "off", "knowledge": "warn"}
SETTINGS = {"policy": POLICY, "hosts": (), "max_timeout": 300, "env": ()}
TOOLS = ("search", "load", "execute", "sign", "help")


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator["Workspace"]:
    """The items of a project in a folder, with a user space next to it; `settings` of the kit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USER_SPACE", str(folder / "user"))
        workspace = Workspace(folder, **settings)
        try:
            yield workspace
        finally:
            workspace.rye.close()


class Workspace:
    """The items of a project and of a user, and the built-in ones of every server."""

    def __init__(self, folder: Path, tools: Sequence[str] = TOOLS, **settings: Any) -> None:
        """Write the project to a folder, with the built-in items of its server."""
        self.root = (folder / "project").resolve()
        self.user = folder / "user" / ".ai"
        server = self.root / ".ralph" / "mcp"
        self.system = server / "rye" / "system"
        if not server.exists():
            _lay_system(server)
        policy = Policy(
            recipes={"manual": Recipe(tools={"rye": tuple(tools)})}, removed_tools={}, absent={}
        )
        facts = {"session_id": "x", "recipe": "manual"}
        session = Session("rye", facts, "manual", policy, None)
        values: dict[str, Any] = {**SETTINGS, **settings}
        own = {name: values[name] for name in ("policy", "hosts", "env")}
        put(self.user / "rye.toml", permissions(**own)).chmod(0o600)
        self.rye = Rye(str(server), session, values)

    def put(
        self,
        item_type: str,
        item_id: str,
        text: str,
        *,
        space: str = "project",
        extension: str = "",
    ) -> Path:
        """Write an item; return its file."""
        folder = {"project": self.root / ".ai", "user": self.user, "system": self.system}[space]
        name = item_id + (extension or EXTENSIONS[item_type])
        return put(folder / FOLDERS[item_type] / name, text)

    def execute(self, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
        """The answer of `execute`; raises `CodedError`."""
        arguments = {"item_type": item_type, "item_id": item_id, "project_path": str(self.root)}
        answer = settled(execute(self.rye, {**arguments, **given}))
        assert json.loads(json.dumps(answer, allow_nan=False)) == answer
        return answer

    def run(self, item_id: str, **parameters: Any) -> dict[str, Any]:
        """The answer of a tool that is run."""
        return self.execute("tool", item_id, parameters=parameters)

    def refuses(self, item_type: str, item_id: str, **given: Any) -> CodedError:
        """The error of `execute`, which must fail."""
        try:
            answer = self.execute(item_type, item_id, **given)
        except CodedError as error:
            json.dumps(error.facts, allow_nan=False)
            return error
        raise AssertionError(answer)


def _lay_system(server: Path) -> None:
    """The files of the system space, and the manifest that they are trusted by."""
    digests = {}
    for path, text in system_items().items():
        name = f"rye/system/{path}"
        put(server / name, text)
        digests[name] = sha256(text.encode()).hexdigest()
    put(server / "manifest.json", json.dumps({"files": digests}))


def signed(workspace: Workspace, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
    """The answer of `sign`; raises `CodedError`."""
    arguments = {"item_type": item_type, "item_id": item_id, "project_path": str(workspace.root)}
    return sign(workspace.rye, {**arguments, **given})


def refused(workspace: Workspace, item_type: str, item_id: str, **given: Any) -> CodedError:
    """The error of `sign`, which must fail."""
    with pytest.raises(CodedError) as caught:
        signed(workspace, item_type, item_id, **given)
    return caught.value


def item_at(workspace: Workspace, item_type: str, item_id: str, extension: str) -> Item:
    space = workspace.rye.spaces(str(workspace.root)).of("project")
    return Item(item_type, item_id, extension, space)


def state(workspace: Workspace, item_type: str, item_id: str, extension: str) -> str:
    """Return the trust state of an item of the project."""
    item = item_at(workspace, item_type, item_id, extension)
    return workspace.rye.trust().verdict(item, read_item(item)).state
