"""The project's own kinds of session: `.ralph/recipes/*.toml`."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.errors import Problem, ProjectError
from ralphgen.inspection.toml import read_toml
from ralphgen.model import Recipe

FOLDER = ".ralph/recipes"
Name = Annotated[str, Field(min_length=1)]


class RecipeFile(BaseModel):
    """One recipe: its `base`, and by kit the tools that it keeps of the base's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    base: Name
    allow: dict[str, list[Name]] = {}


def read_recipes(root: Path) -> tuple[Recipe, ...]:
    """The recipes of the project in `root`, by name, which is the file's without `.toml`.

    Raises `ProjectError` with every problem of every file.
    """
    recipes: list[Recipe] = []
    problems: list[Problem] = []
    for path in sorted((root / FOLDER).glob("*.toml")):
        shown = f"{FOLDER}/{path.name}"
        try:
            file = read_toml(path, RecipeFile, shown)
        except ProjectError as error:
            problems.extend(error.problems)
            continue
        allow = tuple((kit, tuple(sorted(set(names)))) for kit, names in sorted(file.allow.items()))
        recipes.append(Recipe(path.stem, file.base, allow, shown))
    if problems:
        raise ProjectError.of(problems)
    return tuple(recipes)
