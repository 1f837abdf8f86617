"""`[policy.rules]`: what the project says that no session of a recipe may ever have."""

from collections.abc import Callable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.project.config_values import Name
from ralphgen.project.model import PolicyRule


class RuleSettings(BaseModel):
    """`[policy.rules] NAME = { never = […] }`: tools that the recipe NAME never has.

    An entry is a pattern for the name of a tool, as `tool` or `kit:tool`, with `*`, `?` and `[…]`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    never: Annotated[list[Name], Field(min_length=1)]


class PolicySettings(BaseModel):
    """`[policy]`: rules over all that decides which tools a session has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rules: dict[str, RuleSettings] = {}


def policy_rules(settings: PolicySettings, place: Callable[..., str]) -> tuple[PolicyRule, ...]:
    """Return the rules by name of the recipe, sorted; `place` says where a key of the config is."""
    return tuple(
        PolicyRule(recipe, tuple(sorted({*rule.never})), place("policy", "rules", recipe))
        for recipe, rule in sorted(settings.rules.items())
    )
