"""What the skill of the kit specum says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, Workflow


def _phase(tool: str, phase: str) -> tuple[Step, Step]:
    """Return the two calls of a phase: what to do, and that it is done."""
    return (
        Step(f"Get the instructions, do the work and write {phase}.md.", tool),
        Step(
            "After the user approves it, complete the phase with a summary.",
            "ralph_complete_phase",
            {"phase": phase, "summary": None},
        ),
    )


WORKFLOWS = (
    Workflow(
        "Take a goal from research to tasks",
        (
            Step("Start with a one-sentence goal.", "ralph_start", {"name": None, "goal": None}),
            *_phase("ralph_research", "research"),
            *_phase("ralph_requirements", "requirements"),
            *_phase("ralph_design", "design"),
            *_phase("ralph_tasks", "tasks"),
        ),
        needs=("ralph_start", "ralph_complete_phase"),
    ),
    Workflow(
        "Execute a spec",
        (
            Step("Get the next task.", "ralph_implement"),
            Step("Do the task, run its verification, and tick its box in tasks.md."),
            Step("Repeat until all tasks are complete.", "ralph_implement"),
        ),
        needs=("ralph_implement",),
    ),
    Workflow(
        "Resume earlier work",
        (
            Step("List the specs and their phases.", "ralph_status"),
            Step("Switch to the right one.", "ralph_switch", {"name": None}),
            Step("Continue its phase as above."),
        ),
        needs=("ralph_switch",),
    ),
)
SKILL = SkillPlan(
    name="specum-workflow",
    title="Spec-driven workflow",
    description=(
        "Guides spec-driven development: turns a goal into research, requirements, a design and "
        "tasks, then works through the tasks. Use when the user wants to plan a feature before "
        "building it, to start, continue or execute a spec, or to see its progress."
    ),
    overview={
        "The phases": (
            "| phase | content | file |\n|---|---|---|\n| research | current state, feasibility, "
            "risks | research.md |\n| requirements | user stories, acceptance criteria, "
            "exclusions | requirements.md |\n| design | parts, interfaces, decisions and their "
            "reasons | design.md |\n| tasks | small steps, each with files and a check | "
            "tasks.md |\n| execution | the tasks in order, each verified | boxes in tasks.md "
            "|\n\nThe files are in specs/, one directory per spec. A phase starts when the "
            "previous one is complete. Calls apply to the current spec unless they name another."
        ),
    },
    workflows=WORKFLOWS,
)
