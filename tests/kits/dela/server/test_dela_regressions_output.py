"""Faults of other task servers that must not come back: what tasks print, and how it is answered.

The numbers are those of the list of faults that this kit was built against.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import allow, at_home, begun, entry, project_with, serving
from driving import Driver, context_for, on_context
from lifelines import PATIENCE, until
from wire import MODERN, running

MOST_BYTES = 8192  # of an answer that carries output
FILES = {
    "show.sh": '#!/bin/sh\nexec cat "$1"\n',
    "asking.sh": "#!/bin/sh\nprintf 'password: '\nexec sleep 60\n",
    "wild.sh": """\
#!/bin/sh
frame='{"jsonrpc":"2.0","id":4,"result":{"content":[],"isError":false}}'
printf '%s\\nContent-Length: 2\\r\\n\\r\\n{}' "$frame"
echo "$frame" >&2
for file in 3 4 5 6 7 8 9; do
    (eval "echo '$frame' >&$file") 2>/dev/null
done
printf '\\000\\033[2J\\033]0;title\\007\\377'
""",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("output"), FILES, settings="lines = 100_000")


@pytest.fixture(scope="module")
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with serving(root, tmp_path_factory.mktemp("home")) as driver:
        yield driver


def show(dela: Driver, path: Path, data: bytes) -> tuple[int, dict[str, Any], int]:
    """Print some bytes by a task that must end well: its PID, the answer, and its bytes."""
    path.write_bytes(data)
    arguments = {"unique_name": "show", "args": [str(path)], "wait_for_exit_seconds": 60}
    size, answer = asked(dela, "task_start", arguments)
    assert ("exited", 0) == (answer["state"], answer["exit_code"])
    return dela.call("task_status", unique_name="show")["jobs"][0]["pid"], answer, size


def asked(dela: Driver, tool: str, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """An answer that must come, and how many bytes it is long."""
    call = dela.portal.start_task_soon(dela.client.call_tool, tool, arguments)
    (block,) = call.result(PATIENCE).content
    text: str = block.text
    return len(text.encode()), json.loads(text)


def whole(dela: Driver, pid: int) -> str:
    """All that is kept of an output, page by page; no page may be too large."""
    offset, text = 0, ""
    while True:
        size, page = asked(dela, "task_output", {"pid": pid, "offset": offset})
        assert size <= MOST_BYTES
        if not page["lines"]:
            return text
        text += "".join(page["lines"])
        offset = page["next_offset"]


def test_r4_bytes_that_are_no_text_neither_end_the_reading_nor_the_task(
    dela: Driver, tmp_path: Path
) -> None:
    """There is more behind them than a pipe holds."""
    data = b"a\377b\n" + b"line\n" * 40_000
    pid, answer, _ = show(dela, tmp_path / "data", data)
    first = dela.call("task_output", pid=pid, offset=0, lines=1)

    assert answer["initial_output"].endswith("line\nline\n")
    assert (["a\ufffdb"], 40_001) == (first["lines"], first["total_lines"])
    assert len(data) == first["total_bytes"]


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_r5_a_cut_falls_between_characters_and_each_request_is_answered(
    dela: Driver, tmp_path: Path, shift: int, character: str
) -> None:
    text = "." * shift + character * 20_000
    pid, answer, size = show(dela, tmp_path / "data", text.encode())
    newest_size, newest = asked(dela, "task_output", {"pid": pid})

    assert (True, True) == (size <= MOST_BYTES, newest_size <= MOST_BYTES)
    assert text.endswith(answer["initial_output"])
    (line,) = newest["lines"]
    assert text.startswith(line.removesuffix("... [truncated]"))
    assert len(line.encode()) > 7_000
    assert line == whole(dela, pid)


@pytest.mark.parametrize("character", ['"', "\x1b", "\0"])
def test_r5_what_takes_several_bytes_of_json_is_cut_by_them(
    dela: Driver, tmp_path: Path, character: str
) -> None:
    """The answer states that the line is not whole."""
    pid, answer, size = show(dela, tmp_path / "data", character.encode() * 20_000)
    newest_size, newest = asked(dela, "task_output", {"pid": pid})

    assert 7_000 < size <= MOST_BYTES
    assert {character} == set(answer["initial_output"])
    assert 3_000 < newest_size <= MOST_BYTES
    assert {character} == set("".join(newest["lines"]).removesuffix("... [truncated]"))


def test_r16_a_line_that_is_not_finished_can_be_read(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="asking", wait_for_exit_seconds=0)
    pid = answer["pid"]
    try:
        assert until(lambda: ["password: "] == dela.call("task_output", pid=pid)["lines"])
    finally:
        dela.call("task_stop", pid=pid)


def test_r16_a_line_that_goes_on_is_read_again_where_it_began(dela: Driver) -> None:
    """The next page begins with the unfinished line, so that nothing of it is lost."""
    pid = begun(dela, "asking", "password: ")
    first = dela.call("task_output", pid=pid)
    again = dela.call("task_output", pid=pid, offset=first["next_offset"])
    dela.call("task_stop", pid=pid)

    assert (0, ["password: "]) == (first["next_offset"], again["lines"])


def test_r17_the_answer_of_a_start_is_bounded_and_all_of_the_output_can_be_read(
    dela: Driver, tmp_path: Path
) -> None:
    lines = [f"line {number}" for number in range(12_000)]
    pid, answer, size = show(dela, tmp_path / "data", "\n".join(lines).encode())

    assert (True, pid, True) == (answer["output_truncated"], answer["pid"], size <= MOST_BYTES)
    assert "line 11999" == answer["initial_output"].rpartition("\n")[2]
    assert "".join(lines) == whole(dela, pid)


def test_r18_a_tail_that_is_too_large_loses_its_oldest_lines(dela: Driver, tmp_path: Path) -> None:
    lines = [f"{number:03d}{'.' * 97}" for number in range(1, 301)]
    pid, _, _ = show(dela, tmp_path / "data", "\n".join(lines).encode() + b"\n")
    size, answer = asked(dela, "task_output", {"pid": pid, "lines": 200})
    count = len(answer["lines"])

    assert (True, True) == (answer["truncated"], answer["chunk_truncated"])
    assert (lines[-count:], True) == (answer["lines"], size <= MOST_BYTES)
    assert (300 - count, 300) == (answer["offset"], answer["next_offset"])
    assert count > 70


def test_r20_line_longer_than_all_that_is_kept_leaves_what_follows(
    tmp_path: Path,
) -> None:
    root = project_with(tmp_path / "project", FILES, settings="bytes = 8192")
    data = b"before\n" + b"x" * 1_000_000 + b"\nafter\n"
    with serving(root, tmp_path / "home") as dela:
        pid, answer, _ = show(dela, tmp_path / "data", data)
        kept = whole(dela, pid)
        told = dela.call("task_output", pid=pid, lines=0)

    assert "after\n" == answer["initial_output"]
    assert "after" == kept
    assert (len(data), 3, True) == (told["total_bytes"], told["total_lines"], told["buffer_full"])
    assert 2 == told["dropped_lines"]


def test_r26_line_of_more_than_64_kib_is_one_line_and_shown_cut(
    dela: Driver, tmp_path: Path
) -> None:
    line = "".join(f"{number:07d}," for number in range(12_500))
    pid, _, _ = show(dela, tmp_path / "data", f"{line}\nafter\n".encode())
    page = dela.call("task_output", pid=pid, offset=0)
    (shown,) = page["lines"]

    assert shown.endswith("... [truncated]")
    assert line.startswith(shown.removesuffix("... [truncated]"))
    assert (2, 1) == (page["total_lines"], page["next_offset"])
    assert ["after"] == dela.call("task_output", pid=pid, lines=1)["lines"]


def test_900_lines_of_almost_10_000_characters_lose_only_what_exceeds_5_mib(
    dela: Driver, tmp_path: Path
) -> None:
    lines = [f"{number:03d}{'.' * 9987}" for number in range(900)]
    pid, _, _ = show(dela, tmp_path / "data", "".join(f"{line}\n" for line in lines).encode())
    told = dela.call("task_output", pid=pid, offset=0)
    kept = (5 << 20) // 9991

    assert (900, 900 - kept) == (told["total_lines"], told["dropped_lines"])
    assert lines[900 - kept].startswith(told["lines"][0].removesuffix("... [truncated]"))


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_r27_whatever_a_task_prints_only_the_server_speaks_the_protocol(
    root: Path, tmp_path: Path, version: str
) -> None:
    """Not even what looks like an answer, or is written to a file that the task inherits."""
    context = context_for(root, "manual")
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    call = {"name": "task_start", "arguments": {"unique_name": "wild"}, **envelope}
    status = {"name": "status", "arguments": {}, **envelope}
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        with running(root, "dela", *on_context(context)) as server:
            server.shake_hands(version)
            for _ in range(3):
                text = server.ask("tools/call", call)["result"]["content"][0]["text"]
                answer = json.loads(text)
                assert ("exited", 2) == (answer["state"], answer["initial_output"].count('"id":4'))
                server.ask("tools/call", status)
            server.leave()
            assert server.process.stdout is not None
            assert "" == server.process.stdout.read()
            assert 0 == server.end()
