"""Finds the references to inputs in what a directive says."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .parsed import Parsed

# What of a directive its inputs are put into; not into its templates, which are not to be read.
FILLED = ("preamble", "steps", "process", "elements", "body")
_NAME = "[A-Za-z_][A-Za-z0-9_-]*"
# `{input:k}`, `{input:k?}`, `{input:k:default}`, `{input:k|default}`, `${inputs.k}`
REFERENCE = re.compile(
    rf"\{{input:(?P<name>{_NAME})(?:(?P<optional>\?)|[:|](?P<default>[^{{}}]*))?\}}"
    rf"|\$\{{inputs\.(?P<other>{_NAME})\}}"
)


def filled_parts(parsed: Parsed) -> dict[str, Any]:
    """The parts of a directive that its inputs are put into."""
    parts = {**parsed.metadata, "body": parsed.body}
    return {name: parts[name] for name in FILLED if name in parts}


def named_inputs(value: Any) -> Iterator[str]:
    """The names of the inputs that the texts of a JSON value refer to, each time they do."""
    if isinstance(value, str):
        for found in REFERENCE.finditer(value):
            yield found["name"] or found["other"]
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from named_inputs(inner)
