"""The project's own kinds of session: `.ralph/recipes/*.toml`."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ralphgen.errors import Problem, ProjectError
from ralphgen.files import collected, named_files
from ralphgen.project.model import OwnRecipe
from ralphgen.project.root import RECIPES
from ralphgen.project.toml import TomlFile, read_toml

SUFFIX = ".toml"
KINDS = ("task", "feature", "discipline")
LONGEST_DESCRIPTION = 200  # characters
LONGEST_PROMPT = 40_000
Name = Annotated[str, Field(min_length=1)]


def _is_line(text: str) -> str:
    """Return `text`; raise PydanticCustomError where it is no sentence on one line."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_DESCRIPTION:
        raise PydanticCustomError(
            "description", f"one line of at most {LONGEST_DESCRIPTION} characters"
        )
    return text


def _is_prompt(text: str) -> str:
    """Return `text`; raise PydanticCustomError where it says nothing or is too long to be read."""
    if not text.strip() or len(text) > LONGEST_PROMPT:
        raise PydanticCustomError(
            "prompt", f"a non-blank string of at most {LONGEST_PROMPT:,} characters"
        )
    return text


def _is_model(text: str) -> str:
    """Return `text`; raise PydanticCustomError where a client would take it for an option."""
    if not re.fullmatch(r"[^\s-]\S*", text) or not text.isprintable():
        raise PydanticCustomError("model", 'a model name without spaces or a leading "-"')
    return text


class RecipeFile(BaseModel):
    """One recipe: its `base`, and by kit the tools that it keeps of the base's.

    `narrow` holds the arguments that it keeps of a tool, `bind` the rows that a session needs.
    `description` is a sentence for people and agents, `prompt` stands in place of the base's steps,
    and `model` is the one that `launch` uses where it is asked for no other.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    base: Name
    allow: dict[str, list[Name]] = {}
    narrow: dict[str, list[Name]] = {}
    bind: list[Literal["task", "feature", "discipline"]] = []
    description: Annotated[str, AfterValidator(_is_line)] | None = None
    prompt: Annotated[str, AfterValidator(_is_prompt)] | None = None
    model: Annotated[str, AfterValidator(_is_model)] | None = None


def read_recipes(root: Path) -> tuple[OwnRecipe, ...]:
    """Return the recipes of the project in `root`, by name, which is the file's without `.toml`.

    Raises `ProjectError` with every problem of every file.
    """
    recipes: list[OwnRecipe] = []
    problems: list[Problem] = []
    for name in named_files(root, RECIPES, SUFFIX):
        path = root / RECIPES / os.fsdecode(name.encode())
        with collected(problems):
            file = read_toml(path, RecipeFile, f"{RECIPES}/{name}")
            recipes.append(_recipe(name.removesuffix(SUFFIX), file))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(recipes, key=lambda recipe: recipe.name))


def _recipe(name: str, file: TomlFile[RecipeFile]) -> OwnRecipe:
    places = {"base": file.place("base")}
    allowed = sorted(file.values.allow.items())
    for kit, tools in allowed:
        places[kit] = file.place("allow", kit)
        places |= {f"{kit}:{tool}": file.place("allow", kit, at) for at, tool in enumerate(tools)}
    allow = tuple((kit, tuple(sorted(set(tools)))) for kit, tools in allowed)
    narrow = tuple((tool, tuple(names)) for tool, names in sorted(file.values.narrow.items()))
    places |= {f"narrow {tool}": file.place("narrow", tool) for tool, _ in narrow}
    if file.values.bind:
        places["bind"] = file.place("bind")
    return OwnRecipe(
        name,
        file.values.base,
        allow,
        file.shown,
        narrow=narrow,
        bind=tuple(kind for kind in KINDS if kind in file.values.bind),
        description=file.values.description or "",
        prompt=file.values.prompt or "",
        model=file.values.model or "",
        places=tuple(places.items()),
    )
