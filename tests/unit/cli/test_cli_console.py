"""The command line's output: tables that fit, JSON that parses, help with examples."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import RALPHGEN, initialized, ralphgen, refused, run_sql

from ralphgen import __version__

pytestmark = pytest.mark.slow

COMMANDS = ("init", "regen", "check", "inspect", "tools", "serve", "doctor")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = initialized(tmp_path_factory.mktemp("words") / "p")
    run_sql(
        root,
        'ALTER TABLE tasks ADD COLUMN "[bold]:smile:[/bold]" TEXT',
        'ALTER TABLE tasks ADD COLUMN "limit" TEXT',
        "ALTER TABLE task_comments ADD COLUMN must BLOB NOT NULL DEFAULT x''",
    )
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    for at in range(4):
        text = 'base = "yap"\nallow = {ralph = ["get_task"]}\n'
        (recipes / f"mine {at}.toml").write_text(text, encoding="utf-8")
    return root


def test_the_matrix_fits_in_eighty_columns_and_cuts_nothing(root: Path) -> None:
    done = ralphgen("tools", "--project", root)

    assert 0 == done.returncode
    assert 80 >= max(map(len, done.stdout.splitlines()))
    assert "…" not in done.stdout
    for name in ("task_execution", "add_feature_context_file", "mine 3", "bytes of tools/list"):
        assert name in done.stdout


def test_the_matrix_equals_the_json(root: Path) -> None:
    matrix = json.loads(ralphgen("tools", "--project", root, "--json").stdout)["ralph"]
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in ralphgen("tools", "--project", root).stdout.splitlines()
        if line.startswith("│")
    ]
    listed = {row[1]: row for row in rows if row[0].isdigit()}
    seen = {name: sum(row.count("●") for row in rows if row[0] == name) for name in matrix["tools"]}

    assert matrix["recipes"].keys() == listed.keys()
    for name, recipe in matrix["recipes"].items():
        assert [str(len(recipe["tools"])), f"{recipe['bytes']:,}"] == listed[name][2:]
    assert ["get_task"] == matrix["recipes"]["mine 0"]["tools"]
    assert seen == {
        name: sum(name in recipe["tools"] for recipe in matrix["recipes"].values())
        for name in matrix["tools"]
    }


def test_facts_fit_and_names_are_shown_unchanged(root: Path) -> None:
    done = ralphgen("inspect", "-C", root)

    assert 0 == done.returncode
    assert 80 >= max(len(line.replace(str(root), "p")) for line in done.stdout.splitlines())
    assert "[bold]:smile:[/bold]" in done.stdout
    assert 'recipe "mine 0" takes from "yap"' in done.stdout
    assert 'warning: the column "tasks.limit" is left out of all tools' in done.stderr


def test_facts_as_json_hold_schema_recipes_and_warnings(root: Path) -> None:
    facts = json.loads(ralphgen("inspect", "-C", root, "--json").stdout)

    assert ["ralph"] == facts["config"]["kits"]
    assert {"base": "yap", "allow": {"ralph": ["get_task"]}, "narrow": {}, "bind": []} == facts[
        "recipes"
    ]["mine 0"]
    assert "status" in [column["name"] for column in facts["schema"]["tasks"]]
    assert 1 == len(facts["warnings"])
    assert {"ralph": {"run_checks": "its server was generated without [[done.checks]]"}} == facts[
        "absent"
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    done = ralphgen(command, "--help")

    assert (0, "") == (done.returncode, done.stderr)
    assert "Example" in done.stdout
    assert f"ralphgen {command}" in done.stdout.partition("Example")[2]


def test_version_module_and_completion() -> None:
    module = [sys.executable, "-m", "ralphgen", "--version"]
    by_module = subprocess.run(module, capture_output=True, encoding="utf-8", check=True)

    assert f"ralphgen {__version__}\n" == ralphgen("--version").stdout == by_module.stdout
    completion = ralphgen(more={"_RALPHGEN_COMPLETE": "source_bash"})
    assert "complete -o" in completion.stdout, completion.stderr


def test_a_reader_that_leaves_early_gets_no_traceback(root: Path) -> None:
    with subprocess.Popen(
        [RALPHGEN, "inspect", "-C", root, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read().decode()

    assert "Traceback" not in said


def test_a_terminal_without_the_characters_still_gets_the_words(root: Path) -> None:
    done = ralphgen("tools", "--project", root, more={"PYTHONIOENCODING": "ascii"})

    assert 0 == done.returncode
    assert "task_execution" in done.stdout


BROKEN = """
import sys
import ralphgen.emit.workflows
from ralphgen.cli.main import main
ralphgen.emit.workflows.checked = lambda *_, **__: {}["gone"]
sys.argv = ["ralphgen", "check", sys.argv[1]]
main()
"""
STOPPED = """
import signal
import sys
import ralphgen.cli.commands
from ralphgen.cli.main import main
sys.argv = ["ralphgen", "check"]
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever we were started with
ralphgen.cli.commands.run = lambda: signal.raise_signal(signal.SIGINT)
main()
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def test_an_internal_failure_is_two_lines_and_no_traceback(root: Path) -> None:
    done = python(BROKEN, str(root))

    assert (1, "") == (done.returncode, done.stdout)
    first, second = done.stderr.splitlines()
    assert first.startswith("error: internal error: KeyError: 'gone' at ")
    assert second.startswith("hint: this is a bug")


def test_ctrl_c_prints_no_traceback() -> None:
    done = python(STOPPED)

    assert "error: stopped; run the command again to continue\n" == done.stderr
    assert 0 != done.returncode


def test_a_folder_that_is_not_a_project_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for words in (("regen",), ("check",), ("inspect", "-C"), ("tools", "-C"), ("doctor",)):
        said = refused(*words, tmp_path / "p")

        assert said.startswith(f"not a ralphgen project: no .ralph in {tmp_path / 'p'} or")
        assert 'hint: run "ralphgen init", or change to your project\n' in said


def test_a_folder_that_is_not_there_is_not_taken_for_one_above_it(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")

    said = refused("check", root / "nosuch", code=2)
    assert said.startswith(f'no such directory: "{root / "nosuch"}"')
