"""`ralphgen tools why` and `ralphgen tools who`: who may call a tool, and why others may not."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from cases import lay_down
from command_line import ralphgen, ran, refused, snapshot
from driving import connected, create_project

from ralphgen.authority import Reach, tools_by_name
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning import EXAMPLES, ServerPlan, supposed_session

pytestmark = pytest.mark.slow

CONFIG = '[disciplines.backend]\ndisable = ["update_task"]\n'
TRIAGE = 'base = "opus_review"\nallow = { ralph = ["get_task", "update_task"] }\n'
NARROW = '[narrow]\nupdate_task = ["id", "priority"]\n'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("why"), config=CONFIG)
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    (recipes / "triage.toml").write_text(f"{TRIAGE}{NARROW}", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ServerPlan:
    return Project(lay_down("full", tmp_path_factory.mktemp("full") / "p")).plan


def tools(root: Path, *words: str) -> list[str]:
    return ran("tools", *words, "--project", root).splitlines()


@pytest.mark.parametrize(
    ("words", "reason", "recipes"),
    [
        ("delete_task --recipe yap", 'the recipe "yap" does not include it', "manual"),
        (
            "ralph:update_task --recipe yap --discipline backend",
            'the discipline "backend" removes it',
            "yap, opus_review, enrichment, manual, triage",
        ),
        (
            "update_task --argument title --recipe triage",
            'the recipe "triage" does not include it',
            "yap, enrichment, manual",
        ),
        (
            "set_task_status --task 1 --argument status",
            'the recipe "task_execution" has it',
            "yap, task_execution, opus_review, manual",
        ),
        ("run_checks", "its server was generated without [[done.checks]]", "none"),
    ],
)
def test_why_names_the_source_and_the_recipes(
    root: Path, words: str, reason: str, recipes: str
) -> None:
    before = snapshot(root)

    (line,) = tools(root, "why", *words.split())
    assert f": {reason} (recipes that have it: {recipes})" in line
    assert before == snapshot(root)


def test_refusal_of_a_server_has_the_words_of_why(root: Path) -> None:
    (line,) = tools(root, "why", "delete_task", "--recipe", "yap")
    with connected(root, "yap") as driver:
        _, refusal = driver.protocol_error("delete_task")

    reason = line.removeprefix("ralph:delete_task: ").partition(" (")[0]
    assert f'Unknown tool: "delete_task": {reason}' == refusal


def test_task_with_a_discipline_decides_what_is_removed(root: Path) -> None:
    (line,) = tools(root, "why", "update_task", "--task", "1", "--recipe", "enrichment")

    assert line.startswith('ralph:update_task: the discipline "backend" removes it')


def test_words_equal_the_sessions_for_each_tool_and_recipe(plan: ServerPlan) -> None:
    policy, reach = plan.policy, Reach(plan)
    (kit,) = plan.kits
    removed = 0
    for recipe, discipline in product(policy.recipes, (None, *policy.disciplines)):
        session = supposed_session(policy, recipe, kit.key, discipline=discipline, rows={})
        for tool in (*(tool.name for tool in kit.tools), *kit.absent):
            (asked,) = tools_by_name(plan, KITS, tool)
            line = reach.why(asked, recipe, discipline=discipline, rows={})
            if tool in session.enabled:
                assert line.startswith(f'{asked}: the recipe "{recipe}" has it (')
            else:
                assert line.startswith(f"{asked}: {session.why_hidden(tool)} (")
                removed += 1
    assert 100 < removed


def sessions_with(plan: ServerPlan, tool: str, argument: str) -> Iterator[tuple[str, str]]:
    """Yield each pair of recipe and discipline with a session that has the argument."""
    policy = plan.policy
    (kit,) = plan.kits
    for recipe, discipline in product(policy.recipes, policy.disciplines):
        works_as = None if "discipline" in policy.targets(recipe) else discipline
        for rows in ({}, EXAMPLES):
            session = supposed_session(policy, recipe, kit.key, discipline=works_as, rows=rows)
            seen = session.tools(kit.tools).get(tool)
            if seen is not None and (not argument or argument in seen.properties):
                yield recipe, discipline


@pytest.mark.parametrize("argument", ["", "description", "title"])
def test_who_lists_the_sessions_that_have_a_tool(plan: ServerPlan, argument: str) -> None:
    reach = Reach(plan)
    for tool in plan.kits[0].tools:
        if argument and argument not in tool.argument_names:
            continue
        (asked,) = tools_by_name(plan, KITS, tool.name, argument)
        listed = set()
        for line in reach.who(asked):
            recipe = re.split("[ ,:]", line)[0]
            for discipline in reach.policy.disciplines:
                if f'"{discipline}"' not in line:
                    listed.add((recipe, discipline))
        assert {*sessions_with(plan, tool.name, argument)} == listed, tool.name


def test_who_names_rows_and_values(root: Path) -> None:
    assert tools(root, "who", "update_task") == [
        'ralph:update_task: yap, not as "backend"',
        'ralph:update_task: opus_review, not as "backend"',
        'ralph:update_task: enrichment without a row, not as "backend"',
        (
            'ralph:update_task: enrichment with a task, not as "backend": id is the task of the '
            "session"
        ),
        'ralph:update_task: manual, not as "backend"',
        'ralph:update_task: triage, not as "backend"',
    ]
    assert (
        'ralph:set_task_status "status": task_execution: status is one of blocked, done, '
        "in_progress, pending"
    ) in tools(root, "who", "set_task_status", "--argument", "status")


def test_who_reports_that_no_session_has_a_tool(root: Path) -> None:
    done = ralphgen("tools", "who", "run_checks", "--project", root)

    line = 'no session can call "run_checks"; see "ralphgen tools why run_checks"\n'
    assert (0, "", line) == (done.returncode, done.stdout, done.stderr)


def test_who_fails_if_the_sessions_are_not_the_expected_ones(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "who.txt"
    lines = tools(root, "who", "delete_task")
    file.write_text("# only the user\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert [] == tools(root, "who", "delete_task", "--expect", str(file))

    file.write_text("ralph:delete_task: yap\n", encoding="utf-8")
    done = ralphgen("tools", "who", "delete_task", "--expect", file, "--project", root)
    assert (1, "- ralph:delete_task: yap\n+ ralph:delete_task: manual\n") == (
        done.returncode,
        done.stdout,
    )
    assert 'the sessions that can call "delete_task" differ from' in done.stderr
    assert "ralphgen tools who delete_task >" in done.stderr


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        (1, "why delet_task", 'there is no tool "delet_task"\nhint: did you mean "delete_task"?'),
        (1, "why nope", 'run_checks, update_task; "ralphgen tools" lists them'),
        (1, "why get_task --recipe nope", 'interactive; "ralphgen tools" lists them'),
        (1, "why rye:sign", 'the kit "rye" of the tool "rye:sign" is not enabled'),
        (1, "why get_task --recipe yab", 'there is no recipe "yab"\nhint: did you mean "yap"?'),
        (1, "why get_task --discipline x", 'there is no discipline "x"'),
        (2, "who get_task --argument idd", 'has no argument "idd"\nhint: did you mean "id"?'),
        (2, "who get_task --expect none.txt", '"none.txt" cannot be read: no such file'),
    ],
)
def test_wrong_names_are_refused(root: Path, code: int, words: str, expected: str) -> None:
    assert expected in refused("tools", *words.split(), "--project", root, code=code)
