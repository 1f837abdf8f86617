"""What tools/list costs a session: the real answers of real servers, byte by byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import INIT_SCHEMA
from driving import ROWS, context_for, create_database, on_context, quiet
from proved_projects import proved_project
from wire import running

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.planning import session_tools

SCHEMA = INIT_SCHEMA.read_text(encoding="utf-8")
MOST = {"manual": 14_000, "task_execution": 3_500}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Project]:
    """A project as `init` makes it."""
    root = tmp_path_factory.mktemp("project")
    create_database(root, SCHEMA, ROWS)
    return root, regenerate(root, force=False, say=quiet)


@pytest.mark.parametrize("recipe", MOST)
def test_a_listing_stays_within_its_bytes_and_is_what_was_foretold(
    project: tuple[Path, Project], recipe: str
) -> None:
    root, generated = project
    answer = listing(root, recipe)

    assert (
        len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) <= MOST[recipe]
    )
    (kit,) = generated.plan.kits
    rows: dict[str, int | str] = (
        {"task": 1, "feature": "auth"} if recipe == "task_execution" else {}
    )
    assert session_tools(generated.plan, recipe, kit, rows=rows) == answer["result"]["tools"]


@pytest.mark.parametrize(("recipe", "most"), [("manual", 14_500), ("task_execution", 3_750)])
def test_a_listing_with_checks_stays_within_its_bytes(
    tmp_path: Path, recipe: str, most: int
) -> None:
    answer = listing(proved_project(tmp_path / "p"), recipe)
    length = len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())

    assert length <= most


def listing(root: Path, recipe: str) -> dict[str, Any]:
    """The whole frame that answers tools/list, in the words of the server."""
    with running(root, *on_context(context_for(root, recipe))) as wire:
        wire.shake_hands()
        answer = wire.ask("tools/list")
        wire.leave()
        assert 0 == wire.end()
    return answer
