"""The board and the report are the same on both engines, and an edit is saved on either."""

from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest
from engines import EngineProject, on_engine

from ralphgen.board.discipline_forms import Edit, save
from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.overview import project_status
from ralphgen.board.page import SECTIONS
from ralphgen.board.project import PACE, Board, ChangeWatch
from ralphgen.board.record import RecordQuery, project_record
from ralphgen.board.sections import PageQuery, report, view
from ralphgen.board.sessions import (
    is_known,
    read_session,
    read_sessions,
    tree_of,
    undo_preview,
    work_of,
)
from ralphgen.kits.project import Project
from ralphgen.project.database import open_database

pytestmark = pytest.mark.slow

ROWS = """
UPDATE tasks SET depends_on = '[1, 9]', blocked_by = ' words ' WHERE id = 2;
INSERT INTO tasks (id, feature, discipline, title, status)
    VALUES (3, 'auth', 'backend', '“Ü”', 'done'),
    (10, 'auth', 'backend', 'x', 'in_progress');
UPDATE features SET learnings = '["a learning"]';
INSERT INTO task_comments (id, task_id, author, body)
    VALUES (1, 2, 'me', 'why');
INSERT INTO ralphgen_sessions (id, recipe, started, agent, outcome, cost_usd, task_id)
    VALUES ('s', 'r', '2026-02-10T00:00:00Z', 'a', 'done', 0.5, 2),
    ('p', 'manual', '2026-02-10T00:00:00Z', NULL, 'ended', NULL, NULL);
INSERT INTO ralphgen_claims (task_id, session, token, taken, expires)
    VALUES (10, 's', 1, '2026-02-10T00:00:00.123Z', '2026-02-10T00:01:00.123Z'),
    (2, 's', 2, '2026-02-10T00:00:00.123Z', NULL);
INSERT INTO ralphgen_journal (time, session, tool, table_name, row_key, before, after)
    VALUES ('2026-02-10T00:00:00Z', 's', 't', 'tasks', '2', '{}', '{}'),
    ('2026-02-10T00:00:00Z', 's', 't', 'task_comments', '1', NULL, '{"body":"why"}');
INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, started, seconds, tree,
    exit_code) VALUES (2, 's', 'c', 'd', '2026-02-10T00:00:00Z', 1.5, 't', 0)
"""


def views(project: EngineProject) -> list[object]:
    root = project.root
    with open_database(root) as connection:
        schema = Project(root).schema_in(connection)
        disciplines = read_disciplines(root).rows
        return [
            asdict(project_status(connection, schema, root)),
            project_record(connection, schema, RecordQuery(task="2")),
            [(row.name, row.shown, row.servers, row.disabled) for row in disciplines],
            read_sessions(root),
        ]


@pytest.mark.thorough
def test_every_view_and_the_report_are_the_same_on_both_engines(tmp_path: Path) -> None:
    with (
        on_engine("sqlite", tmp_path / "a" / "p", ledger=True) as one,
        on_engine("postgresql", tmp_path / "b" / "p", ledger=True) as other,
    ):
        for project in (one, other):
            project.run(*ROWS.split(";\n"))
        entries = [f"- {at} [manual] \u201c\u00dc\u201d\n    more" for at in range(30)]
        text = "".join(f"{entry}\n" for entry in entries)
        (one.root / ".ralph/progress.txt").write_text(text, encoding="utf-8")
        add = "INSERT INTO ralphgen_entries (file, entry) VALUES ('progress.txt', ?)"
        for entry in entries:
            other.query(add, entry)
        ours, theirs = views(one), views(other)
        reports = [report(project.root, sessions=True) for project in (one, other)]

    assert "- 29 [manual]" in reports[1]
    for mine, other_one in zip(ours, theirs, strict=True):
        assert mine == other_one
    assert reports[0].split("<h2")[2] == reports[1].split("<h2")[2]


def test_the_page_of_a_session_and_its_undo_are_the_same_on_both_engines(tmp_path: Path) -> None:
    with (
        on_engine("sqlite", tmp_path / "a" / "p", ledger=True) as one,
        on_engine("postgresql", tmp_path / "b" / "p", ledger=True) as other,
    ):
        for project in (one, other):
            project.run(*ROWS.split(";\n"))
        ours, theirs = (
            (
                read_session(project.root, "s", ours=False),
                work_of(project.root, "s"),
                tree_of(project.root, "s"),
                undo_preview(project.root, "s"),
                is_known(project.root, "none"),
            )
            for project in (one, other)
        )

    assert ours == theirs
    assert ours[0] is not None
    assert ("2", "$0.5000") == (ours[0].task, ours[0].record and ours[0].record.cost)
    assert ours[1] is not None
    assert (2, 1) == (len(ours[1].changes), len(ours[1].runs))
    assert 1 == ours[3].changed


@pytest.mark.thorough
def test_an_edit_is_saved_and_journaled_and_one_of_what_was_changed_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.emit.workflows.install_environment", lambda *_, **__: None)
    with on_engine("postgresql", tmp_path, ledger=True) as project:
        project.query("ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides jsonb")
        before = read_disciplines(project.root).named("backend")
        assert before is not None
        edit = Edit(discipline="backend", fingerprint=before.fingerprint, disabled=("delete_task",))
        said = list[str]()
        first = save(project.root, edit, said.append)
        second = save(project.root, edit, said.append)
        kept = project.query("SELECT mcp_tool_overrides FROM disciplines WHERE name = 'backend'")
        tools = project.query("SELECT tool FROM ralphgen_journal")

    assert ("saved", ()) == (first.state, first.problems)
    assert "stale" == second.state
    assert {"additional_disabled": ["delete_task"]} == kept[0][0]
    assert [("board",)] == tools


def test_a_write_of_anybody_is_noticed_at_the_next_slower_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.project.SETTLED", 1e9)
    with on_engine("postgresql", tmp_path, ledger=True) as project:
        now = [0.0]
        watch = ChangeWatch(project.root, lambda: now[0])
        first = watch.marks()

        project.query("UPDATE tasks SET status = 'done' WHERE id = 1")
        assert first == watch.marks()

        now[0] += PACE
        later = watch.marks()
        assert (first.matrix, first.status) != (later.matrix, later.status)
        assert first.matrix == later.matrix
        project.query("INSERT INTO ralphgen_entries (file, entry) VALUES ('progress.txt', '- 1')")
        now[0] += PACE
        assert later.status != watch.marks().status
        with psycopg.connect(project.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
        now[0] += PACE
        assert later.matrix != watch.marks().matrix


@pytest.mark.thorough
def test_every_section_of_the_page_is_there(tmp_path: Path) -> None:
    with on_engine("postgresql", tmp_path, ledger=True) as project:
        board = Board(project.root)
        for name in SECTIONS:
            assert view(board, name, PageQuery("backend"))
        assert board.heading().title
