"""Importing the tasks of a spec."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import (
    SCHEMAS,
    Driver,
    connected,
    context_for,
    create_database,
    create_project,
    on_context,
    query,
    quiet,
)
from specum_imports import HOME, IMPORT
from specum_projects import KITS, STATE
from specum_runs import DATABASE, TASKS, changing, lay_spec, ok, state_of
from wire import running

from ralphgen.emit.workflows import regenerate

LEAST = """
CREATE TABLE features (name TEXT PRIMARY KEY);
CREATE TABLE disciplines (name TEXT PRIMARY KEY);
INSERT INTO features VALUES ('auth');
INSERT INTO disciplines VALUES ('backend');
CREATE TABLE tasks (id INTEGER PRIMARY KEY, feature TEXT, discipline TEXT, title TEXT,
    status TEXT{more});
"""
GROUPS = """\
- [ ] 1.1 [P] a
- [ ] 1.2 [P] b
- [ ] 1.3 [P] [VERIFY] c
- [ ] 1.4 d
- [x] 1.4 again
- [ ] 2.1 [P] e
- [ ] V4 f
"""
HOSTILE = """\
- [ ] 1.1 Robert'); DROP TABLE tasks;-- "quoted" {{goal}} {% raw %} %s $& \\
  - **Do**: line one
    line "two" \x1b[31m
    ```sql
    - [ ] 9.9 no task
    ```
  - **Files**: `a b.py`, `größe/日本.py`
  - **Done when**: ["json", 'list']
  - **Verify**: `sh -c 'echo "$HOME"'`
- [ ] VE2
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a project whose schema a test may change."""
    return create_project(tmp_path / "own", config=KITS)


def imported(root: Path) -> list[tuple[str, str, str, Any]]:
    """Return, by id, the identifying data of imported tasks: key, title, status, dependencies."""
    sql = "SELECT id, tags, title, status, depends_on FROM tasks WHERE tags != '[]' ORDER BY id"
    rows = query(root, sql)
    of = {task: json.loads(tags)[1].removeprefix("spec-task:") for task, tags, *_ in rows}
    return [
        (of[task], title, status, [of[needed] for needed in json.loads(needs)])
        for task, _, title, status, needs in rows
    ]


def tagged(key: str, mark: str) -> str:
    """Return the stored tags of an imported task."""
    return f'["spec:csv","spec-task:{key}","spec-mark:{mark}"]'


def test_each_task_becomes_a_project_task_with_all_its_fields(root: Path, driver: Driver) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    with changing(root, f"specs/csv/{STATE}", "specs/csv/.progress.md", DATABASE):
        answer = ok(driver, "ralph_complete_phase", **IMPORT)
    refusal = driver.refusal("ralph_complete_phase", phase="tasks", summary="again")
    with connected(root) as tasks:
        first, last = tasks.call("get_task", id=3), tasks.call("get_task", id=5)

    assert "- **Imported**: 1.1 as task 3, 1.2 as task 4, 1.3 as task 5\n" in answer
    assert "import_tasks" not in answer  # no request for a completed step
    assert refusal.startswith("Currently in execution phase.")
    expected = {
        "id": 3,
        **HOME,
        "title": "1.1 Write the parser",
        "status": "pending",
        "description": "Do:\nparse one line\n\nFiles:\n`parser.py`\n\nCommit:\n`feat: parse`",
        "acceptance_criteria": ["a line is parsed", "verify: `pytest -q`"],
        "tags": ["spec:csv", "spec-task:1.1", "spec-mark:4f26a3975893"],
    }
    assert expected == {key: first[key] for key in expected}
    assert ["verify: `make check`"] == last["acceptance_criteria"]
    assert [3, 4] == last["depends_on"]
    assert "execution" == state_of(root, "csv")["phase"]


def test_neighbours_wait_for_the_group_before_them_and_not_for_each_other(
    root: Path, driver: Driver
) -> None:
    """Checkpoints and tasks without the mark are separate; repeated ids are distinguished."""
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=GROUPS)
    ok(driver, "ralph_complete_phase", **IMPORT)

    expected = [
        ("1.1", "1.1 a", "pending", []),
        ("1.2", "1.2 b", "pending", []),
        ("1.3", "1.3 c", "pending", ["1.1", "1.2"]),
        ("1.4", "1.4 d", "pending", ["1.3"]),
        ("1.4#2", "1.4 again", "done", ["1.4"]),
        ("2.1", "2.1 e", "pending", ["1.4#2"]),
        ("V4", "V4 f", "pending", ["2.1"]),
    ]
    assert expected == imported(root)


def test_a_task_is_imported_once_however_often_it_is_asked_for(root: Path, driver: Driver) -> None:
    """Later tasks are added to the existing ones, which do not change."""
    folder = lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    ok(driver, "ralph_complete_phase", **IMPORT)
    query(root, "UPDATE tasks SET title = 'Renamed', feature = 'search' WHERE id = 4")
    with changing(root):
        answer = ok(driver, "ralph_complete_phase", **IMPORT)
    assert "- **Imported**: nothing new\n" in answer
    assert "- **Already imported**: 1.1 as task 3, 1.2 as task 4, 1.3 as task 5\n" in answer
    with (folder / "tasks.md").open("a", encoding="utf-8") as file:
        file.write("- [ ] 1.4 Ship it\n")
    with changing(root, DATABASE):
        answer = ok(driver, "ralph_complete_phase", **IMPORT)
    lay_spec(root, "csv-2", state={"phase": "tasks"}, tasks=TASKS)
    other = ok(driver, "ralph_complete_phase", **{**IMPORT, "spec_name": "csv-2"})

    assert "- **Imported**: 1.4 as task 6\n" in answer
    assert ("1.4", "1.4 Ship it", "pending", ["1.3"]) == imported(root)[3]
    assert [("Renamed", "search")] == query(root, "SELECT title, feature FROM tasks WHERE id = 4")
    assert "- **Imported**: 1.1 as task 7, 1.2 as task 8, 1.3 as task 9\n" in other


def test_two_servers_that_import_at_the_same_time_make_each_task_once(root: Path) -> None:
    many = "".join(f"- [ ] {at}.1 Number {at}\n" for at in range(1, 201))
    lay_spec(root, "csv", state={"phase": "execution"}, tasks=many)
    context = on_context(context_for(root, "manual"))
    call = {"name": "ralph_complete_phase", "arguments": IMPORT}
    with running(root, "specum", *context) as one, running(root, "specum", *context) as other:
        for server in (one, other):
            server.shake_hands()
        for server in (one, other):
            server.send("tools/call", call, id=99)
        texts = [server.read()["result"]["content"][0]["text"] for server in (one, other)]

    assert [f"{at}.1" for at in range(1, 201)] == [key for key, *_ in imported(root)]
    assert 1 == sum("- **Imported**: nothing new\n" in text for text in texts), texts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"feature": "nope"},
            (
                'there is no feature "nope": there are "auth", "search"; to add it, call '
                "`create_feature` first"
            ),
        ),
        ({"discipline": "back"}, 'there is no discipline "back": did you mean "backend"?'),
        ({"feature": ""}, '"import_tasks" requires "feature"'),
    ],
)
def test_a_failed_import_leaves_phase_and_project_unchanged(
    root: Path, driver: Driver, given: dict[str, str], sentence: str
) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    with changing(root):
        assert sentence == driver.refusal("ralph_complete_phase", **{**IMPORT, **given})


def test_an_import_that_fails_in_its_middle_makes_no_task(own: Path) -> None:
    query(
        own,
        "CREATE TRIGGER no BEFORE INSERT ON tasks WHEN NEW.title LIKE '1.3%' "
        "BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    )
    lay_spec(own, "csv", state={"phase": "tasks"}, tasks=TASKS)
    with connected(own, kit="specum") as driver, changing(own):
        assert driver.refusal("ralph_complete_phase", **IMPORT)


def test_an_import_needs_tasks_and_the_tasks_phase(root: Path, driver: Driver) -> None:
    folder = lay_spec(root, "csv", state={"phase": "research"})
    with changing(root):
        early = driver.refusal("ralph_complete_phase", **{**IMPORT, "phase": "research"})
        wrong = driver.refusal("ralph_complete_phase", **IMPORT)
        (folder / STATE).write_text('{"phase": "tasks"}', encoding="utf-8")
        none = driver.refusal("ralph_complete_phase", **IMPORT)
        (folder / STATE).write_text('{"phase": "research"}', encoding="utf-8")

    assert '"import_tasks" requires phase "tasks": omit it' == early
    assert wrong.startswith("Currently in research phase.")
    assert "Tasks not generated: `tasks.md` of 'csv' has no tasks to import" == none


def test_hostile_text_is_stored_unchanged(root: Path, driver: Driver) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=HOSTILE)
    ok(driver, "ralph_complete_phase", **IMPORT)
    with connected(root) as tasks:
        task = tasks.call("get_task", id=3)

    first = HOSTILE.splitlines()[0]
    assert first == f"- [ ] {task['title']}"
    assert 'line one\nline "two" \x1b[31m\n```sql\n- [ ] 9.9 no task\n```' in task["description"]
    assert "`a b.py`, `größe/日本.py`" in task["description"]
    expected = ["[\"json\", 'list']", "verify: `sh -c 'echo \"$HOME\"'`"]
    assert expected == task["acceptance_criteria"]
    assert ["1.1", "VE2"] == [key for key, *_ in imported(root)]


def test_a_character_that_no_database_holds_is_refused_before_anything_is_made(
    root: Path, driver: Driver
) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks="- [ ] 1.1 a\n- [ ] 1.2 b\0c\n")
    with changing(root):
        assert '"title" contains the character U+0000' in driver.refusal(
            "ralph_complete_phase", **IMPORT
        )


def least(root: Path, more: str) -> Path:
    """Create a project whose tasks have five columns, and `more`."""
    create_database(root, LEAST.format(more=more))
    (root / ".ralph" / "ralphgen.toml").write_text(KITS, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    return root


def test_columns_that_a_project_lacks_are_left_out(tmp_path: Path) -> None:
    root = least(tmp_path, ", tags TEXT")
    with connected(root, kit="specum") as driver:
        ok(driver, "ralph_complete_phase", **IMPORT)
        query(root, "UPDATE tasks SET status = 'done' WHERE title LIKE '1.1%'")
        assert "- **Ticked because their project tasks are done or skipped**: 1.1" in ok(
            driver, "ralph_implement"
        )

    expected = [
        (1, "auth", "backend", "1.1 Write the parser", "done", tagged("1.1", "4f26a3975893")),
        (2, "auth", "backend", "1.2 Write the writer", "pending", tagged("1.2", "39fef1b3ba59")),
        (3, "auth", "backend", "1.3 Check both", "pending", tagged("1.3", "02b7fd4b142f")),
    ]
    assert expected == query(root, "SELECT * FROM tasks")


def test_without_tags_nothing_can_be_imported_and_everything_else_works(tmp_path: Path) -> None:
    root = least(tmp_path, "")
    with connected(root, kit="specum") as driver:
        with changing(root):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        ok(driver, "ralph_complete_phase", phase="tasks", summary="cut")
        assert "task 1 of 3" in ok(driver, "ralph_implement").splitlines()[0]

    assert 'the table "tasks" has no column "tags"' in refusal


def test_a_column_that_must_be_given_and_that_no_task_of_a_spec_has_is_named(
    tmp_path: Path,
) -> None:
    root = least(tmp_path, ", tags TEXT, risk TEXT NOT NULL")
    with connected(root, kit="specum") as driver, changing(root):
        assert '"tasks.risk" must not be empty' in driver.refusal("ralph_complete_phase", **IMPORT)


SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    "schema", ["a0", pytest.param("a5", marks=SOAK), pytest.param("b1", marks=SOAK), "b6"]
)
def test_every_era_of_the_schema_takes_the_tasks_over(tmp_path: Path, schema: str) -> None:
    text = (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8")
    assert "tags " in text

    root = create_project(tmp_path, schema=schema, config=KITS)
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    with connected(root, kit="specum") as driver:
        ok(driver, "ralph_complete_phase", **IMPORT)
        query(root, "UPDATE tasks SET status = 'skipped' WHERE title LIKE '1.1%'")
        assert "task 2 of 3" in ok(driver, "ralph_implement").splitlines()[0]

    assert [[], [], ["1.1", "1.2"]] == [needs for *_, needs in imported(root)]


ARGUMENTS = {"import_tasks", "feature", "discipline"}


def offered(root: Path, recipe: str, **facts: Any) -> set[str]:
    """Return the arguments of the bridge that a session of the recipe sees."""
    with connected(root, recipe, kit="specum", **facts) as driver:
        for tool in driver.tools():
            if tool["name"] == "ralph_complete_phase":
                seen = ARGUMENTS & set(tool["inputSchema"]["properties"])
                if not seen:
                    refusal = driver.refusal("ralph_complete_phase", **IMPORT)
                    assert 'unknown argument "import_tasks"' in refusal, refusal
                assert bool(seen) == ("import_tasks" in ok(driver, "ralph_help"))
                return seen
    return set()


@pytest.mark.parametrize(
    ("recipe", "may"),
    [
        ("manual", True),
        ("braindump", True),
        ("yap", True),
        ("enrichment", True),
        ("ramble", False),
        ("task_execution", False),
        ("opus_review", False),
        ("discuss", False),
        ("interactive", False),
    ],
)
def test_only_a_session_that_may_create_tasks_may_import_them(
    root: Path, recipe: str, *, may: bool
) -> None:
    assert (ARGUMENTS if may else set()) == offered(root, recipe)


def test_importing_follows_the_right_to_create_tasks(root: Path, tmp_path: Path) -> None:
    """A discipline, a context, and a disabled kit remove it alike."""
    config = KITS + '[disciplines.backend]\ndisable = ["ralph:create_task"]\n'
    disciplined = create_project(tmp_path / "disciplined", config=config)
    alone = create_project(tmp_path / "alone", config='kits = ["specum"]\n')
    specum = context_kits(root)["specum"]

    assert ARGUMENTS == offered(disciplined, "yap")
    assert set() == offered(disciplined, "yap", discipline="backend")
    assert set() == offered(root, "yap", disabled_tools={"ralph": ["create_task"]})
    assert set() == offered(root, "yap", enabled_tools={"specum": specum})
    assert set() == offered(alone, "manual")


def context_kits(root: Path) -> dict[str, list[str]]:
    told: dict[str, list[str]] = json.loads(
        context_for(root, "manual").read_text(encoding="utf-8")
    )["enabled_tools"]
    return told


def test_a_session_that_is_tied_to_a_feature_imports_there_and_nowhere_else(root: Path) -> None:
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    tied = {"ralph": {"create_task": {"feature": "search"}}}
    with connected(root, "yap", kit="specum", bindings=tied) as driver:
        with changing(root):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        given = {key: value for key, value in IMPORT.items() if key != "feature"}
        ok(driver, "ralph_complete_phase", **given)

    assert 'argument "feature" is "auth", but this session works only on' in refusal
    assert [("search",)] == query(root, "SELECT DISTINCT feature FROM tasks WHERE id > 2")


def test_a_session_that_gives_new_tasks_a_title_alone_imports_none(root: Path) -> None:
    """An import would write the denied fields: description, criteria, dependencies."""
    lay_spec(root, "csv", state={"phase": "tasks"}, tasks=TASKS)
    narrowed = {"ralph": {"create_task": ["feature", "discipline", "title"]}}
    with connected(root, "yap", kit="specum", narrowed_arguments=narrowed) as driver:
        with changing(root):
            refusal = driver.refusal("ralph_complete_phase", **IMPORT)
        answer = ok(driver, "ralph_complete_phase", phase="tasks", summary="cut")

    assert 'this session cannot import tasks: omit "import_tasks"' == refusal
    assert "import_tasks" not in answer
