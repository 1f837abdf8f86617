"""Imports leave unreadable records out, name and count them, and import the others."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cases import INIT_SCHEMA
from driving import ROWS, create_database, create_project, query, quiet

from ralphgen.doctor import examine
from ralphgen.errors import ProjectError
from ralphgen.exchange import move
from ralphgen.exchange.adopt import import_tasks
from ralphgen.exchange.move import export_file, export_text, import_rows
from ralphgen.kits.project import Project
from ralphgen.project.database import connected_database

HOMES = ("auth", "backend")
TASKS = "SELECT title, status, depends_on FROM tasks WHERE id > 2 ORDER BY id"


def issue(key: str, **more: Any) -> str:
    return json.dumps({"_type": "issue", "id": key, "title": key, "status": "open", **more})


def test_many_unreadable_records_are_named_first_and_counted_last(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (tmp_path / "x.jsonl").write_text("?\n" * 30, encoding="utf-8")

    with pytest.raises(ProjectError) as refused:
        import_tasks(root, "beads", tmp_path / "x.jsonl", homes=HOMES, dry_run=False, say=quiet)

    lines = str(refused.value).splitlines()
    assert lines[0].endswith("x.jsonl:1: invalid JSON")
    assert "10 further unreadable records" == lines[-2]
    assert "hint: fix these records, or name the format of the file with --from" == lines[-1]


@pytest.mark.parametrize("name", ["missing.db", "x.jsonl"])
def test_hint_for_another_database_is_not_about_this_one(tmp_path: Path, name: str) -> None:
    root = create_project(tmp_path / "p")
    (tmp_path / "x.jsonl").write_text("?\n", encoding="utf-8")

    with pytest.raises(ProjectError, match="hint: choose the database of a project"):
        import_rows(
            root, tmp_path / name, is_database=True, allow_removals=False, dry_run=False, say=quiet
        )


def needs(*keys: str) -> list[dict[str, str]]:
    return [{"depends_on_id": key, "type": "blocks"} for key in keys]


def page(key: str, *lines: str) -> str:
    return "\n".join(["---", f"id: {key}", *lines, "---", "", "## Description", ""])


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def take(root: Path, peer: str, path: Path, **options: Any) -> list[str]:
    """Import a peer's tasks; return the notes."""
    notes: list[str] = []
    given = {"homes": HOMES, "dry_run": False, "say": notes.append, **options}
    import_tasks(root, peer, path, **given)
    return notes


def left_out(notes: list[str]) -> list[str]:
    return [note for note in notes if note.startswith("left out ")]


class TestBeads:
    """Lines of issues.jsonl."""

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ('{"_type":"memory","key":"k","value":"v"}', 'a record of type "memory", not an issue'),
            ('{"_type":7,"id":"bd-9"}', "a record of type 7, not an issue"),
            ('{"id": "bd-9"', "invalid JSON"),
            ("[1, 2]", 'expected an issue, an object with an "id"'),
            ("null", 'expected an issue, an object with an "id"'),
            ('{"title": "x"}', 'expected an issue, an object with an "id"'),
            ('{"id": ["bd-9"], "title": "x"}', 'expected an issue, an object with an "id"'),
            (issue("bd-9", title={}), '"title" is not a string'),
            (issue("bd-9", title=" "), '"bd-9" has no title'),
            (issue("bd-9", dependencies=3), '"dependencies" is not a list of objects'),
            (issue("bd-9", comments=["x"]), '"comments" is not a list of objects'),
            (issue("bd-1"), 'duplicate id "bd-1"'),
            ("[" * 100_000, "invalid JSON"),
        ],
    )
    def test_an_unreadable_line_is_left_out_and_named(
        self, root: Path, tmp_path: Path, line: str, reason: str
    ) -> None:
        path = tmp_path / "issues.jsonl"
        path.write_text(f"{issue('bd-1')}\n{line}\n{issue('bd-2')}\n", encoding="utf-8")

        notes = take(root, "beads", path)

        assert [f"left out {path}:2: {reason}"] == left_out(notes)
        assert "warning: left out 1 unreadable record" in notes
        assert ["bd-1", "bd-2"] == [title for title, *_ in query(root, TASKS)]
        assert not any("--from" in note for note in notes)

    @pytest.mark.parametrize("status", ["awaiting_review", "QA", "needs info"])
    def test_a_custom_status_is_in_progress(self, root: Path, tmp_path: Path, status: str) -> None:
        path = tmp_path / "issues.jsonl"
        path.write_text(issue("bd-1", status=status), encoding="utf-8")

        notes = take(root, "beads", path)

        assert [("bd-1", "in_progress", "[]")] == query(root, TASKS)
        assert f'warning: the status "{status}" of the other tool becomes "in_progress"' in notes

    @pytest.mark.parametrize("place", [".", ".beads"])
    def test_a_folder_without_an_export_names_the_command(
        self, root: Path, tmp_path: Path, place: str
    ) -> None:
        write(tmp_path, {".beads/config.yaml": "", ".beads/beads.db": ""})

        with pytest.raises(ProjectError) as caught:
            take(root, "beads", tmp_path / place)

        assert "bd export" in str(caught.value)

    def test_only_links_that_keep_an_issue_from_being_ready_are_dependencies(
        self, root: Path, tmp_path: Path
    ) -> None:
        kinds = ("blocks", "waits-for", "conditional-blocks", "related", "discovered-from")
        links = [{"depends_on_id": f"bd-{kind}", "type": kind} for kind in kinds]
        removed = [{"depends_on_id": "bd-gone", "type": "blocks"}]
        lines = [
            issue("bd-gone", status="tombstone"),
            *(issue(f"bd-{kind}") for kind in kinds),
            issue("bd-x", dependencies=[*links, *removed]),
        ]
        path = tmp_path / "issues.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")

        notes = take(root, "beads", path)

        assert ("bd-x", "pending", "[3,4,5]") == query(root, TASKS)[-1]
        assert not any("bd-gone" in note for note in notes)

    def test_a_byte_that_is_not_text_leaves_nothing_out(self, root: Path, tmp_path: Path) -> None:
        path = tmp_path / "issues.jsonl"
        lines = [issue("bd-1").replace("bd-1", "caf~", 2), issue("bd-2")]
        path.write_bytes("\n".join(lines).encode().replace(b"~", b"\xe9"))

        assert not left_out(take(root, "beads", path))
        assert ["caf\ufffd", "bd-2"] == [title for title, *_ in query(root, TASKS)]

    @pytest.mark.thorough
    @pytest.mark.slow
    def test_a_task_waits_for_a_record_that_was_left_out_until_that_is_imported(
        self, root: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "issues.jsonl"
        waiting = issue("bd-2", dependencies=needs("bd-9", "bd-1"))
        lines = [issue("bd-1"), issue("bd-9", title=7.5), waiting]
        path.write_text("\n".join(lines), encoding="utf-8")

        notes = take(root, "beads", path)

        assert 'warning: "bd-2" waits for missing task 3 ("bd-9" in the other tool)' in notes
        assert [("bd-1", "pending", "[]"), ("bd-2", "pending", "[3,4]")] == query(root, TASKS)
        assert ["1 task waits for missing tasks: task 5 waits for missing task 3"] == [
            result.detail for result in examine(Project(root)) if result.subject == "tasks"
        ]

        path.write_text("\n".join([issue("bd-9"), *lines[:1], waiting]), encoding="utf-8")
        take(root, "beads", path)

        assert [(3,)] == query(root, "SELECT id FROM tasks WHERE title = 'bd-9'")
        assert [] == [result for result in examine(Project(root)) if result.subject == "tasks"]

    def test_a_new_task_does_not_get_the_number_of_a_missing_one(
        self, root: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "issues.jsonl"
        lines = [issue("bd-9", title=None), issue("bd-2", dependencies=needs("bd-9"))]
        path.write_text("\n".join(lines), encoding="utf-8")
        take(root, "beads", path)

        more = "INSERT INTO tasks (feature, discipline, title) VALUES ('auth', 'backend', 'x')"
        query(root, more)

        assert [("bd-2", "pending", "[3]"), ("x", "pending", "[]")] == [
            (title, status, needed or "[]") for title, status, needed in query(root, TASKS)
        ]


class TestBacklog:
    """Files of Backlog.md."""

    @pytest.mark.parametrize(
        "line",
        [
            "assignee: @ann",
            "assignee: [@ann]",
            "assignee: [@ann, 'ben', \"@cy\"] # two",
            "reporter: @ann",
            "milestone: `v1`",
            "custom: %percent",
            "note: a: b",
        ],
    )
    def test_a_value_that_backlog_reads_is_read(
        self, root: Path, tmp_path: Path, line: str
    ) -> None:
        text = page("TASK-1", "title: One", "status: To Do", line, "labels:", "  - web")
        folder = write(tmp_path, {"tasks/task-1 - One.md": text})

        assert not left_out(take(root, "backlog", folder))
        assert [("One", "pending", "[]")] == query(root, TASKS)
        assert [('["web","backlog:TASK-1"]',)] == query(root, "SELECT tags FROM tasks WHERE id = 3")

    @pytest.mark.parametrize(
        "title", ["Console: skip the row", "A: b: c", "`code` first", "@ann: look", "[WIP] x: y"]
    )
    def test_a_title_with_marks_of_yaml_is_read_as_text(
        self, root: Path, tmp_path: Path, title: str
    ) -> None:
        text = page("TASK-1", f"title: {title}", "status: Done", "dependencies: []")
        folder = write(tmp_path, {"tasks/task-1.md": text})

        take(root, "backlog", folder)

        assert [(title, "done", "[]")] == query(root, TASKS)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("readme.md", "# Tasks\n"),
            ("notes.md", ""),
            ("task-9 - x.md", "---\ntitle: x\n---\n"),
            ("task-9.md", "---\nid: TASK-9\n---\n"),
            ("task-9.md", page("TASK-1", "title: again")),
            ("task-9.md", page("TASK-9", "title: x", "labels:", "  a: b")),
        ],
    )
    def test_an_unreadable_file_is_left_out_and_named(
        self, root: Path, tmp_path: Path, name: str, text: str
    ) -> None:
        good = page("TASK-1", "title: One", "status: To Do")
        folder = write(tmp_path, {"tasks/task-1.md": good, f"tasks/{name}": text})

        notes = take(root, "backlog", folder)

        (line,) = left_out(notes)
        assert line.startswith(f"left out {folder / 'tasks' / name}: ")
        assert [("One", "pending", "[]")] == query(root, TASKS)

    def test_a_file_that_is_not_text_is_left_out(self, root: Path, tmp_path: Path) -> None:
        good = page("TASK-1", "title: One", "dependencies: [TASK-2]")
        folder = write(tmp_path, {"tasks/task-1.md": good})
        (folder / "tasks/task-2 - Two.md").write_bytes(b"\xff\xfe")

        notes = take(root, "backlog", folder)

        assert 1 == len(left_out(notes))
        assert 'warning: "TASK-1" waits for missing task 3 ("TASK-2" in the other tool)' in notes

    @pytest.mark.parametrize(
        ("needed", "expected"),
        [
            ("[TASK-1]", "[3]"),
            ("[task-01, 1]", "[3]"),
            ("[null, ~]", "[]"),
            ("task-9", "[3]"),
            ("[9, Task-1]", "[3,4]"),
        ],
    )
    def test_ids_are_the_same_in_any_spelling_of_backlog(
        self, root: Path, tmp_path: Path, needed: str, expected: str
    ) -> None:
        files = {
            "tasks/task-1.md": page("task-1", "title: one"),
            "tasks/task-2.md": page("TASK-2", "title: two", f"dependencies: {needed}"),
            "tasks/task-9 - x.md": "no task",
        }

        take(root, "backlog", write(tmp_path, files))

        assert ("two", "pending", expected) == query(root, TASKS)[-1]

    @pytest.mark.parametrize(
        ("place", "config"),
        [
            ("backlog", ""),
            (".backlog", ""),
            ("docs/plan", "backlog_directory: docs/plan\n"),
            ("", "backlog_directory: ../outside\n"),
        ],
    )
    def test_the_folder_of_backlog_is_found(
        self, root: Path, tmp_path: Path, place: str, config: str
    ) -> None:
        text = page("TASK-1", "title: one")
        files = {"project/backlog.config.yml": config} if config else {}
        write(tmp_path, {**files, "outside/tasks/task-2.md": page("TASK-2", "title: two")})
        write(tmp_path / "project" / place, {"tasks/task-1.md": text})

        take(root, "backlog", tmp_path / "project")

        assert [("one", "pending", "[]")] == query(root, TASKS)

    def test_a_file_of_an_older_version_has_headings(self, root: Path, tmp_path: Path) -> None:
        text = page("TASK-1", "title: one").replace("---\nid", "--- \nid")
        body = (
            "Why.\n\n## Acceptance Criteria\n\n- [ ] a\n- [x] b\n\n## Implementation Plan\n\nHow.\n"
        )
        take(root, "backlog", write(tmp_path, {"tasks/task-1.md": f"{text}\n{body}"}))

        row = "SELECT description, acceptance_criteria FROM tasks WHERE id = 3"
        assert [("Why.\n\nHow.", '["a","b"]')] == query(root, row)

    @pytest.mark.parametrize("config", ["config.yml", "backlog.config.yml", "backlog/config.yml"])
    def test_custom_statuses_map_by_their_place(
        self, root: Path, tmp_path: Path, config: str
    ) -> None:
        order = ["Triage", "Building", "Looking", "Shipped"]
        inside = "backlog/tasks" if "backlog" in config else "tasks"
        files = {
            f"{inside}/task-{at}.md": page(f"TASK-{at}", f"title: t{at}", f"status: {status}")
            for at, status in enumerate([*order, "shipped", "Blocked", "Elsewhere"])
        }
        listed = json.dumps(order)
        text = f"project_name: x\nstatuses: {listed}\ndefault_status: Triage\n"
        write(tmp_path, {config: text, **files})

        notes = take(root, "backlog", tmp_path)

        expected = ["pending", "in_progress", "in_progress", "done", "done", "blocked"]
        assert [*expected, "in_progress"] == [status for _, status, _ in query(root, TASKS)]
        assert 'warning: the status "Looking" of the other tool becomes "in_progress"' in notes


class TestOtherPeers:
    """task-master and spec-kit, and common rules."""

    def test_task_master_leaves_out_a_task_and_keeps_what_waits_for_it(
        self, root: Path, tmp_path: Path
    ) -> None:
        tasks = [
            {"id": 1, "title": ["x"], "status": "pending"},
            {"id": 2, "title": "two", "status": "odd", "dependencies": [1], "subtasks": [7]},
            "three",
            {"id": 2, "title": "two again", "status": "done"},
            {"id": 4, "title": "four", "subtasks": 3},
        ]
        path = tmp_path / "tasks.json"
        path.write_text(json.dumps({"master": {"tasks": tasks}}), encoding="utf-8")

        notes = take(root, "task-master", path)

        assert 5 == len(left_out(notes))
        assert [("two", "in_progress", "[3]"), ("four", "pending", "[]")] == query(root, TASKS)

    @pytest.mark.parametrize("other", [{}, None, {"tasks": None}, {"version": 1}, 7])
    def test_task_master_leaves_out_a_tag_without_tasks(
        self, root: Path, tmp_path: Path, other: object
    ) -> None:
        found = {"master": {"tasks": [{"id": 1, "title": "one", "priority": "High"}]}, "x": other}
        folder = write(tmp_path, {".taskmaster/tasks/tasks.json": json.dumps(found)})

        assert 1 == len(left_out(take(root, "task-master", folder)))
        assert [("one", "high")] == query(root, "SELECT title, priority FROM tasks WHERE id > 2")

    def test_spec_kit_leaves_out_a_checkbox_without_an_id_and_a_second_of_one(
        self, root: Path, tmp_path: Path
    ) -> None:
        path = tmp_path / "tasks.md"
        path.write_text("- [ ] T001 a\n- [ ] no id\n- [x] T001 b\n- [ ] T002 c\n", "utf-8")

        notes = take(root, "spec-kit", path)

        assert 2 == len(left_out(notes))
        assert [("a", "pending", "[]"), ("c", "pending", "[3]")] == query(root, TASKS)

    @pytest.mark.parametrize(
        ("peer", "files"),
        [
            ("beads", {"issues.jsonl": f"{issue('bd-1')}\n[]\n"}),
            ("backlog", {"tasks/task-1.md": page("TASK-1", "title: x"), "tasks/readme.md": "x"}),
            ("spec-kit", {"tasks.md": "- [ ] T001 a\n- [ ] b\n"}),
            ("task-master", {"tasks.json": '{"tasks": [{"id": 1, "title": "x"}, 2]}'}),
        ],
    )
    def test_strict_refuses_and_writes_nothing(
        self, root: Path, tmp_path: Path, peer: str, files: dict[str, str]
    ) -> None:
        before = export_text(root)

        with pytest.raises(ProjectError):
            take(root, peer, write(tmp_path / "other", files), strict=True)

        assert before == export_text(root)


class TestExports:
    """Exports of ralphgen itself."""

    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            (
                "UPDATE tasks SET feature = 'gone' WHERE id = 1",
                'task 1 names the feature "gone", which does not exist',
            ),
            (
                "UPDATE tasks SET discipline = 'gone' WHERE id = 1",
                'task 1 names the discipline "gone", which does not exist',
            ),
            (
                "INSERT INTO task_comments (task_id, author, body) VALUES (77, 'x', 'y')",
                "comment 1 names task 77, which does not exist",
            ),
        ],
    )
    def test_a_row_that_no_database_would_take_is_left_out(
        self,
        root: Path,
        tmp_path: Path,
        make_empty: Callable[[], Path],
        statement: str,
        reason: str,
    ) -> None:
        query(root, statement)
        said: list[str] = []
        export_file(root, tmp_path / "rows.jsonl", said.append)

        notes = take_rows(make_empty(), tmp_path / "rows.jsonl")

        assert [f"warning: {reason}: imports leave this row out"] == said
        assert [f"left out {tmp_path / 'rows.jsonl'}: {reason}"] == left_out(notes)

    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize(
        ("statement", "reason"),
        [
            (
                "UPDATE tasks SET feature = 'gone' WHERE id = 1",
                'task 1 names the feature "gone", which does not exist',
            ),
            ("DELETE FROM tasks WHERE id = 1", "comment 1 names task 1, which does not exist"),
        ],
    )
    def test_a_row_that_names_nothing_is_kept_without_a_foreign_key(
        self, tmp_path: Path, statement: str, reason: str, *, strict: bool
    ) -> None:
        schema = INIT_SCHEMA.read_text(encoding="utf-8")
        free = re.sub(r" REFERENCES \w+ \(\w+\) ON DELETE [A-Z ]+", "", schema)
        said = "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'x', 'y')"
        create_database(tmp_path / "a", free, ROWS, said)
        create_database(tmp_path / "b", free)
        query(tmp_path / "a", statement)
        warnings: list[str] = []
        export_file(tmp_path / "a", tmp_path / "rows.jsonl", warnings.append)

        notes = take_rows(tmp_path / "b", tmp_path / "rows.jsonl", strict=strict)

        assert [] == warnings
        assert f"warning: {reason}" in notes
        assert export_text(tmp_path / "a") == export_text(tmp_path / "b")

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE tasks SET depends_on = '[999]' WHERE id = 1",
            "UPDATE tasks SET depends_on = '[2, 998, 999]' WHERE id = 1",
            "UPDATE tasks SET depends_on = 'nonsense' WHERE id = 1",
            "UPDATE tasks SET depends_on = '[1]' WHERE id = 2",
            "UPDATE tasks SET depends_on = '[' || (3 - id) || ']'",
        ],
    )
    @pytest.mark.parametrize("strict", [False, True])
    def test_import_reads_what_export_writes(
        self,
        root: Path,
        tmp_path: Path,
        make_empty: Callable[[], Path],
        statement: str,
        *,
        strict: bool,
    ) -> None:
        query(root, statement)
        export_file(root, tmp_path / "rows.jsonl", quiet)
        empty = make_empty()

        take_rows(empty, tmp_path / "rows.jsonl", strict=strict)

        assert export_text(root) == export_text(empty)

    def test_a_slow_import_may_take_its_time(
        self,
        root: Path,
        tmp_path: Path,
        make_empty: Callable[[], Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        export_file(root, tmp_path / "rows.jsonl", quiet)
        impatient = partial(connected_database, patience=0.001)
        monkeypatch.setattr(move, "opened_database", impatient)
        empty = make_empty()
        numbers = "SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300000"
        query(empty, f"CREATE VIEW many AS WITH RECURSIVE n(i) AS ({numbers}) SELECT i FROM n")
        body = "BEGIN SELECT count(*) FROM many; END"
        query(empty, f"CREATE TRIGGER slow AFTER INSERT ON tasks {body}")

        take_rows(empty, tmp_path / "rows.jsonl")

        assert export_text(root) == export_text(empty)

    @pytest.mark.parametrize(
        "line",
        [
            '{"table": "tasks"',
            '{"table": "nothing", "row": {"id": 1}}',
            '{"table": "tasks", "row": {}}',
            "7",
        ],
    )
    def test_an_unreadable_line_is_left_out_and_nothing_is_removed(
        self, root: Path, tmp_path: Path, line: str
    ) -> None:
        file = tmp_path / "rows.jsonl"
        export_file(root, file, quiet)
        lines = file.read_text(encoding="utf-8").splitlines()
        changed = [
            line if '"id": 2,' in one and '"tasks"' in one else one.replace("Log in", "Sign in")
            for one in lines
        ]
        file.write_text("\n".join(changed), encoding="utf-8")
        before = query(root, "SELECT count(*) FROM tasks")

        with pytest.raises(ProjectError):
            take_rows(root, file, strict=True)
        notes = take_rows(root, file)

        assert "warning: left out 1 unreadable record" in notes
        assert before == query(root, "SELECT count(*) FROM tasks")
        assert not any("gone" in note for note in notes)


def take_rows(root: Path, file: Path, *, strict: bool = False) -> list[str]:
    """Import an export; return the notes."""
    notes: list[str] = []
    import_rows(
        root,
        file,
        is_database=False,
        dry_run=False,
        allow_removals=False,
        say=notes.append,
        strict=strict,
    )
    return notes


@pytest.fixture
def make_empty(tmp_path: Path) -> Callable[[], Path]:
    """Return a function that creates a project with the tables and no row."""

    def make() -> Path:
        create_database(tmp_path / "empty", INIT_SCHEMA.read_text(encoding="utf-8"))
        return tmp_path / "empty"

    return make
