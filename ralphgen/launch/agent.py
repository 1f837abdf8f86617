"""What an agent is for `launch`: how it is called, what starts it, and what its output shows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ralphgen.errors import RalphgenError, UsageError
from ralphgen.launch.outcome import NOTHING_USED, AgentEnd
from ralphgen.sessions.model import PreparedSession

PRINTING = frozenset({"task_execution", "opus_review", "enrichment"})  # done without a person
EDITING = frozenset({"task_execution"})  # of no use if it may not write files
LONGEST_ARGUMENT = 100_000  # bytes; Linux takes 131,071


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What a person asks for; `passed_through` goes to the agent as it is.

    `max_cost` is in US dollars, for agents that keep a budget themselves.
    """

    prompt: str
    printing: bool
    model: str = ""
    max_turns: int | None = None
    passed_through: tuple[str, ...] = ()
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class AgentCall:
    """What starts an agent: every argument, what it reads, and variables that are added to ours."""

    argv: tuple[str, ...]
    given: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentLine:
    """One line of an agent's output.

    `record` is a JSON object on one line: the event as the agent wrote it, or one that holds its
    text. `texts` are the lines that say the same to a person, and `tool` is the tool that is
    called, empty where none is.
    """

    record: str
    texts: tuple[str, ...] = ()
    tool: str = ""


OnLine = Callable[[AgentLine], None]


class OutputReader(ABC):
    """What the output of an agent has shown so far.

    `started` says that it has named its servers, or never does. `refusal` returns why the session
    cannot go on, once that shows. The others are those of `AgentEnd`.
    """

    def __init__(self) -> None:
        self.started = False
        self.refusal: Callable[[], RalphgenError] | None = None
        self.ended = False  # it has said how it ended
        self.is_error = False
        self.out_of_budget = False
        self.rate_limited = False
        self.model = ""
        self.usage = NOTHING_USED

    @abstractmethod
    def take(self, line: str) -> AgentLine | None:
        """Return what a line is; None where it is no event, but is to be said to a person."""

    def taken(self, line: str) -> AgentLine | None:
        """Return what a line is, as `take` does; none is an event that its agent would not write.

        What an agent runs can write there too, and must not end a loop with it.
        """
        try:
            return self.take(line)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return None

    @abstractmethod
    def close(self, code: int | None, complaint: str) -> None:
        """Take how the agent ended: its exit code, and the end of what it wrote as errors.

        The code is None where its time was up.
        """

    def end(self, code: int, *, by_person: int, out_of_time: bool) -> AgentEnd:
        """Return how the agent ended; `silent` is one that nobody has stopped."""
        return AgentEnd(
            code,
            by_person=by_person,
            out_of_time=out_of_time,
            silent=not (self.started or out_of_time or by_person),
            out_of_budget=self.out_of_budget,
            rate_limited=self.rate_limited,
            is_error=self.is_error,
            model=self.model,
            usage=self.usage,
        )


class Agent(ABC):
    """A program that works in sessions.

    `name` is what people call it, and what is on record; `title` what it is called in sentences.
    `lacks` says in sentences what it cannot do that ralphgen would have it do. `converses` says
    that it can talk with a person in a terminal, `reports_cost` that it says what it has cost.
    `variables` are the names of those with its keys and settings; "*" stands for any end.
    `script` is the word after its program, which may name a file of the project.
    """

    name: str
    title: str
    install: str  # the hint where its program is not there
    lacks: tuple[str, ...] = ()
    converses: bool = True
    reports_cost: bool = False
    variables: tuple[str, ...] = ()
    script: str = ""
    leaves_out_settings: bool = False  # can start without the settings of a project

    @abstractmethod
    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it in a session, whose folder gets the files that it needs.

        Raises `UsageError` for options that it cannot be given, and `ProjectError` where a file
        cannot be written.
        """

    @abstractmethod
    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return what reads its output in a session; None for one of which only the words count."""

    @property
    def program(self) -> str:
        """The program that is looked for on PATH."""
        return self.name

    @property
    def leftovers(self) -> tuple[str, ...]:
        """The folders in that of a session that nobody needs once it has ended."""
        return ()

    def prints(self, session: PreparedSession) -> bool:
        """Return whether it runs in the session without a person and a terminal."""
        return prints(session.profile) or not self.converses


def prints(profile: str) -> bool:
    """Return whether sessions of the profile run without a person and a terminal."""
    return profile in PRINTING


def prompt_with_system(session: PreparedSession, prompt: str) -> str:
    """Return the prompt behind the system part, for an agent that takes none of its own."""
    system = session.brief.system if session.brief is not None else ""
    return "\n\n".join(part for part in (system, prompt) if part)


def some(option: str, *values: str) -> list[str]:
    """Return the option with its values, or nothing where there is none."""
    found = [value for value in values if value]
    return [option, *found] if found else []


def refuse_options(options: LaunchOptions) -> None:
    """Raise `UsageError` for what no agent can be started with."""
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
