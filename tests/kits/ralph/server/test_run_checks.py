"""run_checks with the official client: its answers, joined runs, restarts, and evidence."""

import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after
from command_line import ralphgen
from driving import Driver, Era, connected, create_project, query
from making_sessions import client_of, opened
from proved_projects import TESTS, check, git, proved_project, python, write_files

from ralphgen.runtime.files.work_tree import (
    ignoring_lines,
    moved,
    settled_stamps,
    stamps,
    tree_files,
)

GATE = "import pathlib, time\nwhile not pathlib.Path('go.log').exists(): time.sleep(0.02)\n"
"""A program that ends when the ignored file `go.log` exists."""


def counted(program: str) -> str:
    """Return a check that records its run in an ignored file, then runs a program."""
    return check("tests", *python(f"open('runs.log', 'a').write('x')\n{program}"))


def runs(root: Path) -> int:
    path = root / "runs.log"
    return len(path.read_text(encoding="utf-8")) if path.exists() else 0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def evidence(root: Path) -> list[tuple[Any, ...]]:
    return query(root, "SELECT task_id, session, check_name, exit_code FROM ralphgen_evidence")


def give_up(server: Driver, seconds: float) -> None:
    """Call run_checks as a client that loses its patience."""

    async def call() -> None:
        with fail_after(seconds):
            await server.client.call_tool("run_checks", {})

    with pytest.raises(TimeoutError):
        server.portal.call(call)


def test_without_checks_there_is_no_such_tool(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    with connected(root) as server:
        assert "run_checks" not in server.names()
        code, message = server.protocol_error("run_checks", task=1)

    assert -32602 == code
    assert "its server was generated without [[done.checks]]" in message


def test_exit_codes_and_ends_of_outputs_are_answered_and_kept(tmp_path: Path) -> None:
    config = check("good", *python("print('fine')"))
    config += check("bad", *python("import sys; print('x' * 9000 + 'END'); sys.exit(7)"))
    config += check("gone", "no-such-program-at-all")
    config += check("killed", *python("import os; os.kill(os.getpid(), 9)"))
    root = proved_project(tmp_path / "p", config)
    with connected(root) as server:
        answer = server.call("run_checks", task=1)

    found = {one["name"]: (one["exit_code"], one["tail"]) for one in answer["checks"]}
    assert not answer["passed"]
    assert (0, "fine\n") == found["good"]
    assert (7, 4000) == (found["bad"][0], len(found["bad"][1]))
    assert found["bad"][1].endswith("xEND\n")
    assert 127 == found["gone"][0]
    assert "cannot be started" in found["gone"][1]
    assert 128 + 9 == found["killed"][0]
    assert [(1, "test", name, code) for name, (code, _) in found.items()] == evidence(root)


def test_secrets_of_the_environment_are_not_shown(tmp_path: Path) -> None:
    url = "http://me:hunter2@example.com/x"
    program = f"import os; print(os.environ.get('SHOP_API_TOKEN'), 'plain', '{url}'); 1 / 0"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config, environment={"SHOP_API_TOKEN": "tok-123456"}) as server:
        (found,) = server.call("run_checks")["checks"]

    assert "*** plain http://me:***@example.com/x\n" in found["tail"]
    ((kept,),) = query(root, "SELECT tail FROM ralphgen_evidence")
    assert found["tail"] == kept


PRINTED = ("MY_PASS", "DB_PWD", "PEM", "OTHER", "LANG")
PRINTS = f"import os; [print(os.environ.get(name)) for name in {PRINTED}]"


def test_output_never_holds_secrets_of_any_name(tmp_path: Path) -> None:
    program = (
        f"{PRINTS}\nprint('x' * 70_000)\nprint(os.environ['MY_PASS'] * 20_000)\n"
        "print(os.environ['URL'].partition('u:')[2].partition('@')[0]); 1 / 0"
    )
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    variables = {
        "MY_PASS": "hunter2",
        "DB_PWD": "opensesame",
        "PEM": "one1one\ntwo2two",
        "URL": "mysql://u:swordfish@h/x",
        "OTHER": "harmless",
        "LANG": "C.UTF-8",
    }
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config, environment=variables) as server:
        (found,) = server.call("run_checks")["checks"]
    evidence = str(query(root, "SELECT tail FROM ralphgen_evidence"))

    for secret in ("hunter2", "unter2", "opensesame", "swordfish"):
        assert secret not in found["tail"]
        assert secret not in evidence


def test_harmless_variables_reach_a_check_and_are_not_masked(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", check("tests", *python(f"{PRINTS}; 1 / 0")))
    session = opened(root, "task_execution", task=1)
    variables = {"OTHER": "harmless", "LANG": "C.UTF-8", "MY_PASS": "short"}
    with client_of(session.mcp_config, environment=variables) as server:
        (found,) = server.call("run_checks")["checks"]

    assert "short\nNone\nNone\nharmless\nC.UTF-8\n" in found["tail"]


def test_a_project_can_list_the_variables_of_its_checks(tmp_path: Path) -> None:
    config = check("tests", *python(f"{PRINTS}; 1 / 0"))
    config += '[environment]\nvariables = ["MY_PASS"]\n'
    root = proved_project(tmp_path / "p", config)
    session = opened(root, "task_execution", task=1)
    variables = {"OTHER": "harmless", "LANG": "C.UTF-8", "MY_PASS": "hunter2"}
    with client_of(session.mcp_config, environment=variables) as server:
        (found,) = server.call("run_checks")["checks"]

    assert "***\nNone\nNone\nNone\nC.UTF-8\n" in found["tail"]


def test_a_slow_check_is_stopped_with_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('child.log', 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    root = proved_project(tmp_path / "p", check("tests", *python(program), timeout=1))
    with connected(root) as server:
        (found,) = server.call("run_checks", task=1)["checks"]
        child = int((root / "child.log").read_text(encoding="utf-8"))

        assert found["exit_code"] is None
        assert "stopped after 1 seconds" in found["tail"]
        until(lambda: not _lives(child))


def _lives(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_leftover_processes_end_with_their_check(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "open('child.log', 'w').write(str(child.pid))"
    )
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    with connected(root) as server:
        assert server.call("run_checks", task=1)["passed"]

        assert not _lives(int((root / "child.log").read_text(encoding="utf-8")))


def test_the_server_answers_others_while_checks_run(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", counted(GATE))
    with connected(root) as server, ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.call, "run_checks", task=1)
        until(lambda: runs(root) == 1)
        title = server.call("get_task", id=1)["title"]
        write_files(root, [("go.log", "")])

        assert "Log in" == title
        assert running.result(60)["passed"]


def test_a_call_while_checks_run_joins_them(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", counted(GATE))
    with connected(root) as server, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(server.call, "run_checks", task=1)]
        until(lambda: runs(root) == 1)
        calls.append(pool.submit(server.call, "run_checks", task=1))
        refusal = server.refusal("run_checks", task=2)
        write_files(root, [("go.log", "")])
        answers = [call.result(60) for call in calls]

    assert "the checks of task 1 are still running" in refusal
    assert answers[0] == answers[1]
    assert (1, 1) == (runs(root), len(evidence(root)))


def test_checks_get_no_keys_of_the_project(tmp_path: Path) -> None:
    program = "import os, sys; sys.exit(bool({'RALPH_KEY', 'RALPH_DSN'} & {*os.environ}))"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    session = opened(root, "task_execution", task=1)
    keys = {"RALPH_KEY": "a secret", "RALPH_DSN": "another"}
    with client_of(session.mcp_config, environment=keys) as server:
        answer = server.call("run_checks")

    assert answer["passed"], answer


def test_checks_outlive_a_client_that_loses_its_patience(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", counted(GATE + "raise SystemExit(3)"))
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        give_up(server, 1)
        until(lambda: runs(root) == 1)
        write_files(root, [("go.log", "")])
        until(lambda: len(evidence(root)) == 1)
        codes = [one["exit_code"] for one in server.call("run_checks")["checks"]]
        assert (1, [3]) == (runs(root), codes)
        server.call("run_checks")

    assert 2 == runs(root)  # a reported failure is not reused: the checks run again


def test_a_passed_check_is_not_rerun_on_the_same_files(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", counted(""))
    with connected(root) as server:
        first = server.call("run_checks", task=1)
        again = server.call("run_checks", task=1)
        write_files(root, [("code.txt", "1")])
        server.call("run_checks", task=1)

    assert first == again
    assert 2 == runs(root)


def test_files_that_change_while_checks_run_prove_nothing(tmp_path: Path) -> None:
    program = "open('code.txt', 'w').write('1')"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        answer = server.call("run_checks")
        refusal = server.refusal("set_task_status", status="done")

    assert not answer["passed"]
    assert 'files were changed while the checks ran: "code.txt"' in answer["not_proved"]
    assert '"tests" proves nothing: files were changed while the checks ran: "code.txt"' in refusal
    assert [None] == [code for *_, code in evidence(root)]


def _rewrite(root: Path) -> None:
    (root / "src/mod.txt").write_text("0", encoding="utf-8")


def _restore(root: Path) -> None:
    (root / "src/mod.txt").write_text("1", encoding="utf-8")
    os.utime(root / "src/mod.txt", (0, 0))


def _replace(root: Path) -> None:
    (root / "src/mod.txt").rename(root / "kept.log")
    _rewrite(root)


def _put_back(root: Path) -> None:
    (root / "kept.log").replace(root / "src/mod.txt")


def _swap_folders(root: Path) -> None:
    (root / "src").rename(root / "kept.log")
    write_files(root, [("src/mod.txt", "0")])


def _swap_back(root: Path) -> None:
    (root / "src/mod.txt").unlink()
    (root / "src").rmdir()
    (root / "kept.log").rename(root / "src")


def _link_folders(root: Path) -> None:
    (root / "src").rename(root / "kept.log")
    write_files(root, [("other.log/mod.txt", "0")])
    (root / "src").symlink_to("other.log")


def _unlink_folders(root: Path) -> None:
    (root / "src").unlink()
    (root / "kept.log").rename(root / "src")


def _write_by_another_name(root: Path) -> None:
    (root.parent / "link").write_text("0", encoding="utf-8")


def _restore_by_another_name(root: Path) -> None:
    (root.parent / "link").write_text("1", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "restore", "named"),
    [
        (_rewrite, _restore, "src/mod.txt"),
        (_replace, _put_back, "src/mod.txt"),
        (_swap_folders, _swap_back, "src/"),
        (_link_folders, _unlink_folders, "src/"),
        (_write_by_another_name, _restore_by_another_name, "src/mod.txt"),
    ],
)
def test_files_that_are_other_ones_while_checks_run_prove_nothing(
    tmp_path: Path, change: Callable[[Path], None], restore: Callable[[Path], None], named: str
) -> None:
    """The check passes on the other content, and both looks see the same files."""
    root, at = tmp_path / "p", tmp_path / "now"
    program = (
        f"import pathlib, time\nat = pathlib.Path({str(at)!r})\nat.write_text('begun')\n"
        "while at.read_text() == 'begun': time.sleep(0.01)\n"
        "code = int(pathlib.Path('src/mod.txt').read_text())\nat.write_text('read')\n"
        "while at.read_text() == 'read': time.sleep(0.01)\nraise SystemExit(code)"
    )
    write_files(root, [("src/mod.txt", "1")])
    os.link(root / "src/mod.txt", tmp_path / "link")
    proved_project(root, check("tests", *python(program)))

    def flip() -> None:
        for word, turn in (("begun", change), ("read", restore)):
            while not at.exists() or at.read_text(encoding="utf-8") != word:
                time.sleep(0.01)
            turn(root)
            at.write_text("", encoding="utf-8")

    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        other = threading.Thread(target=flip)
        other.start()
        answer = server.call("run_checks")
        other.join()
        refusal = server.refusal("set_task_status", status="done")

    assert [0] == [one["exit_code"] for one in answer["checks"]]
    assert not answer["passed"]
    assert f'files were changed while the checks ran: "{named}"' in answer["not_proved"]
    assert '"tests" proves nothing: files were changed' in refusal


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_files_that_a_program_writes_through_its_memory_are_named(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", TESTS)
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        with (root / "code.txt").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[0:1] = b"0"
            refusal = server.refusal("run_checks")
        answer = server.call("run_checks")

    assert 'mapped into its memory: "code.txt": end it' in refusal
    assert answer["passed"]


def test_a_write_within_a_tick_of_the_clock_changes_a_stamp(tmp_path: Path) -> None:
    for number in range(20):
        write_files(tmp_path, [("a", "1")])
        before = settled_stamps(str(tmp_path), ["a"])
        write_files(tmp_path, [("a", "2")])

        assert ["a"] == moved(before, stamps(str(tmp_path), ["a"])), number


def test_new_files_that_a_check_writes_are_named_with_their_lines(tmp_path: Path) -> None:
    program = "open('report.txt', 'w').write('1'); open('a.log', 'w').write('1')"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        answer = server.call("run_checks")
        refusal = server.refusal("set_task_status", status="done")

    assert not answer["passed"]
    assert 'add to .gitignore "/report.txt" if these are reports, then start a' in refusal
    assert "a.log" not in answer["not_proved"]


def test_a_check_may_write_ignored_files(tmp_path: Path) -> None:
    program = (
        "import os, pathlib\nfor place in ('src', '.', 'node_modules/a', '.venv/lib'):\n"
        "    os.makedirs(f'{place}/__pycache__', exist_ok=True)\n"
        "    pathlib.Path(f'{place}/__pycache__/a.pyc').write_text(str(os.getpid()))\n"
        "    pathlib.Path(f'{place}/a.log').write_text(str(os.getpid()))"
    )
    root = tmp_path / "p"
    proved_project(root, check("tests", *python(program)))
    rules = "__pycache__/\n*.log\nnode_modules/\n"
    write_files(root, [("src/a.py", ""), (".gitignore", rules), (".venv/.gitignore", "*\n")])
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        assert server.call("run_checks")["passed"]
        write_files(root, [("src/b.py", "")])
        assert server.call("run_checks")["passed"]
        server.call("set_task_status", status="done")


REPORTS = """
import os
os.makedirs("out/[a] b", exist_ok=True)
for path in ("coverage.xml", "out/[a] b/junit.xml", "docs/report.xml"):
    with open(path, "a") as file:
        file.write("x")
"""


def test_untracked_files_that_a_check_rewrites_are_named_with_their_lines(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_files(root, [("docs/own.md", "")])
    proved_project(root, check("tests", *python(REPORTS)))
    named = '"coverage.xml", "docs/report.xml", "out/[a] b/junit.xml"'
    lines = ["/coverage.xml", "/docs/report.xml", "/out/"]
    with connected(root) as server:
        first = server.call("run_checks", task=1)
        write_files(root, [("code.txt", "new")])
        second = server.call("run_checks", task=1)
        refusal = server.refusal("set_task_status", id=1, status="done")
    shown = ralphgen("task", "check", "1", "--project", root)
    doctor = ralphgen("doctor", root)

    assert not first["passed"]
    assert first["not_proved"] == second["not_proved"]
    assert f"the checks write files that git does not ignore: {named}" in second["not_proved"]
    assert ", ".join(f'"{line}"' for line in lines) in second["not_proved"]
    assert f"the checks write files that git does not ignore: {named}" in refusal
    assert (1, True) == (shown.returncode, second["not_proved"] in shown.stdout)
    assert f"checks write files that git does not ignore: {named}" in doctor.stdout
    assert f"add to .gitignore: {', '.join(lines)}" in doctor.stdout

    with (root / ".gitignore").open("a", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))
    assert 0 == ralphgen("task", "check", "1", "--project", root).returncode
    assert 0 == ralphgen("task", "check", "1", "--project", root).returncode
    assert "git does not ignore" not in ralphgen("doctor", root).stdout
    assert " M" not in git(root, "status", "--porcelain", "docs/own.md")


def test_lines_of_gitignore_ignore_the_files_alone(tmp_path: Path) -> None:
    paths = ["a b ", "x[1].xml", "s*/t?.xml", "#r", "!n", "d/e/f.xml", "k/new/j.xml", "tab\\s"]
    git(tmp_path, "init", "--quiet")
    write_files(tmp_path, [(path, "") for path in (*paths, "k/own.txt", "sx/tx.xml", "x1.xml")])
    lines = ignoring_lines(paths, tree_files(str(tmp_path)))
    (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n", encoding="utf-8")

    assert {"k/own.txt", "sx/tx.xml", "x1.xml", ".gitignore"} == {*tree_files(str(tmp_path))}


def test_a_server_that_ends_stops_its_checks_and_keeps_no_evidence(tmp_path: Path) -> None:
    program = "import os, time; open('own.log', 'w').write(str(os.getpid())); time.sleep(600)"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        give_up(server, 2)
        until((root / "own.log").exists)
    until(lambda: not _lives(int((root / "own.log").read_text(encoding="utf-8"))))

    assert [] == evidence(root)


def test_a_task_of_dela_is_a_check_without_being_allowed(tmp_path: Path) -> None:
    root = tmp_path / "p"
    write_files(root, [("Makefile", "test:\n\t@echo from make; test -f code.txt\n")])
    config = 'kits = ["ralph", "dela"]\n' + check("tests", dela="test")
    config += check("other", dela="no_such_task")
    with connected(proved_project(root, config)) as server:
        first, second = server.call("run_checks", task=1)["checks"]

    assert (0, "from make\n") == (first["exit_code"], first["tail"])
    assert 127 == second["exit_code"]
    assert "Task 'no_such_task' not found" in second["tail"]


def test_checks_run_in_the_project_and_read_nothing(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getcwd(), repr(sys.stdin.read()))"
    root = proved_project(tmp_path / "p", check("tests", *python(program)))
    with connected(root) as server:
        (found,) = server.call("run_checks", task=1)["checks"]

    assert f"{root} ''\n" == found["tail"]


def test_a_task_without_checks_of_its_discipline_needs_none(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", TESTS.rstrip() + '\ndisciplines = ["frontend"]\n')
    with connected(root) as server:
        answer = server.call("run_checks", task=1)
        server.call("set_task_status", id=1, status="done")

    assert ([], True) == (answer["checks"], answer["passed"])


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_client_that_asks_learns_the_running_check(tmp_path: Path, era: Era) -> None:
    slow = python("import time; time.sleep(1.2)")
    root = proved_project(tmp_path / "p", check("first", *slow) + check("second", *slow))
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    with connected(root, era=era) as server:

        async def call() -> None:
            given = {"task": 1}
            await server.client.call_tool("run_checks", given, progress_callback=hear)

        server.portal.call(call)

    assert [(0, 2, "the check first runs"), (1, 2, "the check second runs")] == heard
