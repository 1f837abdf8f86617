"""The tools of the kit: which there are, that all only read, and who has them."""

import re
from pathlib import Path

import pytest
from acm_projects import KITS, Library, lay_registry, on_server, variables
from driving import create_project
from wire import running

LISTED = {
    "get_stage": {"stage": {"enum": ["discover", "design", "develop"]}},
    "get_review_prompt": {
        "stage": {"enum": ["discover", "design", "develop"]},
        "phase": {"enum": ["internal", "external"]},
    },
    "get_transition_prompt": {
        "transition": {"enum": ["discover_to_design", "design_to_develop"]},
        "project_path": {},
        "validate": {},
    },
    "get_artifact_spec": {
        "artifact": {
            "enum": [
                *("brief", "intent", "status", "readme", "context", "rules", "design", "backlog"),
                *("folder_structure", "project_types", "stages", "review"),
            ]
        }
    },
    "get_artifact_stub": {
        "artifact": {"enum": ["brief", "intent", "status", "rules_constraints", "claude_md"]},
        "project_type": {"enum": ["app", "workflow", "artifact"]},
    },
    "get_project_type_guidance": {
        "type": {"enum": ["app", "workflow", "artifact"]},
        "scale": {"enum": ["personal", "commercial"]},
        "scope": {"enum": ["mvp", "full"]},
    },
    "check_project_structure": {"project_path": {}},
    "check_project_health": {"project_path": {}},
    "get_rules_spec": {},
    "get_context_spec": {"level": {"enum": ["global", "project"]}},
    "query_capabilities": {
        "query": {},
        "type": {"enum": ["skill", "tool", "agent", "plugin"]},
        "tags": {"items": {"type": "string"}},
    },
    "get_capability_detail": {"capability_id": {"pattern": "^[a-z0-9][a-z0-9-]*$"}},
    "query_knowledge": {"query": {}},
}
REQUIRED = {
    "get_stage": ["stage"],
    "get_review_prompt": ["stage", "phase"],
    "get_transition_prompt": ["transition"],
    "get_artifact_spec": ["artifact"],
    "get_artifact_stub": ["artifact"],
    "get_project_type_guidance": ["type"],
    "get_context_spec": ["level"],
    "get_capability_detail": ["capability_id"],
    "query_knowledge": ["query"],
}


class TestTools:
    """What a session sees."""

    def test_there_are_the_thirteen_with_their_values(self, library: Library) -> None:
        told_of = {
            tool["name"]: {
                name: {key: schema[key] for key in ("enum", "pattern", "items") if key in schema}
                for name, schema in tool["inputSchema"]["properties"].items()
            }
            for tool in library.driver.tools()
        }

        assert LISTED == told_of
        assert [*LISTED] == [*told_of]
        assert REQUIRED == {
            tool["name"]: tool["inputSchema"]["required"]
            for tool in library.driver.tools()
            if "required" in tool["inputSchema"]
        }

    def test_descriptions_state_when_to_use_a_tool(self, library: Library) -> None:
        assert [] == [
            tool["name"]
            for tool in library.driver.tools()
            if not re.search(r"\bUse (when|for)\b", tool["description"])
        ]

    def test_the_server_has_its_own_version(self, library: Library) -> None:
        with running(library.root, "acm") as wire:
            assert {"name": "acm", "version": "1.0.0"} == wire.shake_hands()["serverInfo"]

    def test_all_of_them_only_read(self, library: Library) -> None:
        hints = [tool["annotations"] for tool in library.driver.tools()]

        assert [{"readOnlyHint": True, "openWorldHint": False}] * 13 == hints

    def test_the_session_is_told_of_each(self, library: Library) -> None:
        text = library.driver.client.instructions or ""

        assert [name for name in LISTED if f"{name}: " not in text] == []
        assert len(text) <= 2_000

    @pytest.mark.parametrize("recipe", ["braindump", "discuss", "opus_review", "interactive"])
    def test_every_recipe_has_them(self, library: Library, recipe: str) -> None:
        with on_server(library.root, variables(library.folder), recipe) as driver:
            assert [*LISTED] == driver.names()

    def test_a_discipline_can_take_one_away_and_it_is_not_spoken_of(self, tmp_path: Path) -> None:
        config = f'{KITS}[disciplines.backend]\ndisable = ["acm:query_capabilities"]\n'
        root = create_project(tmp_path / "project", config=config)
        lay_registry(tmp_path / "registry")
        with on_server(root, variables(tmp_path), discipline="backend") as driver:
            names = driver.names()
            told_of = driver.client.instructions or ""
            refusal = driver.refusal("get_capability_detail", capability_id="nothing")

        assert [name for name in LISTED if name != "query_capabilities"] == names
        assert "query_capabilities" not in told_of
        assert 'Capability "nothing" not found: check the spelling' == refusal
