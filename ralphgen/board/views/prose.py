"""What a discipline says in words: its description, prompt, skills, conventions, own columns."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ralphgen.project import disciplines
from ralphgen.runtime.processes.secrets import masked_text
from ralphgen.runtime.tasks.rows import decode_strings

FIRST = ("description", "system_prompt", "skills", "conventions")
"""Those that come first, in this order; others follow as they stand in the table."""
SKILLS = "skills"
OTHERWISE = {
    *("name", "display_name", "acronym", "icon", "color", "stack_id"),
    *(
        "image_path",
        "crops",
        "image_prompt",
        disciplines.SERVERS_COLUMN,
        *disciplines.EXPECTED_REMOVALS,
    ),
    *("discipline", "fingerprint", "edits", "disabled", "notice"),
}
"""Columns that are no prose, are edited otherwise, or have the name of another field."""
LONGEST = 60_000
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
TOKEN = re.compile(r"""(["'])(?:\\.|(?!\1).)*(?:\1|$)|[^\s\[\]{},:="']+|[\]}]""", re.DOTALL)
IS_KEY = re.compile(r"\s*[:=]")
KEY = re.compile(r"[A-Za-z_]{1,40}")
ARGUMENTS = "args"
TOLD = ("name", "command", ARGUMENTS)
OPTION = "--?[A-Za-z][^=]*"  # the word behind it may be a credential
"""Keys whose values are shown."""
COVERED = "••••"


@dataclass(frozen=True, slots=True)
class ProseField:
    """A column of a discipline and the text of its field; of skills it has one on each line.

    `problem` says what is wrong with what is stored. One that is not `editable` is told of only.
    `typed` is what a person has put in the place of the text, None where nobody has; with
    `conflict` they have not seen the text, which somebody else has written meanwhile.
    """

    column: str
    text: str
    problem: str = ""
    editable: bool = True
    typed: str | None = None
    conflict: bool = False

    @property
    def shown(self) -> str:
        """Return what stands in the field."""
        return self.text if self.typed is None else self.typed


def prose_columns(columns: Sequence[Mapping[str, Any]], hidden: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that hold prose, given the table's facts and what the config hides."""
    covered = {entry.lower() for entry in hidden}
    found = [
        str(column["name"])
        for column in columns
        if re.search("text|char|clob|json|^$", str(column["type"]), re.IGNORECASE)
        and not column["generated"]
        and PLAIN.fullmatch(str(column["name"]))
        and str(column["name"]).lower() not in OTHERWISE
        and f"disciplines.{column['name']}".lower() not in covered
    ]
    return tuple(sorted(found, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


def prose_fields(values: Mapping[str, str | bytes | None]) -> Iterator[ProseField]:
    """Yield the fields of columns, given what they hold."""
    for column, value in values.items():
        if isinstance(value, bytes):
            yield ProseField(column, "", "it contains bytes, not text", editable=False)
        elif value is not None and len(value) > LONGEST:
            problem = f"it has {len(value):,} characters, more than {LONGEST:,}: edit it elsewhere"
            yield ProseField(column, "", problem, editable=False)
        elif column == SKILLS:
            yield _skills(value)
        else:
            yield ProseField(column, _lines(value or ""))


def stored_as(column: str, text: str) -> str:
    """Return what a column holds of the text of its field."""
    if column != SKILLS:
        return text
    lines = [line.strip() for line in text.split("\n")]
    return json.dumps([line for line in lines if line], ensure_ascii=False)


def without_values(stored: str | bytes | None) -> str:
    """Return a list of MCP servers that cannot be read, without what may be a secret in it."""
    text = stored if isinstance(stored, str) else repr(stored)
    return "".join(_covered(text[:LONGEST]))


def _covered(text: str) -> Iterator[str]:
    """Yield a text with each word covered that is no key, and no value of a key that is told.

    Only arguments are more than one word, and they end where an object begins: what follows may be
    a key of a secret that lacks its colon. An argument is also covered if it looks like a
    credential or follows an option.
    """
    end, key, option = 0, "", False
    for token in TOKEN.finditer(text):
        between = text[end : token.start()]
        yield between
        end, word = token.end(), token.group()
        key = "" if "{" in between else key
        option = option and bool(key)
        if word in "]}":
            key = ""
            yield word
        elif IS_KEY.match(text, end):
            key = word.strip("\"'")
            yield word if KEY.fullmatch(key) else COVERED
        else:
            is_shown = key in TOLD and word == masked_text(word) and not option
            yield word if is_shown else COVERED
            option = re.fullmatch(OPTION, word.strip("\"'")) is not None
            key = key if key == ARGUMENTS else ""
    yield text[end:]


def _skills(value: str | None) -> ProseField:
    found = decode_strings(value)
    if found.readable:
        return ProseField(SKILLS, "\n".join(_lines(one).replace("\n", " ") for one in found.values))
    problem = "the stored value is not a list of strings: put one skill on each line"
    return ProseField(SKILLS, _lines(value or ""), problem)


def _lines(text: str) -> str:
    """Return a text as a form sends it back."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
