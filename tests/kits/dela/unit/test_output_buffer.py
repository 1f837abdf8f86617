"""The newest lines of an output are kept verbatim, and numbered from the start."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.kits.dela.server.output import OPEN, OutputBuffer

AMPLE = 1 << 30
BYTES = st.binary(max_size=60) | st.sampled_from(
    [b"\n", b"\r\n", b"\r", b"a", b"\xc3", b"\xa4", "ä€😀".encode(), b"x" * 4095, b"y" * 9000]
)
WRITES = st.lists(BYTES, max_size=12)


def output_of(
    *writes: bytes, lines: int = AMPLE, size: int = AMPLE, ended: bool = True
) -> OutputBuffer:
    output = OutputBuffer(lines, size)
    for data in writes:
        output.add(data)
    if ended:
        output.end()
    return output


@pytest.mark.parametrize("at", range(1, 9))
def test_secret_in_two_pieces_is_masked(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASS", "hunter2!!")
    written = b"it is hunter2!! here\n"
    output = output_of(written[: 6 + at], written[6 + at :])

    assert ["it is *** here\n"] == lines_of(output)


def lines_of(output: OutputBuffer) -> list[str]:
    return output.tail(AMPLE).lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"", []),
        (b"\n", ["\n"]),
        (b"one\ntwo\n", ["one\n", "two\n"]),
        (b"one\n\n\ntwo", ["one\n", "\n", "\n", "two"]),
        (b"one\r\ntwo\r\n", ["one\n", "two\n"]),
        (b"10%\r20%\r\n\r", ["10%\r20%\n", "\r"]),
        (b"a\xffb\xc3\n\xe2\x82", ["a\ufffdb\ufffd\n", "\ufffd"]),
        (b"\x00\x1b[1m\x85\xe2\x80\xa8\n", ["\x00\x1b[1m\ufffd\u2028\n"]),
        ("ä€😀\n".encode(), ["ä€😀\n"]),
        (b"x" * OPEN + b"\ny", ["x" * OPEN + "\n", "y"]),
        (b"x" * (OPEN + 1) + b"\ny", ["x" * (OPEN + 1) + "\n", "y"]),
        (b"x" * OPEN + b"\r\n", ["x" * OPEN + "\n"]),
        (("€" * 5000 + "\n").encode(), ["€" * 5000 + "\n"]),
        (b"\xff" * 5000, ["\ufffd" * 5000]),
    ],
)
def test_lines_end_where_the_process_ended_them(written: bytes, lines: list[str]) -> None:
    one_by_one = [written[at : at + 1] for at in range(len(written))]

    assert lines == lines_of(output_of(written))
    assert lines == lines_of(output_of(*one_by_one))


@settings(max_examples=examples(150), deadline=None)
@given(WRITES)
def test_the_text_is_what_was_written_however_it_came(writes: list[bytes]) -> None:
    whole = b"".join(writes)
    output = output_of(*writes)
    page = output.tail(AMPLE)

    assert whole.decode(errors="replace").replace("\r\n", "\n") == "".join(page.lines)
    assert lines_of(output_of(whole)) == page.lines
    assert len(whole) == page.received
    assert page.total == len(whole.split(b"\n")) - (not whole or whole.endswith(b"\n"))


@settings(max_examples=examples(150), deadline=None)
@given(WRITES, st.integers(1, 6), st.integers(10, 9000), st.booleans())
def test_what_is_kept_is_the_most_that_fits(
    writes: list[bytes], lines: int, size: int, ended: bool
) -> None:
    """The limits always hold, and no line is dropped too early: at least one is kept."""
    output = output_of(*writes, lines=lines, size=size, ended=ended)
    page = output.tail(AMPLE)
    used = len("".join(page.lines).encode())
    everything = "".join(lines_of(output_of(*writes, ended=ended)))

    assert used <= size
    assert len(page.lines) <= lines
    assert page.first == page.offset == page.total - len(page.lines)
    assert everything.endswith("".join(page.lines))
    assert page.has_lost == (everything != "".join(page.lines))
    assert bool(everything) == bool(page.lines)


def test_a_line_larger_than_all_that_is_kept_leaves_its_end() -> None:
    """It must not empty the buffer, nor vanish without being counted."""
    output = output_of(b"before\n", b"x" * 100_000 + b"end\n", size=5000)
    page = output.tail(AMPLE)

    assert ["x" * 4996 + "end\n"] == page.lines
    assert (1, 2, True) == (page.first, page.total, page.has_lost)


def test_long_lines_are_counted_as_lines_and_limited_by_bytes() -> None:
    lines = [f"{number:04d}" + "." * 9986 for number in range(900)]
    output = OutputBuffer(1000, 5 << 20)
    text = "".join(f"{line}\n" for line in lines).encode()
    for at in range(0, len(text), 1 << 16):
        output.add(text[at : at + (1 << 16)])
    output.end()
    page = output.tail(AMPLE)

    assert 900 == page.total
    assert [f"{line}\n" for line in lines[-len(page.lines) :]] == page.lines
    assert (5 << 20) // 9991 == len(page.lines)


@pytest.mark.parametrize(
    ("start", "count", "lines", "offset"),
    [
        (0, 2, ["2\n", "3\n"], 2),  # 0 and 1 were dropped
        (-5, 1, ["2\n"], 2),
        (3, 2, ["3\n", "4\n"], 3),
        (4, 9, ["4\n", "5\n"], 4),
        (6, 5, [], 6),
        (99, 5, [], 6),
        (3, 0, [], 3),
        (3, -1, [], 3),
    ],
)
def test_a_page_begins_at_a_number_that_never_moves(
    start: int, count: int, lines: list[str], offset: int
) -> None:
    page = output_of(b"0\n1\n2\n3\n4\n5\n", lines=4).read(start, count)

    assert lines == page.lines
    assert offset == page.offset
    assert offset + len(lines) == page.next


def test_a_line_that_has_begun_is_there_and_read_again() -> None:
    """A prompt must be visible before its answer; a page must not skip the following text."""
    output = output_of(b"one\nProceed? ", ended=False)
    prompt = output.read(0, 10)
    output.add(b"yes\ntwo\n")
    rest = output.read(prompt.next, 10)

    assert ["one\n", "Proceed? "] == prompt.lines
    assert (True, 2, 1) == (prompt.begun, prompt.total, prompt.next)
    assert ["Proceed? yes\n", "two\n"] == rest.lines
    assert (False, 3, 3) == (rest.begun, rest.total, rest.next)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("size", "end"), [(10, ""), (11, ""), (10, "\n"), (12, "\n")])
def test_cut_line_starts_with_a_whole_character(size: int, end: str, *, ended: bool) -> None:
    (line,) = output_of(("€" * 20 + end).encode(), size=size, ended=ended).tail(1).lines

    assert "€" * 3 + end == line


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", [b"y\n", b"x", "€".encode(), b"seventy characters or so\n", b"\xff\x00\n"]
)
def test_endless_output_keeps_little_memory(pattern: bytes) -> None:
    output = OutputBuffer(1000, 1 << 20)
    chunk = pattern * ((1 << 16) // len(pattern))
    tracemalloc.start()
    for _ in range(100):
        output.add(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 3 << 20
    assert len(chunk) * 100 == output.tail(0).received
