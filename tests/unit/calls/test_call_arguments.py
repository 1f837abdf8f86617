"""Words on a command line are converted to the types of the tool's input schema."""

from typing import Any

import pytest

from ralphgen.agents.calls import from_json, from_words, typed
from ralphgen.errors import UsageError

DEEP = "[" * 99_999
PROPERTIES: dict[str, dict[str, Any]] = {
    "title": {"type": "string"},
    "id": {"type": "integer"},
    "share": {"type": "number"},
    "all": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "env": {"type": "object"},
    "any": {},
    "status": {"enum": ["1", "2"]},
    "either": {"type": ["string", "null"]},
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("title=7", "7"),
        ("title=", ""),
        ("title=a=b", "a=b"),
        ('title="quoted"', '"quoted"'),
        ("id=7", 7),
        ("id=-7", -7),
        ("share=0.5", 0.5),
        ("all=true", True),
        ('tags=["a", "b"]', ["a", "b"]),
        ('env={"a": 1}', {"a": 1}),
        ("any=[1]", [1]),
        ("any=text", "text"),
        ("status=1", "1"),
        ("either=null", "null"),
        ("unknown=7", "7"),
    ],
)
def test_a_value_has_the_type_of_the_schema(word: str, expected: object) -> None:
    (value,) = typed(from_words([word]), PROPERTIES).values()

    assert (type(expected), expected) == (type(value), value)


@pytest.mark.parametrize("word", ["id=seven", "tags=a,b", "all=yes", "share=NaN", "env=" + DEEP])
def test_what_does_not_fit_is_left_to_the_server(word: str) -> None:
    key, _, text = word.partition("=")

    assert {key: text} == typed(from_words([word]), PROPERTIES)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["id"], 'invalid argument "id"'),
        (["=7"], 'invalid argument "=7"'),
        (["id=1", "id=2"], 'duplicate argument "id"'),
    ],
)
def test_other_words_are_refused(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_words(words)


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '{"id": NaN}', DEEP])
def test_only_an_object_can_be_arguments(text: str) -> None:
    with pytest.raises(UsageError, match="the arguments are no"):
        from_json(text)
