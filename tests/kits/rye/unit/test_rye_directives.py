"""Parsing of directives: both dialects, opaque sections, fences and problems."""

import pytest

from ralphgen.kits.rye.server.formats import Parsed
from ralphgen.kits.rye.server.formats.directives import parse_directive

SMALL = """\
# Greet

```xml
<directive name="greet" version="1.0.0" extends="demo/base" state="new">
  <metadata>
    <description>Say hello to someone</description>
    <category>demo</category>
    <author>team</author>
    <model tier="fast" parallel="true">small words</model>
    <permissions>
      <execute resource="tool" id="hello"/>
      <read>src/**<deny path="x"/></read>
    </permissions>
    <limits turns="6"><spend currency="EUR">2</spend></limits>
  </metadata>
  <inputs>
    <input name="who" required="true">Person</input>
    <input name="tone" type="string" default="warm" enum="warm,cold"/>
  </inputs>
  <process><step name="go"><action>Call the hello tool</action></step></process>
  <outputs><output name="greeting" type="string">Text</output></outputs>
</directive>
```

Greet {who}.
"""


def block(inner: str) -> str:
    """Return a directive with an XML block."""
    return f"```xml\n<directive>{inner}</directive>\n```\n"


def parsed(inner: str) -> Parsed:
    return parse_directive(block(inner), "greet")


def metadata(inner: str) -> dict[str, object]:
    """Return the metadata without empty values; fails if the directive has problems."""
    found = parsed(inner)
    assert () == found.problems
    return {key: value for key, value in found.metadata.items() if value}


class TestReading:
    """The metadata of a directive."""

    def test_every_part_of_a_directive_is_read(self) -> None:
        found = parse_directive(SMALL, "greet")
        read = {"tag": "read", "attributes": {}, "text": "src/**"}
        deny = {"tag": "deny", "attributes": {"path": "x"}, "text": "", "children": []}
        execute = {"tag": "execute", "attributes": {"resource": "tool", "id": "hello"}}
        spend = {"tag": "spend", "attributes": {"currency": "EUR"}, "text": "2", "children": []}

        assert () == found.problems
        assert ("greet", "Say hello to someone") == (found.title, found.description)
        assert found.body == "Greet {who}."
        assert found.metadata == {
            "name": "greet",
            "version": "1.0.0",
            "extends": "demo/base",
            "attributes": {"state": "new"},
            "description": "Say hello to someone",
            "category": "demo",
            "author": "team",
            "model": {"tier": "fast", "parallel": "true", "content": "small words"},
            "permissions": [execute | {"text": "", "children": []}, read | {"children": [deny]}],
            "limits": {"turns": "6", "children": [spend]},
            "inputs": [
                {"name": "who", "type": "string", "required": True, "description": "Person"},
                {
                    "name": "tone",
                    "type": "string",
                    "required": False,
                    "default": "warm",
                    "enum": "warm,cold",
                },
            ],
            "steps": [{"name": "go", "action": "Call the hello tool"}],
            "outputs": [{"name": "greeting", "type": "string", "description": "Text"}],
            "templates": {},
            "preamble": "# Greet",
        }

    def test_synonyms_of_elements_are_read(self) -> None:
        found = metadata(
            '<description>At the root</description><metadata><model_class tier="fast"/></metadata>'
            '<success><output name="a"/></success>'
        )

        assert found == {
            "description": "At the root",
            "model": {"tier": "fast"},
            "outputs": [{"name": "a"}],
        }

    def test_process_may_be_a_text(self) -> None:
        assert {"process": "Say hi."} == metadata("<process>\nSay hi.\n</process>")

    def test_step_keeps_its_content_in_order(self) -> None:
        found = metadata(
            '<process><step name="a" if="b">first <action>do</action> then <note k="v"/>'
            "<action>do more</action></step></process>"
        )
        action = {"tag": "action", "attributes": {}, "children": []}
        content = [
            "first",
            action | {"text": "do"},
            "then",
            {"tag": "note", "attributes": {"k": "v"}, "text": "", "children": []},
            action | {"text": "do more"},
        ]
        text = "first  then"
        step = {"name": "a", "attributes": {"if": "b"}, "action": "do", "text": text}

        assert {"steps": [step | {"content": content}]} == found

    def test_step_may_be_a_text(self) -> None:
        found = metadata('<process><step name="a">Just do it</step></process>')

        assert {"steps": [{"name": "a", "text": "Just do it"}]} == found

    @pytest.mark.parametrize(
        "inner",
        [
            "<mood>good</mood>",
            "<metadata><mood>good</mood></metadata>",
            "<inputs><mood>good</mood></inputs>",
            "<process>and <mood>good</mood></process>",
            "<author><mood>good</mood></author>",
            '<outputs lang="mood good"/>',
            "<metadata>mood good</metadata>",
            "mood good",
        ],
    )
    def test_unknown_elements_are_kept(self, inner: str) -> None:
        found = str(metadata(inner)["elements"])

        assert ("mood" in found) is ("good" in found) is True


class TestOpaqueSections:
    """Sections that may contain invalid XML."""

    @pytest.mark.parametrize("tag", ["template", "example", "raw"])
    @pytest.mark.parametrize(
        "text",
        [
            "a < b && {{ c }}",
            "\n```\ncode\n```\n",
            "<!DOCTYPE x [<!ENTITY a 'b'>]>",
            "]]>",
            "<a>",
            "",
        ],
    )
    def test_opaque_section_may_contain_anything(self, tag: str, text: str) -> None:
        step = f'<step name="s"><action>Fill <{tag} kind="k">{text}</{tag}> in</action></step>'
        found = metadata(f"<process>{step}</process>")
        name = f"[[{tag}-1]]"

        assert {name: text} == found["templates"]
        assert f"'action': 'Fill {name} in'" in str(found["steps"])
        assert "'attributes': {'kind': 'k'}" in str(found["steps"])

    @pytest.mark.parametrize("around", [("<![CDATA[", "]]>"), ("<!-- ", " -->")])
    def test_opaque_section_outside_the_block_is_text(self, around: tuple[str, str]) -> None:
        found = parsed(f"<author>me {around[0]}<raw><!DOCTYPE a>\n```\n{around[1]}</author>")

        assert () == found.problems
        assert {} == found.metadata["templates"]

    def test_unclosed_section_is_a_problem(self) -> None:
        found = parsed('\n<template name="x">')

        assert found.problems == (
            (
                'line 3 ("<template name=\\"x\\"></directive>"): "<template name=\\"x\\">" is not '
                "closed"
            ),
        )


class TestFences:
    """The fenced block around the XML."""

    def test_missing_block_names_the_expected_lines(self) -> None:
        found = parse_directive("<directive/>", "greet")

        problem = (
            'no XML block: expected a line "```xml", the element "directive", and a line "```"'
        )

        assert (problem,) == found.problems
        assert "greet" == found.title

    def test_block_within_a_longer_fence_is_ignored(self) -> None:
        outer = '````md\n```xml\n<directive name="a"/>\n```\n`````x\n````\n'
        found = parse_directive(f'{outer}```xml\n<directive name="b"/>\n```\n', "c")

        assert "b" == found.metadata["name"]
        assert outer.strip() == found.metadata["preamble"]
        assert "no XML block" in parse_directive(outer, "c").problems[0]

    def test_unclosed_block_is_a_problem(self) -> None:
        found = parse_directive("```xml\n<directive></directive>\n", "a")

        assert ("the XML block is not closed: add a line of three backticks",) == found.problems


class TestProblems:
    """Problems, each with its line."""

    @pytest.mark.parametrize(
        ("inner", "problem"),
        [
            ("\n<a></b>", 'line 3 ("<a></b></directive>"): is not valid XML: mismatched tag'),
            (
                "\na & b",
                'line 3 ("a & b</directive>"): is not valid XML: not well-formed (invalid token)',
            ),
            ("&a;", 'line 2 ("<directive>&a;</directive>"): is not valid XML: undefined entity'),
            (
                "<raw>\n\n</raw>\n&",
                'line 5 ("&</directive>"): is not valid XML: not well-formed (invalid token)',
            ),
            ("<author/><author/>", 'duplicate element "author"'),
            ("<inputs><input/></inputs>", 'an "input" element has no "name"'),
            (
                '<inputs><input name="a" required="maybe"/></inputs>',
                '"required" of the input "a" must be true or false, found "maybe"',
            ),
        ],
    )
    def test_problem_is_reported(self, inner: str, problem: str) -> None:
        assert (problem,) == parsed(inner).problems

    def test_other_root_element_is_a_problem(self) -> None:
        found = parse_directive("```xml\n<tool/>\n```\n", "a")

        assert ('the root element must be "directive", found "tool"',) == found.problems

    @pytest.mark.parametrize(
        "declaration", ["<!DOCTYPE directive>", '<!DOCTYPE directive [<!ENTITY a "aaaa">]>']
    )
    def test_doctype_is_refused(self, declaration: str) -> None:
        found = parse_directive(f"```xml\n{declaration}\n<directive>x</directive>\n```\n", "a")

        assert '"DOCTYPE" is not supported: remove it' in found.problems[0]

    @pytest.mark.parametrize(("depth", "fine"), [(99, True), (100, False)])
    def test_nesting_of_elements_is_limited(self, depth: int, *, fine: bool) -> None:
        found = parsed("<a>" * depth + "</a>" * depth)

        assert fine is (found.problems == ())

    @pytest.mark.parametrize(
        ("word", "required"),
        [("true", True), ("Yes", True), ("1", True), ("false", False), ("", False), ("no", False)],
    )
    def test_required_accepts_words_for_true_and_false(self, word: str, *, required: bool) -> None:
        found = parsed(f'<inputs><input name="a" required="{word}"/></inputs>')

        assert () == found.problems
        assert required is found.metadata["inputs"][0]["required"]
