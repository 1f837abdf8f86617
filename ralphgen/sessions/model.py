"""What a session is for the commands that make, describe and start one."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralphgen.errors import plain
from ralphgen.planning.model import Names
from ralphgen.planning.preview import listed_bytes
from ralphgen.project.config import LaunchConfig
from ralphgen.project.model import Schema
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.store import SYSTEM
from ralphgen.suggestion import counted

CLAUDE = "claude"  # the program, looked for on PATH


@dataclass(frozen=True, slots=True)
class Brief:
    """What an agent is told when its session begins, as the server of the project's rows makes it.

    `system` says who it is, `task` what to do. `sections` holds for each section its `part`,
    `title` and `characters`, and where it is cut in `cut` the resource that has the whole of it;
    `most` is how many characters both parts were to have at most.
    """

    system: str
    task: str
    most: int
    sections: tuple[dict[str, Any], ...]

    @property
    def characters(self) -> int:
        """How many characters both parts have."""
        return len(self.system) + len(self.task)


@dataclass(frozen=True, slots=True)
class Served:
    """One server of a session, as it describes itself.

    `command` starts it. `tools` are the entries of its `tools/list`; `brief` is what its agents are
    told, None where the kit tells them nothing. `prompt` is the task part of the brief, without one
    the text of its first prompt with nothing filled in; empty where there is neither.
    """

    kit: str
    command: Names
    tools: tuple[dict[str, Any], ...]
    instructions: str
    prompt: str
    brief: Brief | None = None

    @property
    def names(self) -> Names:
        """The names of its tools, in order."""
        return tuple(tool["name"] for tool in self.tools)


@dataclass(frozen=True, slots=True)
class TaskClaim:
    """That a session holds a task of the project in `root`, by a `token`.

    It does for `lease` seconds from each renewal on. After so many `attempts` that left it open,
    the task is blocked. `schema` is what its tables were when it was taken.
    """

    root: Path
    session_id: str
    task: int
    token: int
    lease: int
    attempts: int
    schema: Schema = field(repr=False)

    def facts(self, *, kept: bool) -> dict[str, int]:
        """Return what the session's context says of it.

        A claim that is `kept` is held on when the task is closed, until `end_claim`.
        """
        return {"task": self.task, "token": self.token, "lease": self.lease, "kept": kept}


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session whose files are written and whose servers have said that they would start.

    `root` is the project's folder and `work_tree` where the agent works: the same, or the project's
    place in another work tree of the repository.
    `recipe` is what it calls itself and `profile` the built-in kind of session that it comes from.
    `folder` holds `context` and `mcp_config`; `sha256` is the context's. `discipline` is the
    discipline, `target` the discipline that the session is about, and `model` the one that its
    recipe asks for, empty where it asks for none. `other_servers` are the names of
    the discipline's own MCP servers, and `runs` says what a person had to trust besides the server;
    `launch` is what they saw of `[launch]`; `transcripts` says whether what an agent does is kept.
    `claim` says by what it holds its task, None where it does not.
    """

    root: Path
    work_tree: Path
    session_id: str
    recipe: str
    profile: str
    folder: Path
    context: Path
    mcp_config: Path
    sha256: str
    task: int | None
    feature: str | None
    discipline: str | None
    target: str | None
    served: tuple[Served, ...]
    other_servers: Names
    runs: Names
    launch: LaunchConfig
    transcripts: bool
    warnings: Names
    model: str = ""
    claim: TaskClaim | None = None
    without_settings: bool = False  # the client starts without the project's own

    @property
    def prompt(self) -> str:
        """The recipe's own prompt, empty where none of the servers has one."""
        return next((served.prompt for served in self.served if served.prompt), "")

    @property
    def brief(self) -> Brief | None:
        """What the agent is told, None where no server of the session says it."""
        return next((served.brief for served in self.served if served.brief), None)

    @property
    def system_file(self) -> Path | None:
        """The file with the system part of the brief, None where the session has none."""
        return self.folder / SYSTEM if self.brief is not None else None


def session_facts(session: PreparedSession, argv: Names) -> dict[str, object]:
    """Return the session for other programs; `argv` is the command line of a client in it."""
    return {
        "session_id": session.session_id,
        "recipe": session.recipe,
        "profile": session.profile,
        "task_id": session.task,
        "feature": session.feature,
        "discipline": session.discipline,
        "target_discipline": session.target,
        "work_tree": str(session.work_tree),
        "folder": str(session.folder),
        "context": str(session.context),
        "sha256": session.sha256,
        "mcp_config": str(session.mcp_config),
        "system": session.brief.system if session.brief is not None else "",
        "system_file": str(session.system_file) if session.system_file is not None else None,
        "prompt": session.prompt,
        "model": session.model or None,
        "kits": {served.kit: _kit_facts(served) for served in session.served},
        "mcp_servers": list(session.other_servers),
        "warnings": list(session.warnings),
        "argv": list(argv),
    }


def session_summary(session: PreparedSession) -> Iterator[str]:
    """Yield the lines that a user sees when the session is created."""
    feature = one_line(session.feature or "")
    about = f"feature {feature}" if feature else ""
    if session.task is not None:
        about = f"task {session.task} ({feature})"
    if session.target is not None:
        about = f"about {one_line(session.target)}"
    role = f"as {one_line(session.discipline)}" if session.discipline is not None else ""
    tools = counted(sum(len(one.tools) for one in session.served), "tool")
    yield f"created session {session.session_id}"
    yield ", ".join(part for part in (about, role, tools) if part)
    yield from approved_lines(session)
    yield f"start: {start_command(session.mcp_config)}"
    if session.claim is not None:
        yield f"release the task with: ralphgen session end {session.session_id}"


def approved_lines(session: PreparedSession) -> Iterator[str]:
    """Yield the items that the user approved for the session, below a heading."""
    if session.runs:
        yield "approved on this machine:"
    yield from (f"  {plain(line)}" for line in session.runs)


def start_command(mcp_config: Path) -> str:
    """Return what a person types to start Claude Code in a session."""
    return shlex.join((CLAUDE, "--strict-mcp-config", "--mcp-config", str(mcp_config)))


def _kit_facts(served: Served) -> dict[str, object]:
    tools = [{"name": tool["name"], "bytes": listed_bytes([tool]) - 2} for tool in served.tools]
    return {
        "tools": tools,
        "bytes": listed_bytes(list(served.tools)),
        "instructions": served.instructions,
        "prompt": served.prompt,
        "command": list(served.command),
    }
