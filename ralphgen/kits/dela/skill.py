"""What the skill of the kit dela says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, Workflow

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
