"""The eleven tools of specum."""

from dataclasses import replace

from ralphgen.planning.model import RECIPES, Names, ToolPlan, choice, typed

PLANNING: Names = ("braindump", "yap", "ramble", "enrichment")
"""The recipes whose sessions work specs out."""
EXECUTING = "task_execution"
CREATES = "ralph:create_task"  # whoever may not do that may not import tasks either
SPEC = typed("spec_name", "string", "Spec name (defaults to current spec)")
NAME = replace(
    typed("name", "string", "Spec name in kebab-case", pattern="^[a-z0-9-]+$"),
    refusal='invalid spec name {value} in "name": use a-z, 0-9 and hyphens, such as "export-csv"',
)
PHASES: Names = ("research", "requirements", "design", "tasks")


def _phase(phase: str, description: str, purpose: str) -> ToolPlan:
    """Return the tool that hands out what to do in a phase."""
    return ToolPlan(
        f"ralph_{phase}",
        module="phases",
        hints="IDEMPOTENT",
        description=description,
        arguments=(SPEC,),
        search_hint="spec-driven development, plan a feature",
        recipes=PLANNING,
        instruction="{tools}: what to do in that phase; do it, and write its file.",
        purpose=purpose,
        answer="the instructions of the phase, with what is known of the spec so far",
    )


TOOLS = (
    ToolPlan(
        "ralph_start",
        module="workflow",
        hints="NON_DESTRUCTIVE",
        description="Start a spec: a goal, worked out from research to tasks, then carried out.",
        arguments=(
            NAME,
            typed("goal", "string", "Goal description for the spec"),
            typed(
                "quick",
                "boolean",
                "Skip interactive phases, generate artifacts directly",
                default=False,
            ),
        ),
        search_hint="spec-driven development, plan a feature, begin",
        recipes=PLANNING,
        instruction="ralph_start begins one with a goal.",
        purpose="begin a spec, or begin again one that has lost its state",
        answer="the name, the folder and the phase of the spec, and what to do next",
        instead={"ralph_switch": "work on another spec that is there"},
    ),
    ToolPlan(
        "ralph_status",
        module="workflow",
        hints="READ_ONLY",
        description="Show all specs with their phase and progress.",
        search_hint="specs, where are we",
        recipes=RECIPES,
        instruction="ralph_status shows how the specs stand.",
        purpose="see which specs there are and how far each is",
        answer="the specs with phase and progress, the current one marked",
    ),
    ToolPlan(
        "ralph_switch",
        module="workflow",
        hints="IDEMPOTENT",
        description="Make another spec the current one.",
        arguments=(typed("name", "string", "Spec name to switch to", required=True),),
        recipes=PLANNING,
        instruction="ralph_switch makes another one the current spec.",
        purpose="make another spec the one that all calls are about",
        answer="the spec that is current now",
    ),
    ToolPlan(
        "ralph_cancel",
        module="workflow",
        hints="DESTRUCTIVE",
        description="Cancel a spec: its state is deleted, its files are kept.",
        arguments=(
            SPEC,
            typed("delete_files", "boolean", "Delete spec directory entirely", default=False),
        ),
        recipes=PLANNING,
        reserved={"delete_files": ()},
        instruction="ralph_cancel ends one early.",
        purpose="give a spec up, at a person's wish",
        answer="what was removed and what was kept",
    ),
    ToolPlan(
        "ralph_complete_phase",
        module="workflow",
        hints="NON_DESTRUCTIVE",
        description="Complete the current phase of a spec and move to the next one.",
        arguments=(
            SPEC,
            choice("phase", PHASES, "Phase being completed", required=True),
            typed("summary", "string", "Brief summary of phase completion", required=True),
            typed(
                "import_tasks",
                "boolean",
                "With phase tasks: make a task of the project of each, once",
                needs=CREATES,
            ),
            typed("feature", "string", "With import_tasks: their feature", needs=CREATES),
            typed("discipline", "string", "With import_tasks: their discipline", needs=CREATES),
        ),
        recipes=(*PLANNING, EXECUTING),
        instruction="ralph_complete_phase ends a phase with a summary.",
        purpose="end a phase, once its file is written and agreed on",
        answer="the phase that comes next, and what to do for it",
    ),
    ToolPlan(
        "ralph_help",
        module="workflow",
        hints="READ_ONLY",
        description="Explain the spec-driven workflow and its tools.",
        recipes=RECIPES,
        instruction="ralph_help explains the workflow.",
        purpose="look the workflow up",
        answer="the workflow and its tools, explained",
    ),
    _phase(
        "research",
        "Get the instructions for the research phase of a spec.",
        "find out what is feasible before anything is decided",
    ),
    _phase(
        "requirements",
        "Get the instructions for the requirements phase of a spec.",
        "write down what has to be true in the end",
    ),
    _phase(
        "design", "Get the instructions for the design phase of a spec.", "decide how it is built"
    ),
    _phase(
        "tasks",
        "Get the instructions for planning the tasks of a spec.",
        "cut the design into tasks that can be checked",
    ),
    ToolPlan(
        "ralph_implement",
        module="phases",
        hints="NON_DESTRUCTIVE",
        description=(
            "Get the next open task of the current spec, with the instructions to carry it out."
        ),
        arguments=(
            typed(
                "max_iterations",
                "integer",
                "Maximum task retries before blocking",
                default=5,
                minimum=1,
                maximum=100,
            ),
        ),
        search_hint="next task of the spec, execute",
        recipes=(EXECUTING,),
        loaded_first=(EXECUTING,),
        instruction=(
            "ralph_implement hands out the next task: do it, tick its box, and call it again until "
            "it answers ALL_TASKS_COMPLETE."
        ),
        purpose="carry the tasks of the current spec out, one after the other",
        answer="the next open task with its instructions, or that all of them are complete",
    ),
)
