"""Projects that 0.1.0 has written, brought to this version by one command."""

import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ralphgen, refused, texts
from driving import SCHEMAS, accept, on_context, query, server_command
from typed_pages import type_page

from ralphgen.ledger.tables import add_indexes, add_tables

pytestmark = pytest.mark.slow

EARLIER = SCHEMAS.parent / "written_by_0_1_0" / "project.txt"
FILE = re.compile(r"(?m)^==== (.+)\n")
MCP = ".ralph/mcp"
CONTEXT = f"{MCP}/context.json"
OBSOLETE = "runtime/presence.py"
EDITED = "specum/settings.py"
KITS = ["ralph", "dela", "specum"]


def lay_down(root: Path) -> None:
    """Create a project as left by 0.1.0, without files that an upgrade does not read."""
    _, *parts = FILE.split(EARLIER.read_text("utf-8").replace("{root}", str(root)))
    for path, text in zip(parts[::2], parts[1::2], strict=True):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".db"):
            with closing(sqlite3.connect(place)) as connection:
                connection.executescript(text)
        elif path.endswith(".json"):
            place.write_text(json.dumps(json.loads(text), indent=2) + "\n", encoding="utf-8")
        else:
            place.write_text(text, encoding="utf-8")
    accept(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "p").resolve()
    lay_down(root)
    return root


def sessions(root: Path) -> list[Path]:
    return sorted((root / MCP / "sessions").glob("*/context.json"))


def test_one_command_brings_all_of_it_along(root: Path) -> None:
    before = texts(root)
    rows = query(root, "SELECT * FROM tasks"), query(root, "SELECT * FROM disciplines")
    done = ralphgen("upgrade", root, "--yes", "--no-install")
    after = texts(root)

    assert 0 == done.returncode, done.stderr
    check = ralphgen("check", root)
    assert 0 == check.returncode
    assert check.stderr.endswith("the server is up to date\n")
    assert rows == (query(root, "SELECT * FROM tasks"), query(root, "SELECT * FROM disciplines"))
    kept = [path for path in before if "/sessions/" in path or "mcp/" not in path]
    assert {path: before[path] for path in kept if not path.endswith(".db")} == {
        path: after[path] for path in kept if not path.endswith(".db")
    }
    assert f"{MCP}/{OBSOLETE}" not in after
    assert {".ralph/.gitignore", ".ralph/schemas/config.json"} <= {*after}
    assert '"ralphgen db ledger on"' in done.stderr
    assert "the server is already from " in ralphgen("upgrade", root).stderr


def test_upgrade_prints_the_output_on_its_page(tmp_path: Path) -> None:
    lay_down(tmp_path / "shop")
    page = (SCHEMAS.parents[1] / "docs/upgrade.md").read_text(encoding="utf-8")

    assert 5 == type_page(page, tmp_path, tmp_path)


def test_a_ledger_gets_the_indexes_that_it_lacks(root: Path) -> None:
    add_tables(root)
    query(root, "DROP INDEX ralphgen_journal_session")
    done = ralphgen("upgrade", root, "--yes", "--no-install")

    assert "added 1 missing ledger index" in done.stderr
    assert not add_indexes(root)


def test_sessions_and_contexts_of_then_start_on_the_server_of_now(root: Path) -> None:
    ralphgen("upgrade", root, "--yes", "--no-install")
    assert sessions(root)
    for kit in KITS:
        for context in (*map(on_context, sessions(root)), ()):
            command = server_command(root, kit, *context, "--check")
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            assert (0, "") == (done.returncode, done.stderr)


def test_an_upgrade_adds_no_tool_to_a_context_with_every_tool(root: Path) -> None:
    before = (root / CONTEXT).read_bytes()
    ralphgen("upgrade", root, "--yes", "--no-install")

    assert before == (root / CONTEXT).read_bytes()


def test_a_context_narrowed_by_the_user_is_unchanged(root: Path) -> None:
    context = json.loads((root / CONTEXT).read_bytes())
    context["enabled_tools"]["ralph"].remove("delete_task")
    (root / CONTEXT).write_text(json.dumps(context), encoding="utf-8")
    ralphgen("upgrade", root, "--yes", "--no-install")

    assert context == json.loads((root / CONTEXT).read_bytes())


def test_the_diff_goes_by_kind_and_writes_nothing(root: Path) -> None:
    before = texts(root)
    done = ralphgen("upgrade", root, "--dry-run")
    kinds = re.findall(r"(?m)^# (\w+): \d+ files?", done.stdout)

    assert (0, "") == (done.returncode, done.stderr)
    assert ["tools", "policy", "server", "vendored"] == [kind for kind in kinds if kind != "facts"]
    assert "\n--- a/policy.py\n" in done.stdout
    assert "a/runtime/" not in done.stdout
    assert before == texts(root)


def test_check_and_a_command_without_a_terminal_change_nothing(root: Path) -> None:
    before = texts(root)
    said = refused("check", root)

    assert said.startswith(f"{MCP} was generated by ralphgen 0.1.0, but this is 0.2.0")
    assert 'run "ralphgen upgrade"' in said
    assert 2 == ralphgen("upgrade", root).returncode
    assert before == texts(root)


def test_a_database_that_is_behind_is_refused_before_anybody_is_asked(root: Path) -> None:
    column = "estimated_turns"
    query(root, f"ALTER TABLE tasks DROP COLUMN {column}")
    before = texts(root)
    for options in ((), ("--yes",), ("--dry-run",)):
        said = refused("upgrade", root, *options)
        assert f'{MCP} would lose the column "tasks.{column}"' in said
    assert before == texts(root)


def test_an_edit_by_hand_is_named_and_kept(root: Path) -> None:
    with (root / MCP / EDITED).open("a", encoding="utf-8") as file:
        file.write("# mine\n")
    before = texts(root)
    done = ralphgen("upgrade", root, "--yes", "--no-install")

    assert 1 == done.returncode
    assert f"error: {EDITED} was edited by hand; not overwritten\n" in done.stderr
    assert {**before, f"{MCP}/.lock": b""} == {**texts(root), f"{MCP}/.lock": b""}


def test_new_and_gone_tools_are_named(root: Path) -> None:
    policy = root / MCP / "policy.py"
    text = policy.read_text("utf-8").replace('"delete_task",', '"old_tool",')
    policy.write_text(text, encoding="utf-8")
    head = ralphgen("upgrade", root, "--dry-run").stdout.partition("\n")[0]

    assert head.endswith("; new: ralph:delete_task; removed: ralph:old_tool")


def test_a_folder_without_a_server_is_for_init(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()

    assert refused("upgrade", tmp_path).startswith(f"there is no server in {MCP}\nhint: ")


def test_new_tools_are_named_for_a_complete_context(root: Path) -> None:
    """Later versions report them in this form; the manifest then names the tools."""
    ralphgen("regen", root, "--no-install")
    with (root / MCP / EDITED).open("a", encoding="utf-8") as file:
        file.write("# as it was\n")
    accept(root)
    manifest = root / MCP / "manifest.json"
    facts = json.loads(manifest.read_bytes())
    facts["tools"]["ralph"].remove("delete_task")
    manifest.write_text(json.dumps({**facts, "ralphgen": "0.1.0"}), encoding="utf-8")
    said = ralphgen("upgrade", root, "--dry-run")

    assert said.stdout.partition("\n")[0].endswith("; new: ralph:delete_task"), said.stderr
