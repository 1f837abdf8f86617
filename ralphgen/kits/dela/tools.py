"""The six tools of dela."""

from ralphgen.planning.model import (
    BOOLEAN,
    OBJECTS,
    RECIPES,
    TEXT,
    Argument,
    JsonObject,
    Names,
    PlannedTool,
    answer_of,
    typed,
)
from ralphgen.runtime.tool import (
    CURSOR,
    DESTRUCTIVE,
    INTEGER,
    LIMIT,
    OPEN_WORLD,
    READ_ONLY,
    STRING,
    STRINGS,
)

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
