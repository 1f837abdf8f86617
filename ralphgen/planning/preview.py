"""The answer to `tools/list` in each kind of session, computed without starting a server."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ralphgen.planning.model import KitPlan, ServerPlan
from ralphgen.runtime.policy import FULL, OPTIONAL, Policy
from ralphgen.runtime.protocol.answers import add_schemas
from ralphgen.runtime.session import BY_COMMAND, ROWS, Session
from ralphgen.runtime.tool import Tool

MOST_BYTES = 25_000  # of a list of tools, which an agent reads in each turn
# Example rows for sessions about a row, if only the size of the answer matters.
EXAMPLES: Mapping[str, int | str] = {"task": 1, "feature": "name", "discipline": "name"}


def listed_tools(
    plan: ServerPlan,
    recipe: str,
    kit: KitPlan,
    *,
    discipline: str | None = None,
    rows: Mapping[str, int | str] | None = None,
) -> list[dict[str, Any]]:
    """Return the tools of a kit as a session of the recipe receives them, in order.

    `discipline` is the agent's, and `rows` the rows of the session, by kind. The default for `rows`
    is made-up rows for the kinds that the recipe needs.
    """
    session = supposed_session(plan.policy, recipe, kit.key, discipline=discipline, rows=rows)
    return entries_of(plan, kit, session.tools(kit.tools).values())


def entries_of(plan: ServerPlan, kit: KitPlan, tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Return tools as `tools/list` shows them to a client that does not ask for schemas."""
    entries = [tool.entry() for tool in tools]
    if plan.structured_output is True:
        add_schemas(entries, kit.answers)
    return entries


def supposed_session(
    policy: Policy,
    recipe: str,
    kit: str,
    *,
    discipline: str | None = None,
    rows: Mapping[str, int | str] | None = None,
) -> Session:
    """Return a session of the recipe without a context (see `listed_tools`).

    A session with every tool is the user's own.
    """
    about = needed_rows(policy, recipe) if rows is None else rows
    facts = {
        "session_id": "",
        "recipe": recipe,
        "discipline": discipline,
        **{key: about.get(kind) for kind, key in ROWS.items()},
        **({"user": BY_COMMAND} if policy.profile(recipe) == FULL else {}),
    }
    return Session(kit, facts, recipe, policy, None)


def listed_bytes(tools: list[dict[str, Any]]) -> int:
    """Return the bytes of the tools in the answer to `tools/list`, as compact JSON."""
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())


def long_lists(plan: ServerPlan) -> list[str]:
    """Return a sentence for each kit whose list of tools is long in a recipe, with the bytes."""
    found = []
    for kit in plan.kits:
        sizes = {
            recipe: listed_bytes(listed_tools(plan, recipe, kit)) for recipe in plan.policy.recipes
        }
        long = [f"{recipe} {size:,}" for recipe, size in sizes.items() if size > MOST_BYTES]
        if long:
            found.append(
                f'the tools of server "{kit.key}" take more than {MOST_BYTES:,} bytes in '
                f"{', '.join(long)}: agents read them in every turn, so remove "
                "unneeded tools"
            )
    return found


def needed_rows(policy: Policy, recipe: str) -> dict[str, int | str]:
    """Return made-up rows of the kinds without which a session of the recipe could do less."""
    kinds = [kind for kind, need in policy.targets(recipe).items() if need != OPTIONAL]
    brought = ["feature"] if "task" in kinds else []
    granting = [kind for one in policy.recipes[recipe].granted_by.values() for kind in one]
    return {kind: EXAMPLES[kind] for kind in (*kinds, *brought, *granting)}
