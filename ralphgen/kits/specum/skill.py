"""What the skill of the kit specum says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan, Step, Workflow


def _phase(tool: str, phase: str) -> tuple[Step, Step]:
    """Return the two calls of a phase: what to do, and that it is done."""
    return (
        Step(f"Get the instructions, do the work and write {phase}.md.", tool),
        Step(
            "When it is agreed on, end the phase with a summary.",
            "ralph_complete_phase",
            {"phase": phase, "summary": None},
        ),
    )


WORKFLOWS = (
    Workflow(
        "Take a goal from research to tasks",
        (
            Step("Begin, with a goal in a sentence.", "ralph_start", {"name": None, "goal": None}),
            *_phase("ralph_research", "research"),
            *_phase("ralph_requirements", "requirements"),
            *_phase("ralph_design", "design"),
            *_phase("ralph_tasks", "tasks"),
        ),
        needs=("ralph_start", "ralph_complete_phase"),
    ),
    Workflow(
        "Carry a spec out",
        (
            Step("Get the next task.", "ralph_implement"),
            Step("Do what it says, verify it as it says, and tick its box in tasks.md."),
            Step("Call again, until the answer is that all tasks are complete.", "ralph_implement"),
        ),
        needs=("ralph_implement",),
    ),
    Workflow(
        "Go on with work that was begun earlier",
        (
            Step("See the specs and their phases.", "ralph_status"),
            Step("Make the right one current.", "ralph_switch", {"name": None}),
            Step("Go on in its phase, as above."),
        ),
        needs=("ralph_switch",),
    ),
)
SKILL = SkillPlan(
    name="specum-workflow",
    title="Spec-driven workflow",
    description=(
        "Guides spec-driven development: a goal is worked out in research, requirements, design "
        "and tasks, then carried out task by task. Use when a feature is to be planned before it "
        "is built, when a spec is to be started, continued or carried out, or when somebody asks "
        "how far a spec is."
    ),
    overview={
        "The phases": (
            "| phase | what happens | file |\n"
            "|---|---|---|\n"
            "| research | what exists, what is feasible, what is risky | research.md |\n"
            "| requirements | user stories, acceptance criteria, what is left out "
            "| requirements.md |\n"
            "| design | parts, interfaces, decisions and their reasons | design.md |\n"
            "| tasks | small steps, each with files and a check | tasks.md |\n"
            "| execution | one task after the other, each verified | boxes in tasks.md |\n\n"
            "The files lie in specs/, in a folder for each spec. A phase begins when the one "
            "before it is complete. One spec is the current one, and calls are about it unless "
            "they name another."
        ),
    },
    workflows=WORKFLOWS,
)
