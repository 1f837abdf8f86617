"""What is wrong with single texts and lists of an edit."""

import re
from collections.abc import Iterator, Sequence

from ralphgen.board.requests import FieldProblem
from ralphgen.project.toml import EXPECTED

UNKNOWN = "extra_forbidden"
MOST = 200
LONGEST = 32_000
HALF = re.compile("[\ud800-\udfff]")


def list_problems(field: str, items: Sequence[object]) -> Iterator[FieldProblem]:
    """Yield why a list has too many items."""
    if len(items) > MOST:
        text = f"{len(items):,} items: expected at most {MOST}"
        yield FieldProblem(field, text, "remove some")


def text_problems(field: str, text: str, longest: int = LONGEST) -> Iterator[FieldProblem]:
    """Yield why a text cannot be given to a process."""
    if "\0" in text:
        yield FieldProblem(field, "the text contains a NUL character", "remove it")
    elif len(text) > longest:
        found = f"the text has {len(text):,} characters, expected at most {longest:,}"
        yield FieldProblem(field, found, "shorten it, or put it into a file")
    elif HALF.search(text):
        yield FieldProblem(field, "the text contains half of a surrogate pair", "type it again")


def expected(kind: str) -> str:
    """Return a sentence on what a field should hold, given pydantic's error type."""
    sentences = {
        UNKNOWN: "unknown field",
        "int_type": "expected a number",
        "json_invalid": "the text is not valid JSON",
        "missing": "the field is missing",
        "tuple_type": "expected a list",
    }
    return sentences.get(kind) or f"expected {EXPECTED.get(kind, 'another value')}"
