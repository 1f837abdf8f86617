"""What people say of a session's brief, and the file of its system part."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralphgen.emit.trust import TrustItem, words_items
from ralphgen.errors import ProgramError
from ralphgen.files import WRITE_HINT
from ralphgen.planning.model import PROFILES
from ralphgen.project.config import BriefConfig
from ralphgen.project.model import OwnRecipe, Project
from ralphgen.project.prompts import ALL, PROMPTS, SUFFIX, Words, prompt_names, read_words
from ralphgen.project.rows import ProjectRows
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import reason, write_new
from ralphgen.sessions.decide import Subject
from ralphgen.sessions.model import Served
from ralphgen.sessions.store import OURS_ALONE, SYSTEM


@dataclass(frozen=True, slots=True)
class SessionWords:
    """What the project itself says to the agents of a session: its prompts, its own recipe.

    `warnings` say of which prompts no session is ever told.
    """

    prompts: tuple[Words, ...]
    recipe: OwnRecipe | None
    warnings: tuple[str, ...]

    @property
    def model(self) -> str:
        """The model that the recipe asks for, empty where it asks for none."""
        return self.recipe.model if self.recipe is not None else ""

    @property
    def items(self) -> list[TrustItem]:
        """What of it has to be trusted."""
        return words_items(self.prompts, [self.recipe] if self.recipe is not None else [])

    def facts(self, config: BriefConfig) -> dict[str, object]:
        """Return what the session's context says of its brief, by key; nothing that is empty."""
        facts = {
            "max_characters": config.max_characters,
            "features": config.features if config.features != "inline" else "",
            "description": self.recipe.description if self.recipe is not None else "",
            "prompt": self.recipe.prompt if self.recipe is not None else "",
            "words": [{"file": words.file, "text": words.text} for words in self.prompts],
        }
        return {key: value for key, value in facts.items() if value}


def session_words(
    root: Path, project: Project, subject: Subject, rows: ProjectRows
) -> SessionWords:
    """Return what the project in `root` says to the agents of a session.

    That is what it says to all, and to those of the recipe: of a row of `recipe_configs` first what
    it says to those of its base. Raises `ProjectError` for files that cannot be used.
    """
    own = {recipe.name: recipe for recipe in project.recipes}
    prompts = read_words(root, (ALL, subject.base, subject.recipe))
    known = {ALL, *PROFILES, *own, *rows.names("recipe_configs")}
    useless = (
        f"{PROMPTS}/{one_line(name)}{SUFFIX} has no effect: there is no such recipe"
        for name in prompt_names(root)
        if name not in known
    )
    return SessionWords(prompts, own.get(subject.base), tuple(useless))


def write_system(folder: Path, served: Sequence[Served]) -> None:
    """Write the system part of the brief into the folder of a session, where it has a brief.

    Raises `ProjectError` where that cannot be.
    """
    try:
        for brief in [one.brief for one in served if one.brief is not None][:1]:
            write_new(str(folder / SYSTEM), f"{brief.system}\n".encode(), mode=OURS_ALONE)
    except OSError as error:
        text = f'"{folder / SYSTEM}" cannot be written: {reason(error)}'
        raise ProgramError(text, WRITE_HINT) from error
