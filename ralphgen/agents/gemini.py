"""Gemini CLI as an agent: its settings for one session, and its events."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ralphgen.agents.agent import (
    EDITING,
    Agent,
    AgentCall,
    AgentLine,
    Event,
    LaunchOptions,
    OutputReader,
    Usage,
    call_line,
    failure_line,
    harmless_lines,
    number,
    prompt_with_system,
    read_event,
    refuse_options,
    some,
)
from ralphgen.agents.process import session_servers, start_command
from ralphgen.errors import ProgramError, ProjectError
from ralphgen.files import WRITE_HINT
from ralphgen.project.root import database_place
from ralphgen.runtime.files import reason, write_new
from ralphgen.runtime.files.protection import CLIENT_FILES, CLIENT_FOLDERS, CLIENT_PARTS, GIT_PART
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import GEMINI_HOME, OURS_ALONE, remove_inner

GEMINI = "gemini"  # the program, looked for on PATH
HOME_VARIABLE = "GEMINI_CLI_HOME"
TRUSTED_VARIABLE = "GEMINI_CLI_TRUSTED_FOLDERS_PATH"
GEMINI_SETTINGS = "settings.json"
POLICY = "ralphgen.toml"
OWN = frozenset({GEMINI_SETTINGS, "tmp", "history", "projects.json"})  # not shared by the person
SUFFIX = "-session"  # an entry of the same name in the project's settings would win
UNTRUSTED, TURNS_USED = 55, 53  # exit codes
TRUST_HINT = 'to trust it, start "gemini" in it once'
GEMINI_BUSY = re.compile(
    r"\b(429|503|529)\b|RESOURCE_EXHAUSTED|quota|rate.limit|overloaded", re.IGNORECASE
)
# Files from which a client takes permissions, programs and servers, as a regular expression.
FOREIGN_SETTINGS = "|".join(
    (
        r"\.claude/(?!skills/|worktrees/|CLAUDE)",
        *(f"{re.escape(name)}/" for name in sorted(CLIENT_FOLDERS - {".claude"})),
        *(f'{re.escape(name)}"' for name in sorted(CLIENT_FILES)),
        *(
            f'{re.escape(f"{folder}/{name}")}["/]'
            for folder, names in CLIENT_PARTS.items()
            for name in sorted(names)
        ),
    )
)
# Rules of its policy engine. Work trees lie in `.ralph` too, and in each of them another `.ralph`.
RULES = rf"""[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"[^"]*\.ralph/(?!worktrees/)'
decision = "deny"
priority = 999
denyMessage = "only the servers may change files in .ralph"

[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"(?:[^"]*[/\\])?(?:{GIT_PART}|[gG][iI][tT]~\d+)[/\\":]'
decision = "deny"
priority = 999
denyMessage = "the files of a repository are changed by git alone"

[[rule]]
toolName = ["write_file", "replace"]
argsPattern = '"file_path":"([^"]*/)?({FOREIGN_SETTINGS})'
decision = "deny"
priority = 999
denyMessage = "clients take permissions from this file"
"""


class GeminiCli(Agent):
    """Gemini CLI, the program `gemini` on PATH."""

    name = GEMINI
    title = "Gemini CLI"
    install = 'install it, for example with "npm install -g @google/gemini-cli"'
    lacks = (
        "Gemini CLI ignores the rules of [launch]: without a terminal it runs no commands",
        "Gemini CLI has a fixed system prompt: the role is added to its first prompt",
        "Gemini CLI reports neither its servers nor its cost",
    )
    variables = ("GEMINI_*", "GOOGLE_*")

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it, with a home of its own; it reads the prompt where it prints."""
        refuse_options(options)
        home = session.folder / GEMINI_HOME
        person = Path(os.environ.get(HOME_VARIABLE) or Path.home()) / ".gemini"
        settings = _settings(session, options, person)
        remove_inner(session.folder, GEMINI_HOME)
        try:
            folder = home / ".gemini"
            folder.mkdir(mode=0o700, parents=True)
            for path in sorted(person.iterdir()) if person.is_dir() else ():
                if path.name not in OWN:
                    (folder / path.name).symlink_to(path)
            write_new(
                str(folder / GEMINI_SETTINGS),
                json.dumps(settings, indent=2).encode(),
                mode=OURS_ALONE,
            )
            write_new(str(folder / POLICY), RULES.encode(), mode=OURS_ALONE)
        except OSError as error:
            text = f'"{home}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error
        trusted = os.environ.get(TRUSTED_VARIABLE) or str(person / "trustedFolders.json")
        variables = {HOME_VARIABLE: str(home), TRUSTED_VARIABLE: trusted}
        command = [GEMINI, "--allowed-mcp-server-names", ",".join(settings["mcp"]["allowed"])]
        command += ["--policy", str(home / ".gemini" / POLICY)]
        if session.profile in EDITING:
            command += ["--approval-mode", "auto_edit"]
        command += some("--model", options.model or session.model)
        prompt = prompt_with_system(session, options.prompt)
        if not options.printing:
            command += [*options.passed_through, *some("--prompt-interactive", prompt)]
            return AgentCall(tuple(command), "", variables)
        command += ["--output-format", "stream-json", *options.passed_through]
        return AgentCall(tuple(command), prompt, variables)

    def reader(self, _session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return GeminiReader()

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Its home, where it has kept the conversation too."""
        return (GEMINI_HOME,)


class GeminiReader(OutputReader):
    """What the events of Gemini CLI have shown."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, str] = {}
        self._went_on = False
        self._begun = ""  # what the model says, until the end of a line

    def take(self, line: str) -> AgentLine | None:
        """Return what a line is; None where it is no event."""
        event = read_event(line)
        if event is None:
            return None
        match event.get("type"):
            case "init":
                self.started = True
                self.model = str(event.get("model") or "")
            case "error":
                self.rate_limited = GEMINI_BUSY.search(str(event.get("message"))) is not None
            case "tool_result" | "message" if event.get("role") != "user":
                self.rate_limited, self._went_on = False, True
            case "result":
                self._end(event)
        tool = str(event.get("tool_name")) if event.get("type") == "tool_use" else ""
        return AgentLine(line, tuple(harmless_lines(self._texts(event))), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Take its exit code, which says of some failures what they were."""
        self.out_of_budget = code == TURNS_USED
        if code == UNTRUSTED:
            self.refusal = lambda: ProjectError(
                "Gemini CLI does not trust this directory", TRUST_HINT
            )
        elif code is None:
            self.rate_limited = not self._went_on and GEMINI_BUSY.search(complaint) is not None
        elif code and not self.out_of_budget:
            self.rate_limited = self.rate_limited or GEMINI_BUSY.search(complaint) is not None

    def _end(self, event: Event) -> None:
        stats, error = event.get("stats"), event.get("error")
        counts = stats if isinstance(stats, dict) else {}
        self.ended = True
        self.is_error = event.get("status") != "success"
        self.rate_limited = self.is_error and GEMINI_BUSY.search(_gemini_message(error)) is not None
        models = counts.get("models")
        self.model = ", ".join(models) if isinstance(models, dict) and models else self.model
        self.usage = Usage(
            tokens_in=number(counts.get("input_tokens")),
            tokens_out=number(counts.get("output_tokens")),
        )

    def _texts(self, event: Event) -> Iterator[str]:
        """Yield what an event says to a person; whatever it does not know, it leaves out."""
        if event.get("type") == "message" and event.get("role") == "assistant":
            self._begun += str(event.get("content") or "")
            *whole, self._begun = self._begun.split("\n")
            yield from filter(str.strip, whole)
            return
        begun, self._begun = self._begun, ""
        if begun.strip():
            yield begun
        match event:
            case {"type": "init", "model": model}:
                yield f"session with {model}"
            case {"type": "tool_use", "tool_name": str(name)}:
                self._calls[str(event.get("tool_id"))] = name
                yield call_line(name, event.get("parameters"))
            case {"type": "tool_result", "status": "error"}:
                name = self._calls.get(str(event.get("tool_id")), "a tool")
                yield failure_line(
                    name, str(event.get("output") or _gemini_message(event.get("error")))
                )
            case {"type": "error"}:
                yield f"failed: {event.get('message')}"
            case {"type": "result", "status": status}:
                yield f"ended: {status}"


def _settings(session: PreparedSession, options: LaunchOptions, person: Path) -> dict[str, Any]:
    """Return the person's settings with the servers of the session in the place of theirs."""
    ours = {served.kit: list(served.names) for served in session.served}
    servers: dict[str, Any] = {}
    place = database_place(session.root)
    for name, entry in session_servers(session).items():
        own = dict(entry)
        if name in ours:
            own["includeTools"] = ours[name]
            if place is not None:
                own["env"] = {place.dsn_env: f"${place.dsn_env}"}  # it passes on what is named
        elif "command" in entry:
            own["command"], *own["args"] = start_command(session, name)
            own.pop("env", None)
        servers[f"{name}{SUFFIX}"] = {**own, "trust": True}
    found = _person_settings(person / GEMINI_SETTINGS)
    model = found.get("model")
    turns = {} if options.max_turns is None else {"maxSessionTurns": options.max_turns}
    return {
        **found,
        "mcpServers": servers,
        "mcp": {"allowed": list(servers)},
        "model": {**(model if isinstance(model, dict) else {}), **turns},
    }


def _person_settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ProjectError(f'"{path}" cannot be read', "check its permissions") from error
    found = read_event(text)
    if found is None:
        raise ProjectError(
            f'"{path}" cannot be read: it is not a JSON object', "remove its comments"
        )
    return dict(found)


def _gemini_message(error: object) -> str:
    return str(error.get("message")) if isinstance(error, dict) else ""
