"""The tools on specs, on a project that has many: each call, and the start."""

import json
import sys
import time
from pathlib import Path

import pytest
from driving import context_for, create_project, on_context
from figures import topic
from processes import Conversation, Server, conversation
from specum_projects import KITS, STATE

from ralphgen.environment import INTERPRETER_OPTIONS

pytestmark = pytest.mark.benchmark

SPECS = 50
WARM_UP = 5
ROUNDS = 60
ROUNDS_OF_STARTS = 15
TASK = """\
- [{box}] {number} [P] Write part {number}
  - **Do**: write the part, as the design says, in the usual four or five lines of plain words
  - **Files**: `src/part.py`, `tests/test_part.py`
  - **Done when**: its tests pass
  - **Verify**: `pytest -q tests/test_part.py`
  - **Commit**: `feat: part {number}`

"""
LINE = "What is known about this, in a sentence of the usual length, with a source for it.\n"


def project(root: Path) -> Path:
    """A project with specs of the usual size, most of them in execution: 40 tasks, four files."""
    create_project(root, config=KITS)
    for number in range(1, SPECS + 1):
        folder = root / "specs" / f"spec-{number}"
        folder.mkdir(parents=True)
        for name, lines in (("research", 120), ("requirements", 100), ("design", 200)):
            (folder / f"{name}.md").write_text(f"# {name}\n\n{LINE * lines}", encoding="utf-8")
        tasks = "".join(
            TASK.format(box="x" if at < number % 40 else " ", number=f"{1 + at // 10}.{at % 10}")
            for at in range(40)
        )
        (folder / "tasks.md").write_text(f"# Tasks\n\n{tasks}", encoding="utf-8")
        text = f"# Progress\n\n## Original Goal\n\nPart {number}\n\n## Learnings\n\n{LINE * 30}"
        (folder / ".progress.md").write_text(text, encoding="utf-8")
        phase = "research" if number == SPECS else "execution"
        (folder / STATE).write_text(json.dumps({"phase": phase}), encoding="utf-8")
    (root / "specs" / ".current-spec").write_text("spec-1\n", encoding="utf-8")
    return root


def serving(root: Path, kit: str = "specum") -> Server:
    """The server of a kit, started as a session starts it."""
    context = on_context(context_for(root, "manual"))
    server = str(root / ".ralph" / "mcp" / "server.py")
    return Server(kit, (sys.executable, *INTERPRETER_OPTIONS, server, kit, *context))


def timed(talk: Conversation, tool: str, **arguments: object) -> float:
    """Milliseconds of a call there and back."""
    begun = time.perf_counter()
    talk.call(tool, arguments)
    return (time.perf_counter() - begun) * 1000


def set_phase(root: Path, name: str, phase: str) -> None:
    """Put a spec into a phase behind the server's back."""
    text = json.dumps({"phase": phase})
    (root / "specs" / name / STATE).write_text(text, encoding="utf-8")


def test_direct_tools_on_fifty_specs(tmp_path: Path) -> None:
    root = project(tmp_path)
    with topic(f"Tools on {SPECS} specs over stdio") as table, conversation(serving(root)) as talk:
        talk.shake_hands()
        for turn in range(WARM_UP + ROUNDS):
            set_phase(root, "spec-2", "design")
            taken = {
                "ralph_help": timed(talk, "ralph_help"),
                "ralph_status": timed(talk, "ralph_status"),
                "ralph_switch": timed(talk, "ralph_switch", name=f"spec-{1 + turn % 2}"),
                "ralph_start": timed(talk, "ralph_start", name=f"new-{turn}", goal="A goal"),
                "ralph_cancel": timed(talk, "ralph_cancel"),
                "ralph_cancel, delete_files": timed(talk, "ralph_cancel", delete_files=True),
                "ralph_complete_phase": timed(
                    talk, "ralph_complete_phase", spec_name="spec-2", phase="design", summary="done"
                ),
            }
            if turn >= WARM_UP:
                for tool, milliseconds in taken.items():
                    table.add(tool, "call ms", milliseconds)


def test_tools_that_hand_out_instructions(tmp_path: Path) -> None:
    root = project(tmp_path)
    with topic("Instructions of specs over stdio") as table, conversation(serving(root)) as talk:
        talk.shake_hands()
        for turn in range(WARM_UP + ROUNDS):
            taken = {}
            for phase in ("research", "requirements", "design", "tasks"):
                set_phase(root, "spec-2", phase)
                taken[f"ralph_{phase}"] = timed(talk, f"ralph_{phase}", spec_name="spec-2")
            set_phase(root, "spec-1", "execution")
            taken["ralph_implement"] = timed(talk, "ralph_implement")
            if turn >= WARM_UP:
                for tool, milliseconds in taken.items():
                    table.add(tool, "call ms", milliseconds)


def test_from_start_to_first_answer(tmp_path: Path) -> None:
    """Compared with the kit of tasks: specs must not make the start slower."""
    root = project(tmp_path)
    with topic("Start of both kits: from spawn") as table:
        first = {"ralph": ("get_task", {"id": 1}), "specum": ("ralph_status", {})}
        for turn in range(ROUNDS_OF_STARTS + 1):
            for kit, (tool, arguments) in first.items():
                with conversation(serving(root, kit)) as talk:
                    talk.send(talk.opening())
                    talk.answer()
                    initialized = talk.since()
                    talk.send(talk.opened())
                    talk.ask("tools/list")
                    listed = talk.since()
                    talk.call(tool, arguments)
                    called = talk.since()
                    if kit == "specum":
                        set_phase(root, "spec-1", "execution")
                        begun = time.perf_counter()
                        talk.call("ralph_implement", {})
                        handed = (time.perf_counter() - begun) * 1000
                    if turn:
                        table.add(kit, "initialize ms", initialized)
                        table.add(kit, "tools/list ms", listed)
                        table.add(kit, "first call ms", called)
                        if kit == "specum":
                            table.add(kit, "first ralph_implement, with the SDK, ms", handed)
                    talk.end()
