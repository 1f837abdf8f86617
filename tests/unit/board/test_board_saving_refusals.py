"""A failing edit leaves everything unchanged, and reports the reason without a secret."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from board_edits import (
    FILE,
    FRESH,
    MIXED,
    PRIVATE,
    WANTED,
    discipline_view,
    edit,
    editable_project,
    editable_state,
    server,
)
from command_line import run_sql, texts
from driving import query

from ralphgen.board.disciplines import ChangedError, read_disciplines, read_stored, save, write
from ralphgen.files import put
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return editable_project(tmp_path_factory.mktemp("saving") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project, tmp_path / "p")


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Another program that is writing."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("sql", [(), MIXED], ids=["columns", "mixed"])
def test_a_database_that_stays_locked_is_said_and_nothing_is_saved(
    root: Path, sql: tuple[str, ...]
) -> None:
    run_sql(root, *sql)
    wanted, before = edit(root, servers=WANTED, disabled=("sign",)), editable_state(root)
    with locked(root):
        saved = save(root, wanted, patience=0.2)
    (problem,) = saved.problems

    assert (False, "Nothing was changed") == (saved.ok, saved.message)
    assert "the database is busy" in problem.text
    assert before == editable_state(root)
    assert save(root, wanted).ok


REFUSING = {
    "a trigger": (
        "CREATE TRIGGER t BEFORE UPDATE ON disciplines BEGIN SELECT RAISE(ABORT, 'ask Anna'); END",
        "the database refuses this: ask Anna",
    ),
    "a trigger that passes over it": (
        "CREATE TRIGGER t BEFORE UPDATE ON disciplines BEGIN SELECT RAISE(IGNORE); END",
        'stored a different value in "mcp_servers"',
    ),
    "a trigger that changes it": (
        """CREATE TRIGGER t AFTER UPDATE OF mcp_servers ON disciplines BEGIN
        UPDATE disciplines SET mcp_servers = '[]' WHERE name = NEW.name; END""",
        'stored a different value in "mcp_servers"',
    ),
    "a trigger with a secret": (
        f"""CREATE TRIGGER t BEFORE UPDATE ON disciplines BEGIN
        SELECT RAISE(ABORT, 'not {PRIVATE}'); END""",
        "the database refuses this; its message contains a secret",
    ),
    "a rule": (
        "ALTER TABLE disciplines ADD COLUMN x INT CHECK (mcp_servers NOT LIKE '%more%')",
        "a value breaks a rule of its table",
    ),
    "a row that is named at the end": (
        """CREATE TABLE names (n REFERENCES features DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER t AFTER UPDATE ON disciplines BEGIN INSERT INTO names VALUES ('no'); END""",
        "the database refuses this: a row that it names",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("sql", "expected"), REFUSING.values(), ids=REFUSING)
@pytest.mark.parametrize("missing", [(), MIXED], ids=["columns", "mixed"])
def test_what_the_database_refuses_is_said_and_nothing_is_saved(
    root: Path, sql: str, expected: str, missing: tuple[str, ...]
) -> None:
    run_sql(root, *missing, sql)
    before = editable_state(root)
    saved = save(root, edit(root, servers=WANTED, disabled=("get_task",)))
    (problem,) = saved.problems

    assert not saved.ok
    assert expected in problem.text
    assert before == editable_state(root)
    assert PRIVATE not in repr(saved)


def test_a_config_that_is_made_goes_again_where_the_database_refuses(root: Path) -> None:
    (root / FILE).unlink()
    run_sql(root, *MIXED, REFUSING["a row that is named at the end"][0])
    saved = save(root, edit(root, servers=WANTED, disabled=("get_task",)))

    assert not saved.ok
    assert not (root / FILE).exists()


BAD_CONFIGS = {
    "no TOML": f"[disciplines.testing\nA = {PRIVATE}",
    "an unknown key": "plum = 1\n",
    "a kit that there is not": 'kits = ["plum"]\n',
    "a folder": None,
}


@pytest.mark.parametrize("text", BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_with_a_config_that_cannot_be_read_nothing_is_written(root: Path, text: str | None) -> None:
    wanted = edit(root, servers=WANTED)
    (root / FILE).unlink()
    if text is None:
        (root / FILE).mkdir()
    else:
        (root / FILE).write_text(text, encoding="utf-8")
    before = texts(root)
    saved = save(root, wanted)

    assert (False, "Nothing was changed") == (saved.ok, saved.message)
    assert FILE in saved.problems[0].text
    assert before == texts(root)
    assert PRIVATE not in repr(saved)


def test_a_wrong_edit_is_refused_at_its_fields(root: Path) -> None:
    bad = server("a b", " ", env={"K": f"{FRESH}\0"})
    before = editable_state(root)
    saved = save(root, edit(root, servers=(*WANTED, bad), disabled=("no",)))

    assert (False, "Nothing was changed") == (saved.ok, saved.message)
    fields = ["servers.2.name", "servers.2.command", "servers.2.env.0.value", "disabled"]
    assert fields == [one.field for one in saved.problems]
    assert before == editable_state(root)
    assert FRESH not in repr(saved)


def test_a_discipline_that_is_gone_is_said(root: Path) -> None:
    wanted = edit(root, disabled=("sign",))
    query(root, "UPDATE disciplines SET name = 'tests' WHERE name = 'testing'")
    saved = save(root, wanted)

    assert not saved.ok
    assert 'the discipline "testing" no longer exists' == saved.problems[0].text


def test_hand_edits_hinder_regenerating_and_the_edit_stays_saved(root: Path) -> None:
    module = root / ".ralph/mcp/server.py"
    module.write_text(module.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    saved = save(root, edit(root, servers=WANTED, disabled=("get_task",)))
    (problem,) = saved.problems

    assert saved.ok
    assert saved.message.endswith(", but the server was not regenerated")
    assert "server.py was edited by hand; not overwritten" == problem.text
    assert ["docs", "more"] == [one.name for one in discipline_view(root).servers.values()]
    assert module.read_text(encoding="utf-8").endswith("# mine\n")


def test_a_config_that_cannot_be_written_leaves_the_database_as_it_was(root: Path) -> None:
    """It is a link to a file whose name has no room for the ending of an unfinished one."""
    run_sql(root, *MIXED)
    target = root / ("x" * 253)
    (root / FILE).rename(target)
    (root / FILE).symlink_to(target)
    before = editable_state(root)
    saved = save(root, edit(root, servers=WANTED, disabled=("get_task",)))
    (problem,) = saved.problems

    assert not saved.ok
    assert "cannot be written: file name too long" in problem.text
    assert before == editable_state(root)


def test_without_a_database_nothing_is_saved(root: Path) -> None:
    wanted = edit(root, disabled=("sign",))
    (root / DATABASE).unlink()
    saved = save(root, wanted)

    assert not saved.ok
    assert "no database at" in saved.problems[0].text


WRITER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


OVERRIDE = "UPDATE disciplines SET mcp_tool_overrides = ? WHERE name = 'testing'"
STALE: dict[str, Callable[[Path], object]] = {
    "another value": lambda root: query(root, OVERRIDE, "{}"),
    "another type": lambda root: query(root, OVERRIDE, ""),
    "another config": lambda root: (root / FILE).write_text("kits = []", encoding="utf-8"),
    "no config": lambda root: (root / FILE).unlink(),
    "another name": lambda root: query(root, "UPDATE disciplines SET name = name || '2'"),
}


@pytest.mark.parametrize("change", STALE.values(), ids=STALE)
def test_what_changes_after_the_look_is_not_overwritten(
    root: Path, change: Callable[[Path], object]
) -> None:
    old = read_stored(root)[0]["testing"]
    settings = old.settings.model_copy(update={"disable": ["sign"]})
    change(root)
    before = editable_state(root)

    with pytest.raises(ChangedError):
        write(root, old, {"mcp_tool_overrides": "[]"}, settings)
    assert before == editable_state(root)


def test_no_other_program_writes_meanwhile_though_the_board_reads(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks of a process end when any of its threads closes the file (POSIX)."""
    run_sql(root, *MIXED)
    query(root, "PRAGMA journal_mode = delete")
    reader, found = Thread(target=read_disciplines, args=[root]), list[str]()

    def meanwhile(path: Path, text: str) -> None:
        reader.start()
        reader.join(0.2)
        command = [sys.executable, "-c", WRITER, str(root / DATABASE)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        found.append(done.stdout)
        put(path, text)

    monkeypatch.setattr("ralphgen.board.disciplines.put", meanwhile)

    assert save(root, edit(root, servers=WANTED, disabled=("sign",))).ok
    assert ["database is locked\n"] == found
    reader.join()
