"""The texts of the spec workflow: what each must cover, and the form that programs rely on."""

import re
from pathlib import Path
from textwrap import dedent

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

# Each topic that a prompt must cover, with words that only a text about it holds.
TOPICS: dict[str, dict[str, tuple[str, ...]]] = {
    "research-analyst": {
        "verify, never guess": ("verify, never guess",),
        "a failure to fix": ("reality check (before)",),
        "sources": ("cite.", "address"),
        "outside before inside": ("search the web if your client can", "then look inside"),
        "related specs": ("related specs", "| high |", "| medium |", "| low |", "need an update"),
        "quality commands": ("package.json", "makefile", ".github/workflows", "not found"),
        "their table": ("| type | command | source |", "**local ci**"),
        "cross-check": ("cross-check",),
        "feasibility": ("feasibility table", "viability", "effort", "risk"),
        "recommendations": ("recommend, do not decide", "recommendations"),
        "open questions": ("open questions",),
        "what never to do": ("never invent", "change no code"),
    },
    "product-manager": {
        "goal": ("settle the goal",),
        "user stories": ("us-1", "**as an**", "**i want**", "**so that**"),
        "criteria that can be tested": ("ac-1.1", "- bad:", "- good:"),
        "functional table": ("| fr-1 |", "priority", "**must**"),
        "non-functional table": ("| nfr-1 |", "metric", "target"),
        "borders": ("**glossary**", "**out of scope**", "**dependencies**"),
        "success": ("**success criteria**",),
        "no vague adjectives": ("no vague adjectives", "user-friendly"),
        "unresolved questions": ("**unresolved questions**",),
    },
    "architect-reviewer": {
        "overview": ("write the overview",),
        "diagram": ("```mermaid",),
        "components": ("**purpose**", "**responsibilities**", "**interfaces**"),
        "data flow": ("follow the data",),
        "decisions": ("| decision | options | choice | reason |",),
        "files": ("| file | action | purpose |", "| create |", "| modify |"),
        "errors": ("**error table**",),
        "edge cases": ("**edge cases**",),
        "tests": ("| unit |", "| integration |", "| end-to-end |"),
        "performance": ("**performance**",),
        "security": ("**security**",),
        "existing patterns": ("existing patterns to follow",),
        "requirement ids": ("quote requirement ids",),
        "steps": ("implementation steps", "numbered"),
    },
    "task-planner": {
        "five phases": ("1. **make it work (poc)**", "2. **refact", "3. **testing", "4. **qual"),
        "its last phase": ("5. **pr lifecycle**",),
        "fields": ("- **do**:", "**files**:", "**done when**:", "**verify**:", "**commit**:"),
        "references": ("_requirements: fr-1, ac-1.1_", "_design: csvwriter_"),
        "tasks": ("traceable", "explicit", "verifiable", "committable", "autonomous"),
        "no manual verification": ("no manual verification",),
        "validation in phase 1": ("end-to-end validation on the real thing",),
        "checkpoints": (
            "every two to three tasks",
            "[verify]",
            "quality commands",
            "research found",
        ),
        "closing sequence": ("`v4 [verify]`", "`v5 [verify]`", "`v6 [verify]`"),
        "fixes": ("`vf [verify]", "reality check (before)"),
        "parallel tasks": ("[p]", "names no file that another task", "in doubt, do not mark"),
        "commits": ("conventional commit",),
        "default branch": ("never push to the default branch", "pull request is the default"),
        "notes": ("**notes**", "**dependencies**"),
    },
    "spec-executor": {
        "inputs": ("counted from 0", "the total", "attempts allowed", "task block"),
        "one task": ("exactly one task", "exactly as written"),
        "listed files": ("change only what **files** lists",),
        "verify before commit": ("before anything is committed",),
        "real proof": ("real environment", "it compiles"),
        "phases": ("| 1 make it work |", "| 2 ", "| 3 ", "| 4 ", "| 5 pr lifecycle |"),
        "checkpoints": ("`[verify]` task", "verification_pass", "verification_fail"),
        "progress": ("completed tasks", "hash", "current goal", "blockers", "next steps"),
        "tick": ("`- [ ]` becomes `- [x]`",),
        "commit": ("`tasks.md` always", "git check-ignore"),
        "autonomy": ("ask the user nothing",),
        "state": ("never edit `.ralph-state.json`",),
        "no false completion": ("no false completion", "requires manual", "needs human"),
        "signals": ("task_complete", "all_tasks_complete"),
        "failure report": ("the failure report", "attempt 2 of 5"),
    },
}
EVERYWHERE = ("## inputs", "learnings", "## rules", "## quality checklist", ".ralph-state.json")
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
FIELDS = ["Do", "Files", "Done when", "Verify", "Commit"]
LONGEST_RUN = 3  # tasks without a checkpoint


def text(name: str) -> str:
    folder = "prompts" if name in PROMPTS else "templates"
    return (TEXTS / folder / f"{name}.md").read_text(encoding="utf-8")


def plain(name: str) -> str:
    """The prompt in lower case, each run of white space one blank, so that line breaks are free."""
    return " ".join(text(name).lower().split())


def boxes(document: str) -> list[str]:
    """The lines that begin with a box in column 0: what a reader of tasks takes for a task."""
    return [line for line in document.splitlines() if re.match(r"[-*+] \[.?\]", line)]


def blocks(document: str) -> list[str]:
    """Each task with its body, up to the next task or the next heading."""
    parts = re.split(r"^(?=- \[ \] |#)", document, flags=re.MULTILINE)
    return [part for part in parts if part.startswith("- [ ] ")]


def identity(block: str) -> str:
    """The id of a task, or its whole line where that is none."""
    match = TASK.match(block)

    return match["id"] if match else block.partition("\n")[0]


def test_there_are_five_prompts_and_five_templates() -> None:
    expected = {f"prompts/{name}.md" for name in PROMPTS}
    expected |= {f"templates/{name}.md" for name in TEMPLATES}

    assert expected == {path.relative_to(TEXTS).as_posix() for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_clean(path: Path) -> None:
    """No stray bytes: the files are diffed by people and sent to models as they are."""
    document = path.read_bytes().decode("utf-8")

    assert document.endswith("\n")
    assert not document.endswith("\n\n")
    assert "\r" not in document
    assert "\t" not in document
    assert [] == [line for line in document.splitlines() if line != line.rstrip()]
    assert [] == [line for line in document.splitlines() if len(line) > 120]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("word", FOREIGN)
def test_no_text_speaks_of_one_client_alone(path: Path, word: str) -> None:
    """A client without the thing would stop, or invent it."""
    document = path.read_text(encoding="utf-8")

    assert None is re.search(rf"\b{word}\b", document, flags=re.IGNORECASE)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_can_be_read_in_one_sitting(name: str) -> None:
    assert 60 <= len(text(name).splitlines()) <= 200


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_opens_with_its_role_and_its_job(name: str) -> None:
    title, blank, job = text(name).splitlines()[:3]

    assert title.startswith("# ")
    assert "" == blank
    assert job.startswith("You ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param(name, words, id=f"{name}: {topic}")
        for name, topics in TOPICS.items()
        for topic, words in {**topics, "everywhere": EVERYWHERE}.items()
    ],
)
def test_a_prompt_covers_its_topics(name: str, words: tuple[str, ...]) -> None:
    prompt = plain(name)

    assert [] == [word for word in words if word not in prompt]


@pytest.mark.parametrize(("name", "phase"), PHASES.items())
def test_a_planning_prompt_ends_its_phase(name: str, phase: str) -> None:
    """It names no tool but the one that does so: others may be switched off."""
    prompt = text(name)
    _, last = prompt.split("\n## Last step\n")

    assert {"ralph_complete_phase"} == set(re.findall(r"ralph_[a-z_]+", prompt))
    assert f"`ralph_complete_phase` with the spec's name, phase `{phase}`" in " ".join(last.split())
    assert f"`{phase}.md`" in prompt


def test_the_executor_fetches_the_next_task_itself() -> None:
    """The completion protocol stands at the end, its steps in their order."""
    prompt = text("spec-executor")
    _, protocol = prompt.split("\n## Last step: the completion protocol\n")
    steps = re.findall(r"^\d\. \*\*(\w+)\*\*", protocol, flags=re.MULTILINE)

    assert {"ralph_implement"} == set(re.findall(r"ralph_[a-z_]+", prompt))
    assert ["Tick", "Commit", "Update", "Print", "Call"] == steps


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_asks_for_headings_that_exist(name: str) -> None:
    """What is to be written under a heading of the progress file finds it there."""
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


@pytest.mark.parametrize("name", PHASES.values())
def test_a_template_says_whose_it_is_and_holds_hints_alone(name: str) -> None:
    """Nothing fills these templates but the model, so a placeholder would stay for ever."""
    template = text(name)

    assert template.startswith("---\nspec: <")
    assert f"\nphase: {name}\n" in template
    assert "\ncreated: <YYYY-MM-DD>\n" in template
    assert "{{" not in template
    assert "}}" not in template


@pytest.mark.parametrize("name", ["progress", "research", "requirements", "design"])
def test_only_the_plan_has_boxes(name: str) -> None:
    assert [] == boxes(text(name))


def test_each_task_of_the_template_is_a_task() -> None:
    lines = boxes(text("tasks"))
    matches = [TASK.fullmatch(line) for line in lines]

    assert [] == [line for line, match in zip(lines, matches, strict=True) if match is None]
    assert len(lines) == len({match["id"] for match in matches if match})


def test_the_server_reads_the_template_as_it_is_meant() -> None:
    """No heading or box within a task begins another one or cuts it short."""
    tasks = parse_tasks(text("tasks"))

    assert [identity(line) for line in boxes(text("tasks"))] == [task.id for task in tasks]
    assert [block.strip() for block in blocks(text("tasks"))] == [task.block for task in tasks]


@pytest.mark.parametrize("block", blocks(text("tasks")), ids=identity)
def test_a_task_of_the_template_has_every_field(block: str) -> None:
    """And its body is indented, so that nothing in it ends the task early."""
    first, *body = block.rstrip().splitlines()
    fields = re.findall(r"^  - \*\*(.+?)\*\*:", block, flags=re.MULTILINE)

    assert TASK.fullmatch(first)
    assert FIELDS == fields
    assert [] == [line for line in body if line and not line.startswith("  ")]


def test_the_tasks_follow_their_phases() -> None:
    """Numbers count from one in each phase, and phase 4 closes with V4, V5 and V6."""
    for number, part in enumerate(text("tasks").split("\n## Phase ")[1:], start=1):
        identities = [identity(block) for block in blocks(part)]
        numbered = [each for each in identities if not each.startswith("V")]

        assert [f"{number}.{count}" for count in range(1, len(numbered) + 1)] == numbered
        assert (number == 4) is (identities[-3:] == ["V4", "V5", "V6"])


def test_a_checkpoint_comes_soon_enough() -> None:
    run = 0
    for line in boxes(text("tasks")):
        run = 0 if "[VERIFY]" in line else run + 1

        assert run <= LONGEST_RUN


def test_parallel_tasks_stand_together() -> None:
    """A mark on a lone task says nothing, and a checkpoint is never marked."""
    marks = ["[P]" in line for line in boxes(text("tasks"))]
    lone = [
        at
        for at, mark in enumerate(marks)
        if mark and not any(marks[max(at - 1, 0) : at] + marks[at + 1 : at + 2])
    ]

    assert any(marks)
    assert [] == lone


def test_the_planner_shows_the_form_that_it_demands() -> None:
    """Its examples, taken out of their indentation, are tasks of the template's form."""
    examples = re.findall(r"^(    - \[ \] .*\n(?:    .*\n)+)", text("task-planner"), re.MULTILINE)
    fields = [re.findall(r"^  - \*\*(.+?)\*\*:", dedent(each), re.MULTILINE) for each in examples]

    assert ["1.2", "1.4"] == [identity(dedent(each)) for each in examples]
    assert [FIELDS, FIELDS] == fields
