"""The list of tasks: groups, their order, filters, addresses, and sizes."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from board_browsers import Elements, Running, notice_in, running_board
from board_rows import LAX, add_claim, add_row, add_task, add_tasks, lax_database, rows_of
from board_rows import recorded_database as recorded
from driving import create_project, query
from engines import ENGINES, on_engine
from held_tasks import held_on
from mornings import morning
from postgresql import needs_postgresql

from ralphgen.board.render import render
from ralphgen.board.tasks import (
    KINDS,
    MOST_ROWS,
    STATES,
    TaskGroup,
    TaskList,
    TaskQuery,
    search,
    task_query,
)
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.runtime.tasks.claims import next_tasks

FAR = "2999-01-01T00:00:00.000Z"
HOSTILE = "<script>alert('1')</script> & \"quotes\" \u202e\u0000 " + "x" * 300
Needs = Mapping[int, tuple[str, str]]


def read(rows: Rows, needs: Needs, asked: TaskQuery) -> tuple[TaskList, list[TaskGroup]]:
    """The list of tasks, and its groups by a query."""
    tasks = TaskList(rows, needs)
    return tasks, tasks.read(asked, search(rows, asked.q) if asked.q else None)


def groups(
    connection: sqlite3.Connection, needs: Needs | None = None, **fields: str
) -> list[TaskGroup]:
    rows = rows_of(connection)
    return read(rows, needs or {}, task_query(fields))[1]


def ids(found: list[TaskGroup]) -> dict[str, list[int]]:
    return {group.name: [row["id"] for row in group.rows] for group in found if group.rows}


def row_of(found: list[TaskGroup], task: int) -> SimpleNamespace:
    rows = (row for group in found for row in group.rows)
    return next(SimpleNamespace(**row) for row in rows if row["id"] == task)


def page_of(connection: sqlite3.Connection, **fields: str) -> str:
    """The whole page, as the board draws it."""
    rows, asked = rows_of(connection), task_query(fields)
    tasks, found = read(rows, {}, asked)
    frame = {"project": "P", "alone": False, "places": (), "here": "", "badge": 0}
    shown = {"query": asked, "groups": found, "tasks": tasks}
    more = {"states": STATES, "everything": "/tasks", "title": "Tasks", "change": 0, "notice": None}
    return render("tasks.html.jinja", {"frame": frame, **shown, **more})


class TestGroups:
    """Each task is in one group, by its state."""

    def test_each_status_has_its_group(self) -> None:
        with recorded() as connection:
            statuses = (
                "pending",
                "in_progress",
                "blocked",
                "draft",
                "done",
                "skipped",
                "odd",
                None,
            )
            for task, status in enumerate(statuses, 1):
                add_task(connection, task, status)
            add_task(connection, 9, "pending", depends_on="[1]")
            found = groups(connection)

        assert {
            "next": [1],
            "progress": [2],
            "needs": [3],
            "waiting": [9],
            "other": [7, 8],
            "drafts": [4],
            "done": [6, 5],
        } == ids(found)
        assert "has the status “odd”" == row_of(found, 7).reason.words
        assert "has no status" == row_of(found, 8).reason.words
        assert "skipped" == row_of(found, 6).reason.words
        assert "" == row_of(found, 5).reason.words

    def test_next_tasks_are_in_the_order_of_agents(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(task, "pending", []) for task in range(1, 7)])
            connection.execute("UPDATE tasks SET priority = 'high' WHERE id IN (3, 5)")
            add_task(connection, 7, "pending", depends_on="[5]")
            for position, task in enumerate((6, 2), 1):
                add_row(connection, "order", task_id=task, position=position)
            found = groups(connection)
            rows = rows_of(connection)
            order = next_tasks(rows.connection, rows.stored)

        assert [6, 2, 5, 3, 1, 4] == order == ids(found)["next"]
        assert [1, 2, 3, 4, 5, 6] == [row["number"] for row in found[0].rows]
        assert [1, 1, 2, 3, 4, 5] == [row["up"] for row in found[0].rows]
        assert [2, 3, 4, 5, 6, 6] == [row["down"] for row in found[0].rows]

    def test_a_filtered_row_moves_over_the_rows_that_are_seen(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(task, "pending", []) for task in range(1, 6)])
            connection.execute("UPDATE tasks SET feature = 'g' WHERE id IN (2, 4)")
            (found,) = groups(connection, feature="g")

        assert [(2, 1, 4), (4, 2, 5)] == [
            (row["number"], row["up"], row["down"]) for row in found.rows
        ]

    def test_claimed_tasks_name_their_agent_and_stale_ones_are_next(self) -> None:
        with recorded() as connection:
            add_row(
                connection, "sessions", id="s-1", recipe="r", started="2026-01-01", agent="claude"
            )
            add_tasks(
                connection, [(1, "in_progress", []), (2, "in_progress", []), (3, "pending", [])]
            )
            add_task(connection, 4, "in_progress", depends_on="[3]")
            begun = {"taken": "2026-01-01T00:00:00Z", "began": "2026-01-01T00:00:00Z"}
            add_claim(connection, 1, "s-1", expires=FAR, **begun)
            add_claim(connection, 2, "gone", expires="2026-01-02T00:00:00Z", **begun)
            add_claim(connection, 4, "gone", expires="2026-01-02T00:00:00Z", **begun)
            add_tasks(connection, [(5, "pending", []), (6, "in_progress", [])])
            add_claim(connection, 5, "s-1", expires=FAR, taken=begun["taken"])
            add_claim(connection, 6, "gone", expires="2026-01-02T00:00:00Z", taken=begun["taken"])
            found = groups(connection)
            stale = groups(connection, state="stale")

        assert {"next": [2, 3], "progress": [1, 4, 5, 6]} == ids(found)
        live, left = row_of(found, 1), row_of(found, 2)
        assert ("s-1", "claude", "2026-01-01T00:00:00Z") == (live.session, live.agent, live.since)
        assert ("stale: left by", "a session") == (left.reason.words, left.agent)
        assert {"next": [2], "progress": [4]} == ids(stale)

    def test_merging_tasks_are_in_progress_and_not_done(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(1, "done", []), (2, "done", []), (3, "pending", [1])])
            add_row(connection, "merges", **MERGE)
            found = groups(connection)

        assert {"progress": [1], "waiting": [3], "done": [2]} == ids(found)
        assert "merging" == row_of(found, 1).reason.words
        assert ((1, "T (not merged yet)"),) == row_of(found, 3).reason.links

    def test_the_inbox_decides_what_needs_you(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(1, "blocked", []), (2, "in_progress", []), (3, "done", [])])
            add_task(connection, 4, "blocked", blocked_by="no key")
            add_task(connection, 5, "pending")
            needs = {3: ("conflict", "conflicts"), 2: ("question", "asks"), 5: ("stuck", "failed")}
            found = groups(connection, needs)

        assert {"next": [5], "needs": [3, 2, 1, 4]} == ids(found)
        assert "question" == row_of(found, 2).mark
        assert "no key" == row_of(found, 4).reason.words
        assert "failed" == row_of(found, 5).reason.words


MERGE = {"task_id": 1, "work": "c", "target": "main", "entered": "2026-01-01"}


class TestReasons:
    """A row names the cause why its task waits."""

    def test_a_task_waits_for_the_named_tasks(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(task, "draft", []) for task in range(1, 5)])
            add_tasks(
                connection, [(5, "done", []), (6, "pending", [1]), (7, "pending", [1, 2, 3, 5])]
            )
            found = groups(connection)

        assert ("waits for", ((1, "T"),), "") == row_of(found, 6).reason
        assert ("waits for", ((1, "T"), (2, "T")), " and 1 more") == row_of(found, 7).reason
        assert 2 == row_of(found, 1).holds_up

    def test_missing_and_unreadable_dependencies_are_words(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(1, "pending", [99]), (2, "draft", []), (3, "pending", [2, 98])])
            add_task(connection, 4, "pending", depends_on="[1, oops")
            add_task(connection, 5, "pending", depends_on=f"[{10**30}]")
            found = groups(connection)
            adrift = groups(connection, state="adrift")
            unreadable = groups(connection, state="unreadable")

        assert "waits for #99, which is not there" == "".join(
            map(str, row_of(found, 1).reason[::2])
        )
        assert ", and for #98, which is not there" == row_of(found, 3).reason.more
        assert "waits: its dependencies cannot be read" == row_of(found, 4).reason.words
        assert {"waiting": [1, 3, 5]} == {name: sorted(one) for name, one in ids(adrift).items()}
        assert {"waiting": [4]} == ids(unreadable)

    def test_a_merge_of_a_deleted_task_holds_up_nothing(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(3, "pending", [1])])
            add_row(connection, "merges", **MERGE)
            found = groups(connection)

        assert "waits for #1, which is not there" == "".join(row_of(found, 3).reason[::2])

    def test_circles_are_named(self) -> None:
        with recorded() as connection:
            add_tasks(connection, [(1, "pending", [2]), (2, "pending", [1]), (3, "pending", [3])])
            add_tasks(connection, [(4, "pending", [1])])
            found = groups(connection)
            circle = groups(connection, state="circle")

        assert ("waits in a circle with", ((2, "T"),), "") == row_of(found, 1).reason
        assert "waits for itself" == row_of(found, 3).reason.words
        assert "waits for" == row_of(found, 4).reason.words
        assert {"waiting": [1, 2, 3]} == {name: sorted(one) for name, one in ids(circle).items()}


class TestFilters:
    """The address decides which tasks are shown."""

    @pytest.mark.parametrize(
        ("fields", "wanted"),
        [
            ({"q": "log IN"}, [1]),
            ({"q": "PASSWORD"}, [1]),
            ({"q": "4"}, [4]),
            ({"q": "#4"}, [4]),
            ({"q": "%_"}, [3]),
            ({"q": "ÜBER"}, [4]),
            ({"q": "' OR 1=1 --"}, []),
            ({"q": "9" * 30}, []),
            ({"feature": "auth", "discipline": "qa"}, [3]),
            ({"feature": "auth'"}, []),
            ({"priority": "high"}, [1, 4]),
            ({"priority": "high", "q": "ü"}, [4]),
            ({"state": "waiting"}, [4]),
            ({"state": "next"}, [1]),
            ({"state": "done"}, [3]),
            ({"state": "done", "discipline": "backend"}, []),
            ({"state": "no such"}, [1, 2, 3, 4]),
            ({"layout": "board", "q": "over"}, [2]),
        ],
    )
    def test_the_list_is_searched_and_filtered(
        self, fields: dict[str, str], wanted: list[int]
    ) -> None:
        with lax_database(f"{LAX}ALTER TABLE tasks ADD COLUMN description;") as connection:
            add_task(
                connection, 1, "pending", title="Log in", description="by password", priority="high"
            )
            add_task(connection, 2, "draft", title="Over", feature="shop")
            add_task(connection, 3, "done", title="100%_sure", feature="auth", discipline="qa")
            add_task(
                connection, 4, "pending", title="Über alles", depends_on="[2]", priority="high"
            )
            found = groups(connection, None, **fields)

        assert wanted == sorted(one for shown in ids(found).values() for one in shown)

    def test_an_address_reads_back_as_its_query(self) -> None:
        asked = TaskQuery("a&b=ü", "f", "d", "low", "waiting", "board", 3)
        _, _, text = asked.address(page=3).partition("?")
        fields = dict(pair.split("=") for pair in text.split("&"))

        assert {"q", "feature", "discipline", "priority", "state", "layout", "page"} == {*fields}
        assert "/tasks" == TaskQuery().address()
        assert "/tasks?state=next" == TaskQuery(page=7).address(state="next")
        assert TaskQuery() == task_query({"state": "x", "layout": "y", "page": "-1"})


@pytest.fixture(scope="module")
def many() -> Iterator[sqlite3.Connection]:
    """Ten thousand tasks of every status."""
    with closing(recorded()) as connection:
        statuses = ("pending", "pending", "draft", "done", "blocked", "odd", "in_progress")
        add_tasks(
            connection,
            ((task, statuses[task % 7], [task - 1] * (task % 7 == 1)) for task in range(10_000)),
        )
        connection.execute("UPDATE tasks SET title = 'Let a user of it do number ' || id")
        yield connection


class TestSizes:
    """A page has few rows, of however many tasks."""

    @pytest.mark.parametrize("state", ["", *KINDS])
    @pytest.mark.parametrize("layout", ["", "board"])
    def test_ten_thousand_tasks_make_a_small_page(
        self, many: sqlite3.Connection, state: str, layout: str
    ) -> None:
        page = page_of(many, state=state, layout=layout)

        assert len(page.encode()) < 120_000
        assert page.count("data-row") <= MOST_ROWS
        assert "Show more" in page

    @pytest.mark.thorough
    def test_more_leads_to_the_group_alone_and_on_to_its_end(
        self, many: sqlite3.Connection
    ) -> None:
        fields, seen = {"state": "drafts"}, list[int]()
        while True:
            (group,) = groups(many, None, **fields)
            seen += [row["id"] for row in group.rows]
            if not group.more:
                break
            fields = dict(pair.split("=") for pair in group.more.partition("?")[2].split("&"))
        past = groups(many, state="drafts", page="99")[0]

        assert [task for task in range(10_000) if task % 7 == 2] == seen
        assert past.rows[-1]["id"] == seen[-1]
        assert "/tasks?state=drafts&page=14" == past.before

    def test_sixty_tasks_fit_into_sixty_kilobytes(self) -> None:
        with recorded() as connection:
            add_tasks(connection, ((task, "pending", []) for task in range(60)))

            assert len(page_of(connection).encode()) < 60_000


class TestPages:
    """What the board shows of a project."""

    def test_hostile_texts_are_text(self) -> None:
        with recorded() as connection:
            add_task(connection, 1, "pending", title=HOSTILE, feature=HOSTILE, discipline=HOSTILE)
            add_task(connection, 2, HOSTILE, title=None, priority=HOSTILE, depends_on=HOSTILE)
            add_task(connection, 3, b"\xff", title=b"\xff\xfe", updated=HOSTILE, depends_on="[1]")
            add_task(connection, 4, "pending", title=1.5, depends_on="[1]", created=7)
            for layout in ("", "board"):
                page = page_of(connection, layout=layout, q="", feature=HOSTILE[:99])
                page += page_of(connection, layout=layout)

                assert "<script>alert" not in page
                assert "<script>alert('1')" in Elements(page).words
                assert "\0" not in page

    def test_empty_groups_are_words(self) -> None:
        with recorded() as connection:
            assert "No task is ready." in page_of(connection)
            assert "0 tasks match." in page_of(connection, q="x")

    @pytest.mark.parametrize("layout", ["", "board"])
    def test_without_a_ledger_the_page_says_what_it_lacks(self, layout: str) -> None:
        with lax_database() as connection:
            add_task(connection, 1, "pending")
            page = page_of(connection, layout=layout)

        assert "ralphgen db ledger on" in page
        assert "/move" not in page

    def test_optional_columns_may_be_missing(self) -> None:
        schema = LAX.replace(", priority,\n    depends_on, blocked_by, created, updated", "")
        with lax_database(schema) as connection:
            add_task(connection, 1, "pending")
            add_task(connection, 2, "done")
            page = page_of(connection, priority="high")
            found = groups(connection)

        assert {"next": [1], "done": [2]} == ids(found)
        assert 'name="priority"' not in page
        assert "0 tasks match." in page


ROWS = """
UPDATE tasks SET priority = 'low', description = '100%_of it', depends_on = '[]' WHERE id = 1;
INSERT INTO tasks (id, feature, discipline, title, status, depends_on, priority) VALUES
    (3, 'auth', 'backend', '“Ü” over all', 'done', '[]', 'high'),
    (4, 'auth', 'backend', 'zebra', 'pending', '[1, 3, 99]', NULL),
    (5, 'auth', 'backend', 'circle', 'pending', '[5]', 'critical'),
    (10, 'auth', 'backend', 'x', 'in_progress', '[]', 'critical');
INSERT INTO ralphgen_sessions (id, recipe, started, agent, outcome, task_id)
    VALUES ('s', 'r', '2026-02-10T00:00:00Z', 'a', 'done', 1);
INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, began)
    VALUES (10, 's', 1, '2026-02-10T00:00:00.123Z', '2026-02-10T00:01:00.123Z', '2026-02-10');
INSERT INTO ralphgen_order (task_id, position) VALUES (1, 1)
"""
ASKED = (
    *(TaskQuery(state=state) for state in ("", *STATES)),
    *(TaskQuery(q=text) for text in ("ü", "%_", "1", "ZEBRA", "'", "!", "9" * 19)),
    TaskQuery(layout="board"),
    TaskQuery(feature="auth", discipline="backend", priority="high"),
)


def listed(root: Path) -> list[list[TaskGroup]]:
    """The groups of a project, by each of the queries."""
    with Project(root).task_rows() as (rows, _):
        return [read(rows, {}, asked)[1] for asked in ASKED]


@pytest.mark.slow
@needs_postgresql
def test_lists_are_the_same_on_both_engines(tmp_path: Path) -> None:
    lists = []
    for engine in ("sqlite", "postgresql"):
        with on_engine(engine, tmp_path / engine / "p", ledger=True) as project:
            project.run(*ROWS.split(";\n"))
            lists.append(listed(project.root))

    assert lists[0] == lists[1]
    assert {"next": [1, 10], "done": [3]} == {
        name: found for name, found in ids([*lists[0][0]]).items() if name != "waiting"
    }


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["a0", "b6"])
def test_a_database_without_optional_columns_is_listed(tmp_path: Path, schema: str) -> None:
    with on_engine("sqlite", tmp_path / "p", schema=schema) as project:
        assert ids([*listed(project.root)[0]])


@pytest.mark.slow
def test_hidden_columns_are_not_shown(tmp_path: Path) -> None:
    config = '[schema]\nhide = ["tasks.priority", "tasks.depends_on", "tasks.description"]\n'
    root = create_project(tmp_path / "p", ROWS.split(";\n", maxsplit=1)[0], config=config)
    with running_board(root) as board:
        page = board.get("tasks?q=100")

    assert 'name="priority"' not in page
    assert "0 tasks match." in page


@pytest.fixture(params=ENGINES)
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Running, Path]]:
    """A board on a project with three tasks that can be begun."""
    with held_on(request.param, tmp_path / "p") as root, running_board(root) as running:
        yield running, root


@pytest.mark.slow
class TestBoard:
    """The page in a running board, without JavaScript."""

    def test_buttons_move_a_task_and_the_page_follows(self, board: tuple[Running, Path]) -> None:
        running, _ = board
        before = running.get("tasks")
        page = running.follow(running.post("tasks/3/move", {"place": "1"}))

        assert before.index('id="task-1"') < before.index('id="task-3"')
        assert page.index('id="task-3"') < page.index('id="task-1"')
        assert "#3 is number 1 in the order" in notice_in(page)

    def test_a_line_adds_a_task(self, board: tuple[Running, Path]) -> None:
        running, root = board
        page = running.follow(running.post("tasks", {"line": "Ship it #auth @backend !high"}))

        assert [("Ship it", "high")] == query(
            root, "SELECT title, priority FROM tasks WHERE id NOT IN (1, 2, 3)"
        )
        assert ">Ship it</a>" in page

    def test_the_list_is_a_part_that_shows_every_change(self, board: tuple[Running, Path]) -> None:
        running, root = board
        first = running.get("tasks?part=list")
        query(root, "UPDATE tasks SET title = 'Changed', status = 'blocked' WHERE id = 2")
        second = running.get("tasks?part=list")

        assert first.lstrip().startswith("<div")
        assert "Changed" not in first
        assert "Changed" in second[second.index("Needs you") :]


@pytest.mark.slow
def test_the_morning_after_a_night_is_sorted_into_groups(tmp_path: Path) -> None:
    with running_board(morning(tmp_path / "p")) as board:
        page = board.get("tasks")
    words = " ".join(Elements(page).texts)
    titles = [
        title for title in ("Up next", "Needs you", "Waiting", "Drafts", "Done") if title in words
    ]

    assert sorted(titles, key=words.index) == titles
    assert "#22 Import berths from the harbour register" in words
    assert len(page.encode()) < 60_000
