"""The config's tables are checked against the database; each mistake has its line."""

from pathlib import Path

import pytest
from driving import SCHEMAS, create_database

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.project.inspect import inspect_project

TABLES = """
CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, size INTEGER, pic BLOB);
CREATE TABLE bare (a TEXT);
CREATE TABLE pics (pic BLOB PRIMARY KEY, title TEXT);
CREATE VIEW titles AS SELECT id, title FROM risks;
CREATE VIEW broken AS SELECT id FROM missing;
CREATE VIEW small AS SELECT id FROM risks WHERE size < 3;
CREATE VIEW servers AS SELECT name, mcp_servers AS them FROM disciplines;
CREATE VIEW nested AS SELECT count(them) AS n FROM servers;
CREATE VIRTUAL TABLE found USING fts5(title);
"""


def project(root: Path, config: str) -> Path:
    create_database(root, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"), TABLES)
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[tables.riks]", '1: the database has no table "riks"\nhint: if it is new, migrate'),
        ("[tables.riks]", 'this database first; did you mean "risks"?'),
        ("[tables.broken]", 'the view "broken" reads a missing table or column'),
        ("[tables.found]", '"found" is a virtual table, which cannot be served'),
        ("[tables.found_data]", '"found_data" is the storage of a virtual table, which cannot be'),
        ("[tables.sqlite_master]", "is an internal table of the database or ralphgen"),
        ("[tables.ralphgen_ledger]", "is an internal table of the database or ralphgen"),
        ("[tables.tasks]", 'the server "ralph" already has tools for this table'),
        ('[tables.risks]\nfilter = ["sise"]', '2: "risks" has no column "sise"\nhint: did'),
        ('[tables.risks]\nsearch = ["size"]', '2: "size" does not contain text'),
        ('[tables.risks]\nhide = ["title"]\nsearch = ["title"]', '3: "title" is hidden'),
        ('[tables.risks]\nhide = ["id"]', '2: "id" identifies the rows'),
        ('[tables.risks]\nkey = ["id"]', '2: "risks" has a primary key'),
        ('[tables.bare]\ntools = ["list", "get"]', '2: "bare" has no primary key, so "get"'),
        ('[tables.pics]\ntools = ["get"]', '"pics" has a primary key of an unsupported type'),
        ('[tables.risks]\nfilter = ["pic"]', '2: "pic" has a type that arguments do not support'),
        ('[tables.risks]\nnoun = "r"\n[tables.RISKS]', '"risks" is configured twice, also as'),
        ('[schema]\nhide = ["risks.id"]\n[tables.risks]', '3: "id" identifies the rows, but is'),
        (
            '[schema]\nhide = ["risks.size"]\n[tables.risks]\nfilter = ["size"]',
            '4: "size" is hidden',
        ),
        ('[tables.risks.recipes]\nopus = ["get"]', 'unknown recipe "opus" in "recipes"'),
        ('[tables.risks]\nnoun = "task"', 'the server "ralph" already has a tool "get_task"'),
        ("[tables.servers]", '1: "servers" reads "disciplines.mcp_servers", which is hidden'),
        ('[tables.servers]\nhide = ["them"]', '"servers" reads "disciplines.mcp_servers"'),
        ("[tables.nested]", '1: "nested" reads "disciplines.mcp_servers", which is hidden'),
        (
            '[tables.small]\n[tables.risks]\nhide = ["size"]',
            '1: "small" reads "risks.size", which is hidden',
        ),
        ('[schema]\nhide = ["risks.size"]\n[tables.small]', '3: "small" reads "risks.size"'),
        ('[schema]\nhide = ["risks.sise"]', 'contains "risks.sise", expected a column'),
        ('[tables.risks]\ntools = ["drop"]', '2: "tables.risks.tools[0]" is "drop"'),
    ],
)
def test_a_mistake_is_named_with_its_line(config: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        _ = Project(project(tmp_path, config)).plan

    assert said in "\n".join(f"{one.text}\nhint: {one.hint}" for one in caught.value.problems)


def test_names_are_spelled_as_the_database_has_them(tmp_path: Path) -> None:
    config = '[tables.RISKS]\nfilter = ["SIZE"]\n[tables.titles]\nkey = ["ID"]'
    risks, titles = inspect_project(project(tmp_path, config), KITS).tables

    assert ("risks", ("size",), ("id",)) == (risks.name, risks.filter, risks.key)
    assert (("list", "get", "create", "update", "delete"), ("list", "get")) == (
        risks.tools,
        titles.tools,
    )
    assert ("titles", ("id",)) == (titles.name, titles.key)


def test_without_the_database_the_facts_are_the_recorded_ones(tmp_path: Path) -> None:
    root = project(tmp_path, "[tables.risks]\n[tables.titles]\n")
    made = regenerate(root, force=False, say=lambda _: None)
    (root / ".ralph/db/ralph.db").unlink()

    assert made.files == Project(root).files


def test_rows_that_only_bytes_tell_apart_are_listed_and_no_more(tmp_path: Path) -> None:
    (pics,) = inspect_project(project(tmp_path, "[tables.pics]"), KITS).tables

    assert ("list",) == pics.tools


def test_tables_alone_do_not_show_what_starts_the_servers_of_disciplines(tmp_path: Path) -> None:
    """The environment of such a server may hold secrets."""
    root = project(tmp_path, 'kits = ["tables"]\n[tables.disciplines]\n')
    with pytest.raises(ProjectError, match=r'reads "disciplines\.mcp_servers", which is hidden'):
        inspect_project(root, KITS)
    config = 'kits = ["tables"]\n[tables.disciplines]\nhide = ["mcp_servers"]\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")

    assert ["disciplines"] == [table.name for table in inspect_project(root, KITS).tables]


def test_a_view_of_visible_columns_is_served(tmp_path: Path) -> None:
    config = '[tables.small]\n[tables.titles]\nkey = ["id"]\n[tables.risks]\nhide = ["pic"]\n'
    tables = inspect_project(project(tmp_path, config), KITS).tables

    assert ["risks", "small", "titles"] == [table.name for table in tables]
