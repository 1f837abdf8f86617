"""The agents that can be launched: built-in ones, and those of the settings."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping

from ralphgen.agents.agent import (
    Agent,
    AgentCall,
    AgentLine,
    LaunchOptions,
    OutputReader,
    Usage,
    amount,
    number,
    prompt_with_system,
    read_event,
    refuse_options,
)
from ralphgen.agents.claude import ClaudeCode
from ralphgen.agents.codex import Codex
from ralphgen.agents.gemini import GeminiCli
from ralphgen.errors import ProgramError, UsageError, harmless
from ralphgen.files import WRITE_HINT
from ralphgen.project.config import AgentSettings, Config
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import reason, write_new
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import OURS_ALONE, PROMPT, SYSTEM
from ralphgen.suggestion import suggestion

CONFIG, PROMPT_FILE, SYSTEM_FILE = "{config}", "{prompt_file}", "{system_file}"
USAGE_KEYS = frozenset({"turns", "cost_usd", "input_tokens", "output_tokens"})
TRY_LATER = 75  # the exit code of a program that could not do its work for now: EX_TEMPFAIL


class NamedAgent(Agent):
    """A program that is started without a shell, with paths in the places of its arguments."""

    converses = False

    def __init__(self, name: str, settings: AgentSettings) -> None:
        """Take its name and its settings."""
        self.name = name
        self.title = f'the agent "{name}"'
        self.install = f'see "command" of [loop.agents.{name}]'
        self.reports_cost = settings.reports_cost
        self._command = tuple(settings.command)
        self.script = "".join(self._command[1:2])
        self.lacks = tuple(_lacks(name, settings.command))

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it; the brief is in files of the session's folder."""
        refuse_options(options)
        for option, given in (("model", options.model), ("max-turns", options.max_turns)):
            if given:
                text = f'{self.title} does not support "--{option}"'
                raise UsageError(text, f"remove it, or add it to the command ({self.install})")
        has_system = any(SYSTEM_FILE in word for word in self._command)
        prompt = options.prompt if has_system else prompt_with_system(session, options.prompt)
        paths = {
            CONFIG: session.mcp_config,
            PROMPT_FILE: session.folder / PROMPT,
            SYSTEM_FILE: session.folder / SYSTEM,
        }
        try:
            write_new(str(paths[PROMPT_FILE]), _encoded(prompt), mode=OURS_ALONE)
            if session.system_file is None:  # a session whose servers say nothing of it
                write_new(str(paths[SYSTEM_FILE]), b"", mode=OURS_ALONE)
        except OSError as error:
            text = f'"{error.filename}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error
        named = {place: str(path) for place, path in paths.items()}
        return AgentCall((*_filled(self._command, named), *options.passed_through))

    @property
    def program(self) -> str:
        """The program that its command starts with."""
        return self._command[0]

    def reader(self, _session: PreparedSession | None) -> OutputReader:
        """Return what reads its output."""
        return NamedReader()


class NamedReader(OutputReader):
    """What an unknown program has written: lines, of which the last may say what it has used."""

    def __init__(self) -> None:
        super().__init__()
        self.started = True  # it never says which servers it has

    def take(self, line: str) -> AgentLine | None:
        """Return the line; one that is no JSON object is wrapped in one for the record."""
        event = read_event(line)
        if line.strip():
            self.usage = Usage()
        if event is not None and USAGE_KEYS & event.keys():
            self.usage = Usage(
                turns=number(event.get("turns")),
                tokens_in=number(event.get("input_tokens")),
                tokens_out=number(event.get("output_tokens")),
                cost=amount(event.get("cost_usd")),
            )
        record = line if event is not None else json.dumps({"type": "text", "text": line})
        return AgentLine(record, (harmless(line),))

    def close(self, code: int | None, _complaint: str) -> None:
        """Take its exit code, which may say that its model does not answer for now."""
        self.rate_limited = code == TRY_LATER


def _lacks(name: str, command: list[str]) -> Iterator[str]:
    """Yield one sentence if the command of an agent does not take the config or the prompt."""
    files = {CONFIG: "no MCP config", PROMPT_FILE: "no prompt"}
    missing = [files[place] for place in files if not any(place in word for word in command)]
    if missing:
        yield f'agent "{name}" gets {" and ".join(missing)}; it must use "ralphgen call"'


def _filled(command: tuple[str, ...], paths: Mapping[str, str]) -> list[str]:
    """Return the command with the paths in their places, each replaced once."""
    places = re.compile("|".join(map(re.escape, paths)))
    return [places.sub(lambda found: paths[found[0]], word) for word in command]


def _encoded(prompt: str) -> bytes:
    return f"{prompt}\n".encode("utf-8", "surrogateescape")


KNOWN: dict[str, type[Agent]] = {one.name: one for one in (ClaudeCode, Codex, GeminiCli)}


def agents_here(config: Config) -> tuple[Agent, ...]:
    """Return the agents whose programs are on this machine, those of the settings last."""
    found = [find_agent(name, config) for name in (*KNOWN, *config.loop.agents)]
    return tuple({one.name: one for one in found if shutil.which(one.program)}.values())


def find_agent(name: str, config: Config) -> Agent:
    """Return the agent of this name; raises `UsageError` where there is none."""
    if name in KNOWN:
        return KNOWN[name]()
    named = config.loop.agents
    if name in named:
        return NamedAgent(name, named[name])
    hint = suggestion(name, (*KNOWN, *named), "the agents")
    raise UsageError(
        f'there is no agent "{one_line(name)}"', f"{hint}; add others in [loop.agents]"
    )
