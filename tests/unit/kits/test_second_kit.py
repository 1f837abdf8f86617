"""An external kit works in the whole pipeline, together with ralph's kit and alone."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import readme_kit
from driving import Driver, connected, server_command

pytestmark = pytest.mark.slow

KIT = Path(readme_kit.__file__)
PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
BOTH = 'kits = ["ralph", "notes"]\n'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of ralphgen, in a process that has the kit."""
    command = [sys.executable, str(KIT), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PYPROJECT.parent)}
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", check=False, env=environment
    )


def regenerated(root: Path, config: str) -> subprocess.CompletedProcess[str]:
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    return run("regen", str(root), "--no-install")


def tree(root: Path) -> dict[str, bytes]:
    folder = root / ".ralph" / "mcp"
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with both kits; no test may change it."""
    root = tmp_path_factory.mktemp("both")
    done = run("init", str(root), "--kit", "notes", "--no-install")
    assert 0 == done.returncode, done.stderr
    return root


@pytest.fixture
def other(project: Path, tmp_path: Path) -> Path:
    """A project with both kits, to be changed."""
    return shutil.copytree(project, tmp_path / "other")


@pytest.fixture(scope="module")
def manual(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    root = shutil.copytree(project, tmp_path_factory.mktemp("manual") / "project")
    with connected(root, kit="notes") as driver:
        yield driver


def test_the_page_shows_code_that_the_house_would_take(tmp_path: Path) -> None:
    readme_kit.write_kit(tmp_path)
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    ours = "lint.isort.known-first-party = ['ralphgen']"
    options = ["--no-cache", "--config", str(PYPROJECT), "--config", ours, str(tmp_path)]
    ignored = ["--ignore", "PTH"]  # pathlib costs 4 ms at the start of a server
    linted = subprocess.run([*ruff, "check", *ignored, *options], capture_output=True, check=False)
    formatted = subprocess.run(
        [*ruff, "format", "--check", *options], capture_output=True, check=False
    )

    assert {"__init__", "tools"} <= {path.stem for path in tmp_path.glob("notes/*")}
    assert 0 == linted.returncode, linted.stdout.decode()
    assert 0 == formatted.returncode, formatted.stdout.decode()


def test_init_switches_the_kit_on_and_lays_its_files_down(project: Path) -> None:
    assert BOTH in (project / ".ralph/ralphgen.toml").read_text(encoding="utf-8")
    assert "Welcome.\n" == (project / "notes/inbox/lines.txt").read_text(encoding="utf-8")


def test_a_second_init_keeps_the_files_of_the_kit(other: Path) -> None:
    (other / "notes/inbox/lines.txt").write_text("Mine.\n", encoding="utf-8")
    run("init", str(other), "--kit", "notes", "--no-install")

    assert "Mine.\n" == (other / "notes/inbox/lines.txt").read_text(encoding="utf-8")


def test_a_context_that_no_one_has_changed_gets_the_tools_of_a_further_kit(tmp_path: Path) -> None:
    run("init", str(tmp_path), "--no-install", "--stack", "empty")
    done = run("init", str(tmp_path), "--kit", "notes", "--no-install")
    context = json.loads((tmp_path / ".ralph/mcp/context.json").read_text(encoding="utf-8"))

    assert ["list_notes"] == context["enabled_tools"]["notes"]
    assert "warning" not in done.stderr


def test_a_kit_that_the_kept_context_does_not_name_is_pointed_out(tmp_path: Path) -> None:
    run("init", str(tmp_path), "--no-install", "--stack", "empty")
    path = tmp_path / ".ralph/mcp/context.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"list_tasks",', ""), encoding="utf-8")
    before = path.read_bytes()
    done = run("init", str(tmp_path), "--kit", "notes", "--no-install")

    assert before == (tmp_path / ".ralph/mcp/context.json").read_bytes()
    assert "was kept; it lacks ralph:list_tasks, notes:list_notes" in done.stderr


def test_the_kit_brings_its_package_its_runtime_and_its_texts(project: Path) -> None:
    files = tree(project)
    manifest = json.loads(files["manifest.json"])
    own = {path for path in files if "notes" in path}

    assert {
        "notes/__init__.py",
        "notes/answers.py",
        "notes/notes.py",
        "notes/settings.py",
        "notes/notes.md",
        "runtime/notes/__init__.py",
        "runtime/notes/notes.py",
        "runtime/notes/workspace.py",
    } == own
    assert own <= {*manifest["files"]}
    assert "ralph/tasks.py" in files


def test_check_covers_the_files_of_the_kit(other: Path) -> None:
    assert 0 == run("check", str(other)).returncode

    (other / ".ralph/mcp/notes/notes.md").write_text("Mine.\n", encoding="utf-8")
    done = run("check", str(other))

    assert 1 == done.returncode
    assert "+# Notes" in done.stdout


def test_the_emitted_package_is_linted_and_formatted(project: Path) -> None:
    """The same package name twice among the imports, a single tool table, a lambda."""
    folder = project / ".ralph" / "mcp"
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    where = [
        "--no-cache",
        "--config",
        str(PYPROJECT),
        "--config",
        f"src = ['{folder}']",
        str(folder / "notes"),
    ]
    linted = subprocess.run([*ruff, "check", *where], capture_output=True, check=False)
    formatted = subprocess.run(
        [*ruff, "format", "--check", *where], capture_output=True, check=False
    )

    assert 0 == linted.returncode, linted.stdout.decode()
    assert 0 == formatted.returncode, formatted.stdout.decode()


def test_the_matrix_and_the_readme_tell_both_kits(project: Path) -> None:
    matrix = json.loads(run("tools", "--json", "--project", str(project)).stdout)
    readme = (project / ".ralph/mcp/README.md").read_text(encoding="utf-8")

    assert ["ralph", "notes"] == [*matrix]
    assert ["list_notes", "append_learning"] == matrix["notes"]["tools"]
    assert ["list_notes"] == matrix["notes"]["recipes"]["yap"]["tools"]
    assert "| `list_notes` | List the notes. | reads |" in readme
    assert "field-notes" in readme


def test_the_matrix_counts_the_bytes_that_a_client_receives(project: Path, manual: Driver) -> None:
    matrix = json.loads(run("tools", "--json", "--project", str(project)).stdout)
    listed = json.dumps(manual.tools(), ensure_ascii=False, separators=(",", ":"))

    assert matrix["notes"]["recipes"]["manual"]["bytes"] == len(listed.encode())


def test_a_client_reads_and_writes_through_the_second_server(manual: Driver) -> None:
    assert ["list_notes", "append_learning"] == manual.names()
    assert manual.client.server_info is not None
    assert "field-notes" == manual.client.server_info.name
    assert (
        "Notes that people and agents leave in the project.\n"
        "list_notes shows what was written down.\n"
        "append_learning adds a line to a notebook."
    ) == manual.client.instructions

    assert {"notebook": "inbox"} == manual.call("append_learning", notebook="inbox", text="Milk")
    assert {"notes": {"inbox": ["Welcome.", "Milk"]}} == manual.call("list_notes")
    assert "at most 80 characters" in manual.refusal(
        "append_learning", notebook="inbox", text="x" * 81
    )


def test_the_kit_answers_wrong_arguments_with_an_error_of_the_protocol(manual: Driver) -> None:
    code, message = manual.protocol_error("list_notes", notebok="inbox")

    assert -32602 == code
    assert '"notebook"' in message


def test_each_server_has_the_tools_of_its_kit(project: Path) -> None:
    with connected(project, "discuss", kit="ralph") as ralph:
        assert "list_notes" not in ralph.names()
        assert -32602 == ralph.protocol_error("list_notes")[0]
    with connected(project, "discuss", kit="notes") as notes:
        (tool,) = notes.tools()
        assert {} == tool["inputSchema"]["properties"]  # discuss leaves no argument of it
        assert (
            'the recipe "discuss" does not include it' in notes.protocol_error("append_learning")[1]
        )


def test_a_bare_name_takes_the_tool_from_every_kit_and_a_full_one_from_one(other: Path) -> None:
    disabled = '[disciplines.a]\ndisable = ["append_learning"]\n'
    named = '[disciplines.b]\ndisable = ["notes:append_learning"]\n'
    regenerated(other, f"{BOTH}{disabled}{named}")
    facts = json.loads((other / ".ralph/mcp/project.json").read_text(encoding="utf-8"))
    policy = (other / ".ralph/mcp/policy.py").read_text(encoding="utf-8")
    removed = policy[policy.index("removed_tools") :]

    assert {"a": ["append_learning"], "b": ["notes:append_learning"]} == facts["config"][
        "disciplines"
    ]
    a, b = removed.split('"b": {')
    assert '"ralph": [' in a
    assert '"notes": [' in a
    assert '"ralph": [' not in b
    assert '"notes": [' in b


def test_a_recipe_of_the_project_takes_from_the_second_kit(other: Path) -> None:
    (other / ".ralph/recipes").mkdir()
    recipe = 'base = "braindump"\nallow = { notes = ["list_notes"] }\n'
    (other / ".ralph/recipes/quick.toml").write_text(recipe, encoding="utf-8")
    regenerated(other, BOTH)
    matrix = json.loads(run("tools", "--json", "--project", str(other)).stdout)

    assert ["list_notes"] == matrix["notes"]["recipes"]["quick"]["tools"]
    assert [] == matrix["ralph"]["recipes"]["quick"]["tools"]


def test_settings_reach_the_server_and_the_facts(other: Path) -> None:
    (other / "elsewhere" / "drafts").mkdir(parents=True)
    done = regenerated(other, f'{BOTH}[notes]\nfolder = "elsewhere"\nlongest = 3\n')
    facts = json.loads((other / ".ralph/mcp/project.json").read_text(encoding="utf-8"))

    assert 0 == done.returncode, done.stderr
    assert {"folder": "elsewhere", "longest": 3} == facts["config"]["settings"]["notes"]
    assert ["drafts"] == facts["surveys"]["notes"]
    with connected(other, kit="notes") as driver:
        assert "at most 3 characters" in driver.refusal(
            "append_learning", notebook="drafts", text="long"
        )


def test_a_second_init_accepts_the_settings_of_a_kit(other: Path) -> None:
    (other / ".ralph/ralphgen.toml").write_text(f"{BOTH}[notes]\nlongest = 3\n", encoding="utf-8")
    done = run("init", str(other), "--kit", "notes", "--no-install")

    assert 0 == done.returncode, done.stderr


def test_wrong_settings_are_refused_with_their_lines(other: Path) -> None:
    before = tree(other)
    done = regenerated(other, f"{BOTH}\n[notes]\nfoldr = 'x'\nlongest = 0\n")

    assert 1 == done.returncode
    assert '.ralph/ralphgen.toml:4: unknown key "notes.foldr"' in done.stderr
    assert 'did you mean "folder"?' in done.stderr
    assert '.ralph/ralphgen.toml:5: "notes.longest" is 0' in done.stderr
    assert before == tree(other)


def test_settings_of_a_kit_that_is_off_may_remain_in_the_config(other: Path) -> None:
    done = regenerated(other, 'kits = ["ralph"]\n[notes]\nfolder = "elsewhere"\n')

    assert 0 == done.returncode, done.stderr


def test_problems_of_a_survey_are_shown_with_the_others(other: Path) -> None:
    (other / ".ralph/recipes").mkdir()
    (other / ".ralph/recipes/bad.toml").write_text("base = 1\n", encoding="utf-8")
    (other / "list").touch()
    done = regenerated(other, f'{BOTH}[notes]\nfolder = "list"\n')

    assert 1 == done.returncode
    assert '"list" is a file, expected a folder of notebooks' in done.stderr
    assert ".ralph/recipes/bad.toml:1:" in done.stderr


def test_a_tool_without_a_place_gives_the_reason(other: Path) -> None:
    (other / "empty").mkdir()
    done = regenerated(other, f'{BOTH}[notes]\nfolder = "empty"\n')

    assert "warning: there is no notebook" in done.stderr
    with connected(other, kit="notes") as driver:
        assert ["list_notes"] == driver.names()
        assert "the project has no notebook" in driver.protocol_error("append_learning")[1]


def test_the_kit_alone_leaves_nothing_of_ralphs_behind(other: Path) -> None:
    done = regenerated(other, 'kits = ["notes"]\n')
    files = tree(other)
    checked = subprocess.run(
        server_command(other, "--version"), capture_output=True, encoding="utf-8", check=False
    )

    assert 0 == done.returncode, done.stderr
    assert [] == [path for path in files if path.startswith(("ralph/", "runtime/ralph/"))]
    assert "runtime/engine/sqlite/database.py" not in files
    assert b'"ralph"' not in files["server.py"] + files["policy.py"]
    assert checked.stdout.startswith("ralphgen ")
    with connected(other, kit="notes") as driver:
        assert {"notes": {"inbox": ["Welcome."]}} == driver.call("list_notes")


def test_the_first_kit_is_served_by_default(other: Path) -> None:
    regenerated(other, 'kits = ["notes"]\n')
    (other / ".ralph/mcp/context.json").unlink()
    served = subprocess.run(
        server_command(other), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )

    assert 0 == served.returncode
    assert b'"logger": "notes"' in served.stderr


def test_a_kit_that_is_off_leaves_nothing_behind(other: Path) -> None:
    regenerated(other, 'kits = ["ralph"]\n')
    files = tree(other)

    assert [] == [path for path in files if "notes" in path]
    assert b"notes" not in files["server.py"] + files["policy.py"] + files["README.md"]
    assert (
        2
        == subprocess.run(
            server_command(other, "notes", "--check"), capture_output=True, check=False
        ).returncode
    )
