"""Tools on the project's own tables, called by the SDK's client on the server of the tasks."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from driving import Driver, connected, create_project, query

from ralphgen.errors import ProjectError

SCHEMA = """
CREATE TABLE risks (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    severity INTEGER NOT NULL DEFAULT 3 CHECK (severity IN (1, 2, 3)),
    state TEXT CHECK (state IN ('open', 'closed')),
    feature TEXT REFERENCES features(name),
    notes TEXT, meta JSON, done BOOLEAN, cost DECIMAL(10, 2), internal TEXT, pic BLOB, due DATE,
    score INTEGER AS (severity * 2)
);
CREATE TABLE releases (
    product TEXT, number INTEGER, day TEXT, PRIMARY KEY (product, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE parts (
    name TEXT PRIMARY KEY, product TEXT, number INTEGER,
    FOREIGN KEY (product, number) REFERENCES releases
);
CREATE VIEW open_risks AS SELECT id, title, severity * 2 AS weight FROM risks WHERE state = 'open';
CREATE TABLE "Order ""Details""; --" (a, "b?" TEXT, "clear" TEXT, "c'd" TEXT PRIMARY KEY);
CREATE TABLE bare (a TEXT);
"""
CONFIG = """
[tables.risks]
noun = "risk"
filter = ["severity", "done", "feature"]
search = ["title", "notes"]
hide = ["internal"]
recipes = { ramble = ["list", "get", "create", "update", "delete"], task_execution = ["get"] }
bind = { feature = "feature" }
describe = { severity = "1 (harmless) to 3" }
[tables.releases]
noun = "release"
[tables.parts]
noun = "part"
[tables.open_risks]
key = ["id"]
noun = "open_risk"
interactive = false
[tables.'Order "Details"; --']
noun = "detail"
[tables.bare]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("tables") / "p", SCHEMA, config=CONFIG)


@pytest.fixture(scope="module")
def manual(model: Path) -> Iterator[Driver]:
    with connected(model) as driver:
        yield driver


def test_a_row_is_created_read_changed_listed_and_deleted(manual: Driver) -> None:
    given = {"title": "Fire", "meta": {"a": [1, None]}, "done": False, "cost": 9.5}
    made = manual.call("create_risk", **given, due="2026-01-02", feature="auth")
    found = manual.call("get_risk", **made)
    changed = manual.call("update_risk", **made, title="Fire!", severity=3, clear=["due"])

    assert found == {
        **made,
        **given,
        "due": "2026-01-02",
        "feature": "auth",
        "score": 6,
        "severity": 3,
    }
    assert {**made, "changed": ["due", "title"]} == changed
    assert "due" not in manual.call("get_risk", **made)
    assert 1 == manual.call("list_risks", filter_done=False, search="FIRE")["total"]
    assert {"deleted": made} == manual.call("delete_risk", **made)
    assert f"there is no risk {made['id']}" == manual.refusal("get_risk", **made)


def test_lists_are_filtered_searched_and_paged(manual: Driver) -> None:
    for number in range(5):
        manual.call("create_risk", title=f"Leak {number}", notes="100%_!", severity=number % 3 + 1)
    first = manual.call("list_risks", search="leak", limit=2)
    second = manual.call("list_risks", search="leak", limit=2, cursor=first["next_cursor"])

    assert ["Leak 0", "Leak 1", "Leak 2", "Leak 3"] == [
        row["title"] for row in (*first["risks"], *second["risks"])
    ]
    assert 5 == first["total"]
    assert 2 == manual.call("list_risks", search="0%_!", filter_severity=2)["total"]
    assert 0 == manual.call("list_risks", search="1_0")["total"]
    assert manual.refusal("list_risks", cursor="x").startswith('invalid cursor "x"')


def test_a_value_that_does_not_fit_is_refused_with_the_valid_ones(manual: Driver) -> None:
    refused = manual.refusal("create_risk", title="x", state="opn", severity=9, internal="x")

    assert 'argument "state" is "opn": expected one of "open", "closed"; did you mean' in refused
    assert 'argument "severity" is 9: expected one of 1, 2, 3' in refused
    assert 'unknown argument "internal"' in refused
    assert 'argument "title" is missing' in manual.refusal("create_risk")
    assert "U+0000" in manual.refusal("create_risk", title="a\0b")
    assert "nothing to change" in manual.refusal("update_risk", id=1)


def test_a_wrong_foreign_key_is_refused_with_the_existing_keys(manual: Driver) -> None:
    refused = manual.refusal("create_risk", title="x", feature="auht")
    composite = manual.refusal("create_part", name="p", product="a", number=1)

    assert 'no such row of "features": did you mean "auth"?' in refused
    assert '"product" is "a", "number" is 1, but there is no such row of "releases"' == composite


def test_a_composite_key_is_an_object(manual: Driver) -> None:
    key = {"product": "shop'; DROP TABLE risks; --", "number": 7}
    assert key == manual.call("create_release", **key)
    manual.call("update_release", key=key, day="today")
    manual.call("create_part", name="door", **key)

    assert {**key, "day": "today"} == manual.call("get_release", key=key)
    assert '1 row of "parts" refers to it in "product", "number"' in manual.refusal(
        "delete_release", key=key
    )
    manual.call("delete_part", name="door")
    assert {"deleted": key} == manual.call("delete_release", key=key)
    assert "there is no release" in manual.refusal("get_release", key=key)


def test_a_view_is_read_and_a_table_without_a_key_listed(manual: Driver) -> None:
    made = manual.call("create_risk", title="Open", state="open", severity=2)
    own = {"bare", "open_risk", "open_risks"}
    named = [name for name in manual.names() if name.partition("_")[2] in own]

    assert {**made, "title": "Open", "weight": 4} == manual.call("get_open_risk", **made)
    assert ["list_bare", "list_open_risks", "get_open_risk"] == named


def test_a_blob_is_shown_as_its_length(manual: Driver, model: Path) -> None:
    made = manual.call("create_risk", title="Picture")
    query(model, "UPDATE risks SET pic = x'00ff00' WHERE id = ?", made["id"])

    assert {"bytes": 3} == manual.call("get_risk", **made)["pic"]
    assert "unknown argument" in manual.refusal("update_risk", **made, pic="x")


def test_hostile_names_are_columns_like_others(manual: Driver, model: Path) -> None:
    name = "x'; DROP TABLE risks; --\" {{ 1 }} /*"
    tool = next(tool for tool in manual.tools() if tool["name"] == "update_detail")
    arguments = {
        schema.get("description", name): name
        for name, schema in tool["inputSchema"]["properties"].items()
    }
    columns = [arguments[f'(column "{column}")'] for column in ("c'd", "b?", "clear")]
    manual.call("create_detail", **{columns[0]: name, columns[1]: "?", columns[2]: "$1", "a": 1.5})
    changed = manual.call("update_detail", **{columns[0]: name, columns[2]: "$2"}, a="text")

    assert ["a", columns[2]] == changed["changed"]
    assert [(name, "?", "$2", "text")] == query(
        model, 'SELECT "c\'d", "b?", "clear", a FROM "Order ""Details""; --"'
    )
    assert "must be a string or a number" in manual.refusal(
        "update_detail", **{columns[0]: name}, a=[]
    )


def test_recipes_have_the_tools_that_the_config_gives_them(model: Path) -> None:
    def tools_of(recipe: str) -> set[str]:
        with connected(model, recipe) as driver:
            return {name for name in driver.names() if name.endswith(("risk", "risks"))}

    assert {"list_risks", "get_risk"} == tools_of("interactive")
    assert {"get_risk"} == tools_of("task_execution")
    assert set() == tools_of("yap")


def test_a_session_about_a_feature_changes_its_rows_alone(model: Path) -> None:
    query(model, "INSERT INTO features (name, display_name, acronym) VALUES ('other', 'O', 'OTHR')")
    query(model, "INSERT INTO risks (id, title, feature) VALUES (900, 'theirs', 'other')")
    with connected(model, "ramble", feature="auth") as driver:
        made = driver.call("create_risk", title="mine")
        assert "auth" == driver.call("get_risk", **made)["feature"]
        assert "works only on the feature" in driver.refusal(
            "create_risk", title="x", feature="other"
        )
        assert ["title"] == driver.call("update_risk", **made, title="my own")["changed"]
        for tool in ("update_risk", "delete_risk"):
            more = {"title": "x"} if tool == "update_risk" else {}
            assert 'this session works only on the feature "auth"' in driver.refusal(
                tool, id=900, **more
            )
        assert "theirs" == driver.call("get_risk", id=900)["title"]
        driver.call("delete_risk", **made)


def test_a_session_without_the_row_that_a_table_is_bound_to_only_reads(model: Path) -> None:
    """Otherwise it could write rows of any feature, which only the user's own sessions may."""

    def own(driver: Driver) -> set[str]:
        return {name for name in driver.names() if name.endswith(("risk", "risks"))}

    with connected(model, "ramble") as driver:
        assert {"list_risks", "get_risk"} == own(driver)
        assert (
            "needs a session that is about a feature"
            in driver.protocol_error("create_risk", title="x")[1]
        )
    with connected(model, "ramble", feature="auth") as driver:
        assert {"create_risk", "update_risk", "delete_risk"} < own(driver)
    with connected(model) as driver:
        assert {"create_risk", "update_risk", "delete_risk"} < own(driver)


def test_a_recipe_whose_sessions_have_no_such_row_is_refused(tmp_path: Path) -> None:
    config = CONFIG.replace('task_execution = ["get"]', 'yap = ["get", "delete"]')
    told = '"bind" requires a feature for "delete", but sessions of "yap" have none'
    with pytest.raises(ProjectError, match=told):
        create_project(tmp_path / "p", SCHEMA, config=config)


def test_a_column_that_goes_is_noticed_while_the_server_runs(model: Path, tmp_path: Path) -> None:
    root = shutil.copytree(model, tmp_path / "p")
    with connected(root) as driver:
        with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
            connection.execute("ALTER TABLE bare ADD COLUMN b TEXT")
            assert [] == driver.call("list_bare")["bare"]
            connection.execute("ALTER TABLE risks DROP COLUMN notes")
        assert 'column "risks.notes" is gone' in driver.refusal("list_bare")


def test_tables_of_any_name_get_their_own_modules_and_tools(tmp_path: Path) -> None:
    """The names include modules of the kit, keywords of Python, and colliding names."""
    names = ["project", "table_project", "class", "__init__", "limit", "A b", "a_b", "ä \U0001f600"]
    schema = "".join(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY);' for name in names)
    config = "".join(f'[tables."{name}"]\n' for name in names)
    with connected(create_project(tmp_path / "p", schema, config=config)) as driver:
        listed = [name for name in driver.names() if name.startswith("list_")]
        own = [name for name in listed if name not in ("list_tasks", "list_features")]
        for name in own[1:]:
            assert 0 == driver.call(name)["total"]

    assert len(names) + 1 == len({*own})
    assert {"list_a_b", "list_a_b_2", "list_class", "list_project"} < {*own}
