"""The default context follows the server at every regeneration, unless the user changed it."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import initialized, ralphgen, ran, run_sql

pytestmark = pytest.mark.slow
CONTEXT = ".ralph/mcp/context.json"
RISKS = "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL)"


def context(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / CONTEXT).read_text(encoding="utf-8"))
    return found


def regenerated(root: Path, *options: str) -> str:
    """Return the messages of `regen`."""
    done = ralphgen("regen", root, "--no-install", *options)
    assert 0 == done.returncode, done.stderr
    return done.stderr


def described(root: Path) -> int:
    """Return the exit code of the server's check with the default context."""
    return ralphgen("serve", "ralph", "--check", cwd=root).returncode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = initialized(tmp_path / "p")
    run_sql(root, RISKS)
    return root


def add_table(root: Path) -> None:
    with (root / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as config:
        config.write('\n[tables.risks]\nnoun = "risk"\n')


def take_table(root: Path) -> None:
    path = root / ".ralph/ralphgen.toml"
    path.write_text(path.read_text("utf-8").partition("\n[tables.")[0] + "\n", encoding="utf-8")


@pytest.mark.thorough
def test_an_untouched_context_gets_new_tools_and_loses_removed_ones(root: Path) -> None:
    before = context(root)
    add_table(root)
    told = f"wrote {CONTEXT}: clients without a session now have 12 read-only tools"
    assert told in regenerated(root)
    assert {"list_risks", "get_risk"} <= {*context(root)["enabled_tools"]["ralph"]}
    assert not {"delete_risk", "run_checks"} & {*context(root)["enabled_tools"]["ralph"]}
    assert CONTEXT not in regenerated(root)

    take_table(root)
    assert f"wrote {CONTEXT}" in regenerated(root, "--allow-removals")
    assert before == context(root)
    assert 0 == described(root)


def test_a_context_with_the_same_tools_is_written_without_a_message(root: Path) -> None:
    before = (root / CONTEXT).read_text(encoding="utf-8")
    mine = context(root)
    mine["enabled_tools"]["ralph"].reverse()
    (root / CONTEXT).write_text(json.dumps(mine, indent=2) + "\n", encoding="utf-8")

    assert CONTEXT not in regenerated(root)
    assert before == (root / CONTEXT).read_text(encoding="utf-8")


def test_a_new_default_session_is_named(root: Path) -> None:
    done = ralphgen("session", "create", "yap", "--default", cwd=root)

    assert 'clients without a session now use "yap"\n' in done.stderr


def test_a_narrowed_context_is_kept_and_reported(root: Path) -> None:
    mine = context(root)
    mine["enabled_tools"]["ralph"].remove("get_task")
    (root / CONTEXT).write_text(json.dumps(mine, indent=2) + "\n", encoding="utf-8")
    add_table(root)
    (line,) = [one for one in regenerated(root).splitlines() if CONTEXT in one]

    assert mine == context(root)
    assert "was kept; it lacks ralph:get_task, ralph:list_risks, ralph:get_risk:" in line
    assert '"ralphgen session create interactive --default"' in line


@pytest.mark.thorough
def test_unknown_tools_of_a_context_are_reported_with_a_command(root: Path) -> None:
    add_table(root)
    regenerated(root)
    mine = context(root)
    mine["enabled_tools"]["ralph"].remove("get_task")
    mine["disabled_tools"]["ralph"].append("get_task")
    (root / CONTEXT).write_text(json.dumps(mine, indent=2) + "\n", encoding="utf-8")
    assert CONTEXT not in regenerated(root)

    take_table(root)
    (line,) = [one for one in regenerated(root, "--allow-removals").splitlines() if CONTEXT in one]
    assert "was kept; it contains the removed ralph:list_risks" in line
    assert 0 != described(root)
    ran("session", "create", "manual", "--default", "--quiet", cwd=root)
    assert 0 == described(root)


@pytest.mark.thorough
def test_only_missing_tools_of_the_recipe_are_reported(root: Path) -> None:
    ran("session", "create", "interactive", "--default", "--quiet", cwd=root)
    assert CONTEXT not in regenerated(root)

    add_table(root)
    (line,) = [one for one in regenerated(root).splitlines() if CONTEXT in one]
    assert "was kept; it lacks ralph:list_risks, ralph:get_risk:" in line
