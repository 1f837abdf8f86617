"""`[policy.rules]`: a policy that breaks a rule is refused, with every problem."""

from pathlib import Path

import pytest
from driving import create_project, query, quiet

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project

pytestmark = pytest.mark.slow

CONFIG = ".ralph/ralphgen.toml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path, config='kits = ["ralph"]\n')


def ruled(root: Path, rules: str) -> list[tuple[str, str]]:
    """Return each problem of a config with these rules, with its hint; empty if none is broken."""
    text = f'kits = ["ralph"]\n\n[policy.rules]\n{rules}\n'
    (root / CONFIG).write_text(text, encoding="utf-8")
    try:
        _ = Project(root).plan
    except ProjectError as error:
        return [(problem.text, problem.hint) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    "rules",
    [
        'task_execution = { never = ["delete_*"] }',
        'interactive = { never = ["ralph:create_?*", "task_start", "dela:*"] }',
        'discuss = { never = ["ralph:delete_*", "*:delete_task"] }',
    ],
)
def test_a_rule_that_is_kept_changes_no_tool(root: Path, rules: str) -> None:
    before = Project(root).files["policy.py"]

    assert [] == ruled(root, rules)
    assert before == Project(root).files["policy.py"]


@pytest.mark.parametrize("pattern", ["set_task_s*", "ralph:set_task_status", "*:set_*"])
def test_a_recipe_that_breaks_a_rule_is_refused(root: Path, pattern: str) -> None:
    ((text, hint),) = ruled(root, f'task_execution = {{ never = ["{pattern}"] }}')

    assert text.startswith(f"{CONFIG}:4: ")
    assert (
        'the recipe "task_execution" has "ralph:set_task_status", which a rule '
        f'forbids ("{pattern}")'
    ) in text
    assert "change the rule" in hint


def test_a_recipe_of_the_projects_own_is_held_too(root: Path) -> None:
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    (recipes / "cleaner.toml").write_text(
        'base = "manual"\nallow = { ralph = ["delete_task"] }\n', encoding="utf-8"
    )
    ((text, hint),) = ruled(root, 'cleaner = { never = ["delete_*"] }')

    assert 'the recipe "cleaner" has "ralph:delete_task"' in text
    assert 'remove it from "allow" in the recipe "cleaner", or change the rule' == hint


def test_a_tool_of_an_own_table_is_held_too(root: Path) -> None:
    """Whatever gives a recipe its tools: a rule is over all of it."""
    query(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    text = (
        '[tables.risks]\nnoun = "risk"\nrecipes = { task_execution = ["delete"] }\n\n'
        '[policy.rules]\ntask_execution = { never = ["delete_*"] }\n'
    )
    (root / CONFIG).write_text(text, encoding="utf-8")

    with pytest.raises(ProjectError, match='has "ralph:delete_risk"'):
        regenerate(root, force=False, say=quiet)


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ('[own_tools.now]\nrecipes = ["triage"]', f"{CONFIG}:1"),
        ('[queries.many]\nrecipes = ["triage"]', f"{CONFIG}: [queries.many]"),
        ('[tables.risks.recipes]\ntriage = ["get"]', f"{CONFIG}:1"),
    ],
)
def test_a_recipe_of_the_project_gets_tools_from_its_base_alone(
    root: Path, setting: str, place: str
) -> None:
    query(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    files = {
        CONFIG: setting,
        ".ralph/recipes/triage.toml": 'base = "yap"\nallow = { ralph = ["list_tasks"] }\n',
        ".ralph/queries/a.sql": "-- name: many :many\n-- A.\nSELECT id FROM tasks;\n",
        ".ralph/tools/a.py": "from ralphgen.tools import Project, reads\n\n@reads\n"
        'def now(project: Project) -> str:\n    """Now."""\n    return ""\n',
    }
    for path, text in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=False, say=quiet)

    (problem,) = caught.value.problems
    why = '"triage" is a custom recipe and takes its tools from its base "yap"'
    assert f"{place}: {why}" == problem.text
    allow = 'add the tool to "allow" in .ralph/recipes/triage.toml'
    assert f'write its base "yap" here, and {allow}' == problem.hint


@pytest.mark.parametrize(
    ("rules", "said", "hint"),
    [
        (
            'task_exection = { never = ["delete_*"] }',
            'there is no recipe "task_exection"',
            'did you mean "task_execution"?',
        ),
        (
            'task_execution = { never = ["delete_taks"] }',
            'no tool matches "delete_taks"',
            'did you mean "delete_task"?',
        ),
        (
            'task_execution = { never = ["ralf:delete_*"] }',
            'no kit matches "ralf:delete_*"',
            'did you mean "ralph"?',
        ),
    ],
)
def test_a_rule_that_could_hold_nothing_is_an_error(
    root: Path, rules: str, said: str, hint: str
) -> None:
    ((text, told),) = ruled(root, rules)

    assert said in text
    assert hint == told


@pytest.mark.parametrize("rules", ["yap = { never = [] }", "yap = {}", 'yap = { only = ["x"] }'])
def test_a_rule_without_patterns_is_an_error(root: Path, rules: str) -> None:
    assert ruled(root, rules)


def test_check_refuses_before_anything_is_written(root: Path) -> None:
    (root / CONFIG).write_text(
        '[policy.rules]\nyap = { never = ["list_tasks"] }\n', encoding="utf-8"
    )
    before = (root / ".ralph/mcp/manifest.json").read_bytes()

    with pytest.raises(ProjectError, match='the recipe "yap" has "ralph:list_tasks"'):
        regenerate(root, force=False, say=quiet)
    assert before == (root / ".ralph/mcp/manifest.json").read_bytes()
