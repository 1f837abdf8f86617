"""Prints results on standard output and messages on standard error."""

import json
import sys

from ralphgen.errors import Say


def say(line: str) -> None:
    """Print a line for people."""
    print(line, file=sys.stderr, flush=True)


def progress(quiet: bool) -> Say:
    """Return what takes lines of progress: nothing is printed where `quiet`."""
    return (lambda _line: None) if quiet else say


def print_json(value: object) -> None:
    """Print a result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
