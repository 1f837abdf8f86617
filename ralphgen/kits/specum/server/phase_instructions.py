"""Composes what an agent gets for a phase: task, context, guidance, and what comes then."""

from __future__ import annotations

import re

from . import progress
from .state import PHASES
from .status import ARTIFACTS, NAMES, TOOLS
from .store import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .workspace import Specum

MOST = 40_000  # characters of an answer
LEAST = 400  # of a file, however long the others are
PROMPTS = {
    "research": "research-analyst",
    "requirements": "product-manager",
    "design": "architect-reviewer",
    "tasks": "task-planner",
}
ACTIONS = {
    "research": "Look at what is known outside, then at the codebase, and cite every source",
    "requirements": "Turn the goal and the research into stories with testable criteria",
    "design": "Decide the architecture, and name every file to create or change",
    "tasks": "Cut the design into small tasks, each with a command that proves it",
}
RULE = "\n\n---\n\n"
FENCE = 4  # backticks at least
LONGEST_RUN = 80  # of backticks: before a longer one, a file is cut
RUN = re.compile("`+")
MISSING = "(missing: go on without it, and say so in what you write)"
SENTENCES = re.compile(r"(?<=[.;])(?=\s)|(?=\n\n)")


def phase_instructions(specum: Specum, name: str, phase: str) -> str:
    """Return the instructions for a phase, as SPEC-002 has them; at most `MOST` characters."""
    folder = f"{FOLDER}/{name}"
    artifact = f"{folder}/{phase}.md"
    actions = [
        f"Read the context above, and the files that it names in `{folder}/`",
        ACTIONS[phase],
        f"Write `{artifact}` after the output template",
        f"Append what later phases must know to `## Learnings` in `{folder}/{progress.FILE}`",
    ]
    head = (
        f'## {phase} phase for "{name}"\n\n'
        "### Your Task\n"
        f"Execute the {phase} phase for this spec using the guidance below. The spec lies in "
        f"`{folder}/`.\n\n"
        "### Context\n"
    )
    tail = (
        "\n\n### Agent Instructions\n"
        f"{guidance(specum, PROMPTS[phase])}\n\n"
        "### Output Template\n"
        f"{fenced(specum.text('templates', phase).strip())}\n\n"
        "### Expected Actions\n"
        + "\n".join(f"{at}. {action}" for at, action in enumerate(actions, start=1))
        + f"\n\n### When Complete\n{_completion(specum, name, phase)}"
    )
    return head + context(specum, name, phase, MOST - len(head) - len(tail)) + tail


def guidance(specum: Specum, prompt: str) -> str:
    """Return a prompt of the kit without the sentences on tools that the session does not have."""
    text = specum.text("prompts", prompt).strip()
    hidden = [name for name in NAMES if not specum.sees(name) and name in text]
    if not hidden:
        return text
    naming = re.compile(rf"\b(?:{'|'.join(hidden)})\b")
    return "".join(part for part in SENTENCES.split(text) if not naming.search(part)).strip()


def context(specum: Specum, name: str, phase: str, room: int) -> str:
    """Return the progress file and the artifacts of the phases before, in `room` characters.

    The artifact of the phase right before is named where it is missing.
    """
    earlier = ARTIFACTS[: PHASES.index(phase)]
    parts: list[tuple[str, str]] = []
    for file in (progress.FILE, *earlier):
        text = (specum.specs.read(name, file) or "").strip()
        if text:
            parts.append((file, text))
        elif file in (progress.FILE, *earlier[-1:]):
            parts.append((file, MISSING))
    return joined(parts, f"{FOLDER}/{name}", room, fences=True)


def fenced(text: str) -> str:
    """Return a text in a fence that nothing in it ends: no line of it is a heading outside."""
    fence = _fence(text)
    return f"{fence}markdown\n{text}\n{fence}"


def joined(
    parts: Sequence[tuple[str, str]], folder: str, room: int, *, fences: bool = False
) -> str:
    """Return files one below the other, the longest cut until all fit; a cut names the file.

    With `fences`, each that is there stands in one.
    """
    room -= sum(len(file) + len(RULE) + 80 + len(folder) + len(file) for file, _ in parts)
    if fences:
        room -= sum(len(fenced(_tame(text))) - len(_tame(text)) for _, text in parts)
    share = _share([len(text) for _, text in parts], room)
    return RULE.join(
        f"#### {file}\n\n{_cut(text, share, f'{folder}/{file}', fences=fences)}"
        for file, text in parts
    )


def _share(lengths: list[int], room: int) -> int:
    """Return the most characters that each may have, so that all of them have `room` at most."""
    left, share = room, 0
    for at, length in enumerate(sorted(lengths)):
        share = max(left // (len(lengths) - at), LEAST)
        left -= min(length, share)
    return share


def _cut(text: str, most: int, path: str, *, fences: bool) -> str:
    if text == MISSING:
        return text
    shown = text if len(text) <= most else text[:most].rstrip()
    if fences:
        shown = _tame(shown)
    rest = "" if shown == text else f"\n\n[cut here: read the rest in `{path}`]"
    return (fenced(shown) if fences else shown) + rest


def _fence(text: str) -> str:
    return "`" * max(FENCE, 1 + max(map(len, RUN.findall(text)), default=0))


def _tame(text: str) -> str:
    """Return the text up to the first run of backticks that would need too long a fence."""
    end = text.find("`" * (LONGEST_RUN + 1))
    return text if end < 0 else text[:end].rstrip()


def _completion(specum: Specum, name: str, phase: str) -> str:
    if not specum.sees("ralph_complete_phase"):
        return "Say in two or three sentences what was done."
    following = PHASES[PHASES.index(phase) + 1]
    then = f" Then run {TOOLS[following]}." if specum.sees(TOOLS[following]) else ""
    more = _on_import(specum) if phase == "tasks" else ""
    return (
        f"When `{phase}.md` is written and its checklist holds, record it.{then}\n\n"
        "Call `ralph_complete_phase` with:\n"
        + f'- spec_name: "{name}"\n'
        * specum.takes("ralph_complete_phase", "spec_name")
        + f'- phase: "{phase}"\n'
        f"- summary: <brief summary of what was done>{more}"
    )


def _on_import(specum: Specum) -> str:
    """Return how the tasks become tasks of the project, where they can."""
    if not specum.may_import:
        return ""
    return (
        "\n- import_tasks: true, with feature and discipline, if each task is to become a task of "
        "the project too"
    )
