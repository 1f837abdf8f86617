"""The arguments of a call, from what stands on a command line."""

from collections.abc import Mapping, Sequence
from typing import Any

from ralphgen.errors import UsageError, plain
from ralphgen.runtime.values.encoding import JsonReader, written_number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_READER = JsonReader(constant=_refuse_constant, real=written_number)


def from_json(text: str) -> dict[str, Any]:
    """Return the object that a text spells; raises `UsageError` for anything else."""
    hint = """pass an object, such as '{"id": 7}'"""
    try:
        found = _READER.read(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the arguments are not valid JSON: {plain(str(error))}", hint) from error
    if not isinstance(found, dict):
        raise UsageError("the arguments are not a JSON object", hint)
    return found


def from_words(words: Sequence[str]) -> dict[str, str]:
    """Return what `key=value` words say, as text; raises `UsageError` for any other word."""
    given: dict[str, str] = {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign or not key:
            raise UsageError(f'invalid argument "{plain(word)}"', "write arguments as key=value")
        if key in given:
            raise UsageError(
                f'duplicate argument "{plain(key)}"', """write a list as key='["a"]'"""
            )
        given[key] = text
    return given


def typed(given: Mapping[str, str], properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of texts, as the input schema has them.

    What is no text by its schema is read as JSON. Where it is none it stays as it is: the server
    refuses it, and says what it expected.
    """
    return {key: _value(text, properties.get(key)) for key, text in given.items()}


def _value(text: str, rule: Mapping[str, Any] | None) -> Any:
    if rule is None or "string" in _types(rule) or text in rule.get("enum", ()):
        return text
    try:
        return _READER.read(text)
    except (ValueError, RecursionError):
        return text


def _types(rule: Mapping[str, Any]) -> Sequence[str]:
    kind = rule.get("type", [])
    return [kind] if isinstance(kind, str) else kind
