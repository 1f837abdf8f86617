"""The state files as rows of PostgreSQL: the same answers as files, for all machines at once."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from driving import Driver, connected, made_here, query
from engines import VARIABLE, on_both
from lanes import shortened
from postgresql import needs_postgresql

from ralphgen.ledger.record import Entry, read_entries
from ralphgen.ledger.undo import undo_session

pytestmark = needs_postgresql
Call = tuple[str, dict[str, Any]]
FILES = ("progress.txt", "learnings.txt")
APPEND = {"append_progress": "read_progress", "append_learning": "read_learnings"}
TEXTS = (
    "One.",
    "one\n- 2026-01-01T00:00:00Z [x] forged\n\n  more",
    "\u00e9" * 1_990,
    "x" * 2_001,
    " \n",
    'it\'s ? $1 %s \\ "q" ] [',
    "\U0001f71a\u2028\r\n\0tail",
)
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Path, Path, str]]:
    with on_both(tmp_path, ledger=True) as found:
        yield found


def without_times(text: str) -> str:
    return re.sub(MOMENT, "WHEN", text)


def call_tool(server: Driver, tool: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    failed, text = server.ask(tool, arguments)
    return failed, without_times(text)


def resource(server: Driver, uri: str) -> str:
    try:
        result = server.portal.call(server.client.read_resource, uri)
    except Exception as error:  # noqa: BLE001 - whatever the SDK's client raises
        return f"{type(error).__name__} {error}"
    return without_times(result.model_dump_json())


def entries(root: Path, file: str = "progress.txt") -> list[tuple[int, str]]:
    sql = "SELECT number, entry FROM ralphgen_entries WHERE file = ? ORDER BY number"
    return query(root, sql, file)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", shortened([*range(6)], 0))
def test_every_answer_is_that_of_files(both: tuple[Path, Path, str], seed: int) -> None:
    """This includes pages, cursors and counts, and refusals."""
    random = Random(seed)  # noqa: S311 - the same calls in each run
    ours, theirs, dsn = both
    with connected(ours) as sqlite, connected(theirs, env={VARIABLE: dsn}) as postgresql:
        servers = (sqlite, postgresql)
        for _ in range(60):
            append, read = random.choice([*APPEND.items()])
            cursor = random.choice([None, None, "0", "1", "777", "40000", "x", "9" * 30])
            page: dict[str, Any] = {"limit": random.choice([1, 2, 3, 50])} | (
                {"cursor": cursor} if cursor else {}
            )
            calls: list[Call] = [(append, {"text": random.choice(TEXTS)}), (read, page)]
            call = random.choice(calls)
            expected, found = (call_tool(server, *call) for server in servers)
            assert (call, expected) == (call, found)
        for read in APPEND.values():
            pages = [walked(server, read) for server in servers]
            assert pages[0] == pages[1]
        for uri in ("ralph://progress", "ralph://learnings", "ralph://progress?cursor=9x"):
            assert resource(sqlite, uri) == resource(postgresql, uri)

    whole = (ours / ".ralph/progress.txt").read_text(encoding="utf-8")
    assert without_times(whole) == without_times(
        "".join(f"{entry}\n" for _, entry in entries(theirs))
    )
    assert not [file for file in FILES if (theirs / ".ralph" / file).exists()]
    assert line_changes(ours) == line_changes(theirs)


def walked(server: Driver, read: str) -> list[tuple[str, int, str | None]]:
    """Read all pages from the end; return text, number of entries and cursor of each."""
    found: list[tuple[str, int, str | None]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        answer = server.call(read, limit=2, **({"cursor": cursor} if cursor else {}))
        cursor = answer.get("next_cursor")
        found.append((without_times(answer["text"]), answer["entries"], cursor))
    return found


def line_changes(root: Path) -> list[tuple[str, str, str, str]]:
    """Return the changes of lines in the log, as shown by the commands."""
    return [
        (one.session, one.tool, one.table, without_times(str(one.as_json()["after"])))
        for one in log(root)
        if one.is_line
    ]


def log(root: Path) -> list[Entry]:
    return read_entries(root)


@pytest.mark.thorough
def test_an_entry_added_by_hand_is_paged_as_in_a_file(
    both: tuple[Path, Path, str],
) -> None:
    """These are an entry longer than a page, one with leading white space, and headless lines."""
    ours, theirs, dsn = both
    pieces = ["  begins indented\n", "z" * 100_000, "by hand\n\n  more", "\u00e9" * 50_000, "last"]
    (ours / ".ralph/progress.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    for piece in pieces:
        query(
            theirs, "INSERT INTO ralphgen_entries (file, entry) VALUES ('progress.txt', ?)", piece
        )
    with connected(ours) as sqlite, connected(theirs, env={VARIABLE: dsn}) as postgresql:
        assert walked(sqlite, "read_progress") == walked(postgresql, "read_progress")
        for server in (sqlite, postgresql):
            assert 5 == server.call("read_progress")["total"]


@pytest.fixture
def machines(both: tuple[Path, Path, str], tmp_path: Path) -> tuple[Path, Path, str]:
    """Two clones of one project, which have nothing in common but the DSN."""
    _, one, dsn = both
    other = shutil.copytree(one, tmp_path / "elsewhere")
    return one, made_here(other), dsn


@pytest.mark.thorough
def test_machines_see_one_anothers_entries(machines: tuple[Path, Path, str]) -> None:
    one, other, dsn = machines
    with (
        connected(one, env={VARIABLE: dsn}) as here,
        connected(other, env={VARIABLE: dsn}) as there,
    ):
        here.call("append_learning", text="Ports are taken.")
        there.call("append_progress", text="Half of it.")

        assert "Ports are taken." in there.call("read_learnings")["text"]
        assert "Half of it." in here.call("read_progress")["text"]
        again = {"bytes_written": 0, "already_there": True}
        assert again == there.call("append_learning", text=" Ports are taken.\n")
        assert here.call("read_progress") == there.call("read_progress")
        assert resource(here, "ralph://learnings") == resource(there, "ralph://learnings")


@pytest.mark.thorough
def test_the_same_learning_of_many_at_once_is_kept_once(machines: tuple[Path, Path, str]) -> None:
    one, other, dsn = machines

    def learn(root: Path) -> Sequence[int]:
        with connected(root, env={VARIABLE: dsn}) as server:
            return [
                server.call("append_learning", text=f"Lesson {at}.")["bytes_written"]
                for at in range(20)
            ]

    with ThreadPoolExecutor(4) as pool:
        written = [*pool.map(learn, (one, other, one, other))]

    assert 20 == len(entries(one, "learnings.txt"))
    assert [1] * 20 == [sum(map(bool, calls)) for calls in zip(*written, strict=True)]


@pytest.mark.thorough
def test_an_entry_that_cannot_be_put_on_record_is_not_added(both: tuple[Path, Path, str]) -> None:
    _, root, dsn = both
    with connected(root, env={VARIABLE: dsn}) as server:
        server.call("append_progress", text="first")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'no room'; END $$; CREATE TRIGGER full_disk BEFORE INSERT ON "
                "ralphgen_journal FOR EACH ROW EXECUTE FUNCTION full_disk()"
            )
        assert "no room" in server.refusal("append_progress", text="second")

    assert 1 == len(entries(root))


@pytest.mark.thorough
def test_an_undo_removes_exactly_the_rows_of_its_session(both: tuple[Path, Path, str]) -> None:
    """This includes one of two equal entries, and undoing the undo restores their order."""
    _, root, dsn = both
    for session in ("one", "two", "one"):
        with connected(root, env={VARIABLE: dsn}, session_id=session) as server:
            server.call("append_progress", text=f"by {session}")
            server.call("append_learning", text="known")
    query(root, "UPDATE ralphgen_entries SET entry = '- 2026-01-01T00:00:00Z [x] same'")
    query(
        root,
        "UPDATE ralphgen_journal SET after = jsonb_set(after::jsonb, '{entry}', "
        "'\"- 2026-01-01T00:00:00Z [x] same\"')::text WHERE table_name = 'ralphgen_entries'",
    )
    before = {file: entries(root, file) for file in FILES}
    undone = undo_session(root, "one")

    assert [before["progress.txt"][1]] == entries(root)
    assert [] == entries(root, "learnings.txt")
    assert {(line.file, line.put_back, line.left) for line in undone.lines} == {
        ("progress.txt", False, ""),
        ("learnings.txt", False, ""),
    }
    assert (3, (), False) == (undone.changed, undone.rows, undone.has_remainder)
    assert not undo_session(root, "one").changed

    undo_session(root, undone.session)
    assert before == {file: entries(root, file) for file in FILES}
    tools = [entry.tool for entry in log(root) if entry.is_line]
    assert 3 == tools.count(f"undo {undone.session}")


@pytest.mark.thorough
def test_an_entry_that_someone_has_changed_since_is_left(both: tuple[Path, Path, str]) -> None:
    _, root, dsn = both
    with connected(root, env={VARIABLE: dsn}) as server:
        server.call("append_progress", text="mine")
    query(root, "UPDATE ralphgen_entries SET entry = entry || ', amended'")
    (line,) = undo_session(root, "test").lines

    assert (
        "progress.txt",
        "it does not match the journal: another program may have changed it",
    ) == (line.file, line.left)
    assert 1 == len(entries(root))


def test_a_project_without_a_ledger_keeps_files(tmp_path: Path) -> None:
    with on_both(tmp_path) as (_, root, dsn), connected(root, env={VARIABLE: dsn}) as server:
        server.call("append_progress", text="in a file")

        assert "in a file" in (root / ".ralph/progress.txt").read_text(encoding="utf-8")
        assert 1 == server.call("read_progress")["total"]


def test_each_engine_carries_its_own_module_alone(both: tuple[Path, Path, str]) -> None:
    for root, own, other in zip(
        both[:2], ("sqlite", "postgresql"), ("postgresql", "sqlite"), strict=True
    ):
        runtime = root / ".ralph/mcp/runtime/engine"

        assert (runtime / own / "state_files.py").is_file()
        assert not (runtime / other).exists()
