"""Every era of the schema gets the tools and arguments that its columns allow, on a real server."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, refused, run_sql
from driving import (
    ROWS,
    SCHEMAS,
    Driver,
    connected,
    create_database,
    create_project,
    query,
    quiet,
    server_command,
)

from ralphgen.emit.workflows import regenerate

ALWAYS = {
    "create_task": "feature discipline title status description priority acceptance_criteria "
    "depends_on tags context_files output_artifacts hints estimated_turns",
    "update_task": "id title description priority acceptance_criteria depends_on tags "
    "context_files output_artifacts hints estimated_turns clear",
    "set_task_status": "id status reason summary",
    "get_project_info": "",
    "list_tasks": "filter_status filter_feature filter_discipline filter_ready limit cursor",
    "add_feature_context_file": "feature_name file_path",
}
"""Arguments that are the same in every era."""

FEATURE = "name display_name description acronym knowledge_paths context_files"
PROSE = f"{FEATURE} architecture boundaries dependencies"
STATUS = f"{FEATURE} dependencies status"
DISCIPLINE = "name display_name icon color acronym system_prompt skills conventions"
DESCRIBED = "name display_name icon color acronym description system_prompt skills conventions"
LEARNING = "feature_name text source reason task_id"
ENRICH = "id pseudocode acceptance_criteria context_files"
COMMENT = "task_id author body"
SIGNALS = "session_id signal_answered signal_payload signal_verb"  # added columns, by name
THREAD = f"task_id author body priority parent_comment_id {SIGNALS}"

ERAS = {
    # era: create_feature, append_feature_learning, create_discipline, enrich_task, add_task_comment
    "a0": (FEATURE, None, DISCIPLINE, None, COMMENT),
    "a1": (PROSE, LEARNING, DISCIPLINE, None, COMMENT),
    "a2": (PROSE, LEARNING, DISCIPLINE, None, COMMENT),
    "a3": (PROSE, LEARNING, DISCIPLINE, None, COMMENT),
    "a4": (PROSE, LEARNING, DISCIPLINE, None, COMMENT),
    "a5": (PROSE, LEARNING, DESCRIBED, None, COMMENT),
    "a6": (PROSE, LEARNING, DESCRIBED, ENRICH, COMMENT),
    "a7": (PROSE, LEARNING, DESCRIBED, ENRICH, f"{COMMENT} discipline priority"),
    "a8": (PROSE, LEARNING, DESCRIBED, ENRICH, f"{COMMENT} discipline priority"),
    "b1": (STATUS, None, DESCRIBED, ENRICH, f"{COMMENT} discipline priority"),
    "b2": (STATUS, None, DESCRIBED, ENRICH, "task_id body discipline priority"),
    "b3": (STATUS, None, DESCRIBED, ENRICH, f"task_id body {SIGNALS}"),
    "b4": (STATUS, None, DESCRIBED, ENRICH, f"{COMMENT} {SIGNALS}"),
    "b5": (STATUS, None, DESCRIBED, ENRICH, THREAD),
    "b6": (STATUS, None, DESCRIBED, ENRICH, THREAD),
}
SAMPLE = ("a0", "a4", "a6", "a8", "b1", "b3", "b6")
"""The most different schemas; soak tests cover the others."""


def arguments(driver: Driver) -> dict[str, str]:
    """Return the arguments of every tool, in order."""
    return {tool["name"]: " ".join(tool["inputSchema"]["properties"]) for tool in driver.tools()}


@pytest.mark.parametrize(
    "era", [era if era in SAMPLE else pytest.param(era, marks=pytest.mark.soak) for era in ERAS]
)
def test_each_era_offers_its_tools_and_they_work(tmp_path: Path, era: str) -> None:
    root = create_project(tmp_path, schema=era)
    feature, learning, discipline, enrich, comment = ERAS[era]
    varying = {
        "create_feature": feature,
        "append_feature_learning": learning,
        "create_discipline": discipline,
        "enrich_task": enrich,
        "add_task_comment": comment,
    }
    with connected(root) as driver:
        offered = arguments(driver)

        assert {**ALWAYS, **varying} == {name: offered.get(name) for name in {**ALWAYS, **varying}}
        assert 28 - list(varying.values()).count(None) == len(offered)
        for name in (name for name, given in varying.items() if given is None):
            code, message = driver.protocol_error(name)
            assert (-32602, True) == (code, "the database has no column" in message)
        create_read_and_update(driver, comment or "", has_learnings=learning is not None)


def create_read_and_update(driver: Driver, comment: str, *, has_learnings: bool) -> None:
    """Write a task, a feature and a comment, and read them back."""
    driver.call("create_feature", name="billing", display_name="Billing")
    made = driver.call("create_task", feature="billing", discipline="backend", title="Pay")
    task = made.get("id") or made["task"]["id"]
    driver.call("update_task", id=task, priority="high", tags=["money"])
    author = {"author": "backend"} if "author" in comment.split() else {}
    driver.call("add_task_comment", task_id=task, body="Watch the cents", **author)
    if has_learnings:
        driver.call("append_feature_learning", feature_name="billing", text="Round half to even")
    done = driver.call("set_task_status", id=task, status="done", summary="Paid in full")
    read = json.dumps(driver.call("get_task", id=task))

    assert done
    for text in ("Pay", "high", "money", "Watch the cents", "Paid in full", '"done"'):
        assert text in read
    assert has_learnings == (
        "half to even" in json.dumps(driver.call("get_feature", name="billing"))
    )
    assert "billing" in json.dumps(driver.call("list_features"))


def test_every_era_that_is_served_is_in_the_table() -> None:
    served = {path.stem for path in SCHEMAS.glob("*.sql")} - {"c1", "g2"}

    assert served == ERAS.keys()
    assert served >= {*SAMPLE}


@pytest.mark.parametrize(
    ("era", "missing"),
    [
        ("c1", 'column "tasks.feature" is missing, found "tasks.feature_id" of a newer schema'),
        ("g2", 'table "tasks" is missing, found "runtime_tasks" of a newer schema'),
    ],
)
def test_an_incomplete_schema_is_refused(tmp_path: Path, era: str, missing: str) -> None:
    create_database(tmp_path, (SCHEMAS / f"{era}.sql").read_text("utf-8"))
    said = refused("regen", tmp_path, "--no-install")

    assert missing in said
    assert "hint: add what is missing, keep tasks in .ralph/db/ralph.db" in said


ADDED = """
ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'Über', 'a''b'));
ALTER TABLE tasks ADD COLUMN cost REAL;
ALTER TABLE tasks ADD COLUMN rank INTEGER CHECK (rank IN (1, 2));
ALTER TABLE tasks ADD COLUMN photo BLOB;
ALTER TABLE tasks ADD COLUMN hushed TEXT;
ALTER TABLE tasks ADD COLUMN "wie teuer?" TEXT;
ALTER TABLE tasks ADD COLUMN shout TEXT GENERATED ALWAYS AS (upper(title)) VIRTUAL;
ALTER TABLE tasks ADD COLUMN "limit" TEXT;
ALTER TABLE features ADD COLUMN owner TEXT;
ALTER TABLE disciplines ADD COLUMN wage REAL;
ALTER TABLE task_comments ADD COLUMN mood TEXT CHECK (mood IN ('good', 'bad'));
"""


def test_added_columns_become_typed_arguments_and_fields(tmp_path: Path) -> None:
    config = '[schema]\nhide = ["tasks.hushed"]\n'
    root = create_project(tmp_path, ADDED, config=config)
    with connected(root) as driver:
        tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in driver.tools()}
        for name in ("create_task", "update_task"):
            (odd,) = [key for key, value in tools[name].items() if "wie teuer?" in str(value)]
            assert {
                "risk": {"type": "string", "enum": ["low", "Über", "a'b"]},
                "cost": {"type": "number"},
            } == {key: tools[name][key] for key in ("risk", "cost")}
            assert "string" == tools[name][odd]["type"]
            assert "integer" == tools[name]["rank"]["type"]
            assert not {"photo", "hushed", "shout", "limit"} & tools[name].keys()
        assert {"type": "string"} == tools["create_feature"]["owner"]
        assert {"type": "number"} == tools["update_discipline"]["wage"]
        assert ["good", "bad"] == tools["add_task_comment"]["mood"]["enum"]

        values: dict[str, Any] = {"risk": "Über", "cost": 2.5, "rank": 2, odd: "sehr"}
        driver.call("update_task", id=1, **values)
        read = json.dumps(driver.call("get_task", id=1), ensure_ascii=False)
        refusal = driver.refusal("update_task", id=1, risk="high")
        unknown = driver.refusal("update_task", id=1, hushed="x")
        driver.call("update_task", id=1, clear=["risk"])

    for text in ('"risk": "Über"', '"cost": 2.5', '"rank": 2', '"sehr"', '"shout": "LOG IN"'):
        assert text in read
    assert '"low"' in refusal
    assert '"hushed"' in unknown
    columns = 'risk, cost, rank, "wie teuer?", hushed'
    assert [(None, 2.5, 2, "sehr", None)] == query(
        root, f"SELECT {columns} FROM tasks WHERE id = 1"
    )


def test_a_mandatory_column_is_required_or_its_tool_is_absent(
    tmp_path: Path,
) -> None:
    schema = (SCHEMAS / "a8.sql").read_text("utf-8")
    must = schema.replace(
        "CREATE TABLE features (", "CREATE TABLE features (seal BLOB NOT NULL,", 1
    )
    must = must.replace("CREATE TABLE tasks (", "CREATE TABLE tasks (team TEXT NOT NULL,", 1)
    assert ("seal BLOB" in must, "team TEXT" in must) == (True, True)
    create_database(tmp_path, must, ROWS.partition("INSERT INTO features")[0])
    assert 0 == ralphgen("regen", tmp_path, "--no-install").returncode
    facts = json.loads(ralphgen("inspect", "-C", tmp_path, "--json").stdout)

    reason = '"features.seal" needs a value that no argument can give'
    assert reason == facts["absent"]["ralph"]["create_feature"]
    with connected(tmp_path) as driver:
        tools = {tool["name"]: tool["inputSchema"] for tool in driver.tools()}
        code, message = driver.protocol_error("create_feature", name="a", display_name="A")

        assert ["feature", "discipline", "title", "team"] == tools["create_task"]["required"]
        assert ["id"] == tools["update_task"]["required"]
        assert "team" not in tools["update_task"]["properties"]["clear"]["items"]["enum"]
        assert (-32602, True) == (code, reason in message)


def test_a_server_for_an_older_schema_refuses_until_regen(tmp_path: Path) -> None:
    root = create_project(tmp_path, ADDED)
    run_sql(
        root,
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, '(''low'', ', '(''none'', ''low'', ') WHERE name = 'tasks'",
    )
    command = server_command(root, "--check")
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)

    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n"))
    assert "tasks.risk" in done.stderr
    assert 'run "ralphgen regen"' in done.stderr
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    with connected(root) as driver:
        driver.call("update_task", id=1, risk="none")

    assert [("none",)] == query(root, "SELECT risk FROM tasks WHERE id = 1")


def test_columns_of_lax_tables_take_numbers_and_dates(tmp_path: Path) -> None:
    """A DATE or BOOLEAN column of a table that is not STRICT accepts any value."""
    lax = (SCHEMAS / "a8.sql").read_text(encoding="utf-8").replace(") STRICT;", ");")
    column = "ALTER TABLE tasks ADD COLUMN due DATE"
    create_database(tmp_path, lax, ROWS, column, "ALTER TABLE tasks ADD COLUMN urgent BOOLEAN")
    regenerate(tmp_path, force=False, say=quiet)

    with connected(tmp_path) as server:
        server.call("update_task", id=1, due="2026-03-01", urgent="1")
        task = server.call("get_task", id=1)

    assert ("2026-03-01", 1) == (task["due"], task["urgent"])
