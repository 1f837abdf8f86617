"""The whole plan of a project: every kit that is on, and the policy over them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.planning.additions import with_additions
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.kit import KitDefinition
from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.planning.policy import override_warnings, plan_policy
from ralphgen.planning.sentences import with_own_words
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.model import Project, project_facts


def plan_server(project: Project, kits: Sequence[KitDefinition]) -> ServerPlan:
    """Return what to emit for a project; `kits` are all that ralphgen has.

    Raises `ProjectError` with every problem that lies between the facts: names of tools and
    recipes that mean nothing.
    """
    planned = tuple(_planned(project, kits))
    if project.done is not None and not any(kit.proves for kit in planned):
        text = f"{CONFIG}: checks are configured, but no enabled kit has tasks"
        raise ProjectError(text, "enable a kit with tasks, or remove the checks")
    catalog = full_catalog(kits, planned)
    planned, wordings = with_own_words(planned, project.replaced, catalog)
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
            *(f"{problem.text}: its sessions cannot start" for problem in project.unusable_servers),
            *(line for kit in planned for line in kit.warnings),
            *(line for _, line in overrides),
        ),
        overrides=overrides,
        wordings=wordings,
        tables=tuple(table.name for table in project.tables),
        reads=project.queries.reads if project.queries else {},
        views=project.schema.views,
        engine=project.engine,
        http=_http_settings(project, planned),
    )


def full_catalog(kits: Sequence[KitDefinition], planned: Sequence[KitPlan]) -> Catalog:
    """Return every name of a tool: those of all kits, and those that the project itself adds."""
    names = {kit.key: dict.fromkeys(kit.catalog) for kit in kits}
    for kit in planned:
        names[kit.key].update(dict.fromkeys((*(tool.name for tool in kit.tools), *kit.absent)))
    return Catalog({key: tuple(found) for key, found in names.items()})


def _planned(project: Project, kits: Sequence[KitDefinition]) -> Iterator[KitPlan]:
    """Yield the servers of the kits that are on, the first that takes additions with all of them.

    Each addition sees those before it.
    """
    waits = True
    for kit in kits:
        if kit.key not in project.kits:
            continue
        plan = kit.plan(project)
        if kit.additions and not waits:
            text = f'{CONFIG}: "kits" contains "{kit.key}", but another kit already has its tools'
            raise ProjectError(text, f'remove "{kit.key}" from "kits"')
        if kit.additions:
            waits = False
            for add in kit.additions:
                plan = with_additions(plan, [add(project, plan)])
        yield plan


def _http_settings(project: Project, kits: Sequence[KitPlan]) -> dict[str, Any] | None:
    """Return how the project is served over HTTP, None where it is not.

    Raises `ProjectError` where no kit can be, and where tokens could not name the project.
    """
    if not project.http:
        return None
    settings = json.loads(project.http)
    served = {kit.key: kit.http for kit in kits if kit.http is not None}
    if not served:
        text = f"{CONFIG}: [http] is configured, but no enabled kit supports it"
        raise ProjectError(text, "enable a kit with tasks, or remove [http]")
    if settings["id"] is None:
        text = f'{CONFIG}: [http] has no "id", which tokens require'
        raise ProjectError(text, 'run "ralphgen regen", which writes one')
    return {
        **settings,
        "engine": project.engine,
        "database": project.database_named,
        "kits": {
            key: {
                "withheld": use.withheld,
                "withheld_values": use.withheld_values,
            }
            for key, use in served.items()
        },
    }
