"""Calls of the tool that signs, and what comes of them."""

from typing import Any

import pytest
from rye_workspaces import Workspace

from ralphgen.kits.rye.server.signing import sign
from ralphgen.kits.rye.server.spaces import Item, read_item
from ralphgen.runtime.errors import CodedError


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
    """How far an item of the project can be trusted."""
    item = item_at(workspace, item_type, item_id, extension)
    return workspace.rye.trust().verdict(item, read_item(item)).state
