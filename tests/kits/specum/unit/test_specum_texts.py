"""The texts of the spec workflow: their required topics, and the form that programs need."""

import re
from pathlib import Path

import ralphgen
from ralphgen.kits.specum.server.specs import parse_tasks

TEXTS = Path(ralphgen.__file__).with_name("kits") / "specum" / "texts"
FILES = sorted(TEXTS.rglob("*.md"))
PHASES = {
    "research-analyst": "research",
    "product-manager": "requirements",
    "architect-reviewer": "design",
    "task-planner": "tasks",
}
PROMPTS = (*PHASES, "spec-executor")

# Words that refer to features of a single client.
TASK = re.compile(r"- \[ \] (?P<id>\d+\.\d+|V[4-6]|VF)(?P<tag> \[(?:P|VERIFY)\])? (?P<title>\S.*)")


def text(name: str) -> str:
    folder = "prompts" if name in PROMPTS else "templates"
    return (TEXTS / folder / f"{name}.md").read_text(encoding="utf-8")


def boxes(document: str) -> list[str]:
    """Return the lines that begin with a box in column 0, which readers parse as tasks."""
    return [line for line in document.splitlines() if re.match(r"[-*+] \[.?\]", line)]


def blocks(document: str) -> list[str]:
    """Return each task with its body, up to the next task or the next heading."""
    parts = re.split(r"^(?=- \[ \] |#)", document, flags=re.MULTILINE)
    return [part for part in parts if part.startswith("- [ ] ")]


def identity(block: str) -> str:
    """Return the id of a task, or its whole line if it has no id."""
    match = TASK.match(block)

    return match["id"] if match else block.partition("\n")[0]


def test_each_task_of_the_template_is_a_task() -> None:
    lines = boxes(text("tasks"))
    matches = [TASK.fullmatch(line) for line in lines]

    assert [] == [line for line, match in zip(lines, matches, strict=True) if match is None]
    assert len(lines) == len({match["id"] for match in matches if match})


def test_the_server_reads_its_template() -> None:
    """No heading or box within a task begins another one or cuts it short."""
    tasks = parse_tasks(text("tasks"))

    assert [identity(line) for line in boxes(text("tasks"))] == [task.id for task in tasks]
    assert [block.strip() for block in blocks(text("tasks"))] == [task.block for task in tasks]
