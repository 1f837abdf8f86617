"""No tool changes a byte, mode or time under any root."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acm_projects import (
    CLAUDE_STUBS,
    KITS,
    LEVELS,
    REVIEWS,
    SPECS,
    STAGES,
    STUBS,
    TRANSITIONS,
    Library,
    on_server,
)
from driving import create_project

from ralphgen.kits.acm import corpus

KINDS = ("app", "workflow", "artifact")


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("starter")
    root = create_project(folder / "project", config=KITS)
    for name, text in corpus().items():
        path = root / ".ralph/acm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with on_server(root, {"HOME": str(folder / "home")}) as driver:
        yield Library(folder, root, driver)


def sweep(project: str) -> list[tuple[str, dict[str, Any]]]:
    """Yield every call that the enums allow, and some others."""
    return [
        *(("get_stage", {"stage": stage}) for stage in STAGES),
        *(("get_review_prompt", {"stage": stage, "phase": phase}) for stage, phase in REVIEWS),
        *(
            ("get_transition_prompt", {"transition": name, "validate": True, **place})
            for name in TRANSITIONS
            for place in ({"project_path": project}, {})
        ),
        *(("get_transition_prompt", {"transition": name}) for name in TRANSITIONS),
        *(("get_artifact_spec", {"artifact": name}) for name in SPECS),
        *(("get_artifact_stub", {"artifact": name}) for name in STUBS),
        *(
            ("get_artifact_stub", {"artifact": "claude_md", "project_type": kind})
            for kind in CLAUDE_STUBS
        ),
        *(
            ("get_project_type_guidance", {"type": kind, "scale": scale, "scope": scope})
            for kind in KINDS
            for scale in ("personal", "commercial")
            for scope in ("mvp", "full")
        ),
        ("check_project_structure", {"project_path": project}),
        ("check_project_structure", {}),
        ("check_project_health", {"project_path": project}),
        ("check_project_health", {}),
        ("get_rules_spec", {}),
        *(("get_context_spec", {"level": level}) for level in LEVELS),
        ("query_capabilities", {}),
        ("query_capabilities", {"query": "a", "type": "tool", "tags": ["documents"]}),
        ("get_capability_detail", {"capability_id": "planner"}),
        ("get_capability_detail", {"capability_id": "nothing"}),
        ("query_knowledge", {"query": "review"}),
        ("query_knowledge", {"query": "xyzzy"}),
        ("query_knowledge", {"query": ""}),
    ]


def state(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return content, mode and modification time of all files in a directory except caches."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts and not path.name.startswith("context-"):
            status = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (data, status.st_mode, status.st_mtime_ns)
    return found


def test_a_sweep_of_all_tools_changes_nothing(library: Library) -> None:
    project = library.project()
    watched = (library.documents, library.registry, library.projects)
    before = [state(folder) for folder in watched]
    own = {path: (data, mode) for path, (data, mode, _) in state(library.root).items()}
    failures = [call for call in sweep(str(project)) if library.ask(call[0], **call[1])[0]]

    assert before == [state(folder) for folder in watched]
    assert own == {path: (data, mode) for path, (data, mode, _) in state(library.root).items()}
    assert 4 == len(failures)  # no status, unknown names, a blank term


class TestStarter:
    """What `init --kit acm` lays down, and a project that is made from its stubs."""

    def test_every_document_is_handed_out(self, starter: Library) -> None:
        failed = [
            (tool, arguments, text)
            for tool, arguments in sweep(str(starter.root))
            for refused, text in [starter.ask(tool, **arguments)]
            if refused and tool.startswith("get_") and tool != "get_capability_detail"
            if not arguments.get("validate")
        ]

        assert [] == failed

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_project_of_its_stubs_is_healthy_and_may_be_validated(
        self, starter: Library, kind: str
    ) -> None:
        project = starter.root / kind
        for folder in (".claude/rules", "docs/inbox", "_archive"):
            (project / folder).mkdir(parents=True)
        stubs = {
            "docs/intent.md": {"artifact": "intent"},
            "docs/brief.md": {"artifact": "brief"},
            "status.md": {"artifact": "status"},
            ".claude/rules/constraints.md": {"artifact": "rules_constraints"},
            ".claude/CLAUDE.md": {"artifact": "claude_md", "project_type": kind},
        }
        for name, arguments in stubs.items():
            text = starter.says("get_artifact_stub", **arguments)
            (project / name).write_text(text, encoding="utf-8")
        (project / "README.md").write_text("# Project\n", encoding="utf-8")
        health = starter.says("check_project_health", project_path=str(project))
        validation = starter.says(
            "get_transition_prompt",
            transition="discover_to_design",
            validate=True,
            project_path=str(project),
        )

        assert "Overall: healthy (22/22 checks passed)" in health
        assert "- stage is" not in validation.partition("\n---\n")[0]
        assert '- status of docs/brief.md is draft, expected "approved"' in validation

    def test_every_capability_of_the_inventory_has_details(self, starter: Library) -> None:
        inventory = json.loads(corpus()["registry/inventory.json"])
        kinds = {entry["type"] for entry in inventory["capabilities"]}

        assert {"skill", "tool", "agent", "plugin"} == kinds
        for entry in inventory["capabilities"]:
            text = starter.says("get_capability_detail", capability_id=entry["name"])
            assert f"name: {entry['name']}\n" in text
        assert f"Found {len(inventory['capabilities'])} " in starter.says("query_capabilities")

    def test_the_knowledge_base_is_found(self, starter: Library) -> None:
        names = [name for name in corpus() if name.startswith("kb/") and "README" not in name]
        text = starter.says("query_knowledge", query="e")

        assert [f"Path: {name}" for name in sorted(names)] == [
            line for line in text.split("\n") if line.startswith("Path: ")
        ]
