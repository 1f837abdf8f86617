"""Messages about missing or wrong names, and their hints."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, refused, run_sql
from driving import create_project, made_here, quiet
from making_sessions import session_json

from ralphgen.cli.recipes import BUILT_IN
from ralphgen.emit.workflows import regenerate
from ralphgen.errors import counted, suggestion
from ralphgen.project.schema import open_rows

pytestmark = pytest.mark.slow

CONFIG = '[disciplines.frontend]\ndisable = ["delete_task"]\n'
LONG_NAME = "a-very-long-name-of-a-feature-that-goes-on"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("hints") / "p", config=CONFIG)


@pytest.fixture
def root(shared: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(shared, tmp_path / "p"))


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ([], "there are no kits yet"),
        (["ralph"], "the only kit is ralph"),
        (["ralph", "dela"], "the kits are ralph, dela"),
        (["ralph", "nop"], 'did you mean "nop"?'),
        (
            [f"kit_{number}" for number in range(5)],
            "the kits are kit_0, kit_1, kit_2, kit_3, kit_4",
        ),
        (
            [f"kit_{number}" for number in range(29)],
            'the kits include kit_0, kit_1, kit_2, kit_3, kit_4; "ralphgen tools" lists them',
        ),
    ],
)
def test_a_hint_names_few_and_agrees_with_their_number(names: list[str], hint: str) -> None:
    assert hint == suggestion("nope", names, "the kits", "ralphgen tools")


def test_first_task_without_features_names_the_command_that_adds_one(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    error = refused(
        "task", "add", "x", "--feature", "auth", "--discipline", "testing", "--project", root
    )

    assert 'there is no feature "auth": there is none yet' in error
    assert 'add one with "ralphgen feature add"' in error


def test_a_number_agrees_with_its_noun() -> None:
    assert ("0 rows", "1 row", "1,000 rows") == (*(counted(one, "row") for one in (0, 1, 1000)),)


def test_hint_lists_nothing_for_an_empty_table(root: Path) -> None:
    run_sql(root, "DELETE FROM tasks", "DELETE FROM features")

    said = refused("session", "create", "ramble", "--feature", "x", code=1, cwd=root)
    ended = refused("session", "end", "x", code=1, cwd=root)

    assert 'there is no feature "x"\nhint: create one with "ralphgen feature add NAME"\n' == said
    assert 'there is no session "x"\nhint: there are no sessions yet\n' == ended


@pytest.mark.parametrize("options", [["--task", "1"], ["--next"]])
def test_launch_of_a_task_is_a_task_execution(root: Path, options: list[str]) -> None:
    ran("db", "ledger", "on", "--yes", cwd=root)
    done = ralphgen("launch", *options, "--dry-run", cwd=root)

    assert (0, "env MCP_TIMEOUT=") == (done.returncode, done.stdout[:16]), done.stderr
    assert "sessions/task_execution-1-" in done.stdout
    said = refused("launch", "--agent", "claude", code=2, cwd=root)
    assert 'missing argument RECIPE\nhint: see "ralphgen launch --help"\n' == said


def test_ids_of_any_size_do_not_crash(root: Path) -> None:
    with open_rows(root) as rows:
        assert [1, 2] == rows.nearest_tasks(-(2**61), 3)
        assert [] == rows.nearest_tasks(2**70, 3)


@pytest.mark.parametrize("command", [("session", "create"), ("session", "brief"), ("launch",)])
def test_bare_command_and_its_help_list_recipes_with_purpose_and_number_of_tools(
    root: Path, command: tuple[str, ...]
) -> None:
    folder = root / ".ralph/recipes"
    folder.mkdir()
    (folder / "triage.toml").write_text(
        'base = "yap"\ndescription = "sort what came in"\n', encoding="utf-8"
    )
    (folder / "notes.toml").write_text('base = "yap"\n', encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    bare = ralphgen(*command, cwd=root)
    helped = ralphgen(*command, "--help", cwd=root)
    tools = json.loads(ralphgen("tools", "--json", cwd=root).stdout)["ralph"]["recipes"]

    assert (2, "", 0) == (bare.returncode, bare.stdout, helped.returncode)
    for said in (bare.stderr, helped.stdout):
        for name, purpose in {**BUILT_IN, "triage": "sort what came in"}.items():
            shown = f"{name:<14}  {purpose}; {len(tools[name]['tools'])} tools"
            assert f"  {shown}" in said.splitlines()
        assert f"Like yap, with fewer tools; {len(tools['notes']['tools'])} tools" in said


def test_outside_of_a_project_the_built_in_ones_are_listed(tmp_path: Path) -> None:
    assert BUILT_IN["braindump"] in ralphgen("launch", "--help", cwd=tmp_path).stdout


def test_a_list_of_sessions_has_whole_ids(root: Path) -> None:
    run_sql(
        root,
        f"INSERT INTO features (name, display_name, acronym) VALUES ('{LONG_NAME}', 'L', 'LONG')",
    )
    long = session_json(root, "opus_review", "--feature", LONG_NAME)["session_id"]

    listed = ralphgen("session", "list", cwd=root).stdout

    assert long in listed.splitlines()
    assert f"about feature {LONG_NAME}, age" in listed


def test_the_history_of_an_agent_outlasts_its_session(root: Path) -> None:
    folder = Path(session_json(root, "yap")["folder"])
    (folder / "transcript.jsonl").write_text("{}\n", encoding="utf-8")

    done = ralphgen("session", "end", folder.name, "--json", cwd=root)

    assert (0, folder.name) == (done.returncode, json.loads(done.stdout)["session_id"])
    assert ["lock", "transcript.jsonl"] == sorted(path.name for path in folder.iterdir())


def test_tools_are_shown_as_a_discipline_has_them(root: Path) -> None:
    def manual(*options: str) -> list[str]:
        done = ralphgen("tools", *options, "--json", cwd=root)
        assert 0 == done.returncode, done.stderr
        tools: list[str] = json.loads(done.stdout)["ralph"]["recipes"]["manual"]["tools"]
        return tools

    assert [name for name in manual() if name != "delete_task"] == manual("--discipline=frontend")
    assert manual() == manual("--discipline=backend")
    said = refused("tools", "--discipline", "fronted", cwd=root)
    assert 'hint: did you mean "frontend"?\n' in said


def test_check_reports_unreadable_files_as_json_too(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text("kits = 5\n", encoding="utf-8")

    done = ralphgen("check", "--json", cwd=root)

    found = json.loads(done.stdout)
    assert (1, False) == (done.returncode, found["ok"])
    assert '.ralph/ralphgen.toml:1: "kits" is 5' in found["problems"][0]["text"]
    assert "expected a list" in done.stderr
