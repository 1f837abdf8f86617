"""`ralphgen tools diff`: what sessions may do now and could not, read from git and the disk."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, refused, snapshot
from driving import create_project, edit, query
from proved_projects import git

from ralphgen.authority import NOTHING, Authority, changes, markdown
from ralphgen.emit.workflows import regenerate
from ralphgen.runtime.policy import Policy

pytestmark = pytest.mark.slow

RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))"
CONFIG = '[disciplines.frontend]\ndisable = ["create_task"]\n'
RULES = {"checks": [{"name": "<!-- *x* @all"}], "protect": ["**/tests/**"], "watch": []}
BOUND = '"ralph:set_task_status": {"id": "own feature"}'
OWN = 'base = "task_execution"\nallow = { ralph = ["get_task", "set_task_status"] }\n'


def quiet(_line: str) -> None:
    """Takes the place of progress on a terminal."""


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "as it is")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose server is committed."""
    root = create_project(tmp_path / "p", config=CONFIG)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A Person")
    git(root, "config", "user.email", "person@example.org")
    commit(root)
    return root


def diff(root: Path, *arguments: str) -> list[dict[str, Any]]:
    """The changes as JSON; nothing of the project is written."""
    before = snapshot(root)
    done = ralphgen("tools", "diff", *arguments, "--json", "--project", root)
    assert 0 == done.returncode, done.stderr
    assert before == snapshot(root)
    found: list[dict[str, Any]] = json.loads(done.stdout)["changes"]
    return found


def texts_of(found: list[dict[str, Any]], *, gain: bool) -> list[str]:
    return [one["text"] for one in found if one["gain"] is gain]


@pytest.mark.thorough
def test_the_same_server_has_no_change(root: Path) -> None:
    done = ralphgen("tools", "diff", "--fail-on", "gain", "--project", root)

    assert 0 == done.returncode
    assert (
        "## Permissions of agents, compared with `HEAD`\n\n"
        "No session can do more or less than before.\n"
    ) == done.stdout


def test_a_new_column_is_a_gain_of_each_recipe_that_writes_it(root: Path) -> None:
    query(root, RISK)
    regenerate(root, force=False, say=quiet)
    found = diff(root)

    assert {True} == {one["gain"] for one in found}
    (created,) = [one for one in found if "`ralph:create_task` accepts `risk`" == one["text"]]
    assert "braindump" in created["recipes"]
    assert "task_execution" not in created["recipes"]


@pytest.mark.thorough
def test_a_gain_fails_on_request_and_a_loss_does_not(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text("", encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    gained = ralphgen("tools", "diff", "--fail-on", "gain", "--project", root)

    assert 1 == gained.returncode
    assert (
        "### More than before\n\n"
        "- discipline `frontend`: `ralph:create_task` is no longer removed\n"
    ) in gained.stdout

    commit(root)
    (root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    lost = ralphgen("tools", "diff", "--fail-on", "gain", "--project", root)

    assert 0 == lost.returncode
    assert "### Less than before\n\n- discipline `frontend`: " in lost.stdout
    assert 1 == ralphgen("tools", "diff", "HEAD~1", "--project", root).stdout.count("No session")


@pytest.mark.thorough
def test_a_recipe_of_ones_own_comes_widens_and_goes(root: Path) -> None:
    recipe = root / ".ralph/recipes/quick.toml"
    recipe.parent.mkdir(exist_ok=True)
    recipe.write_text(OWN, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    (new,) = diff(root)

    assert (True, ["quick"]) == (new["gain"], new["recipes"])
    assert new["text"].endswith("with `ralph:get_task`, `ralph:set_task_status`")

    commit(root)
    wide = OWN.replace('"get_task", ', '"get_task", "add_task_comment", ')
    recipe.write_text(wide, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    (wider,) = diff(root)

    assert (True, "ralph:add_task_comment", ["quick"]) == (
        wider["gain"],
        wider["tool"],
        wider["recipes"],
    )

    commit(root)
    recipe.unlink()
    regenerate(root, force=False, say=quiet)
    (gone,) = diff(root)

    assert (False, ["quick"]) == (gone["gain"], gone["recipes"])


def test_a_binding_a_need_and_a_list_of_values_are_weighed(root: Path) -> None:
    edit(
        root,
        "policy.py",
        ('"ralph:set_task_status": {"id": "own task"},', ""),
        ('targets={"task": "required"},', 'targets={"task": "optional"},'),
        ('                        "pending",\n', '                        "skipped",\n'),
    )
    found = diff(root)

    assert {("task_execution",)} == {tuple(one["recipes"]) for one in found}
    assert [
        "`id` of `ralph:set_task_status` can name any row, not only that of the session",
        '`status` of `ralph:set_task_status` accepts `"skipped"`',
        "sessions are less restricted to their own task",
    ] == texts_of(found, gain=True)
    assert ['`status` of `ralph:set_task_status` no longer accepts `"pending"`'] == texts_of(
        found, gain=False
    )


def test_a_binding_to_another_kind_of_row_is_a_gain(root: Path) -> None:
    edit(root, "policy.py", ('"ralph:set_task_status": {"id": "own task"}', BOUND))
    found = diff(root)

    assert ["`id` of `ralph:set_task_status` can name `own feature`"] == texts_of(found, gain=True)


def test_a_tool_that_declares_to_read_and_then_writes_is_a_gain(root: Path) -> None:
    edit(root, "ralph/tasks.py", ("hints=READ_ONLY", "hints=DESTRUCTIVE"))
    found = diff(root)

    assert texts_of(found, gain=True)
    assert not texts_of(found, gain=False)
    assert all("declares" in one["text"] for one in found)


@pytest.mark.thorough
def test_a_query_with_another_text_is_a_gain(root: Path) -> None:
    queries = root / ".ralph/queries"
    queries.mkdir(exist_ok=True)
    text = "-- name: short :many\n-- Titles.\nSELECT title FROM tasks WHERE id = :id;\n"
    (queries / "own.sql").write_text(text, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    commit(root)
    (queries / "own.sql").write_text(text.replace("id = ", "id < "), encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    (changed,) = diff(root)

    assert (True, "ralph:short") == (changed["gain"], changed["tool"])
    assert "the implementation of `ralph:short` has changed" == changed["text"]


def test_a_commit_without_a_server_makes_all_of_it_new(root: Path) -> None:
    git(root, "rm", "-r", "--quiet", "--cached", ".ralph/mcp")
    git(root, "commit", "--quiet", "-m", "without it")
    found = diff(root)

    assert {True} == {one["gain"] for one in found}
    assert any("task_execution" in one["recipes"] for one in found)


def test_no_file_that_is_read_is_run(root: Path) -> None:
    """Neither the code of the worktree nor that of the commit, nor what settings of git name."""
    trap = root / "ran"
    edit(root, "policy.py", ("POLICY = ", f"open({str(trap)!r}, 'w').close()\nPOLICY = "))
    git(root, "config", "core.fsmonitor", f"touch {trap}")
    git(root, "-c", "core.fsmonitor=", "commit", "--quiet", "-am", "as edited")
    diff(root)

    assert not trap.exists()


def test_edited_generated_files_are_refused_by_name(root: Path) -> None:
    edit(root, "policy.py", ('"get_task",', "*[chr(97)],"))
    said = refused("tools", "diff", "--project", root)

    assert '"policy.py" of the worktree differs from the files that ralphgen writes' in said
    commit(root)
    git(root, "checkout", "--quiet", "HEAD~1", "--", ".")
    assert '"policy.py" of "HEAD" differs from the files' in refused(
        "tools", "diff", "--project", root
    )


@pytest.mark.thorough
@pytest.mark.parametrize("reference", ["nowhere", "--output=x", "HEAD:README.md", ""])
def test_an_unknown_commit_is_refused(root: Path, reference: str) -> None:
    said = refused("tools", "diff", "--project", root, "--", reference, code=2)

    assert "no commit" in said


def test_a_missing_repository_is_reported(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")

    assert "is not in a git repository" in refused("tools", "diff", "--project", root)


def test_names_can_do_nothing_in_a_comment(root: Path) -> None:
    query(root, "ALTER TABLE tasks ADD COLUMN mood TEXT CHECK (mood IN ('`@all`', 'a\nb'))")
    regenerate(root, force=False, say=quiet)
    done = ralphgen("tools", "diff", "--project", root)

    assert all(line.startswith(("#", "-")) for line in done.stdout.splitlines() if line)


@pytest.mark.thorough
def test_a_column_that_is_hidden_no_longer_is_a_gain(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    config.write_text('[schema]\nhide = ["tasks.pseudocode"]\n', encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    assert "rows of `tasks` no longer include `pseudocode`" in texts_of(diff(root), gain=False)

    commit(root)
    config.write_text("", encoding="utf-8")
    regenerate(root, force=False, say=quiet)

    assert "rows of `tasks` include `pseudocode`" in texts_of(diff(root), gain=True)


TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, notes TEXT, alias TEXT);
CREATE TABLE visits (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people, day TEXT);
"""
SERVED = '[tables.people]\nnoun = "person"\n[tables.visits]\nnoun = "visit"\n'
FUNCTION = (
    "from ralphgen.tools import Project, reads\n"
    "@reads\n"
    "def names(project: Project) -> list[str]:\n"
    '    """Return names."""\n'
    "    return []\n"
)


def test_a_hidden_column_is_a_loss_of_the_tools_that_showed_it(tmp_path: Path) -> None:
    (tmp_path / "p/.ralph/tools").mkdir(parents=True)
    (tmp_path / "p/.ralph/tools/names.py").write_text(FUNCTION, encoding="utf-8")
    root = create_project(tmp_path / "p", TABLES, config=SERVED)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "config", "user.name", "A Person")
    git(root, "config", "user.email", "person@example.org")
    commit(root)
    config = root / ".ralph/ralphgen.toml"
    config.write_text(SERVED.replace('person"', 'person"\nhide = ["notes"]'), encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    found = diff(root)

    assert [] == texts_of(found, gain=True)
    assert [
        "`ralph:create_person` no longer accepts `notes`",
        "`ralph:get_person` no longer shows `notes`",
        "`ralph:list_people` no longer shows `notes`",
        "`ralph:names` can no longer read `people.notes`",
        '`clear` of `ralph:update_person` no longer accepts `"notes"`',
        "`ralph:update_person` no longer accepts `notes`",
    ] == texts_of(found, gain=False)

    commit(root)
    config.write_text(SERVED, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    shown = texts_of(diff(root), gain=True)

    assert "`people.notes` is no longer hidden" in shown
    assert "`ralph:get_person` shows `notes`" in shown
    assert "`ralph:names` can read `people.notes`" in shown
    assert [] == [text for text in shown if "implementation" in text or "visit" in text]


@pytest.mark.thorough
def test_a_setting_of_a_kit_that_differs_counts_as_a_gain(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    with_rye = 'kits = ["ralph", "rye"]\n'
    config.write_text(with_rye, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    commit(root)
    config.write_text(f'{with_rye}[rye]\nhosts = ["evil.example.com"]\n', encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    (found,) = diff(root)

    assert found["gain"]
    assert ('setting `hosts` of kit `rye` is `["evil.example.com"]`, previously `[]`') == found[
        "text"
    ]


def test_names_of_checks_are_harmless_in_a_comment() -> None:
    """Names of checks and protected paths are text of the project, too."""
    before = Authority(Policy(recipes={}, removed_tools={}, absent={}), done=RULES)
    text = markdown(changes(before, NOTHING), "HEAD")

    assert '`check "<!-- *x* @all" would be removed`' in text
    assert '`"**/tests/**" would no longer be protected`' in text


@pytest.mark.thorough
def test_added_and_removed_rules_are_reported(root: Path) -> None:
    """A removed rule permits the next change: that is a gain."""
    rule = '\n[policy.rules]\ntask_execution = { never = ["delete_*"] }\n'
    (root / ".ralph/ralphgen.toml").write_text(CONFIG + rule, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    came = diff(root)
    commit(root)
    (root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    went = diff(root)

    assert ["a rule forbids tools like `delete_*`"] == texts_of(came, gain=False)
    assert ["no rule forbids tools like `delete_*` any more"] == texts_of(went, gain=True)
    assert [["task_execution"]] * 2 == [one["recipes"] for one in (*came, *went)]


def test_before_the_first_commit_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    git(root, "init", "--quiet", "--initial-branch", "main")
    done = ralphgen("tools", "diff", "--project", root)

    assert 2 == done.returncode
    assert done.stderr.startswith('error: no commit "HEAD": the repository ')
    assert "git commit" in done.stderr
    assert "git fetch" not in done.stderr
