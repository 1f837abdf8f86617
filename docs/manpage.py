"""Prints the man page, made of the commands and of the exit codes in `docs/exit-codes.md`.

`docs/ralphgen.1` is what it prints; wheels bring that file, and a test holds it.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ralphgen import __version__
from ralphgen.cli.commands import load
from ralphgen.terminal.console import COMMANDS, HIDDEN

CODES = re.compile(r"(?m)^## (Exit codes[^\n]*)\n(.*?)(?=^## |^See also|\Z)", re.DOTALL)
HEAD = r""".\" Made by docs/manpage.py from the commands: change those, not this.
.TH RALPHGEN 1 "" "ralphgen {version}" "User Commands"
.SH NAME
ralphgen \- generate MCP servers from a project's schema
.SH SYNOPSIS
.B ralphgen
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
ralphgen reads a project's database schema, its disciplines (agent roles) and its
recipes (kinds of session), and generates a server of the Model Context Protocol in
.IR .ralph/mcp .
Agents get tools for the project's tasks, features and knowledge. Each session sees
only the tools of its recipe.
.PP
.B ralphgen init
sets up a project.
.SH COMMANDS"""
FILES = {
    ".ralph/ralphgen.toml": "The project's settings.",
    ".ralph/db/ralph.db": "The project's SQLite database.",
    ".ralph/mcp/": "The generated server and its sessions.",
    ".ralph/recipes/, prompts/, queries/, tools/": "The project's recipes, prompts, SQL queries and"
    " custom tools.",
}
ENVIRONMENT = {
    "RALPH_DSN": "This variable contains the DSN of the project's PostgreSQL database. [database]"
    " dsn_env can name another variable.",
    "RALPH_DATABASE": "This absolute path of the database replaces [database] path.",
    "RALPH_ADMIN_DSN": "session create --login creates logins with this DSN. Its user needs the"
    " permission to create roles.",
    "RALPH_KEY": "This key signs the tokens of HTTP sessions. [http] key_env can name another"
    " variable.",
    "RALPHGEN_HOME": "ralphgen keeps the environments of servers in this directory instead of the"
    " user's cache.",
    "RALPHGEN_PYTHON": "Servers run on the Python at this absolute path instead of the one that"
    " ralphgen was installed with.",
    "RALPHGEN_TRACEBACK": "If this variable is set, internal errors include a traceback.",
    "VISUAL, EDITOR": "project edit, task edit, feature edit and discipline edit open this editor.",
}
OPTIONS = {
    "--version": "Print the version.",
    "--help": "Print the commands; after a command, print its arguments and options.",
    "--install-completion": "Install completion of commands, ids and names for the current shell.",
    "--show-completion": "Print the script that --install-completion installs.",
}


def page() -> str:
    """Return the man page as roff, of which a line that begins with a dot is an order."""
    lines = [HEAD.format(version=__version__)]
    listed = {name: load(name) for name in COMMANDS if name not in HIDDEN}
    for name, command in _commands(listed, "ralphgen"):
        lines += _described(name, command)
    lines += _tagged("OPTIONS", OPTIONS, "B")
    lines += _tagged("FILES", FILES, "I")
    lines += _tagged("ENVIRONMENT", ENVIRONMENT, "B")
    text = Path(__file__).with_name("exit-codes.md").read_text(encoding="utf-8")
    for title, section in CODES.findall(text):
        lines += _codes(title, section)
    return "\n".join([*lines, ""])


def _commands(commands: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield every command that can be run, with its whole name, by name."""
    for name, command in sorted(commands.items()):
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield f"{path} {name}", command
            yield from _commands(command.commands, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def _described(name: str, command: Any) -> Iterator[str]:
    """Yield the lines of a command: how it is called, what it does, its arguments and options."""
    shown = [one for one in command.params if not one.hidden]
    yield f'.SS "{_text(name)}"'
    arguments = [_argument(one) for one in shown if _is_argument(one)]
    yield rf"\fB{_text(name)}\fR {_text(' '.join(['[OPTIONS]', *arguments]))}"
    for paragraph in command.help.split("\n\n"):
        yield f".PP\n{_line(paragraph)}"
    for one in shown:
        yield f".TP\n{_named(one, _choices(command, one))}\n{_line(one.help + _default(one))}"
    if command.epilog:
        yield f".PP\nExample: \\fB{_text(command.epilog)}\\fR"


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _argument(parameter: Any) -> str:
    """Return an argument as the line of usage has it: in brackets where it may be left out."""
    shown = parameter.metavar or parameter.name.upper()
    return shown if parameter.required or shown.startswith("[") else f"[{shown}]"


def _named(parameter: Any, choices: str) -> str:
    """Return how a parameter is written, options with the value that they take."""
    if _is_argument(parameter):
        return rf"\fI{_text(choices or parameter.metavar or parameter.name.upper())}\fR"
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in sorted(parameter.opts, key=len))
    if parameter.is_flag:
        return names
    return rf"{names} \fI{_text(choices or parameter.metavar or parameter.name.upper())}\fR"


def _default(parameter: Any) -> str:
    """Return the value that counts where none is given, in brackets; empty where none does."""
    value = getattr(parameter.default, "value", parameter.default)
    shown = isinstance(value, str | int) and not isinstance(value, bool) and value
    return f" [default: {value}]" if shown else ""


def _choices(command: Any, parameter: Any) -> str:
    """Return the values that a parameter can have, with a bar between; empty where it has any."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    hint = hints.get(parameter.name)
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return "|".join(str(one.value) for one in kind)
    return ""


def _tagged(title: str, words: dict[str, str], font: str) -> list[str]:
    lines = (f".TP\n.{font} {_text(name)}\n{_line(text)}" for name, text in words.items())
    return [f".SH {title}", *lines]


def _codes(title: str, section: str) -> Iterator[str]:
    """Yield a section of exit codes: its paragraph, and the rows of its table."""
    plain = re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", section)
    if "loop" in title or "launch" in title:
        yield f'.SS "{_text(title.replace("`", ""))}"'
    else:
        yield ".SH EXIT STATUS"
    for line in plain.strip().splitlines():
        if line.startswith("| ") and not line.startswith("| exit code"):
            codes, words = line.strip("| ").split(" | ")
            yield f".TP\n.B {_text(codes)}\n{_line(words)}"
        elif not line.startswith("|"):
            yield _line(line)


def _line(text: str) -> str:
    """Return words as one line of text, which no dot or quote at its start makes an order."""
    shown = _text(" ".join(text.split()))
    return rf"\&{shown}" if shown.startswith((".", "'")) else shown


def _text(text: str) -> str:
    """Return words of which nothing is an order: backslashes, hyphens, marks."""
    return (
        text.replace("\\", r"\e")
        .replace("-", r"\-")
        .replace("'", r"\(aq")
        .replace('"', r"\(dq")
        .replace("^", r"\(ha")
        .replace("~", r"\(ti")
    )


if __name__ == "__main__":
    print(page(), end="")
