"""Spells values as text of Python, SQL and TOML, Python laid out as `ruff format` leaves it.

Templates get everything that varies from here.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from keyword import iskeyword
from re import Match
from typing import TypeAlias

LINE_WIDTH = 100  # columns of a line of emitted Python

# The sets are written out, not asked of `unicodedata`: its answers change between Python versions,
# and the same project has to give the same bytes on all of them.
_NARROW = (
    " -~"
    "\u00a1-\u00ac\u00ae-\u00b3\u00b5-\u00b7\u00b9-\u00d6\u00d8-\u0130\u0132-\u017e"  # Latin
    "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03ce"  # Greek
    "\u0400-\u045f\u0490\u0491"  # Cyrillic
    "\u2014\u201c-\u201e\u2022\u2026\u20ac\u2116\u2190-\u2193\u2248\u2260\u2264\u2265\u2713\u2717"
)
_WIDE = (
    "\u26a1\u2705\u2728\u274c\u2753-\u2755\u2757\u2b50"
    "\u3001\u3002\u300c-\u3011\u3041-\u3096\u30a1-\u30fe\u4e00-\u9fa5\uac00-\ud7a3"
    "\U0001f300-\U0001f320\U0001f337-\U0001f37c\U0001f3a0-\U0001f3ca\U0001f3e0-\U0001f3f0"
    "\U0001f400-\U0001f43e\U0001f442-\U0001f4fc\U0001f500-\U0001f53d\U0001f5fb-\U0001f64f"
    "\U0001f680-\U0001f6c5\U0001f90d-\U0001f93a\U0001f947-\U0001f9ff"
)
# Letters that look like others: trusted only in a word whose other letters tell the script.
_DOUBLES = (
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1"
    "\u03b3\u03b9\u03bd\u03bf\u03c1\u03c3\u03c5"
    "\u0405\u0406\u0408\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u042c\u0430\u0431\u0433\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458"
    "\u30ce\u4e36\u4e3f"
)
_UNTRUSTED = re.compile(f"[^{_NARROW}{_WIDE}]")
_WIDE_CHARACTER = re.compile(f"[{_WIDE}]")
_DOUBLE = re.compile(f"[{_DOUBLES}]")
_LETTERS = re.compile(r"[^\W_]+")
_TELLING = re.compile(f"[^\x00-\x7f{_DOUBLES}]")
_ASCII = re.compile("[\x00-\x7f]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def width(text: str) -> int:
    """Return the columns that trusted text takes: East Asian characters and emoji take two."""
    return len(text) + len(_WIDE_CHARACTER.findall(text))


def escaped(text: str) -> str:
    r"""Return `text` with each untrusted character as `\xNN`, `\uNNNN` or the like.

    Untrusted characters are control characters, line separators, lone surrogates, invisible,
    combining and right-to-left characters, and lookalikes of ASCII characters. Backslashes are
    unchanged: double them first if the result is read as Python.
    """
    if text.isascii() and text.isprintable():
        return text
    return _LETTERS.sub(_escaped_doubles, _UNTRUSTED.sub(_short_escape, text))


def visible(text: str) -> str:
    r"""Return `text` as `escaped` does, with no other escapes than `\uNNNN` and `\UNNNNNNNN`.

    Only these escapes are allowed in a docstring that is not raw (ruff D301).
    """
    return _LETTERS.sub(_escaped_doubles, _UNTRUSTED.sub(long_escape, text))


def long_escape(match: Match[str]) -> str:
    r"""Return the one matched character as `\uNNNN` or `\UNNNNNNNN`."""
    code = f"{ord(match[0]):04x}"
    return f"\\u{code}" if len(code) == len("ffff") else f"\\U{code:0>8}"


def _short_escape(match: Match[str]) -> str:
    """Return the shortest escape of the one matched character."""
    code = f"{ord(match[0]):02x}"
    if len(code) > len("ff"):
        return long_escape(match)
    return _SHORT.get(match[0], f"\\x{code}")


def _escaped_doubles(match: Match[str]) -> str:
    """Return a word with its lookalikes escaped, unless its other letters identify the script.

    The word is examined with its escapes, whose letters count as ASCII, because ruff reads it that
    way (RUF001).
    """
    if _TELLING.search(match[0]) and not _ASCII.search(match[0]):
        return match[0]
    return _DOUBLE.sub(long_escape, match[0])


LONGEST = 64  # characters of a name
DIGEST = 24  # hex digits that tell names apart that are cut


@dataclass(frozen=True, slots=True)
class _Escape:
    """An encoding that gives each text a distinct name.

    A name that is illegal, reserved or looks like an encoded one becomes the letter x, the
    separator, and the text. In that text the separator is doubled, and each illegal character is
    replaced by its hexadecimal code between separators. A result longer than 64 characters is cut
    and marked with two letters x.
    """

    legal: re.Pattern[str]
    separator: str
    kept: str

    def name(self, text: str, *, reserved: bool = False) -> str:
        """Return the name of `text`."""
        marked = text.startswith((f"x{self.separator}", f"xx{self.separator}"))
        if self.legal.fullmatch(text) and not reserved and not marked:
            name = text
        else:
            name = f"x{self.separator}{''.join(map(self._escape_text, text))}"
        return name if len(name) <= LONGEST else self._cut(name, text)

    def _escape_text(self, character: str) -> str:
        """Return one character in its encoded form."""
        if character == self.separator:
            return self.separator * 2
        if character.isascii() and (character.isalnum() or character in self.kept):
            return character
        return f"{self.separator}{ord(character):x}{self.separator}"

    def _cut(self, name: str, text: str) -> str:
        """Return the beginning of a name that is too long, and a digest of its whole text."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST]
        start = name.removeprefix(f"x{self.separator}")[: LONGEST - DIGEST - 4]
        return f"xx{self.separator}{start}{self.separator}{digest}"


_CONSTANT = _Escape(re.compile("[A-Za-z][A-Za-z0-9_]*"), "_", "")
_ARGUMENT = _Escape(re.compile("[A-Za-z0-9_.-]+"), ".", "_-")


def constant(text: str) -> str:
    """Return a name in capitals for `text`, at most 64 characters.

    Texts that differ in more than the case of ASCII letters have different names.
    """
    lowered = "".join(c.lower() if c.isascii() else c for c in text)
    return _CONSTANT.name(lowered, reserved=lowered in ("i", "o")).upper()


def argument_name(text: str) -> str:
    """Return a name for an argument of a tool, unique for each text.

    A model's API refuses a whole request if one property does not match `^[a-zA-Z0-9_.-]{1,64}$`. A
    matching name is unchanged unless it looks like an encoded one.
    """
    return _ARGUMENT.name(text)


# Letters that Unicode does not decompose into one of ASCII and a mark.
_WHOLE_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
)
_SEPARATORS = re.compile("[^a-z0-9_]+")


def readable_name(text: str) -> str:
    """Return a name in lower case that reads like `text`, or "" if it has letters of other scripts.

    Different texts can have the same name.
    """
    parts = unicodedata.normalize("NFKD", text.lower().translate(_WHOLE_LETTERS))
    if any(not character.isascii() and character.isalnum() for character in parts):
        return ""
    marked = "".join(character for character in parts if not unicodedata.combining(character))
    return _SEPARATORS.sub("_", marked).strip("_")


QUOTES = '"""'
_BLANK_LINES = re.compile(r"\n\s*\n")
_BACKSLASH_OR_QUOTES = re.compile(r'\\|^"|(?<=")"')
_HEADING = re.compile(r"[A-Za-z]+(?: [A-Za-z]+){0,2}:?")
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z']*[.,:;!?]*")
_PLAIN_WORDS = re.compile(r"([A-Za-z]+) ([A-Za-z]+)\b")
_DIRECTIVES = frozenset(("bug", "fixme", "hack", "nopep", "noqa", "nosec", "todo", "xxx"))
_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def docstring(text: str, indent: int = 0) -> str:
    """Return a docstring with the words of `text`, for a place with that indent.

    The first line is a summary, as ruff's D rules require. Blank lines separate paragraphs; other
    line ends become spaces. Each paragraph begins and ends like a sentence. A summary too long for
    its line is cut after a sentence, or with three dots, and continues in the next paragraph.
    """
    spelled = [
        visible(_BACKSLASH_OR_QUOTES.sub(long_escape, " ".join(part.split()))).split(" ")
        for part in _BLANK_LINES.split(text)
        if part.split()
    ]
    summary, *others = [_sentence(words) for words in spelled or [["empty"]]]
    room = LINE_WIDTH - indent - len(QUOTES)
    last = 0 if others else len(QUOTES)
    if len(summary) > 1 and _columns(summary) + last > room:
        summary, rest = _summary_and_rest(summary, room)
        others = [_sentence(rest), *others]
    if not others:
        return f"{QUOTES}{' '.join(summary)}{QUOTES}"
    lines = [f"{QUOTES}{' '.join(summary)}"]
    for words in others:
        lines += ["", *_wrapped(words, LINE_WIDTH - indent)]
    first, *following = [*lines, QUOTES]
    return "\n".join([first, *(f"{' ' * indent}{line}".rstrip() for line in following)])


def comment(text: str, indent: int = 0) -> str:
    """Return `text` as one comment line for a place with that indent, cut where it is too long.

    Text that is not plain prose is set in typographic quotes. This keeps it from looking like
    commented-out code or a directive to a linter, a formatter or the interpreter.
    """
    plain = visible(" ".join(text.split()).replace("#", r"\u0023"))
    plain = re.sub("coding([:=])", r"coding \1", plain)
    quotes = ("", "") if _is_prose(plain) else ("\u201c", "\u201d")
    room = LINE_WIDTH - indent - len("# ") - len("".join(quotes))
    if width(plain) > room:
        plain = plain[:room]
        while width(visible(plain)) > room - len("..."):  # a word that was cut may need escapes
            plain = plain[:-1]
        plain = f"{visible(plain).rstrip()}..."
    return f"# {quotes[0]}{plain}{quotes[1]}".rstrip()


def markdown_cell(text: str) -> str:
    """Return `text` for a cell of a Markdown table, displayed literally: no markup or line ends.

    Invisible characters are shown as escapes.
    """
    shown = visible(" ".join(text.split()))
    return _MARKDOWN.sub(r"\\\g<0>", shown).translate(_HTML)


def _is_prose(text: str) -> bool:
    """Return whether a comment begins with two words that neither Python nor a tool reads."""
    match = _PLAIN_WORDS.match(text)
    words = match.groups() if match else ("noqa",)
    return not any(iskeyword(word) or word.lower() in _DIRECTIVES for word in words)


def _sentence(words: Sequence[str]) -> list[str]:
    """Return words that begin and end as a sentence does."""
    first, *others = words
    if _PLAIN_WORD.fullmatch(first):
        first = first[0].upper() + first[1:]
    text = " ".join([first, *others])
    if not text.endswith((".", "!", "?")):
        text = f"{text.rstrip(':;,')}."
    return text.split(" ")


def _summary_and_rest(words: Sequence[str], room: int) -> tuple[list[str], list[str]]:
    """Return the words of the first line, which ends like a sentence, and the remaining words."""
    fitting = [count for count in range(1, len(words)) if _columns(words[:count]) <= room]
    for count in reversed(fitting):
        if words[count - 1].endswith((".", "!", "?")):
            return [*words[:count]], [*words[count:]]
    count = max((n for n in fitting if _columns(words[:n]) + len("...") <= room), default=1)
    return [*words[: count - 1], f"{words[count - 1]}..."], [*words[count:]]


def _wrapped(words: Sequence[str], room: int) -> list[str]:
    """Return lines of at most `room` columns; a longer word gets a separate line."""
    lines = [words[0]]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        if width(joined) <= room:
            lines[-1] = joined
        else:
            lines.append(word)
    return [re.sub("^.", long_escape, line) if _HEADING.fullmatch(line) else line for line in lines]


def _columns(words: Sequence[str]) -> int:
    """Return the columns of words with a space between them."""
    return width(" ".join(words))


def sql_name(name: str) -> str:
    """Return a name of a table, a column or a role, in quotes."""
    return '"' + name.replace('"', '""') + '"'


def toml_key(name: str) -> str:
    """Return a key of TOML, in quotes unless it is a bare one."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: object) -> str:
    """Return a value as TOML on one line, tables in braces; a string of JSON is one of TOML."""
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def sql_text(text: str) -> str:
    """Return a text as a literal of standard SQL, where a backslash has no special meaning."""
    return "'" + text.replace("'", "''") + "'"


INDENT = 4
NARROWEST = 40  # columns of a part of a long string at any depth
_UNIT = re.compile(r"\\(?:x..|u.{4}|U.{8}|.)|.")  # one character or one escape
_WORD = re.compile(r"(?:(?! |\\n)(?:\\.|.))* *(?:\\n)*")  # with the spaces and line ends behind it


@dataclass(frozen=True, slots=True)
class Name:
    """A reference that is spelled bare: a constant, or `module.function`."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """A container printed with one element per line, even if it would fit on one line.

    Adding an element is then a diff of one line. The formatter ignores the trailing comma of a
    tuple with one element, so such a tuple remains on one line. A list does not.
    """

    items: "Sequence[Value] | Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Construction:
    """A call of a function or a class by its name, with one argument a line."""

    name: str
    arguments: "Sequence[Value]" = ()
    keywords: "Mapping[str, Value]" = field(default_factory=dict)


Value: TypeAlias = (
    "str | int | float | bool | Name | Lines | Construction "
    "| Sequence[Value] | Mapping[str, Value] | None"
)


def literal(value: Value, indent: int = 0, prefix: str = "", suffix: str = "") -> str:
    """Return `value` as Python code to place between `prefix` and `suffix` at an indent.

    Supported are lists, tuples, dicts with str keys, str, int, float, bool, None, `Name`, `Lines`
    and `Construction`. A value that does not fit in 100 columns takes one line per element, or one
    line per part of a long string. Every line but the first includes its indent. The result
    contains neither `prefix` nor `suffix`. Raises TypeError for other types and ValueError for
    numbers without a literal.
    """
    return _layout(value, indent, width(prefix), width(suffix))


def assignment(name: str, value: Value) -> str:
    """Return `name = value` for the level of the module; `name` may carry an annotation.

    A name is not broken: with its annotation it takes at most 96 columns.
    """
    text = literal(value, prefix=f"{name} = ")
    if "\n" in text or isinstance(value, Lines | Construction | list | tuple | dict):
        return f"{name} = {text}"
    overlong = width(f"{name} = {text}") > LINE_WIDTH
    if overlong and max(len(f"{name} = ("), INDENT + width(text)) <= LINE_WIDTH:
        text = f"(\n{' ' * INDENT}{text}\n)"
    return f"{name} = {text}"


def import_from(module: str, names: Iterable[str]) -> str:
    """Return `from module import …`, sorted as the linter sorts: constants, classes, the rest."""
    kinds = (str.isupper, lambda name: name[0].isupper())
    ordered = sorted(names, key=lambda name: (*(not kind(name) for kind in kinds), name))
    line = f"from {module} import {', '.join(ordered)}"
    if width(line) <= LINE_WIDTH:
        return line
    body = "".join(f"{' ' * INDENT}{name},\n" for name in ordered)
    return f"from {module} import (\n{body})"


def keyword(name: str, value: Value, indent: int) -> str:
    """Return `name=value,` for an argument on its own line, whose indent the template holds."""
    return f"{name}={literal(value, indent, f'{name}=', ',')},"


def entry(key: str, value: Value, indent: int) -> str:
    """Return `"key": value,` for an entry on its own line, whose indent the template holds."""
    spelled = _quoted(key)
    if indent + width(spelled) + len(": (") > LINE_WIDTH:
        return f"{_divided(key, indent)}: {literal(value, indent, '): ', ',')},"
    return f"{spelled}: {literal(value, indent, f'{spelled}: ', ',')},"


def _layout(value: Value, indent: int, before: int, after: int) -> str:
    """Return `value` on one line if `before` and `after` columns leave room, else on several."""
    if isinstance(value, Construction):
        return _called(value, indent)
    flat = _flat(value)
    if flat is not None and indent + before + width(flat) + after <= LINE_WIDTH:
        return flat
    items = value.items if isinstance(value, Lines) else value
    if isinstance(items, str):
        return _divided(items, indent)
    if isinstance(items, list | tuple | dict) and items:
        return _exploded(items, indent)
    return _flat(items) or ""


def _flat(value: Value) -> str | None:
    """Return `value` on one line of any length, or None if it contains `Lines`."""
    if isinstance(value, Construction):
        return None
    if isinstance(value, Lines):
        one_line = not value.items or (isinstance(value.items, tuple) and len(value.items) == 1)
        return _flat(value.items) if one_line else None
    if not isinstance(value, list | tuple | dict):
        return _scalar(value)
    if isinstance(value, dict):
        texts = [_pair(_quoted(key), _flat(item)) for key, item in value.items()]
    else:
        texts = [_flat(item) for item in value]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    opening, closing = _brackets(value)
    return f"{opening}{', '.join(known)}{comma}{closing}"


def _pair(key: str, value: str | None) -> str | None:
    """Return a dict entry on one line, or None if its value does not have that form."""
    return None if value is None else f"{key}: {value}"


def _scalar(value: object) -> str:
    """Return the literal of a value that holds no others."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Name):
        return value.text
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if not isinstance(value, float):
        kind = type(value).__name__
        raise TypeError(f'"{kind}" has no literal: expected what JSON holds, or a tuple')
    if not math.isfinite(value):
        raise ValueError(f'"{value}" has no literal: expected a finite number')
    return repr(value).replace("e+", "e")


def _brackets(value: object) -> tuple[str, str]:
    """Return the two brackets of a container."""
    if isinstance(value, dict):
        return "{", "}"
    return ("[", "]") if isinstance(value, list) else ("(", ")")


def _exploded(
    value: "list[Value] | tuple[Value, ...] | dict[str, Value]",
    indent: int,
) -> str:
    """Return a container with one element a line and a comma behind each."""
    inner = indent + INDENT
    if isinstance(value, dict):
        lines = [entry(key, item, inner) for key, item in value.items()]
    else:
        lines = [f"{_layout(item, inner, 0, 1)}," for item in value]
    opening, closing = _brackets(value)
    body = "".join(f"{' ' * inner}{line}\n" for line in lines)
    return f"{opening}\n{body}{' ' * indent}{closing}"


def _called(call: Construction, indent: int) -> str:
    """Return a call with one argument a line and a comma behind each."""
    inner = indent + INDENT
    lines = [f"{_layout(item, inner, 0, 1)}," for item in call.arguments]
    lines += [keyword(name, value, inner) for name, value in call.keywords.items()]
    body = "".join(f"{' ' * inner}{line}\n" for line in lines)
    return f"{call.name}(\n{body}{' ' * indent})" if lines else f"{call.name}()"


def _divided(text: str, indent: int) -> str:
    """Return a string in parentheses: whole if it fits on a separate line, else in parts."""
    room = LINE_WIDTH - indent - INDENT
    whole = _quoted(text)
    parts = [whole] if width(whole) <= room else [*_parts(_escape_text(text), max(room, NARROWEST))]
    if len(parts) <= 1 and width(whole) > room:
        return whole
    body = "".join(f"{' ' * (indent + INDENT)}{part}\n" for part in parts)
    return f"(\n{body}{' ' * indent})"


def _parts(spelled: str, room: int) -> Iterator[str]:
    """Yield quoted parts of at most `room` columns, cut behind line ends, spaces or anywhere."""
    part = ""
    for word in _WORD.findall(spelled):
        if part and (part.endswith(r"\n") or not _fits(part + word, room)):
            yield _in_quotes(part)
            part = ""
        for unit in (word,) if _fits(word, room) else _UNIT.findall(word):
            if part and not _fits(part + unit, room):
                yield _in_quotes(part)
                part = ""
            part += unit
    if part:
        yield _in_quotes(part)


def _fits(spelled: str, room: int) -> bool:
    """Return whether a quoted part takes at most `room` columns."""
    return len(spelled) <= room and width(_in_quotes(spelled)) <= room


def _quoted(text: str) -> str:
    """Return a string literal on one line."""
    return _in_quotes(_escape_text(text))


def _escape_text(text: str) -> str:
    """Return the escaped text of a literal; quotes are not escaped yet."""
    return escaped(text.replace("\\", r"\\"))


def _in_quotes(spelled: str) -> str:
    """Return spelled text in the quotes that cost fewer escapes.

    A part of a text may need more escapes than the whole: its words lost some of their letters.
    """
    quote = "'" if spelled.count('"') > spelled.count("'") else '"'
    content = escaped(spelled).replace(quote, f"\\{quote}")
    return f"{quote}{content}{quote}"
