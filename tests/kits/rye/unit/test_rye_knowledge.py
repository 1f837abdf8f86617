"""Knowledge: metadata of both dialects, and the text after them."""

import pytest
import yaml

from ralphgen.kits.rye.server.formats import read_yaml
from ralphgen.kits.rye.server.formats.tools import parse, parse_knowledge
from ralphgen.kits.rye.server.spaces import KNOWLEDGE, PROJECT, Item, Space

FIELDS = """\
id: retry
title: Retry --- and wait
version: 1.0.0
tags:
  - http
  - waiting
references: [a/b, c]
created_at: 2026-02-03
changed_at: 2026-02-03T10:00:00Z
note: |
  one
   --- two
"""
EXPECTED = {
    "id": "retry",
    "title": "Retry --- and wait",
    "version": "1.0.0",
    "tags": ["http", "waiting"],
    "references": ["a/b", "c"],
    "created_at": "2026-02-03",
    "changed_at": "2026-02-03T10:00:00+00:00",
    "note": "one\n --- two\n",
}
BODY = "# Retry\n\n---\n\nWait.\n\n---\nend"


class TestKnowledge:
    """The metadata and the body of a file."""

    @pytest.mark.parametrize(
        ("opening", "closing", "heading"),
        [
            ("---", "---", ""),
            ("--- ", "---\t", ""),
            ("```yaml", "```", ""),
            ("```yml ", "``` ", "# A ``` b\n\n"),
        ],
    )
    @pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("first", ["", "\ufeff", "\n\n"])
    def test_both_forms_are_read(
        self, opening: str, closing: str, heading: str, line_end: str, first: str
    ) -> None:
        text = f"{first}{heading}{opening}\n{FIELDS}{closing}\n\n{BODY}\n".replace("\n", line_end)
        item = Item(KNOWLEDGE, "retry", ".md", Space(PROJECT, "/p/.ai"))
        found = parse(item, text)

        assert () == found.problems
        assert EXPECTED == found.metadata
        assert (heading + BODY) == found.body
        assert ("http", "waiting") == found.tags
        assert "Retry --- and wait" == found.title

    @pytest.mark.parametrize("text", ["---\nid: a\n", "```yaml\nid: a\n", "---\nid: a\n--- b\n"])
    def test_metadata_without_an_end_are_a_problem(self, text: str) -> None:
        assert ('the metadata block is not closed: add a line "---"',) == parse_knowledge(
            text, "a"
        ).problems

    @pytest.mark.parametrize("inner", ["", "- a\n", "text\n", "# none\n"])
    def test_metadata_are_keys_and_values(self, inner: str) -> None:
        found = parse_knowledge(f"---\n{inner}---\nbody", "a")

        assert ("the metadata must be key-value pairs",) == found.problems
        assert "body" == found.body

    def test_a_problem_says_its_line_in_the_file(self) -> None:
        found = parse_knowledge("\n---\nid: a\nid: b\n---\nbody", "a")

        assert ('line 4 ("id: b"): duplicate key "id"',) == found.problems

    @pytest.mark.parametrize(
        ("said", "tags"),
        [("a, b ,", ("a", "b")), ("[a, 1, [x]]", ("a", "1")), ("{}", ()), ("", ())],
    )
    def test_tags_are_a_list_or_a_text_with_commas(self, said: str, tags: tuple[str, ...]) -> None:
        assert tags == parse_knowledge(f"---\ntags: {said}\n---\n", "a").tags


class TestYamlValues:
    """JSON values of YAML."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("~", None),
            ("", None),
            ("yes", True),
            ("off", False),
            ("12", 12),
            ("-0x1f", -31),
            ("010", 8),
            ("-010", -8),
            ("00", 0),
            ("1_000", 1000),
            ("1.5", 1.5),
            ("1.0.0", "1.0.0"),
            ("12:30", "12:30"),
            ("1:30.5", "1:30.5"),
            ("2026-02-03", "2026-02-03"),
            ("2026-13-45", "2026-13-45"),
            ("2026-02-03 10:00:00", "2026-02-03T10:00:00"),
            ("'1'", "1"),
            ("!!str 1", "1"),
            ("=", "="),
            ("{200: a, yes: b, ~: c}", {"200": "a", "yes": "b", "~": "c"}),
            ("[[a], {b: c}]", [["a"], {"b": "c"}]),
            ("{a: &x [1], b: *x}", {"a": [1], "b": [1]}),
            (
                "{a: &x {p: 1, q: 2}, b: {<<: *x, q: 3}}",
                {"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}},
            ),
            (
                "[&x {p: 1}, &y {p: 2, r: 3}, {<<: [*x, *y]}]",
                [{"p": 1}, {"p": 2, "r": 3}, {"p": 1, "r": 3}],
            ),
        ],
    )
    def test_values_are_what_they_mean(self, text: str, value: object) -> None:
        assert (value, []) == read_yaml(text)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a: .inf", '".inf" is not a JSON number: put it in quotes'),
            ("a: .nan", '".nan" is not a JSON number: put it in quotes'),
            ("a: 36893488147419103232", "is larger than a number of 64 bits: put it in quotes"),
            ("a: " + "1" * 401, "is too long for a number: put it in quotes"),
            ("a: !!int x", '"x" is not an integer: put it in quotes'),
            ("a: !!float x", '"x" is not a number: put it in quotes'),
            ("a: !!bool x", '"x" is not true or false'),
            ("a: !!binary x", 'the tag "tag:yaml.org,2002:binary" is not supported: remove it'),
            ("a: !!set {x}", 'the tag "tag:yaml.org,2002:set" is not supported: remove it'),
            ("a: !!python/object/apply:os.system [x]", 'os.system" is not supported: remove it'),
            ("a: 1\na: 2", 'line 2 ("a: 2"): duplicate key "a"'),
            ("? [a]\n: b", "a key must be a string"),
            ("<<: a", '"<<" accepts only mappings'),
            ("a: b: c", "is not valid YAML: mapping values are not allowed in this context"),
            ("a: [", "is not valid YAML: did not find expected node content"),
            ("--- a\n--- b", "is not valid YAML: but found another document"),
            ("a: \0", "is not valid YAML: unacceptable character"),
            ("&a [*a]", "holds values within each other more than 100 levels deep"),
        ],
    )
    def test_what_json_has_no_value_for_is_a_problem(self, text: str, problem: str) -> None:
        _, problems = read_yaml(text)

        assert 1 == len(problems)
        assert problem in problems[0]

    @pytest.mark.parametrize(("depth", "fine"), [(99, True), (101, False)])
    @pytest.mark.parametrize("pattern", ["[{}]", "{{a: {}}}", "- {}"])
    def test_values_lie_within_each_other_only_so_deep(
        self, depth: int, pattern: str, *, fine: bool
    ) -> None:
        text = "x"
        for _ in range(depth):
            text = pattern.format(text)

        assert fine is (read_yaml(text)[1] == [])

    def test_the_parser_in_python_does_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(yaml, "CSafeLoader")
        longer = "a: b\n" * 4000

        assert ({"a": [1, {"b": "2026-02-03"}]}, []) == read_yaml("a: [1, {b: 2026-02-03}]")
        assert "more than 100 levels deep" in read_yaml("[" * 9000)[1][0]
        assert ["is YAML of more than 16384 characters"] == read_yaml(longer)[1]

    @pytest.mark.parametrize("level", ["a{0}: &a{0} [{1}]", "a{0}: &a{0} {{<<: [{1}]}}"])
    def test_aliases_do_not_make_much_of_little(self, level: str) -> None:
        lines = ["a0: &a0 {k: v}"]
        lines += [level.format(n, ", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12)]
        _, problems = read_yaml("\n".join(lines))

        assert ["expands too much through its aliases: write out their values"] == problems
