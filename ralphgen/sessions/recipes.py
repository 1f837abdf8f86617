"""The kinds of session that a project has, each with a sentence on what it is for."""

from pathlib import Path

from ralphgen.errors import RalphgenError
from ralphgen.project.recipes import read_recipes
from ralphgen.project.rows import open_rows

BUILT_IN = {
    "braindump": "turn raw ideas into features, disciplines and tasks",
    "yap": "talk through tasks",
    "ramble": "talk through a feature",
    "discuss": "shape a discipline",
    "task_execution": "do one task: needs --task N",
    "opus_review": "review progress and plan what follows",
    "enrichment": "turn drafts into tasks that can be done",
    "interactive": "look around: tools that only read",
    "manual": "everything, for a person",
}


def recipe_sentences(root: Path | None) -> dict[str, str]:
    """Return a sentence for each kind of session; with a project's folder, for its own ones too.

    Those of a project that cannot be read are left out.
    """
    return {**BUILT_IN, **(_own(root) if root is not None else {})}


def _own(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        for recipe in read_recipes(root):
            found[recipe.name] = recipe.description or f"as {recipe.base}, but less"
        with open_rows(root) as rows:
            for name in rows.names("recipe_configs"):
                found.setdefault(name, f"as {rows.base(name)}")
    except RalphgenError:
        return found
    return found
