"""Undoing a session after others wrote the same rows: their writes are kept, on both engines."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from driving import query
from engines import CONFIG, LEDGER, MARKER, VARIABLE, for_postgresql
from histories import make_database
from postgresql import database, needs_postgresql, template_of

from ralphgen.ledger.tables import prune
from ralphgen.ledger.undo import Undone, undo_session
from ralphgen.project.database import opened_database

SCHEMA = """
CREATE TABLE houses (name TEXT PRIMARY KEY, note TEXT);
CREATE TABLE guests (
    id INTEGER PRIMARY KEY,
    house TEXT REFERENCES houses (name) ON DELETE SET NULL ON UPDATE CASCADE
);
"""
TRIGGER = """
CREATE TRIGGER mark AFTER UPDATE OF house ON guests BEGIN
    UPDATE houses SET note = coalesce(NEW.house, 'none') WHERE name = 'h';
END;
"""
FUNCTION = """
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN UPDATE houses SET note = coalesce(NEW.house, 'none') WHERE name = 'h'; RETURN NULL; END$$;
CREATE TRIGGER mark AFTER UPDATE OF house ON guests FOR EACH ROW EXECUTE FUNCTION mark();
"""
pytestmark = pytest.mark.slow
NEW = "INSERT INTO houses VALUES ('h', 'old')"
GONE = "DELETE FROM houses WHERE name = 'h'"
RENAMED = "UPDATE houses SET name = 'i' WHERE name = 'h'"
FOREIGN = "it does not match the journal: another program may have changed it"


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.thorough])]
)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "sqlite":
        make_database(tmp_path, SCHEMA, TRIGGER)
        yield tmp_path
        return
    (tmp_path / ".ralph/backups").mkdir(parents=True)
    (tmp_path / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    ledger = for_postgresql(LEDGER.read_text(encoding="utf-8"))
    with (
        database(template_of(f"{SCHEMA}{FUNCTION}{ledger}{MARKER}")) as dsn,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(VARIABLE, dsn)
        yield tmp_path


def run(root: Path, *steps: str) -> dict[str, str]:
    """Run steps such as `c: UPDATE …`, each by a session, without one unrecorded, and `u: undo c`.

    Returns the ids of undos by such names.
    """
    ids: dict[str, str] = {}
    for step in steps:
        session, _, sql = step.partition(": ")
        if sql.startswith("undo "):
            name = sql.removeprefix("undo ")
            ids[session] = undo_session(root, ids.get(name, name)).session
            continue
        with opened_database(root) as opened:
            if session:
                journal = opened.journal(session, {"recipe": "manual"}, lambda: "write")
                opened.before_writes.append(journal.begin)
            opened.writing(partial(opened.change, sql))
    return ids


def note(value: str, name: str = "h") -> str:
    return f"UPDATE houses SET note = '{value}' WHERE name = '{name}'"


def rows(root: Path) -> list[list[tuple[object, ...]]]:
    return [query(root, f"SELECT * FROM {table} ORDER BY 1") for table in ("houses", "guests")]


def results_by_key(undone: Undone) -> dict[object, str]:
    """Return the result of each row by the first column of its key."""
    return {row.key[0]: row.done or row.left for row in undone.rows}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((f"b: {note('B')}", f"c: {note('C')}", f"c: {note('B')}"), id="update"),
        pytest.param((f"b: {GONE}", f"c: {NEW}", f"c: {GONE}"), id="delete"),
        pytest.param((f"b: {note('B')}", f"c: {GONE}", f"c: {NEW}", f"c: {note('B')}"), id="row"),
        pytest.param(
            (f"b: {note('B')}", f"c: {RENAMED}", "c: UPDATE houses SET name = 'h'"), id="key"
        ),
        pytest.param((f"b: {RENAMED}", f"c: {note('C', 'i')}"), id="moved"),
        pytest.param((f"b: {RENAMED}", f"c: {note('C', 'i')}", f"c: {note('old', 'i')}"), id="two"),
        pytest.param((f"b: {RENAMED}", "c: DELETE FROM houses"), id="moved-and-deleted"),
        pytest.param(
            (
                *(f"b: {note('B')}", f"c: {note('C')}", "u: undo c"),
                *(f"c: {note('C')}", f"c: {note('B')}"),
            ),
            id="undone-and-written-again",
        ),
        pytest.param(
            (*(f"b: {note('B')}", f"d: {note('C')}", "u: undo d", "v: undo u"), f"c: {note('B')}"),
            id="redone",
        ),
        pytest.param(
            (
                "a: INSERT INTO guests VALUES (1, NULL)",
                f"b: {note('none')}",
                "c: UPDATE guests SET house = 'h'",
                "c: UPDATE guests SET house = NULL",
            ),
            id="trigger",
        ),
    ],
)
def test_later_values_of_another_session_remain(root: Path, steps: tuple[str, ...]) -> None:
    run(root, f"a: {NEW}", *steps)
    before = rows(root)
    undone = undo_session(root, "b")

    assert before == rows(root)
    assert {"session c changed it later"} == {*results_by_key(undone).values()}
    assert not undone.changed


def test_a_new_row_that_another_session_wrote_again_remains(root: Path) -> None:
    run(root, f"b: {NEW}", f"c: {GONE}", f"c: {NEW}")

    assert {"h": "session c changed it later"} == results_by_key(undo_session(root, "b"))
    assert [("h", "old")] == rows(root)[0]


def test_a_new_row_with_a_later_column_of_another_session_remains(root: Path) -> None:
    run(root, f"b: {NEW}", ": ALTER TABLE houses ADD COLUMN size INTEGER")
    run(root, "c: UPDATE houses SET size = 5")

    assert {"h": "session c changed it later"} == results_by_key(undo_session(root, "b"))


def test_a_reference_that_a_cascade_of_another_session_wrote_remains(root: Path) -> None:
    run(
        root,
        f"a: {NEW}",
        "a: INSERT INTO guests VALUES (1, NULL)",
        "b: UPDATE guests SET house = 'h'",
        f"c: {GONE}",
        f"c: {NEW}",
        "c: UPDATE guests SET house = 'h'",
    )

    assert "session c changed it later" == results_by_key(undo_session(root, "b"))[1]
    assert [(1, "h")] == rows(root)[1]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((f"c: {note('C')}", "u: undo c"), id="undone"),
        pytest.param((f"c: {note('C')}", "u: undo c", "v: undo u", "w: undo v"), id="again"),
        pytest.param((f"c: {note('C')}", f"d: {note('D')}", "u: undo d", "v: undo c"), id="two"),
        pytest.param((f"c: {GONE}", "u: undo c"), id="deleted"),
        pytest.param(("u: undo b", f"b: {note('D')}"), id="own-undo"),
        pytest.param(("u: undo b", "v: undo u"), id="own-redo"),
    ],
)
def test_values_that_others_undid_are_restored(root: Path, steps: tuple[str, ...]) -> None:
    run(root, f"a: {NEW}", f"b: {note('B')}", *steps)

    assert {"h": "restored"} == results_by_key(undo_session(root, "b"))
    assert [("h", "old")] == rows(root)[0]


def test_an_undo_is_not_redone_over_a_later_undo(root: Path) -> None:
    ids = run(root, f"a: {NEW}", f"b: {note('B')}", "u: undo b", "v: undo u", "w: undo b")

    assert {"h": f"session {ids['w']} changed it later"} == results_by_key(
        undo_session(root, ids["u"])
    )
    assert [("h", "old")] == rows(root)[0]


def test_a_swap_by_an_undo_writes_no_other_column(root: Path) -> None:
    """Rows with swapped unique values are deleted and inserted as a whole."""
    run(
        root,
        ": ALTER TABLE houses ADD COLUMN code TEXT",
        ": CREATE UNIQUE INDEX u ON houses (code)",
    )
    run(
        root,
        "a: INSERT INTO houses VALUES ('g', 'old', 'one'), ('h', 'old', 'two')",
        f"b: {note('B')}",
        "c: UPDATE houses SET code = 'three' WHERE name = 'g'",
        "c: UPDATE houses SET code = 'one' WHERE name = 'h'",
        "c: UPDATE houses SET code = 'two' WHERE name = 'g'",
        "u: undo c",
    )

    assert {"h": "restored"} == results_by_key(undo_session(root, "b"))
    assert [("g", "old", "one"), ("h", "old", "two")] == rows(root)[0]


def test_pruning_keeps_the_later_entries_on_the_rows_of_a_session(root: Path) -> None:
    steps = (f"b: {note('B')}", f"c: {note('C')}", f"c: {note('B')}")
    run(root, f"a: {NEW}", *steps, "b: INSERT INTO houses VALUES ('i', NULL)")
    query(root, "UPDATE ralphgen_journal SET time = '2026-01-01T00:00:00Z' WHERE row_key = '\"h\"'")
    pruned = prune(root, "2026-02-01")

    assert 1 == pruned["ralphgen_journal"]  # the first session's
    assert {"h": "session c changed it later", "i": "deleted"} == results_by_key(
        undo_session(root, "b")
    )


def test_a_value_of_a_program_without_ralphgen_remains(root: Path) -> None:
    run(root, f"a: {NEW}", f"b: {note('B')}", f": {note('C')}")

    assert {"h": FOREIGN} == results_by_key(undo_session(root, "b"))


def test_an_application_cannot_pass_its_writes_as_an_undo(root: Path) -> None:
    run(root, f"a: {NEW}", f"b: {note('B')}", f"c: {note('C')}")
    with opened_database(root) as opened:
        journal = opened.journal("d", {"recipe": "manual"}, lambda: "undo c")
        opened.before_writes.append(journal.begin)
        opened.writing(partial(opened.change, note("B")))

    assert {"h": "session d changed it later"} == results_by_key(undo_session(root, "b"))
