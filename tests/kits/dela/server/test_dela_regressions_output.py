"""Faults of other task servers that must not come back: what tasks print, and how it is answered.

The numbers are those of the list of faults that this kit was built against.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import allow, at_home, entry, project_with, serving
from driving import Driver, context_for, on_context
from lifelines import PATIENCE
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


def test_r17_the_answer_of_a_start_is_bounded_and_all_of_the_output_can_be_read(
    dela: Driver, tmp_path: Path
) -> None:
    lines = [f"line {number}" for number in range(12_000)]
    pid, answer, size = show(dela, tmp_path / "data", "\n".join(lines).encode())

    assert (True, pid, True) == (answer["output_truncated"], answer["pid"], size <= MOST_BYTES)
    assert "line 11999" == answer["initial_output"].rpartition("\n")[2]
    assert "".join(lines) == whole(dela, pid)


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
