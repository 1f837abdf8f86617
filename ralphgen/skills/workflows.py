"""The workflows of a skill as far as a project has the tools, arguments and values for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.planning.model import Names, SkillPlan, Step
from ralphgen.skills.arguments import code


@dataclass(frozen=True, slots=True)
class Told:
    """One workflow as it is written: its title, and each step as a line of Markdown."""

    title: str
    steps: Names


def told_workflows(skill: SkillPlan, schemas: Mapping[str, Mapping[str, Any]]) -> tuple[Told, ...]:
    """The workflows that make sense with these input schemas, by the names of their tools.

    A step is left out where its tool is not there or does not know a value, and an argument where
    the tool does not have it.
    """
    found = []
    for workflow in skill.workflows:
        steps = tuple(_told(workflow.steps, schemas))
        if steps and all(need in schemas for need in workflow.needs):
            found.append(Told(workflow.title, steps))
    return tuple(found)


def _told(steps: Iterable[Step], schemas: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        rules = schemas.get(step.tool, {}).get("properties", {})
        if not step.tool:
            yield step.text
        elif step.tool in schemas and _knows(step, rules):
            given = [_given(name, value) for name, value in step.given.items() if name in rules]
            called = f"`{step.tool}` with {', '.join(given)}" if given else f"`{step.tool}`"
            yield f"{called}: {step.text[0].lower()}{step.text[1:]}"


def _knows(step: Step, rules: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether every value of a step is one that its argument may have."""
    return all(
        value is None or value in rules.get(name, {}).get("enum", (value,))
        for name, value in step.given.items()
    )


def _given(name: str, value: str | bool | None) -> str:
    return f"`{name}`" if value is None else f"`{name}` {code(value)}"
