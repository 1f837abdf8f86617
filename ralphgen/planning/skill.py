"""What agents are told of a kit as a whole: its Agent Skill, as far as no schema holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a workflow: a sentence, and the tool that is called for it, if any.

    `given` holds the arguments that the step is about: by name the value, or None for any.
    """

    text: str
    tool: str = ""
    given: Mapping[str, str | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workflow:
    """A sequence of calls with a title; without the tools in `needs` it makes no sense."""

    title: str
    steps: tuple[Step, ...]
    needs: Names = ()


@dataclass(frozen=True, slots=True)
class SkillPlan:
    """The Agent Skill of a kit, as far as no schema holds it: words that name no tool of their own.

    `description` is in the third person and says what the skill does and when to use it: all that
    an agent sees before it is loaded. `overview` holds Markdown by heading. What is said of a tool
    stands in its `ToolPlan`. `variables` are those that the server heeds in its environment, with a
    sentence each.
    """

    name: str
    title: str
    description: str
    overview: Mapping[str, str]
    workflows: tuple[Workflow, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
