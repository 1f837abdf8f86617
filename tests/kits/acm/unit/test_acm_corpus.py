"""The starter corpus of the acm kit: what must be there, in which form, and that it agrees."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

import ralphgen
from ralphgen.kits.acm.server.orchestration import validation
from ralphgen.kits.acm.server.project import guidance, health

CORPUS = Path(ralphgen.__file__).with_name("kits") / "acm" / "corpus"
ALL = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*") if path.is_file())
DOCUMENTS = [name for name in ALL if name.endswith(".md")]
WORDS = (
    "BACKLOG BRIEF CONTEXT-ARTIFACT DESIGN DEVELOP DISCOVER FOLDER-STRUCTURE GLOBAL-CLAUDE-MD "
    "INTENT PROJECT-CLAUDE-MD PROJECT-TYPES README REVIEW RULES STAGES STATUS"
)
SPECS = [f"ACM-{word}-SPEC.md" for word in WORDS.split()]
REVIEWS = [
    f"prompts/{stage}{kind}-review-prompt.md"
    for stage in ("", "design-", "develop-")
    for kind in ("ralph", "external")
]
PROMPTS = [*REVIEWS, "prompts/start-design-prompt.md", "prompts/start-develop-prompt.md"]
STUBS = {  # each with its place in a project
    "stubs/brief.md": "docs/brief.md",
    "stubs/intent.md": "docs/intent.md",
    "stubs/status.md": "status.md",
    "stubs/rules-constraints.md": ".claude/rules/constraints.md",
    "stubs/claude-md/app.md": ".claude/CLAUDE.md",
    "stubs/claude-md/artifact.md": ".claude/CLAUDE.md",
    "stubs/claude-md/workflow.md": ".claude/CLAUDE.md",
}
KNOWLEDGE = [name for name in DOCUMENTS if name.startswith("kb/")]
HEADINGS = {
    "stubs/brief.md": ["Summary", "Scope", "Success Criteria", "Constraints", "Decisions"],
    "stubs/intent.md": ["Problem", "Outcome", "Why It Matters"],
    "stubs/status.md": ["Current State", "Next Steps", "Pending Decisions", "Blockers"],
    "stubs/rules-constraints.md": ["Security", "Governance", "Safety", "Session Discipline"],
    "stubs/claude-md/app.md": ["Context Map", "Stack", "Commands"],
    "stubs/claude-md/artifact.md": ["Context Map", "Output", "Sources"],
    "stubs/claude-md/workflow.md": ["Context Map", "Trigger", "Integrations"],
}
SPEC_KEYS = ["type", "description", "version", "updated", "scope", "lifecycle", "location"]
PROMPT_KEYS = ["type", "description", "version", "updated", "scope", "usage"]
TOOLS = (
    "get_stage get_review_prompt get_transition_prompt get_artifact_spec get_artifact_stub "
    "get_project_type_guidance check_project_structure check_project_health get_rules_spec "
    "get_context_spec query_capabilities get_capability_detail query_knowledge"
)
FOREIGN = ("jessepike", "capabilities-registry", "smart-ralph", "acm-server", "acm-env", "agentic")
ALIKE = 0.4  # of the five-word runs of the smaller document

INVENTORY: dict[str, Any] = json.loads((CORPUS / "registry/inventory.json").read_bytes())
CAPABILITIES: list[dict[str, Any]] = INVENTORY["capabilities"]


def text(name: str) -> str:
    return (CORPUS / name).read_bytes().decode("utf-8")


def front_matter(name: str) -> Any:
    """What the block at the top of a document holds, with every scalar as text."""
    opening, block, _ = text(name).split("---\n", 2)

    assert opening == ""
    return yaml.BaseLoader(block).get_single_data()


def headings(name: str, level: int = 2) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", text(name), flags=re.MULTILINE)


def runs(name: str) -> set[tuple[str, ...]]:
    """Each five words that follow one another in a document, its front matter left out."""
    words = re.findall(r"\w+", text(name).split("---\n", 2)[-1].lower())
    return set(zip(*(words[at:] for at in range(5)), strict=False))


def lay_out(project: Path, claude_md: str) -> None:
    """Make a project of the stubs, as a new one begins."""
    places = {**STUBS, claude_md: ".claude/CLAUDE.md"}
    others = {name for name in STUBS if "claude-md" in name} - {claude_md}
    for stub in places.keys() - others:
        target = project / places[stub]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(stub), encoding="utf-8")
    (project / "docs/inbox").mkdir()
    (project / "_archive").mkdir()
    (project / "README.md").write_text("# A project\n", encoding="utf-8")


def test_every_file_of_the_maps_is_there_and_no_other() -> None:
    registry = [f"registry/{entry['path']}/capability.yaml" for entry in CAPABILITIES]
    expected = [*SPECS, *PROMPTS, *STUBS, *KNOWLEDGE, "registry/inventory.json", *registry]

    assert (16, 8, 7) == (len(SPECS), len(PROMPTS), len(STUBS))
    assert sorted(expected) == ALL


@pytest.mark.parametrize("name", ALL)
def test_a_file_is_clean(name: str) -> None:
    """The files are diffed by people and sent to models as they are."""
    lines = text(name).split("\n")

    assert [""] == lines[-1:]
    assert lines[-2] != ""
    assert [] == [line for line in lines if line != line.rstrip() or len(line) > 120]
    assert [] == re.findall("[\r\t\u2013\u2014]", text(name))
    assert [] == [word for word in FOREIGN if word in text(name).lower()]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_can_be_read_in_a_minute_or_two(name: str) -> None:
    assert 20 <= len(text(name).splitlines()) <= 60
    assert 1 == len(headings(name, 1))


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_says_what_it_is_and_where(name: str) -> None:
    found = front_matter(name)

    assert SPEC_KEYS == list(found)
    assert ("specification", name) == (found["type"], found["location"])
    assert "Purpose" == headings(name)[0]


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_says_how_it_is_used(name: str) -> None:
    found = front_matter(name)
    reviews = ["mechanism_ref"] if name in REVIEWS else []

    assert PROMPT_KEYS + reviews == list(found)
    assert "prompt" == found["type"]
    assert set() == {found[key] for key in reviews} - set(SPECS)


@pytest.mark.parametrize("name", [*SPECS, *PROMPTS])
def test_values_are_the_same_text_to_every_reader_of_yaml(name: str) -> None:
    """A date or a version without quotes would be something else to a reader with types."""
    typed = yaml.safe_load(text(name).split("---\n", 2)[1])

    assert front_matter(name) == typed
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", typed["updated"])


@pytest.mark.parametrize("name", REVIEWS)
def test_a_review_knows_the_severities(name: str) -> None:
    assert {"Critical", "High", "Low"} <= set(re.findall(r"\w+", text(name)))


@pytest.mark.parametrize(
    ("name", "stage"), [*zip(REVIEWS[::2], ("discover", "design", "develop"), strict=True)]
)
def test_an_internal_review_ends(name: str, stage: str) -> None:
    """Bounds on its cycles, and a last line that a program can look for."""
    prompt = text(name)

    assert {"two", "ten", "cycles"} <= set(re.findall(r"\w+", prompt.lower()))
    assert f"`REVIEW COMPLETE: {stage}`" in prompt
    assert f"`REVIEW STOPPED: {stage}: <reason>`" in prompt


@pytest.mark.parametrize(("name", "expected"), HEADINGS.items())
def test_a_stub_has_its_sections(name: str, expected: list[str]) -> None:
    assert expected == [heading for heading in headings(name) if heading in expected]


@pytest.mark.parametrize("name", [name for name in STUBS if "claude-md" in name])
def test_a_project_made_of_the_stubs_is_healthy(name: str, tmp_path: Path) -> None:
    """And begins in discover, with a brief that is not ready for design."""
    lay_out(tmp_path, name)
    summary = validation(str(tmp_path), "discover_to_design")

    assert "✗" not in health(str(tmp_path))
    assert "Stage: discover" in summary
    assert ['- status of docs/brief.md is draft, expected "approved"'] == re.findall(
        "^- .*", summary, flags=re.MULTILINE
    )


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_an_entry_of_the_knowledge_base_can_be_found(name: str) -> None:
    found = front_matter(name)

    assert ["title", "description", "tags"] == list(found)
    assert 2 <= len(found["tags"]) <= 5
    assert name == "kb/README.md" or f"]({name.removeprefix('kb/')})" in text("kb/README.md")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """A stub has none: what it is copied into has other files around it."""
    links = re.findall(r"\]\(([^)]*)\)", text(name))

    assert [] == [link for link in links if not ((CORPUS / name).parent / link).is_file()]
    assert name not in STUBS or not links


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_tool_that_is_named_exists(name: str) -> None:
    named = re.findall(r"\b(?:get|check|query)_[a-z_]+", text(name))

    assert set() == set(named) - set(TOOLS.split())


@pytest.mark.parametrize("kind", ["artifact", "app", "workflow"])
@pytest.mark.parametrize("scale", ["personal", "commercial"])
@pytest.mark.parametrize("scope", ["mvp", "full"])
def test_the_types_have_guidance_for_each_modifier(kind: str, scale: str, scope: str) -> None:
    spec = text("ACM-PROJECT-TYPES-SPEC.md")
    answer = guidance(spec, kind, {"scale": scale, "scope": scope})

    assert "The spec has no" not in answer
    assert f"Type Implications: {kind}" in answer
    assert "**Risk**" in answer


def test_the_types_spec_has_the_shape_that_is_parsed() -> None:
    name = "ACM-PROJECT-TYPES-SPEC.md"
    types, modifiers = ["1. Artifact", "2. App", "3. Workflow"], ["Scale", "Scope", "Complexity"]

    assert ["Purpose", "Primary Types", "Modifiers", "Type Implications"] == headings(name)
    assert types + modifiers == headings(name, 3)
    assert "\n| Aspect | Artifact | App | Workflow |\n" in text(name)


@pytest.mark.parametrize("entry", CAPABILITIES, ids=lambda entry: entry["name"])
def test_an_entry_of_the_inventory_agrees_with_its_file(entry: dict[str, Any]) -> None:
    found = yaml.safe_load(text(f"registry/{entry['path']}/capability.yaml"))
    shared = entry.keys() - {"path", "upstream"}

    assert f"capabilities/{entry['type']}s/{entry['name']}" == entry["path"]
    assert re.fullmatch("[a-z0-9][a-z0-9-]*", entry["name"])
    assert {key: entry[key] for key in shared} == {key: found.get(key) for key in shared}
    assert found.keys() - shared == (
        {"install_vector", "transport"} if entry["type"] == "tool" else set()
    )
    assert {"user", "project"} >= {found.get("install_level", "user")}
    assert 2 <= len(entry["tags"]) <= 5


def test_the_inventory_counts_its_entries() -> None:
    names = [entry["name"] for entry in CAPABILITIES]
    kinds = Counter(entry["type"] for entry in CAPABILITIES)

    assert len(set(names)) == len(names) == INVENTORY["summary"]["total"]
    assert {"skill", "tool", "agent", "plugin"} == set(kinds)
    assert kinds == INVENTORY["summary"]["by_type"]
    assert {"internal": len(names)} == INVENTORY["summary"]["by_source"]
    assert {"active", "staging"} == {entry["status"] for entry in CAPABILITIES}


def test_no_two_documents_are_alike() -> None:
    """What is said twice becomes wrong once."""
    words = {name: runs(name) for name in DOCUMENTS}
    alike = [
        (one, other)
        for one, other in combinations(DOCUMENTS, 2)
        if len(words[one] & words[other]) > ALIKE * min(len(words[one]), len(words[other]))
    ]

    assert [] == alike
