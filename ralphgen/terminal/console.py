"""What the command line says: results on standard output, words on standard error."""

import json
import sys

from ralphgen.errors import Say


def say(line: str) -> None:
    """A line for people."""
    print(line, file=sys.stderr, flush=True)


def progress(quiet: bool) -> Say:
    """Takes lines on how a command gets on."""
    return (lambda _line: None) if quiet else say


def print_json(value: object) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
