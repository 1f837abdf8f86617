"""The whole plan of a project: every kit that is on, and the policy over them."""

from collections.abc import Sequence

from ralphgen.facts import project_facts
from ralphgen.model import Project
from ralphgen.planning.kit import Kit
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.policy import Catalog, plan_policy


def plan_server(project: Project, kits: Sequence[Kit]) -> ServerPlan:
    """What to emit for a project; `kits` are all that ralphgen has.

    Raises `ProjectError` with every problem that lies between the facts: names of tools and
    recipes that mean nothing.
    """
    planned = tuple(kit.plan(project) for kit in kits if kit.key in project.kits)
    catalog = Catalog({kit.key: kit.catalog for kit in kits})
    return ServerPlan(
        kits=planned,
        policy=plan_policy(project, planned, catalog),
        structured_output=project.structured_output,
        schema_fingerprint=project.schema.fingerprint,
        hide=project.schema.hide,
        facts=project_facts(project),
        warnings=(*project.warnings, *(line for kit in planned for line in kit.warnings)),
    )
