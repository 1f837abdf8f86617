"""The agents that there are: the clients that ralphgen knows, and those of the settings."""

import shutil

from ralphgen.errors import UsageError
from ralphgen.launch.agent import Agent
from ralphgen.launch.claude.agent import ClaudeCode
from ralphgen.launch.codex import Codex
from ralphgen.launch.gemini import GeminiCli
from ralphgen.launch.named import NamedAgent
from ralphgen.project.config import Config
from ralphgen.runtime.errors import one_line
from ralphgen.suggestion import suggestion

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
