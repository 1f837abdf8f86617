"""Disciplines' removals from their sessions: from the column, from the settings, immediately."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, refused, run_sql
from driving import create_project, made_here, query, quiet
from engines import ENGINES, project_on
from making_sessions import client_of, opened

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.project.root import SESSIONS

pytestmark = pytest.mark.slow

COLUMN = "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;"
YAP = [
    *("list_tasks", "get_task", "create_task", "update_task", "set_task_status", "list_features"),
    *("list_disciplines", "get_project_info"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without removals."""
    return create_project(tmp_path_factory.mktemp("overrides"), COLUMN)


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(
        shutil.copytree(project, tmp_path / "own", ignore=shutil.ignore_patterns("sessions"))
    )


def stored(root: Path, discipline: str, *names: str, text: str | None = None) -> None:
    value = json.dumps({"additional_disabled": names}) if text is None else text
    query(root, "UPDATE disciplines SET mcp_tool_overrides = ? WHERE name = ?", value, discipline)


def configured(root: Path, discipline: str, *names: str) -> None:
    text = f"[disciplines.{discipline}]\ndisable = {json.dumps(names)}\n"
    (root / ".ralph" / "ralphgen.toml").write_text(text, encoding="utf-8")


def tools(root: Path, recipe: str = "yap", **about: Any) -> set[str]:
    (served,) = opened(root, recipe, **about).served
    return set(served.names)


def test_the_column_counts_from_the_next_session_on_without_regen(own: Path) -> None:
    before = opened(own, "yap", discipline="backend")
    stored(own, "backend", "list_tasks", "ralph:update_task")
    after = opened(own, "yap", discipline="backend")
    context = json.loads(after.context.read_bytes())
    with client_of(before.mcp_config) as old, client_of(after.mcp_config) as new:
        seen = old.names(), new.names()
        code, message = new.protocol_error("list_tasks")
        told = new.client.instructions or ""

    left = [name for name in YAP if name not in {"list_tasks", "update_task"}]
    assert (YAP, left) == (sorted(seen[0], key=YAP.index), sorted(seen[1], key=YAP.index))
    assert -32602 == code
    assert message.startswith('Unknown tool: "list_tasks": ')
    assert "list_tasks" not in told
    assert not {"list_tasks", "update_task"} & set(context["enabled_tools"]["ralph"])
    assert {"list_tasks", "update_task"} <= set(context["disabled_tools"]["ralph"])


@pytest.fixture(params=ENGINES)
def added(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A project on each engine with the column `disabled_tools` added to its disciplines."""
    kind = "jsonb" if request.param == "postgresql" else "TEXT"
    column = f"ALTER TABLE disciplines ADD COLUMN disabled_tools {kind}"
    with project_on(request.param, tmp_path / "p", COLUMN, f"{column};") as root:
        yield root


def test_a_column_of_disabled_tools_removes_them_from_sessions(added: Path) -> None:
    stored(added, "backend", "list_tasks")
    sql = "UPDATE disciplines SET disabled_tools = ? WHERE name = 'backend'"
    query(added, sql, '["ralph:update_task", "delete_task"]')

    assert set(YAP) - {"list_tasks", "update_task"} == tools(added, discipline="backend")
    assert set(YAP) == tools(added, discipline="frontend")
    regenerate(added, force=False, say=quiet)
    facts = json.loads((added / ".ralph/mcp/project.json").read_bytes())
    assert {"backend": ["delete_task", "list_tasks", "ralph:update_task"]} == facts["disciplines"]
    query(added, "UPDATE disciplines SET disabled_tools = ? WHERE name = 'backend'", '["lst"]')
    said = ralphgen("session", "create", "yap", "--discipline", "backend", "--project", added)
    assert 1 == said.returncode
    assert 'disabled_tools of the discipline "backend"' in said.stderr
    query(added, "UPDATE disciplines SET disabled_tools = ? WHERE name = 'backend'", '{"a": 1}')
    for command in (("check", added), ("session", "create", "yap", "--project", added)):
        said = ralphgen(*command)
        assert 'discipline "backend" has an invalid disabled_tools' in said.stderr
        assert 'hint: expected ["tool", ' in said.stderr


def test_no_tool_takes_or_shows_a_column_that_removes_tools(added: Path) -> None:
    regenerate(added, force=False, say=quiet)
    made_here(added)
    columns = ("mcp_tool_overrides", "disabled_tools")
    for recipe in ("discuss", "manual", "braindump"):
        (served,) = opened(added, recipe).served
        schemas = json.dumps([tool["inputSchema"] for tool in served.tools])
        assert not [column for column in columns if column in schemas]
    read = ralphgen("call", "ralph:get_discipline", "name=backend", "--project", added)
    assert (0, []) == (read.returncode, [one for one in columns if one in read.stdout])
    for column in columns:
        written = f"{column}=[]"
        done = ralphgen(
            "call", "ralph:update_discipline", "name=backend", written, "--project", added
        )
        assert 0 != done.returncode
        assert [(None,), (None,)] == query(added, f"SELECT {column} FROM disciplines")


@pytest.mark.parametrize("column", ["mcp_tool_overrides", "disabled_tools"])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE disciplines SET {} = :value WHERE name = :name RETURNING name;",
        "INSERT INTO disciplines (name, {}) VALUES (:name, :value) RETURNING name;",
    ],
)
def test_no_query_writes_a_column_that_removes_tools(added: Path, column: str, sql: str) -> None:
    folder = added / ".ralph" / "queries"
    folder.mkdir()
    text = f"-- name: widen :exec\n-- Widen.\n-- :value text\n-- :name text\n{sql.format(column)}\n"
    (folder / "widen.sql").write_text(text, encoding="utf-8")

    with pytest.raises(ProjectError, match=f'sets "disciplines.{column}", which is not allowed'):
        regenerate(added, force=False, say=quiet)


def test_the_settings_count_from_the_next_session_on_without_regen(own: Path) -> None:
    configured(own, "backend", "list_tasks")

    assert set(YAP) - {"list_tasks"} == tools(own, discipline="backend")
    assert set(YAP) == tools(own, discipline="frontend")
    assert set(YAP) == tools(own)


def test_column_and_settings_add_up(own: Path) -> None:
    stored(own, "backend", "list_tasks", "list_tasks", "get_task")
    configured(own, "backend", "get_task", "create_task")

    left = set(YAP) - {"list_tasks", "get_task", "create_task"}
    assert left == tools(own, discipline="backend")


def test_a_task_brings_the_overrides_of_its_discipline(own: Path) -> None:
    stored(own, "frontend", "append_progress")

    assert "append_progress" in tools(own, "task_execution", task=1)
    assert "append_progress" not in tools(own, "task_execution", task=2)


def test_a_discussion_about_a_discipline_is_not_a_session_of_it(own: Path) -> None:
    stored(own, "frontend", "update_discipline", "get_project_info")

    assert {"update_discipline", "get_project_info"} < tools(own, "discuss", discipline="frontend")


def test_removals_written_into_the_server_last_until_regen(own: Path) -> None:
    """Only regen restores tools."""
    stored(own, "backend", "list_tasks")
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    stored(own, "backend", text="")
    session = opened(own, "yap", discipline="backend")

    assert "list_tasks" in json.loads(session.context.read_bytes())["enabled_tools"]["ralph"]
    assert "list_tasks" not in session.served[0].names
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    assert "list_tasks" in tools(own, discipline="backend")


@pytest.mark.parametrize("text", [None, "", "{}", '{"additional_disabled": []}', " { } "])
def test_no_removal_is_not_a_problem(own: Path, text: str | None) -> None:
    sql = "UPDATE disciplines SET mcp_tool_overrides = ? WHERE name = 'backend'"
    query(own, sql, text)

    assert set(YAP) == tools(own, discipline="backend")


MALFORMED = {
    "no JSON": "list_tasks",
    "half an object": '{"additional_disabled": ["list_tasks"]',
    "a list": '["list_tasks"]',
    "a text": '"list_tasks"',
    "null": "null",
    "another key": '{"additional_disable": ["list_tasks"]}',
    "a key too many": '{"additional_disabled": ["list_tasks"], "enabled": []}',
    "a key twice": '{"additional_disabled": ["list_tasks"], "additional_disabled": []}',
    "a name alone": '{"additional_disabled": "list_tasks"}',
    "a number": '{"additional_disabled": [1]}',
    "no list": '{"additional_disabled": null}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_an_unreadable_override_stops_every_session_and_names_the_discipline(
    own: Path, text: str
) -> None:
    stored(own, "backend", text=text)
    for discipline in ("backend", "frontend"):
        with pytest.raises(ProjectError) as caught:
            opened(own, "yap", discipline=discipline)
        (problem,) = caught.value.problems

        assert 'discipline "backend" has an invalid mcp_tool_overrides' == problem.text
        assert '{"additional_disabled": ["tool", …]}' in problem.hint
    assert not (own / SESSIONS).exists()


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("list_task", "list_tasks"),
        ("ralph:list_task", "list_tasks"),
        ("List_Tasks", "list_tasks"),
        ("mcp__ralph__list_tasks", ""),
        ("*", ""),
        ("", ""),
        (" list_tasks", "list_tasks"),
        ("ralf:list_tasks", ""),
        ("ralph:", ""),
    ],
)
def test_a_name_of_no_tool_stops_the_session_and_names_the_discipline(
    own: Path, entry: str, hint: str
) -> None:
    stored(own, "backend", "get_task", entry)
    with pytest.raises(ProjectError) as caught:
        opened(own, "yap", discipline="frontend")
    (problem,) = caught.value.problems

    assert 'mcp_tool_overrides of the discipline "backend"' in problem.text
    assert f'"{entry}"' in problem.text
    assert hint in problem.hint


def test_problems_of_all_disciplines_are_reported_at_once_by_the_command(own: Path) -> None:
    stored(own, "backend", text="[]")
    stored(own, "frontend", "get_tsak")
    first = refused("session", "create", "yap", "--project", own)
    stored(own, "backend", text="{}")
    configured(own, "backend", "nothing")
    second = refused("session", "create", "yap", "--project", own)

    assert 'discipline "backend" has an invalid mcp_tool_overrides' in first
    assert ".ralph/ralphgen.toml:2: disable of the discipline" in second
    assert 'mcp_tool_overrides of the discipline "frontend"' in second
    assert 'did you mean "get_task"?' in second
    assert not (own / SESSIONS).exists()


IDLE = '"{}" has no effect: only the recipe "manual" has it'
CLOSING = '"{}" removes a tool that sessions need to close their work'


def test_overrides_without_effect_or_against_closing_are_warned_of(own: Path) -> None:
    stored(own, "backend", "delete_task", "set_task_status", "list_tasks")
    configured(own, "frontend", "ralph:enrich_task", "delete_feature")
    backend = 'mcp_tool_overrides of the discipline "backend": '
    frontend = '.ralph/ralphgen.toml:2: disable of the discipline "frontend": '
    expected = {
        "backend": [
            backend + IDLE.format("delete_task"),
            backend + CLOSING.format("set_task_status"),
        ],
        "frontend": [
            frontend + IDLE.format("delete_feature"),
            frontend + CLOSING.format("ralph:enrich_task"),
        ],
    }
    report = json.loads(ralphgen("check", own, "--json").stdout)
    told = ralphgen("check", own).stderr

    assert [*expected["backend"], *expected["frontend"]] == report["warnings"]
    for line in report["warnings"]:
        assert line in told
    for discipline, lines in expected.items():
        assert tuple(lines) == opened(own, "yap", discipline=discipline).warnings
    assert () == opened(own, "yap").warnings
    options = ("-q", "--discipline", "backend", "--project", str(own))
    quiet = ralphgen("session", "create", "yap", *options)
    lines = [line for line in quiet.stderr.splitlines() if "out of date" not in line]
    assert [f"warning: {line}" for line in expected["backend"]] == lines
    said = json.loads(ralphgen("session", "create", "yap", "--json", *options[1:]).stdout)
    assert expected["backend"] == said["warnings"]


def test_a_session_without_its_closing_tool_does_not_speak_of_it(own: Path) -> None:
    stored(own, "backend", "set_task_status")
    session = opened(own, "task_execution", task=1)

    assert 1 == len(session.warnings)
    assert "set_task_status" not in session.served[0].instructions + session.prompt
    assert "Close" not in session.served[0].instructions + session.prompt


def test_an_absent_tool_can_be_removed_with_a_warning(
    tmp_path: Path,
) -> None:
    root = create_project(tmp_path, COLUMN, schema="a0")
    stored(root, "backend", "enrich_task")
    (warning,) = opened(root, "yap", discipline="backend").warnings

    assert IDLE.format("enrich_task") in warning


def test_check_warns_of_settings_for_an_unknown_discipline(own: Path) -> None:
    configured(own, "backnd", "list_tasks")
    report = json.loads(ralphgen("check", own, "--json").stdout)

    expected = '.ralph/ralphgen.toml:1: there is no discipline "backnd"; did you mean "backend"?'
    assert [expected] == report["warnings"]


def test_an_era_without_the_column_still_takes_the_settings(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    configured(root, "backend", "list_tasks")
    run_sql(root, "UPDATE disciplines SET conventions = 'c'")

    assert set(YAP) - {"list_tasks"} == tools(root, discipline="backend")
