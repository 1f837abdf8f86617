"""Changing a row: by options, or in the person's editor, where nothing that was typed is lost."""

import json
import os
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.calls.rows import Record, RefusalError, RowTools
from ralphgen.cli.fields import Given, arguments_of
from ralphgen.errors import ProjectError, RalphgenError, UsageError, plain
from ralphgen.terminal.console import say
from ralphgen.terminal.person import confirmed

Schemas = Mapping[str, Mapping[str, Any]]
EMPTY: Mapping[str, Any] = {
    "array": [],
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
}
NOTHING: Record = {"changed": []}


def edit_row(tools: RowTools, kind: str, key: Record, given: Given) -> Record:
    """Change the given fields of a row, or let the person edit them; return the tool's answer.

    `key` is what names the row. Raises `RefusalError` for what the tool refuses; what was typed is
    in a file then, which the last line of the error names.
    """
    tool = f"update_{kind}"
    schemas = tools.properties(tool)
    if given or not schemas:  # without the tool, the server says why
        return tools.ask(tool, **key, **arguments_of(given, schemas))
    record = tools.ask(f"get_{kind}", **key)
    editable = {name: rule for name, rule in schemas.items() if name not in {*key, "clear"}}
    name = "-".join(
        ["ralphgen", kind, *("".join(filter(str.isalnum, str(v))) for v in key.values())]
    )
    descriptor, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".toml")
    text = as_toml(record, editable, f"{kind} {next(iter(key.values()))}")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    file_path = Path(path)
    while True:
        try:
            _open_editor(file_path)
            change = changed_fields(file_path.read_text(encoding="utf-8"), record, editable)
            answer = tools.ask(tool, **key, **change) if change else NOTHING
        except (RalphgenError, ValueError, OSError) as error:
            if _again(error):
                continue
            if _is_text(file_path, text):  # nothing was typed
                file_path.unlink()
                raise
            kept = f'what you typed is in "{file_path}"'
            raise RefusalError(plain(_said(error)), kept) from error
        file_path.unlink()
        return answer


def _said(error: Exception) -> str:
    """Return what is wrong, without hints."""
    if isinstance(error, RalphgenError):
        return "; ".join(problem.text for problem in error.problems)
    return str(error)


def _is_text(path: Path, text: str) -> bool:
    """Return whether a file holds a text."""
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def as_toml(record: Record, schemas: Schemas, title: str) -> str:
    """Return the fields of a row as TOML; empty ones are comments, ready to be filled in."""
    partial = _partial(record)
    lines = [
        f"# {plain(title)}: save and leave to write it. Without a change nothing is written.",
        "# A field that you remove, or make a comment of, is emptied.",
        "",
    ]
    for name, rule in schemas.items():
        key = name if name.isascii() and name.replace("_", "").isalnum() else json.dumps(name)
        if name in partial:
            lines.append(f"# {key} is too long or of another form, and stays as it is")
        elif name in record and _fits(record[name]):
            lines.append(f"{key} = {_spelled(record[name])}")
        else:
            lines.append(f"# {key} = {_spelled(EMPTY.get(str(rule.get('type')), ''))}")
    return "\n".join(lines) + "\n"


def changed_fields(text: str, record: Record, schemas: Schemas) -> Record:
    """Return the arguments that make a row what the text says; raises `ValueError` for no TOML."""
    found = tomllib.loads(text)
    partial = _partial(record)
    shown = {name for name in schemas if name in record and name not in partial}
    changed = {name: value for name, value in found.items() if value != record.get(name)}
    emptied = sorted(name for name in shown if found.get(name, "") in ("", []))
    kept = {name: value for name, value in changed.items() if name not in emptied}
    return {**kept, "clear": emptied} if emptied else kept


def _partial(record: Record) -> set[str]:
    """Return the fields that an answer does not hold as they are stored."""
    return {str(name).partition(".")[0] for name in record.get("cut", ())} | {
        *record.get("unreadable", ())
    }


def _fits(value: object) -> bool:
    """Return whether TOML can hold a value: it has no null."""
    if isinstance(value, list):
        return all(map(_fits, value))
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return value is not None


def _spelled(value: object) -> str:
    """Return a value as TOML: a text of several lines as it looks, all else on one line."""
    if isinstance(value, str) and "\n" in value:
        block = f'"""\n{value.replace(chr(92), chr(92) * 2)}"""'
        if '"""' not in value and not value.endswith('"') and _means(block, value):
            return block
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled_inline, value))}]"
    return _spelled_inline(value)


def _spelled_inline(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_spelled_inline(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled_inline, value))}]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def _means(block: str, value: str) -> bool:
    try:
        return bool(tomllib.loads(f"value = {block}")["value"] == value)
    except ValueError:
        return False


def _open_editor(path: Path) -> None:
    """Wait until the person has left the editor; raises `ProjectError` where it fails."""
    from ralphgen.terminal.person import at_terminal

    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not at_terminal():
        raise UsageError("there is no terminal to edit in", "name fields as options, see --help")
    command = [*shlex.split(named or "vi"), str(path)]
    try:
        done = subprocess.run(command, check=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'the editor "{command[0]}" cannot be started: {reason}') from error
    if done.returncode:
        raise ProjectError(f'the editor "{command[0]}" ended with exit code {done.returncode}')


def _again(error: Exception) -> bool:
    """Return whether the person wants to open the file again, with what was wrong before them."""
    from ralphgen.terminal.person import at_terminal

    if not at_terminal() or isinstance(error, (UsageError, ProjectError)):
        return False
    say(f"ralphgen: {plain(str(error))}")
    return confirmed("open it again?")
