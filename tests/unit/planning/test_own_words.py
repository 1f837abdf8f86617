"""A project's own descriptions replace ralphgen's, and their size is reported."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import connected, create_project, quiet

from ralphgen.emit.trust import told_items
from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.planning.model import Wording

CONFIG = """
[describe]
"ralph:create_task" = 'Make a task that "one" person ends in a day.'
"ralph:create_task.hints" = "files to begin with"
"update_task.priority" = "1 is {{ most }} urgent"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path)
    configured(root, CONFIG)
    return root


def configured(root: Path, config: str) -> None:
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")


@pytest.mark.slow
def test_clients_are_given_a_projects_own_words(root: Path) -> None:
    said: list[str] = []
    regenerate(root, force=False, say=said.append)
    with connected(root) as server:
        tools = {tool["name"]: tool for tool in server.tools()}

    assert 'Make a task that "one" person ends in a day.' == tools["create_task"]["description"]
    hints = tools["create_task"]["inputSchema"]["properties"]["hints"]
    assert "files to begin with" == hints["description"]
    priority = tools["update_task"]["inputSchema"]["properties"]["priority"]
    assert "1 is {{ most }} urgent" == priority["description"]
    told = "your own description (46 bytes) replaces that of ralphgen (52 bytes)"
    assert f'"ralph:create_task": {told}' in said
    shown = ralphgen("inspect", "-C", root)
    assert '"ralph:create_task.hints": your own description (19 bytes)' in shown.stdout


def test_everything_else_of_the_tools_remains(root: Path) -> None:
    own = Project(root).plan
    configured(root, "")
    plain = Project(root).plan

    assert () == plain.wordings
    assert Wording("ralph:create_task.hints", 0, 19) in own.wordings
    for mine, theirs in zip(own.kits[0].tools, plain.kits[0].tools, strict=True):
        if mine.name not in {"create_task", "update_task"}:
            assert theirs == mine
        assert theirs.argument_names == mine.argument_names
        assert theirs == replace(mine, description=theirs.description, arguments=theirs.arguments)


@pytest.mark.parametrize(
    ("entry", "problem", "hint"),
    [
        ("ralph:create_tusk", 'no kit has a tool "ralph:create_tusk"', '"create_task"'),
        ("ralph:create_task.hunts", '"create_task" has no argument "hunts"', '"hints"'),
        ("create_task.", '"create_task" has no argument ""', "the arguments include"),
        (".hints", 'no kit has a tool ""', "the tools include"),
    ],
)
def test_words_for_unknown_tools_are_refused_with_their_line(
    root: Path, entry: str, problem: str, hint: str
) -> None:
    configured(root, f'[describe]\n"{entry}" = "x"\n')
    with pytest.raises(ProjectError) as error:
        _ = Project(root).plan

    assert f".ralph/ralphgen.toml:2: {problem}" in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize("text", ['""', '" "', r'"a\nb"', r'"\u202e"', f'"{"ä" * 1001}"', "7"])
def test_words_that_no_client_would_show_whole_are_refused(root: Path, text: str) -> None:
    configured(root, f'[describe]\n"ralph:create_task" = {text}\n')
    with pytest.raises(ProjectError, match=r"ralphgen\.toml:2: .*expected "):
        _ = Project(root).plan


def test_words_wait_for_a_tool_that_the_project_has_no_place_for(root: Path) -> None:
    configured(root, '[describe]\n"ralph:run_checks" = "x"\n"dela:task_start.cwd" = "y"\n')

    assert () == Project(root).plan.wordings


@pytest.mark.slow
def test_words_of_a_clone_are_asked_for(root: Path) -> None:
    regenerate(root, force=False, say=quiet)
    told = told_items({"ralph:create_task": "Obey."})

    assert ['agents read this about "ralph:create_task": Obey.'] == [one.shown for one in told]
    clone = root.parent / "clone"
    clone.mkdir()
    (root / ".ralph").rename(clone / ".ralph")
    more = {"XDG_CONFIG_HOME": str(root / "none")}
    refused = ralphgen("session", "create", "yap", "--project", clone, more=more)

    assert 2 == refused.returncode
    assert 'it would run:\n  agents read this about "ralph:create_task"' in refused.stderr
