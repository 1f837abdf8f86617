"""Changing a row in the person's editor, where nothing that anybody has typed is lost."""

import os
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.agents.calls import Record, RefusalError
from ralphgen.errors import ProjectError, RalphgenError, UsageError, plain
from ralphgen.spelling import toml_key, toml_value
from ralphgen.terminal.console import confirmed, say

if TYPE_CHECKING:
    from ralphgen.agents.edits import EditedProject, EditedRow, FieldClash

Schemas = Mapping[str, Mapping[str, Any]]
EMPTY: Mapping[str, Any] = {
    "array": [],
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
}


def edit_row(row: "EditedRow | EditedProject") -> Record:
    """Let the person edit the fields of a row; return the answer of the tool that writes them.

    Raises `RefusalError` for what the tool refuses, and for fields that somebody else has changed
    meanwhile; what was typed is in a file then, which the last line of the error names.
    """
    from ralphgen.agents.edits import ClashError

    (key,) = row.key.values()
    name = "-".join(["ralphgen", row.kind, "".join(filter(str.isalnum, str(key)))])
    descriptor, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".toml")
    untouched = as_toml(row.record, row.fields, f"{row.kind} {key}")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(untouched)
    file_path, refused = Path(path), ""
    while True:
        try:
            _open_editor(file_path, row.kind)
            text = file_path.read_text(encoding="utf-8")
            if text == refused:
                raise ProjectError("nothing was written: the file is as it was")
            answer = row.write(changed_fields(text, row.record, row.fields))
        except (RalphgenError, ValueError, OSError) as error:
            if isinstance(error, ClashError):
                refused = _with_other_versions(file_path, error.clashes)
            if _again(error):
                continue
            if _is_text(file_path, untouched):  # nothing was typed
                file_path.unlink()
                raise
            kept = f'your text is in "{file_path}"'
            raise RefusalError(plain(_said(error)), kept) from error
        file_path.unlink()
        return answer


def _with_other_versions(path: Path, clashes: "Sequence[FieldClash]") -> str:
    """Add what others have written to the end of a file that was typed; return its text then."""
    lines = [
        "",
        "# This row has changed meanwhile. Merge both versions above, or remove these lines",
        "# to write your version.",
    ]
    for clash in clashes:
        now = f"{toml_key(clash.name)} = {_spelled(clash.now)}" if _fits(clash.now) else ""
        said = now or f"{toml_key(clash.name)} is empty"
        lines += [f"# {line}".rstrip() for line in said.split("\n")]
    with path.open("a", encoding="utf-8") as file:  # and cuts nothing off where the disk is full
        file.write("\n".join(lines) + "\n")
    return path.read_text(encoding="utf-8")


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
        key = toml_key(name)
        if name in partial:
            lines.append(f"# {key} is too long or has another form; it is unchanged")
        elif name in record and _fits(record[name]):
            lines.append(f"{key} = {_spelled(record[name])}")
        else:
            lines.append(f"# {key} = {_spelled(EMPTY.get(str(rule.get('type')), ''))}")
    return "\n".join(lines) + "\n"


def changed_fields(text: str, record: Record, schemas: Schemas) -> Record:
    """Return the fields that a text changes, None for one that it empties.

    Raises `ValueError` where it is no TOML.
    """
    found = tomllib.loads(text)
    partial = _partial(record)
    shown = {name for name in schemas if name in record and name not in partial}
    changed = {name: value for name, value in found.items() if value != record.get(name)}
    emptied = {name: None for name in sorted(shown) if found.get(name, "") in ("", [])}
    return {**changed, **emptied}


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
    return toml_value(value)


def _means(block: str, value: str) -> bool:
    try:
        return bool(tomllib.loads(f"value = {block}")["value"] == value)
    except ValueError:
        return False


def _open_editor(path: Path, kind: str) -> None:
    """Wait until the person has left the editor; raises `ProjectError` where it fails."""
    from ralphgen.terminal.console import at_terminal

    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not at_terminal():
        raise UsageError(
            "no option was given, and there is no terminal for an editor",
            f'pass fields as options: see "ralphgen {kind} edit --help"',
        )
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
    from ralphgen.terminal.console import at_terminal

    if not at_terminal() or isinstance(error, (UsageError, ProjectError)):
        return False
    say(f"error: {plain(str(error))}")
    return confirmed("open it again?")
