"""Agents as `launch` sees them: their names, their start commands, and their output."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ralphgen.errors import RalphgenError, UsageError, harmless
from ralphgen.runtime.values import shortened
from ralphgen.sessions import claims
from ralphgen.sessions.claims import ASKED
from ralphgen.sessions.model import PreparedSession

DONE, BLOCKED = "done", "blocked"
CLOSED = {DONE: 0, BLOCKED: 3, ASKED: 3, "skipped": 3}  # statuses of a task, with their exit codes
STOPPED, CLAIM_LOST, OUT_OF_TIME = "stopped", "claim lost", "out of time"
CLOSING_TOOL = "set_task_status"
REVIEW = "opus_review"  # may open a task again, which is its work and no failure
CLAIMED_CODE, OPEN_CODE, FAILED_CODE, SPENT_CODE = 4, 5, 6, 7
BY_SIGNAL = 128  # plus its number, as a shell has it


@dataclass(frozen=True, slots=True)
class Usage:
    """An agent's reported usage; `cost` is in US dollars."""

    turns: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None


NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class Limit:
    """A usage limit that an agent reached: its name, and when it resets.

    The name is empty if the agent gives none. `resets_at` is in seconds since 1970, or None if the
    agent gives no time.
    """

    window: str = ""
    resets_at: float | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """The end of an agent's run.

    `code` is its exit code, negative for a signal. `by_person` is the signal that the user sent, or
    0. `out_of_time` means that its time limit stopped it, `claim_lost` that its session lost the
    task, `silent` that it did not list its servers. The agent itself reports `out_of_budget` (turns
    or money), `rate_limited` with its `limit`, why it is `unavailable` (such as a missing login),
    any other failure as `is_error`, and its `model`. Texts are empty if unknown.
    """

    code: int = 0
    by_person: int = 0
    out_of_time: bool = False
    claim_lost: bool = False
    silent: bool = False
    out_of_budget: bool = False
    rate_limited: bool = False
    limit: Limit = NO_LIMIT
    unavailable: str = ""
    is_error: bool = False
    model: str = ""
    usage: Usage = NOTHING_USED

    @property
    def failed(self) -> bool:
        """Whether it ended with a failure."""
        return bool(self.code or self.silent or self.is_error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A session's recorded outcome, in one to three words, and the exit code of `launch`."""

    word: str
    exit_code: int


FAILED = Outcome("failed", FAILED_CODE)
RATE_LIMITED = Outcome(claims.RATE_LIMITED, FAILED_CODE)
OUT_OF_BUDGET = Outcome("out of budget", SPENT_CODE)
UNAVAILABLE = Outcome(claims.UNAVAILABLE, FAILED_CODE)
BROKEN = Outcome(claims.BROKEN, FAILED_CODE)


def closes_task(session: PreparedSession) -> bool:
    """Return whether the session is there to close its task: it has one, and may call it done."""
    if session.task is None or session.profile == REVIEW:
        return False
    schemas = (
        tool.get("inputSchema", {})
        for served in session.served
        for tool in served.tools
        if tool["name"] == CLOSING_TOOL
    )
    return any(DONE in _statuses(schema) for schema in schemas)


def outcome_of(end: AgentEnd, status: str | None, *, closes: bool) -> Outcome:
    """Return the outcome of a session whose task now has this status, None without a task."""
    if end.by_person:
        return Outcome(STOPPED, BY_SIGNAL + end.by_person)
    if closes and status in CLOSED:
        return Outcome(status, CLOSED[status])
    if end.claim_lost:
        return Outcome(CLAIM_LOST, CLAIMED_CODE)
    if end.unavailable or end.rate_limited:  # also if its time was up while it waited for the model
        return UNAVAILABLE if end.unavailable else RATE_LIMITED
    if end.out_of_time or end.out_of_budget:
        return Outcome(OUT_OF_TIME, SPENT_CODE) if end.out_of_time else OUT_OF_BUDGET
    ended = Outcome("open", OPEN_CODE) if closes else Outcome("ended", 0)
    return FAILED if end.failed else ended


def _statuses(schema: Mapping[str, Any]) -> list[object]:
    found = schema.get("properties", {}).get("status", {}).get("enum")
    return found if isinstance(found, list) else []


PRINTING = frozenset({"task_execution", "opus_review", "enrichment"})  # work without a user
EDITING = frozenset({"task_execution"})  # need write access to files
LONGEST_ARGUMENT = 100_000  # bytes; Linux takes 131,071


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The user's options; `passed_through` goes to the agent unchanged.

    `max_cost` is in US dollars, for agents that enforce a budget themselves.
    """

    prompt: str
    printing: bool
    model: str = ""
    max_turns: int | None = None
    passed_through: tuple[str, ...] = ()
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class AgentCall:
    """The start of an agent: every argument, its input, and variables to add to ours."""

    argv: tuple[str, ...]
    given: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One line of an agent's output.

    `record` is a JSON object on one line: the agent's own event, or one that contains its text.
    `texts` are the lines that show it to the user, and `tool` is the called tool, or empty.
    """

    record: str
    texts: tuple[str, ...] = ()
    tool: str = ""


OnLine = Callable[[AgentLine], None]


class OutputReader(ABC):
    """The state of a session, collected from the output of an agent.

    `started` is set once the agent has listed its servers, or if it never does. `refusal` returns
    why the session cannot continue, once that is known. The other attributes are those of
    `AgentEnd`.
    """

    def __init__(self) -> None:
        self.started = False
        self.refusal: Callable[[], RalphgenError] | None = None
        self.ended = False  # whether it has reported its end
        self.is_error = False
        self.out_of_budget = False
        self.rate_limited = False
        self.limit = NO_LIMIT
        self.unavailable = ""
        self.model = ""
        self.usage = NOTHING_USED

    @abstractmethod
    def take(self, line: str) -> AgentLine | None:
        """Return the event of a line; None if the line is not an event, but text for the user."""

    def parse_line(self, line: str) -> AgentLine | None:
        """Return the parsed line, as `take` does; None for an event that its agent would not write.

        Commands that an agent runs can write there too, and must not be able to end a loop.
        """
        try:
            return self.take(line)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return None

    @abstractmethod
    def close(self, code: int | None, complaint: str) -> None:
        """Record how the agent ended: its exit code, and the end of its error output.

        The code is None if its time was up.
        """

    def end(self, code: int, *, by_person: int, out_of_time: bool) -> AgentEnd:
        """Return how the agent ended; `silent` means by itself and without a start event."""
        return AgentEnd(
            code,
            by_person=by_person,
            out_of_time=out_of_time,
            silent=not (self.started or out_of_time or by_person),
            out_of_budget=self.out_of_budget,
            rate_limited=self.rate_limited,
            limit=self.limit,
            unavailable=self.unavailable,
            is_error=self.is_error,
            model=self.model,
            usage=self.usage,
        )


class Agent(ABC):
    """A program that works in sessions.

    `name` is its name in commands and records, `title` its name in sentences. `lacks` has one
    sentence for each feature of ralphgen that it does not support. `converses` is whether it can
    talk with the user in a terminal, `reports_cost` whether it reports its cost. `variables` are
    the environment variables with its keys and settings; "*" matches any end of a name. `script` is
    the word after its program, which may name a file of the project. In a sandbox it
    reaches `hosts` and the URLs in the variables `base_urls`. `is_structured` is whether it uses
    structured content.
    """

    name: str
    title: str
    install: str  # the hint if its program is missing
    lacks: tuple[str, ...] = ()
    converses: bool = True
    reports_cost: bool = False
    variables: tuple[str, ...] = ()
    script: str = ""
    leaves_out_settings: bool = False  # can start without the settings of a project
    hosts: tuple[str, ...] = ()
    base_urls: tuple[str, ...] = ()
    is_structured: bool = False

    @abstractmethod
    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return the call that starts it in a session, and write its files to the session's folder.

        Raises `UsageError` for options that it does not support, and `ProjectError` if a file
        cannot be written.
        """

    @abstractmethod
    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return a reader of its output in a session; None reads texts only."""

    @property
    def program(self) -> str:
        """The program that is looked for on PATH."""
        return self.name

    @property
    def leftovers(self) -> tuple[str, ...]:
        """The folders within a session's folder to remove after its end."""
        return ()

    def prints(self, session: PreparedSession) -> bool:
        """Return whether it runs in the session without a user and a terminal."""
        return prints(session.profile) or not self.converses


def prints(profile: str) -> bool:
    """Return whether sessions of the profile run without a user and a terminal."""
    return profile in PRINTING


def prompt_with_system(session: PreparedSession, prompt: str) -> str:
    """Return the prompt after the system part, for an agent without a separate system prompt."""
    system = session.brief.system if session.brief is not None else ""
    return "\n\n".join(part for part in (system, prompt) if part)


def some(option: str, *values: str) -> list[str]:
    """Return the option with its values, or nothing if there are none."""
    found = [value for value in values if value]
    return [option, *found] if found else []


def refuse_options(options: LaunchOptions) -> None:
    """Raise `UsageError` for options that no agent supports."""
    if options.printing:
        if not options.prompt.strip():
            raise UsageError("a session without a terminal needs a prompt", 'add one, or "-"')
        return
    if options.max_turns is not None:
        raise UsageError('"--max-turns" is for a session without a terminal', 'add "--print"')
    if "\0" in options.prompt:
        raise UsageError("a prompt on the command line cannot contain a NUL", "remove it")
    size = len(options.prompt.encode(errors="surrogateescape"))
    if size > LONGEST_ARGUMENT:
        raise UsageError(
            f"the prompt has {size:,} bytes, but a command line allows {LONGEST_ARGUMENT:,}",
            'put it in a file that the agent reads, or add "--print"',
        )


Event = Mapping[str, Any]

HIGHEST = 2**53  # a count or an amount that an agent is believed
ERROR_WIDTH = 400  # characters of a failure that are shown
CALL_LINE, FAILURE_LINE = "call ", "failed "  # the beginnings of lines about calls
_MARK = re.compile(r"</?tool_use_error>")


def read_event(line: str) -> Event | None:
    """Return the event of a line, or None if the line is not a JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(found: object) -> list[Event]:
    """Return the JSON objects in a list; empty for any other value."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def number(found: object) -> int | None:
    """Return a count, or None for any other value."""
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= HIGHEST:
        return None
    return found


def amount(found: object) -> float | None:
    """Return an amount of money, or None for other values, such as negative or infinite ones."""
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= HIGHEST:
        return None
    return float(found)


def harmless_lines(texts: Iterator[str], indent: str = "") -> Iterator[str]:
    """Yield the lines of the texts, with nothing in them that could steer a terminal."""
    for text in texts:
        yield from (indent + line for line in harmless(text).split("\n"))


def call_line(name: str, given: object) -> str:
    """Return a call on one line, each argument cut."""
    shown = given if isinstance(given, dict) else {}
    words = (f" {one_line(str(key))}={shortened(value)}" for key, value in shown.items())
    return f"{CALL_LINE}{name}{''.join(words)}"


def failure_line(name: str, text: str) -> str:
    """Return on one line that a call has failed, and why."""
    return f"{FAILURE_LINE}{name}: {one_line(text)}"


def text_of(content: object) -> str:
    """Return the text of a result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in objects(content))


def one_line(text: str) -> str:
    """Return the text on one line, cut."""
    line = " ".join(_MARK.sub("", text[: 2 * ERROR_WIDTH]).split())
    return f"{line[:ERROR_WIDTH]}…" if len(line) > ERROR_WIDTH else line
