"""Sessions, as the commands that create, describe and start them see them."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralphgen.errors import counted, plain
from ralphgen.kits.project import Project
from ralphgen.planning import Names, listing_bytes
from ralphgen.project.config import LaunchConfig
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.store import SYSTEM

CLAUDE = "claude"  # the program, looked for on PATH


@dataclass(frozen=True, slots=True)
class Brief:
    """The brief of an agent at the start of its session, from the server of the project's rows.

    `system` describes the agent's role, `task` its work. `sections` holds for each section its
    `part`, `title` and `characters`; if it is cut, `cut` is the resource with the full text. `most`
    is the limit of both parts together, in characters.
    """

    system: str
    task: str
    most: int
    sections: tuple[dict[str, Any], ...]

    @property
    def characters(self) -> int:
        """The number of characters in both parts."""
        return len(self.system) + len(self.task)


@dataclass(frozen=True, slots=True)
class Served:
    """One server of a session, as it describes itself.

    `command` starts it. `tools` are the entries of its `tools/list`; `brief` is its brief for
    agents, or None if the kit has none. `prompt` is the task part of the brief, else the text of
    its first prompt without arguments; empty if there is neither.
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
    """That a session holds a task of a project, by a `token`.

    The project's settings and schema are those of when it was taken.
    """

    project: Project = field(repr=False)
    session_id: str
    task: int
    token: int

    @property
    def root(self) -> Path:
        """The folder of the project."""
        return self.project.root

    @property
    def lease(self) -> int:
        """For how many seconds it holds from each renewal on."""
        return self.project.settings.claims.lease

    def facts(self, *, kept: bool) -> dict[str, int]:
        """Return the claim as it is stored in the session's context.

        A claim that is `kept` continues when the task is closed, until `end_claim`.
        """
        return {"task": self.task, "token": self.token, "lease": self.lease, "kept": kept}


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session whose files are written and whose servers have confirmed that they start.

    `root` is the project's folder and `work_tree` the agent's: the same, or the project's
    counterpart in another worktree of the repository. `recipe` is the session's displayed recipe
    and `profile` the built-in kind of session behind it. `folder` holds `context` and `mcp_config`;
    `sha256` is the context's. `discipline` is the session's discipline, `target` the discipline
    that it works on, and `model` the one that its recipe requests, or empty. `other_servers` are
    the names of the discipline's own MCP servers, and `runs` describes the programs that the user
    had to trust besides the server; `launch` is the shown part of `[launch]`; `transcripts` is set
    if the agent's actions are recorded. `claim` is its claim on its task, or None.
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
    contained: bool = False  # this is how the agent sees it, in a sandbox

    @property
    def prompt(self) -> str:
        """The recipe's own prompt, empty if no server has one."""
        return next((served.prompt for served in self.served if served.prompt), "")

    @property
    def brief(self) -> Brief | None:
        """The agent's brief, or None if no server of the session has one."""
        return next((served.brief for served in self.served if served.brief), None)

    @property
    def system_file(self) -> Path | None:
        """The file with the system part of the brief, or None if the session has no brief."""
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
    """Return the command with which the user starts Claude Code in a session."""
    return shlex.join((CLAUDE, "--strict-mcp-config", "--mcp-config", str(mcp_config)))


def _kit_facts(served: Served) -> dict[str, object]:
    tools = [{"name": tool["name"], "bytes": listing_bytes([tool]) - 2} for tool in served.tools]
    return {
        "tools": tools,
        "bytes": listing_bytes(list(served.tools)),
        "instructions": served.instructions,
        "prompt": served.prompt,
        "command": list(served.command),
    }
