"""What a project with checks has besides: a tool that runs them, and a person's own word."""

from dataclasses import replace

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.table_tool import TableTool
from ralphgen.planning.model import Argument, HttpUse, KitPlan, Module, PlannedTool, typed
from ralphgen.project.lookup import CONFIG
from ralphgen.project.model import Project, done_facts
from ralphgen.runtime.tool import INTEGER, OPEN_WORLD
from ralphgen.spelling import Lines, Value

RUN_CHECKS = TableTool(
    "run_checks",
    module="checks",
    hints=OPEN_WORLD,
    description="Run the checks of a task, which must pass before it is done. May take minutes.",
    arguments=(Argument("task", INTEGER, required=True),),
    answer_shape="checks",
    search_hint="test, lint, verify, prove a task",
    recipes=("task_execution", "opus_review"),
    loaded_first_in=("task_execution", "opus_review"),
    closes=True,
    bound={"task": "own task"},
    instruction="checks: {tools}",
    advice="done is refused until run_checks passes on the current files.",
    purpose="prove that a task is done before you close it",
    answer="the exit code and last output of each check",
    instead={"set_task_status": "closing the task afterwards"},
)
RUNNER = "dela"  # the kit whose tasks a check may name
NO_CHECKS = "its server was generated without [[done.checks]]"
BECAUSE = typed("because", "string", "Why the user closes it without proof.")

# Checks run where the agent's files are; whoever has done a task says so there too.
REMOTE = HttpUse((RUN_CHECKS.name,), {"set_task_status": {"status": ("done",)}})


def with_proof(kit: KitPlan, project: Project) -> KitPlan:
    """Return the kit as the project's checks make it: its workspace is opened with them.

    Raises `ProjectError` for a check that is a task of a kit which is off.
    """
    done = project.done
    if done is None:
        return kit
    for check in done.checks:
        if check.dela and RUNNER not in project.kits:
            text = f'{CONFIG}: the check "{check.name}" names a task of the kit "{RUNNER}"'
            raise ProjectError(f"{text}, which is off", f'add "{RUNNER}" to "kits"')
    facts = done_facts(done)
    checks: list[Value] = [Lines(check) for check in facts["checks"]]
    rules = {"checks": Lines(checks), **{key: Lines(facts[key]) for key in ("protect", "watch")}}
    title = "The checks of a task; fixed in each session's context."
    values = {"title": title, "constants": [("DONE", Lines(rules))]}
    return replace(
        kit,
        tools=tuple(map(_overruled, kit.tools)),
        modules=(*kit.modules, Module(f"{kit.key}/done.py", "server/constants.py.jinja", values)),
        workspace=(*kit.workspace, ("done", "DONE")),
        http=REMOTE,
        proves=True,
    )


def _overruled(tool: PlannedTool) -> PlannedTool:
    """Return set_task_status with what lets a person close a task without proof."""
    if tool.name != "set_task_status":
        return tool
    arguments = (*tool.arguments, BECAUSE)
    reserved = {**tool.reserved, BECAUSE.name: ()}
    return replace(tool, arguments=arguments, reserved=reserved, signed=(BECAUSE.name,))
