"""The official conformance suite on our app: nothing fails there that passes on the SDK's own."""

import json
import re
from pathlib import Path

import pytest
from bearer_proxy import listening, pass_on
from http_servers import http_project, sdk_app, serving, token
from node_packages import NEEDED, modules, run_node

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
RUN = re.compile(r"-\d{4}-\d\d-\d\dT.*")
# Checks that a server without the suite's tools, prompts and resources can pass.
PASSED = {
    "2025-11-25": {
        *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list"),
        "dns-rebinding-protection",
    },
    "2026-07-28": {
        *("tools-list", "resources-list", "prompts-list", "sep-2164-resource-not-found"),
        *("caching", "http-header-validation", "dns-rebinding-protection"),
        "input-required-result-unsupported-methods",
    },
}
pytestmark = NEEDED
Check = tuple[str, str, str]  # scenario, id and name


@pytest.mark.parametrize("version", PASSED)
def test_nothing_fails_that_passes_on_the_sdks_own_app(tmp_path: Path, version: str) -> None:
    with listening() as listener:
        port = listener.getsockname()[1]
        named = f'allowed_hosts = ["127.0.0.1"]\nallowed_origins = ["http://127.0.0.1:{port}"]\n'
        root = http_project(tmp_path / "p", f"rate = 100000\n{named}")
        with serving(root) as server:
            pass_on(listener, server.port, token(root))
            failed, passed = results(port, version, tmp_path / "ours")
    with sdk_app(root) as port:
        failed_there, _ = results(port, version, tmp_path / "sdk")

    assert set() == failed - failed_there
    assert set() == PASSED[version] - {scenario for scenario, _, _ in passed - failed}
    assert set() == PASSED[version] & {scenario for scenario, _, _ in failed | failed_there}


@pytest.mark.parametrize("scenario", ["skills-enumeration", "skills-manifest"])
def test_a_skill_is_served_as_the_extension_has_it(tmp_path: Path, scenario: str) -> None:
    with listening() as listener:
        port = listener.getsockname()[1]
        named = f'allowed_hosts = ["127.0.0.1"]\nallowed_origins = ["http://127.0.0.1:{port}"]\n'
        root = http_project(tmp_path / "p", f"rate = 100000\n{named}")
        with serving(root) as server:
            pass_on(listener, server.port, token(root))
            run_node(
                modules() / SUITE,
                *("server", "--url", f"http://127.0.0.1:{port}/mcp/ralph"),
                *("--scenario", f"sep-2640-{scenario}", "--output-dir", str(tmp_path / "ours")),
            )
    (file,) = (tmp_path / "ours").glob("*/checks.json")
    checks = json.loads(file.read_text(encoding="utf-8"))

    assert [] == [check["id"] for check in checks if check["status"] == "FAILURE"]
    assert [check for check in checks if check["status"] == "SUCCESS"]


def results(port: int, version: str, folder: Path) -> tuple[set[Check], set[Check]]:
    """Return the failed checks, and the passed ones."""
    run_node(
        modules() / SUITE,
        *("server", "--url", f"http://127.0.0.1:{port}/mcp/ralph"),
        *("--requirements", version, "--output-dir", str(folder)),
    )
    found: dict[str, set[Check]] = {}
    for file in folder.glob("*/checks.json"):
        scenario = RUN.sub("", file.parent.name).removeprefix("server-")
        for check in json.loads(file.read_text(encoding="utf-8")):
            one = (scenario, check["id"], check["name"])
            found.setdefault(check["status"], set()).add(one)
    return found["FAILURE"], found["SUCCESS"]
