"""Branches that add tables, queries and custom tools, merged by git."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import ralphgen, ran, refused, run_sql
from driving import quiet
from git_merges import MCP, RISK, Edit, conflict, git, nothing

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

RISKS = "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL{})"
FACTS = ("config", "disciplines", "recipes", "schema", "surveys")
NAMED = '[tables.risks]\nnoun = "risk"\n'
QUERY = "-- name: all_risks :many\n-- Every risk.\nSELECT id, title FROM risks;\n"
TOOL = '''from ralphgen.tools import Project, reads


@reads
def count(project: Project) -> int:
    """Return how many tasks there are."""
    return len(project.rows("SELECT id FROM tasks"))
'''


def write_file(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def serve_risks(root: Path, column: str = ", weight REAL", named: str = NAMED) -> None:
    run_sql(root, RISKS.format(column))
    write_file(root, ".ralph/ralphgen.toml", named)
    regenerate(root, force=False, say=quiet)


def serve_all(root: Path) -> None:
    write_file(root, ".ralph/queries/risks.sql", QUERY)
    write_file(root, ".ralph/tools/count.py", TOOL)
    serve_risks(root)


def merged(root: Path, tmp_path: Path) -> None:
    """Commit the merge; CI reports a clone without a database as up to date."""
    git(root, "add", ".ralph")
    git(root, "commit", "-q", "-m", "merged")
    git(tmp_path, "clone", "-q", str(root), str(tmp_path / "clone"))
    assert 0 == ralphgen("check", tmp_path / "clone").returncode


@pytest.mark.parametrize("side", ["theirs", "ours"])
def test_tables_queries_and_tools_of_one_side_are_included(tmp_path: Path, side: str) -> None:
    root = conflict(
        tmp_path / "p",
        theirs=serve_all if side == "theirs" else nothing,
        ours=serve_all if side == "ours" else nothing,
    )
    if side == "theirs":
        said = refused("regen", root, "--no-install")
        assert 'the database has no table "risks"' in said
        assert "migrate" in said
        run_sql(root, RISKS.format(", weight REAL"))
    assert f'{MCP} would lose the column "tasks.risk"' in refused("regen", root, "--no-install")
    run_sql(root, RISK)
    ran("regen", root, "--no-install")
    tools = json.loads((root / MCP / "manifest.json").read_bytes())["tools"]["ralph"]
    assert {"list_risks", "all_risks", "count"} <= {*tools}
    merged(root, tmp_path)


def test_one_table_of_two_sides_with_other_columns_has_both(tmp_path: Path) -> None:
    root = conflict(
        tmp_path / "p",
        theirs=lambda root: serve_risks(root, ", weight REAL"),
        ours=lambda root: serve_risks(root, ", owner TEXT"),
    )
    run_sql(root, RISK)
    assert f'{MCP} would lose the column "risks.weight"' in refused("regen", root, "--no-install")
    run_sql(root, "ALTER TABLE risks ADD COLUMN weight REAL")
    ran("regen", root, "--no-install")
    merged(root, tmp_path)


def test_settings_that_git_left_unmerged_are_named_first(tmp_path: Path) -> None:
    root = conflict(
        tmp_path / "p",
        theirs=lambda root: serve_risks(root, named=f'{NAMED}search = ["title"]\n'),
        ours=lambda root: serve_risks(root, named=f'{NAMED}filter = ["title"]\n'),
    )
    run_sql(root, RISK)
    said = refused("regen", root, "--no-install")

    assert ".ralph/ralphgen.toml:" in said
    assert "unresolved merge conflict" in said
    write_file(root, ".ralph/ralphgen.toml", f'{NAMED}search = ["title"]\nfilter = ["title"]\n')
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    merged(root, tmp_path)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        (".ralph/tools/count.py", TOOL, TOOL.replace("how many", "the number of")),
        (".ralph/queries/q.sql", QUERY, QUERY.replace("Every", "Each")),
    ],
)
def test_a_tool_or_a_query_that_git_left_unmerged_is_named(
    tmp_path: Path, path: str, one: str, other: str
) -> None:
    def side(text: str) -> Edit:
        def edit(root: Path) -> None:
            write_file(root, path, text)
            serve_risks(root)

        return edit

    root = conflict(tmp_path / "p", theirs=side(one), ours=side(other))
    run_sql(root, RISK)
    said = refused("regen", root, "--no-install")

    assert f"{path}:" in said
    assert "unresolved merge conflict" in said
    write_file(root, path, one)
    assert 0 == ralphgen("regen", root, "--no-install").returncode


def test_a_table_that_one_side_gave_up_and_the_other_widened_is_refused(tmp_path: Path) -> None:
    def give_up(root: Path) -> None:
        serve_risks(root)
        write_file(root, ".ralph/ralphgen.toml", "")
        run_sql(root, "DROP TABLE risks")
        regenerate(root, force=False, say=quiet, allow_removals=True)

    root = conflict(tmp_path / "p", theirs=serve_risks, ours=give_up)
    run_sql(root, RISK)
    said = refused("regen", root, "--no-install")

    assert "risks" in said
    assert "migrate" in said


def test_a_project_of_tables_alone_is_merged(tmp_path: Path) -> None:
    kit = 'kits = ["tables"]\n'

    def side(table: str) -> Edit:
        def edit(root: Path) -> None:
            run_sql(root, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, title TEXT)")
            text = "".join(f"[tables.{one}]\n" for one in ("features", table))
            write_file(root, ".ralph/ralphgen.toml", f"{kit}{text}")
            regenerate(root, force=False, say=quiet, allow_removals=True)

        return edit

    root = conflict(tmp_path / "p", theirs=side("risks"), ours=side("bugs"))
    both = "".join(f"[tables.{one}]\n" for one in ("features", "risks", "bugs"))
    write_file(root, ".ralph/ralphgen.toml", f"{kit}{both}")
    assert 'has no table "risks"' in refused("regen", root, "--no-install")
    run_sql(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT)")
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    merged(root, tmp_path)


def test_a_side_that_an_earlier_version_wrote_loses_nothing(tmp_path: Path) -> None:
    """Its facts are fewer: no definitions, tables or queries."""

    def earlier(root: Path) -> None:
        facts = json.loads((root / MCP / "project.json").read_bytes())
        facts = {key: facts[key] for key in FACTS}
        text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
        write_file(root, f"{MCP}/project.json", text)
        manifest = json.loads((root / MCP / "manifest.json").read_bytes())
        manifest |= {"ralphgen": "0.1.0"}
        manifest["files"]["project.json"] = sha256(text.encode()).hexdigest()
        text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        write_file(root, f"{MCP}/manifest.json", text)

    root = conflict(tmp_path / "p", theirs=earlier, ours=serve_risks)
    assert f'{MCP} would lose the column "tasks.risk"' in refused("regen", root, "--no-install")
    run_sql(root, RISK)
    ran("regen", root, "--no-install")
    merged(root, tmp_path)
