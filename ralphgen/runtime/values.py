"""Values that go in and out: arguments checked, answers paged, and the names of rows in URIs."""

from __future__ import annotations

from .encoding import (
    DIGITS,
    JSON,
    Digits,
    parse_number,
    read_written_json,
    too_deep,
    write_json,
    write_written_json,
)
from .errors import NotThereError, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from re import Match
    from typing import Any

# The words for a type, and the exact Python types of its values: a boolean is not an integer.
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("an array", (list,)),
    "object": ("an object", (dict,)),
}
VALUE_WIDTH = 80
# Keeps a refusal short, and cheap to make, when a call carries thousands of wrong items.
SHOWN_PROBLEMS = 10  # of one argument
SHOWN_UNKNOWN = 20
# Python refuses to spell longer integers in decimal digits (4,300 of them).
_DECIMAL_BITS = 14_000
# An escape, a character class, or the sign for the end.
_PATTERN_PART = r"(?s)\\.|\[(?:\\.|[^\]\\])*\]|\$"  # compiled at its first use
# Comparing a word takes time that grows with its square, and no misspelled name is this long.
LONGEST_NAME = 200
ALMOST = 0.8  # how alike a misspelled value is: "desing" is "design", "deliver" no "discover"


def check_arguments(
    schema: Mapping[str, Any],
    arguments: object,
    refusals: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return the arguments that `schema` allows, in a new dict in the schema's order.

    `schema` is a tool's input schema: an object with `properties`, and nothing besides them.
    `arguments` is what the request carried: an object, or None for none. An optional argument
    that is null is left out, because omitted and null both mean "leave alone"; an integer
    written as 5.0 comes back as 5; a text that contains JSON of the right type, such as "[1]" for
    an array, comes back as that value if the schema takes no text. Of the formats `JSON` and
    `DIGITS` a value comes back as its text; nothing else is changed.
    `refusals` maps arguments of the schema to the sentence that replaces the usual problem.
    `{value}` in it is the value: such a sentence is not used for a missing argument, nor for an
    allowed value that is misspelled.

    Raises:
        ToolError: with one line for each problem: the arguments in the schema's order, then the
            unknown ones in alphabetical order.
    """
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        raise ToolError(f"the arguments are {shortened(given)}: expected an object")
    properties, required = schema.get("properties", {}), schema.get("required", ())
    kept: dict[str, object] = {}
    problems: list[str] = []
    for name, rule in properties.items():
        value = given.get(name)
        if value is None and (name not in required or name not in given):
            found = [_missing_value_message(name, rule)] if name in required else []
        else:
            found = []
            value = decoded(rule, value)
            kept[name] = _read(rule, value, name, found)
        if len(found) > SHOWN_PROBLEMS:
            rest = f"argument {_quoted(name)} has more problems than these {SHOWN_PROBLEMS}"
            found[SHOWN_PROBLEMS:] = [rest]
        if found:
            own = refusals.get(name, "") if refusals else ""
            usual = (
                not own or ("{value}" in own and name not in kept) or _is_misspelled(rule, value)
            )
            problems += found if usual else [own.replace("{value}", shortened(value))]
    if not given.keys() <= properties.keys():
        problems += _unknown("", given, properties)
    if problems:
        raise ToolError("\n".join(problems))
    return kept


def _is_misspelled(rule: Mapping[str, Any], value: object) -> bool:
    """Return whether a text differs from an allowed one by case, spaces or a letter or two."""
    choices = rule.get("enum", ())
    if not choices or not isinstance(value, str) or len(value) > LONGEST_NAME or value in choices:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(value.strip().casefold(), choices, n=1, cutoff=ALMOST))


def decoded(rule: Mapping[str, Any], value: object) -> object:
    """Return a value with its JSON texts decoded, if `rule` takes the decoded type and no text.

    Some clients can send only texts. A value of the formats `JSON` and `DIGITS` becomes its text,
    with all digits; elsewhere `Digits` become numbers.
    """
    kind, form = rule.get("type"), rule.get("format")
    if form == JSON:
        return _json_text(value)
    if type(value) is str and kind not in (None, "string"):
        value = _parsed(kind, value)
    if type(value) is Digits:
        value = str(value) if form == DIGITS else float(value)
    elif form == DIGITS and type(value) in (int, float):
        value = repr(value)
    if isinstance(value, list) and ("items" in rule or not too_deep(value)):
        items = rule.get("items", {})
        return [decoded(items, item) for item in value]
    if isinstance(value, dict):
        members, others = rule.get("properties", {}), rule.get("additionalProperties")
        rest = others if isinstance(others, dict) else {}
        return {name: decoded(members.get(name, rest), one) for name, one in value.items()}
    return value


def shortened(value: object) -> str:
    """Return a JSON value as JSON spells it, on one line, cut after about 80 characters.

    Characters that do not print, lone surrogates among them, are escaped. No more of the value
    is read than is shown, so that neither its size nor its depth matters.
    """
    if isinstance(value, str):
        return _quoted(value)
    shown = ""
    for piece in _pieces(value):
        shown += piece
        if len(shown) > VALUE_WIDTH:
            return f"{shown[:VALUE_WIDTH]}…"
    return shown


def misfits(rule: Mapping[str, Any], value: object, path: str) -> list[str]:
    """Return the first problems of a value by a schema, one line each; none if it fits."""
    problems: list[str] = []
    _read(rule, value, path, problems)
    return problems[:SHOWN_PROBLEMS]


def _read(rule: Mapping[str, Any], value: object, path: str, problems: list[str]) -> object:
    """Return `value` as the tool gets it; what breaks `rule` is added to `problems`."""
    kind = rule.get("type")
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is not None and not (_has_type(kind, value) and _is_spelled(rule, value)):
        finite = kind == "number" and isinstance(value, float)
        problems.append(_wrong(path, value, "a finite number" if finite else _expected(rule)))
        return value
    choices = rule.get("enum")
    if choices is not None and value not in choices:
        meant = nearest(value, choices) if isinstance(value, str) else None
        question = f"; did you mean {_quoted(meant)}?" if meant else ""
        problems.append(_wrong(path, value, _expected(rule)) + question)
        return value
    if isinstance(value, str):
        span = _span(rule.get("minLength"), rule.get("maxLength"), len(value), "character")
        _note(path, value, (span, _match(rule, value)), problems)
    elif isinstance(value, list):
        return _read_array(rule, value, path, problems)
    elif isinstance(value, dict):
        return _read_object(rule, value, path, problems)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _note(path, value, (_size(rule, value),), problems)
    return value


def _json_text(value: object) -> object:
    """Return a value as JSON text, or the value if it is not JSON.

    A text that is not JSON is a value itself. Raises `ToolError` for a value nested too deeply.
    """
    try:
        if type(value) is str:
            try:
                value = read_written_json(value)
            except ValueError:
                return write_written_json(value)
        return write_written_json(value)
    except ValueError:
        return value
    except RecursionError:
        raise ToolError("a value of JSON is nested too deeply") from None


def _parsed(kind: str, text: str) -> object:
    """Return the value of a type that a text contains as JSON, or the text."""
    import json

    try:
        value = json.loads(text, parse_float=parse_number)
    except (ValueError, RecursionError):
        return text
    if type(value) is Digits:
        value = float(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if _has_type(kind, value) else text


def _read_array(
    rule: Mapping[str, Any], items: list[object], path: str, problems: list[str]
) -> list[object]:
    """Return the items as the tool gets them; reading stops when enough of them are wrong."""
    span = _span(rule.get("minItems"), rule.get("maxItems"), len(items), "item")
    _note(path, items, (span, _distinct(rule, items)), problems)
    item_rule = rule.get("items")
    if item_rule is None:
        return items
    read: list[object] = []
    for place, item in enumerate(items):
        read.append(_read(item_rule, item, f"{path}[{place}]", problems))
        if len(problems) > SHOWN_PROBLEMS:
            break
    return read


def _read_object(
    rule: Mapping[str, Any], members: dict[str, object], path: str, problems: list[str]
) -> dict[str, object]:
    """Return the members as the tool gets them; reading stops when enough of them are wrong."""
    properties, required = rule.get("properties", {}), rule.get("required", ())
    others = rule.get("additionalProperties", True)
    read = dict(members)
    for name in {**properties, **dict.fromkeys(required), **members}:
        member_rule = properties.get(name, others)
        if name in members and not isinstance(member_rule, bool):
            read[name] = _read(member_rule, members[name], f"{path}.{name}", problems)
        elif name not in members and name in required:
            problems.append(_missing_value_message(f"{path}.{name}", properties.get(name, {})))
        if len(problems) > SHOWN_PROBLEMS:
            break
    if others is False:
        problems += _unknown(path, members, properties)
    return read


def _has_type(kind: str, value: object) -> bool:
    """Return whether `value` is of the JSON type `kind`; NaN and the infinities are not numbers."""
    if type(value) not in _KINDS[kind][1]:
        return False
    return not isinstance(value, float) or abs(value) < float("inf")


def _is_spelled(rule: Mapping[str, Any], value: object) -> bool:
    """Return whether a text is that of a number, if the rule's format is `DIGITS`."""
    if rule.get("format") != DIGITS or not isinstance(value, str):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


def _match(rule: Mapping[str, Any], text: str) -> str | None:
    """Return the expected pattern, or None if the text matches.

    `$` means the very end, as in ECMA-262; Python's also matches before a last line break.
    """
    pattern = rule.get("pattern")
    if pattern is None:
        return None
    import re

    strict = pattern
    if text.endswith("\n"):
        strict = re.sub(_PATTERN_PART, _to_the_end, pattern)
    return None if re.search(strict, text) else f"text that matches /{pattern}/"


def _to_the_end(part: Match[str]) -> str:
    return r"\Z" if part[0] == "$" else part[0]


def _size(rule: Mapping[str, Any], number: float) -> str | None:
    """Return the expected range, or None if the number is in it."""
    low, high = rule.get("minimum"), rule.get("maximum")
    if (low is None or number >= low) and (high is None or number <= high):
        return None
    noun = _KINDS[rule.get("type", "number")][0]
    return f"{noun} {'from' if None not in (low, high) else 'of'} {_range(low, high)}"


def _span(low: int | None, high: int | None, count: int, unit: str) -> str | None:
    """Return the expected count, or None if the count is right."""
    if (low is None or count >= low) and (high is None or count <= high):
        return None
    plural = "" if (low if high is None else high) == 1 else "s"
    return f"{_range(low, high)} {unit}{plural} (it has {count})"


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _distinct(rule: Mapping[str, Any], items: list[object]) -> str | None:
    """Return an expectation of distinct items, or None if no item is repeated."""
    if not rule.get("uniqueItems"):
        return None
    seen: set[object] = set()
    try:
        for item in items:
            identity = _identity(item)
            if identity in seen:
                return f"distinct items ({shortened(item)} is repeated)"
            seen.add(identity)
    except RecursionError:
        return "items nested less deeply"
    return None


def _identity(value: object) -> object:
    """Return a key that is equal for values that JSON Schema considers equal, such as 1 and 1.0."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *[_identity(item) for item in value])
    if isinstance(value, dict):
        return (dict, frozenset((name, _identity(item)) for name, item in value.items()))
    return value


def _expected(rule: Mapping[str, Any]) -> str:
    """Return the words for the kind of value that `rule` asks for."""
    if "enum" in rule:
        return f"one of {', '.join(map(shortened, rule['enum']))}"
    kind = rule.get("type")
    if rule.get("format") == DIGITS:
        return "a decimal number"
    if kind == "array" and "type" in rule.get("items", {}):
        return f"an array of {rule['items']['type']}s"
    others = rule.get("additionalProperties")
    if kind == "object" and isinstance(others, dict) and "type" in others:
        return f"an object whose values are {others['type']}s"
    return "a value" if kind is None else _KINDS[kind][0]


def _note(path: str, value: object, expected: tuple[str | None, ...], problems: list[str]) -> None:
    """Add one problem with every unmet expectation of `value`, if there is any."""
    if unmet := [text for text in expected if text]:
        problems.append(_wrong(path, value, " and ".join(unmet)))


def _wrong(path: str, value: object, expected: str) -> str:
    return f"argument {_quoted(path)} is {shortened(value)}: expected {expected}"


def _missing_value_message(path: str, rule: Mapping[str, Any]) -> str:
    return f"argument {_quoted(path)} is missing: expected {_expected(rule)}"


def _unknown(path: str, given: Iterable[str], properties: Mapping[str, Any]) -> list[str]:
    """Return the lines on the names in `given` that the schema does not have."""
    given = {*given}
    names = sorted(given - properties.keys())
    listed = ", ".join(_quoted(name) for name in properties) or "no arguments"
    takes = f"{_quoted(path) if path else 'this tool'} takes {listed}"
    lines: list[str] = []
    for name in names[:SHOWN_UNKNOWN]:
        full = _quoted(f"{path}.{name}" if path else name)
        meant = nearest(name, [one for one in properties if one not in given])
        advice = f"did you mean {_quoted(meant)}?" if meant else takes
        lines.append(f"unknown argument {full}: {advice}")
    if len(names) > SHOWN_UNKNOWN:
        more = len(names) - SHOWN_UNKNOWN
        lines.append(f"and {more} more unknown argument{'' if more == 1 else 's'}")
    return lines


def _pieces(value: object) -> Iterator[str]:
    """Yield the JSON spelling of `value` in pieces, so that a reader may stop early."""
    if isinstance(value, str):
        yield _quoted(value)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ", " if place else "["
            yield from _pieces(item)
        yield "]" if value else "[]"
    elif isinstance(value, dict):
        for place, (name, item) in enumerate(value.items()):
            yield f"{', ' if place else '{'}{_quoted(name)}: "
            yield from _pieces(item)
        yield "}" if value else "{}"
    elif isinstance(value, int) and value.bit_length() > _DECIMAL_BITS:
        yield hex(value)
    else:
        import json

        yield json.dumps(value)


def _escaped(character: str) -> str:
    import json

    return json.dumps(character)[1:-1]


def _quoted(text: str) -> str:
    """Return `text` as a JSON string, cut after about 80 characters."""
    shown = ""
    for character in text:
        plain = character.isprintable() and character not in '"\\'
        spelled = character if plain else _escaped(character)
        if len(shown) + len(spelled) > VALUE_WIDTH:
            return f'"{shown}…"'
        shown += spelled
    return f'"{shown}"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the entry of `known` nearest to `name`, or None if none is near.

    Case, hyphens, underscores and spaces are ignored: "featureName" is "feature_name". The prefix
    that clients add to the names of tools is ignored too: "mcp__rye__load" is "load", and
    "mcp__rye__laod" is near it. The answer does not depend on the order of `known`.
    """
    from difflib import get_close_matches

    if len(name) > LONGEST_NAME:
        return None
    known = [*known]
    tail = name.rpartition("__")[2]
    if tail in known:
        return tail
    entries = {_letters(entry): entry for entry in sorted(known, reverse=True)}
    for text in (name, tail):
        if matches := get_close_matches(_letters(text), entries, n=1):
            return entries[matches[0]]
    return None


def _letters(name: str) -> str:
    """Return `name` without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


PAGE = 50  # rows of a page, unless the caller sets a limit
MAX_CHARACTERS = 40_000  # of an answer
AROUND = 1_000  # of them for everything around the rows of a page
LONG_TEXT_IN_LIST = 500
# Characters of a text and items of a list that a single record shows, ever fewer until it fits.
CUT_STEPS = (
    *((8_000, 1_000), (4_000, 500), (2_000, 200), (1_000, 100)),
    *((400, 50), (100, 20), (40, 8), (20, 2)),
)
DEEPEST_SHOWN = 12  # lists and objects within each other
LONG_KEY = 100  # characters of an object's key
LONGEST_CUT = 5_000  # characters of the names of cut fields
_CUT_FRAME = '{,"cut":}'
NAMED_CUTS = 20  # beyond them, the fields are named without their parts


def size(value: object) -> int:
    """Return the characters of a value as compact JSON."""
    return len(write_json(value))


def page(
    name: str,
    rows: Sequence[dict[str, Any]],
    cursors: Sequence[object],
    *,
    limit: int,
    total: int,
    around: int = AROUND,
) -> dict[str, Any]:
    """Return the first rows of a list, at most `limit` of them and within the size of an answer.

    `rows` may hold one row more than `limit`, as a sign that there are others. `cursors` has the
    cursor of the page that begins after each row. `around` is the number of characters for
    everything else in the answer.
    """
    kept = leading(rows[:limit], MAX_CHARACTERS - around)
    answer: dict[str, Any] = {name: kept, "total": total}
    if len(kept) < len(rows):
        answer["next_cursor"] = str(cursors[len(kept) - 1])
    return answer


def leading(
    rows: Iterable[dict[str, Any]], room: int = MAX_CHARACTERS - AROUND
) -> list[dict[str, Any]]:
    """Return as many of the first rows as an answer has room for.

    Those behind them are not asked for.

    The first one is there however long it is, cut until it fits, so that each page leads on.
    """
    kept: list[dict[str, Any]] = []
    for row in rows:
        record = shorten_record(row, LONG_TEXT_IN_LIST, PAGE)
        if size(record) >= room:
            if kept:
                break
            record = fitted(row, room)
        room -= size(record) + 1
        kept.append(record)
    return kept


def fitted(record: dict[str, Any], room: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the record, its longest parts cut until it fits; `cut` names the incomplete fields."""
    candidate: dict[str, Any] = {}
    for characters, items in CUT_STEPS:
        candidate = shorten_record(record, characters, items)
        if size(candidate) <= room:
            return candidate
    return _without_longest(candidate, room)


def shorten_record(record: dict[str, Any], characters: int, items: int) -> dict[str, Any]:
    """Return a copy without texts over `characters` or lists over `items`, its cut fields in `cut`.

    What UTF-8 cannot carry, half of a surrogate pair, is shown as U+FFFD.
    """
    cuts = {
        name: _Cut(characters, items)
        for name, value in record.items()
        if not _is_short(value, characters)
    }
    short = {
        _without_halves(name): cuts[name].short(value, name, 0) if name in cuts else value
        for name, value in record.items()
    }
    names = sorted({_without_halves(part) for cut in cuts.values() for part in cut.names})
    if len(names) > NAMED_CUTS:
        names = sorted(_without_halves(name) for name, cut in cuts.items() if cut.names)
    return {**short, "cut": names} if names else short


def _is_short(value: Any, characters: int) -> bool:
    """Return whether a value certainly needs no cut."""
    if isinstance(value, str):
        return len(value) <= characters and value.isascii()
    return not isinstance(value, (list, dict))


class _Cut:
    """Shortens values, and collects the names of the shortened ones."""

    __slots__ = ("_characters", "_items", "names")

    def __init__(self, characters: int, items: int) -> None:
        self._characters = characters
        self._items = items
        self.names: set[str] = set()

    def short(self, value: Any, name: str, depth: int) -> Any:
        """Return the value, shortened; `name` is its path and `depth` its level of nesting."""
        if isinstance(value, str):
            return self._text(value, name, self._characters)
        if not isinstance(value, (list, dict)):
            return value
        if depth > DEEPEST_SHOWN:
            self.names.add(name)
            return "…"
        if len(value) > self._items:
            self.names.add(name)
        if isinstance(value, list):
            return [self.short(item, name, depth + 1) for item in value[: self._items]]
        return {
            self._text(key, name, LONG_KEY): self.short(
                item, name if depth > 1 else f"{name}.{_without_halves(key[:LONG_KEY])}", depth + 1
            )
            for key, item in list(value.items())[: self._items]
        }

    def _text(self, text: str, name: str, characters: int) -> str:
        if len(text) > characters:
            self.names.add(name)
            text = text[:characters] + "…"
        return _without_halves(text)


def _without_halves(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _without_longest(record: dict[str, Any], room: int) -> dict[str, Any]:
    """Return the record without its longest fields, as many as necessary.

    `cut` has their names, unless there are too many.
    """
    parts = record.pop("cut", ())
    beginnings = {part[:at] for part in parts for at, sign in enumerate(part) if sign == "."}
    cut = record.keys() & beginnings.union(parts)
    lengths = {name: size({name: value}) for name, value in record.items()}
    total, names = sum(lengths.values()), size(sorted(cut))
    for name in sorted(record, key=lambda name: lengths[name], reverse=True):
        if total + min(names, LONGEST_CUT) + len(_CUT_FRAME) <= room:
            break
        del record[name]
        total -= lengths[name]
        if name not in cut:
            cut.add(name)
            names += size(name) + 1
    return {**record, "cut": _names_that_fit(sorted(cut))}


def _names_that_fit(names: list[str]) -> list[str]:
    """Return names, or as many as there is room for and how many more there are."""
    if size(names) <= LONGEST_CUT:
        return names
    kept: list[str] = []
    room = LONGEST_CUT - 2 * LONG_KEY
    for name in names:
        short = _without_halves(name[:LONG_KEY])
        room -= size(short) + 1
        if room < 0:
            break
        kept.append(short)
    return [*kept, f"{len(names) - len(kept):,} more"]


# Characters of a path segment by RFC 3986, section 3.3; compiled at its first use.
_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def encode_segment(name: str) -> str:
    """Return a name as a segment; all but RFC 3986's unreserved characters of it are escaped."""
    return "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in name.encode("utf-8")
    )


def decode_segment(uri: str, spelled: str) -> str:
    """Return the name that a segment of a URI encodes; raises `NotThereError` if it is malformed.

    The refusal names the URI.
    """
    import re

    valid = re.match(_SEGMENT, spelled)
    at = valid.end() if valid is not None else 0
    if at < len(spelled):
        raise NotThereError(
            f"the URI {shortened(uri)} is malformed: encode {shortened(spelled[at])} in a name as "
            f'"{encode_segment(spelled[at])}"'
        )
    escaped = re.sub("%(..)", lambda found: chr(int(found[1], 16)), spelled)
    try:
        return escaped.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotThereError(f"the URI {shortened(uri)} is malformed: it is not UTF-8") from error
