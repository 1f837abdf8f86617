"""The whole plan of a project: every kit that is on, and the policy over them."""

from collections.abc import Sequence

from ralphgen.planning.catalog import Catalog
from ralphgen.planning.kit import Kit
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.policy import override_warnings, plan_policy
from ralphgen.project.model import Project, project_facts


def plan_server(project: Project, kits: Sequence[Kit]) -> ServerPlan:
    """Return what to emit for a project; `kits` are all that ralphgen has.

    Raises `ProjectError` with every problem that lies between the facts: names of tools and
    recipes that mean nothing.
    """
    planned = tuple(kit.plan(project) for kit in kits if kit.key in project.kits)
    catalog = Catalog({kit.key: kit.catalog for kit in kits})
    policy = plan_policy(project, planned, catalog)
    removals = (*project.stored_removals, *project.configured_removals)
    overrides = tuple(override_warnings(removals, policy.recipes, planned, catalog))
    return ServerPlan(
        kits=planned,
        policy=policy,
        structured_output=project.structured_output,
        schema_fingerprint=project.schema.fingerprint,
        hide=project.schema.hide,
        facts=project_facts(project),
        warnings=(
            *project.warnings,
            *(line for kit in planned for line in kit.warnings),
            *(line for _, line in overrides),
        ),
        overrides=overrides,
    )
