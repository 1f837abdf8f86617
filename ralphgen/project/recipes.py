"""The project's own kinds of session: `.ralph/recipes/*.toml`."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.model import Recipe
from ralphgen.project.toml import TomlFile, read_toml

FOLDER = ".ralph/recipes"
SUFFIX = ".toml"
KINDS = ("task", "feature", "discipline")
Name = Annotated[str, Field(min_length=1)]


class RecipeFile(BaseModel):
    """One recipe: its `base`, and by kit the tools that it keeps of the base's.

    `narrow` holds the arguments that it keeps of a tool, `bind` the rows that a session needs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    base: Name
    allow: dict[str, list[Name]] = {}
    narrow: dict[str, list[Name]] = {}
    bind: list[Literal["task", "feature", "discipline"]] = []


def read_recipes(root: Path) -> tuple[Recipe, ...]:
    """Return the recipes of the project in `root`, by name, which is the file's without `.toml`.

    Raises `ProjectError` with every problem of every file.
    """
    recipes: list[Recipe] = []
    problems: list[Problem] = []
    for name in _files(root / FOLDER):
        path = root / FOLDER / os.fsdecode(name.encode())
        try:
            file = read_toml(path, RecipeFile, f"{FOLDER}/{name}")
        except ProjectError as error:
            problems.extend(error.problems)
        else:
            recipes.append(_recipe(name.removesuffix(SUFFIX), file))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(recipes, key=lambda recipe: recipe.name))


def _files(folder: Path) -> list[str]:
    """Return the names of the recipe files, sorted; a file that begins with a dot is none.

    Names are UTF-8 in every project, whatever the locale says of this machine's file names.
    """
    try:
        names = sorted(os.fsencode(path.name) for path in folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        text = f"{FOLDER}: cannot be read: {reason}"
        raise ProjectError(text, "make it a folder that you may read") from error
    found = [name for name in names if name.endswith(SUFFIX.encode()) and not name.startswith(b".")]
    try:
        return [name.decode("utf-8") for name in found]
    except UnicodeDecodeError as error:
        text = f"{FOLDER}: the file name {ascii(error.object)[1:]} is not UTF-8"
        raise ProjectError(text, "rename the file") from error


def _recipe(name: str, file: TomlFile[RecipeFile]) -> Recipe:
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
    return Recipe(
        name,
        file.values.base,
        allow,
        file.shown,
        narrow=narrow,
        bind=tuple(kind for kind in KINDS if kind in file.values.bind),
        places=tuple(places.items()),
    )
