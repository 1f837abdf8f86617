"""Spells the policy of a project so that a change of one name is a diff of one line."""

from collections.abc import Mapping, Sequence
from typing import Any

from ralphgen.planning.model import Names
from ralphgen.runtime.policy import ALL, FULL, Policy, Recipe
from ralphgen.spelling import Lines, Value


def policy_lines(policy: Policy, every: Mapping[str, Names]) -> dict[str, Any]:
    """Return the policy with one name a line, so that a change of one is a diff of one line.

    Where a person's own sessions have every tool of a kit, one word says so: for them alone, so
    that what an agent gets is always a diff.
    """
    recipes = {name: _recipe_lines(recipe) for name, recipe in policy.recipes.items()}
    recipes[FULL]["tools"] = Lines(
        {
            kit: ALL if names == every[kit] else Lines(list(names))
            for kit, names in policy.recipes[FULL].tools.items()
        }
    )
    return {
        "recipes": recipes,
        "removed_tools": _nested(policy.removed_tools),
        "grants": any(recipe.granted_by for recipe in policy.recipes.values()),
        "absent": Lines({kit: Lines(reasons) for kit, reasons in policy.absent.items()}),
    }


def _recipe_lines(recipe: Recipe) -> dict[str, Value]:
    """Return what a recipe leaves, without what nothing is said of."""
    spelled: dict[str, Value] = {
        "tools": _one_a_line(recipe.tools),
        "base": recipe.base,
        "targets": recipe.targets,
        "narrowed_arguments": _one_a_line(recipe.narrowed_arguments),
        "narrowed_values": _nested(recipe.narrowed_values),
        "bound_arguments": Lines(recipe.bound_arguments),
        "granted_by": _one_a_line(recipe.granted_by),
        "loaded_first": Lines(recipe.loaded_first),
    }
    return {name: value for name, value in spelled.items() if getattr(recipe, name)}


def _nested(mapping: Mapping[str, Mapping[str, Sequence[str]]]) -> Value:
    return Lines({name: _one_a_line(members) for name, members in mapping.items()})


def _one_a_line(mapping: Mapping[str, Sequence[str]]) -> Value:
    return Lines({name: Lines(list(names)) for name, names in mapping.items()})
