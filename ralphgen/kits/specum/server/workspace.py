"""The shared state of the spec tools: folder, specs and prompt texts; instructions and prompts.

Each prompt starts a phase: it leads to the tool with the instructions.
"""

from __future__ import annotations

import os
import time

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.errors import NotThereError, StartError, ToolError
from ralphgen.runtime.files import path_within, read_file, reason
from ralphgen.runtime.kit import Prompt, project_places, root_of_settings, standard_instructions

from .store import FOLDER, Specs, problem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.kit import Offer, Tool
    from ralphgen.runtime.policy import BoundArgument
    from ralphgen.runtime.session import Session

OVERRIDES = ".ralph/specum"
LONGEST = 16_000  # characters of a custom text in the project
RALPH = "ralph"  # the kit of the project's tasks
CREATES = "create_task"
IMPORTS = ("import_tasks", "feature", "discipline")
# Arguments that an import sets on its tasks; a session that lacks one of them cannot import.
GIVEN = ("description", "acceptance_criteria", "depends_on", "tags")


class Specum:
    """The specs of one project.

    The session works in `project`; `root` is its folder that holds `specs/`. `session` lists the
    tools that may be mentioned. With `asks_approval`, the user approves each phase before the next
    one begins. `given` is the guidance that the session already has, since it gets each text once.
    """

    __slots__ = (
        "_folder",
        "_project",
        "_ralph",
        "asks_approval",
        "given",
        "root",
        "session",
        "specs",
    )

    def __init__(
        self, folder: str, project: str, root: str, session: Session, *, asks_approval: bool = False
    ) -> None:
        self._folder = folder
        self._project = os.path.dirname(os.path.dirname(folder))
        self._ralph: Offer | None = None
        self.root = root
        self.asks_approval = asks_approval
        self.given: set[str] = set()
        self.session = session
        self.specs = Specs(root, project)

    def sees(self, tool: str) -> bool:
        """Return whether the session has a tool, so that answers do not mention missing tools."""
        return tool in self.session.enabled

    def takes(self, tool: str, argument: str) -> bool:
        """Return whether the session has an argument of a tool; answers mention no other."""
        return self.sees(tool) and self.session.leaves(tool, argument)

    @property
    def may_import(self) -> bool:
        """Return whether the session may import tasks of a spec into the project."""
        kept = all(self.takes("ralph_complete_phase", argument) for argument in IMPORTS)
        if not kept or not self.session.has(RALPH, CREATES):
            return False
        creates = self.session.of(RALPH)
        return all(creates.leaves(CREATES, argument) for argument in GIVEN)

    def homes(self) -> Mapping[str, BoundArgument]:
        """Return the session's bound rows for new tasks, by argument."""
        return self.session.of(RALPH).filled_arguments(CREATES)

    def text(self, kind: str, name: str) -> str:
        """Return a text of the kit (`kind` is prompts or templates), or the project's custom one.

        Raises `ToolError` if the custom text cannot be read or is too long for an answer.
        """
        own = self._own(f"{OVERRIDES}/{kind}/{name}.md")
        if own is not None:
            return own
        path = os.path.join(self._folder, "specum", kind, f"{name}.md")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def today(self) -> str:
        """Return the date in UTC, as YYYY-MM-DD."""
        return time.strftime("%Y-%m-%d", time.gmtime())

    def tasks(self) -> Offer | None:
        """Return the service of the project's tasks, or None if its kit is not enabled.

        Raises `DeferError` on the thread that reads requests, since other processes may be writing
        tasks, and `ToolError` if that kit's server does not start.
        """
        if RALPH not in self.session.kits:
            return None
        take_time()
        if self._ralph is None:
            from ralphgen.runtime.kit import open_offer

            try:
                self._ralph = open_offer(RALPH, self._folder, self.session)
            except StartError as error:
                why = str(error).replace(os.path.join(self._project, ""), "")
                raise ToolError(f"the project's tasks are unavailable: {why}") from error
        return self._ralph

    def _own(self, file: str) -> str | None:
        """Return the project's own text, None for none; `file` is relative to the project."""
        try:
            path = path_within(os.path.realpath(self._project), file)
            if path is None:
                raise ToolError(f'"{file}" is a symbolic link to a file outside the project')
            data, size = read_file(path, 4 * LONGEST)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ToolError(f'cannot read "{file}": {reason(error)}') from error
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        if size > len(data) or len(text) > LONGEST:
            raise ToolError(
                f'"{file}" has {size:,} bytes: shorten it to at most {LONGEST:,} characters'
            )
        return text

    def close(self) -> None:
        """Close the project's tasks."""
        if self._ralph is not None:
            self._ralph.close()


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Specum:
    """Return the specs of the project around the emitted server in `folder`.

    Raises `StartError` if the folder in the settings is invalid.
    """
    what = f'the parent directory of "{FOLDER}" ("{settings["root"]}")'
    root = root_of_settings(folder, session, settings["root"], "specum", what)
    project = project_places(folder, session)[1]
    return Specum(folder, project, root, session, asks_approval=settings["approval"])


ABOUT = "Specs of the project, in specs/: research, requirements, design, tasks, execution."
OWN_TASK = "ralph_implement returns this session's task: do it, tick its box, and stop."


def on_one_task(session: Session) -> bool:
    """Return whether the session is about one task of the project and so gets no other one."""
    return session.task is not None and RALPH in session.kits


def instructions(session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    text = standard_instructions(ABOUT)(session, tools)
    if on_one_task(session):
        for tool in tools:
            if tool.name == "ralph_implement":
                return text.replace(tool.instruction, OWN_TASK)
    return text


PHASES = {
    "research": "Research the goal of a spec.",
    "requirements": "Write the requirements of a spec.",
    "design": "Design the solution of a spec.",
    "tasks": "Split a spec into small tasks.",
}
SPEC = {"spec_name": "Spec name (defaults to the current spec)."}
IMPLEMENT = (
    "Call ralph_implement, do the task it returns as instructed, and call it again until it "
    "returns ALL_TASKS_COMPLETE or reports a blocked task."
)

IMPLEMENT_ONE = (
    "Call ralph_implement to get this session's task, do it as instructed, and stop when it is "
    "done or blocked."
)


def prompts(session: Session, tools: Sequence[Tool]) -> list[Prompt]:
    """Return one prompt for each phase whose tool the session sees."""
    seen = {tool.name: tool.properties for tool in tools}
    found = [
        Prompt(
            phase,
            description,
            arguments=SPEC if "spec_name" in seen[f"ralph_{phase}"] else {},
            text=_leading(phase, completes="ralph_complete_phase" in seen),
        )
        for phase, description in PHASES.items()
        if f"ralph_{phase}" in seen
    ]
    if "ralph_implement" in seen:
        description, said = ("Do the tasks of the current spec in order.", IMPLEMENT)
        if on_one_task(session):
            description, said = "Do this session's task.", IMPLEMENT_ONE
        found.append(
            Prompt("implement", description, arguments={}, text=lambda _specum, _given: said)
        )
    return found


def _leading(phase: str, *, completes: bool) -> Callable[[Specum, Mapping[str, str]], str]:
    def text(_specum: Specum, given: Mapping[str, str]) -> str:
        name = given.get("spec_name", "")
        if name and (problem := problem_of(name)):
            raise NotThereError(problem)
        of_spec = f' with spec_name "{name}"' if name else ""
        end = " Then record the finished phase as described there." if completes else ""
        return f"Call ralph_{phase}{of_spec} and follow its instructions.{end}"

    return text
