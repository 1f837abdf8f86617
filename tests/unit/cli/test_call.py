"""`ralphgen call`: any tool from the shell, as any client calls it."""

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, ran, refused
from dela_projects import at_home
from driving import create_project, edit, made_here, query, quiet
from making_sessions import session_json

from ralphgen.emit.workflows import install_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(
        tmp_path_factory.mktemp("calling") / "p", config='kits = ["ralph", "dela"]\n'
    )
    install_environment(root, say=quiet)  # the first call would tell of it
    return root


@pytest.fixture
def root(shared: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(shared, tmp_path / "p"))


def called(root: Path, *words: str, stdin: str = "") -> object:
    """The JSON that a call prints, which nothing refuses."""
    done = ralphgen("call", *words, cwd=root, stdin=stdin)
    assert (0, "") == (done.returncode, done.stderr)
    return json.loads(done.stdout)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["id=1", "status=done", "summary=2"], ""),
        (["--json", '{"id": 1, "status": "done", "summary": "2"}'], ""),
        (["-"], '{"id": 1, "status": "done", "summary": "2"}'),
    ],
    ids=["words", "json", "input"],
)
def test_arguments_are_given_in_three_ways(root: Path, words: list[str], stdin: str) -> None:
    answer = called(root, "ralph:set_task_status", *words, stdin=stdin)

    assert {"id": 1, "old": "pending", "new": "done", "comment": 1, "unblocked": [2]} == answer
    assert [("done",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert [("2",)] == query(root, "SELECT body FROM task_comments")


def test_a_call_from_a_folder_inside_leaves_nothing_behind(root: Path) -> None:
    before = sorted(path for path in root.rglob("*") if "db" not in path.parts)
    (root / "src").mkdir()

    assert {"tasks": [], "total": 0} == called(
        root / "src", "ralph:list_tasks", "filter_status=done"
    )
    assert [root / "src"] == sorted(
        path for path in root.rglob("*") if "db" not in path.parts and path not in before
    )


@pytest.mark.parametrize("words", [["call", "ralph:list_tasks"], ["--version"], ["task", "list"]])
def test_a_command_ends_quietly_if_its_output_is_closed(root: Path, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [RALPHGEN, *words],
        cwd=root,
        env=variables,
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    os.close(writing)

    assert (1, "") == (done.returncode, done.stderr)


def test_a_call_has_the_tools_of_its_recipe(root: Path) -> None:
    own = called(root, "ralph:get_task", "--recipe", "task_execution", "--task=1")
    assert isinstance(own, dict)
    assert "Log in" == own["title"]

    done = ralphgen("call", "ralph:delete_task", "id=2", "--recipe", "yap", cwd=root)
    assert (1, "") == (done.returncode, done.stdout)
    assert "Unknown tool" in done.stderr
    assert 'the recipe "yap" does not include it' in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["unique_name=build"], "not allowlisted", "task: ralphgen dela allow build"),
        (["unique_name=image"], "Runner 'cmake' is not available", "a script or a make target"),
        (["unique_name=nothing"], "not found", "Use 'list_tasks'"),
        (["unique_name=build", "arg=1"], 'unknown argument "arg"', "unique_name, args, env, cwd"),
    ],
)
def test_refusal_of_a_task_shows_the_data_of_its_error(
    root: Path, tmp_path: Path, words: list[str], problem: str, hint: str
) -> None:
    (root / "Makefile").write_text("build:\n\t@echo built\n", encoding="utf-8")
    (root / "CMakeLists.txt").write_text("add_custom_target(image)\n", encoding="utf-8")
    allowlist = tmp_path / "home/.config/dela/allowlist.toml"
    allowlist.parent.mkdir(parents=True)
    image = json.dumps(str((root / "CMakeLists.txt").resolve()))
    allowlist.write_text(f'[[entries]]\npath = {image}\nscope = "File"\n', encoding="utf-8")
    with at_home(tmp_path / "home"):
        done = ralphgen("call", "dela:task_start", *words, cwd=root)

    message, _, told = done.stderr.rstrip("\n").partition("\nhint: ")
    assert (1, "") == (done.returncode, done.stdout)
    assert message.startswith("error: ")
    assert problem in message
    assert hint in told


def test_outside_of_a_project_there_is_nothing_to_call(tmp_path: Path) -> None:
    assert "not a ralphgen project: no .ralph in" in refused(
        "call", "ralph:list_tasks", cwd=tmp_path
    )


def test_an_edited_policy_is_not_believed(root: Path) -> None:
    path = root / ".ralph/mcp/policy.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"create_task",', "", 1), encoding="utf-8")

    assert "was edited by hand" in refused("call", "ralph:list_tasks", cwd=root)
    ran("call", "ralph:list_tasks", "--trust-edited", cwd=root)


def test_a_policy_of_another_form_causes_no_traceback(root: Path) -> None:
    edit(root, "policy.py", more="\nimport os\n")
    made_here(root)

    said = refused("call", "ralph:list_tasks", "--trust-edited", cwd=root)

    assert "was not generated by this ralphgen" in said


def test_a_server_that_no_one_trusts_is_not_started(root: Path) -> None:
    edit(root, "server.py", more="\n# changed\n")

    said = refused("call", "ralph:list_tasks", code=2, cwd=root)

    assert "has not been approved on this machine" in said


def test_below_launch_a_call_is_the_sessions(root: Path) -> None:
    own = session_json(root, "task_execution", "--task", "1")
    variables = {"RALPHGEN_SESSION": own["session_id"]}

    done = ralphgen("call", "ralph:get_task", cwd=root, more=variables)
    assert 0 == done.returncode, done.stderr
    assert 1 == json.loads(done.stdout)["id"]

    done = ralphgen("call", "ralph:delete_task", "id=2", cwd=root, more=variables)
    assert (1, "") == (done.returncode, done.stdout)
    assert 'the recipe "task_execution" does not include it' in done.stderr

    words = ("call", "ralph:delete_task", "id=2", "--recipe", "manual")
    done = ralphgen(*words, cwd=root, more=variables)
    assert (2, "") == (done.returncode, done.stdout)
    assert f'this shell can use only the tools of its session "{own["session_id"]}"' in done.stderr

    done = ralphgen("call", "ralph:get_task", cwd=root, more={"RALPHGEN_SESSION": "../../x"})
    assert (2, "") == (done.returncode, done.stdout)
    assert "which does not belong to the project" in done.stderr


@pytest.mark.thorough
def test_the_session_of_a_process_above_counts_more_than_the_own_variable(root: Path) -> None:
    own = session_json(root, "task_execution", "--task", "1")
    forged = 'RALPHGEN_SESSION=manual sh -c "$0 call ralph:delete_task id=2; exit \\$?"; exit $?'
    words = forged.replace("$0", str(RALPHGEN))

    done = subprocess.run(
        ["/bin/sh", "-c", words],
        cwd=root,
        env={**os.environ, "RALPHGEN_SESSION": own["session_id"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (1, "") == (done.returncode, done.stdout)
    assert 'the recipe "task_execution" does not include it' in done.stderr


@pytest.mark.thorough
def test_a_terminal_is_not_steered_by_an_answer(root: Path) -> None:
    query(root, "UPDATE tasks SET title = 'a\u202eb' WHERE id = 1")
    words = [str(RALPHGEN), "call", "ralph:get_task", "id=1"]
    master, slave = pty.openpty()

    subprocess.run(words, cwd=root, stdout=slave, stdin=slave, check=True)

    os.close(slave)
    shown = b"".join(iter(lambda: _read_all(master), b""))
    assert b"a\\u202eb" in shown
    assert "\u202e".encode() not in shown


def _read_all(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
