"""The database of a session: any kit that opens it gets the fence of the claim and the journal."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.ledger.tables import definition
from ralphgen.runtime.engine.sqlite import revocations
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.kit import OpenProject
from ralphgen.runtime.policy import Policy, Recipe
from ralphgen.runtime.session import Session
from ralphgen.runtime.tasks import claims

TABLES = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, status TEXT);
INSERT INTO tasks VALUES (7, 'a', 'pending');
"""


class Plain(OpenProject):
    """The workspace of a kit without precautions."""

    def _refuse_migrated(self) -> None:
        pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / ".ralph/mcp"
    folder.mkdir(parents=True)
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{definition()}\n{TABLES}")
    return path


def opened(path: Path, claim: dict[str, int] | None = None, token_ids: Sequence[str] = ()) -> Plain:
    policy = Policy(recipes={"manual": Recipe(tools={"kit": ()})}, removed_tools={}, absent={})
    facts = {"session_id": "one", "recipe": "manual", "task_id": 7, "claim": claim}
    facts["token_ids"] = token_ids
    session = Session("kit", facts, "manual", policy, None)
    workspace = Plain(str(path.parent / ".ralph/mcp"), session)
    workspace.tool = "retitle"
    workspace.open_database({"schema": {"hide": []}}, Database, "app.db", ledger=True)
    return workspace


def retitle(workspace: Plain, title: str) -> None:
    database = workspace.database
    database.writing(lambda: database.change("UPDATE tasks SET title = ? WHERE id = 7", [title]))


def test_a_session_without_its_claim_writes_nothing(path: Path) -> None:
    with closing(Database(str(path))) as database:
        token = database.writing(lambda: claims.take(database, 7, "one", 900.0))
        with closing(opened(path, {"task": 7, "token": token, "lease": 900})) as workspace:
            retitle(workspace, "b")
            database.change("UPDATE ralphgen_claims SET session = 'other', token = 5")

            with pytest.raises(ToolError, match="lost its claim"):
                retitle(workspace, "c")

        assert [("b",)] == database.rows("SELECT title FROM tasks")


@pytest.mark.parametrize("revoked", ["one", "worker-a"])
def test_a_session_with_a_revoked_token_writes_nothing(path: Path, revoked: str) -> None:
    revocations.create(str(path))
    with closing(opened(path, token_ids=("one", "worker-a"))) as workspace:
        retitle(workspace, "b")
        revocations.revoke(str(path), "other")
        retitle(workspace, "c")
        revocations.revoke(str(path), revoked)

        with pytest.raises(ToolError, match="this session was ended: nothing was changed"):
            retitle(workspace, "d")

    with closing(Database(str(path))) as database:
        assert [("c",)] == database.rows("SELECT title FROM tasks")


def test_every_write_is_journaled_with_its_tool(path: Path) -> None:
    with closing(opened(path)) as workspace:
        retitle(workspace, "b")

        sql = "SELECT session, tool, table_name FROM ralphgen_journal"
        assert [("one", "retitle", "tasks")] == workspace.database.rows(sql)
