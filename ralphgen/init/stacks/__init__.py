"""The default disciplines of a new project: one stack of them for each kind of application."""

import json
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources

from ralphgen.errors import UsageError

STACKS = ("generic", "desktop", "saas", "mobile", "empty")
"""The names for `load_stack`, in display order."""


@dataclass(frozen=True, slots=True)
class Discipline:
    """One agent persona, as a row of the table `disciplines` begins its life.

    `acronym` is four letters or digits, `icon` the name of a Lucide icon, `color` is `#rrggbb`;
    `conventions` is a text of bullets, one a line.
    """

    name: str
    display_name: str
    acronym: str
    icon: str
    color: str
    description: str
    system_prompt: str
    skills: tuple[str, ...]
    conventions: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The disciplines of one kind of application, in the order they are created.

    `id` is what the column `stack_id` holds.
    """

    name: str
    id: int
    title: str
    disciplines: tuple[Discipline, ...]


def load_stack(name: str) -> Stack:
    """Return the stack of that name; raises `UsageError` for a name that is not in `STACKS`."""
    if name not in STACKS:
        known = ", ".join(f'"{stack}"' for stack in STACKS)
        raise UsageError(
            f'unknown stack "{name}", expected one of {known}',
            hint='the stack "generic" fits any project',
        )
    if name == "empty":
        return Stack(name=name, id=0, title="Empty", disciplines=())
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    return Stack(
        name=name,
        id=content["id"],
        title=content["title"],
        disciplines=tuple(
            Discipline(
                **fields
                | {
                    "system_prompt": fields["system_prompt"].strip(),
                    "skills": tuple(fields["skills"]),
                    "conventions": fields["conventions"].strip(),
                }
            )
            for fields in content["disciplines"]
        ),
    )


def first_rows(
    title: str, stack: Stack, description: str = ""
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the rows of a project that begins today, each with its table."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    about = {"project_title": title, "project_description": description or None}
    yield "metadata", {"id": 1, **about, "project_created": today}
    for discipline in stack.disciplines:
        skills = json.dumps(discipline.skills, ensure_ascii=False, separators=(",", ":"))
        yield "disciplines", {**asdict(discipline), "skills": skills, "stack_id": stack.id}
