"""Exports are the same on both engines, and imports do the same: merge or refuse."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driving import quiet
from engines import EngineProject, on_engine

from ralphgen.errors import ProjectError
from ralphgen.exchange.adopt import import_tasks
from ralphgen.exchange.move import BASE, export_file, export_text, import_rows
from ralphgen.project.schema import open_rows

pytestmark = pytest.mark.slow

BEADS = Path(__file__).parent / "peers/beads"
SERVERS = [{"name": "tickets", "command": "npx", "args": ["-y"], "env": {"TOKEN": "s3cret"}}]


def take(root: Path, file: Path, say: Callable[[str], None] = quiet) -> list[str]:
    changes = import_rows(
        root, file, is_database=False, dry_run=False, allow_removals=True, say=say
    )
    return [str(change) for change in changes]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[EngineProject]:
    with on_engine("postgresql", tmp_path / "ours", ledger=True) as project:
        yield project


@pytest.fixture
def file(ours: EngineProject, tmp_path: Path) -> Path:
    """An export: what both sides have in common from now on."""
    path = tmp_path / "rows.jsonl"
    export_file(ours.root, path)
    return path


def edit(file: Path, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = {f"{one['table']} {one['row'].get('id') or one['row']['name']}": one for one in lines}
    change({key: one["row"] for key, one in rows.items()})
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows.values())
    file.write_text(text, encoding="utf-8")


def test_the_same_rows_are_the_same_bytes_on_both_engines(tmp_path: Path) -> None:
    with (
        on_engine("sqlite", tmp_path / "one") as one,
        on_engine("postgresql", tmp_path / "other") as other,
    ):
        for project in (one, other):
            text = json.dumps(SERVERS, separators=(",", ":"))
            project.query("UPDATE disciplines SET mcp_servers = ?", text)
            project.query("UPDATE tasks SET description = ?", "“ü”\t\\N\n'$1' 🜚 \x01")

        assert export_text(one.root) == export_text(other.root)


def test_changes_of_one_side_are_adopted_and_secrets_remain(
    ours: EngineProject, tmp_path: Path
) -> None:
    ours.query("UPDATE disciplines SET mcp_servers = ? WHERE name = 'backend'", json.dumps(SERVERS))
    file, said = tmp_path / "rows.jsonl", list[str]()
    export_file(ours.root, file)

    def change(rows: dict[str, dict[str, object]]) -> None:
        rows["tasks 1"]["title"] = "Sign in"
        rows["tasks 1"]["depends_on"] = "[ ]"
        rows["disciplines backend"]["system_prompt"] = "You do."

    edit(file, change)
    ours.query("UPDATE tasks SET status = 'done' WHERE id = 1")
    done = take(ours.root, file, said.append)

    assert [
        'change the row "backend" of disciplines: system_prompt',
        "change task 1: title",
    ] == done
    assert [("Sign in", "done")] == ours.query("SELECT title, status FROM tasks WHERE id = 1")
    assert "s3cret" in str(ours.query("SELECT mcp_servers FROM disciplines"))
    assert any(line.startswith("no backup was made") for line in said)
    assert [] == take(ours.root, file)


def test_new_rows_keep_their_numbers_and_later_ones_follow(ours: EngineProject, file: Path) -> None:
    lines = file.read_text(encoding="utf-8")
    last = lines.splitlines(keepends=True)[-1]
    file.write_text(lines + last.replace('"id": 2', '"id": 70'), encoding="utf-8")
    take(ours.root, file)
    added = ours.query(
        "INSERT INTO tasks (feature, discipline, title, status) "
        "SELECT feature, discipline, 'x', 'pending' FROM tasks LIMIT 1 RETURNING id"
    )

    assert [(71,)] == added
    assert [("import",)] == ours.query("SELECT tool FROM ralphgen_journal WHERE row_key = '70'")


def test_what_postgresql_does_not_hold_is_named_before_anything_is_written(
    ours: EngineProject, file: Path
) -> None:
    edit(file, lambda rows: rows["tasks 2"].update(title="a\0b"))
    before = export_text(ours.root)
    with pytest.raises(
        ProjectError, match='task 2: "title": a string contains the character U\\+0000'
    ):
        take(ours.root, file)

    assert before == export_text(ours.root)


def test_tasks_of_another_tool_are_made_once(ours: EngineProject, tmp_path: Path) -> None:
    shutil.copytree(BEADS, tmp_path / "beads")
    homes = ("auth", "backend")
    made = [
        len(import_tasks(ours.root, "beads", BEADS, homes=homes, dry_run=False, say=quiet))
        for _ in range(2)
    ]
    with open_rows(ours.root) as rows:
        count = rows.tasks()

    assert made[0] > 1
    assert [0] == made[1:]
    assert count > 2
    assert not (ours.root / BASE).exists()
