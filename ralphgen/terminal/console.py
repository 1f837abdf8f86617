"""Prints results, messages and crashes; asks the user; lists the commands.

Escapes text that could steer the terminal.
"""

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import get_terminal_size, which
from types import TracebackType
from typing import IO, Any, NamedTuple, TextIO, cast

from ralphgen.errors import Say, UsageError, harmless


class CommandEntry(NamedTuple):
    """A command: its summary in lists, and the module whose `app` has it."""

    summary: str
    module: str


PANELS = {
    "Get started": {
        "init": CommandEntry("Set up a project.", "ralphgen.cli.project"),
        "connect": CommandEntry(
            "Add the project's servers to Claude Code, Codex, Cursor, …", "ralphgen.cli.connect"
        ),
        "doctor": CommandEntry(
            "Find problems in the setup and explain how to fix them.", "ralphgen.cli.project"
        ),
        "status": CommandEntry(
            "Summarize tasks, blocked work, branches and the last loop.", "ralphgen.cli.project"
        ),
    },
    "Plan": {
        "task": CommandEntry("Add, list, edit and close tasks.", "ralphgen.cli.tasks"),
        "feature": CommandEntry("Add, list and edit features.", "ralphgen.cli.tasks"),
        "discipline": CommandEntry("List and edit agent roles.", "ralphgen.cli.tasks"),
        "project": CommandEntry(
            "Show and edit the project's title and description.", "ralphgen.cli.project"
        ),
        "import": CommandEntry(
            "Import tasks: exports, beads, task-master, Backlog.md, …", "ralphgen.cli.exchange"
        ),
        "export": CommandEntry("Export all visible rows as JSON Lines.", "ralphgen.cli.exchange"),
        "sync": CommandEntry(
            "Merge tasks with other clones, on a branch of git.", "ralphgen.cli.exchange"
        ),
    },
    "Run agents": {
        "loop": CommandEntry("Run agents on ready tasks until none are left.", "ralphgen.cli.loop"),
        "launch": CommandEntry("Run one agent session.", "ralphgen.cli.sessions"),
        "session": CommandEntry(
            "Create, list and end sessions for other MCP clients.", "ralphgen.cli.sessions"
        ),
        "worker": CommandEntry(
            "Let other machines take tasks without the database.", "ralphgen.cli.server_commands"
        ),
        "trust": CommandEntry(
            "Review and approve the commands a project runs.", "ralphgen.cli.trust"
        ),
    },
    "Review": {
        "log": CommandEntry("Show every change, with old and new values.", "ralphgen.cli.history"),
        "undo": CommandEntry("Undo the changes of a session.", "ralphgen.cli.history"),
        "merges": CommandEntry(
            "List work that waits to be merged, and the run in progress.", "ralphgen.cli.merges"
        ),
        "gate": CommandEntry("Prove the current files, for any loop or CI.", "ralphgen.cli.gate"),
        "notify": CommandEntry("Send a line of text to your phone or chat.", "ralphgen.cli.loop"),
        "board": CommandEntry(
            "Open the project board in a browser.", "ralphgen.cli.server_commands"
        ),
    },
    "Maintain": {
        "regen": CommandEntry(
            "Regenerate the server after a migration or settings change.", "ralphgen.cli.project"
        ),
        "check": CommandEntry(
            "Exit with 1 if the generated server is out of date (for CI).", "ralphgen.cli.project"
        ),
        "upgrade": CommandEntry(
            "Upgrade a project to this version of ralphgen.", "ralphgen.cli.project"
        ),
        "db": CommandEntry("Back up, tune and prune the database.", "ralphgen.cli.history"),
    },
    "Advanced": {
        "tools": CommandEntry(
            "Show, compare and add the tools of each recipe.", "ralphgen.cli.tools"
        ),
        "call": CommandEntry("Call one tool and print its result.", "ralphgen.cli.server_commands"),
        "serve": CommandEntry(
            "Run the MCP server over stdio or HTTP.", "ralphgen.cli.server_commands"
        ),
        "dela": CommandEntry(
            "Choose the project commands agents may run.", "ralphgen.kits.dela.commands"
        ),
    },
}
HIDDEN = {
    "inspect": CommandEntry(
        "Show the facts that decide the generated server.", "ralphgen.cli.project"
    ),
    "schema": CommandEntry("Print the JSON Schema of a settings file.", "ralphgen.cli.project"),
}
COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()} | HIDDEN
RENAMED = {
    "agents": "connect claude --subagents",
    "allow": "dela allow",
    "backup": "db backup",
    "brief": "session brief",
    "config": "connect",
    "deny": "dela deny",
    "ledger": "db ledger",
    "plugin": "connect claude --plugin",
    "policy": "tools diff",
    "report": "board --export",
    "skill": "connect claude --skills",
    "sql": "db indexes",
    "session braindump": "session create braindump",
    "session discuss": "session create discuss",
    "session enrichment": "session create enrichment",
    "session interactive": "session create interactive",
    "session manual": "session create manual",
    "session opus_review": "session create opus_review",
    "session ramble": "session create ramble",
    "session task_execution": "session create task_execution",
    "session yap": "session create yap",
    "tables": "tools add",
}
OVERVIEW = """\
ralphgen generates an MCP server from your project's schema and runs agents on its tasks.

Start a project     init · connect · doctor · status
Plan work           task · feature · discipline
Run agents          launch · loop · trust
Review              log · undo · board
Stay current        regen · check

Try: ralphgen init
All commands: ralphgen --help    Help on one: ralphgen COMMAND --help
"""


VARIABLE = "RALPHGEN_TRACEBACK"
NAME = "ralphgen"
OTHERS = "claude|git|npm|openssl|pg_dump|pipx?"  # programs of other commands
NARROWEST = 40  # columns
# Control characters except tab and line end, marks of direction, line separators and surrogates.
_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Return text with each character that could steer a terminal as `\uNNNN`.

    A string of JSON or TOML with such a character keeps its value.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


class HarmlessStream:
    """A standard stream that escapes everything that is written to it.

    It has no `buffer`, since bytes would get past it. Consoles of rich, which write sequences for
    colours, take the stream below by the name `rich_proxied_file`.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream of the process."""
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text, escaped; return how many characters it had."""
        self.rich_proxied_file.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.rich_proxied_file, name)


def guard_streams() -> None:
    """Let no output of this process steer a terminal."""
    for name in ("stdout", "stderr"):
        stream: IO[str] | None = getattr(sys, name)
        if stream is not None and not isinstance(stream, HarmlessStream):
            vars(sys)[name] = HarmlessStream(cast("TextIO", stream))


@cache
def _program(typed: str) -> str:
    """Return the program as a shell finds it: as it was typed, or its name if it is on PATH.

    An absolute path counts as found if PATH has any: a shim may have started the program.
    """
    program, found = Path(typed), which(NAME)
    is_module = program.parts[-2:] == (NAME, "__main__.py")
    if typed == program.name or not (is_module or NAME in program.name) or not program.exists():
        return NAME
    if found and (program.is_absolute() or program.samefile(found)):
        return NAME
    return shlex.join([sys.executable, "-m", NAME] if is_module else [typed])


@cache
def _commands() -> re.Pattern[str]:
    """Return the pattern of the name of the program in front of a command or an option."""
    names = "|".join(f"(?<!a {NAME} ){name}" for name in COMMANDS)  # "a ralphgen project"
    return re.compile(rf"(?<![\w./-]){NAME}(?= (?:--|(?:{names})\b))")


def as_typed(text: str) -> str:
    """Return text with the program's name in commands replaced by the name that the user typed."""
    program = _program(sys.argv[0])
    return text if program == NAME else _commands().sub(lambda _: program, text)


def fitted(text: str, stream: int, indent: int = 0) -> str:
    """Return text as printed on standard output (1) or error (2): see `as_typed`.

    Lines are wrapped to the width of a terminal, with an indent of `indent` characters. A command
    is never wrapped, so that it can be pasted, and neither is an indented line.
    """
    text = as_typed(harmless(text))
    width = max(NARROWEST, get_terminal_size().columns)
    if not os.isatty(stream) or all(len(line) <= width for line in text.split("\n")):
        return text
    programs = "|".join(map(re.escape, dict.fromkeys((NAME, _program(sys.argv[0])))))
    command = rf"(?:(?<=: )|^)(?:{programs}) .*|(?<=^start: ).*"
    words = rf'(?:"(?:{programs}|{OTHERS}) [^"]*"|\S)+'
    parts = re.compile(f"{command}|{words}")
    of_hints = re.compile(rf"{command}|(?<=: )(?:{OTHERS}) .*|{words}")
    lines = []
    for line in text.split("\n"):
        if len(line) <= width or (line[:1] == " " and not indent):
            lines.append(line)
            continue
        lines.append(line[:indent])
        pattern = of_hints if line.startswith("hint: ") else parts
        for at, part in enumerate(one[0] for one in pattern.finditer(line, indent)):
            if at and len(lines[-1]) + len(part) >= width:
                lines.append(" " * (indent or 2))
            lines[-1] += f"{' ' * bool(lines[-1][indent:].strip())}{part}"
    return "\n".join(lines)


def say(line: str) -> None:
    """Print a line for people, which steers no terminal, whatever names it holds."""
    print(fitted(line, 2), file=sys.stderr, flush=True)


def print_result(line: str, indent: int = 0) -> None:
    """Print a line of a result for people, as `fitted`."""
    print(fitted(line, 1, indent))


def progress(quiet: bool) -> Say:
    """Return what takes lines of progress: nothing is printed where `quiet`."""
    return (lambda _line: None) if quiet else say


def print_json(value: object) -> None:
    """Print a result for programs, escaped so that it cannot steer a terminal."""
    print(escaped(json.dumps(value, indent=2, ensure_ascii=False)))


def drop_output() -> None:
    """Let nothing that is printed from now on reach anybody, nor fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def show_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an unexpected exception as a sentence, with `VARIABLE` as a traceback.

    Prints nothing about a broken pipe: the reader of the output, such as `head`, has ended.
    """
    if isinstance(error, BrokenPipeError):
        return
    if os.environ.get(VARIABLE):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(f"error: {_sentence(kind, error, trace)}\n")


def _sentence(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped; run the command again to continue"
    if isinstance(error, OSError) and error.strerror:
        named = f'"{error.filename}": ' if error.filename else ""
        return f"{named}{error.strerror.lower()}"
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {_module(trace)}:{trace.tb_lineno}" if trace else ""
    hint = f"this is a bug; please report it with the traceback ({VARIABLE}=1)"
    return f"internal error: {kind.__name__}: {error}{where}\nhint: {hint}"


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", "?"))


def confirmed(question: str) -> bool:
    """Return whether the user answers yes; input typed before the question is discarded."""
    with suppress(ImportError):  # there is none on Windows
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
    print(f"{fitted(question, 2)} y/N ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def at_terminal() -> bool:
    """Return whether the user can be asked: standard input and error are a terminal."""
    return os.isatty(0) and os.isatty(2)


def agrees(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees, either in the terminal or with `--yes`.

    Raises `UsageError` if there is no terminal to ask in.
    """
    if not yes and not at_terminal():
        raise UsageError(
            f'confirmation needed, but there is no terminal: "{question}"', "pass --yes"
        )
    return yes or confirmed(question)


def refuse_agents(command: str) -> None:
    """Raise `UsageError` below `ralphgen launch`: an agent does not decide what it may do."""
    from ralphgen.runtime.system import is_below_launch

    if is_below_launch():
        raise UsageError(
            f'"ralphgen {command}" is not for agents: this shell belongs to a session that '
            '"ralphgen launch" has started',
            "run it in your own terminal",
        )


def refuse_writes_of_agents(command: str, folder: Path) -> None:
    """Raise `UsageError` below `ralphgen launch`, and in a worktree that an agent can write.

    For commands that write settings or generated files: no session may change them in any tree.
    """
    from ralphgen.runtime.files.main_tree import is_agents_tree

    refuse_agents(command)
    if is_agents_tree(str(folder)):
        raise UsageError(
            f'"ralphgen {command}" writes settings or generated files, and "{folder.resolve()}" is '
            "a worktree of an agent",
            "run it in a checkout of yours",
        )
