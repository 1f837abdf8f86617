"""The eleven tools of specum."""

from dataclasses import replace

from ralphgen.planning.model import RECIPES, Names, PlannedTool, choice, typed
from ralphgen.runtime.tool import DESTRUCTIVE, IDEMPOTENT, NON_DESTRUCTIVE, READ_ONLY

PLANNING: Names = ("braindump", "yap", "ramble", "enrichment")
"""The recipes whose sessions work specs out."""
EXECUTING = "task_execution"
CREATES = "ralph:create_task"  # importing tasks requires this tool
SPEC = typed("spec_name", "string", "Spec name (defaults to current spec)")
NAME = replace(
    typed("name", "string", "Spec name in kebab-case", pattern="^[a-z0-9-]+$"),
    refusal='invalid spec name {value} in "name": use a-z, 0-9 and hyphens, such as "export-csv"',
)
PHASES: Names = ("research", "requirements", "design", "tasks")


def _phase(phase: str, description: str, purpose: str) -> PlannedTool:
    """Return the tool that hands out what to do in a phase."""
    return PlannedTool(
        f"ralph_{phase}",
        module="phases",
        hints=IDEMPOTENT,
        description=description,
        arguments=(SPEC,),
        search_hint="spec-driven development, plan a feature",
        recipes=PLANNING,
        instruction="{tools}: follow that phase's instructions, write its file.",
        purpose=purpose,
        answer="the instructions for the phase, with the context of the spec so far",
    )


TOOLS = (
    PlannedTool(
        "ralph_start",
        module="workflow",
        hints=NON_DESTRUCTIVE,
        description="Start a spec, from a goal through research and design to tasks.",
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
        instruction="ralph_start starts one from a goal.",
        purpose="start a spec, or restart one without state",
        answer="the name, directory and phase of the spec, and the next step",
        instead={"ralph_switch": "work on another existing spec"},
    ),
    PlannedTool(
        "ralph_status",
        module="workflow",
        hints=READ_ONLY,
        description="Show all specs with their phase and progress.",
        search_hint="specs, progress, phase",
        recipes=RECIPES,
        instruction="ralph_status shows each spec's progress.",
        purpose="list the specs and their progress",
        answer="the specs with their phase and progress, and which one is current",
    ),
    PlannedTool(
        "ralph_switch",
        module="workflow",
        hints=IDEMPOTENT,
        description="Switch to another spec.",
        arguments=(typed("name", "string", "Spec name to switch to", required=True),),
        recipes=PLANNING,
        instruction="ralph_switch switches to another spec.",
        purpose="make another spec the default for all calls",
        answer="the new current spec",
    ),
    PlannedTool(
        "ralph_cancel",
        module="workflow",
        hints=DESTRUCTIVE,
        description="Cancel a spec: delete its state, keep its files.",
        arguments=(
            SPEC,
            typed("delete_files", "boolean", "Delete spec directory entirely", default=False),
        ),
        recipes=PLANNING,
        reserved={"delete_files": ()},
        instruction="ralph_cancel cancels one.",
        purpose="abandon a spec at the user's request",
        answer="the removed and the kept files",
    ),
    PlannedTool(
        "ralph_complete_phase",
        module="workflow",
        hints=NON_DESTRUCTIVE,
        description="Complete the current phase of a spec and move to the next one.",
        arguments=(
            SPEC,
            choice("phase", PHASES, "Phase being completed", required=True),
            typed("summary", "string", "Brief summary of phase completion", required=True),
            typed(
                "import_tasks",
                "boolean",
                "With phase tasks: create a project task for each, once",
                needs=CREATES,
            ),
            typed("feature", "string", "With import_tasks: their feature", needs=CREATES),
            typed("discipline", "string", "With import_tasks: their discipline", needs=CREATES),
        ),
        recipes=(*PLANNING, EXECUTING),
        instruction="ralph_complete_phase ends a phase with a summary.",
        purpose="complete a phase after its file is written and approved",
        answer="the next phase and the tool to call",
    ),
    PlannedTool(
        "ralph_help",
        module="workflow",
        hints=READ_ONLY,
        description="Explain the spec-driven workflow and its tools.",
        recipes=RECIPES,
        instruction="ralph_help explains the workflow.",
        purpose="look up the workflow",
        answer="an explanation of the workflow and its tools",
    ),
    _phase(
        "research",
        "Get the instructions for the research phase of a spec.",
        "check feasibility before deciding anything",
    ),
    _phase(
        "requirements",
        "Get the instructions for the requirements phase of a spec.",
        "write down the requirements",
    ),
    _phase("design", "Get the instructions for the design phase of a spec.", "design the solution"),
    _phase(
        "tasks",
        "Get the instructions for planning the tasks of a spec.",
        "split the design into verifiable tasks",
    ),
    PlannedTool(
        "ralph_implement",
        module="phases",
        hints=NON_DESTRUCTIVE,
        description="Get the next open task of the current spec, with instructions.",
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
        loaded_first_in=(EXECUTING,),
        instruction=(
            "ralph_implement returns the next task: do it, tick its box, and call it again until "
            "it returns ALL_TASKS_COMPLETE."
        ),
        purpose="do the tasks of the current spec in order",
        answer="the next open task with instructions, or that all are complete",
    ),
)
