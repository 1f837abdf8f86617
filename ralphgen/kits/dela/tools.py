"""The six tools of dela."""

from ralphgen.planning.model import (
    BOOLEAN,
    INTEGER,
    OBJECT,
    OBJECTS,
    RECIPES,
    STRING,
    STRINGS,
    Argument,
    JsonObject,
    Names,
    ToolPlan,
    answer_of,
    typed,
)
from ralphgen.spelling import Name

WORKING: Names = ("task_execution", "opus_review")
"""The recipes whose sessions run tasks; all others only look."""
CWD = typed("cwd", "string", "A folder of the project; its root if left out.")
INTEGER_OR_NULL: JsonObject = {"type": ["integer", "null"]}
PID = Argument("pid", Name("INTEGER"), required=True)
FURTHER = ("args", "env")
"""The arguments of task_start that a project may do without."""

TOOLS = (
    ToolPlan(
        "list_tasks",
        module="tasks",
        hints="READ_ONLY",
        description=(
            "List the project's tasks, with their commands and whether they may be started."
        ),
        arguments=(
            typed("runner", "string", "Only tasks of this runner, such as make."),
            CWD,
            Argument("limit", Name("LIMIT")),
            Argument("cursor", Name("CURSOR")),
        ),
        returns=answer_of(
            *("tasks", "total", "errors"),
            tasks=OBJECTS,
            total=INTEGER,
            next_cursor=STRING,
            errors=OBJECTS,
        ),
        search_hint="make targets, npm scripts, what can be run, build, test",
        recipes=RECIPES,
        loaded_first=WORKING,
        instruction="list_tasks shows what the project can run: make targets, scripts, and so on.",
        purpose="find out what the project can run, and by which name",
        answer="tasks with their unique names, runners, commands, and whether each may be started",
        instead={"status": "what runs at the moment"},
    ),
    ToolPlan(
        "task_start",
        module="tasks",
        hints="OPEN_WORLD",
        description=(
            "Start a task. One that ends within the wait is answered with its output and exit "
            "code, one that does not with its pid."
        ),
        arguments=(
            Argument("unique_name", Name("STRING"), required=True),
            Argument("args", Name("STRINGS")),
            Argument("env", {"type": "object", "additionalProperties": STRING}),
            CWD,
            typed("wait_for_exit_seconds", "integer", "1 if left out.", minimum=0, maximum=300),
        ),
        returns=answer_of(
            *("state", "initial_output"),
            state={"type": "string", "enum": ["exited", "running", "failed"]},
            pid=INTEGER,
            exit_code=INTEGER_OR_NULL,
            signal=INTEGER,
            error=STRING,
            initial_output=STRING,
            output_truncated=BOOLEAN,
        ),
        search_hint="run a task, build, test, execute",
        recipes=WORKING,
        loaded_first=WORKING,
        instruction=(
            "task_start runs one by its unique_name and waits a second for its end; what "
            "runs longer goes on in the background."
        ),
        advice=(
            "Only tasks that a person has allowed can be started; do not look for a way around: "
            'ask for "ralphgen dela allow NAME".'
        ),
        purpose="build, test, lint or run whatever else the project has a task for",
        answer=(
            "output and exit code of a task that ends within the wait, the pid of one that goes on"
        ),
        instead={"task_output": "more output of one that was started before"},
    ),
    ToolPlan(
        "status",
        module="jobs",
        hints="READ_ONLY",
        description="List the tasks that run now.",
        returns=answer_of("running", running=OBJECTS, cwd=STRING),
        search_hint="running tasks, processes",
        recipes=RECIPES,
        instruction="status lists what runs.",
        purpose="see what runs, before the same thing is started twice",
        answer="the running tasks with their pids",
        instead={"task_status": "one that may have ended"},
    ),
    ToolPlan(
        "task_status",
        module="jobs",
        hints="READ_ONLY",
        description="Tell what has become of the processes of a task, or of one pid.",
        arguments=(Argument("unique_name", Name("STRING")), Argument("pid", Name("INTEGER"))),
        returns=answer_of("jobs", jobs=OBJECTS),
        search_hint="exit code, has it ended",
        recipes=WORKING,
        instruction="task_status tells how a task ended.",
        purpose="learn whether and how a task ended",
        answer="state and exit code of each of its processes",
        instead={"task_output": "what it printed"},
    ),
    ToolPlan(
        "task_output",
        module="jobs",
        hints="READ_ONLY",
        description="Read what a task has printed: the last lines, unless others are asked for.",
        arguments=(
            PID,
            typed("lines", "integer", "200 if left out.", minimum=0),
            typed(
                "offset",
                "integer",
                "Number of the first line, counted from the task's start.",
                minimum=0,
            ),
            Argument("show_truncation", BOOLEAN),
        ),
        returns=answer_of(
            *("pid", "lines", "next_offset"),
            pid=INTEGER,
            lines=STRINGS,
            total_lines=INTEGER,
            total_bytes=INTEGER,
            truncated=BOOLEAN,
            buffer_full=BOOLEAN,
            offset=INTEGER,
            next_offset=INTEGER,
            dropped_lines=INTEGER,
            chunk_truncated=BOOLEAN,
            max_chunk_size=INTEGER,
            truncation_info=OBJECT,
        ),
        search_hint="log of a running task",
        recipes=WORKING,
        instruction="task_output reads what it printed, by pid.",
        purpose="read what a task prints while it runs, or has printed",
        answer="the last lines, or those from an offset, and where to read on",
    ),
    ToolPlan(
        "task_stop",
        module="jobs",
        hints="DESTRUCTIVE",
        description="Stop a running task and everything that it started.",
        arguments=(
            PID,
            typed(
                "grace_period",
                "integer",
                "Seconds before it is killed; 5 if left out.",
                minimum=0,
                maximum=60,
            ),
        ),
        returns=answer_of(
            *("pid", "status", "message"),
            pid=INTEGER,
            status={"type": "string", "enum": ["graceful", "killed", "failed"]},
            message=STRING,
            exit_code=INTEGER_OR_NULL,
            signal=INTEGER_OR_NULL,
            grace_period_used=INTEGER,
        ),
        search_hint="kill a process",
        recipes=WORKING,
        instruction="task_stop ends one with everything that it started.",
        purpose="end a server, a watcher or a task that hangs",
        answer="whether it ended by itself or had to be killed",
    ),
)
