"""`ralphgen doctor`: a line for each thing that is looked at, each ok or with its fix."""

import json
import shutil
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, run_sql
from driving import made_here
from proved_projects import git

from ralphgen.environment import base_interpreter
from ralphgen.ledger.tables import VERSION
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow

SUBJECTS = ["database", "settings", "files", "schema"]
SUBJECTS += ["ledger", "claims", "checks", "interpreter", "server"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that `init` has made, whose server needs no packages."""
    return initialized(tmp_path_factory.mktemp("doctor") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(project, tmp_path / "p"))


def findings(root: Path, **more: str) -> tuple[int, dict[str, bool], str]:
    """Exit code, subject → whether it is well, and all words."""
    done = ralphgen("doctor", root, more=more)
    assert "" == done.stderr
    found = {
        line[6:18].strip(): not line.startswith("error")
        for line in done.stdout.splitlines()
        if line.startswith(("ok    ", "warn  ", "error "))
    }
    assert found.pop("PATH", True)
    fixes = [line for line in done.stdout.splitlines() if line.lstrip().startswith("fix: ")]
    assert len(fixes) >= list(found.values()).count(False)
    return done.returncode, found, done.stdout


def told_without_server(root: Path) -> str:
    """Return the report on a project whose server cannot be started for lack of a Python."""
    return findings(root, RALPHGEN_PYTHON=str(root / "nowhere"))[2]


def test_a_healthy_project_is_well_down_to_a_call_by_the_official_client(root: Path) -> None:
    code, found, words = findings(root)

    assert (0, dict.fromkeys(SUBJECTS, True)) == (code, found)
    assert "warn  checks       none configured: agents can close tasks without proof\n" in words
    assert 'fix: add [[done.checks]] to .ralph/ralphgen.toml, then run "ralphgen regen"\n' in words
    assert words.splitlines()[-1].startswith("no errors, ")
    assert '"ralph" answered with 10 tools; list_tasks works' in words
    base, _ = base_interpreter()
    assert f"ok    interpreter  {base}; RALPHGEN_PYTHON selects another\n" in words
    assert ["ralph.db"] == [path.name for path in (root / ".ralph/db").iterdir()]
    assert "" == ralphgen("doctor", root, "--quiet").stdout


def test_clients_without_the_server_of_an_added_kit_are_found(root: Path, tmp_path: Path) -> None:
    home = {"HOME": f"{tmp_path}", "XDG_CONFIG_HOME": f"{tmp_path}/.config"}
    for options in ([], ["--user"]):
        ran("connect", "claude", *options, "-C", root, more=home)
    ran("init", root, "--kit", "specum", more=home)
    words = findings(root, **home)[2]

    assert "warn  clients      .mcp.json has no server for specum\n" in words
    assert f"warn  clients      {tmp_path}/.claude.json has no server for specum\n" in words
    assert 'fix: run "ralphgen connect claude --user"\n' in words
    ran("connect", "claude", "-C", root, more=home)
    ran("connect", "claude", "--user", "-C", root, more=home)
    assert "ok    clients      connected: claude\n" in findings(root, **home)[2]


def test_stale_and_foreign_commands_of_clients_are_found(root: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home"), "RALPHGEN_HOME": str(tmp_path / "nowhere")}
    for client in ("claude", "codex", "gemini"):
        ran("connect", client, "-C", root)
    assert "ok    clients      connected: claude, codex, gemini\n" in findings(root, **home)[2]

    for file in (".gemini/settings.json", ".codex/config.toml"):
        path = root / file
        stale = path.read_text("utf-8").replace('"ralphgen"', '"/old/venv/bin/ralphgen"')
        path.write_text(stale, encoding="utf-8")
    servers = {"ralph": {"command": "python", "args": [".ralph/mcp/server.py", "ralph"]}}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    words = findings(root, **home)[2]

    assert "warn  clients      .mcp.json starts ralph with another command\n" in words
    for file in (".gemini/settings.json", ".codex/config.toml"):
        assert f"error clients      {file} starts the server with another command or" in words
    assert "connected" not in words
    ran("regen", "--no-install", root)
    assert "ok    clients      connected: codex, gemini\n" in findings(root, **home)[2]


TOOL = """
from ralphgen.tools import Project


def {name}(project: Project) -> str:
    \"\"\"Say so.\"\"\"
    return ""


{more}
"""


def test_own_tools_that_cannot_be_loaded_are_found(root: Path) -> None:
    folder = root / ".ralph/tools"
    folder.mkdir()
    mark = root / "loaded"
    for name, more in (("bad", "import nowhere"), ("good", f"open({str(mark)!r}, 'w').close()")):
        (folder / f"{name}.py").write_text(TOOL.format(name=name, more=more), encoding="utf-8")
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    code, found, words = findings(root)

    assert (1, {**dict.fromkeys(SUBJECTS, True), "own tools": False}) == (code, found)
    assert "bad.py cannot be loaded: ModuleNotFoundError: No module named 'nowhere'" in words
    assert mark.exists()

    mark.unlink()
    (folder / "bad.py").unlink()
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    assert "own tools    can be loaded: good.py" in findings(root)[2]

    other = shutil.copytree(root, root.parent / "clone")
    mark.unlink()
    assert 1 == ralphgen("doctor", other).returncode
    assert not mark.exists()


def test_a_discipline_whose_servers_cannot_be_read_is_found(root: Path) -> None:
    run_sql(
        root,
        """UPDATE disciplines SET mcp_servers = '[{"name": "docs"}]' WHERE acronym = (
        SELECT min(acronym) FROM disciplines)""",
    )
    code, found, words = findings(root)

    assert (1, {**dict.fromkeys(SUBJECTS, True), "discipline": False}) == (code, found)
    assert 'has an invalid mcp_servers: see "0.command"' in words


def test_a_server_with_a_new_column_is_found_and_started(root: Path) -> None:
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    code, found, words = findings(root)

    assert (1, {"files", "schema"}) == (code, {name for name, well in found.items() if not well})
    assert "with 10 tools" in words


def test_a_ledger_in_a_database_under_git_is_reported(root: Path) -> None:
    assert f"ledger       version {VERSION}" in told_without_server(root)
    for words in (["init", "-q"], ["add", "-f", DATABASE], ["commit", "-qm", "x"]):
        git(root, *words)
    code, found, told = findings(root)

    assert (0, True) == (code, found["ledger"])
    assert "the database is in git" in told

    assert 0 == ralphgen("db", "ledger", "off", "--yes", "-C", root).returncode
    assert "ledger       off" in told_without_server(root)


def test_drift_and_a_moved_schema_are_found(root: Path) -> None:
    run_sql(root, "ALTER TABLE tasks DROP COLUMN hints")
    code, found, words = findings(root)

    ill = {"files", "schema", "server"}
    assert (1, ill) == (code, {name for name, well in found.items() if not well})
    assert 'column "tasks.hints"' in words
    assert 'fix: run "ralphgen regen"' in words


def test_a_corrupt_database_is_found(root: Path) -> None:
    database = root / ".ralph/db/ralph.db"
    data = bytearray(database.read_bytes())
    data[20_000:] = b"\x5a" * (len(data) - 20_000)
    database.write_bytes(bytes(data))
    code, found, _words = findings(root)

    assert (1, False) == (code, found["database"])


def test_an_invalid_database_ends_the_examination(root: Path) -> None:
    (root / ".ralph/db/ralph.db").write_bytes(b"no database\n" * 99)
    code, found, words = findings(root)

    assert (1, {"database": False}) == (code, found)
    assert "is not an SQLite database" in words


def test_every_problem_of_the_config_is_reported(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text('one = 1\nkits = ["x"]\ntwo = 2\n', encoding="utf-8")
    code, _found, words = findings(root)

    assert 1 == code
    assert 'ralphgen.toml:1: unknown key "one"' in words
    assert 'ralphgen.toml:3: unknown key "two"' in words


def test_settings_that_are_not_toml_are_found(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text("[database\n", encoding="utf-8")
    code, found, words = findings(root)

    assert (1, {"project": False}) == (code, found)
    assert "error project      .ralph/ralphgen.toml:1: invalid TOML: " in words
    assert words.splitlines()[-1].startswith("1 error, ")


def test_a_missing_environment_is_reported_with_its_command(root: Path, tmp_path: Path) -> None:
    ran("init", root, "--kit", "dela", "--no-install")
    code, found, words = findings(root, RALPHGEN_HOME=str(tmp_path / "home"))

    ill = {name for name, well in found.items() if not well}
    assert (1, {"interpreter"}, True) == (code, ill, "server" not in found)
    assert 'fix: run "ralphgen regen"' in words
    assert not (tmp_path / "home").exists()


def test_an_interpreter_that_does_not_run_is_found_with_the_variable_to_change(root: Path) -> None:
    code, found, words = findings(root, RALPHGEN_PYTHON="/no/python")

    ill = {name for name, well in found.items() if not well}
    assert (1, {"interpreter"}, True) == (code, ill, "server" not in found)
    assert 'interpreter  "/no/python" of RALPHGEN_PYTHON is not a working Python' in words
    assert "fix: set RALPHGEN_PYTHON to the absolute path of Python 3.11 or later" in words


def test_a_refused_context_is_reported_in_the_words_of_the_server(root: Path) -> None:
    context = root / ".ralph/mcp/context.json"
    context.write_text(
        context.read_text("utf-8").replace('"version": 1', '"version": 7'), encoding="utf-8"
    )
    code, found, words = findings(root)

    assert (1, False) == (code, found["server"])
    assert '"version" is 7' in words


def test_files_that_are_missing_are_found(root: Path) -> None:
    (root / ".ralph/mcp/manifest.json").unlink()
    code, found, _words = findings(root)

    assert (1, False, False) == (code, found["files"], found["schema"])


def test_a_missing_database_is_reported_once(root: Path) -> None:
    (root / DATABASE).unlink()
    code, found, words = findings(root)

    assert (1, False) == (code, found["database"])
    assert [False] == [well for well in found.values() if not well]
    assert 1 == words.count("no database at")
