"""Any item is parsed to JSON, in bounded time and without an exception."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.rye.server.formats import MOST_PROBLEMS, Parsed
from ralphgen.kits.rye.server.formats.tools import issues_of, parse, require
from ralphgen.kits.rye.server.spaces import (
    DIRECTIVE,
    KNOWLEDGE,
    LARGEST,
    PROJECT,
    TOOL,
    Item,
    Space,
)
from ralphgen.kits.rye.server.values import PARSING_ERROR
from ralphgen.runtime.errors import CodedError

pytestmark = pytest.mark.slow

SPACE = Space(PROJECT, "/p/.ai")
ITEMS = {
    "directive": Item(DIRECTIVE, "demo/a", ".md", SPACE),
    "knowledge": Item(KNOWLEDGE, "demo/a", ".md", SPACE),
    "python": Item(TOOL, "demo/a", ".py", SPACE),
    "yaml": Item(TOOL, "demo/a", ".yaml", SPACE),
}
# Fragments with syntactic meaning, so that random texts contain many of them.
WORDS = """
``` xml yaml ```` --- <directive> </directive> <raw> </raw> <template <input/> <inputs> </inputs>
<![CDATA[ ]]> <!-- --> <step> </step> & <!DOCTYPE parameters config_schema : - [ ] { } &a *a <<
!!int 1 .inf 2026-02-03 CONFIG = ' " __version__ name required # \\ coding:x version ,
"""
PARTS = st.sampled_from(
    [*re.findall(r"\S+", WORDS), "\ufeff", "\n", "\r", " ", ": ", "- ", ", ", "def main(): pass"]
)
TEXTS = st.lists(PARTS | st.text(max_size=4), max_size=30).map("".join)
FRAMES = st.sampled_from(
    [
        "{}",
        "```xml\n{}\n```\n",
        "```xml\n<directive>{}</directive>\n```\n",
        "---\n{}\n---\n",
        "# a\n```yaml\n{}\n```\n",
        "CONFIG = {}\n",
        "config_schema: {}\n",
    ]
)
MANY = LARGEST - 200
REPEATED = {
    "backticks": "`",
    "fences": "```\n",
    "opening fences": "```xml\n",
    "outer fences": "````\n",
    "other outer fences": "````x\n",
    "rules": "---\n",
    "headings": "#\n",
    "blank lines": " \n",
    "line feeds": "\n",
    "carriage returns": "\r",
    "brackets": "[",
    "braces": "{",
    "both brackets": "[{(",
    "pairs of brackets": "[],",
    "dashes": "- ",
    "question marks": "? ",
    "quotes": '"',
    "tags": "%TAG !a! b\n",
    "codings": "# coding:",
    "less than": "<",
    "signs": "~-",
    "attributes": ".b",
    "assignments": "CONFIG = x\n",
    "strings": "f'{a}' ",
    "not": "not ",
}
IN_XML = {
    "sections without an end": "<template>",
    "sections that begin": "<template ",
    "sections": "<raw>x</raw>",
    "ends of sections": "</raw>",
    "data without an end": "<![CDATA[",
    "data": "<![CDATA[x]]>",
    "comments without an end": "<!--",
    "comments": "<!--x-->",
    "elements": "<a/>",
    "elements within each other": "<a>",
    "authors": "<author/>",
    "inputs": "<inputs><input/></inputs>",
    "greater than": ">",
    "ampersands": "&amp;",
}
IN_YAML = {
    "members": "{a},",
    "one key": "a: 1\n",
    "merges": "<<: *a\n",
    "aliases": "- *a\n",
    "anchors": "- &a x\n",
}


def is_parsed(kind: str, text: str) -> Parsed:
    """Return the parsed text; fails unless JSON and UTF-8 can encode it."""
    found = parse(ITEMS[kind], text)
    facts = [found.metadata, found.body, found.title, found.description, found.tags, found.problems]
    json.dumps(facts, allow_nan=False, ensure_ascii=False).encode()
    assert len(found.problems) <= MOST_PROBLEMS
    assert all(isinstance(each, str) for each in (found.title, found.description, *found.tags))
    return found


@pytest.mark.parametrize("kind", list(ITEMS))
class TestAnyText:
    """No text raises."""

    @given(text=st.builds(str.format, FRAMES, TEXTS) | st.text())
    def test_its_metadata_are_json(self, kind: str, text: str) -> None:
        found = is_parsed(kind, text)
        issues, _ = issues_of(ITEMS[kind], found)

        assert not found.problems or list(found.problems) == issues

    @given(text=TEXTS)
    def test_line_ends_change_nothing(self, kind: str, text: str) -> None:
        plain = text.replace("\r", "")
        first, second = (is_parsed(kind, plain.replace("\n", end)) for end in ("\r\n", "\n"))

        assert second.metadata == first.metadata
        assert (second.body, second.problems) == (first.body, first.problems)

    def test_what_is_required_is_refused_by_its_first_problem(self, kind: str) -> None:
        with pytest.raises(CodedError, match=r'^cannot parse the \w+ "demo/a": ') as caught:
            require(ITEMS[kind], "\0")

        assert PARSING_ERROR == caught.value.code
        assert 1 == len(caught.value.facts["problems"])


@pytest.mark.parametrize("kind", list(ITEMS))
class TestLongText:
    """Texts of maximal size are parsed in seconds; quadratic algorithms would take minutes."""

    SECONDS = 5

    @pytest.mark.parametrize("name", list(REPEATED))
    @pytest.mark.parametrize("share", [1, 4])
    def test_of_anything(self, kind: str, name: str, share: int) -> None:
        self.check(kind, REPEATED[name], "{}", share=share)

    @pytest.mark.parametrize("name", list(IN_XML))
    def test_of_xml(self, kind: str, name: str) -> None:
        self.check(kind, IN_XML[name], "```xml\n<directive>{}</directive>\n```\n")

    @pytest.mark.parametrize("name", list(IN_YAML))
    @pytest.mark.parametrize("share", [1, 4])
    def test_of_yaml(self, kind: str, name: str, share: int) -> None:
        frame = "{}" if kind == "yaml" else "---\n{}\n---\n"
        self.check(kind, IN_YAML[name], frame, share=share)

    @pytest.mark.parametrize("blank", [" ", "\t"])
    @pytest.mark.parametrize("start", ["```xml", "````", "```", "---", "# coding=", "<raw ", "a:"])
    def test_of_blanks(self, kind: str, start: str, blank: str) -> None:
        self.check(kind, blank, start + "{}`<x")

    def check(self, kind: str, part: str, frame: str, share: int = 1) -> None:
        """Parse a frame with many repetitions of `part`; fails if that takes too long."""
        text = frame.format(part * (MANY // len(part) // share))
        before = time.process_time()
        is_parsed(kind, text)

        assert time.process_time() - before < self.SECONDS


class TestGrowth:
    """Short texts cannot expand into large values."""

    def test_entities_are_refused(self) -> None:
        entities = '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
        text = f"```xml\n<!DOCTYPE directive [{entities}]>\n<directive>&b;</directive>\n```\n"
        found = is_parsed("directive", text)

        assert {} == found.metadata
        assert '"DOCTYPE" is not supported: remove it' in found.problems[0]

    def test_elements_are_counted(self) -> None:
        text = "```xml\n<directive>" + "<a/>" * 10_000 + "</directive>\n```\n"

        assert "has more than 10000 elements" in is_parsed("directive", text).problems[0]
