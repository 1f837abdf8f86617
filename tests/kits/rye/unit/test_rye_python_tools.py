"""Parsing of Python tools from their syntax, without running them."""

import sys
from pathlib import Path

import pytest

from ralphgen.kits.rye.server.formats.tools import LARGEST, MOST_FIELDS, parse_python_tool

TOOL = '''\
#!/usr/bin/env python
"""The docstring.

More of it.
"""

__version__ = "1.0.0"
__tool_type__: str = "python"
__executor_id__ = "python_runtime"
__category__ = ""
__tool_description__ = "Say " "hello"
__tags__ = ["a", "b"]
__author__ = print("never read")
CONFIG = {"timeout": 10, "nested": [1, -2.5, (True, None)]}
CONFIG_SCHEMA = {"type": "object"}
ENV_CONFIG: dict = {"env": {"A": "b"}}
OTHER = [line for line in open("/")]


def execute(params, project_path):
    return "\\d"
'''


def problems(text: str) -> tuple[str, ...]:
    return parse_python_tool(text, "hello").problems


class TestReading:
    """The metadata of a tool."""

    def test_everything_of_it_is_there(self) -> None:
        found = parse_python_tool(TOOL, "hello")

        assert () == found.problems
        assert found.metadata == {
            "version": "1.0.0",
            "tool_type": "python",
            "executor_id": "python_runtime",
            "category": "",
            "description": "Say hello",
            "tags": ["a", "b"],
            "config": {"timeout": 10, "nested": [1, -2.5, [True, None]]},
            "config_schema": {"type": "object"},
            "env_config": {"env": {"A": "b"}},
            "entry": "execute",
        }
        assert ("hello", "Say hello", ("a", "b")) == (found.title, found.description, found.tags)
        assert found.body == TOOL

    def test_nothing_of_it_runs(self, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        before = set(sys.modules)
        found = parse_python_tool(
            f"import antigravity, this\nopen({str(trace)!r}, 'w')\ndef main(): pass\n"
            f"CONFIG = {{'a': open({str(trace)!r}, 'w')}}",
            "a",
        )

        assert 1 == len(found.problems)
        assert not trace.exists()
        assert not {"antigravity", "this"} & (set(sys.modules) - before)

    @pytest.mark.parametrize(
        ("text", "entry"),
        [
            ("async def execute(p, q): pass", "execute"),
            ("def main(): pass\ndef execute(p, q): pass", "execute"),
            ("main = lambda: 1", "main"),
            ("execute: object = print", "execute"),
            ("class A:\n def execute(self): pass", None),
            ("if True:\n def main(): pass", None),
            ("execute: object", None),
            ("execute()", None),
        ],
    )
    def test_the_entry_is_a_name_at_the_top_level(self, text: str, entry: str | None) -> None:
        assert entry == parse_python_tool(text, "a").metadata["entry"]


class TestProblems:
    """Problems, each with its place."""

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("open('a')", "must be a literal, because the tool is not run to read it"),
            ("'a' + 'b'", "must be a literal, because the tool is not run to read it"),
            ("f'a'", "must be a literal, because the tool is not run to read it"),
            ("-'a'", "must be a literal, because the tool is not run to read it"),
            ("-True", "must be a literal, because the tool is not run to read it"),
            ("{1: 2}", "must be a literal with string keys only"),
            ("{**a}", "must be a literal with string keys only"),
            ("b'a'", "contains a value that JSON cannot represent"),
            ("[1e999]", "contains a value that JSON cannot represent"),
            ("2j", "contains a value that JSON cannot represent"),
            ("...", "contains a value that JSON cannot represent"),
            ("0x1" + "0" * 16, "contains a number of more than 64 bits"),
            ("'\\ud800'", "contains an unpaired surrogate"),
        ],
    )
    @pytest.mark.parametrize("name", ["__version__", "CONFIG"])
    def test_a_value_that_is_no_literal_is_named(self, name: str, value: str, why: str) -> None:
        found = problems(f"def main(): pass\n{name} = {value}")

        assert (f'line 2 ("{name} = {value}"): "{name}" {why}'.replace("\\", "\\\\"),) == found

    @pytest.mark.parametrize(
        "statement",
        [
            "CONFIG['a'] = 1",
            "CONFIG += 1",
            "CONFIG, b = 1, 2",
            "[a, *CONFIG] = b",
            "CONFIG.a = 1",
            "def CONFIG(): pass",
        ],
    )
    def test_a_value_that_is_changed_is_one(self, statement: str) -> None:
        found = problems(f"def main(): pass\n{statement}")

        assert 1 == len(found)
        assert '"CONFIG" must be a literal' in found[0]

    @pytest.mark.parametrize(
        "statement", ["a[CONFIG] = 1", "CONFIG: dict", "print(CONFIG)", "x.CONFIG = 1"]
    )
    def test_other_uses_of_a_name_are_none(self, statement: str) -> None:
        assert () == problems(f"def main(): pass\n{statement}")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("def f(:", 'line 1 ("def f(:"): is not valid Python: invalid syntax'),
            ("a\0b", "is not valid Python: source code string cannot contain null bytes"),
            ("x = " + "-" * 90_000 + "1", "is nested too deeply"),
            ("x = a" + ".b" * 90_000, "is nested too deeply"),
            ("CONFIG = " + "-" * 900 + "1\ndef main(): pass", '"CONFIG" is nested too deeply'),
            ("x" * (LARGEST + 1), "has more than 262144 characters of Python"),
            ("f'" + "{a}" * (MOST_FIELDS + 1) + "'", 'has f-strings and more than 5000 "{"'),
            ("CONFIG = []\ndef main(): pass", '"config" must be an object, found a list'),
            (
                "__executor_id__ = 1\ndef main(): pass",
                '"executor_id" must be a string or null, found 1',
            ),
        ],
    )
    def test_they_are_said(self, text: str, problem: str) -> None:
        found = problems(text)

        assert 1 == len(found)
        assert problem in found[0]

    @pytest.mark.parametrize("coding", ["latin-1", "utf-7", "UTF-16", "rot13"])
    @pytest.mark.parametrize("first", ["", "#!/usr/bin/env python\n", "# coding: utf-8\n"])
    @pytest.mark.parametrize(
        "spelling", ["# coding: {}", "  # -*- coding:{} -*-", "# vim: fileencoding={} :"]
    )
    def test_the_interpreter_must_not_read_other_text(
        self, coding: str, first: str, spelling: str
    ) -> None:
        text = first + spelling.format(coding) + "\ndef main(): pass"

        assert (f'must be UTF-8, found the encoding "{coding}"',) == problems(text)
