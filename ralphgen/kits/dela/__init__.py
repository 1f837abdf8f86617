"""The kit `dela`: agents run the project's own tasks, as far as the user has allowed them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.kits.dela.server.formats import discover
from ralphgen.planning import (
    BOOLEAN,
    OBJECTS,
    RECIPES,
    TEXT,
    Argument,
    JsonObject,
    KitPlan,
    Names,
    PlannedTool,
    SkillPlan,
    Step,
    Workflow,
    answer_of,
    typed,
)
from ralphgen.planning.server import KitDefinition
from ralphgen.project.config import RelativePath
from ralphgen.project.model import Finding, ProjectFacts
from ralphgen.runtime.files import path_within
from ralphgen.runtime.kit import (
    CURSOR,
    DESTRUCTIVE,
    INTEGER,
    LIMIT,
    OPEN_WORLD,
    READ_ONLY,
    STRING,
    STRINGS,
)
from ralphgen.spelling import Lines

WORKING: Names = ("task_execution", "opus_review")
"""The recipes whose sessions run tasks; all others only look."""
CWD = typed("cwd", "string", "A directory of the project (default: its root).")
INTEGER_OR_NULL: JsonObject = {"type": ["integer", "null"]}
PID = Argument("pid", INTEGER, required=True)
FURTHER = ("args", "env")
"""The arguments of task_start that a project may do without."""

TOOLS = (
    PlannedTool(
        "list_tasks",
        module="tasks",
        hints=READ_ONLY,
        description=("List the project's tasks, with their commands and whether they are allowed."),
        arguments=(
            typed("runner", "string", "Only tasks of this runner, such as make."),
            CWD,
            Argument("limit", LIMIT),
            Argument("cursor", CURSOR),
        ),
        returns=answer_of(tasks=OBJECTS, total=INTEGER, next_cursor=TEXT, errors=OBJECTS),
        search_hint="make targets, npm scripts, run, build, test",
        recipes=RECIPES,
        loaded_first_in=WORKING,
        instruction="list_tasks lists the project's tasks: make targets, scripts, and so on.",
        purpose="find the project's tasks and their names",
        answer="tasks with their unique names, runners, commands, and whether each is allowed",
        instead={"status": "the running tasks"},
    ),
    PlannedTool(
        "task_start",
        module="tasks",
        hints=OPEN_WORLD,
        description=(
            "Start a task. Returns its output and exit code if it ends within the wait, "
            "otherwise its pid."
        ),
        arguments=(
            Argument("unique_name", STRING, required=True),
            Argument("args", STRINGS),
            Argument("env", {"type": "object", "additionalProperties": {"type": "string"}}),
            CWD,
            typed("wait_for_exit_seconds", "integer", "Default: 1.", minimum=0, maximum=300),
        ),
        search_hint="run a task, build, test, execute",
        recipes=WORKING,
        loaded_first_in=WORKING,
        instruction=(
            "task_start runs one by its unique_name and waits a second; longer tasks continue in "
            "the background."
        ),
        advice=(
            "You can start only allowed tasks; do not work around this: ask for "
            '"ralphgen dela allow NAME".'
        ),
        purpose="build, test, lint or run any other task of the project",
        answer=("output and exit code if the task ends within the wait, otherwise its pid"),
        instead={"task_output": "more output of a started task"},
    ),
    PlannedTool(
        "status",
        module="jobs",
        hints=READ_ONLY,
        description="List the running tasks.",
        search_hint="running tasks, processes",
        recipes=RECIPES,
        instruction="status lists running tasks.",
        purpose="list the running tasks before starting one twice",
        answer="the running tasks with their pids",
        instead={"task_status": "a task that may have ended"},
    ),
    PlannedTool(
        "task_status",
        module="jobs",
        hints=READ_ONLY,
        description="Show the state of a task's processes, or of one pid.",
        arguments=(Argument("unique_name", STRING), Argument("pid", INTEGER)),
        search_hint="exit code, task result",
        recipes=WORKING,
        instruction="task_status shows how a task ended.",
        purpose="check whether and how a task ended",
        answer="state and exit code of each of its processes",
        instead={"task_output": "its output"},
    ),
    PlannedTool(
        "task_output",
        module="jobs",
        hints=READ_ONLY,
        description="Read the output of a task: the last lines by default.",
        arguments=(
            PID,
            typed("lines", "integer", "Default: 200.", minimum=0),
            typed(
                "offset",
                "integer",
                "Number of the first line, counted from the task's start.",
                minimum=0,
            ),
            Argument("show_truncation", BOOLEAN),
        ),
        search_hint="log of a running task",
        recipes=WORKING,
        instruction="task_output reads its output, by pid.",
        purpose="read the output of a running or ended task",
        answer="the last lines, or lines from an offset, and the next offset",
    ),
    PlannedTool(
        "task_stop",
        module="jobs",
        hints=DESTRUCTIVE,
        description="Stop a running task and its child processes.",
        arguments=(
            PID,
            typed(
                "grace_period",
                "integer",
                "Seconds before it is killed (default: 5).",
                minimum=0,
                maximum=60,
            ),
        ),
        search_hint="kill a process",
        recipes=WORKING,
        instruction="task_stop ends one and its child processes.",
        purpose="stop a server, a watcher or a hanging task",
        answer="whether it ended by itself or was killed",
    ),
)


WORKFLOWS = (
    Workflow(
        "Run a task",
        (
            Step("Find the task; the other tools need its unique name.", "list_tasks"),
            Step(
                "Start it, and read its output and exit code.", "task_start", {"unique_name": None}
            ),
            Step("If it was still running, check whether it has ended.", "task_status"),
            Step("Read the rest of its output.", "task_output", {"pid": None}),
        ),
        needs=("task_start",),
    ),
    Workflow(
        "Work with a server or a watcher",
        (
            Step("Check that it is not already running.", "status"),
            Step("Start it; it continues in the background.", "task_start", {"unique_name": None}),
            Step("Read its output until it is ready.", "task_output", {"pid": None}),
            Step("Do the work."),
            Step("Stop it and its child processes.", "task_stop", {"pid": None}),
        ),
        needs=("task_start", "task_stop"),
    ),
    Workflow(
        "Find out why something failed",
        (
            Step("Check how the task ended.", "task_status", {"unique_name": None}),
            Step("Read its last lines.", "task_output", {"pid": None}),
        ),
    ),
)
SKILL = SkillPlan(
    name="dela-tasks",
    title="The project's tasks",
    description=(
        "Finds, starts, watches and stops the project's tasks: make targets, npm scripts, just "
        "recipes and others. Use when the project must be built, tested, linted, formatted or run, "
        "when a server or watcher must be started or stopped, or when the output of a running task "
        "is needed."
    ),
    overview={
        "Allowed tasks": (
            "The tasks come from the project's files and are read again at each listing. You can "
            "start only allowed tasks. Do not work around a task that is not allowed: ask the "
            "user to run `ralphgen dela allow` with its name."
        ),
        "Long-running tasks": (
            "A start waits a moment for the task to end. If it ends in time, the answer has its "
            "output and exit code. Otherwise it continues in the background, and you check it "
            "later by its pid. All started tasks end with the session."
        ),
    },
    workflows=WORKFLOWS,
)


class DelaSettings(BaseModel):
    """`[dela]`: where tasks are looked for, and how much is kept of them.

    `root` is the folder of the tasks, relative to the project's. At most `max_jobs` tasks run at
    once; of each the last `lines` lines and `bytes` bytes of output are kept, for `ttl` seconds
    after its end. Without `allow_args` tasks run as they are, with no further arguments or
    environment variables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    root: RelativePath = Field(default="", description="Directory of the tasks.")
    max_jobs: int = Field(
        default=50, ge=1, le=1_000, description="Maximum number of concurrent tasks."
    )
    lines: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Maximum lines of output to keep per task."
    )
    bytes: int = Field(
        default=5 * 1024 * 1024,
        ge=8_192,
        le=1 << 30,
        description="Maximum bytes of output to keep per task.",
    )
    ttl: int = Field(
        default=3_600, ge=0, le=1_000_000, description="Seconds to keep output after a task ends."
    )
    allow_args: bool = Field(
        default=True, description="Allow extra arguments and environment variables."
    )


EMITTED = ("root", "max_jobs", "lines", "bytes", "ttl")
SERVER = KitPlan(
    key="dela",
    server_name="dela-mcp",
    title="Find, start, watch and stop the project's tasks.",
    nouns={"tasks": "Tools that find and start tasks.", "jobs": "Tools for started tasks."},
    tools=TOOLS,
    server="ralphgen.kits.dela.server",
    refusals="error",
    resources=True,
    about="The project's tasks.",
    skill=SKILL,
)


def plan_dela(project: ProjectFacts) -> KitPlan:
    """Return the server of the kit dela; its tasks are found when the server is asked."""
    further = project.setting(SERVER.key, "allow_args")
    settings = Lines({name: project.setting(SERVER.key, name) for name in EMITTED})
    tools = SERVER.tools
    if not further:
        tools = tuple(
            replace(tool, arguments=tuple(one for one in tool.arguments if one.name not in FURTHER))
            for tool in TOOLS
        )
    named = project.done is not None and any(check.dela for check in project.done.checks)
    return replace(SERVER, settings=settings, tools=tools, services="tasks" if named else "")


def find_tasks(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the tasks of a project, and the files of tasks that cannot be used."""
    place = path_within(str(root.resolve()), str(settings["root"]))
    if place is None:
        return Finding("", {"tasks": []}, (f'"root" in [{SERVER.key}] is outside the project',))
    folder = Path(place)
    found = discover(place, place)
    runners = list(dict.fromkeys(task.runner for task in found.tasks))
    tasks: list[Mapping[str, Any]] = [
        {
            "unique_name": task.unique_name,
            "runner": task.runner,
            "command": task.command,
            "file": below(folder, task.path),
            "description": task.description,
        }
        for task in found.tasks
    ]
    count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    summary = f"{count} of {', '.join(runners)}" if tasks else ""
    return Finding(
        summary,
        {"tasks": tasks},
        warnings=tuple(f"{below(folder, path)}: {why}" for path, why in found.problems),
    )


def below(folder: Path, path: str) -> str:
    """Return a path relative to the directory of the tasks, or unchanged if it is outside."""
    place = Path(path)
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else str(place)


DELA = KitDefinition(SERVER, plan_dela, DelaSettings, find=find_tasks)
