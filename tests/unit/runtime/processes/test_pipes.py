"""Pipes to a process: both directions at the same time, and released despite open other ends."""

import os
import resource
import threading
from collections.abc import Iterator

import pytest
from lifelines import PATIENCE, open_files, until

from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime.processes import Jobs, Pipes


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Afterwards no thread and no file is left."""
    threads, files = threading.active_count(), open_files()
    yield

    assert until(lambda: threads == threading.active_count())
    assert files == open_files()


def output() -> OutputBuffer:
    return OutputBuffer(1000, 1 << 20)


def text_of(kept: OutputBuffer) -> str:
    return "".join(kept.tail(1000).lines)


def test_each_stream_has_its_own_output() -> None:
    out, error = output(), output()
    pipes = Pipes(out, error)
    pipes.open()
    os.write(pipes.stdout, b"out")
    os.write(pipes.stderr, b"error")
    pipes.pass_on()

    assert pipes.dry.wait(PATIENCE)
    assert ("out", "error", False) == (text_of(out), text_of(error), out.tail(1).begun)
    assert out.weight + error.weight == pipes.weight
    pipes.drop()
    assert 0 == pipes.weight


def test_with_one_output_both_are_one() -> None:
    out = output()
    pipes = Pipes(out)
    pipes.open()
    for end, data in ((pipes.stdout, b"1"), (pipes.stderr, b"2"), (pipes.stdout, b"3")):
        os.write(end, data)
    pipes.pass_on()

    assert pipes.dry.wait(PATIENCE)
    assert "123" == text_of(out)


def test_it_is_dry_only_when_both_are() -> None:
    pipes = Pipes(output(), output())
    pipes.open()
    held = os.dup(pipes.stderr)
    pipes.pass_on()

    assert not pipes.dry.wait(0.05)
    os.close(held)
    assert pipes.dry.wait(PATIENCE)


def test_the_input_is_read_to_its_end() -> None:
    pipes = Pipes(output(), given=b"x" * 300_000)
    pipes.open()
    held = os.dup(pipes.stdin)
    pipes.pass_on()
    found = b""
    while chunk := os.read(held, 9999):
        found += chunk
    os.close(held)

    assert b"x" * 300_000 == found


def test_nothing_given_is_an_end_of_file() -> None:
    pipes = Pipes(output())
    pipes.open()

    assert b"" == os.read(pipes.stdin, 1)
    pipes.pass_on()
    assert pipes.dry.wait(PATIENCE)


def test_abandoned_pipes_are_closed_for_all_holders() -> None:
    out = output()
    pipes = Pipes(out, output(), b"x" * 300_000)
    pipes.open()
    held = [os.dup(end) for end in (pipes.stdin, pipes.stdout, pipes.stderr)]
    os.write(held[1], b"begun")
    assert until(lambda: text_of(out) == "begun")
    pipes.pass_on()
    pipes.abandon()

    assert pipes.dry.wait(PATIENCE)
    with pytest.raises(BrokenPipeError):
        os.write(held[1], b"more")
    for end in held:
        os.close(end)


def test_without_free_descriptors_no_pipe_is_left_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    for room in range(6):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                Pipes(output(), output(), b"x").open()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_a_process_that_runs_is_not_forgotten() -> None:
    jobs = Jobs(most=1)
    job = jobs.start(("sleep", "60"), pipes=Pipes(output()), cwd="/", environment=os.environ)
    jobs.forget(job)
    remembered = jobs.all()
    jobs.close()
    jobs.forget(job)

    assert [job] == remembered
    assert [] == jobs.all()
