"""Tasks on the board, on both engines, and in databases without what later ones have."""

from pathlib import Path

import pytest
from board_browsers import notice_in, running_board
from engines import ENGINES, on_engine
from postgresql import needs_postgresql

from ralphgen.agents.edits import ClashError, EditedProject
from ralphgen.board.task import UPDATE, WAS, TaskActions, TaskView, fields_for, task_view
from ralphgen.board.tasks import SORTS, STATES, TaskQuery, task_listing
from ralphgen.board.text import Form
from ralphgen.kits.project import Project

pytestmark = pytest.mark.slow

ROWS = """
UPDATE tasks SET priority = 'low', description = '100%_of it' WHERE id = 1;
INSERT INTO tasks (id, feature, discipline, title, status, depends_on, priority) VALUES
    (3, 'auth', 'backend', '“Ü” over all', 'done', '[]', 'high'),
    (4, 'auth', 'backend', 'zebra', 'draft', '[1, 3, 99]', NULL),
    (10, 'auth', 'backend', 'x', 'in_progress', '[]', 'critical');
INSERT INTO task_comments (id, task_id, author, body) VALUES (1, 1, 'me', 'why');
INSERT INTO ralphgen_sessions (id, recipe, started, agent, outcome, task_id)
    VALUES ('s', 'r', '2026-02-10T00:00:00Z', 'a', 'done', 1);
INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, began)
    VALUES (10, 's', 1, '2026-02-10T00:00:00.123Z', '2026-02-10T00:01:00.123Z', '2026-02-10')
"""
ASKED = (
    *(TaskQuery(sort=column, down=down) for column in SORTS for down in (False, True)),
    *(TaskQuery(state=state) for state in STATES),
    *(TaskQuery(search=text) for text in ("ü", "%_", "1", "ZEBRA", "'", "!")),
    TaskQuery(view="columns"),
    TaskQuery(status="open", feature="auth", discipline="backend"),
)


def seen(root: Path, task: int) -> TaskView:
    """A task, which is there."""
    with Project(root).task_rows() as (rows, schema):
        view = task_view(rows, schema.hidden, task, 1, 1)
    assert view is not None
    return view


@needs_postgresql
def test_lists_tasks_and_changes_are_the_same_on_both_engines(tmp_path: Path) -> None:
    lists, views, stored = list[object](), list[TaskView](), list[object]()
    for engine in ("sqlite", "postgresql"):
        with on_engine(engine, tmp_path / engine / "p", ledger=True) as project:
            project.run(*ROWS.split(";\n"))
            with Project(project.root).task_rows() as (rows, _):
                lists.append([task_listing(rows, asked) for asked in ASKED])
            views.append(seen(project.root, 1))
            actions = TaskActions(project.root)
            fields = (("title", "New"), ("depends_on", "3"), ("was.title", "Log in"))
            edited = actions.edit(1, Form((*fields, ("was.depends_on", ""))))
            late = actions.edit(1, Form((("was.title", "Log in"), ("title", "Mine"))))
            stored.append(
                project.query(
                    "SELECT title, depends_on::text FROM tasks WHERE id = 1"
                    if project.dsn
                    else "SELECT title, depends_on FROM tasks WHERE id = 1"
                )
            )

            assert (True, 409) == (edited.result.ok, late.status), edited
    assert lists[0] == lists[1]
    assert views[0].comments == views[1].comments
    assert views[0].dependents == views[1].dependents
    assert [one.session_id for one in views[0].sessions] == ["s"]
    assert [("New", "[3]")] == stored[0] == stored[1]


@pytest.mark.parametrize("schema", ["a0", "b6"])
def test_a_database_without_optional_columns_is_shown_and_changed(
    tmp_path: Path, schema: str
) -> None:
    with on_engine("sqlite", tmp_path / "p", schema=schema) as project:
        with Project(project.root).task_rows() as (rows, _):
            lists = [task_listing(rows, asked) for asked in ASKED]
        view = seen(project.root, 1)
        fields = (("title", "New"), ("was.title", view.task.title))
        edited = TaskActions(project.root).edit(1, Form(fields))

    assert all(one.statuses for one in lists)
    assert edited.result.ok, edited


ODD = {
    "sqlite": "title = CAST(X'ff41' AS TEXT), description = 7.5, hints = 9e999, tags = 'a;b',"
    " depends_on = '[1,', context_files = '', estimated_turns = 7",
    "postgresql": "description = E'a\\r\\nb', tags = '[\"a\", 1]', depends_on = '[]',"
    " context_files = NULL",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_field_is_saved_beside_any_that_a_database_may_hold(tmp_path: Path, engine: str) -> None:
    """The board and its server read the same value, in any stored form."""
    with on_engine(engine, tmp_path / "p") as project:
        project.query(f"UPDATE tasks SET {ODD[engine]} WHERE id = 2")
        actions = TaskActions(project.root)
        fields = fields_for(actions.schemas()[UPDATE], seen(project.root, 2).row)
        same = [(name, one.was) for one in fields for name in (one.name, f"{WAS}{one.name}")]
        edited = actions.edit(2, Form((*same, ("acceptance_criteria", "It works"))))

        assert "task 2: changed acceptance_criteria" == edited.result.message


@pytest.mark.parametrize("engine", ENGINES)
def test_title_and_description_are_saved_on_the_board_unless_others_were_first(
    engine: str, tmp_path: Path
) -> None:
    columns = "SELECT project_title, project_description FROM metadata"
    with (
        on_engine(engine, tmp_path / "p", ledger=True) as project,
        running_board(project.root) as board,
    ):
        page = board.get("sections/overview")
        form = {"was.title": "Shop", "was.description": "", "title": "Shop"}
        sent = {**form, "description": "<b>Sells</b>"}
        saved = board.follow(board.post("project", sent))
        shown = board.get("sections/overview")
        late = board.post("project", {**form, "description": "Mine & theirs"})
        blank = board.post("project", {"was.title": "Shop", "title": " "})
        foreign = board.post("project", {**sent, "title": "Evil"}, origin="http://evil.example")
        stored = project.query(columns)
        project.run("DELETE FROM metadata")
        first = board.post("project", {"was.title": "", "title": "New", "description": "x"})

        assert 'action="/project"' in page
        assert "project: changed description" in notice_in(saved)
        assert "&lt;b&gt;Sells&lt;/b&gt;" in shown
        assert (409, True) == (late.status, "Mine &amp; theirs" in late.text)
        assert "description&#34; has changed in the meantime" in late.text
        assert "must not be blank" in blank.text
        assert 403 == foreign.status
        assert [("Shop", "<b>Sells</b>")] == stored
        assert first.status in (200, 303)
        assert [("New", "x")] == project.query(columns)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_edit_of_the_project_that_another_has_made_is_refused(
    engine: str, tmp_path: Path
) -> None:
    with on_engine(engine, tmp_path / "p", ledger=True) as project:
        mine, theirs = EditedProject(project.root), EditedProject(project.root)
        theirs.write({"title": "Theirs"})
        with pytest.raises(
            ClashError, match='it was "Shop", is now "Theirs", and you typed "Mine"'
        ):
            mine.write({"title": "Mine"})
        assert {"changed": ["description"]} == mine.write({"description": "Sells"})
        stored = project.query("SELECT project_title, project_description FROM metadata")

    assert [("Theirs", "Sells")] == stored
