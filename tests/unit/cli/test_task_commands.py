"""The commands on tasks, features and disciplines, typed right and wrong."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import idle_claude, initialized, ralphgen, refused, run_sql
from driving import connected, create_project, made_here, query
from making_sessions import session_json

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("typing") / "p")


@pytest.fixture
def root(shared: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(shared, tmp_path / "p"))


def output_of(root: Path, *words: str, code: int = 0, stdin: str = "", **more: str) -> str:
    """Return a command's standard output."""
    done = ralphgen(*words, cwd=root, stdin=stdin, more=more)
    assert code == done.returncode, done.stderr
    return done.stdout


def answered(root: Path, *words: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    return json.loads(output_of(root, *words, "--json", code=code))


def test_the_user_does_a_task_from_the_first_command_to_the_last(root: Path) -> None:
    words = ["--feature", "auth", "--discipline", "backend", "--status", "pending"]
    added = answered(root, "task", "add", "Log out", *words, "--priority", "high", "--tags", "a")
    assert {"id": 3, "status": "pending"} == added
    assert 3 == answered(root, "task", "next")["id"]
    assert "changed depends_on, description, tags" in output_of(
        root, "task", "edit", "3", "--description", "-", "--depends-on", "1", "--clear", "tags"
    )
    assert 1 == answered(root, "task", "next")["id"]
    assert "comment 1 on task 1" in output_of(
        root, "task", "comment", "1", "-", stdin="Mind the gap"
    )
    done = output_of(root, "task", "status", "1", "done", "--summary", "works")
    assert "task 1: pending → done; now ready: 2, 3" in done
    record = answered(root, "task", "show", "3")
    assert ([1], "Log out") == (record["depends_on"], record["title"])
    assert "deleted task 3" in output_of(root, "task", "delete", "3", "--yes")
    assert [2] == [task["id"] for task in answered(root, "task", "list", "--ready")["tasks"]]


def test_disciplines_and_features_are_added_and_deleted(root: Path) -> None:
    for kind, words in (("discipline", ["--skills", "SQL"]), ("feature", ["--boundaries", "x"])):
        added = answered(root, kind, "add", "data", *words)
        assert {"name": "data", "acronym": "DATA"} == added
        assert "data" == answered(root, kind, "show", "data")["display_name"]
        assert f"deleted {kind} data\n" == output_of(root, kind, "delete", "data", "--yes")
        listed = answered(root, kind, "list")[f"{kind}s"]
        assert "data" not in [row["name"] for row in listed]


def test_a_new_discipline_takes_the_given_look_or_a_default(root: Path) -> None:
    output_of(root, "discipline", "add", "data", "--icon", "Code", "--color", "#068D87")
    output_of(root, "discipline", "add", "plain")
    shown = [answered(root, "discipline", "show", name) for name in ("data", "plain")]

    assert [("Code", "#068D87"), ("Wrench", "#6b7280")] == [
        (row["icon"], row["color"]) for row in shown
    ]


def test_title_and_description_are_shown_and_edited(root: Path) -> None:
    assert {"changed": ["title", "description"]} == answered(
        root, "project", "edit", "--title", "Store", "--description", "Sells\n<all>."
    )
    shown = answered(root, "project", "show")
    assert ("Store", "Sells\n<all>.") == (shown["title"], shown["description"])
    assert "Sells" in output_of(root, "session", "brief", "yap")
    assert "project: changed description\n" == output_of(
        root, "project", "edit", "--clear", "description"
    )
    assert "description" not in answered(root, "project", "show")
    words = ["project", "edit", "--description", "-"]
    assert "changed description" in output_of(root, *words, stdin="From a pipe")
    assert "changed nothing" in output_of(root, *words, stdin="From a pipe")


def test_the_project_is_edited_in_an_editor(root: Path) -> None:
    output_of(root, "project", "edit", "--description", "Sells shoes")
    done = ralphgen("project", "edit", cwd=root, more={"EDITOR": "sed -i s/shoes/boots/"})

    assert (0, "project: changed description\n") == (done.returncode, done.stdout)
    assert "Sells boots" == answered(root, "project", "show")["description"]
    for line, problem in (
        ("title = 7", '"title" is 7: expected a string'),
        ('title = "a\\\\u0000b"', '"title" contains a NUL character: remove it'),
    ):
        editor = shlex.join(["sed", "-i", f"s/^title = .*/{line}/"])
        done = ralphgen("project", "edit", cwd=root, more={"EDITOR": editor})
        assert problem in done.stderr


def test_a_project_without_a_place_for_a_description_is_refused(root: Path) -> None:
    run_sql(root, "DROP TABLE metadata")

    assert "stores no title or description" in refused(
        "project", "edit", "--title", "x", "--project", root, code=1
    )


def test_a_deleted_discipline_that_signed_comments_is_still_named(root: Path) -> None:
    output_of(root, "discipline", "add", "leaver")
    output_of(root, "task", "comment", "1", "Bye", "--author", "leaver")
    done = output_of(root, "discipline", "delete", "leaver", "--yes")

    assert "deleted discipline leaver; still named by the author of 1 comment\n" == done


def test_the_holder_of_a_task_distinguishes_user_and_agent(root: Path) -> None:
    """The command line is the user's; clients with every tool and agents are not the user."""
    words = ["--feature", "auth", "--discipline", "backend"]
    assert 3 == answered(root, "task", "add", "Typed", *words)["id"]
    given = ["feature=auth", "discipline=backend", "title=Called"]
    output_of(root, "call", "ralph:create_task", *given, "--recipe", "braindump")
    with connected(root, user="client") as driver:
        driver.call("create_task", feature="auth", discipline="backend", title="By a client")

    rows = query(root, "SELECT title, provenance FROM tasks WHERE id > 2 ORDER BY id")
    assert [("Typed", "human"), ("Called", "agent"), ("By a client", "agent")] == rows


def test_who_comments_is_the_user_or_who_is_named(root: Path) -> None:
    output_of(root, "task", "comment", "1", "a", LOGNAME="ada")
    output_of(root, "task", "comment", "1", "b", "--author", "Grace")

    assert [("ada",), ("Grace",)] == query(root, "SELECT author FROM task_comments ORDER BY id")


def test_nothing_ready_is_exit_code_eight(root: Path) -> None:
    query(root, "UPDATE tasks SET status = 'draft'")

    assert answered(root, "task", "next", code=8) is None
    assert "" == output_of(root, "task", "next", code=8)


def test_lists_are_filtered_searched_and_cut(root: Path) -> None:
    run_sql(
        root,
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 250) INSERT INTO "
        "tasks (feature, discipline, title) SELECT 'search', 'backend', 'Number ' || i FROM n",
    )

    assert 50 == len(answered(root, "task", "list")["tasks"])
    whole = answered(root, "task", "list", "--limit", "1000")
    assert (252, 252, False) == (len(whole["tasks"]), whole["total"], "next_cursor" in whole)
    assert [2] == [
        task["id"] for task in answered(root, "task", "list", "--discipline", "frontend")["tasks"]
    ]
    found = answered(root, "task", "list", "--search", "NUMBER 24", "--limit", "3")
    assert (3, 11) == (len(found["tasks"]), found["total"])
    some = ralphgen("task", "list", "--limit", "2", cwd=root)
    assert "and 250 more: see them with --limit 252" in some.stderr


def test_columns_of_the_project_are_options(tmp_path: Path) -> None:
    root = create_project(
        tmp_path / "p",
        "ALTER TABLE tasks ADD COLUMN cost REAL",
        "ALTER TABLE features ADD COLUMN owner TEXT",
    )
    words = ["--feature", "auth", "--discipline", "backend", "--cost=1.5"]

    output_of(root, "task", "add", *words, "Log out")
    output_of(root, "feature", "edit", "auth", "--owner", "ada")

    assert [(1.5,)] == query(root, "SELECT cost FROM tasks WHERE id = 3")
    assert "ada" == answered(root, "feature", "show", "auth")["owner"]


def test_features_and_disciplines_are_listed_shown_and_changed(root: Path) -> None:
    assert "feature cart\n" == output_of(root, "feature", "add", "cart", "--boundaries", "no tax")
    assert ["auth", "cart", "search"] == [
        one["name"] for one in answered(root, "feature", "list")["features"]
    ]
    assert "no tax" in output_of(root, "feature", "show", "cart")
    output_of(root, "discipline", "edit", "backend", "--skills", "SQL", "--skills", "C")
    assert ["SQL", "C"] == answered(root, "discipline", "show", "backend")["skills"]
    assert "backend" in output_of(root, "discipline", "list")


def test_a_project_without_the_tool_is_refused(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", config='kits = ["dela"]\n')

    said_so = refused("task", "list", code=2, cwd=root)

    assert 'this project has no tasks: it has no kit "ralph"\n' in said_so
    assert 'hint: set kits = ["ralph", "dela"] in .ralph/ralphgen.toml' in said_so


def test_an_agent_acts_as_its_session(root: Path) -> None:
    own = session_json(root, "task_execution", "--task", "1")
    more = {"RALPHGEN_SESSION": own["session_id"]}

    done = ralphgen("task", "status", "1", "done", cwd=root, more=more)
    assert 0 == done.returncode, done.stderr

    for words in (["task", "status", "2", "done"], ["task", "delete", "2", "--yes"]):
        done = ralphgen(*words, cwd=root, more=more)
        assert (1, "") == (done.returncode, done.stdout)
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 2")


def test_an_editor_changes_only_the_edited_fields(root: Path) -> None:
    script = root / "editor.sh"
    script.write_text('#!/bin/sh\nsed -i "s/Log in/Sign in/" "$1"\n', encoding="utf-8")
    script.chmod(0o755)

    changed = output_of(root, "task", "edit", "1", VISUAL=str(script))
    assert "task 1: changed title" in changed
    assert "task 1: changed nothing" in output_of(root, "task", "edit", "1", VISUAL=str(script))
    assert [("Sign in",)] == query(root, "SELECT title FROM tasks WHERE id = 1")


@pytest.mark.parametrize(
    ("typing", "problem"),
    [
        ('priority = "very"', "use low, medium"),
        ("title = ", "at line"),
        ('colour = "red"', "unknown option --colour"),
    ],
)
def test_typed_text_is_kept_after_a_refusal(root: Path, typing: str, problem: str) -> None:
    script = root / "editor.sh"
    script.write_text(f"#!/bin/sh\necho '{typing}' > \"$1\"\n", encoding="utf-8")
    script.chmod(0o755)

    done = ralphgen("task", "edit", "1", cwd=root, more={"VISUAL": str(script)})

    assert (1, "") == (done.returncode, done.stdout)
    assert problem in done.stderr
    file = Path(done.stderr.partition('your text is in "')[2].partition('"')[0])
    assert f"{typing}\n" == file.read_text(encoding="utf-8")
    assert 0o600 == file.stat().st_mode & 0o777
    file.unlink()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["task", "show", ""], ["1", "2"]),
        (["task", "add", "--feature", "a"], ["auth"]),
        (["task", "list", "--discipline", ""], ["backend", "frontend"]),
        (["task", "status", "1", "d"], ["draft", "done"]),
        (["feature", "show", "s"], ["search"]),
        (["discipline", "edit", "b"], ["backend"]),
        (["loop", "--agent", "cl"], ["claude"]),
        (["loop", "--agent", "claude,co"], ["claude,codex"]),
        (["task", "show", "9"], []),
    ],
    ids=" ".join,
)
def test_the_shell_completes_ids_and_names(
    root: Path, words: list[str], expected: list[str]
) -> None:
    before = sorted(path.name for path in (root / ".ralph/db").iterdir())
    more = {
        "_RALPHGEN_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["ralphgen", *words]),
        "COMP_CWORD": str(len(words)),
    }

    done = ralphgen(cwd=root, more=more)

    assert expected == done.stdout.split("\n")[: len(expected)]
    assert len(expected) == len(done.stdout.split())
    assert before == sorted(path.name for path in (root / ".ralph/db").iterdir())


def test_a_server_of_another_engine_must_be_regenerated(
    root: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config was moved to PostgreSQL, and regen was not run yet."""
    monkeypatch.setenv("RALPH_DSN", postgresql)
    config = root / ".ralph/ralphgen.toml"
    config.write_text('[database]\nengine = "postgresql"\n', encoding="utf-8")
    told = refused("task", "list", cwd=root)

    assert 'sets engine = "postgresql", but the server was generated for "sqlite"' in told
    assert 'hint: run "ralphgen regen"' in told
    assert "ralphgen init" not in told


def test_tasks_are_listed_by_the_states_that_the_column_shows(root: Path) -> None:
    words = ["--feature", "auth", "--discipline", "backend", "--status", "pending"]
    output_of(root, "task", "add", "Later", *words, "--depends-on", "1")
    run_sql(root, "UPDATE tasks SET status = 'in_progress' WHERE id = 2")
    shown = {
        state: [task["id"] for task in answered(root, "task", "list", "--status", state)["tasks"]]
        for state in ("ready", "waiting", "claimed", "pending", "in_progress")
    }

    assert ([1], [3], []) == (shown["ready"], shown["waiting"], shown["claimed"])
    assert ([1, 3], [2]) == (shown["pending"], shown["in_progress"])


def test_show_has_a_line_for_each_dependency(root: Path) -> None:
    assert 0 == ralphgen("db", "ledger", "on", "--yes", cwd=root).returncode
    output_of(root, "task", "edit", "2", "--depends-on", "1")
    output_of(root, "task", "status", "1", "done", "--summary", "It works")
    run_sql(
        root,
        "INSERT INTO ralphgen_sessions (id, recipe, started, worktree) "
        "VALUES ('s', 'task_execution', '2026', '/p/.ralph/worktrees/1')",
        "INSERT INTO ralphgen_claims (task_id, session, token) VALUES (1, 's', 1)",
        "UPDATE tasks SET depends_on = '[1, 9]' WHERE id = 2",
    )
    lines = output_of(root, "task", "show", "2").splitlines()

    assert "  task 1 (done, not merged): Log in (It works)" in lines
    assert "  task 9: missing" in lines
    assert "  task 2 (pending): Show the form" in output_of(root, "task", "show", "1").splitlines()


def test_new_task_is_ready_with_the_option(root: Path) -> None:
    words = ["task", "add", "Now", "--feature", "auth", "--discipline", "backend", "--ready"]

    assert "created task 3 (ready)\n" == output_of(root, *words)
    assert "created task 4 (waiting)\n" == output_of(root, *words, "--depends-on", "1")
    assert "pending" == answered(root, *words, "--status", "pending")["status"]
    both = refused(*words, "--status", "draft", code=2, cwd=root)
    assert '"--ready" and "--status" are both given\nhint: leave one out\n' == both


def test_pending_task_that_is_not_ready_is_shown_with_reason_and_next_command(
    tmp_path: Path,
) -> None:
    root = initialized(tmp_path / "p")
    output_of(root, "feature", "add", "start")
    words = ["task", "add", "Greet", "--feature", "start", "--discipline", "testing"]
    output_of(root, *words)
    output_of(root, *words, "--ready", "--depends-on", "1")

    def again(change: str) -> str:
        run_sql(root, change)
        return output_of(root, "task", "status", "2", "pending", "--force")

    already = "task 2 is already pending (waiting for task 1: "
    show = "next: ralphgen task show 1\n"
    draft = again("SELECT 1")
    assert f"{already}draft)\nnext: ralphgen task status 1 pending\n" == draft
    assert f"{already}pending)\n{show}" == again("UPDATE tasks SET status = 'pending' WHERE id = 1")
    reopened = again("UPDATE tasks SET status = 'draft' WHERE id = 2")
    assert f"task 2: draft → pending (waiting for task 1: pending)\n{show}" == reopened
    run_sql(root, "UPDATE tasks SET status = 'blocked', blocked_by = 'x' WHERE id = 1")
    assert f"{already}blocked)\n{show}" == again("SELECT 1")
    command = "ralphgen task edit 2 --clear depends_on"
    missing = again("UPDATE tasks SET depends_on = '[9]' WHERE id = 2")
    assert f"task 2 is already pending (waiting for task 9: missing)\nnext: {command}\n" == missing
    output_of(root, *command.split()[1:])
    assert "task 2 is already pending (ready)\n" == again("SELECT 1")


def test_next_names_the_reason_if_no_task_is_ready(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")

    def why() -> str:
        done = ralphgen("task", "next", cwd=root)
        words = ("launch", "task_execution", "--next")
        taken = ralphgen(*words, cwd=root, more=idle_claude(root))
        listed = ralphgen("task", "list", "--ready", cwd=root)
        assert (8, 8, 0) == (done.returncode, taken.returncode, listed.returncode)
        assert done.stderr == listed.stderr
        assert taken.stderr.endswith(done.stderr)
        return done.stderr

    assert 'no task is ready: no tasks yet\nhint: create one with "ralphgen task add"\n' == why()
    output_of(root, "feature", "add", "start")
    words = ["task", "add", "Greet", "--discipline", "testing"]
    reminder = "agents skip drafts; to make it ready: ralphgen task status 1 pending\n"
    assert f"created task 1 (draft)\n{reminder}" == output_of(root, *words)
    hint = 'make a draft ready with "ralphgen task status 1 pending"'
    assert f"no task is ready: 1 draft\nhint: {hint}\n" == why()
    waiting = output_of(root, *words, "--status", "pending", "--depends-on", "1")
    assert "created task 2 (waiting)\n" == waiting
    assert why().startswith("no task is ready: 1 draft, 1 waiting for task 1\n")
    assert "task 1: draft → pending (ready)\n" == output_of(root, "task", "status", "1", "pending")
    ready = "task 1 is already pending (ready)\n"
    assert ready == output_of(root, "task", "status", "1", "pending")
    config = output_of(root, "task", "next", "--claim")
    session = Path(config.strip()).parent.name
    assert f"no task is ready: 1 claimed by session {session}, 1 waiting for task 1\n" in why()
    assert f'hint: end the session with "ralphgen session end {session}"\n' in why()
    shutil.move(Path(config.strip()).parent, tmp_path / "elsewhere")
    release = "ralphgen task status 1 pending --force"
    assert f'hint: wait for the session, or release its task with "{release}"\n' in why()
    assert ready == output_of(root, *release.split()[1:])
    output_of(root, "task", "status", "1", "blocked", "--reason", "needs a key")
    assert why().startswith("no task is ready: 1 waiting for task 1, 1 blocked: needs a key\n")
