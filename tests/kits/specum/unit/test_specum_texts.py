"""The template of a task list has the form that the server reads."""

import re
from pathlib import Path

import ralphgen
from ralphgen.kits.specum.server.specs import parse_tasks

TASKS = Path(ralphgen.__file__).with_name("kits") / "specum/texts/templates/tasks.md"
TEXT = TASKS.read_text(encoding="utf-8")
TASK = re.compile(r"- \[ \] (?P<id>\d+\.\d+|V[4-6]|VF)(?P<tag> \[(?:P|VERIFY)\])? (?P<title>\S.*)")


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
    lines = boxes(TEXT)
    matches = [TASK.fullmatch(line) for line in lines]

    assert [] == [line for line, match in zip(lines, matches, strict=True) if match is None]
    assert len(lines) == len({match["id"] for match in matches if match})


def test_the_server_reads_its_template() -> None:
    """No heading or box within a task begins another one or cuts it short."""
    tasks = parse_tasks(TEXT)

    assert [identity(line) for line in boxes(TEXT)] == [task.id for task in tasks]
    assert [block.strip() for block in blocks(TEXT)] == [task.block for task in tasks]
