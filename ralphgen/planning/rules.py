"""Checks recipes against the rules of the project: `[policy.rules]`."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from ralphgen.errors import Problem
from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import PROFILES, RecipePlan
from ralphgen.project.model import PolicyRule
from ralphgen.runtime.policy import WHOLE, Grants
from ralphgen.suggestion import suggestion


def rule_problems(
    rules: Sequence[PolicyRule], recipes: Mapping[str, RecipePlan], catalog: Catalog
) -> Iterator[Problem]:
    """Yield a problem for each tool that breaks a rule, and for each rule without any effect.

    A rule for an unknown recipe or unknown tools is a problem, so that a typo does not look like a
    rule that holds.
    """
    for rule in rules:
        if rule.recipe not in recipes:
            text = f'{rule.origin}: there is no recipe "{rule.recipe}"'
            yield Problem(text, suggestion(rule.recipe, recipes, "the recipes"))
            continue
        for kit, names in recipes[rule.recipe].tools.items():
            has = Grants("", dict.fromkeys(names, WHOLE))
            allowed = _allowed(rule, kit, names)
            if not has <= allowed:
                for (name, _), pattern in (has & allowed).removed.items():
                    yield _broken(rule, pattern, f"{kit}:{name}")
        for pattern in rule.never:
            if not any(
                _matches(pattern, kit, name)
                for kit, names in catalog.tools.items()
                for name in names
            ):
                yield _meaningless(rule, pattern, catalog)


def _allowed(rule: PolicyRule, kit: str, names: Sequence[str]) -> Grants:
    """Return the tools of a kit that a rule allows; the others have their pattern as the reason."""
    patterns = {
        (name, ""): pattern
        for pattern in reversed(rule.never)
        for name in names
        if _matches(pattern, kit, name)
    }
    allowed = [name for name in names if (name, "") not in patterns]
    return Grants("", dict.fromkeys(allowed, WHOLE), patterns)


def _matches(pattern: str, kit: str, tool: str) -> bool:
    return fnmatchcase(f"{kit}:{tool}" if ":" in pattern else tool, pattern)


def _meaningless(rule: PolicyRule, pattern: str, catalog: Catalog) -> Problem:
    kit, colon, _ = pattern.partition(":")
    if colon and not any(fnmatchcase(known, kit) for known in catalog.tools):
        text = f'{rule.origin}: no kit matches "{pattern}"'
        return Problem(text, suggestion(kit, catalog.tools, "the kits"))
    unknown = catalog.unknown(pattern, rule.origin)
    return Problem(f'{rule.origin}: no tool matches "{pattern}"', unknown.hint)


def _broken(rule: PolicyRule, pattern: str, tool: str) -> Problem:
    text = (
        f'{rule.origin}: the recipe "{rule.recipe}" has "{tool}", which a rule '
        f'forbids ("{pattern}")'
    )
    if rule.recipe in PROFILES:
        hint = (
            "remove the recipe from the settings of the tool, use a custom recipe without it, "
            "or change the rule"
        )
    else:
        hint = f'remove it from "allow" in the recipe "{rule.recipe}", or change the rule'
    return Problem(text, hint)
