"""A served view that was redefined after `regen` returns nothing until the next one."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from command_line import ralphgen
from driving import Driver, connected, create_project, made_here, query, quiet
from engines import CONFIG as ON_POSTGRESQL
from engines import ENGINES, VARIABLE
from postgresql import database

from ralphgen.emit.workflows import regenerate

ON_SQLITE = '[database]\npath = "app.db"\n'
TABLES = '[tables.shown]\nkey = ["id"]\n[schema]\nhide = ["risks.internal"]\n'
SCHEMA = """
CREATE TABLE risks (id integer PRIMARY KEY, title text, internal text);
CREATE VIEW "in ""ner" AS SELECT id, title FROM risks;
CREATE VIEW shown AS SELECT id, title FROM "in ""ner";
CREATE VIEW other AS SELECT id FROM risks;
INSERT INTO risks VALUES (1, 'open', 'secret');
"""
OUTER = "DROP VIEW shown; CREATE VIEW shown AS SELECT id, internal AS title FROM risks"
INNER = """
DROP VIEW shown; DROP VIEW "in ""ner";
CREATE VIEW "in ""ner" AS SELECT id, internal AS title FROM risks;
CREATE VIEW shown AS SELECT id, title FROM "in ""ner"
"""
ELSEWHERE = "DROP VIEW other; CREATE VIEW other AS SELECT internal FROM risks"
REDEFINED = "the definition of a served view, or of a view that it reads, changed"
Execute = Callable[[str], None]


@contextmanager
def served(folder: Path, engine: str) -> Iterator[tuple[Path, Execute, dict[str, str]]]:
    """Yield a project with the view `shown`, a function that runs SQL, and the environment."""
    root = folder / "p"
    (root / ".ralph").mkdir(parents=True)
    config = root / ".ralph/ralphgen.toml"
    if engine == "sqlite":

        def execute(sql: str) -> None:
            with closing(sqlite3.connect(root / "app.db")) as connection:
                connection.executescript(sql)

        execute(SCHEMA)
        config.write_text(f'kits = ["tables"]\n{ON_SQLITE}{TABLES}', encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        yield made_here(root), execute, {}
        return
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)

        def execute_there(sql: str) -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(sql.encode())

        execute_there(SCHEMA)
        config.write_text(f'kits = ["tables"]\n{ON_POSTGRESQL}{TABLES}', encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        yield made_here(root), execute_there, {VARIABLE: dsn}


def refused(driver: Driver) -> None:
    for tool, arguments in (("list_shown", {}), ("get_shown", {"id": 1})):
        answer = driver.refusal(tool, **arguments)
        assert REDEFINED in answer
        assert 'run "ralphgen regen"' in answer


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", [OUTER, INNER])
def test_a_running_server_refuses_a_redefined_view(
    tmp_path: Path, engine: str, change: str
) -> None:
    with (
        served(tmp_path, engine) as (root, execute, env),
        connected(root, kit="tables", env=env) as driver,
    ):
        assert "open" in str(driver.call("list_shown"))
        execute(change)

        refused(driver)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_views_that_no_tool_reads_can_be_redefined(tmp_path: Path, engine: str) -> None:
    with (
        served(tmp_path, engine) as (root, execute, env),
        connected(root, kit="tables", env=env) as driver,
    ):
        driver.call("list_shown")
        execute(ELSEWHERE)

        assert "open" in str(driver.call("list_shown"))
        assert "open" in str(driver.call("get_shown", id=1))


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_server_refuses_a_redefined_view_until_it_is_generated_again(
    tmp_path: Path, engine: str
) -> None:
    with served(tmp_path, engine) as (root, execute, _):
        command = ("call", "tables:list_shown", "--project", root)
        assert 0 == ralphgen(*command).returncode
        execute(INNER)
        found = ralphgen(*command)

        assert 0 != found.returncode
        assert REDEFINED in found.stderr
        assert "secret" not in found.stdout

        execute(INNER.replace("internal", "upper(title)"))
        regenerate(root, force=False, say=quiet)
        assert "OPEN" in ralphgen(*command).stdout


def test_a_server_with_tasks_refuses_a_redefined_view(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", SCHEMA)
    (root / ".ralph/ralphgen.toml").write_text(TABLES, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with connected(made_here(root)) as driver:
        assert "open" in str(driver.call("list_shown"))
        query(root, "DROP VIEW shown")
        query(root, "CREATE VIEW shown AS SELECT id, internal AS title FROM risks")
        refused(driver)
    started = ralphgen("call", "ralph:list_shown", "--project", root)

    assert 0 != started.returncode
    assert REDEFINED in started.stderr
