"""The eleven tools of specum: what they take, and which sessions have them."""

from collections.abc import Mapping

from ralphgen.planning.model import PROFILES, Argument, JsonObject, Names, ToolPlan

BOOLEAN: JsonObject = {"type": "boolean"}
CREATES = "ralph:create_task"  # whoever may not do that may not import tasks either
SPEC = Argument(
    "spec_name", {"type": "string", "description": "Spec name (defaults to current spec)"}
)
PHASES = ["research", "requirements", "design", "tasks"]


def _phase(phase: str, description: str) -> ToolPlan:
    """The tool that hands out what to do in a phase."""
    return ToolPlan(
        f"ralph_{phase}",
        "phases",
        description,
        "CHANGES",
        (SPEC,),
        {},
        search_hint="spec-driven development, plan a feature",
    )


TOOLS = (
    ToolPlan(
        "ralph_start",
        "workflow",
        "Start a spec: a goal, worked out from research to tasks, then carried out.",
        "ADDS",
        (
            Argument("name", {"type": "string", "description": "Spec name in kebab-case"}),
            Argument("goal", {"type": "string", "description": "Goal description for the spec"}),
            Argument(
                "quick",
                {
                    "type": "boolean",
                    "description": "Skip interactive phases, generate artifacts directly",
                },
            ),
        ),
        {},
        search_hint="spec-driven development, plan a feature, begin",
    ),
    ToolPlan(
        "ralph_status",
        "workflow",
        "Show all specs with their phase and progress.",
        "READS",
        (),
        {},
        search_hint="specs, where are we",
    ),
    ToolPlan(
        "ralph_switch",
        "workflow",
        "Make another spec the current one.",
        "CHANGES",
        (
            Argument(
                "name", {"type": "string", "description": "Spec name to switch to"}, required=True
            ),
        ),
        {},
    ),
    ToolPlan(
        "ralph_cancel",
        "workflow",
        "Cancel a spec: its state is deleted, its files are kept.",
        "DELETES",
        (
            SPEC,
            Argument(
                "delete_files",
                {"type": "boolean", "description": "Delete spec directory entirely"},
            ),
        ),
        {},
    ),
    ToolPlan(
        "ralph_complete_phase",
        "workflow",
        "Complete the current phase of a spec and move to the next one.",
        "ADDS",
        (
            SPEC,
            Argument(
                "phase",
                {"type": "string", "enum": PHASES, "description": "Phase being completed"},
                required=True,
            ),
            Argument(
                "summary",
                {"type": "string", "description": "Brief summary of phase completion"},
                required=True,
            ),
            Argument(
                "import_tasks",
                {
                    "type": "boolean",
                    "description": "With phase tasks: make a task of the project of each, once",
                },
                needs=CREATES,
            ),
            Argument(
                "feature",
                {"type": "string", "description": "With import_tasks: their feature"},
                needs=CREATES,
            ),
            Argument(
                "discipline",
                {"type": "string", "description": "With import_tasks: their discipline"},
                needs=CREATES,
            ),
        ),
        {},
    ),
    ToolPlan(
        "ralph_help",
        "workflow",
        "Explain the spec-driven workflow and its tools.",
        "READS",
        (),
        {},
    ),
    _phase("research", "Get the instructions for the research phase of a spec."),
    _phase("requirements", "Get the instructions for the requirements phase of a spec."),
    _phase("design", "Get the instructions for the design phase of a spec."),
    _phase("tasks", "Get the instructions for planning the tasks of a spec."),
    ToolPlan(
        "ralph_implement",
        "phases",
        "Get the next open task of the current spec, with the instructions to carry it out.",
        "ADDS",
        (
            Argument(
                "max_iterations",
                {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 100,
                    "description": "Maximum task retries before blocking; 5 if left out",
                },
            ),
        ),
        {},
        search_hint="next task of the spec, execute",
    ),
)
EVERY: Names = tuple(tool.name for tool in TOOLS)
LOOKS: Names = ("ralph_status", "ralph_help")
PLANS: Names = tuple(name for name in EVERY if name != "ralph_implement")
EXECUTES: Names = tuple(
    name for name in EVERY if name in {*LOOKS, "ralph_implement", "ralph_complete_phase"}
)
KEPT: Mapping[str, Names] = {
    **dict.fromkeys(("braindump", "yap", "ramble", "enrichment"), PLANS),
    "task_execution": EXECUTES,
    "manual": EVERY,
}
PROFILED: Mapping[str, Names] = {profile: KEPT.get(profile, LOOKS) for profile in PROFILES}
"""By kind of session, the names of its tools."""


def narrow(profile: str, tool: ToolPlan) -> Names | None:
    """The arguments that a kind of session keeps of a tool: only a person deletes files."""
    if tool.name == "ralph_cancel" and profile != "manual":
        return tuple(
            argument.name for argument in tool.arguments if argument.name != "delete_files"
        )
    return None
