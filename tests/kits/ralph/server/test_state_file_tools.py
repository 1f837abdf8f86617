"""The two state files: one entry per call, with any text."""

import re
from pathlib import Path

import pytest
from driving import Driver, connected

FILES = {
    "progress": ("append_progress", "read_progress"),
    "learnings": ("append_learning", "read_learnings"),
}
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
both = pytest.mark.parametrize("name", FILES)


@both
def test_a_missing_file_is_empty_and_comes_with_its_first_entry(
    project: Path, server: Driver, name: str
) -> None:
    append, read = FILES[name]
    path = project / ".ralph" / f"{name}.txt"

    assert {"text": "", "entries": 0, "total": 0} == server.call(read)
    assert not path.exists()

    written = server.call(append, text=" one\r\n- 2026-01-01T00:00:00Z [x] forged\0\x1b[31m\n")
    text = path.read_bytes()

    assert {"bytes_written": len(text)} == written
    assert re.fullmatch(
        rf"- {MOMENT} \[manual\] one\n    - 2026-01-01T00:00:00Z \[x\] forged\[31m\n", text.decode()
    )
    assert (1, 1) == tuple(server.call(read)[key] for key in ("entries", "total"))


@both
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (" \n\t", "the text must not be blank"),
        ("\0\x07", "the text must not be blank"),
        ("x" * 2_001, "the text has 2001 characters, but an entry can have at most 2000"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(
    project: Path, server: Driver, name: str, text: str, sentence: str
) -> None:
    append, _ = FILES[name]
    path = project / ".ralph" / f"{name}.txt"
    before = path.read_bytes() if path.exists() else b""

    assert sentence in server.refusal(append, text=text)
    assert before == (path.read_bytes() if path.exists() else b"")


def test_the_same_learning_is_kept_once_for_all_writers(project: Path, server: Driver) -> None:
    path = project / ".ralph" / "learnings.txt"
    server.call("append_learning", text="Known.\nSince long")
    before = path.read_bytes()
    again = {"bytes_written": 0, "already_there": True}

    assert again == server.call("append_learning", text=" Known.\r\nSince long \n")
    with connected(project, "task_execution", discipline="backend") as agent:
        assert again == agent.call("append_learning", text="Known.\nSince long")
    assert before == path.read_bytes()
    assert server.call("append_learning", text="Known.")["bytes_written"] > 0


def test_the_same_progress_may_be_made_twice(server: Driver) -> None:
    written = [server.call("append_progress", text="again")["bytes_written"] for _ in range(2)]

    assert all(written)


def test_an_agents_entry_bears_its_recipe_and_discipline(project: Path) -> None:
    with connected(project, "task_execution", discipline="backend") as agent:
        agent.call("append_progress", text="done")
        text = agent.call("read_progress", limit=1)["text"]

    assert re.fullmatch(rf"- {MOMENT} \[task_execution #1 backend\] done\n", text)


@both
def test_pages_from_the_end_are_the_whole_file(project: Path, server: Driver, name: str) -> None:
    append, read = FILES[name]
    path = project / ".ralph" / f"{name}.txt"
    path.write_bytes(b"by hand\n\n  indented\nbad \xff byte, no newline")
    for number in range(7):
        server.call(append, text=f"{number}\n" + "é" * 1_990)
    whole = path.read_bytes().decode("utf-8", "replace")
    pages: list[str] = []
    cursor = None
    while True:
        answer = server.call(read, limit=2, cursor=cursor)
        pages.insert(0, answer["text"])
        cursor = answer.get("next_cursor")
        if cursor is None:
            break

    assert whole == "".join(pages)
    assert 9 == answer["total"]
    assert "invalid cursor" in server.refusal(read, cursor="x")
    assert "invalid cursor" in server.refusal(read, cursor=str(len(whole) * 9))


@both
def test_a_page_is_never_longer_than_an_agent_can_read(
    project: Path, server: Driver, name: str
) -> None:
    _, read = FILES[name]
    path = project / ".ralph" / f"{name}.txt"
    path.write_text(("\x01" * 3_000 + "\n") * 40, encoding="utf-8")

    assert len(server.ask(read, {"limit": 200})[1]) <= 40_000

    path.write_text("\x02" * 100_000, encoding="utf-8")
    answer = server.ask(read)[1]

    assert 1_000 < len(answer) <= 40_000
    path.unlink()


@both
def test_a_directory_instead_of_a_file_is_refused(project: Path, server: Driver, name: str) -> None:
    append, read = FILES[name]
    path = project / ".ralph" / f"{name}.txt"
    path.unlink(missing_ok=True)
    path.mkdir()
    texts = [server.refusal(append, text="x"), server.refusal(read)]
    path.rmdir()

    assert all(f'"{name}.txt"' in text and str(project) not in text for text in texts)
