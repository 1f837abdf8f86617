"""`ralphgen session create`: its output, its refusals, and that a client can start the session."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import Result, ralphgen, ran, refused, run_sql, snapshot
from driving import (
    ROWS,
    SCHEMAS,
    Era,
    accept,
    create_database,
    create_project,
    made_here,
    query,
    quiet,
    server_command,
)
from making_sessions import client_of, described, opened, session_json
from wire import refused as server_refused

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import MissingError, ProjectError, UsageError
from ralphgen.kits.ralph.server.workspace import PURPOSES
from ralphgen.project.root import SESSIONS

pytestmark = pytest.mark.slow

TOOLS = [
    *("get_task", "set_task_status", "add_task_comment", "add_feature_context_file"),
    *("get_project_info", "append_learning", "read_learnings", "append_progress", "read_progress"),
]
KEYS = {
    *("session_id", "recipe", "profile", "task_id", "feature", "discipline", "target_discipline"),
    *("folder", "context", "sha256", "mcp_config", "kits", "mcp_servers", "warnings", "argv"),
    *("system", "system_file", "prompt", "model", "work_tree"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("command"))


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    root = tmp_path / "own"
    made_here(shutil.copytree(project, root))
    return root


def session(root: Path, *arguments: str) -> Result:
    return ralphgen("session", "create", *arguments, "--project", root)


def no_session(root: Path, *arguments: str, code: int) -> str:
    """Return the refusal to create a session; assert that it leaves nothing behind."""
    folder = root / SESSIONS
    before = sorted(folder.iterdir()) if folder.is_dir() else []
    said = refused("session", "create", *arguments, "--project", root, code=code)
    assert before == (sorted(folder.iterdir()) if folder.is_dir() else [])
    return said


def test_standard_output_is_the_path_of_the_config_and_people_are_told_the_rest(own: Path) -> None:
    done = session(own, "task_execution", "--task", "2")
    (path,) = done.stdout.splitlines()
    lines = done.stderr.splitlines()
    session_id = Path(path).parent.name

    assert 0 == done.returncode
    assert str(own / SESSIONS / session_id / "mcp.json") == path
    assert [
        f"created session {session_id}",
        "task 2 (auth), as frontend, 9 tools",
        f"start: claude --strict-mcp-config --mcp-config {path}",
    ] == lines


def test_approved_items_are_below_a_heading(own: Path) -> None:
    (own / ".mcp.json").write_text("{}", encoding="utf-8")
    ran("trust", "--yes", "--project", own)
    created = session(own, "yap").stderr.splitlines()
    launched = ralphgen("launch", "yap", "--dry-run", "--project", own).stderr.splitlines()

    for lines in (created, launched):
        at = lines.index("approved on this machine:")
        assert "  clients read settings from .mcp.json" in lines[at + 1 :]


def test_quiet_leaves_the_path_alone(own: Path) -> None:
    done = session(own, "yap", "-q")

    assert (0, "") == (done.returncode, done.stderr)
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_json_equals_the_tools_of_a_client_on_the_config(own: Path, era: Era) -> None:
    facts = session_json(own, "task_execution", "--task", "1")
    kit = facts["kits"]["ralph"]
    with client_of(facts["mcp_config"], era=era) as driver:
        listed, told = driver.tools(), driver.client.instructions
        prompt = driver.portal.call(driver.client.get_prompt, "task_execution")
        driver.call("set_task_status", status="in_progress")
    (message,) = prompt.messages

    assert KEYS == set(facts)
    assert TOOLS == [tool["name"] for tool in kit["tools"]] == [tool["name"] for tool in listed]
    sizes = [len(_compact(tool)) for tool in listed]
    assert sizes == [tool["bytes"] for tool in kit["tools"]]
    assert len(_compact(listed)) == kit["bytes"]
    text = f"{facts['system']}\n\n{facts['prompt']}"
    assert (told, getattr(message.content, "text", "")) == (kit["instructions"], text)
    assert [("in_progress",)] == query(own, "SELECT status FROM tasks WHERE id = 1")


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_json_names_the_rows_the_files_and_the_commands(own: Path) -> None:
    facts = session_json(own, "task_execution", "--task", "1")
    folder = Path(facts["folder"])
    argv, kit = facts["argv"], facts["kits"]["ralph"]

    assert folder == own / SESSIONS / facts["session_id"]
    assert (str(folder / "context.json"), str(folder / "mcp.json")) == (
        facts["context"],
        facts["mcp_config"],
    )
    about = [facts[key] for key in ("recipe", "profile", "task_id", "feature", "discipline")]
    assert ["task_execution", "task_execution", 1, "auth", "backend"] == about
    assert (None, [], []) == (facts["target_discipline"], facts["mcp_servers"], facts["warnings"])
    assert ["claude", "-p"] == argv[:2]
    at = argv.index("--allowedTools")
    assert [f"mcp__ralph__{name}" for name in TOOLS] == argv[at + 1 : at + 10]
    assert facts["mcp_config"] == argv[argv.index("--mcp-config") + 1]
    entry = json.loads((folder / "mcp.json").read_bytes())["mcpServers"]["ralph"]
    assert kit["command"] == [entry["command"], *entry["args"]]
    assert [facts["context"], "--sha256", facts["sha256"]] == kit["command"][-3:]
    said = described(kit["command"])
    assert (kit["instructions"], facts["system"], kit["prompt"]) == (
        said["instructions"],
        said["brief"]["system"],
        said["brief"]["task"],
    )
    assert kit["prompt"] == facts["prompt"]
    system = Path(facts["system_file"])
    assert f"{facts['system']}\n" == system.read_text(encoding="utf-8")
    assert (folder, 0o600) == (system.parent, system.stat().st_mode & 0o777)


def test_a_conversation_gets_its_prompt_on_the_command_line(own: Path) -> None:
    facts = session_json(own, "ramble", "--feature", "auth")
    argv = facts["argv"]

    assert ["--", facts["kits"]["ralph"]["prompt"]] == argv[-2:]
    assert "-p" not in argv
    assert PURPOSES["ramble"] in argv[-1]


def test_a_discussion_is_about_a_discipline_and_has_no_persona(own: Path) -> None:
    session = opened(own, "discuss", discipline="frontend")

    assert (None, "frontend") == (session.discipline, session.target)
    assert session.session_id.startswith("discuss-frontend-")


def test_elsewhere_a_discipline_is_the_persona(own: Path) -> None:
    session = opened(own, "braindump", discipline="frontend")

    assert ("frontend", None) == (session.discipline, session.target)
    assert "You work as the discipline frontend." in session.served[0].instructions


def test_the_bound_row_may_be_named_explicitly(own: Path) -> None:
    session = opened(own, "task_execution", task=1, feature="auth", discipline="backend")

    assert ("auth", "backend") == (session.feature, session.discipline)


REFUSED = {
    "no task": ("task_execution", {}, 'the recipe "task_execution" needs a task', "--task N"),
    "a task that is none": ("task_execution", {"task": 9}, "there is no task 9", ""),
    "a huge task": ("enrichment", {"task": 10**30}, f"there is no task {10**30}", ""),
    "a task below zero": ("enrichment", {"task": -1}, "there is no task -1", ""),
    "task nought": ("enrichment", {"task": 0}, "there is no task 0", ""),
    "another feature": (
        "task_execution",
        {"task": 1, "feature": "search"},
        'task 1 belongs to the feature "auth", not "search"',
        'remove "--feature"',
    ),
    "another persona": (
        "enrichment",
        {"task": 1, "discipline": "frontend"},
        'task 1 belongs to the discipline "backend", not "frontend"',
        'remove "--discipline"',
    ),
    "a task for those who have none": (
        "yap",
        {"task": 1},
        'the recipe "yap" does not accept a task',
        'remove "--task"',
    ),
    "a feature for those who have none": (
        "discuss",
        {"feature": "auth"},
        'the recipe "discuss" does not accept a feature',
        'remove "--feature"',
    ),
    "no recipe like it": ("zzzzzz", {}, 'there is no recipe "zzzzzz"', "the recipes include brain"),
    "no recipe at all": ("", {}, 'there is no recipe ""', "the recipes include braindump,"),
    "an unknown feature": (
        "ramble",
        {"feature": "atuh"},
        'there is no feature "atuh"',
        'did you mean "auth"?',
    ),
    "a name of many lines": (
        "ramble",
        {"feature": "au\n\x1b[1mth"},
        r'there is no feature "au\n\x1b[1mth"',
        "",
    ),
    "an unknown discipline": (
        "yap",
        {"discipline": "fronted"},
        'there is no discipline "fronted"',
        'did you mean "frontend"?',
    ),
    "an unknown target": (
        "discuss",
        {"discipline": "nobody"},
        'there is no discipline "nobody"',
        "the disciplines are backend, frontend",
    ),
    "an unknown kit": ("yap", {"kits": ("ralf",)}, 'no kit "ralf"', 'did you mean "ralph"?'),
    "a kit that is none": ("yap", {"kits": ("xyz",)}, 'no kit "xyz"', "the only kit is ralph"),
}


@pytest.mark.parametrize(
    ("recipe", "request_for", "sentence", "hint"), REFUSED.values(), ids=REFUSED
)
def test_a_request_that_cannot_be_met_is_refused_with_a_hint(
    project: Path, recipe: str, request_for: dict[str, Any], sentence: str, hint: str
) -> None:
    with pytest.raises((MissingError, UsageError)) as caught:
        opened(project, recipe, **request_for)
    (problem,) = caught.value.problems

    assert sentence in problem.text
    assert hint in problem.hint
    assert not (project / SESSIONS).exists()


def test_a_task_with_an_invalid_feature_is_refused(tmp_path: Path) -> None:
    lax = (SCHEMAS / "a8.sql").read_text(encoding="utf-8").replace(") STRICT", ")")
    create_database(tmp_path, lax, ROWS, "UPDATE tasks SET feature = x'00ff' WHERE id = 1")
    regenerate(tmp_path, force=False, say=quiet)

    with pytest.raises(ProjectError, match="task 1 has no feature or no discipline"):
        opened(tmp_path, "task_execution", task=1)


def test_text_that_is_not_utf8_stops_no_session(own: Path) -> None:
    run_sql(
        own,
        "UPDATE metadata SET project_title = CAST(x'53ff' AS TEXT)",
        "INSERT INTO features (name, display_name, acronym) "
        "VALUES (CAST(x'ff' AS TEXT), 'F', 'FFFF')",
    )
    session = opened(own, "ramble", feature="auth")

    assert "feature auth" in session.served[0].instructions


def test_a_title_that_is_not_text_is_named(own: Path) -> None:
    run_sql(
        own,
        "DROP TABLE metadata",
        "CREATE TABLE metadata (id INTEGER, project_title, project_created)",
        "INSERT INTO metadata VALUES (1, x'ff', '2026')",
    )

    with pytest.raises(ProjectError, match='"project_title" of the metadata is not a string'):
        opened(own, "yap")


def test_a_project_without_a_server_is_sent_to_regen(own: Path) -> None:
    shutil.rmtree(own / ".ralph" / "mcp")
    said = refused("session", "create", "yap", "--project", own)

    assert 'run "ralphgen regen"' in said
    assert not (own / ".ralph" / "mcp").exists()


def test_an_out_of_date_server_reports_itself(own: Path) -> None:
    run_sql(own, "ALTER TABLE tasks DROP COLUMN hints")
    said = no_session(own, "yap", code=1)

    assert 'the server "ralph" does not start: ' in said
    assert 'column "tasks.hints" is gone; run "ralphgen regen"' in said


@pytest.mark.thorough
@pytest.mark.parametrize("recipe", ["manual", "enrichment", "opus_review"])
def test_a_session_reports_a_new_column_and_has_the_generated_tools(
    tmp_path: Path, recipe: str
) -> None:
    """One of the columns brings a tool, which the server does not have yet."""
    root = create_project(tmp_path, schema="b1")
    before = opened(root, recipe)
    run_sql(root, "ALTER TABLE features ADD COLUMN learnings TEXT")
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    done = ralphgen("session", "create", recipe, "--json", "--quiet", "--project", root)
    after = opened(root, recipe)

    assert (0, before.served[0].tools) == (done.returncode, after.served[0].tools)
    enabled = json.loads(after.context.read_bytes())["enabled_tools"]["ralph"]
    assert list(before.served[0].names) == enabled
    waiting = [
        f'column {name} is new; run "ralphgen regen"'
        for name in ("features.learnings", "tasks.risk")
    ]
    assert waiting == list(after.warnings)
    assert [f"warning: {line}" for line in waiting] == done.stderr.splitlines()


def test_a_policy_that_was_edited_to_allow_more_allows_no_more(own: Path) -> None:
    path = own / ".ralph" / "mcp" / "policy.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"list_tasks"', '"delete_task", "list_tasks"'), encoding="utf-8")
    assert "were edited: policy.py" in no_session(own, "yap", code=2)
    accept(own)
    made_here(own)
    with client_of(opened(own, "yap").mcp_config) as driver:
        names = driver.names()
        code, message = driver.protocol_error("delete_task", id=1)

    assert 8 == len(names)
    assert "delete_task" not in names
    assert (-32602, True) == (code, "context does not enable it" in message)


def test_a_policy_that_cannot_be_loaded_stops_the_session(own: Path) -> None:
    (own / ".ralph" / "mcp" / "policy.py").write_text("<<<<<<< ours\n", encoding="utf-8")
    accept(own)
    made_here(own)

    assert "SyntaxError" in no_session(own, "yap", code=1)


def test_a_recipe_newer_than_the_server_is_reported_separately(own: Path) -> None:
    (own / ".ralph" / "recipes").mkdir()
    (own / ".ralph" / "recipes" / "new.toml").write_text('base = "yap"\n', encoding="utf-8")
    said = no_session(own, "new", code=1)

    assert 'there is no recipe "new"' in said


def test_the_default_is_what_a_server_without_a_context_shows(own: Path) -> None:
    done = session(own, "task_execution", "--task", "1", "--default")
    path = own / ".ralph" / "mcp" / "context.json"

    assert (0, f"{path}\n") == (done.returncode, done.stdout)
    assert [] == list((own / SESSIONS).iterdir())
    assert str(own) not in path.read_text(encoding="utf-8")
    said = described(server_command(own))
    assert TOOLS == [tool["name"] for tool in said["tools"]]
    assert "This session works on task 1" in said["instructions"]
    assert {"type": "integer", "default": 1} == (
        said["tools"][0]["inputSchema"]["properties"]["id"]
    )


def test_a_project_with_a_default_can_move(own: Path, tmp_path: Path) -> None:
    assert 0 == session(own, "yap", "--default").returncode
    moved = own.rename(tmp_path / "moved to another place")

    assert 8 == len(described(server_command(moved))["tools"])


def test_a_session_does_not_move_with_its_project(own: Path, tmp_path: Path) -> None:
    session = opened(own, "yap")
    moved = own.rename(tmp_path / "moved")
    context = str(moved / SESSIONS / session.session_id / "context.json")

    line = server_refused(moved, "--context", context, "--sha256", session.sha256)
    assert "it belongs to the project in" in line


def test_a_default_is_renewed_and_a_refused_one_changes_nothing(own: Path) -> None:
    path = own / ".ralph" / "mcp" / "context.json"
    assert 0 == session(own, "yap", "--default").returncode
    assert 0 == session(own, "discuss", "--default").returncode
    before = snapshot(own / ".ralph" / "mcp")
    assert 2 == session(own, "yip", "--default").returncode

    assert before == snapshot(own / ".ralph" / "mcp")
    assert "discuss" == json.loads(path.read_bytes())["recipe"]
    assert 3 == len(described(server_command(own))["tools"])


def test_a_kit_that_is_named_twice_is_served_once(own: Path) -> None:
    session = opened(own, "yap", kits=("ralph", "ralph"))
    config = json.loads(session.mcp_config.read_bytes())["mcpServers"]

    assert ["ralph"] == [served.kit for served in session.served] == list(config)
