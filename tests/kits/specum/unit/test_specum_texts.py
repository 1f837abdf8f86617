"""The texts of the spec workflow: their required topics, and the form that programs need."""

import re
from pathlib import Path

import pytest

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
TEMPLATES = ("progress", *PHASES.values())

# Words that refer to features of a single client.
FOREIGN = (
    *("Task tool", "subagents?", "sub-agents?", "slash commands?", "jq", "awaitingApproval"),
    *("stop[ -]hook", "coordinators?", "qa-engineer", "WebSearch", "WebFetch", "TodoWrite"),
)
SECTIONS = {
    "progress": "Current Goal; Original Goal; Completed Tasks; Learnings; Blockers; Next Steps",
    "research": "Executive Summary; External Research; Codebase Analysis; Related Specs; "
    "Quality Commands; Feasibility; Recommendations for Requirements; Open Questions; Sources",
    "requirements": "Goal; User Stories; Functional Requirements; Non-Functional Requirements; "
    "Glossary; Out of Scope; Dependencies; Success Criteria; Risks; Unresolved Questions",
    "design": "Overview; Architecture; Technical Decisions; File Structure; Interfaces; "
    "Error Handling; Edge Cases; Dependencies; Security; Performance; Test Strategy; "
    "Existing Patterns; Implementation Steps",
    "tasks": "Overview; Phase 1: Make It Work (POC); Phase 2: Refactoring; Phase 3: Testing; "
    "Phase 4: Quality Gates; Phase 5: PR Lifecycle; Notes; Dependencies",
}
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


def test_there_are_five_prompts_and_five_templates() -> None:
    expected = {f"prompts/{name}.md" for name in PROMPTS}
    expected |= {f"templates/{name}.md" for name in TEMPLATES}

    assert expected == {path.relative_to(TEXTS).as_posix() for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_clean(path: Path) -> None:
    """No stray bytes: users diff the files, and models receive them unchanged."""
    document = path.read_bytes().decode("utf-8")

    assert document.endswith("\n")
    assert not document.endswith("\n\n")
    assert "\r" not in document
    assert "\t" not in document
    assert [] == [line for line in document.splitlines() if line != line.rstrip()]
    assert [] == [line for line in document.splitlines() if len(line) > 120]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("word", FOREIGN)
def test_no_text_mentions_one_client_alone(path: Path, word: str) -> None:
    """A client without the thing would stop, or invent it."""
    document = path.read_text(encoding="utf-8")

    assert None is re.search(rf"\b{word}\b", document, flags=re.IGNORECASE)


@pytest.mark.parametrize(("name", "phase"), PHASES.items())
def test_a_planning_prompt_ends_its_phase(name: str, phase: str) -> None:
    """It names only the tool that does so: others may be switched off."""
    prompt = text(name)
    _, last = prompt.split("\n## Last step\n")

    assert {"ralph_complete_phase"} == set(re.findall(r"ralph_[a-z_]+", prompt))
    assert f"`ralph_complete_phase` with the spec's name, phase `{phase}`" in " ".join(last.split())
    assert f"`{phase}.md`" in prompt


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_asks_for_headings_that_exist(name: str) -> None:
    """The progress file has each heading that a prompt refers to."""
    named = set(re.findall(r"`## ([^`]+)`", text(name)))

    assert {"Learnings"} <= named
    assert set() == {
        heading
        for heading in named - {*SECTIONS["progress"].split("; ")}
        if not heading.startswith("Reality Check (")
    }


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_its_sections_in_order(name: str) -> None:
    headings = re.findall(r"^## (.+)$", text(name), flags=re.MULTILINE)

    assert SECTIONS[name].split("; ") == headings


def test_the_progress_file_takes_the_goal_in_one_place() -> None:
    template = text("progress")

    assert 1 == template.count("{{")
    assert "\n## Original Goal\n\n{{goal}}\n\n" in template
    assert "- **Phase**: research\n" in template


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
