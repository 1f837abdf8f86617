"""Issues that prevent signing, and warnings for authors."""

from typing import Any

import pytest

from ralphgen.kits.rye import system_items
from ralphgen.kits.rye.server.formats import Parsed
from ralphgen.kits.rye.server.formats.tools import issues_of, parse
from ralphgen.kits.rye.server.spaces import (
    BUILT_IN,
    DIRECTIVE,
    FOLDERS,
    KNOWLEDGE,
    PROJECT,
    SYSTEM,
    TOOL,
    Item,
    Space,
)

VALID: dict[str, dict[str, Any]] = {
    DIRECTIVE: {
        "name": "greet",
        "version": "1.0.0",
        "description": "Greets",
        "category": "demo",
        "author": "team",
        "model": {"tier": "fast"},
        "permissions": [{"tag": "execute"}],
        "inputs": [{"name": "who"}],
    },
    TOOL: {
        "version": "1.0.0",
        "tool_type": "python",
        "executor_id": "subprocess",
        "category": "demo",
        "description": "Greets",
        "config_schema": {"type": "object", "properties": {"who": {"type": "string"}}},
    },
    KNOWLEDGE: {
        "id": "greet",
        "title": "Greeting",
        "version": "1.0.0",
        "entry_type": "pattern",
        "category": "demo",
    },
}
REQUIRED = [(kind, key) for kind, keys in VALID.items() for key in keys]
OPTIONAL = ("model", "permissions", "inputs", "config_schema", "entry_type")


def item(kind: str, item_id: str = "demo/greet", space: str = PROJECT) -> Item:
    return Item(kind, item_id, ".md", Space(space, "/p/.ai"))


def checked(kind: str, **changes: Any) -> tuple[list[str], list[str]]:
    """Return the issues and warnings of a changed valid item; `...` removes a field."""
    found = {key: value for key, value in (VALID[kind] | changes).items() if value is not ...}
    return issues_of(item(kind), Parsed(found, ""))


def issues(kind: str, **changes: Any) -> list[str]:
    return checked(kind, **changes)[0]


@pytest.mark.parametrize("kind", list(VALID))
class TestEveryType:
    """Requirements for all items."""

    def test_the_category_is_the_folder(self, kind: str) -> None:
        assert ['"category" must be "demo" to match the directory, found "x"'] == issues(
            kind, category="x"
        )
        assert ['"category" must be "demo" to match the directory, found ""'] == issues(
            kind, category=None
        )

    def test_at_the_top_there_is_no_category(self, kind: str) -> None:
        top = item(kind, "greet")
        fine = Parsed(VALID[kind] | {"category": ""}, "")

        assert [] == issues_of(top, fine)[0]
        assert issues_of(top, Parsed(VALID[kind], ""))[0] == [
            '"category" must be empty, because the file is at the top level, found "demo"'
        ]

    def test_what_cannot_be_read_is_the_only_issue(self, kind: str) -> None:
        assert (["broken"], []) == issues_of(item(kind), Parsed({}, "", problems=("broken",)))


class TestFields:
    """Required fields."""

    @pytest.mark.parametrize(
        ("kind", "key"), [each for each in REQUIRED if each[1] not in OPTIONAL]
    )
    def test_each_is_asked_for_by_name(self, kind: str, key: str) -> None:
        missing = "name" if key == "id" else key
        expected = (
            []
            if (kind, key) == (KNOWLEDGE, "category")
            else [f'missing required field "{missing}"']
        )

        assert expected == issues(kind, **{key: ...})

    def test_one_that_is_no_text_is_an_issue(self) -> None:
        assert ['"title" must be a string, found 404: put it in quotes'] == issues(
            KNOWLEDGE, title=404
        )


class TestDirectives:
    """Requirements for directives."""

    @pytest.mark.parametrize("name", ["a-b", "1a", "a b", "größe", "{a}"])
    def test_inputs_are_named_by_identifiers(self, name: str) -> None:
        expected = f'invalid input name "{name}": use letters, digits and underscores'

        assert [expected] == issues(DIRECTIVE, inputs=[{"name": name}])

    def test_inputs_are_there_once(self) -> None:
        twice = [{"name": "a"}, {"name": "a"}]

        assert ['duplicate input "a"'] == issues(DIRECTIVE, inputs=twice)


class TestKnowledge:
    """Requirements for knowledge."""

    @pytest.mark.parametrize("value", [..., None, ""])
    def test_what_upstream_s_own_examples_leave_out_is_only_a_warning(self, value: object) -> None:
        further = {"author": "team", "created_at": "2026-01-30T10:00:00+00:00"}

        assert ([], ['no "entry_type"']) == checked(KNOWLEDGE, entry_type=value, **further)

    def test_a_type_of_entry_is_a_text(self) -> None:
        assert ['"entry_type" must be a string, found 7: put it in quotes'] == issues(
            KNOWLEDGE, entry_type=7
        )


class TestTools:
    """Requirements for tools."""

    @pytest.mark.parametrize(
        ("key", "name"),
        [
            ("version", "__version__"),
            ("tool_type", "__tool_type__"),
            ("executor_id", "__executor_id__"),
            ("category", "__category__"),
        ],
    )
    def test_what_a_python_tool_leaves_out_is_named_as_it_is_written(
        self, key: str, name: str
    ) -> None:
        tool = Item(TOOL, "demo/greet", ".py", Space(PROJECT, "/p/.ai"))
        found = {other: value for other, value in VALID[TOOL].items() if other != key}
        expected = f'missing required field "{key}": set {name} at the top level of the file'

        assert [expected] == issues_of(tool, Parsed(found, ""))[0]

    def test_a_description_in_the_docstring_of_the_function_is_told_where_it_goes(self) -> None:
        tool = Item(TOOL, "greet", ".py", Space(PROJECT, "/p/.ai"))
        text = (
            '__version__ = "1.0.0"\n__tool_type__ = "python"\n__category__ = ""\n'
            '__executor_id__ = "python_runtime"\n\n\n'
            'def execute(params, project_path):\n    """Greet somebody."""\n'
        )
        expected = (
            'missing required field "description": set __tool_description__ at the top level of '
            "the file, or add a module docstring"
        )

        assert [expected] == issues_of(tool, parse(tool, text))[0]

    @pytest.mark.parametrize(
        ("schema", "issue"),
        [
            ({}, '"config_schema" must have the type "object", found null'),
            ({"type": "array"}, '"config_schema" must have the type "object", found "array"'),
            (
                {"type": "object", "properties": {"a": {"type": "text"}}},
                '"config_schema.properties.a.type" is not a valid JSON Schema: ',
            ),
            (
                {"type": "object", "required": "a"},
                '"config_schema.required" is not a valid JSON Schema: ',
            ),
        ],
    )
    def test_the_schema_is_one_of_an_object(self, schema: object, issue: str) -> None:
        found = issues(TOOL, config_schema=schema)

        assert 1 == len(found)
        assert found[0].startswith(issue)

    @pytest.mark.parametrize("key", ["properties", "items"])
    def test_a_deep_schema_ends_in_words(self, key: str) -> None:
        schema: dict[str, Any] = {}
        for _ in range(400):
            schema = {key: {"a": schema} if key == "properties" else schema}
        found = issues(TOOL, config_schema={"type": "object", **schema})

        assert ['"config_schema" is nested too deeply'] == found

    @pytest.mark.parametrize("name", BUILT_IN)
    def test_names_that_the_server_fills_in_are_only_a_warning(self, name: str) -> None:
        found = checked(TOOL, config_schema={"type": "object", "properties": {name: {}}})
        warning = "is ignored: the server sets a value of that name"

        assert ([], [f'the parameter "{name}" {warning}']) == found


def test_what_every_server_brings_is_valid() -> None:
    for path, text in system_items().items():
        folder, _, rest = path.partition("/")
        kind = next(kind for kind, name in FOLDERS.items() if name == folder)
        stem, _, extension = rest.rpartition(".")
        found = Item(kind, stem, f".{extension}", Space(SYSTEM, "/s"))

        assert ([], []) == issues_of(found, parse(found, text))
