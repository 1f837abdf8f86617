"""Entries are whole, one write each, and a file is read back from its end without loss."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripts import REPOSITORY, script_output

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.entry_log import PAGE_CHARACTERS, append_entry, read_entries

if TYPE_CHECKING:
    from pathlib import Path

STAMP = r"- \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
LINES = st.sampled_from(
    ["- 2026-11-20T18:02:46Z [yap] a\n", "    b\n", "free\n", "\n", "\t- c\n", " \r\n", "x\r\n"]
)
FILES = st.lists(LINES | st.text(max_size=4), max_size=12).map("".join)

WRITER = """
import sys
from ralphgen.runtime.files.entry_log import append_entry
path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    append_entry(path, name, f"{name} {number} " + "x" * 1500 + "\\nend")
"""
FULL = """
import resource, sys
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.entry_log import append_entry
path, size = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
try:
    append_entry(path, "yap", "x" * 100)
except ToolError as error:
    print(error)
"""


def pages(path: Path, limit: int) -> list[tuple[str, int, int]]:
    """All pages of a file from its end to its beginning: text, entries, total."""
    found: list[tuple[str, int, int]] = []
    cursor: str | None = None
    while not found or cursor:
        page = read_entries(str(path), limit, cursor)
        found.append((page.text, page.entries, page.total))
        cursor = page.next_cursor
    return found


# Writing


def test_an_entry_is_one_line_with_its_moment_and_its_tag(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"

    written = append_entry(str(path), "task_execution #7 frontend", "  The form is done.\n")

    text = path.read_text(encoding="utf-8")
    assert re.fullmatch(rf"{STAMP} \[task_execution #7 frontend\] The form is done\.\n", text)
    assert len(text) == written
    assert 0o644 & ~_umask() == path.stat().st_mode & 0o777


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_bytes_are_counted_not_characters(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"

    assert append_entry(str(path), "yap", "größe 😀") == path.stat().st_size


def test_further_lines_are_indented_so_that_no_text_can_forge_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    forged = "a\r\n- 2026-01-01T00:00:00Z [human] b\r\r- c\u2028- d\x0b- e\x85- f"

    append_entry(str(path), "yap", forged)

    text = path.read_text(encoding="utf-8")
    assert text.endswith(
        "[yap] a\n    - 2026-01-01T00:00:00Z [human] b\n    \n    - c\n    - d- e\n    - f\n"
    )
    assert 1 == read_entries(str(path), 10).total


def test_control_characters_go_and_tabs_remain(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"

    append_entry(str(path), "yap", "a\x00\x1b[31mb\tc\x7f\x9b\ud800")

    assert path.read_text(encoding="utf-8").endswith("[yap] a[31mb\tc\ufffd\n")


def test_a_tag_stays_within_its_brackets(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"

    append_entry(str(path), "my]\n recipe\x00 [x", "a")

    assert path.read_text(encoding="utf-8").endswith("Z [my) recipe (x] a\n")


@pytest.mark.parametrize(
    ("there", "is_there"),
    [
        ("- 2026-01-01T00:00:00Z [a b] one\n    two\n", True),
        ("- 2026-01-01T00:00:00Z [] one\n    two\n- x", True),
        ("by hand\n\n- 2026-01-01T00:00:00Z [c] one\n    two\n\n", True),
        ("- 2026-01-01T00:00:00Z [a] one\n    two\n    three\n", False),
        ("- 2026-01-01T00:00:00Z [a] zero one\n    two\n", False),
        ("- 2026-01-01T00:00:00Z [a] one\n    twos\n", False),
        ("- 2026-01-01T00:00:00Z [a] x\n    - 2026-01-01T00:00:00Z [a] one\n    two\n", False),
        ("- 2026-01-01T00:00:00Z [a] one\n    two\n" + "- x\n" * 300_000, False),
        ("", False),
    ],
)
def test_an_entry_that_is_there_is_not_written_once_more(
    tmp_path: Path, there: str, *, is_there: bool
) -> None:
    path = tmp_path / "learnings.txt"
    path.write_text(there, encoding="utf-8")
    written = append_entry(str(path), "yap", "one\ntwo", once=True)

    assert is_there == (written == 0)
    assert len(there) + written == path.stat().st_size


@pytest.mark.parametrize("before", ["free text", "a\n\nfree text", "größe"])
def test_after_a_line_without_an_end_an_entry_begins_a_new_one(tmp_path: Path, before: str) -> None:
    path = tmp_path / "progress.txt"
    path.write_text(before, encoding="utf-8")

    written = append_entry(str(path), "yap", "a")

    assert re.fullmatch(rf"{before}\n{STAMP} \[yap\] a\n", path.read_text(encoding="utf-8"))
    assert path.stat().st_size - len(before.encode()) == written


def test_after_a_whole_line_no_blank_one_is_added(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"free\n")

    append_entry(str(path), "yap", "a")

    assert path.read_bytes().startswith(b"free\n- ")


@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "\x1b\r\n"])
def test_blank_text_is_refused_and_no_file_is_made(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError, match=r"^the text must not be blank$"):
        append_entry(str(tmp_path / "progress.txt"), "yap", text)

    assert [] == list(tmp_path.iterdir())


def test_text_over_the_limit_is_refused_and_nothing_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    append_entry(str(path), "yap", "é" * 2000)
    before = path.read_bytes()

    with pytest.raises(ToolError) as caught:
        append_entry(str(path), "yap", "x" * 2001)

    assert (
        "the text has 2001 characters, but an entry can have at most 2000: shorten "
        "it, or split it into several entries"
    ) == str(caught.value)
    assert before == path.read_bytes()


def test_a_given_limit_applies(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="can have at most 5:"):
        append_entry(str(tmp_path / "progress.txt"), "yap", "123456", limit=5)


@pytest.mark.slow
def test_entries_of_eight_processes_at_once_are_all_whole(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"no newline at its end")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), f"writer{number}"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(8)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert b"ready\n" == writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)

    assert [0] * 8 == [writer.returncode for writer in writers]
    entry = rf"^{STAMP} \[(writer\d)\] \1 (\d+) x{{1500}}\n    end$"
    whole = re.findall(entry, path.read_text(encoding="utf-8"), re.MULTILINE)
    for number in range(8):
        mine = [int(count) for writer, count in whole if writer == f"writer{number}"]
        assert list(range(200)) == mine
    assert 1601 == read_entries(str(path), 1).total


@pytest.mark.slow
@pytest.mark.parametrize("room", [40, 0])
def test_an_entry_that_does_not_fit_leaves_the_file_unchanged(tmp_path: Path, room: int) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"what was there\n")

    told = script_output(FULL, str(path), str(path.stat().st_size + room))

    assert told.startswith('"progress.txt" cannot be written: ')
    assert b"what was there\n" == path.read_bytes()


# Reading


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    page = read_entries(str(tmp_path / "progress.txt"), 10)

    assert ("", 0, 0, None) == (page.text, page.entries, page.total, page.next_cursor)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.touch()

    assert [("", 0, 0)] == pages(path, 10)


def test_the_last_entries_come_first_and_the_cursor_leads_back(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_text("# Notes\n- 1\n    more\n\n- 2\nfree\n", encoding="utf-8")

    assert [("- 2\nfree\n", 2, 4), ("# Notes\n- 1\n    more\n\n", 2, 4)] == pages(path, 2)


def test_concurrent_appends_do_not_move_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    cursor = read_entries(str(path), 1).next_cursor
    append_entry(str(path), "yap", "four")

    page = read_entries(str(path), 1, cursor)

    assert ("two\n", 4) == (page.text, page.total)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.integers(1, 4))
def test_all_pages_together_are_the_file(tmp_path: Path, text: str, limit: int) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(text.encode("utf-8", "replace"))
    found = pages(path, limit)

    assert (
        text.encode("utf-8", "replace") == "".join(part for part, _, _ in reversed(found)).encode()
    )
    assert {sum(entries for _, entries, _ in found)} == {total for _, _, total in found}
    assert all(entries <= limit for _, entries, _ in found)


@pytest.mark.parametrize(
    "content",
    [
        b"x" * 100_000,
        ("😀" * 60_000).encode(),
        ("😀" * 60_000 + "x").encode(),
        ("é\n    " * 30_000).encode(),
        b"a\n" * 90_000,
        b"\n" * 90_000,
        b"\x01" * 50_000,
        b"short\n" + b"\xff" * 90_000 + b"\nshort\n",
        b"    indented\n" * 20_000,
    ],
    ids=[
        "one line",
        "emoji",
        "emoji and a letter",
        "one entry",
        "lines",
        "blank",
        "escapes",
        "bytes",
        "indented",
    ],
)
def test_a_page_is_never_too_long_and_nothing_is_left_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(content)
    found = pages(path, 50_000)

    assert content.decode("utf-8", "replace") == "".join(part for part, _, _ in reversed(found))
    assert max(len(json.dumps(part, ensure_ascii=False)) for part, _, _ in found) <= 40_000
    assert found[0][2] == sum(entries for _, entries, _ in found)


def test_a_page_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"12345678\n" * 20_000)

    assert PAGE_CHARACTERS // 10 == read_entries(str(path), 20_000).entries


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"a\xffb\n\xc3\nc\n")

    assert [("a\ufffdb\n\ufffd\nc\n", 3, 3)] == pages(path, 10)


@pytest.mark.slow
def test_the_tail_of_a_huge_file_is_read_alone(tmp_path: Path) -> None:
    """Counting takes one pass, in pieces; the file is never in memory as a whole."""
    path = tmp_path / "progress.txt"
    with path.open("wb") as file:
        file.truncate(200_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    tracemalloc.start()
    page = read_entries(str(path), 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert ("the end\n", 2) == (page.text, page.total)
    assert peak < 8_000_000


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "99", " 1", "٣", "9" * 5000])
def test_a_cursor_of_another_file_is_refused(tmp_path: Path, cursor: str) -> None:
    path = tmp_path / "progress.txt"
    path.write_bytes(b"one\n")

    with pytest.raises(ToolError, match=r"use \"next_cursor\" of a page"):
        read_entries(str(path), 1, cursor)


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _under_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_bytes(b"")


@pytest.mark.parametrize("make", [_folder, _loop, _pipe, _under_a_file])
def test_special_files_are_refused_at_once(tmp_path: Path, make: object) -> None:
    path = tmp_path / "folder" / "progress.txt"
    path.parent.mkdir()
    assert callable(make)
    make(path)

    for call in (lambda: read_entries(str(path), 1), lambda: append_entry(str(path), "yap", "a")):
        with pytest.raises(ToolError) as caught:
            call()

        assert re.fullmatch(r'"progress\.txt" (cannot be|is not) .*[a-z]', str(caught.value))
        assert str(tmp_path) not in str(caught.value)


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be written: no such file or directory"):
        append_entry(str(tmp_path / "gone" / "progress.txt"), "yap", "a")

    assert [] == list(tmp_path.iterdir())
