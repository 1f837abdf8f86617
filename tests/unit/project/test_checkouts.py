"""Commands in a linked worktree: its own settings and server, the database of the repository."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, query
from proved_projects import git

from ralphgen.errors import ProjectError
from ralphgen.project.root import ProjectPlace, database_path, project_home, project_place
from ralphgen.runtime.files.main_tree import is_without_tree

pytestmark = pytest.mark.slow

KEPT = "/.ralph/db\n/.ralph/mcp/sessions\n/.ralph/worktrees\n/.ralph/trust\n/.ralph/backups\n"
WRITING = (
    ("init",),
    ("regen",),
    ("tools", "add", "notes"),
    ("connect", "claude"),
    ("connect", "claude", "--skills"),
    ("upgrade",),
    ("trust", "--yes"),
    ("db", "ledger", "on"),
)


def committed(root: Path) -> Path:
    """Commit a project with its server, but without its database and sessions."""
    git(root, "init", "--quiet", "--initial-branch", "main")
    (root / ".git/info/exclude").write_text(KEPT, encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "begin")
    return root


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A project on the branch "main"."""
    return committed(create_project(tmp_path / "main"))


@pytest.fixture
def dev(main: Path, tmp_path: Path) -> Path:
    """A worktree on the branch "dev", with separate settings."""
    tree = tmp_path / "dev"
    git(main, "worktree", "add", "--quiet", "-b", "dev", str(tree))
    return tree


def bare_layout(source: Path, top: Path, name: str) -> Path:
    """Clone a repository without a main worktree; return a worktree on "main"."""
    common = top / name
    git(source, "clone", "--quiet", "--bare", str(source), str(common))
    if name == ".bare":
        (top / ".git").write_text("gitdir: ./.bare\n", encoding="utf-8")
    git(common, "worktree", "add", "--quiet", str(top / "main"), "main")
    return top / "main"


def trust(root: Path) -> None:
    """Record that everything in a project is trusted."""
    done = ralphgen("trust", "--yes", cwd=root)
    assert 0 == done.returncode, done.stderr


def status(root: Path) -> str:
    return git(root, "status", "--porcelain")


def test_root_is_the_users_worktree_and_home_the_main_one(main: Path, dev: Path) -> None:
    assert ProjectPlace(dev, dev, dev) == project_place(dev)
    assert main == project_home(dev)
    assert main / ".ralph/db/ralph.db" == database_path(dev)


def test_root_is_the_home_in_a_worktree_without_settings(main: Path, dev: Path) -> None:
    git(dev, "rm", "-r", "--quiet", ".ralph")

    assert ProjectPlace(main, dev, main) == project_place(dev)


def test_regen_writes_the_settings_of_the_worktree_into_its_own_server(
    main: Path, dev: Path
) -> None:
    with (dev / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as file:
        file.write('\n[schema]\nhide = ["tasks.hints"]\n')

    behind = ralphgen("check", cwd=dev)
    done = ralphgen("regen", "--no-install", "--allow-removals", cwd=dev)

    assert 1 == behind.returncode
    assert 0 == done.returncode, done.stderr
    assert "nothing to change" not in done.stderr
    assert 0 == ralphgen("check", cwd=dev).returncode
    assert "" == status(main)
    assert ".ralph/mcp/project.json" in status(dev)


@pytest.mark.thorough
def test_check_doctor_and_policy_diff_see_an_edit_in_the_worktree(main: Path, dev: Path) -> None:
    with (dev / ".ralph/mcp/policy.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")

    assert 1 == ralphgen("check", cwd=dev).returncode
    assert "1 edited" in ralphgen("doctor", cwd=dev).stdout
    assert 0 == ralphgen("check", cwd=main).returncode


def test_a_migration_is_written_into_the_worktree(main: Path, dev: Path) -> None:
    query(main, "ALTER TABLE tasks ADD COLUMN ticket TEXT")

    done = ralphgen("regen", "--no-install", cwd=dev)

    assert 0 == done.returncode, done.stderr
    assert "" == status(main)
    assert "ticket" in (dev / ".ralph/mcp/project.json").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("connect", "claude", "--skills"), ".claude/skills/*/SKILL.md"),
        (("connect", "claude", "--agents-md"), "AGENTS.md"),
        (("connect", "claude", "--subagents"), ".claude/agents/manifest.json"),
        (("connect", "claude", "--plugin"), ".ralph/plugin/manifest.json"),
        (("connect", "claude"), ".mcp.json"),
    ],
)
def test_generated_files_go_into_the_worktree(
    main: Path, dev: Path, words: tuple[str, ...], file: str
) -> None:
    (dev / "below").mkdir()

    done = ralphgen(*words, cwd=dev / "below")

    assert 0 == done.returncode, done.stderr
    assert [*dev.glob(file)]
    assert not [*main.glob(file)]


def test_sessions_and_claims_belong_to_the_repository(main: Path, dev: Path) -> None:
    trust(dev)
    made = ralphgen("session", "create", "interactive", "--json", cwd=dev)

    facts = json.loads(made.stdout)
    context = json.loads(Path(facts["context"]).read_bytes())
    assert main / ".ralph/mcp/sessions" == Path(facts["folder"]).parent
    assert (str(dev), str(dev)) == (context["project"]["root"], context["project"]["work_tree"])
    assert str(main / ".ralph/db/ralph.db") == context["project"]["database"]
    config = json.loads(Path(facts["mcp_config"]).read_bytes())
    assert str(dev / ".ralph/mcp/server.py") in config["mcpServers"]["ralph"]["args"]
    assert facts["session_id"] in ralphgen("session", "list", cwd=main).stdout


def test_a_session_has_the_root_that_it_was_made_for(main: Path, dev: Path) -> None:
    trust(dev)
    made = json.loads(ralphgen("session", "create", "interactive", "--json", cwd=dev).stdout)
    with (main / ".ralph/mcp/policy.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    more = {"RALPHGEN_SESSION": made["session_id"]}

    there = ralphgen("call", "ralph:list_tasks", cwd=main, more=more)
    checked = ralphgen("check", cwd=main, more=more)

    assert 0 == there.returncode, there.stderr
    assert 0 == checked.returncode, checked.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("words", WRITING)
def test_a_session_writes_no_settings_of_any_worktree(
    main: Path, dev: Path, words: tuple[str, ...]
) -> None:
    for tree in (main, dev):
        done = ralphgen(*words, cwd=tree, more={"RALPHGEN_SESSION": "task_execution-1-x"})

        assert 2 == done.returncode
        assert "is not for agents" in done.stderr
    assert ("", "") == (status(main), status(dev))


@pytest.mark.parametrize("words", [("regen",), ("tools", "add", "notes"), ("init",)])
def test_no_settings_are_written_from_an_agents_worktree(
    main: Path, words: tuple[str, ...]
) -> None:
    tree = main / ".ralph/worktrees/1"
    git(main, "worktree", "add", "--quiet", "--detach", str(tree))

    done = ralphgen(*words, cwd=tree)

    assert 2 == done.returncode
    assert f'"{tree}" is a worktree of an agent' in done.stderr
    assert ("", "") == (status(main), status(tree))


def test_reading_in_an_agents_worktree_ignores_its_settings(main: Path) -> None:
    tree = main / ".ralph/worktrees/1"
    git(main, "worktree", "add", "--quiet", "--detach", str(tree))
    (tree / ".ralph/mcp/policy.py").write_text("broken", encoding="utf-8")

    assert ProjectPlace(main, tree, main) == project_place(tree)
    assert 0 == ralphgen("check", cwd=tree).returncode


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "home"), [(".bare", "."), ("repo.git", "repo.git"), (".git", ".")]
)
def test_home_of_a_bare_repository(main: Path, tmp_path: Path, name: str, home: str) -> None:
    tree = bare_layout(main, tmp_path / "all", name)
    expected = tmp_path / "all" / home

    done = ralphgen("init", "--yes", "--no-install", cwd=tree)

    assert 0 == done.returncode, done.stderr
    assert f'the home of the project is "{expected}"' in done.stderr
    assert (expected / ".ralph/db/ralph.db").is_file()
    assert not (tree / ".ralph/db").exists()
    assert is_without_tree(str(expected))
    assert f"home         {expected}" in ralphgen("doctor", cwd=tree).stdout
    git(tree, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    assert database_path(tree) == database_path(tmp_path / "other")


def test_calls_from_agents_worktrees_of_a_bare_repository_find_the_session(
    main: Path, tmp_path: Path
) -> None:
    tree = bare_layout(main, tmp_path / "all", ".bare")
    assert 0 == ralphgen("init", "--yes", "--no-install", cwd=tree).returncode
    trust(tree)
    made = json.loads(ralphgen("session", "create", "interactive", "--json", cwd=tree).stdout)
    agents = tmp_path / "all/.ralph/worktrees/1"
    git(tree, "worktree", "add", "--quiet", "--detach", str(agents))

    done = ralphgen(
        "call", "ralph:list_tasks", cwd=agents, more={"RALPHGEN_SESSION": made["session_id"]}
    )

    assert 0 == done.returncode, done.stderr


def test_a_home_is_never_the_users_home_directory(
    main: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bare_layout(main, tmp_path / "all", ".bare")
    monkeypatch.setenv("HOME", str(tmp_path / "all"))

    assert tmp_path / "all/.bare" == project_home(tree)


def test_init_outside_of_the_worktrees_of_a_bare_repository_is_refused(
    main: Path, tmp_path: Path
) -> None:
    tree = bare_layout(main, tmp_path / "all", ".bare")

    done = ralphgen("init", "--no-install", cwd=tree.parent)

    assert 1 == done.returncode
    assert "is in a bare repository, outside its worktrees" in done.stderr
    assert not (tree.parent / ".ralph").exists()


def test_projects_below_the_top_keep_their_path_in_the_home(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("app", "tools/bot"):
        create_project(top / name)
    git(top, "init", "--quiet", "--initial-branch", "main")
    (top / ".git/info/exclude").write_text("db/\n", encoding="utf-8")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "begin")
    git(top, "worktree", "add", "--quiet", "-b", "dev", str(tmp_path / "dev"))
    tree = bare_layout(top, tmp_path / "all", ".bare")

    for name in ("app", "tools/bot"):
        assert tmp_path / "dev" / name == project_place(tmp_path / "dev" / name).root
        assert top / name == project_home(tmp_path / "dev" / name)
        assert tmp_path / "all" / name == project_home(tree / name)


def test_home_of_a_submodule_is_its_checkout(main: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(main), "sub")
    git(outer / "sub", "worktree", "add", "--quiet", "-b", "dev", str(tmp_path / "dev"))

    assert outer / "sub" == project_home(outer / "sub")
    assert outer / "sub" == project_home(tmp_path / "dev")


def test_settings_of_git_do_not_move_a_home_to_another_repository(
    main: Path, tmp_path: Path
) -> None:
    top = tmp_path / "archive"
    git(
        tmp_path,
        "clone",
        "--quiet",
        "--separate-git-dir",
        str(tmp_path / "git"),
        str(main),
        "archive",
    )
    git(top, "worktree", "add", "--quiet", "-b", "dev", str(tmp_path / "dev"))
    git(top, "config", "core.worktree", str(main))

    assert tmp_path / "git" == project_home(tmp_path / "dev")


def test_a_relative_database_starts_at_the_home(main: Path, dev: Path, tmp_path: Path) -> None:
    for root in (main, dev):
        (root / ".ralph/ralphgen.toml").write_text(
            '[database]\npath = "../shared.db"\n', encoding="utf-8"
        )

    assert {tmp_path / "shared.db"} == {database_path(main), database_path(dev)}


@pytest.mark.thorough
def test_the_users_variable_names_the_database(main: Path, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes((main / ".ralph/db/ralph.db").read_bytes())
    query(main, "UPDATE tasks SET title = 'In the project'")
    more = {"RALPH_DATABASE": str(tmp_path / "other.db")}

    listed = ralphgen("task", "list", "--json", cwd=main, more=more)
    titles = [task["title"] for task in json.loads(listed.stdout)["tasks"]]

    assert titles
    assert "In the project" not in titles
    assert str(tmp_path / "other.db") in ralphgen("doctor", cwd=main, more=more).stdout


def test_the_users_variable_has_to_be_absolute(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_DATABASE", "x/y.db")

    with pytest.raises(ProjectError, match="expected an absolute path"):
        database_path(main)


def test_the_refusal_of_an_absolute_path_names_the_variable(main: Path) -> None:
    (main / ".ralph/ralphgen.toml").write_text('[database]\npath = "/x.db"\n', encoding="utf-8")

    assert (
        "for an absolute path, set the variable RALPH_DATABASE"
        in ralphgen("check", cwd=main).stderr
    )
