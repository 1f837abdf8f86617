"""Reads the YAML block at the beginning of a document, without a YAML parser.

Only keys of the top level count, and only their texts are shown: lists, mappings and aliases are
values that are not text. A block in another style of YAML is invalid.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VALID, NONE, INVALID = "valid", "no frontmatter", "invalid frontmatter"
OTHER = ()  # the value of a key that is not text

_LONGEST_BLOCK = 20_000  # characters; blocks written by hand are shorter
_CONTROL = "[^\t\n -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_DOUBLE, _SINGLE = r'"((?:[^"\\]|\\.)*)"', "'((?:[^']|'')*)'"
_PLAIN = r"((?:[^\s\[\]{},#&*!|>'\"%@`:?-]|[:?-](?=\S))(?:[^:#]|:(?=\S)|(?<=\S)#)*?)"
_KEY = rf"(?:{_DOUBLE}|{_SINGLE}|{_PLAIN})[ \t]*:(?:[ \t]+(.*))?"
_ESCAPE = r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)"
_ESCAPED = dict(
    zip('0abtnvfre"/\\ _NLP', '\0\a\b\t\n\v\f\r\x1b"/\\ \xa0\x85\u2028\u2029', strict=True)
)
_CLOSES = {"[": "]", "{": "}"}


class FrontMatter:
    """The YAML block at the beginning of a document; every scalar is text.

    `state` is VALID, NONE or INVALID, `values` has the keys and values of a valid block, and `body`
    is the text after it, with plain line ends.
    """

    __slots__ = ("body", "state", "values")

    def __init__(self, state: str, values: Mapping[str, object], body: str) -> None:
        self.state = state
        self.values = values
        self.body = body

    def text(self, key: str) -> str:
        """Return the value of a key, stripped; empty if there is none or it is not text."""
        value = self.values.get(key)
        return value.strip() if isinstance(value, str) else ""


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a document with any line ends, with or without byte order mark."""
    import re

    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, rest = plain.partition("\n")
    if first.rstrip() != "---":
        return FrontMatter(NONE, {}, plain)
    end = re.search(r"(?m)^---[ \t]*$", rest)
    if end is None:
        return FrontMatter(INVALID, {}, rest)
    block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
    try:
        values = _read_block(block)
    except ValueError:
        return FrontMatter(INVALID, {}, body)
    return FrontMatter(VALID if values else NONE, values, body)


def _read_block(block: str) -> dict[str, object]:
    """Return the values of a block by key; raise `ValueError` if it is not a mapping."""
    import re

    if len(block) > _LONGEST_BLOCK or re.search(_CONTROL, block):
        raise ValueError
    lines = [line for line in block.split("\n") if not re.match(r"[ \t]*(#|$)", line)]
    if lines == ["{}"]:
        return {}
    values: dict[str, object] = {}
    at = 0
    while at < len(lines):
        key = re.fullmatch(_KEY, lines[at])
        if key is None:
            raise ValueError
        double, single, name, value = key.groups("")
        value = re.sub(r"^#.*", "", value.rstrip())
        more = at + 1
        while more < len(lines) and (
            lines[more][0] == " " or (not value and re.match(r"-( |$)", lines[more]))
        ):
            more += 1
        name = name or single.replace("''", "'") or _unescaped(double)
        values[name] = _value(value, lines[at + 1 : more])
        at = more
    return values


def _value(first: str, more: list[str]) -> str | tuple[()]:
    """Return the value that begins behind its key and continues in `more` lines."""
    import re

    first = re.sub(r"^(?:(?:![^\s,\[\]{}]*|&[\w-]+)(?:[ \t]+|$))*", "", first)  # tags, anchors
    if not first:
        return OTHER if more else ""
    lines = [line.strip() for line in more]
    if re.fullmatch(r"[|>][-+1-9]*(?:[ \t]+#.*)?", first):
        return "\n".join(lines)
    if re.fullmatch(r"\*[\w-]+", first):
        return OTHER
    whole = " ".join([first, *lines])
    if first[0] in _CLOSES:
        _require_closed(whole)
        return OTHER
    if quoted := re.fullmatch(rf"(?:{_DOUBLE}|{_SINGLE})(?:[ \t]+#.*)?", whole):
        double, single = quoted.groups()
        return _unescaped(double) if single is None else single.replace("''", "'")
    plain = " ".join([re.split(r"[ \t]+#", line, maxsplit=1)[0] for line in (first, *lines)])
    if (
        first[0] in ",]}&*|>@`%\"'"
        or re.match(r"[?:-](\s|$)", first)
        or re.search(r":(\s|$)", plain)
    ):
        raise ValueError
    return plain


def _require_closed(text: str) -> None:
    """Raise `ValueError` unless every bracket of a flow value is closed, and nothing follows."""
    import re

    expected: list[str] = []
    for part in re.finditer(rf"{_DOUBLE}|{_SINGLE}|[\[\]{{}}]|[ \t]#.*|[^\s,]", text):
        mark = part[0]
        if mark.lstrip().startswith("#"):
            continue
        if mark in _CLOSES:
            expected.append(_CLOSES[mark])
        elif not expected or (mark in "]}" and mark != expected.pop()):
            raise ValueError
    if expected:
        raise ValueError


def _unescaped(text: str) -> str:
    """Return the text that is escaped between double quotes; raise `ValueError` if it cannot be."""
    import re

    def character(escape: re.Match[str]) -> str:
        kind, digits = escape[1][0], escape[1][1:]
        if digits:
            return chr(int(digits, 16))
        if kind not in _ESCAPED:
            raise ValueError
        return _ESCAPED[kind]

    return re.sub(_ESCAPE, character, text)
