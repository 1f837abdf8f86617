"""Statements of a project end within their limits of time and memory, and others are answered."""

import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from driving import (
    Driver,
    connected,
    context_for,
    create_project,
    made_here,
    on_context,
    query,
    quiet,
    server_command,
    started,
)
from engines import ENGINES, LEDGER, MARKER, VARIABLE, on_engine, project_on
from http_servers import CONFIG as HTTP_CONFIG
from http_servers import HttpServer, serving, token
from postgresql import needs_postgresql
from wire import Wire, running

from ralphgen.emit.workflows import regenerate

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

SECONDS = 1  # the limit of each query and tool here
BUSY = 10  # seconds that a busy machine adds at most; without a limit it would be minutes
ENDLESS = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
MANY = "printf('%.*c', :n, 'a')"
# Each takes far longer than the limit, most of them in one step of SQLite's machine.
SLOW = {
    "pad": "printf('%.*c', 900000000, 'x') || printf('%.*c', 900000000, 'x')"
    " || printf('%.*c', 900000000, 'x') || printf('%.*c', 900000000, 'x')",
    "find": f"instr({MANY}, printf('%.*c', :n / 2, 'a') || 'b')",
    "swap": f"length(replace({MANY}, printf('%.*c', :n / 2, 'a') || 'b', 'c'))",
    "like": f"{MANY} LIKE '%' || printf('%.*c', 20000, 'a') || 'b%'",
    "glob": f"{MANY} GLOB '*' || printf('%.*c', 20000, 'a') || 'b*'",
    "trim": f"length(trim({MANY}, printf('%.*c', :n / 10, 'b') || 'a'))",
    "step": f"({ENDLESS})",
    "group": "(WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
    " SELECT length(group_concat(substr(x, 1, 0), '')) FROM c)",
}
SHORT = {
    "one": "printf('%05d|%s|%.*c', 42, 'ab', 3, 'x')",
    "two": "'Log in' LIKE 'log%' AND 'abc' GLOB 'a*'",
    "three": "trim('  a  ') || replace('abc', 'b', 'x') || instr('abc', 'c') || substr('abc', 2)",
    "four": "json_extract('{\"a\": [1, 2]}', '$.a[1]') || hex('a')",
}
FOUND = {"one": "00042|ab|xxx", "two": 1, "three": "aaxc3bc", "four": "261"}
TOOLS = f'''
from typing import Any

from ralphgen.tools import Project, reads, writes


@reads
def read_endless(project: Project) -> Any:
    """Read."""
    return project.rows("{ENDLESS}")


@writes
def write_endless(project: Project) -> Any:
    """Write."""
    return project.write("UPDATE tasks SET title = CAST(({ENDLESS}) AS text)")


@writes
def write_in_one_step(project: Project) -> Any:
    """Write."""
    project.write("UPDATE tasks SET title = 'first' WHERE id = 1")
    sql = "UPDATE tasks SET title = 'second' || instr(printf('%.*c', :n, 'a'), :b || 'b')"
    return project.write(sql, n=3_000_000, b="a" * 1_500_000)


@reads
def ask_endless(project: Project) -> Any:
    """Ask."""
    return project.query("find", n=3_000_000)


@reads
def print_endless(project: Project) -> str:
    """Print."""
    while True:
        print("x" * 60_000)


@reads
def many_rows(project: Project, sql: str) -> int:
    """Count."""
    return len(project.rows(sql))
'''
ENDLESS_TOOLS = ("read_endless", "write_endless")
CONFIG = f"""
[queries]
seconds = {SECONDS}

[own_tools.read_endless]
seconds = {SECONDS}

[own_tools.write_endless]
seconds = {SECONDS}

[own_tools.write_in_one_step]
seconds = {SECONDS}

[own_tools.ask_endless]
seconds = {SECONDS}

[own_tools.print_endless]
seconds = {SECONDS}

[tables.notes]
[tables.slow_notes]
"""
TABLES = (
    LEDGER.read_text(encoding="utf-8"),
    MARKER,
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)",
    f"CREATE VIEW slow_notes AS SELECT id, {SLOW['find'].replace(':n', '9000000')} AS x FROM notes",
    "INSERT INTO notes (body) VALUES ('a')",
)


def write_files(root: Path) -> None:
    """Write the queries and tools, and the server again."""
    texts = []
    for name, sql in {**SLOW, **SHORT}.items():
        given = "-- :n integer = 3000000\n" if ":n" in sql else ""
        texts.append(f"-- name: {name} :one\n-- A.\n{given}SELECT {sql} AS x;\n")
        if name in SLOW:
            update = f"UPDATE tasks SET title = {sql} WHERE id = 1 RETURNING id"
            texts.append(f"-- name: write_{name} :exec\n-- A.\n{given}{update};\n")
    texts.append("-- name: title :one\n-- A.\nSELECT title FROM tasks WHERE id = 1;\n")
    texts.append(
        "-- name: retitle :exec\n-- A.\n"
        "UPDATE tasks SET title = :title WHERE id = 1 RETURNING id, title;\n"
    )
    for folder, file, text in (("queries", "a.sql", "".join(texts)), ("tools", "a.py", TOOLS)):
        (root / ".ralph" / folder).mkdir()
        (root / ".ralph" / folder / file).write_text(text, encoding="utf-8")
    settings = root / ".ralph/ralphgen.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
    regenerate(root, force=False, say=quiet, allow_removals=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("limits") / "p"
    config = f"{HTTP_CONFIG}workers = 1\nrate = 1000\n"
    with project_on("sqlite", folder, *TABLES, config=config) as found:
        write_files(found)
        yield found


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[Driver]:
    with connected(root) as driver:
        yield driver


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[HttpServer]:
    with serving(root) as server:
        yield server


def in_time(client: Driver, tool: str, limit: float = SECONDS, **arguments: Any) -> str:
    """The refusal of a call that is stopped at its limit."""
    began = time.monotonic()
    refusal = client.refusal(tool, **arguments)
    assert time.monotonic() - began < limit + BUSY, refusal
    return refusal


@pytest.mark.thorough
@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("prefix", ["", "write_"])
def test_a_query_ends_at_its_limit_whatever_function_it_calls(
    client: Driver, root: Path, prefix: str, name: str
) -> None:
    before = query(root, "SELECT title FROM tasks ORDER BY id")
    client.call("title")  # starts the process, which is not counted

    refusal = in_time(client, prefix + name)

    assert "took longer" in refusal or "took too long" in refusal or "too much memory" in refusal
    assert before == query(root, "SELECT title FROM tasks ORDER BY id")


@pytest.mark.thorough
def test_a_stopped_write_leaves_no_entry_and_no_lock(client: Driver, root: Path) -> None:
    sql = "SELECT COUNT(*) FROM ralphgen_journal"
    before = query(root, sql)

    in_time(client, "write_find")

    assert before == query(root, sql)
    query(root, "UPDATE tasks SET description = 'free' WHERE id = 2")
    assert {"changed": 1, "rows": [{"id": 1, "title": "Again"}]} == client.call(
        "retitle", title="Again"
    )
    assert [(before[0][0] + 1,)] == query(root, sql)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "tool", ["read_endless", "write_endless", "write_in_one_step", "ask_endless"]
)
def test_a_tool_of_the_project_ends_at_its_limit_with_its_statement(
    client: Driver, root: Path, tool: str
) -> None:
    client.call("many_rows", sql="SELECT 1")  # starts the processes

    assert f'"{tool}" took longer than 1 second' in in_time(client, tool)

    # The statement ended too: nothing holds the database.
    query(root, "UPDATE tasks SET description = 'free' WHERE id = 2")
    (title,) = query(root, "SELECT title FROM tasks WHERE id = 1")[0]
    assert ("first" == title) is (tool == "write_in_one_step")
    client.call("retitle", title="Log in")


@pytest.mark.thorough
def test_an_endlessly_printing_tool_ends_at_its_limit_with_an_unread_log(
    root: Path,
) -> None:
    with running(root, *on_context(context_for(root, "manual"))) as server:
        server.shake_hands()
        for _ in range(5):  # more than run at once
            began = time.monotonic()
            answer = server.ask("tools/call", {"name": "print_endless", "arguments": {}})
            assert time.monotonic() - began < SECONDS + BUSY / 2
            assert "took longer than 1 second" in answer["result"]["content"][0]["text"]


@pytest.mark.thorough
def test_a_client_that_ignores_or_blocks_the_alarm_does_not_lift_the_limit(root: Path) -> None:
    program = server_command(root, "ralph", *on_context(context_for(root, "manual")))
    blocked = (
        "import os, signal, sys; signal.signal(signal.SIGALRM, signal.SIG_IGN); "
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    with started([sys.executable, "-c", blocked, *program], root, None) as client:
        client.call("title")

        assert "took longer" in in_time(client, "find")


@pytest.mark.thorough
def test_a_view_that_does_not_end_is_stopped_for_tools_on_tables(client: Driver) -> None:
    with ThreadPoolExecutor() as pool:
        refusal = pool.submit(in_time, client, "list_slow_notes", 20)
        while not refusal.done():
            assert [{"body": "a", "id": 1}] == client.call("list_notes")["notes"]
            assert "title" in client.call("get_task", id=1)

    assert "took" in refusal.result()


@pytest.mark.thorough
def test_others_are_answered_while_statements_run(client: Driver) -> None:
    client.call("title")
    answered: list[None] = []
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(client.refusal, name) for name in ("find", "write_swap", "like")]
        while not all(one.done() for one in slow):
            client.call("list_tasks")
            client.call("title")
            client.call("many_rows", sql="SELECT 1")
            answered.append(None)

    assert len(answered) > 1


@pytest.mark.thorough
def test_sessions_do_not_wait_for_each_other(served: HttpServer) -> None:
    one, other = (token(served.root, jti=f"session-{number}") for number in (1, 2))
    for each in (one, other):
        assert 200 == served.call(each, "title")[0]
    answered: list[None] = []
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(served.call, one, name) for name in ("find", "swap", "glob")]
        while not all(each.done() for each in slow):
            assert 200 == served.call(other, "title")[0]
            assert 200 == served.call(other, "list_tasks")[0]
            answered.append(None)

    assert len(answered) > 1
    assert all(each.result()[1]["result"]["isError"] for each in slow)


@pytest.mark.parametrize("name", SHORT)
def test_listed_functions_work_on_ordinary_values(client: Driver, name: str) -> None:
    assert {"row": {"x": FOUND[name]}} == client.call(name)


def children(process: int) -> list[int]:
    """The processes that a process has started, by any of its threads."""
    found: list[int] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return sorted(found)


def test_short_queries_start_one_process(root: Path) -> None:
    def ask(server: Wire, name: str) -> None:
        answer = server.ask("tools/call", {"name": name, "arguments": {}})
        assert not answer["result"]["isError"], answer

    with running(root, *on_context(context_for(root, "manual"))) as server:
        server.shake_hands()
        server.ask("tools/list")
        assert [] == children(server.process.pid)
        ask(server, "title")
        started = children(server.process.pid)
        for name in (*SHORT, "list_notes", "title") * 5:
            ask(server, name)

        assert 1 == len(started)
        assert started == children(server.process.pid)


@pytest.mark.thorough
@needs_postgresql
def test_short_queries_on_postgresql_start_one_process(tmp_path: Path) -> None:
    with on_engine("postgresql", tmp_path / "p") as project:
        folder = project.root / ".ralph/queries"
        folder.mkdir()
        text = "-- name: title :one\n-- A.\nSELECT title FROM tasks WHERE id = 1;\n"
        folder.joinpath("a.sql").write_text(text, encoding="utf-8")
        regenerate(project.root, force=False, say=quiet, allow_removals=True)
        made_here(project.root)
        with running(project.root, *on_context(context_for(project.root, "manual"))) as server:
            server.shake_hands()
            found = []
            for _ in range(4):
                server.ask("tools/call", {"name": "title", "arguments": {}})
                found.append(children(server.process.pid))

    assert 1 == len(found[0])
    assert found == [found[0]] * 4


def test_the_process_runs_verified_modules_only(tmp_path: Path) -> None:
    with project_on(
        "sqlite", tmp_path / "p", "CREATE TABLE notes (id INTEGER PRIMARY KEY)"
    ) as root:
        settings = root / ".ralph/ralphgen.toml"
        settings.write_text("[tables.notes]\n", encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        with connected(root) as client:
            client.call("get_task", id=1)
            module = root / ".ralph/mcp/runtime/statements/calls.py"
            text = module.read_text(encoding="utf-8")
            module.write_text(f"{text}# more\n", encoding="utf-8")

            assert "the process that ran this ended" in client.refusal("list_notes")
            assert "title" in client.call("get_task", id=1)
            module.write_text(text, encoding="utf-8")
            assert [] == client.call("list_notes")["notes"]


def test_calls_that_were_cancelled_leave_room_for_others(root: Path) -> None:
    with running(root, *on_context(context_for(root, "manual"))) as server:
        server.shake_hands()
        for identity in range(100, 112):
            server.send("tools/call", {"name": "find", "arguments": {}}, id=identity)
            server.send("notifications/cancelled", {"requestId": identity})
        answer = server.ask("tools/call", {"name": "two", "arguments": {}})

        assert '{"row":{"x":1}}' == answer["result"]["content"][0]["text"]


@pytest.mark.thorough
def test_a_process_that_was_killed_is_started_again(client: Driver) -> None:
    for _ in range(2):
        in_time(client, "find")
        assert {"row": {"x": 1}} == client.call("two")


def memory(process: int) -> int:
    """The most bytes that a process has had in memory."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


@pytest.mark.thorough
@needs_postgresql
def test_statements_on_postgresql_end_at_their_limits_and_others_are_answered(
    tmp_path: Path,
) -> None:
    tools = "\n".join(f"[own_tools.{name}]\nseconds = 1" for name in ENDLESS_TOOLS)
    with on_engine("postgresql", tmp_path / "p", ledger=True) as project:
        root = project.root
        (root / ".ralph/queries").mkdir()
        (root / ".ralph/queries/a.sql").write_text(
            f"-- name: endless :one\n-- A.\n{ENDLESS};\n"
            "-- name: write_endless_number :exec\n-- A.\n"
            f"UPDATE tasks SET priority = ({ENDLESS}) WHERE id = 1 RETURNING id;\n",
            encoding="utf-8",
        )
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        settings = root / ".ralph/ralphgen.toml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text(f"{text}\n[queries]\nseconds = 1\n{tools}\n", encoding="utf-8")
        regenerate(root, force=False, say=quiet, allow_removals=True)
        made_here(root)
        calls = ("endless", "write_endless_number", *ENDLESS_TOOLS)
        with connected(root, env={VARIABLE: project.dsn}) as client, ThreadPoolExecutor() as pool:
            for name in calls:
                refusal = pool.submit(in_time, client, name)
                while not refusal.done():
                    client.call("list_tasks")
                assert "too" in refusal.result()
        left = "state = 'active' AND query LIKE '%RECURSIVE%' AND pid <> pg_backend_pid()"

        assert [(0,)] == project.query(f"SELECT COUNT(*) FROM pg_stat_activity WHERE {left}")


@pytest.mark.thorough
@needs_postgresql
def test_others_are_answered_on_postgresql_while_a_call_waits_for_a_long_write(
    tmp_path: Path,
) -> None:
    with on_engine("postgresql", tmp_path / "p") as project:
        root = project.root
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        settings = root / ".ralph/ralphgen.toml"
        text = settings.read_text(encoding="utf-8")
        settings.write_text(f"{text}\n[own_tools.write_endless]\nseconds = 11\n", encoding="utf-8")
        regenerate(root, force=False, say=quiet, allow_removals=True)
        made_here(root)
        with connected(root, env={VARIABLE: project.dsn}) as client, ThreadPoolExecutor() as pool:
            client.call("list_tasks")
            long = pool.submit(client.refusal, "write_endless")
            time.sleep(1)
            waiting = pool.submit(client.call, "update_task", id=2, title="New")
            longest = 0.0
            while not long.done():
                began = time.monotonic()
                client.call("list_tasks")
                longest = max(longest, time.monotonic() - began)

        assert {"id": 2, "changed": ["title"]} == waiting.result()
        assert longest < 3


BIG = {
    "sqlite": ", ".join(f"printf('%.*c', :n * 9000000, 'x') AS x{at}" for at in range(30)),
    "postgresql": "repeat(repeat('x', 1000000), :n * 270) AS x",
}
LIMITS = re.compile("too much memory|took longer")  # whichever it reaches first
ROW = {
    "sqlite": ", ".join("printf('%.*c', 9000000, 'x')" for _ in range(30)),
    "postgresql": "repeat(repeat('x', 1000000), 270)",
}


@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.thorough])]
)
def test_an_answer_takes_no_more_memory_than_it_may_need(engine: str, tmp_path: Path) -> None:
    """Neither process has the 270 MB of the row; both answer as before afterwards."""
    with on_engine(engine, tmp_path / "p", ledger=True) as project:
        root = project.root
        folder = root / ".ralph/queries"
        folder.mkdir()
        folder.joinpath("a.sql").write_text(
            f"-- name: big :one\n-- A.\n-- :n integer = 1\nSELECT {BIG[engine]};\n"
            "-- name: title :one\n-- A.\nSELECT title FROM tasks WHERE id = 1;\n",
            encoding="utf-8",
        )
        folder.with_name("tools").mkdir()
        folder.with_name("tools").joinpath("a.py").write_text(TOOLS, encoding="utf-8")
        regenerate(root, force=False, say=quiet, allow_removals=True)
        with running(root, *on_context(context_for(root, "manual"))) as server:
            server.shake_hands()
            for tool, arguments in (("big", {}), ("many_rows", {"sql": f"SELECT {ROW[engine]}"})):
                calls = (("title", dict[str, str](), False), (tool, arguments, True))
                for name, given, failed in calls:
                    answer = server.ask("tools/call", {"name": name, "arguments": given})
                    result = answer["result"]
                    assert failed is result["isError"], result
                    assert not failed or LIMITS.search(result["content"][0]["text"])
            server.ask("tools/call", {"name": "title", "arguments": {}})
            most = [memory(one) for one in (server.process.pid, *children(server.process.pid))]

        assert max(most) < 250_000_000


def test_long_names_of_columns_count_as_well(client: Driver) -> None:
    name = "x" * 5_000
    sql = (
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 10000) "
        f'SELECT x AS "{name}" FROM c'
    )

    assert "more than 20 MB" in client.refusal("many_rows", sql=sql)


STEP = SLOW["find"].replace(":n", "9000000")
SLOW_PROJECT = {
    "sqlite": f"""
CREATE VIEW slow_notes AS SELECT id, body FROM notes WHERE {STEP} IS NOT NULL;
ALTER TABLE features ADD COLUMN slow TEXT AS (CASE name WHEN 'auth' THEN {STEP} END);
CREATE TRIGGER slow_update AFTER UPDATE ON tasks WHEN NEW.id = 1 BEGIN SELECT {STEP}; END;
CREATE TRIGGER slow_insert AFTER INSERT ON tasks BEGIN
    SELECT * FROM (WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
        SELECT max(x) FROM c);
END
""",
    "postgresql": """
CREATE VIEW slow_notes AS SELECT id, body FROM notes WHERE pg_sleep(60)::text IS NOT NULL;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.id = 1 OR TG_OP = 'INSERT' THEN PERFORM pg_sleep(60); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slow_change AFTER INSERT OR UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION slow()
""",
}
SLOW_ROW = "ralph://tables/slow_notes/1"
SLOW_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "row": ("resources/read", {"uri": SLOW_ROW}),
    "subscription": ("resources/subscribe", {"uri": SLOW_ROW}),
    "completion": (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "ralph://tables/slow_notes/{id}"},
            "argument": {"name": "id", "value": "1"},
        },
    ),
    "update": ("tools/call", {"name": "update_task", "arguments": {"id": 1, "title": "New"}}),
    "status": ("tools/call", {"name": "set_task_status", "arguments": {"id": 1, "status": "done"}}),
    "create": (
        "tools/call",
        {
            "name": "create_task",
            "arguments": {"title": "New", "feature": "auth", "discipline": "backend"},
        },
    ),
    "generated": ("tools/call", {"name": "get_feature", "arguments": {"name": "auth"}}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "names", ["row subscription completion update", "create generated", "status"]
)
def test_resources_completion_and_triggers_end_at_the_limit_and_others_are_answered(
    engine: str, names: str, tmp_path: Path
) -> None:
    statements = (
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)",
        "INSERT INTO notes VALUES (1, 'a')",
        SLOW_PROJECT[engine],
    )
    config = '\n[tables.notes]\n[tables.slow_notes]\nkey = ["id"]\n'
    with project_on(engine, tmp_path / "p", *statements, config=config) as root:
        before = query(root, "SELECT id, title, status FROM tasks ORDER BY id")
        asked = {name: SLOW_REQUESTS[name] for name in names.split()}
        if engine == "postgresql":  # it stores generated values
            asked.pop("generated", None)
        with running(root, *on_context(context_for(root, "manual"))) as server:
            server.shake_hands()
            other = {"name": "get_task", "arguments": {"id": 2}}
            server.ask("tools/call", other)
            began = time.monotonic()
            for name, (method, params) in asked.items():
                server.send(method, params, id=name)
            answers: dict[str, Any] = {}
            others = 0
            while len(answers) < len(asked):
                server.send("tools/call", other, id=others)
                while (frame := server.read())["id"] != others:
                    answers[frame["id"]] = frame
                assert "title" in frame["result"]["content"][0]["text"]
                others += not answers
                time.sleep(0.2)
            seconds = time.monotonic() - began

        assert others > 1
        for name, answer in answers.items():
            words = str(answer)
            assert "took longer" in words or "took too long" in words, (name, words)
        assert seconds < 20 + 2 * BUSY
        assert before == query(root, "SELECT id, title, status FROM tasks ORDER BY id")


def test_a_number_of_many_digits_reaches_a_tool_in_a_child_process(tmp_path: Path) -> None:
    root = create_project(
        tmp_path / "p", "CREATE TRIGGER noted AFTER UPDATE ON tasks BEGIN SELECT 1; END;"
    )
    call = '{"name": "update_task", "arguments": {"id": 1.0000000000000000, "title": "New"}}'
    with running(root, *on_context(context_for(root, "manual"))) as wire:
        wire.shake_hands()
        assert wire.process.stdin is not None
        frame = f'{{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {call}}}\n'
        wire.process.stdin.write(frame)
        wire.process.stdin.flush()
        answer = wire.read()["result"]

    assert not answer["isError"], answer
    assert [("New",)] == query(root, "SELECT title FROM tasks WHERE id = 1")
