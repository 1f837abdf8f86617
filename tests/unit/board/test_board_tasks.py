"""Tasks on the board: their list, their pages, and the user's changes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from board_browsers import Elements, Running, notice_in, part, running_board, whole
from command_line import initialized, run_sql
from driving import create_project, made_here, query
from proved_projects import proved_project

from ralphgen.emit.workflows import regenerate
from ralphgen.ledger.tables import add_tables

pytestmark = pytest.mark.slow

ROWS = """
UPDATE tasks SET description = 'Ask for a name\r\nand a password', priority = 'high',
    acceptance_criteria = '["It opens","It closes"]' WHERE id = 1;
INSERT INTO tasks (id, feature, discipline, title, status, depends_on, priority) VALUES
    (3, 'auth', 'backend', 'Write 100%_sure', 'done', '[]', 'low'),
    (4, 'auth', 'backend', 'Über alles', 'draft', '[1, 3, 99]', NULL),
    (5, 'auth', 'frontend', 'Blocked one', 'blocked', '[1]', 'critical');
UPDATE features SET architecture = 'Layers', learnings = '[{"text":"Salt it","source":"human"}]';
UPDATE disciplines SET conventions = 'Small commits';
INSERT INTO task_comments (id, task_id, author, body, created) VALUES
    (1, 1, 'me', 'Why?\nBecause.', '2026-02-10T00:00:00Z')
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("tasks") / "p")
    run_sql(root, *ROWS.split(";\n"))
    return root


@pytest.fixture(scope="module")
def board(project: Path) -> Iterator[Running]:
    """A board without changes."""
    with running_board(project) as running:
        yield running


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(project, tmp_path / "p"))


def titles(page: str) -> list[str]:
    """The tasks of the list, by their links."""
    found = Elements(part(page, "tasks")).of("a")
    return [str(one["href"]) for one in found if "data-item" in one]


def asked(board: Running, **fields: str) -> list[int]:
    """The ids of the tasks that a list with these fields names, in its order."""
    links = titles(whole(board, f"tasks?{urlencode(fields)}"))
    return [int(link.removeprefix("/tasks/")) for link in links]


class TestTheList:
    """The list shows the tasks that its address requests."""

    def test_it_names_every_task_each_with_a_link(self, board: Running) -> None:
        assert [1, 2, 3, 4, 5] == asked(board)

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("fields", "wanted"),
        [
            ({"q": "log IN"}, [1]),
            ({"q": "PASSWORD"}, [1]),
            ({"q": "4"}, [4]),
            ({"q": "#4"}, [4]),
            ({"q": "%_"}, [3]),
            ({"q": "über"}, [4]),
            ({"q": "ÜBER"}, [4]),
            ({"q": "' OR 1=1 --"}, []),
            ({"status": "done"}, [3]),
            ({"status": "draft"}, [4]),
            ({"status": "open"}, [1, 2, 4, 5]),
            ({"status": "no such"}, []),
            ({"discipline": "frontend"}, [2, 5]),
            ({"feature": "auth", "discipline": "backend", "status": "done"}, [3]),
            ({"state": "ready"}, [1]),
            ({"state": "waiting"}, [2]),
            ({"state": "blocked"}, [5]),
            ({"state": "adrift"}, [4]),
            ({"state": "stale"}, []),
            ({"sort": "title"}, [5, 1, 2, 3, 4]),
            ({"sort": "priority"}, [5, 1, 3, 2, 4]),
            ({"sort": "id", "order": "down"}, [5, 4, 3, 2, 1]),
            ({"sort": "id; DROP TABLE tasks"}, [1, 2, 3, 4, 5]),
            ({"page": "99"}, [1, 2, 3, 4, 5]),
        ],
    )
    def test_it_is_searched_filtered_and_sorted_by_its_address(
        self, board: Running, fields: dict[str, str], wanted: list[int]
    ) -> None:
        assert wanted == asked(board, **fields)

    def test_it_is_drawn_anew_without_what_stands_below_it(self, board: Running) -> None:
        assert '<section id="status"' in whole(board, "tasks")
        assert '<section id="status"' not in whole(board, "tasks?only=tasks")
        assert [1, 2, 3, 4, 5] == asked(board, only="tasks")

    def test_it_has_a_column_for_each_status(self, board: Running) -> None:
        page = part(whole(board, "tasks?view=columns"), "tasks")

        assert [4, 1, 2, 3, 5] == asked(board, view="columns")
        assert "<table" not in page

    def test_it_is_cut_into_pages_and_lists_lead_to_what_they_leave_out(self, root: Path) -> None:
        rows = ", ".join(f"({task}, 'auth', 'backend', 'T', 'pending')" for task in range(101, 221))
        run_sql(root, f"INSERT INTO tasks (id, feature, discipline, title, status) VALUES {rows}")
        with running_board(root) as board:
            first, second = asked(board, q="T", sort="id"), asked(board, state="ready", page="2")
            page = whole(board, "tasks")
            overview = whole(board, "")

        assert 50 == len(first) == len(second)
        assert 150 == second[0]
        assert 'href="/tasks?page=2"' in page
        assert 'href="/tasks?state=ready"' in page
        assert 'href="/tasks?state=ready"' in overview
        assert 'href="/tasks/101"' in part(overview, "overview")


class TestATask:
    """Its page shows everything related to it."""

    def test_its_page_has_what_the_brief_has(self, board: Running) -> None:
        words = " ".join(Elements(whole(board, "tasks/1")).words.split())

        for text in (
            *("Log in", "Ask for a name", "It closes", "Layers", "Salt it", "Small commits"),
            *("Why?", "Show the form", "Waited for by"),
        ):
            assert text in words

    def test_it_links_what_it_waits_for_and_what_waits_for_it(self, board: Running) -> None:
        links = [str(one["href"]) for one in Elements(whole(board, "tasks/4")).of("a")]

        assert {"/tasks/1", "/tasks/3"} <= {*links}
        assert "which is not there" in whole(board, "tasks/4")
        assert "Because." in part(whole(board, "tasks/4"), "task")  # the last comment on 1
        assert 'href="/tasks/4"' in whole(board, "tasks/3")

    def test_of_very_many_that_it_waits_for_the_first_are_told_of(self, root: Path) -> None:
        ids = [*range(10_001, 12_001)]
        query(root, "UPDATE tasks SET depends_on = ? WHERE id = 1", json.dumps(ids))
        with running_board(root) as board:
            page = whole(board, "tasks/1")

        assert "#10100" in page
        assert "#10101" not in page
        assert "and 1,900 more" in page
        assert len(page) < 200_000

    @pytest.mark.parametrize("path", ["tasks/77", "tasks/99999999999999999999", "tasks/x"])
    def test_there_is_none_that_is_not_there(self, board: Running, path: str) -> None:
        assert 404 == board.ask("GET", path).status


def form_of(page: str, action: str) -> dict[str, str]:
    """The fields of the first form that posts there, as a browser would send them untouched."""
    found = next(one for one in page.split("<form ")[1:] if f'action="{action}"' in one)
    html = found.partition("</form>")[0]
    fields = {
        str(one["name"]): str(one.get("value") or "")
        for one in Elements(html).of("input")
        if one.get("name") and one.get("type") != "checkbox"
    }
    for chunk in html.split("<textarea ")[1:]:
        name = chunk.partition('name="')[2].partition('"')[0]
        fields[name] = Elements(chunk.partition(">")[2].partition("</textarea>")[0]).words[1:]
    for chunk in html.split("<select ")[1:]:
        name = chunk.partition('name="')[2].partition('"')[0]
        options = Elements(chunk.partition("</select>")[0]).of("option")
        fields[name] = next((str(o["value"]) for o in options if "selected" in o), "")
    return fields


class TestEditing:
    """The user changes tasks by the rules of the tools."""

    def test_what_was_typed_is_stored_and_nothing_else(self, root: Path) -> None:
        before = query(root, "SELECT * FROM tasks WHERE id = 1")
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            same = board.follow(board.post("tasks/1/edit", fields))
            unchanged = query(root, "SELECT * FROM tasks WHERE id = 1")
            changed = {**fields, "title": "Log in again", "acceptance_criteria": "One\n\nTwo "}
            page = board.follow(board.post("tasks/1/edit", changed))

        assert "nothing to change" in notice_in(same)
        assert before == unchanged
        assert "changed acceptance_criteria, title" in notice_in(page)
        assert [("Log in again", '["One","Two"]', "high")] == query(
            root, "SELECT title, acceptance_criteria, priority FROM tasks WHERE id = 1"
        )

    def test_an_emptied_field_is_emptied_and_one_that_must_not_be_is_kept(self, root: Path) -> None:
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            board.follow(board.post("tasks/1/edit", {**fields, "priority": "", "description": ""}))
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            refused = board.post("tasks/1/edit", {**fields, "title": " ", "hints": "kept words"})

        assert [("Log in", None, None, None)] == query(
            root, "SELECT title, priority, description, hints FROM tasks WHERE id = 1"
        )
        assert 422 == refused.status
        assert "kept words" in refused.text

    def test_of_two_who_edit_at_once_the_second_sees_both_versions_and_loses_nothing(
        self, root: Path
    ) -> None:
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            board.follow(board.post("tasks/1/edit", {**fields, "title": "First"}))
            typed = {**fields, "title": "Second", "hints": "of the second"}
            answer = board.post("tasks/1/edit", typed)
            stored = query(root, "SELECT title, hints FROM tasks WHERE id = 1")
            table = answer.text[answer.text.index("As you read it") :]
            again = board.follow(board.post("tasks/1/edit", form_of(answer.text, "/tasks/1/edit")))
            other = board.post("tasks/1/edit", {**fields, "description": "other field"})

        assert 409 == answer.status
        assert [("First", None)] == stored
        assert all(words in table for words in ("Log in", "First", "Second"))
        assert "changed hints, title" in notice_in(again)
        assert 409 == other.status
        assert [("Second", "of the second")] == query(
            root, "SELECT title, hints FROM tasks WHERE id = 1"
        )

    @pytest.mark.thorough
    def test_what_the_other_alone_has_changed_is_no_conflict_and_stays(self, root: Path) -> None:
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            theirs = {**fields, "title": "First", "hints": "theirs", "description": ""}
            board.follow(board.post("tasks/1/edit", theirs))
            mine = {**fields, "title": "Second", "tags": "mine"}
            answer = board.post("tasks/1/edit", mine)
            form = form_of(answer.text, "/tasks/1/edit")
            found = board.post("tasks/1/edit", mine, Accept="application/json").json["conflicts"]
            board.follow(board.post("tasks/1/edit", form))
            stored = query(root, "SELECT title, hints, description, tags FROM tasks WHERE id = 1")
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/edit")
            query(root, "UPDATE tasks SET hints = 'theirs again' WHERE id = 1")
            apart = board.post("tasks/1/edit", {**fields, "tags": "mine\nand more"})
            board.follow(board.post("tasks/1/edit", form_of(apart.text, "/tasks/1/edit")))

        assert [("Title", True), ("Description", False), ("Hints", False)] == [
            (one["label"], one["both"]) for one in found
        ]
        assert 'someone else has changed "Title"' in notice_in(answer.text)
        assert [["Both changed", "Others changed"], ["Others changed"]] == [
            [text for text in Elements(page.text).texts if text.endswith(" changed")]
            for page in (answer, apart)
        ]
        assert ("Second", "theirs", "", "mine") == tuple(
            form[name] for name in ("title", "hints", "description", "tags")
        )
        assert [("Second", "theirs", None, '["mine"]')] == stored
        assert [("Second", "theirs again", '["mine","and more"]')] == query(
            root, "SELECT title, hints, tags FROM tasks WHERE id = 1"
        )

    def test_a_task_that_was_to_be_added_to_what_it_waits_for_stays_in_the_form(
        self, root: Path
    ) -> None:
        sent = {"was.depends_on": "1, 3, 99", "depends_on": "1, 3, 99", "depends_on.more": "5"}
        with running_board(root) as board:
            query(root, "UPDATE tasks SET depends_on = '[1,3]' WHERE id = 4")
            answer = board.post("tasks/4/edit", sent)
            form = form_of(answer.text, "/tasks/4/edit")

        assert 409 == answer.status
        assert ("1, 3, 99, 5", "1, 3") == (form["depends_on"], form["was.depends_on"])

    @pytest.mark.thorough
    def test_what_it_waits_for_is_added_put_in_order_and_taken_away(self, root: Path) -> None:
        def stored() -> object:
            return query(root, "SELECT depends_on FROM tasks WHERE id = 4")

        with running_board(root) as board:
            run_sql(root, "UPDATE tasks SET depends_on = '[1, 3]' WHERE id = 4")
            forms = whole(board, "tasks/4").split('action="/tasks/4/edit"')[1:]
            sent = [
                {
                    str(one["name"]): str(one.get("value") or "")
                    for one in Elements(form.partition("</form>")[0]).of("input")
                }
                for form in forms
            ]
            by_words = {
                Elements(form.partition("<button>")[2].partition("</button>")[0]).words: fields
                for form, fields in zip(forms, sent, strict=True)
            }
            (more,) = [fields for fields in sent if "depends_on.more" in fields]
            board.follow(board.post("tasks/4/edit", {**more, "depends_on.more": "#5"}))
            added = stored()
            run_sql(root, "UPDATE tasks SET depends_on = '[1, 3]' WHERE id = 4")
            (earlier,) = [fields for words, fields in by_words.items() if "Earlier" in words]
            board.follow(board.post("tasks/4/edit", earlier))
            ordered = stored()
            late = board.post("tasks/4/edit", earlier)
            circle = board.post("tasks/1/edit", {"depends_on": "4", "was.depends_on": ""})

        assert [("[1,3,5]",)] == added
        assert [("[3,1]",)] == ordered
        assert 409 != late.status  # it is as it was asked for already
        assert 422 == circle.status
        assert "would create a cycle" in circle.text

    def test_a_task_is_added_and_its_page_is_shown(self, root: Path) -> None:
        with running_board(root) as board:
            empty = form_of(whole(board, "tasks/new"), "/tasks/new")
            given = {**empty, "title": "New <b>", "feature": "auth", "discipline": "backend"}
            refused = board.post("tasks/new", {**given, "depends_on": "999"})
            page = board.follow(board.post("tasks/new", {**given, "depends_on": "1 3"}))

        assert 422 == refused.status
        assert "New &lt;b&gt;" in refused.text
        assert "tasks that do not exist: 999" in refused.text
        assert "New &lt;b&gt;" in part(page, "task")
        assert [("New <b>", "[1,3]", "human")] == query(
            root, "SELECT title, depends_on, provenance FROM tasks WHERE id = 6"
        )

    @pytest.mark.thorough
    def test_an_empty_project_says_what_comes_first(self, tmp_path: Path) -> None:
        with running_board(initialized(tmp_path / "empty")) as board:
            tasks, new, overview = (whole(board, path) for path in ("tasks", "tasks/new", ""))
            none_like_it = whole(board, "tasks?q=nothing")

        assert "There are no tasks yet" in part(tasks, "tasks")
        assert "No task is like this" in part(none_like_it, "tasks")
        assert "ralphgen feature add NAME" in part(new, "new-task")
        assert "ralphgen feature add NAME" in part(overview, "overview")

    def test_a_comment_is_added_under_its_columns_name(self, root: Path) -> None:
        with running_board(root) as board:
            page = board.follow(board.post("tasks/1/comments", {"body": "A\r\nB", "author": "Ada"}))
            blank = board.post("tasks/1/comments", {"body": " ", "author": "Ada"})

        assert [("Ada", "A\nB")] == query(
            root, "SELECT author, body FROM task_comments WHERE id = 2"
        )
        assert "Ada" in part(page, "task")
        assert 422 == blank.status

    def test_a_question_is_answered_by_an_option_or_a_text(self, root: Path) -> None:
        add_tables(root)
        regenerate(root, force=False, say=lambda _: None)
        ask = (
            "INSERT INTO ralphgen_questions (task_id, session, asked, question, options) "
            "VALUES (5, 's', 't', 'A <b> zone?', '[\"UTC\"]')"
        )
        query(root, ask)
        with running_board(root) as board:
            page = part(whole(board, "tasks/5"), "task")
            late = board.post("tasks/5/answer", {"question": "7", "option": "UTC"})
            blank = board.post("tasks/5/answer", {"question": "1", "answer": " "})
            after = board.follow(board.post("tasks/5/answer", {"question": "1", "option": "UTC"}))
            again = board.post("tasks/5/answer", {"question": "1", "answer": "local"})
            query(root, "UPDATE tasks SET status = 'blocked' WHERE id = 5")
            query(root, ask)
            board.post("tasks/5/answer", {"question": "2", "answer": "local"})

        assert "A &lt;b&gt; zone?" in page
        assert [422] * 3 == [late.status, blank.status, again.status]
        assert "An agent asks" not in part(after, "task")
        found = query(root, "SELECT answer FROM ralphgen_questions ORDER BY number")
        assert [("UTC",), ("local",)] == found
        assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 5")

    def test_a_status_is_set_by_the_rules_of_the_tools(self, root: Path) -> None:
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/1"), "/tasks/1/status")
            said = {**fields, "status": "done", "summary": "It works"}
            page = board.follow(board.post("tasks/1/status", said))
            late = board.post("tasks/1/status", {**fields, "status": "skipped", "summary": "mine"})
            wrong = board.post(
                "tasks/2/status", {"status": "done", "was.status": "pending", "reason": "why"}
            )

        assert "nothing keeps 2 any longer" in notice_in(page)
        assert 409 == late.status
        assert "mine" in late.text
        assert 422 == wrong.status
        assert "is only for the status" in wrong.text
        assert [("done",)] == query(root, "SELECT status FROM tasks WHERE id = 1")

    @pytest.mark.thorough
    def test_the_gate_refuses_what_is_not_proved_but_by_a_persons_word(
        self, tmp_path: Path
    ) -> None:
        root = proved_project(tmp_path / "p")
        with running_board(root) as board:
            page = whole(board, "tasks/1")
            fields = {**form_of(page, "/tasks/1/status"), "status": "done", "summary": "mine"}
            refused = board.post("tasks/1/status", fields)
            lacking = board.post("tasks/1/status", {**fields, "because": "tried"})
            forced = {**fields, "force": "1", "because": "Tried by hand"}
            done = board.follow(board.post("tasks/1/status", forced))

        assert "What must pass before it is done" in page
        assert [422, 422] == [refused.status, lacking.status]
        assert "tests" in notice_in(refused.text)
        assert "mine" in part(refused.text, "task")
        assert "pending → done" in notice_in(done)
        assert [("done",)] == query(root, "SELECT status FROM tasks WHERE id = 1")

    def test_where_the_server_does_not_start_the_task_is_shown_and_says_so(
        self, root: Path
    ) -> None:
        (root / ".ralph/mcp/manifest.json").unlink()
        with running_board(root) as board:
            page = part(whole(board, "tasks/1"), "task")
            refused = board.post("tasks/1/edit", {"title": "X"})

        assert "Nothing can be changed here" in page
        assert "<form" not in page
        assert "Log in" in page
        assert 422 == refused.status

    @pytest.mark.thorough
    def test_a_draft_is_made_ready(self, root: Path) -> None:
        with running_board(root) as board:
            fields = form_of(whole(board, "tasks/4"), "/tasks/4/enrich")
            refused = board.post("tasks/4/enrich", {**fields, "pseudocode": " ", "hints": "kept"})
            board.follow(board.post("tasks/4/enrich", {**fields, "pseudocode": "1. Think"}))
            page = whole(board, "tasks/4")

        assert 422 == refused.status
        assert [("pending", "1. Think")] == query(
            root, "SELECT status, pseudocode FROM tasks WHERE id = 4"
        )
        assert "/tasks/4/enrich" not in page

    def test_programs_of_the_page_are_answered_in_json(self, root: Path) -> None:
        with running_board(root) as board:
            sent = {"title": "X", "was.title": "of another"}
            answer = board.post("tasks/1/edit", sent, Accept="application/json")
            done = board.act("tasks/1/edit", {"title": "X", "was.title": "Log in"})

        assert 409 == answer.status
        assert ["Log in"] == [one["now"] for one in answer.json["conflicts"]]
        assert (True, 1) == (done["ok"], done["task"])

    def test_it_is_on_record_as_a_persons(self, root: Path) -> None:
        add_tables(root)
        regenerate(root, force=False, say=lambda _: None)
        made_here(root)
        with running_board(root) as board:
            board.act("tasks/1/edit", {"title": "X", "was.title": "Log in"})
            page = whole(board, "tasks/1")

        ((tool, recipe),) = query(
            root,
            "SELECT j.tool, s.recipe FROM ralphgen_journal j JOIN ralphgen_sessions s ON"
            " s.id = j.session",
        )
        assert ("update_task", "manual") == (tool, recipe)
        assert "with update_task" in page


ATTACK = "</textarea></select><script>alert(1)</script>\"><img src=x onerror='alert(2)'>{{ 7*7 }}"


def test_stored_markup_is_text_in_every_field(root: Path) -> None:
    stored = ATTACK.replace("'", "''")
    found = query(root, "SELECT name FROM pragma_table_info('tasks') WHERE type = 'TEXT'")
    columns = [name for (name,) in found if name not in ("feature", "discipline")]
    every = ", ".join(f"{name} = '{stored}'" for name in columns)
    run_sql(
        root,
        f"UPDATE tasks SET {every} WHERE id IN (1, 2)",
        f"UPDATE task_comments SET body = '{stored}', author = '{stored}', created = '{stored}'",
        f"UPDATE features SET architecture = '{stored}', learnings ="
        f" json_array(json_object('text', '{stored}', 'source', '{stored}'))",
        f"UPDATE disciplines SET conventions = '{stored}', skills = json_array('{stored}')",
    )
    with running_board(root) as board:
        pages = [
            whole(board, "tasks"),
            whole(board, f"tasks?{urlencode({'q': ATTACK, 'status': ATTACK, 'view': 'columns'})}"),
            whole(board, "tasks/1"),
            whole(board, "tasks/1/edit"),
            whole(board, f"tasks/new?{urlencode({'title': ATTACK, 'description': ATTACK})}"),
            board.post(
                "tasks/1/edit",
                {"title": ATTACK, "was.title": ATTACK, "hints": "x", "was.hints": ATTACK * 2},
            ).text,
        ]
    for page in pages:
        elements = Elements(page)
        assert [] == elements.of("img")
        assert {"/assets/board.js", "/assets/keys.js"} == {
            str(one.get("src")) for one in elements.of("script")
        }
        assert not [name for _, given in elements.found for name in given if name.startswith("on")]
        assert "49" not in part(page, "tasks") if '<section id="tasks"' in page else True


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path",
    [
        *("tasks/new", "tasks/1/edit", "tasks/4/enrich", "tasks/1/status", "tasks/1/comments"),
        "tasks/5/answer",
    ],
)
def test_a_form_of_another_page_is_refused(root: Path, path: str) -> None:
    fields = {"title": "x", "status": "done", "body": "x"}
    before = query(root, "SELECT * FROM tasks")
    with running_board(root) as board:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        forged = [
            board.ask("POST", path, {**kind, **more}, urlencode(fields)).status
            for more in (
                {"Origin": "http://evil.example"},
                {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
                {},
                {"Origin": board.origin, "Cookie": "ralphgen_board=1"},
            )
        ]

    assert [403] * 4 == forged
    assert before == query(root, "SELECT * FROM tasks")
