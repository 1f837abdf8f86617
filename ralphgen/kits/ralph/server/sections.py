"""The parts of a brief: the steps of each kind of session, and sections of rows as quoted data.

A session is told the steps that it has the tools for. Sections are cut until the brief is short.

Texts of rows stand in fences of backticks that are longer than any run of backticks in the text,
so that no text can close its own; nothing in them is a template.
"""

from __future__ import annotations

import re

from ralphgen.runtime.files.entry_log import without_controls

from .instructions import on_closing, settable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.tool import Tool

BETWEEN = "\n\n"
SHORTEST = 40  # characters of a text that are still worth showing
# These stand for a sentence that depends on what the session is about, and on what it may set.
CHOOSE, BEGIN, CLOSE = "CHOOSE", "BEGIN", "CLOSE"


class Section:
    """A heading with what stands under it: a text, or the items of a list.

    `rank` says when it is cut, the lowest first; None for what is never cut. `resource` has the
    whole of it. `newest` lists lose their first items, others their last. What is `quoted` is data
    of the project's rows; else it is text of ours or of a person, as it is.
    """

    __slots__ = ("_newest", "_quoted", "items", "kept", "rank", "resource", "title")

    def __init__(
        self,
        title: str,
        items: Sequence[str],
        *,
        rank: int | None = None,
        resource: str = "",
        newest: bool = False,
        quoted: bool = True,
    ) -> None:
        self.title = title
        self.items = items
        self.kept: Sequence[str] = items
        self.rank = rank
        self.resource = resource
        self._newest = newest
        self._quoted = quoted

    @property
    def is_cut(self) -> bool:
        """Whether less is shown than there is."""
        return self.kept is not self.items

    def text(self) -> str:
        """Return the section as the agent reads it."""
        if not self._quoted:
            return BETWEEN.join([*([f"## {self.title}"] if self.title else []), *self.items])
        body = [fenced("\n".join(self.kept))] if self.kept else []
        if self.is_cut:
            shown = "the beginning is" if self.kept else "nothing is"
            if len(self.items) > 1:
                shown = f"{len(self.kept)} of {len(self.items)} are"
            body.append(f"({shown} shown; the whole is in {self.resource})")
        return BETWEEN.join([f"## {self.title}", *body])

    def shorten(self, most: int) -> None:
        """Show no more than fits in so many characters, if that is shorter than what is shown."""
        before, whole = len(self.text()), self.kept
        if len(self.items) == 1:
            self._shorten_text(most)
        else:
            self._shorten_list(most)
        if len(self.text()) >= before:
            self.kept = whole

    def _shorten_text(self, most: int) -> None:
        (whole,) = self.items
        length = min(len(whole) - 1, most)
        while length >= SHORTEST:
            self.kept = (f"{whole[:length]}…",)
            excess = len(self.text()) - most
            if excess <= 0:
                return
            length -= excess
        self.kept = ()

    def _shorten_list(self, most: int) -> None:
        for count in range(len(self.items) - 1, -1, -1):
            first = len(self.items) - count if self._newest else 0
            self.kept = self.items[first : first + count]
            if len(self.text()) <= most:
                return


def fit(sections: Sequence[Section], most: int) -> None:
    """Cut sections until all of them together have at most `most` characters, or none is left.

    Whatever stands between them counts too.
    """
    total = sum(len(section.text()) + len(BETWEEN) for section in sections) - len(BETWEEN)
    ranked = [(section.rank, at) for at, section in enumerate(sections) if section.rank is not None]
    for _, at in sorted(ranked):
        if total <= most:
            return
        section = sections[at]
        before = len(section.text())
        section.shorten(before - (total - most))
        total -= before - len(section.text())


def fenced(text: str) -> str:
    """Return a text between fences that nothing in it can close."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def clean(value: object) -> str:
    """Return a stored value as text without control characters and blank lines around it."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    lines = without_controls(text).split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join(lines).rstrip()


def item(value: object, mark: str = "-") -> str:
    """Return a value as an item of a list; its further lines are indented, and begin no other."""
    return f"{mark} " + clean(value).replace("\n", "\n" + " " * (len(mark) + 1))


def sizes(part: str, sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return, for each section of a part, its title, its characters and where it was cut."""
    return [
        {
            "part": part,
            "title": section.title,
            "characters": len(section.text()),
            **({"cut": section.resource} if section.is_cut else {}),
        }
        for section in sections
    ]


def steps_of(profile: str, seen: Mapping[str, Tool], *, chosen: bool) -> list[str]:
    """Return the steps of a kind of session that the visible tools allow, numbered.

    `chosen` says that the row is known which the session is about. Empty for a kind without steps.
    """
    shown = [
        _said(text, seen, chosen=chosen)
        for needed, text in STEPS.get(profile, ())
        if all(_has(seen, name) for name in needed.split())
    ]
    return [f"{at}. {text}" for at, text in enumerate(filter(None, shown), 1)]


def _has(seen: Mapping[str, Tool], needed: str) -> bool:
    """Return whether a session sees a tool, or with `"tool.argument"` an argument of it."""
    name, _, argument = needed.partition(".")
    return name in seen and (not argument or argument in seen[name].properties)


def _said(text: str, seen: Mapping[str, Tool], *, chosen: bool) -> str:
    """Return a step in words; empty where it says nothing to this session."""
    if text == CHOOSE:
        return "" if chosen else "Take the first draft that list_tasks shows."
    if text == CLOSE:
        return on_closing(seen["set_task_status"].properties)
    if text == BEGIN:
        known = "in_progress" in settable(seen["set_task_status"].properties)
        return "Set the status to in_progress with set_task_status." if known else ""
    return text


# Each step is the tools and arguments (`tool.argument`) that it needs, and its words.
STEPS: Mapping[str, Sequence[tuple[str, str]]] = {
    "braindump": (
        ("", "Listen until you can summarize the idea in two sentences; ask about unclear points."),
        (
            "list_features list_disciplines",
            "Read list_features and list_disciplines to avoid duplicates.",
        ),
        ("list_tasks", "Look for duplicate tasks with list_tasks."),
        (
            "create_feature",
            "Create a feature with create_feature for each part that users would name.",
        ),
        (
            "create_discipline",
            "Add a discipline with create_discipline only if none fits the work.",
        ),
        (
            "create_task",
            (
                "Make tasks with create_task: one result each, how it can be checked, and what it "
                "waits for."
            ),
        ),
        ("", "End with a short list of new rows and open questions."),
    ),
    "yap": (
        ("list_tasks", "Start with list_tasks and find the tasks the user means."),
        ("get_task", "Read a task with get_task before you discuss its details."),
        ("update_task", "Record agreed changes with update_task, field by field."),
        ("create_task", "Create a task with create_task if none fits."),
        ("", "Change only what you agreed on, and report each change."),
    ),
    "ramble": (
        ("get_feature", "Read the feature with get_feature."),
        ("list_tasks", "List its tasks with list_tasks."),
        ("update_feature", "Keep the feature current with update_feature."),
        (
            "append_feature_learning",
            "Record decisions and their reasons with append_feature_learning.",
        ),
        ("add_feature_context_file", "Add the files that matter with add_feature_context_file."),
        ("create_feature", "If the feature splits, create the new one with create_feature."),
    ),
    "discuss": (
        ("get_discipline", "Read the discipline with get_discipline."),
        (
            "list_disciplines",
            "Read the other disciplines with list_disciplines to avoid overlap.",
        ),
        ("", "Propose each change first, and agree on it."),
        ("update_discipline", "Record agreed changes with update_discipline."),
    ),
    "task_execution": (
        (
            "get_task",
            "Read the full task and its current status with get_task.",
        ),
        ("read_learnings", "Read what earlier sessions learned with read_learnings."),
        ("read_progress", "Read recent progress with read_progress."),
        ("set_task_status", BEGIN),
        ("", "Do the work. Meet every acceptance criterion and run the tests."),
        (
            "add_task_comment",
            ("Record questions, decisions and remaining work with add_task_comment."),
        ),
        (
            "add_feature_context_file",
            "Add files that later tasks need with add_feature_context_file.",
        ),
        ("append_learning", "Save findings that would have saved you time with append_learning."),
        ("append_progress", "Summarize the result in one entry with append_progress."),
        ("run_checks", "When the files are final, run the checks with run_checks."),
        ("set_task_status", CLOSE),
    ),
    "opus_review": (
        ("get_project_progress", "Start with get_project_progress."),
        ("list_tasks", "Find done, blocked and stuck tasks with list_tasks."),
        ("get_task", "Compare each done task with its criteria: get_task, then the code."),
        (
            "set_task_status add_task_comment",
            "Reopen weak work with set_task_status; give the reason with add_task_comment.",
        ),
        ("update_task.priority", "Correct priorities with update_task."),
        ("create_task", "Create tasks for missing work with create_task."),
        ("append_feature_learning", "Record lessons of the review with append_feature_learning."),
        ("append_progress", "End with an entry by append_progress: findings and next steps."),
    ),
    "enrichment": (
        ("list_tasks", CHOOSE),
        ("get_task", "Read the draft with get_task."),
        ("get_feature", "Read its feature with get_feature, and the code it will touch."),
        ("update_task", "With update_task, add everything that an agent without context needs."),
        (
            "create_task",
            "Split a draft that takes more than one session: create_task for each part.",
        ),
        (
            "enrich_task",
            "Add pseudocode with enrich_task, which makes the draft pending and closes it.",
        ),
    ),
}
