"""The transcript of a session, parsed once by the reader of its agent."""

import json
from pathlib import Path

import pytest

from ralphgen.agents.adapters import ClaudeReader, NamedReader
from ralphgen.agents.agent import AgentLine, OutputReader
from ralphgen.agents.transcripts import CallsReader, SessionStream, StreamEntry


def said(*blocks: dict[str, object], kind: str = "assistant") -> str:
    return json.dumps({"type": kind, "message": {"content": [*blocks]}}) + "\n"


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def use(name: str, **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": name, "name": name, "input": given}


def entries(found: SessionStream) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.words, one.calls) for one in found.read().entries]


def claude() -> OutputReader:
    return ClaudeReader(None)


def test_calls_between_words_are_one_entry(tmp_path: Path) -> None:
    failure = {"type": "tool_result", "tool_use_id": "Bash", "is_error": True, "content": "boom"}
    lines = [
        said(text("I look.\n\nHere."), use("Read", path="a.py")),
        said(use("Bash", command="ls")),
        said(failure, kind="user"),
        said(text("call me")),
    ]
    (tmp_path / "t").write_text("".join(lines), encoding="utf-8")
    found = SessionStream(tmp_path / "t", claude)

    calls = ('Read path="a.py"', 'Bash command="ls"', "failed Bash: boom")
    assert [("I look.\n\nHere.", ()), ("", calls), ("call me", ())] == [
        (words, tuple(one.replace("'", '"') for one in calls)) for words, calls in entries(found)
    ]
    assert 2 == found.calls
    assert 3 == len({one.key for one in found.entries})


class Counting(NamedReader):
    """Counts the lines that it is given."""

    lines = 0

    def take(self, line: str) -> AgentLine | None:
        Counting.lines += 1
        return super().take(line)


def test_a_line_is_parsed_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    found = SessionStream(path, Counting)
    assert [] == entries(found)
    Counting.lines = 0
    with path.open("a", encoding="utf-8") as file:
        file.write("one\ntw")
        file.flush()
        assert [("one", ())] == entries(found)
        file.write("o\n" + "x" * 3_000_000)
        file.flush()
        assert [("one", ()), ("two", ())] == entries(found)
        file.write("x\nthree\n")
        file.flush()
        before = [*found.read().entries]
        entries(found)

    assert ["one", "two", "three"] == [one.words for one in before]
    assert [before[0], before[1]] == [StreamEntry("w0", "one"), StreamEntry("w4", "two")]
    assert 3 == Counting.lines


def test_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("a long line\n", encoding="utf-8")
    found = SessionStream(path, NamedReader)
    assert [("a long line", ())] == entries(found)
    path.unlink()
    assert [("a long line", ())] == entries(found)
    path.write_text("new\n", encoding="utf-8")

    assert [("new", ())] == entries(found)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key\n", encoding="utf-8")
    (tmp_path / "t").symlink_to(tmp_path / "secret")

    assert [] == entries(SessionStream(tmp_path / "t", NamedReader))


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("plain", ["plain"]),
        ('{"type": "text", "text": "plain \\u001b[31m"}', ["plain \\x1b[31m"]),
        ('{"event": "say", "message": "one\\ntwo"}', ["one", "two"]),
        ('{"turns": 3, "cost_usd": 0.2}', []),
        ('{"a": 1}', ['{"a": 1}']),
    ],
)
def test_named_agent_shows_the_text_of_an_event(line: str, texts: list[str]) -> None:
    """Its transcript has JSON on each line; the same reader shows both."""
    reader = NamedReader()
    first = reader.parse_line(line)
    assert first is not None
    again = reader.parse_line(first.record)

    assert again is not None
    assert (texts, texts) == ([*first.texts], [*again.texts])


def test_the_log_of_the_servers_is_read_as_calls(tmp_path: Path) -> None:
    told = [{"tool": "get_task", "ok": True}, {"tool": "set", "ok": False, "refusal": "no\nway"}]
    lines = "".join(f"{json.dumps(one)}\n" for one in told)
    (tmp_path / "calls.jsonl").write_text(f"{lines}nonsense\n", encoding="utf-8")
    found = SessionStream(tmp_path / "calls.jsonl", CallsReader)

    assert [("", ("get_task", "set", "failed set: no way"))] == entries(found)
    assert 2 == found.calls
