"""Generated files after merges in git."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import ralphgen, ran, refused, run_sql, texts
from driving import create_project, quiet
from git_merges import DUE, MANIFEST, MCP, RISK, Edit, append, commit, conflict, git, nothing

from ralphgen.emit.workflows import regenerate
from ralphgen.ledger.tables import definition

pytestmark = pytest.mark.slow
LEDGER = (definition(), "INSERT INTO ralphgen_ledger (created) VALUES ('2026-01-01')")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return conflict(tmp_path_factory.mktemp("merge") / "p")


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    """A copy of a merge of two generated sides."""
    return shutil.copytree(model, tmp_path / "p")


def test_both_sides_are_put_together_and_check_is_green_in_ci(root: Path, tmp_path: Path) -> None:
    unmerged = git(root, "ls-files", "--unmerged")
    run_sql(root, RISK)
    done = ralphgen("regen", root, "--no-install")

    assert 0 == done.returncode, done.stderr
    assert f'accept it with "git add {MCP}"' in done.stderr
    assert unmerged == git(root, "ls-files", "--unmerged")  # adding is up to the user
    assert '"due"' in (root / MCP / "ralph/tables.py").read_text("utf-8")
    again = ralphgen("regen", root, "--no-install")
    assert (0, True) == (again.returncode, "is up to date" in again.stderr)
    git(root, "add", MCP)
    git(root, "commit", "-q", "-m", "merged")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(root), str(clone))
    assert 0 == ralphgen("check", clone).returncode
    straight = create_project(tmp_path / "straight", RISK, DUE)  # in another order
    theirs, found = texts(straight / MCP), texts(root / MCP)
    assert {**theirs, ".lock": b""} == {**found, ".lock": b""}


@pytest.mark.parametrize("operation", ["rebase", "cherry-pick", "merge --squash"])
def test_a_rebase_a_cherry_pick_and_a_squash_are_merges_too(tmp_path: Path, operation: str) -> None:
    root = conflict(tmp_path / "p", operation=operation)
    losing = f'{MCP} would lose the column "tasks.risk"'

    assert losing in refused("regen", root, "--no-install")
    assert losing in refused("regen", root, "--no-install", "--force")
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_a_stash_that_is_applied_is_a_merge_too(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (root / ".gitignore").write_text("/.ralph/db/\n", encoding="utf-8")
    git(root, "init", "-q", "-b", "main")
    commit(root, "main")
    run_sql(root, RISK)
    ralphgen("regen", root, "--no-install")
    git(root, "stash", "-q")
    run_sql(root, "ALTER TABLE tasks DROP COLUMN risk", DUE)
    ralphgen("regen", root, "--no-install")
    commit(root, "main")
    git(root, "stash", "pop", code=1)
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode


def test_a_side_with_an_unknown_commit_loses_nothing(root: Path) -> None:
    git(root, "update-ref", "-d", "MERGE_HEAD")

    losing = f'{MCP} would lose the column "tasks.risk"'
    assert losing in refused("regen", root, "--no-install", "--force")
    run_sql(root, RISK)
    assert '"manifest.json" cannot be read on side "theirs"' in refused("regen", root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode


def test_a_database_without_one_sides_column_is_refused_as_for_removals(root: Path) -> None:
    before = texts(root)
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'{MCP} would lose the column "tasks.risk"\nhint: ')
    done = ralphgen("check", root, "--json")
    assert (1, True, ['the column "tasks.risk"']) == (
        done.returncode,
        json.loads(done.stdout)["merging"],
        json.loads(done.stdout)["database_lacks"],
    )
    assert before == texts(root)


def test_check_names_the_merge_and_what_mends_it(root: Path) -> None:
    run_sql(root, RISK)
    said = ralphgen("check", root).stderr

    assert f"{MCP} has unmerged files" in said
    assert f'run "ralphgen regen", then "git add {MCP}"' in said


@pytest.mark.parametrize(
    ("side", "path"),
    [
        ("theirs", "ralph/features.py"),  # git has merged it cleanly
        ("ours", "ralph/tasks.py"),
    ],
)
def test_an_edit_on_one_side_is_named_and_kept(tmp_path: Path, side: str, path: str) -> None:
    edit = append(f"{MCP}/{path}", "# mine\n")
    theirs, ours = (edit, nothing) if side == "theirs" else (nothing, edit)
    root = conflict(tmp_path / "p", theirs=theirs, ours=ours)
    run_sql(root, RISK)
    before = texts(root)
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'"{path}" was edited by hand on side "{side}"\nhint: ')
    assert before == texts(root)
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode
    assert "# mine" not in (root / MCP / path).read_text("utf-8")
    assert 0 == ralphgen("check", root).returncode


@pytest.mark.parametrize("path", ["ralph/features.py", "ralph/tasks.py"])
def test_an_edit_while_the_merge_waits_is_named_and_kept(root: Path, path: str) -> None:
    run_sql(root, RISK)
    (root / MCP / path).write_text("# mine\n", encoding="utf-8")
    said = refused("regen", root, "--no-install")

    assert said.startswith(f'"{path}" was edited by hand since the merge began\nhint: ')
    assert "# mine\n" == (root / MCP / path).read_text("utf-8")


@pytest.mark.parametrize("side", ["--ours", "--theirs"])
def test_a_side_that_was_taken_whole_is_not_an_edit(root: Path, side: str) -> None:
    run_sql(root, RISK)
    git(root, "checkout", side, "--", MCP)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_marks_that_were_added_do_not_hide_the_merge(root: Path) -> None:
    run_sql(root, RISK)
    git(root, "add", "-A")

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


def test_a_file_of_one_side_alone_is_removed_with_its_kit(tmp_path: Path) -> None:
    def switch_on(root: Path) -> None:
        (root / ".ralph/ralphgen.toml").write_text('kits = ["ralph", "rye"]\n', encoding="utf-8")
        ralphgen("regen", root, "--no-install")

    root = conflict(tmp_path / "p", theirs=switch_on)
    run_sql(root, RISK)
    assert (root / MCP / "rye/__init__.py").exists()
    (root / ".ralph/ralphgen.toml").unlink()
    assert 0 == ralphgen("regen", root, "--no-install").returncode

    assert not (root / MCP / "rye").exists()
    assert 0 == ralphgen("check", root).returncode


def test_a_file_that_neither_side_generated_is_in_the_way(root: Path) -> None:
    run_sql(root, RISK)
    (root / ".ralph/ralphgen.toml").write_text('kits = ["ralph", "rye"]\n', encoding="utf-8")
    own = root / MCP / "rye/__init__.py"
    own.parent.mkdir()
    own.write_text("mine = 1\n", encoding="utf-8")
    before = texts(root)

    assert '"rye/__init__.py" exists, but was not generated' in refused(
        "regen", root, "--no-install"
    )
    assert before == texts(root)


def test_less_proof_than_one_side_asks_for_is_refused(tmp_path: Path) -> None:
    def ask(root: Path) -> None:
        run_sql(root, *LEDGER)
        check = '[[done.checks]]\nname = "tests"\nrun = ["true"]\n'
        (root / ".ralph/ralphgen.toml").write_text(check, encoding="utf-8")
        assert 0 == ralphgen("regen", root, "--no-install").returncode

    root = conflict(tmp_path / "p", theirs=ask)
    run_sql(root, RISK, *LEDGER)
    (root / ".ralph/ralphgen.toml").unlink()

    assert 'check "tests" would be removed' in refused("regen", root, "--no-install")


def test_a_side_of_a_later_version_is_not_written_by_this_one(tmp_path: Path) -> None:
    def later(root: Path) -> None:
        facts = json.loads((root / MANIFEST).read_text("utf-8"))
        text = json.dumps({**facts, "ralphgen": "99.1.0"}, indent=2, sort_keys=True) + "\n"
        (root / MANIFEST).write_text(text, encoding="utf-8")

    root = conflict(tmp_path / "p", theirs=later)
    run_sql(root, RISK)

    for command in (("regen", "--no-install"), ("check",), ("init", "--no-install")):
        name, *options = command
        said = refused(name, root, *options, code=2)
        assert said.startswith(f"{MCP} was generated by ralphgen 99.1.0, ")
    assert 0 == ralphgen("regen", root, "--no-install", "--force").returncode


def test_a_project_inside_of_a_repository_is_merged_too(tmp_path: Path) -> None:
    root = conflict(tmp_path / "mono", place="apps/shop é")
    run_sql(root, RISK)

    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert 0 == ralphgen("check", root).returncode


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
