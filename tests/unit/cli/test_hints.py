"""What commands say where a name is missing or wrong, and what they say to do next."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import ralphgen, refused, run_sql
from driving import create_project, made_here, query
from making_sessions import made
from wire import running

from ralphgen.project.rows import open_rows
from ralphgen.sessions.recipes import BUILT_IN

pytestmark = pytest.mark.slow

CONFIG = '[disciplines.frontend]\ndisable = ["delete_task"]\n'
LONG_NAME = "a-very-long-name-of-a-feature-that-goes-on"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("hints") / "p", config=CONFIG)


@pytest.fixture
def root(shared: Path, tmp_path: Path) -> Path:
    """A project of one's own."""
    return made_here(shutil.copytree(shared, tmp_path / "p"))


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (
            ["task_execution", "--task", "999"],
            "there is no task 999",
            'the nearest are 1, 2; "ralphgen task list" lists them',
        ),
        (["yapp"], 'no recipe "yapp"', 'did you mean "yap"?; "ralphgen session" lists them'),
        (
            ["ramble", "--feature", "auht"],
            'no feature "auht"',
            'did you mean "auth"?; "ralphgen feature list" lists them',
        ),
        (
            ["yap", "--discipline", "x"],
            'no discipline "x"',
            'the disciplines are backend, frontend; "ralphgen discipline list" lists them',
        ),
        (["end"], "take the id of a session", "ralphgen session list"),
        (["yap", "some-id"], "take the id of a session", "ralphgen session list"),
        (["end", "some-id"], 'no session "some-id"', "ralphgen session list"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_a_name_that_is_none_gets_the_nearest_and_the_command_that_lists_them(
    root: Path, words: list[str], problem: str, hint: str
) -> None:
    is_missing = problem.partition(" ")[0] in {"no", "there"} and "recipe" not in problem
    said = refused("session", *words, code=1 if is_missing else 2, cwd=root)

    assert problem in said
    assert hint in said.partition("hint: ")[2]


def test_without_tasks_the_hint_makes_one(root: Path) -> None:
    run_sql(root, "DELETE FROM tasks")

    said = refused("session", "task_execution", "--task", "1", cwd=root)

    assert '"ralphgen task add" makes one' in said


def test_ids_of_any_size_are_no_crash(root: Path) -> None:
    with open_rows(root) as rows:
        assert [1, 2] == rows.nearest_tasks(-(2**61), 3)
        assert [] == rows.nearest_tasks(2**70, 3)


@pytest.mark.parametrize("command", ["session", "launch"])
def test_a_bare_command_lists_the_kinds_of_session_and_so_does_its_help(
    root: Path, command: str
) -> None:
    folder = root / ".ralph/recipes"
    folder.mkdir()
    (folder / "triage.toml").write_text(
        'base = "yap"\ndescription = "sort what came in"\n', encoding="utf-8"
    )
    (folder / "notes.toml").write_text('base = "yap"\n', encoding="utf-8")
    bare = ralphgen(command, cwd=root)
    helped = ralphgen(command, "--help", cwd=root)

    assert (2, "", 0) == (bare.returncode, bare.stdout, helped.returncode)
    for said in (bare.stderr, helped.stdout):
        for name, sentence in {**BUILT_IN, "triage": "sort what came in"}.items():
            assert any(line.split() == [name, *sentence.split()] for line in said.splitlines()), (
                name
            )
        assert "as yap, but less" in said


def test_outside_of_a_project_the_built_in_ones_are_listed(tmp_path: Path) -> None:
    assert BUILT_IN["braindump"] in ralphgen("launch", "--help", cwd=tmp_path).stdout


def test_a_list_of_sessions_has_whole_ids(root: Path) -> None:
    run_sql(
        root,
        f"INSERT INTO features (name, display_name, acronym) VALUES ('{LONG_NAME}', 'L', 'LONG')",
    )
    long = made(root, "opus_review", "--feature", LONG_NAME)["session_id"]

    listed = ralphgen("session", "list", cwd=root).stdout

    assert long in listed.splitlines()
    assert f"about {LONG_NAME}, age" in listed


def test_a_session_is_ended_once_nothing_runs_in_it(root: Path) -> None:
    own = made(root, "yap")
    name = own["session_id"]
    options = ("--context", own["context"], "--sha256", own["sha256"])

    with running(root, "ralph", *options) as wire:
        wire.shake_hands()
        said = refused("session", "end", name, cwd=root)
    assert f'a server of the session "{name}" runs' in said

    assert f"session {name} is ended\n" == ralphgen("session", "end", name, cwd=root).stdout
    assert [] == json.loads(ralphgen("session", "list", "--json", cwd=root).stdout)


def test_what_an_agent_did_outlasts_its_session(root: Path) -> None:
    folder = Path(made(root, "yap")["folder"])
    (folder / "transcript.jsonl").write_text("{}\n", encoding="utf-8")

    done = ralphgen("session", "end", folder.name, "--json", cwd=root)

    assert (0, folder.name) == (done.returncode, json.loads(done.stdout)["session_id"])
    assert ["lock", "transcript.jsonl"] == sorted(path.name for path in folder.iterdir())


def test_the_ledger_says_when_a_session_was_ended(root: Path) -> None:
    assert 0 == ralphgen("db", "ledger", "on", "--yes", "-C", root).returncode
    name = made(root, "yap")["session_id"]
    sql = "SELECT outcome, ended IS NULL FROM ralphgen_sessions"

    assert [(None, 1)] == query(root, sql)
    assert 0 == ralphgen("session", "end", name, cwd=root).returncode
    assert [("ended", 0)] == query(root, sql)


@pytest.mark.parametrize("words", [("session", "yap"), ("launch", "yap"), ("board",)])
def test_an_agent_makes_no_session_and_opens_no_board(root: Path, words: tuple[str, ...]) -> None:
    done = ralphgen(*words, cwd=root, more={"RALPHGEN_SESSION": "x"})

    assert (2, "") == (done.returncode, done.stdout)
    assert f'"ralphgen {words[0]}" is not for agents' in done.stderr


def test_tools_are_shown_as_a_discipline_has_them(root: Path) -> None:
    def manual(*options: str) -> list[str]:
        done = ralphgen("tools", *options, "--json", cwd=root)
        assert 0 == done.returncode, done.stderr
        tools: list[str] = json.loads(done.stdout)["ralph"]["recipes"]["manual"]["tools"]
        return tools

    assert [name for name in manual() if name != "delete_task"] == manual("--discipline=frontend")
    assert manual() == manual("--discipline=backend")
    said = refused("tools", "--discipline", "fronted", cwd=root)
    assert 'did you mean "frontend"?; "ralphgen discipline list" lists them' in said


def test_check_says_as_json_too_what_cannot_be_read(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text("kits = 5\n", encoding="utf-8")

    done = ralphgen("check", "--json", cwd=root)

    found = json.loads(done.stdout)
    assert (1, False) == (done.returncode, found["ok"])
    assert '.ralph/ralphgen.toml:1: "kits" is 5' in found["problems"][0]["text"]
    assert "expected a list" in done.stderr
