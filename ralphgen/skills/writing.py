"""Writes skills to the project, compares them, and finds those whose kit is off."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.errors import EditedError, Problem, ProjectError, RalphgenError
from ralphgen.output.compare import Drift, compare
from ralphgen.output.write import Written, finish_interrupted, write
from ralphgen.skills.rendering import SKILLS, Skill

# What a hint about the server says, and what helps with a skill.
COMMANDS = {"ralphgen regen": "ralphgen skill --write", "ralphgen check": "ralphgen skill --check"}


@dataclass(frozen=True, slots=True)
class Leftover:
    """A skill that was written for a kit which is off now: its folder and the kit's key."""

    folder: str
    kit: str


def write_skills(root: Path, skills: Sequence[Skill], *, force: bool) -> dict[str, Written]:
    """Write each skill to its folder, all of it or nothing; what was done, by folder.

    Other skills beside them are not touched. Raises `EditedError`, which names every file that was
    edited by hand, after the other skills are written; `force` overwrites them. Raises
    `ProjectError` where a folder cannot be written.
    """
    written, problems = {}, list[Problem]()
    for skill in skills:
        try:
            written[skill.folder] = write(root / skill.folder, skill.files, force=force)
        except EditedError as error:
            problems += [_placed(skill, problem) for problem in error.problems]
        except ProjectError as error:
            raise _reworded(error) from error
    if problems:
        raise EditedError.of(problems)
    return written


def compare_skills(root: Path, skills: Sequence[Skill]) -> dict[str, Drift]:
    """Return how each skill's folder differs from what would be written now, by folder.

    Writes nothing, but for a write that was broken off and is finished first. Raises `ProjectError`
    where a folder cannot be read.
    """
    drifts = {}
    for skill in skills:
        try:
            finish_interrupted(root / skill.folder)
            drift = compare(root / skill.folder, skill.files)
            drifts[skill.folder] = replace(drift, unknown=())  # scripts beside it are a person's
        except ProjectError as error:
            raise _reworded(error) from error
    return drifts


def leftovers(root: Path, kits: Collection[str]) -> tuple[Leftover, ...]:
    """Return the skills in the project that belong to kits which are not among these, sorted."""
    manifests = sorted((root / SKILLS).glob("*/manifest.json"))
    found = {path.parent.name: _kit(path) for path in manifests}
    return tuple(
        Leftover(f"{SKILLS}/{name}", kit) for name, kit in found.items() if kit and kit not in kits
    )


def _kit(manifest: Path) -> str:
    """Return the kit that a manifest of ours names; empty for one that is not ours."""
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    ours = isinstance(facts, dict) and "ralphgen" in facts and isinstance(facts.get("kit"), str)
    return str(facts["kit"]) if ours else ""


def _placed(skill: Skill, problem: Problem) -> Problem:
    """Return a problem of a file in a skill, which names the file from the project's folder on."""
    text = problem.text.removeprefix('"')
    return Problem(f'"{skill.folder}/{text}', _hint(problem.hint))


def _reworded(error: ProjectError) -> RalphgenError:
    return ProjectError.of(Problem(each.text, _hint(each.hint)) for each in error.problems)


def _hint(hint: str) -> str:
    for server, skill in COMMANDS.items():
        hint = hint.replace(server, skill)
    return hint
