"""The starter corpus of the acm kit: required files, their form, and their consistency."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import ralphgen
from ralphgen.kits.acm.server.project import guidance

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
STUBS = {  # by path of the copy in a project
    "stubs/brief.md": "docs/brief.md",
    "stubs/intent.md": "docs/intent.md",
    "stubs/status.md": "status.md",
    "stubs/rules-constraints.md": ".claude/rules/constraints.md",
    "stubs/claude-md/app.md": ".claude/CLAUDE.md",
    "stubs/claude-md/artifact.md": ".claude/CLAUDE.md",
    "stubs/claude-md/workflow.md": ".claude/CLAUDE.md",
}
KNOWLEDGE = [name for name in DOCUMENTS if name.startswith("kb/")]
TOOLS = (
    "get_stage get_review_prompt get_transition_prompt get_artifact_spec get_artifact_stub "
    "get_project_type_guidance check_project_structure check_project_health get_rules_spec "
    "get_context_spec query_capabilities get_capability_detail query_knowledge"
)

INVENTORY: dict[str, Any] = json.loads((CORPUS / "registry/inventory.json").read_bytes())
CAPABILITIES: list[dict[str, Any]] = INVENTORY["capabilities"]


def text(name: str) -> str:
    return (CORPUS / name).read_bytes().decode("utf-8")


def front_matter(name: str) -> Any:
    """Return the front matter of a document, with every scalar as text."""
    opening, block, _ = text(name).split("---\n", 2)

    assert opening == ""
    return yaml.BaseLoader(block).get_single_data()


def test_every_file_of_the_maps_is_there_and_no_other() -> None:
    registry = [f"registry/{entry['path']}/capability.yaml" for entry in CAPABILITIES]
    expected = [*SPECS, *PROMPTS, *STUBS, *KNOWLEDGE, "registry/inventory.json", *registry]

    assert (16, 8, 7) == (len(SPECS), len(PROMPTS), len(STUBS))
    assert sorted(expected) == ALL


@pytest.mark.parametrize("name", [*SPECS, *PROMPTS])
def test_values_are_the_same_text_to_every_reader_of_yaml(name: str) -> None:
    """Typed YAML readers would convert an unquoted date or version."""
    typed = yaml.safe_load(text(name).split("---\n", 2)[1])

    assert front_matter(name) == typed
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", typed["updated"])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """A stub has no links, because its copy has other neighbouring files."""
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
