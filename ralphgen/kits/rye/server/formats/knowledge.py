"""Reads knowledge: Markdown after metadata in YAML.

The metadata stand between two lines `---` at the top, or in a block of YAML between backticks that
only headings may stand before. They are given as a JSON object as they stand: `id` or `name`,
`title`, `version`, `entry_type`, `category`, `tags`, `author`, `created_at`, `references` and
whatever else is said; dates are ISO texts.
"""

from __future__ import annotations

import re

from .parsed import Parsed, tags_of, text_of
from .yaml_values import read_yaml

_BLOCK = re.compile(r"((?:#[^\n]*+\n|[ \t]*+\n)*+)```ya?ml[ \t]*+\n")
_OPENING = re.compile(r"\n*+---[ \t]*+\n")
_END = re.compile(r"^---[ \t]*+$", re.MULTILINE)
_BLOCK_END = re.compile(r"^```[ \t]*+$", re.MULTILINE)


def parse_knowledge(text: str, name: str) -> Parsed:
    """Return what knowledge says, from its text with plain line ends; `name` is for lists."""
    if opening := _OPENING.match(text):
        before, end = "", _END.search(text, opening.end())
    elif opening := _BLOCK.match(text):
        before, end = opening[1], _BLOCK_END.search(text, opening.end())
    else:
        why = 'there are no metadata: expected YAML between two lines "---" at the top'
        return Parsed({}, text, title=name, problems=(why,))
    if end is None:
        return Parsed({}, text, title=name, problems=("the metadata have no end",))
    lines = text.count("\n", 0, opening.end())
    metadata, problems = read_yaml(text[opening.end() : end.start()], lines)
    if not isinstance(metadata, dict):
        problems = problems or ["the metadata must be keys and values"]
        metadata = {}
    return Parsed(
        metadata,
        "\n\n".join(filter(None, (before.strip("\n"), text[end.end() :].strip("\n")))),
        title=text_of(metadata, "title") or name,
        description=text_of(metadata, "description"),
        tags=tags_of(metadata),
        problems=tuple(problems),
    )
