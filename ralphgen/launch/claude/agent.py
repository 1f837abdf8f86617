"""Claude Code as an agent, and what its events show."""

import os
from collections.abc import Mapping
from typing import Any

from ralphgen.launch.agent import Agent, AgentCall, AgentLine, LaunchOptions, OutputReader
from ralphgen.launch.claude.check import LONGER, START_TIMEOUT, TIMEOUT_VARIABLE, lacks
from ralphgen.launch.claude.command import launch_command
from ralphgen.launch.claude.stream import Transcript, blocks, is_result, is_start
from ralphgen.launch.events import Event, amount, number, objects, read_event
from ralphgen.launch.lacking import lack_error
from ralphgen.launch.outcome import Usage
from ralphgen.sessions.model import CLAUDE, PreparedSession

SPENT = frozenset({"error_max_turns", "error_max_budget_usd"})  # subtypes of a result
BUSY = frozenset({429, 529})  # what the API answers for a rate limit and where it is overloaded
BUSY_WORDS = frozenset({"rate_limit", "overloaded"})


class ClaudeCode(Agent):
    """Claude Code, the program `claude` on PATH."""

    name = CLAUDE
    title = "Claude Code"
    install = 'install it, for example with "npm install -g @anthropic-ai/claude-code"'
    reports_cost = True
    variables = ("ANTHROPIC_*", "CLAUDE_*", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT")
    leaves_out_settings = True

    def call(self, session: PreparedSession, options: LaunchOptions) -> AgentCall:
        """Return what starts it; it reads the prompt where it prints."""
        variables = {} if TIMEOUT_VARIABLE in os.environ else {TIMEOUT_VARIABLE: START_TIMEOUT}
        given = options.prompt if options.printing else ""
        return AgentCall(launch_command(session, options), given, variables)

    def reader(self, session: PreparedSession | None) -> OutputReader:
        """Return what reads its events."""
        return ClaudeReader(session)


class ClaudeReader(OutputReader):
    """What the events of Claude Code have shown."""

    def __init__(self, session: PreparedSession | None) -> None:
        super().__init__()
        self._session = session
        self._transcript = Transcript()

    def take(self, line: str) -> AgentLine | None:
        """Return what a line is; None where it is no event."""
        event = read_event(line)
        if event is None:
            return None
        if is_start(event) and not self.started:
            self.started = True
            self.model = str(event.get("model") or "")
            session = self._session
            if session is not None and (found := lacks(session, event)):
                self.refusal = lambda: lack_error(found, session, LONGER)
        self._note(event)
        called = [block for block in blocks(event) if block.get("type") == "tool_use"]
        tool = str(called[-1].get("name")) if called else ""
        return AgentLine(line, tuple(self._transcript.lines(event)), tool)

    def close(self, code: int | None, complaint: str) -> None:
        """Take nothing: its last event has said it all."""

    def _note(self, event: Event) -> None:
        """Take what the event says of the model, of the end, and of what was used."""
        if event.get("subtype") == "api_retry" or event.get("type") == "assistant":
            self.rate_limited = _is_busy(event)
        if is_result(event):
            self.ended = True
            self.is_error = bool(event.get("is_error"))
            self.out_of_budget = event.get("subtype") in SPENT
            self.rate_limited = self.is_error and (self.rate_limited or _is_busy(event))
            self.usage = usage_of(event)


def _is_busy(event: Event) -> bool:
    """Return whether the event says that the model does not answer for now."""
    statuses = (event.get("error_status"), event.get("api_error_status"))
    return bool(BUSY.intersection(filter(number, statuses))) or event.get("error") in BUSY_WORDS


def usage_of(result: Event) -> Usage:
    """Return what the last event of Claude Code says of turns, tokens and cost.

    Its tokens count by model where they can: when the budget is used up, the sum stays at 0.
    """
    models = result.get("modelUsage")
    by_model = objects([*models.values()]) if isinstance(models, dict) else []
    usage = result.get("usage")
    counted: list[Mapping[str, Any]] = [usage] if isinstance(usage, dict) else []
    into = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
    spelled = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(
        turns=number(result.get("num_turns")),
        tokens_in=_sum(by_model, into) if by_model else _sum(counted, spelled),
        tokens_out=_sum(by_model or counted, ("outputTokens", "output_tokens")),
        cost=amount(result.get("total_cost_usd")),
    )


def _sum(counts: list[Mapping[str, Any]], keys: tuple[str, ...]) -> int | None:
    """Return the sum of what the counts hold under these keys; None where they hold nothing."""
    numbers = [number(count.get(key)) for count in counts for key in keys]
    known = [found for found in numbers if found is not None]
    return sum(known) if known else None
