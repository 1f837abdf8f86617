"""What the skill of the kit dela says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan, Step, Workflow

WORKFLOWS = (
    Workflow(
        "Run a task",
        (
            Step("Find the task; its unique name is what the others want.", "list_tasks"),
            Step("Start it, and read output and exit code.", "task_start", {"unique_name": None}),
            Step("If it was still running, see whether it has ended.", "task_status"),
            Step("Read the rest of its output.", "task_output", {"pid": None}),
        ),
        needs=("task_start",),
    ),
    Workflow(
        "Work against a server or a watcher",
        (
            Step("Make sure that it does not run already.", "status"),
            Step("Start it; it goes on in the background.", "task_start", {"unique_name": None}),
            Step("Read what it prints until it is ready.", "task_output", {"pid": None}),
            Step("Do the work."),
            Step("Stop it, with everything that it started.", "task_stop", {"pid": None}),
        ),
        needs=("task_start", "task_stop"),
    ),
    Workflow(
        "Find out why something failed",
        (
            Step("See how the task ended.", "task_status", {"unique_name": None}),
            Step("Read its last lines.", "task_output", {"pid": None}),
        ),
    ),
)
SKILL = SkillPlan(
    name="dela-tasks",
    title="The project's own tasks",
    description=(
        "Finds, starts, watches and stops the project's own tasks: make targets, npm scripts, "
        "just recipes and the like. Use when something of the project has to be built, tested, "
        "linted, formatted or run, when a server or watcher has to be started or stopped, or when "
        "the output of a running task is wanted."
    ),
    overview={
        "What may be run": (
            "The tasks are those of the project's own files, found anew at each listing. Only "
            "tasks that a person has allowed can be started. One that is not allowed stays so: do "
            "not look for a way around, and ask the person to run `ralphgen dela allow` with its "
            "name."
        ),
        "How long things take": (
            "A start waits a moment for the end of the task. What ends in time is answered with "
            "its output and exit code; what does not goes on in the background under its pid, "
            "and is asked for later. Everything that was started ends with the session."
        ),
    },
    workflows=WORKFLOWS,
)
