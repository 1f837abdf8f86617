"""The Agent Skill of a server: declared, listed and read as the extension has it, per session."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from driving import SCHEMAS, context_for, create_database, create_project, on_context, quiet
from wire import MODERN, Wire, running

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.registry import KITS

EXTENSION = "io.modelcontextprotocol/skills"
TEXT, GUIDE = "SKILL.md", "references/tool-guide.md"
KEYS = [kit.key for kit in KITS if not kit.any_schema]
UNKNOWN = -32602


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("skills"))


@pytest.fixture(scope="module")
def every_kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("every")
    create_database(root, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"))
    (root / ".ralph/ralphgen.toml").write_text(f"kits = {json.dumps(KEYS)}\n", encoding="utf-8")
    (root / ".ralph/acm").mkdir()
    regenerate(root, force=False, say=quiet)
    return root


def request(server: Wire, method: str, **params: Any) -> dict[str, Any]:
    """The answer of the stateless version to one request."""
    found: dict[str, Any] = server.ask(method, {**params, "_meta": MODERN})
    return found


def result_of(server: Wire, method: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = request(server, method, **params)["result"]
    return found


def read_text(server: Wire, uri: str) -> str:
    (content,) = result_of(server, "resources/read", uri=uri)["contents"]
    assert (uri, "text/markdown") == (content["uri"], content["mimeType"])
    return str(content["text"])


def tool_names(server: Wire) -> list[str]:
    return [tool["name"] for tool in result_of(server, "tools/list")["tools"]]


def test_the_stateless_version_declares_the_extension(project: Path) -> None:
    with running(project) as server:
        capabilities = result_of(server, "server/discover")["capabilities"]

    assert {EXTENSION: {}} == capabilities["extensions"]
    assert {"subscribe": True} == capabilities["resources"]


def test_a_handshake_reads_as_it_did_before(every_kit: Path) -> None:
    """Clients without support for extensions see neither these nor the resources of skills."""
    with running(every_kit, "specum") as server:
        shaken = server.shake_hands("2025-11-25")
    with running(every_kit, "specum") as server:
        capabilities = result_of(server, "server/discover")["capabilities"]

    assert {"tools", "prompts"} >= shaken["capabilities"].keys()
    assert {} == capabilities["resources"]


@pytest.mark.parametrize("key", KEYS)
def test_each_kit_serves_its_skill_whole(every_kit: Path, key: str) -> None:
    context = context_for(every_kit, "manual")
    with running(every_kit, key, *on_context(context)) as server:
        listed = result_of(server, "skills/list")
        (skill,) = listed["skills"]
        got = result_of(server, "skills/get", uri=skill["uri"])
        files = {entry["uri"]: read_text(server, entry["uri"]) for entry in skill["resources"]}

    place = f"skill://{skill['frontmatter']['name']}"
    text = files[f"{place}/{TEXT}"]
    front = yaml.safe_load(text.split("---\n")[1])
    assert front == skill["frontmatter"]
    assert ("complete", "private", 0) == tuple(
        listed[name] for name in ("resultType", "cacheScope", "ttlMs")
    )
    assert {"skill": skill} == {name: got[name] for name in got.keys() & {"skill"}}
    assert [f"{place}/{TEXT}", f"{place}/{GUIDE}"] == list(files)
    for entry in skill["resources"]:
        data = files[entry["uri"]].encode()
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == entry["digest"]
        assert len(data) == entry["size"]
    assert {GUIDE} == {*re.findall(r"\]\(([^)#]+)\)", text)}
    assert "\n\n\n" not in "".join(files.values())


@pytest.mark.parametrize("recipe", ["manual", "task_execution", "discuss", "enrichment"])
def test_a_skill_names_the_tools_of_its_session_and_no_others(project: Path, recipe: str) -> None:
    with running(project, *on_context(context_for(project, "manual"))) as server:
        every = {*tool_names(server)}
    with running(project, *on_context(context_for(project, recipe))) as server:
        names = tool_names(server)
        (skill,) = result_of(server, "skills/list")["skills"]
        text, guide = (read_text(server, entry["uri"]) for entry in skill["resources"])

    assert names == re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert names == re.findall(r"^## (\w+)$", guide, re.MULTILINE)
    said = {*re.findall(r"`(\w+)`", text + guide)}
    assert set() == said & (every - {*names})


def test_a_workflow_has_the_steps_and_arguments_that_the_session_has(project: Path) -> None:
    """A session on a task may only set the statuses that it has."""
    found = {}
    for recipe in ("manual", "discuss", "task_execution"):
        with running(project, *on_context(context_for(project, recipe))) as server:
            (skill,) = result_of(server, "skills/list")["skills"]
            found[recipe] = read_text(server, skill["uri"])

    assert "## Plan new work" in found["manual"]
    assert "## Do a task and close it" in found["task_execution"]
    assert "## Plan new work" not in found["task_execution"]
    assert "## Do a task and close it" not in found["discuss"]


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://ralph-project"),
        ("skills/get", f"skill://ralph-project/{GUIDE}"),
        ("skills/get", "ralph://tasks/1"),
        ("resources/read", "skill://ralph-project/references"),
        ("resources/read", f"skill://ralph-project/../{TEXT}"),
        ("resources/read", f"skill://specum-workflow/{TEXT}"),
    ],
)
def test_an_unknown_skill_is_refused(project: Path, method: str, uri: str) -> None:
    with running(project) as server:
        error = request(server, method, uri=uri)["error"]

    assert UNKNOWN == error["code"]
    assert uri in error["message"]


@pytest.mark.thorough
def test_a_session_without_tools_has_no_skill(every_kit: Path) -> None:
    context = context_for(every_kit, "manual", enabled_tools={})
    with running(every_kit, "specum", *on_context(context)) as server:
        capabilities = result_of(server, "server/discover")["capabilities"]
        answer = request(server, "skills/list")

    assert "extensions" not in capabilities
    assert "error" in answer


def test_other_resources_are_unchanged(every_kit: Path) -> None:
    with running(every_kit, "specum") as server:
        assert [] == result_of(server, "resources/list")["resources"]
        assert [] == result_of(server, "resources/templates/list")["resourceTemplates"]
        error = request(server, "resources/read", uri="ralph://tasks/1")["error"]
    with running(every_kit, "ralph") as server:
        uris = [entry["uri"] for entry in result_of(server, "resources/list")["resources"]]

    assert UNKNOWN == error["code"]
    assert not any(uri.startswith("skill:") for uri in uris)
