"""The six tools of dela: what they take, what they answer and which sessions have them."""

from collections.abc import Mapping

from ralphgen.planning.model import PROFILES, Argument, JsonObject, Names, ToolPlan
from ralphgen.spelling import Name

STRING: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
STRINGS: JsonObject = {"type": "array", "items": STRING}
OBJECTS: JsonObject = {"type": "array", "items": {"type": "object"}}
CWD = Argument(
    "cwd", {"type": "string", "description": "A folder of the project; its root if left out."}
)
PID = Argument("pid", Name("INTEGER"), required=True)
FURTHER = ("args", "env")
"""The arguments of task_start that a project may do without."""

TOOLS = (
    ToolPlan(
        "list_tasks",
        "tasks",
        "List the project's tasks, with their commands and whether they may be started.",
        "READS",
        (
            Argument(
                "runner",
                {"type": "string", "description": "Only tasks of this runner, such as make."},
            ),
            CWD,
            Argument("limit", Name("LIMIT")),
            Argument("cursor", Name("CURSOR")),
        ),
        {
            "type": "object",
            "properties": {
                "tasks": OBJECTS,
                "total": INTEGER,
                "next_cursor": STRING,
                "errors": OBJECTS,
            },
            "required": ["tasks", "total", "errors"],
        },
        search_hint="make targets, npm scripts, what can be run, build, test",
    ),
    ToolPlan(
        "task_start",
        "tasks",
        "Start a task. One that ends within the wait is answered with its output and exit code, "
        "one that does not with its pid.",
        "RUNS",
        (
            Argument("unique_name", Name("STRING"), required=True),
            Argument("args", Name("STRINGS")),
            Argument(
                "env",
                {"type": "object", "additionalProperties": {"type": "string"}},
            ),
            CWD,
            Argument(
                "wait_for_exit_seconds",
                {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 300,
                    "description": "1 if left out.",
                },
            ),
        ),
        {
            "type": "object",
            "properties": {
                "state": {"type": "string", "enum": ["exited", "running", "failed"]},
                "pid": INTEGER,
                "exit_code": {"type": ["integer", "null"]},
                "signal": INTEGER,
                "error": STRING,
                "initial_output": STRING,
                "output_truncated": BOOLEAN,
            },
            "required": ["state", "initial_output"],
        },
        search_hint="run a task, build, test, execute",
    ),
    ToolPlan(
        "status",
        "jobs",
        "List the tasks that run now.",
        "READS",
        (),
        {
            "type": "object",
            "properties": {"running": OBJECTS, "cwd": STRING},
            "required": ["running"],
        },
        search_hint="running tasks, processes",
    ),
    ToolPlan(
        "task_status",
        "jobs",
        "Tell what has become of the processes of a task, or of one pid.",
        "READS",
        (Argument("unique_name", Name("STRING")), Argument("pid", Name("INTEGER"))),
        {"type": "object", "properties": {"jobs": OBJECTS}, "required": ["jobs"]},
        search_hint="exit code, has it ended",
    ),
    ToolPlan(
        "task_output",
        "jobs",
        "Read what a task has printed: the last lines, unless others are asked for.",
        "READS",
        (
            PID,
            Argument(
                "lines",
                {"type": "integer", "minimum": 0, "description": "200 if left out."},
            ),
            Argument(
                "offset",
                {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Number of the first line, counted from the task's start.",
                },
            ),
            Argument("show_truncation", {"type": "boolean"}),
        ),
        {
            "type": "object",
            "properties": {
                "pid": INTEGER,
                "lines": STRINGS,
                "total_lines": INTEGER,
                "total_bytes": INTEGER,
                "truncated": BOOLEAN,
                "buffer_full": BOOLEAN,
                "offset": INTEGER,
                "next_offset": INTEGER,
                "dropped_lines": INTEGER,
                "chunk_truncated": BOOLEAN,
                "max_chunk_size": INTEGER,
                "truncation_info": {"type": "object"},
            },
            "required": ["pid", "lines", "next_offset"],
        },
        search_hint="log of a running task",
    ),
    ToolPlan(
        "task_stop",
        "jobs",
        "Stop a running task and everything that it started.",
        "DELETES",
        (
            PID,
            Argument(
                "grace_period",
                {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 60,
                    "description": "Seconds before it is killed; 5 if left out.",
                },
            ),
        ),
        {
            "type": "object",
            "properties": {
                "pid": INTEGER,
                "status": {"type": "string", "enum": ["graceful", "killed", "failed"]},
                "message": STRING,
                "exit_code": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
                "grace_period_used": INTEGER,
            },
            "required": ["pid", "status", "message"],
        },
        search_hint="kill a process",
    ),
)
LOOKS: Names = ("list_tasks", "status")
READS: Names = ("list_tasks", "status", "task_status", "task_output")
EVERY: Names = tuple(tool.name for tool in TOOLS)
KEPT: Mapping[str, Names] = {
    "task_execution": EVERY,
    "opus_review": EVERY,
    "interactive": READS,
    "manual": EVERY,
}
PROFILED: Mapping[str, Names] = {profile: KEPT.get(profile, LOOKS) for profile in PROFILES}
"""By kind of session, the names of its tools."""
