"""Values of items: error codes, JSON, settings and parameters."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import CodedError, one_line
from ralphgen.runtime.loader import add_packages
from ralphgen.runtime.values import nearest

from .schema_check import LIMIT, UnfitSchemaError, problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

AMBIGUOUS_ID = "AMBIGUOUS_ID"
CHAIN_TOO_DEEP = "CHAIN_TOO_DEEP"
CIRCULAR_DEPENDENCY = "CIRCULAR_DEPENDENCY"
EXECUTION_FAILED = "EXECUTION_FAILED"
EXECUTOR_NOT_FOUND = "EXECUTOR_NOT_FOUND"
EXISTS = "EXISTS"
INTEGRITY_FAILED = "INTEGRITY_FAILED"
INVALID_ID = "INVALID_ID"
INVALID_PROJECT_PATH = "INVALID_PROJECT_PATH"
INVALID_QUERY = "INVALID_QUERY"
ITEM_NOT_FOUND = "ITEM_NOT_FOUND"
PARSING_ERROR = "PARSING_ERROR"
READ_ONLY_SPACE = "READ_ONLY_SPACE"
SPACE_VIOLATION = "SPACE_VIOLATION"
TIMEOUT = "TIMEOUT"
UNSIGNED = "UNSIGNED"
UNTRUSTED_KEY = "UNTRUSTED_KEY"
VALIDATION_FAILED = "VALIDATION_FAILED"
LONGEST = 60  # characters of a value in a message
NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "nothing",
}
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
LEFT_OUT = object()  # marks a value whose parameter was omitted


def preview(value: object) -> str:
    """Return a value as short JSON; for lists and objects, only the kind."""
    if isinstance(value, (list, dict)):
        return NAMES[type(value)]
    if isinstance(value, str):
        return one_line(json.dumps(_shortened(value), ensure_ascii=False))
    return _shortened(json.dumps(value, default=str))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def value_of(text: str) -> Any:
    """Parse a JSON text; raises ValueError if it is invalid."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_finite(value: Any) -> bool:
    """Return whether JSON can represent a value; a lenient reader accepts 1e999."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text} is too large")
    return number


def as_text(value: Any) -> str:
    """Return a value as inserted text: lists and objects as JSON, None as an empty string."""
    if value is None or value is LEFT_OUT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_PLACEHOLDER = re.compile(
    r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}"
)
# Characters inserted in one call: a short text can repeat a long value many times.
MAX_INSERTED = 1 << 24
NOT_GIVEN = (
    'the placeholder "{{{name}}}" is not filled: give "{name}", or a default for it in '
    '"config_schema", which may be empty'
)


def refusal(where: str, expected: str, found: object) -> CodedError:
    """Return the error of a value of the wrong kind."""
    kind = NAMES.get(type(found), type(found).__name__)
    return CodedError(VALIDATION_FAILED, f'"{where}" must be {expected}, found {kind}')


def text_at(where: str, value: object) -> str:
    """Return the value, which must be a string that is not blank."""
    if not isinstance(value, str):
        raise refusal(where, "a string", value)
    if not value.strip():
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be a string that is not empty')
    return value


def scalar_at(where: str, value: object) -> str:
    """Return a string, or a number as a string."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refusal(where, "a string or a number", value)
    return str(value)


def list_at(where: str, value: object) -> list[Any]:
    """Return the value, which must be a list; None means an empty list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise refusal(where, "a list", value)
    return value


def mapping_at(where: str, value: object) -> dict[str, Any]:
    """Return the value, which must be an object; None means an empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(where, "an object", value)
    return value


def choice_at(where: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the value, which must be one of the choices."""
    if not isinstance(value, str) or value not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be {words}, found {preview(value)}')
    return value


def count_at(where: str, value: object, most: int) -> int:
    """Return the value, which must be an integer from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal(where, f"an integer from 1 to {most}", value)
    if not 1 <= value <= most:
        text = f'"{where}" must be an integer from 1 to {most}, found {value}'
        raise CodedError(VALIDATION_FAILED, text)
    return value


def unknown_keys(config: Mapping[str, Any], known: Sequence[str], primitive: str) -> list[str]:
    """Return warnings about keys that the primitive ignores."""
    return [
        f'unknown config key "{key}" for "{primitive}": expected {", ".join(known)}'
        for key in config
        if key not in known
    ]


def timeout_of(config: Mapping[str, Any], most: float) -> tuple[float, list[str]]:
    """Return the timeout of a tool in seconds, and warnings."""
    where, seconds = "config.timeout", config.get("timeout")
    if seconds is None:
        return most, []
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise refusal(where, "a number of seconds above 0", seconds)
    if not 0 < seconds < float("inf"):
        text = f'"{where}" must be a number of seconds above 0, found {seconds}'
        raise CodedError(VALIDATION_FAILED, text)
    if seconds <= most:
        return seconds, []
    text = f"the timeout of {seconds:g} seconds in the config is reduced to the maximum: {most:g}"
    return most, [text]


def placeholders(value: Any) -> Iterator[str]:
    """Yield the names in the placeholders of a JSON value, in order."""
    if isinstance(value, str):
        yield from (found["name"] for found in _PLACEHOLDER.finditer(value) if found["name"])
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from placeholders(inner)


def unfilled(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown placeholder, with a suggestion."""
    near = nearest(name, known)
    meant = f'did you mean "{{{near}}}"? If not, declare' if near else "declare"
    return (
        f'the placeholder "{{{name}}}" has no value: {meant} "{name}" in "config_schema"; for '
        "literal braces, use the default of a parameter"
    )


class Filling:
    """Fills the placeholders in an author's text.

    `{name}` is a built-in value or a parameter; `${VARIABLE}` or `${VARIABLE:-default}` is a
    variable of the child's environment. `declared` names all parameters. A text that is only an
    omitted parameter becomes empty. `unset` collects missing variables, which are empty too. The
    methods raise `CodedError` for an unknown name, for an omitted parameter within a longer text,
    and if the result grows too large.
    """

    __slots__ = ("_built_in", "_declared", "_parameters", "_room", "_variables", "unset")

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        declared: AbstractSet[str] = frozenset(),
        built_in: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._parameters = parameters
        self._declared = declared
        self._built_in = built_in or {}
        self._variables = variables or {}
        self._room = MAX_INSERTED
        self.unset: dict[str, None] = {}

    def text(self, author: str) -> str:
        """Return the text with all placeholders filled."""
        return "".join(as_text(value) for value, _ in self.pieces(author))

    def argument(self, author: str) -> str | None:
        """Return the filled text, or None if it is only an omitted parameter."""
        value = self._only(author)
        return None if value is None or value is LEFT_OUT else self.text(author)

    def value(self, author: Any) -> Any:
        """Return a JSON value with all placeholders filled.

        A string that is one placeholder becomes the parameter with its type. Members and list
        items that are only an omitted parameter are left out.
        """
        if isinstance(author, str):
            only = self._only(author)
            return self.text(author) if isinstance(only, str) else self._count_value(only)
        if isinstance(author, list):
            items = [self.value(item) for item in author]
            return [item for item in items if item is not LEFT_OUT]
        if isinstance(author, dict):
            members = {key: self.value(member) for key, member in author.items()}
            return {key: member for key, member in members.items() if member is not LEFT_OUT}
        return author

    def filled_text(self, author: str) -> str:
        """Return the text with all placeholders but the variables filled: those may be secrets."""
        parts: list[str] = []
        end = 0
        for found in _PLACEHOLDER.finditer(author):
            parts.append(author[end : found.start()])
            end = found.end()
            parts.append(
                found[0] if found["name"] is None else as_text(self._variable_value(found))
            )
        return "".join(parts) + author[end:]

    def pieces(self, author: str) -> Iterator[tuple[Any, bool]]:
        """Yield the parts of a filled text, each with whether the caller provided it.

        Literal text and environment variables count as the author's.
        """
        end = 0
        for found in _PLACEHOLDER.finditer(author):
            yield author[end : found.start()], False
            end = found.end()
            if found["name"] is None:
                yield self._count_value(self._variable(found["variable"], found["default"])), False
            else:
                value = self._variable_value(found)
                if value is LEFT_OUT and found[0] != author:
                    raise CodedError(VALIDATION_FAILED, NOT_GIVEN.format(name=found["name"]))
                yield self._count_value(value), True
        yield author[end:], False

    def _count_value(self, value: Any) -> Any:
        """Count a value against the size limit and return it; raises `CodedError` if exceeded."""
        self._room -= len(as_text(value))
        if self._room < 0:
            text = (
                f"more than {MAX_INSERTED:,} characters would be inserted: use fewer placeholders"
            )
            raise CodedError(VALIDATION_FAILED, text)
        return value

    def _only(self, author: str) -> Any:
        """Return the value of a text that is only a parameter; otherwise an empty string."""
        found = _PLACEHOLDER.fullmatch(author)
        return "" if found is None or found["name"] is None else self._variable_value(found)

    def _variable_value(self, found: re.Match[str]) -> Any:
        name = found["name"]
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._parameters and name not in self._declared:
            known = (*self._built_in, *self._parameters, *self._declared)
            raise CodedError(VALIDATION_FAILED, unfilled(name, known))
        return self._parameters.get(name, LEFT_OUT)

    def _variable(self, name: str, default: str | None) -> str:
        value = self._variables.get(name, "")
        if not value and default is not None:
            return default
        if name not in self._variables:
            self.unset[name] = None
        return value


LONGEST_ERROR = 300  # characters of an error, which quotes the wrong value
DEEPEST = 20  # nested objects that get defaults
PROGRAM = "schema_check.py"
PATIENCE = 15  # seconds to wait for the program, which limits its own CPU time
LIGHT = 2_000_000  # schema size times parameter size that is fast to check
LEAST = 100  # minimum parameter size in that product: the schema alone takes time
# Keywords that can be slow at any size.
_HEAVY = re.compile(
    '"(?:pattern|patternProperties|\\$ref|\\$dynamicRef|uniqueItems|unevaluated(?:Items|Properties))"'
)


def checked(schema: object, given: dict[str, Any], tool_id: str) -> dict[str, Any]:
    """Return the parameters with defaults for omitted ones, or unchanged without a schema.

    Converts no types. Raises `CodedError` with all problems of the parameters, or with the problem
    of the schema.
    """
    if schema is None:
        return given
    if not isinstance(schema, dict):
        raise refusal(f"config_schema of {tool_id}", "an object", schema)
    completed = _with_defaults(schema, given, 0)
    found = _problems(schema, completed, tool_id)
    if found:
        issues = [_short_error(problem) for problem in found]
        further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise CodedError(
            VALIDATION_FAILED,
            f'invalid parameters for the tool "{tool_id}": {issues[0]}{further}',
            issues=issues,
        )
    return completed


def declared(schema: object) -> frozenset[str]:
    """Return the names of the parameters in a schema, described or required."""
    required = schema.get("required") if isinstance(schema, dict) else None
    names = required if isinstance(required, list) else []
    return frozenset((*_properties(schema), *(name for name in names if isinstance(name, str))))


def _properties(schema: object) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _with_defaults(schema: object, given: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return a copy of an object with defaults filled in, recursively."""
    from copy import deepcopy

    completed = dict(given)
    for name, member in _properties(schema).items():
        if name not in completed and isinstance(member, dict) and "default" in member:
            completed[name] = deepcopy(member["default"])
        if isinstance(completed.get(name), dict) and depth < DEEPEST:
            completed[name] = _with_defaults(member, completed[name], depth + 1)
    return completed


def _problems(schema: dict[str, Any], given: dict[str, Any], tool_id: str) -> list[str]:
    """Return the problems of the parameters; a check that may be slow runs in a child process."""
    written = json.dumps(schema), json.dumps(given)
    try:
        if len(written[0]) * (len(written[1]) + LEAST) < LIGHT and not _HEAVY.search(written[0]):
            add_packages()
            return problems(schema, given)
        return _problems_apart(f"[{written[0]},{written[1]}]")
    except UnfitSchemaError as error:
        text = f'the parameter schema of the tool "{tool_id}" is not valid: {error}'
        raise CodedError(VALIDATION_FAILED, _short_error(text)) from error


def _problems_apart(written: str) -> list[str]:
    """Return the problems found by the checking program; raises `UnfitSchemaError`."""
    import subprocess
    import sys

    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAM)
    try:
        ended = subprocess.run(
            (sys.executable, "-I", program),
            input=written.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = f"cannot check the parameters within {LIMIT} seconds: simplify the schema"
        raise UnfitSchemaError(text) from error
    answer = json.loads(ended.stdout)
    if isinstance(answer, str):
        raise UnfitSchemaError(answer)
    return [str(problem) for problem in answer]


def _short_error(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"
