"""Writes any text as a docstring, a comment or a cell of a Markdown table that cannot break out."""

import re
from collections.abc import Sequence
from keyword import iskeyword

from ralphgen.spelling.characters import LINE_WIDTH, long_escape, visible, width

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

    The first line is a summary, as ruff's rules D ask for; blank lines part paragraphs, other line
    ends are spaces. Each paragraph begins and ends as a sentence does. A summary too long for its
    line is cut behind a sentence, or with three dots, and goes on in the next paragraph.
    """
    spelled = [_spelled(part) for part in _BLANK_LINES.split(text) if part.split()]
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

    What is no plain sentence is set in typographic quotes: so it is neither code that was commented
    out nor an order to a linter, a formatter or the interpreter.
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
    """Return `text` for one cell of a Markdown table, shown as it is: no markup, HTML or line end.

    Characters that nobody sees are shown as their escapes.
    """
    shown = visible(" ".join(text.split()))
    return _MARKDOWN.sub(r"\\\g<0>", shown).translate(_HTML)


def _is_prose(text: str) -> bool:
    """Return whether a comment begins with two words that neither Python nor a tool reads."""
    match = _PLAIN_WORDS.match(text)
    words = match.groups() if match else ("noqa",)
    return not any(iskeyword(word) or word.lower() in _DIRECTIVES for word in words)


def _spelled(text: str) -> list[str]:
    """Return the words of a text as they may stand in a docstring."""
    return visible(_BACKSLASH_OR_QUOTES.sub(long_escape, " ".join(text.split()))).split(" ")


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
    """Return the words of the first line, which ends as a sentence, and those that are left."""
    fitting = [count for count in range(1, len(words)) if _columns(words[:count]) <= room]
    for count in reversed(fitting):
        if words[count - 1].endswith((".", "!", "?")):
            return [*words[:count]], [*words[count:]]
    count = max((n for n in fitting if _columns(words[:n]) + len("...") <= room), default=1)
    return [*words[: count - 1], f"{words[count - 1]}..."], [*words[count:]]


def _wrapped(words: Sequence[str], room: int) -> list[str]:
    """Return lines of at most `room` columns; a longer word has a line of its own."""
    lines = [words[0]]
    for word in words[1:]:
        joined = f"{lines[-1]} {word}"
        if width(joined) <= room:
            lines[-1] = joined
        else:
            lines.append(word)
    return [_no_heading(line) for line in lines]


def _no_heading(line: str) -> str:
    """Return a line with its first letter escaped where it could be read as a section's name."""
    return re.sub("^.", long_escape, line) if _HEADING.fullmatch(line) else line


def _columns(words: Sequence[str]) -> int:
    """Return the columns of words with a space between them."""
    return width(" ".join(words))
