"""init, regen and check of a project whose rows are in PostgreSQL, held against one on SQLite."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from command_line import ralphgen
from driving import quiet
from postgresql import PASSWORD, needs_postgresql

from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.emit.trust import accept_database
from ralphgen.emit.workflows import checked, regenerate
from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.project import Project
from ralphgen.ledger.tables import remove_tables
from ralphgen.project.root import CONFIG, FOLDER

pytestmark = [pytest.mark.slow, needs_postgresql]


@pytest.fixture
def dsn(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RALPH_DSN", postgresql)
    return postgresql


def init_project(root: Path, engine: str = "postgresql", stack: str = "mobile") -> Path:
    return initialize(
        root,
        InitOptions(title="Shop", stack=stack, engine=engine),
        say=quiet,
        agree=lambda _question: False,
    )


def rows(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def test_init_makes_tables_settings_and_a_server(dsn: str, tmp_path: Path) -> None:
    root = init_project(tmp_path / "shop")

    config = (root / CONFIG).read_text(encoding="utf-8")
    assert '[database]\nengine = "postgresql"\ndsn_env = "RALPH_DSN"\nschema = "public"\n' in config
    assert [("Shop",)] == rows(dsn, "SELECT project_title FROM metadata")
    assert rows(dsn, "SELECT name FROM disciplines")
    assert not (root / ".ralph/db").exists()
    assert not checked(root, say=quiet).drift


def test_a_second_init_and_a_regen_change_nothing(dsn: str, tmp_path: Path) -> None:
    root = init_project(tmp_path / "shop")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    rows(dsn, "UPDATE disciplines SET description = 'mine'")

    init_project(root)
    init_project(root, engine="")
    regenerate(root, force=False, say=quiet)

    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert [("mine",)] == rows(dsn, "SELECT DISTINCT description FROM disciplines")
    assert [(1,)] == rows(dsn, "SELECT count(*) FROM metadata")


def test_existing_tables_are_unchanged(dsn: str, tmp_path: Path) -> None:
    rows(
        dsn,
        """
        CREATE TABLE features (name text PRIMARY KEY);
        CREATE TABLE disciplines (name text PRIMARY KEY);
        CREATE TABLE tasks (id bigint PRIMARY KEY, feature text, discipline text, title text,
            status text CHECK (status IN ('pending', 'done')));
        """,
    )
    root = init_project(tmp_path / "shop")

    facts = json.loads((root / FOLDER / "project.json").read_text(encoding="utf-8"))
    assert {"disciplines", "features", "tasks"} == facts["schema"].keys()
    assert [(3,)] == rows(dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")


def test_a_schema_of_any_name_is_made(dsn: str, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    (root / ".ralph").mkdir(parents=True)
    text = '[database]\nengine = "postgresql"\nschema = \'Ödd "one" %s $1 ?; --\'\n'
    (root / CONFIG).write_text(text, encoding="utf-8")
    accept_database(root, lambda _shown: True)

    init_project(root, engine="")

    assert [('Ödd "one" %s $1 ?; --',)] == rows(
        dsn, "SELECT schemaname FROM pg_tables WHERE tablename = 'tasks'"
    )
    assert not checked(root, say=quiet).drift


def test_both_engines_differ_in_the_room_of_the_engine_and_the_lock(
    dsn: str, tmp_path: Path
) -> None:
    sqlite = Project(init_project(tmp_path / "a/shop", engine="sqlite")).files
    postgresql = Project(init_project(tmp_path / "b/shop")).files
    ours = ("runtime/engine/sqlite/", "runtime/engine/postgresql/")
    a = {path: text for path, text in sqlite.items() if not path.startswith(ours)}
    b = {path: text for path, text in postgresql.items() if not path.startswith(ours)}

    assert a.keys() | {"requirements.lock"} == b.keys()
    differing = {path for path in a if a[path] != b[path]}
    emitted = {path for path in differing if not path.startswith("runtime/")}
    expected = {"manifest.json", "project.json", "ralph/tables.py", ".gitattributes", "README.md"}
    assert expected == emitted - {"ralph/__init__.py"}
    assert dsn not in "".join(postgresql.values())
    facts = json.loads(a["project.json"]), json.loads(b["project.json"])
    del facts[1]["config"]["postgresql"]
    del facts[0]["definitions"]  # of SQLite's tables, for a clone without its database
    columns = {
        f"{table}.{one['name']}": one
        for table, found in facts[1]["schema"].items()
        for one in found
    }
    assert "JSON" == columns["tasks.depends_on"]["type"]
    columns["tasks.depends_on"]["type"] = "TEXT"
    assert ["1"] == columns["metadata.id"]["values"]  # IN (1) and = 1 are the same to PostgreSQL
    columns["metadata.id"]["values"] = None
    assert facts[0] == facts[1]


def test_check_without_a_connection_takes_the_recorded_facts(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = init_project(tmp_path / "shop")
    said: list[str] = []

    monkeypatch.delenv("RALPH_DSN")
    assert not checked(root, say=said.append).drift
    monkeypatch.setenv("RALPH_DSN", f"postgresql://u:{PASSWORD}@127.0.0.1:1/d")
    assert not checked(root, say=said.append).drift

    assert 2 == len(said)
    assert all("using the schema recorded in .ralph/mcp/project.json" in line for line in said)
    assert PASSWORD not in "".join(said)
    assert dsn not in "".join(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE tasks ADD extra text", "tasks.extra"),
        ("ALTER TABLE tasks DROP hints", "tasks.hints"),
    ],
)
def test_a_database_that_is_ahead_or_behind_is_drift(
    dsn: str, tmp_path: Path, change: str, said: str
) -> None:
    root = init_project(tmp_path / "shop")
    rows(dsn, change)

    report = checked(root, say=quiet)

    assert report.drift
    assert said in json.dumps(report.as_json())


def test_a_server_whose_tables_are_elsewhere_is_not_given_new_ones(
    dsn: str, tmp_path: Path
) -> None:
    root = init_project(tmp_path / "shop")
    rows(dsn, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    with pytest.raises(ProjectError, match="generated for tables that the schema"):
        init_project(root)
    assert [] == rows(dsn, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'")


def test_what_fails_leaves_nothing(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows(dsn, f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    try:
        weak = dsn.replace("postgres:", "reader:", 1)
        monkeypatch.setenv("RALPH_DSN", weak)
        with pytest.raises(ProjectError) as refused:
            init_project(tmp_path / "weak")
    finally:
        rows(dsn, "DROP ROLE reader")
    monkeypatch.delenv("RALPH_DSN")
    with pytest.raises(ProjectError, match='the variable "RALPH_DSN" is not set'):
        init_project(tmp_path / "unset")

    assert "permission denied" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert not (tmp_path / "unset/.ralph").exists()
    assert [] == rows(dsn, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'")


def test_a_project_remains_on_its_engine(dsn: str, tmp_path: Path) -> None:
    on_sqlite = init_project(tmp_path / "a", engine="sqlite")
    on_postgresql = init_project(tmp_path / "b")

    with pytest.raises(UsageError, match=r"rows are in \.ralph/db/ralph\.db") as refused:
        init_project(on_sqlite)
    assert '"ralphgen import .ralph/db/ralph.db --from sqlite"' in str(refused.value)
    with pytest.raises(UsageError, match="rows are in the schema"):
        init_project(on_postgresql, engine="sqlite")
    assert dsn


def test_commands_on_the_ledger_report_its_absence(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = init_project(tmp_path / "shop")
    monkeypatch.chdir(root)
    remove_tables(root)

    listed, logged = ralphgen("session", "list"), ralphgen("log")

    assert 0 == listed.returncode
    assert "the database has no ledger" in logged.stderr
    assert dsn not in logged.stderr


def test_the_commands_show_a_project_and_never_the_dsn(dsn: str, tmp_path: Path) -> None:
    root = init_project(tmp_path / "shop")

    done = [ralphgen(words, cwd=root) for words in ("inspect", "tools", "check")]
    asked = ralphgen("inspect", "--json", "-C", str(root))

    assert [0, 0, 0, 0] == [one.returncode for one in (*done, asked)], done
    assert 'the schema "public" of RALPH_DSN' == json.loads(asked.stdout)["database"]
    for one in (*done, asked):
        assert PASSWORD not in one.stdout + one.stderr
        assert dsn not in one.stdout + one.stderr


def test_a_watch_that_would_see_no_change_refuses(dsn: str, tmp_path: Path) -> None:
    root = init_project(tmp_path / "shop")

    done = ralphgen("regen", "--watch", str(root))

    assert (2, dsn) == (done.returncode, dsn)
    assert 'run "ralphgen regen" after each migration' in done.stderr


def test_arrays_are_left_out_or_refused_with_what_to_do(dsn: str, tmp_path: Path) -> None:
    root = init_project(tmp_path / "shop")
    array = "ALTER {0} DROP DEFAULT, ALTER {0} TYPE {1} USING NULL"
    rows(dsn, f"ALTER TABLE tasks ADD labels text[], {array.format('tags', 'text[]')}")
    said: list[str] = []
    regenerate(root, force=False, say=said.append)

    tools = json.loads(ralphgen("tools", "--json", "--project", str(root)).stdout)
    for column in ("labels", "tags"):
        assert f'the column "tasks.{column}" is left out of all tools: it is an array' in str(said)
        assert f'"{column}"' not in json.dumps(tools)
    rows(dsn, f"ALTER TABLE tasks {array.format('depends_on', 'bigint[]')}")
    with pytest.raises(ProjectError, match=r"depends_on. is an array") as refused:
        regenerate(root, force=False, say=quiet)
    hint = refused.value.problems[0].hint
    assert hint.startswith("ALTER TABLE tasks ")
    rows(dsn, hint)
    regenerate(root, force=False, say=quiet)
