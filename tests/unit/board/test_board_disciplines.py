"""A discipline's MCP servers and disabled tools as the board shows them: whole, and no secret."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from command_line import initialized, run_sql, snapshot
from driving import SCHEMAS, create_database, create_project, query

from ralphgen.board.disciplines import DisciplineView, Server, read_disciplines
from ralphgen.errors import ProjectError

PRIVATE = "s3cr3t"
DOCS = {"name": "docs", "command": "docs-server", "args": ["--port", "1"], "env": {"KEY": PRIVATE}}
CONFIG = f"""\
[disciplines.backend]
disable = ["sign"]

[disciplines.backend.mcp_servers.search]
command = "find it"
env = {{TOKEN = "{PRIVATE}", EMPTY = ""}}
"""
FILE = ".ralph/ralphgen.toml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("disciplines"), config=CONFIG)
    stored(root, "backend", [DOCS])
    return root


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project, tmp_path / "own")


def stored(root: Path, discipline: str, value: object) -> None:
    """Put a value into the column: text unchanged, anything else as JSON."""
    text = value if isinstance(value, str | bytes) or value is None else json.dumps(value)
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = ?", text, discipline)


def backend(root: Path) -> DisciplineView:
    found = read_disciplines(root).by_name("backend")
    assert found is not None
    return found


def everything(root: Path) -> str:
    """Return everything in a view, in each text form."""
    found = read_disciplines(root)
    return f"{found!r}{json.dumps([asdict(row) for row in found.rows])}"


def test_both_places_are_shown_as_they_are(project: Path) -> None:
    found = backend(project)

    column = 'mcp_servers of the discipline "backend"'
    docs = Server("docs", "docs-server", "--port 1", {"0": ("KEY", "")}, "0", column)
    names = {"0": ("TOKEN", ""), "1": ("EMPTY", "")}
    search = Server("search", "find it", "", names, place=f"{FILE}:4")
    assert ("database", {"0": docs}, (search,)) == (
        found.servers_home,
        found.servers,
        found.other_servers,
    )
    assert ("config", ("sign",), ()) == (
        found.disabled_home,
        found.disabled,
        found.other_disabled,
    )
    assert ("backend", "Backend", ()) == (found.name, found.display_name, found.problems)


def test_all_disciplines_are_there_by_name_and_nobody_else(project: Path) -> None:
    found = read_disciplines(project)

    assert ["backend", "frontend"] == [one.name for one in found.rows]
    assert () == found.problems
    assert found.by_name("nobody") is None


def test_no_secret_is_in_a_view(project: Path) -> None:
    assert PRIVATE not in everything(project)


def test_looking_leaves_no_trace(project: Path) -> None:
    before = snapshot(project)
    read_disciplines(project)

    assert before == snapshot(project)


@pytest.mark.parametrize(
    "value",
    [
        f'[{{"name": "x", "env": {{"KEY": "{PRIVATE}"}}}}]',
        f'[{{"name": "x", "command": "y", "env": ["{PRIVATE}"]}}]',
        f'[{{"token": "{PRIVATE}"}}]',
        f"KEY={PRIVATE}",
        json.dumps(PRIVATE),
    ],
    ids=["no command", "variables in a list", "unknown key", "no JSON", "a text"],
)
def test_a_column_of_servers_that_cannot_be_read_is_a_problem_without_its_text(
    own: Path, value: str
) -> None:
    stored(own, "backend", value)
    found = backend(own)
    (problem,) = found.problems

    assert found.stored_servers
    assert {} == found.servers
    assert 'discipline "backend" has an invalid mcp_servers' in problem.text
    assert problem.hint
    assert ("search",) == tuple(one.name for one in found.other_servers)
    assert PRIVATE not in everything(own)


def test_servers_whose_names_no_session_takes_are_shown_to_be_mended(own: Path) -> None:
    names = ("ralph", "a b", "search", "search")
    stored(own, "backend", [{**DOCS, "name": name} for name in names])
    found = backend(own)

    assert names == tuple(one.name for one in found.servers.values())


@pytest.mark.slow
def test_an_override_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    query(root, "UPDATE disciplines SET mcp_tool_overrides = '{\"aditional\": []}'")
    found = read_disciplines(root).rows[0]
    (problem,) = found.problems

    assert ("database", (), '{"aditional": []}') == (
        found.disabled_home,
        found.disabled,
        found.stored_disabled,
    )
    assert "invalid mcp_tool_overrides" in problem.text


@pytest.mark.slow
def test_a_column_of_disabled_tools_is_shown_and_its_faults_are_a_problem(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    query(root, "ALTER TABLE disciplines ADD COLUMN disabled_tools TEXT")
    query(root, "UPDATE disciplines SET disabled_tools = '[\"get_task\"]'")
    found = read_disciplines(root).rows[0]
    query(root, "UPDATE disciplines SET disabled_tools = '{}'")
    (problem,) = read_disciplines(root).rows[0].problems

    place = f'disabled_tools of the discipline "{found.name}"'
    assert (("get_task", place),) == found.other_disabled
    assert "disabled_tools" not in [one.name for one in found.prose]
    assert "invalid disabled_tools" in problem.text


def test_a_config_that_cannot_be_read_is_everybodys_problem(own: Path) -> None:
    text = f'plum = 1\n[disciplines.backend.mcp_servers.x]\nenv = {{A = ["{PRIVATE}"]}}\n'
    (own / FILE).write_text(text, encoding="utf-8")
    found = read_disciplines(own)

    assert 3 == len(found.problems), found.problems
    assert ("docs",) == tuple(one.name for one in backend(own).servers.values())
    assert PRIVATE not in everything(own)


DROPPED = [f"ALTER TABLE disciplines DROP COLUMN {name}" for name in ("mcp_servers",)]
GENERATED = [*DROPPED, "ALTER TABLE disciplines ADD COLUMN mcp_servers TEXT AS ('[]')"]
SPELLED = [*DROPPED, "ALTER TABLE disciplines ADD COLUMN MCP_Servers TEXT"]
OVERRIDES = ["ALTER TABLE disciplines ADD COLUMN MCP_Tool_Overrides TEXT"]
HOMES: dict[str, tuple[str, list[str], str, tuple[str, str]]] = {
    "A0": ("a0", [], "", ("database", "config")),
    "A8": ("a8", [], "", ("database", "config")),
    "B6": ("b6", [], "", ("database", "config")),
    "both": ("a8", OVERRIDES, "", ("database", "database")),
    "neither": ("a8", DROPPED, "", ("config", "config")),
    "hidden, which sessions heed": (
        "a8",
        [],
        '[schema]\nhide = ["disciplines.mcp_servers"]\n',
        ("database", "config"),
    ),
    "generated, so that nobody can write it": ("a8", GENERATED, "", ("config", "config")),
    "spelled so that no session finds it": ("a8", SPELLED, "", ("config", "config")),
}


@pytest.mark.parametrize(("schema", "sql", "config", "expected"), HOMES.values(), ids=HOMES)
def test_an_edit_goes_where_the_schema_has_a_column(
    tmp_path: Path, schema: str, sql: list[str], config: str, expected: tuple[str, str]
) -> None:
    row = "INSERT INTO disciplines (name, display_name, acronym, icon, color) VALUES (?,?,?,?,?)"
    create_database(tmp_path, (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8"), *sql)
    query(tmp_path, row, "backend", "B", "B", "i", "c")
    (tmp_path / FILE).write_text(config, encoding="utf-8")
    found = backend(tmp_path)

    assert expected == (found.servers_home, found.disabled_home)
    assert ({}, ()) == (found.servers, found.disabled)


HOSTILE = ["__proto__", 'a"]\n[x]', "<script>", "\u202edb", "😀", "a" * 5000, "", "{{x}}"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_what_it_is_and_is_shown_on_one_line(own: Path, name: str) -> None:
    values = [name, f"{name}\n", "X", "i", "#fff;background:url(x)"]
    sql = "INSERT INTO disciplines (name, display_name, acronym, icon, color) VALUES (?,?,?,?,?)"
    query(own, sql, *values)
    found = read_disciplines(own).by_name(name)
    assert found is not None

    assert found.shown.isprintable()
    assert found.display_name.isprintable()
    assert all(row.place.isprintable() for row in found.servers.values())


def test_bytes_that_are_no_text_do_not_end_the_view(own: Path) -> None:
    query(own, "UPDATE disciplines SET display_name = CAST(x'ff41' AS TEXT) WHERE name = 'backend'")

    assert "\ufffdA" == backend(own).display_name


def test_a_database_of_another_encoding_is_read(tmp_path: Path) -> None:
    text = "PRAGMA encoding = 'UTF-16le';" + (SCHEMAS / "a8.sql").read_text(encoding="utf-8")
    create_database(tmp_path, text)
    values = ["dö", "Ü", "X", "i", "#010203", '[{"name": "n", "command": "ö"}]']
    sql = (
        "INSERT INTO disciplines (name, display_name, acronym, icon, color, mcp_servers) "
        "VALUES (?, ?, ?, ?, ?, ?)"
    )
    query(tmp_path, sql, *values)
    (found,) = read_disciplines(tmp_path).rows

    assert ("dö", "Ü", "ö") == (found.name, found.display_name, found.servers["0"].command)


def test_tables_of_the_least_schema_are_enough(tmp_path: Path) -> None:
    create_database(tmp_path, "CREATE TABLE disciplines (name); INSERT INTO disciplines VALUES (1)")
    query(tmp_path, "INSERT INTO disciplines VALUES ('only')")
    (found,) = read_disciplines(tmp_path).rows

    assert ("only", "only") == (found.name, found.display_name)


@pytest.mark.parametrize("text", ["", "CREATE TABLE other (x)"], ids=["no database", "no table"])
def test_a_database_that_cannot_be_asked_is_said(tmp_path: Path, text: str) -> None:
    if text:
        create_database(tmp_path, text)
    with pytest.raises(ProjectError):
        read_disciplines(tmp_path)


CHANGES: dict[str, Any] = {
    "the column": lambda root: stored(root, "backend", [{**DOCS, "command": "y"}]),
    "a secret": lambda root: stored(root, "backend", [{**DOCS, "env": {"KEY": "other"}}]),
    "its spelling": lambda root: stored(root, "backend", json.dumps([DOCS], indent=1)),
    "the config": lambda root: (root / FILE).write_text(
        CONFIG.replace("sign", "load"), encoding="utf-8"
    ),
    "a secret of the config": lambda root: (root / FILE).write_text(
        CONFIG.replace("s3", "s4"), encoding="utf-8"
    ),
    "a new column": lambda root: run_sql(root, *OVERRIDES),
    "a column less": lambda root: run_sql(root, *DROPPED),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_fingerprint_moves_with_whatever_an_edit_replaces(own: Path, change: Any) -> None:
    before = backend(own).fingerprint
    change(own)

    assert before != backend(own).fingerprint


def test_the_fingerprint_stays_where_others_change(own: Path) -> None:
    before = backend(own).fingerprint
    stored(own, "frontend", [DOCS])
    query(own, "UPDATE disciplines SET image_prompt = 'x' WHERE name = 'backend'")
    (own / FILE).write_text(f"# new\n{CONFIG}\n[launch]\nallow = []\n", encoding="utf-8")

    assert before == backend(own).fingerprint


def test_fingerprints_of_equal_disciplines_differ(own: Path) -> None:
    (own / FILE).unlink()
    stored(own, "backend", "[]")
    first, second = read_disciplines(own).rows

    assert first.fingerprint != second.fingerprint
