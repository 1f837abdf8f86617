"""The refusals and warnings of each policy, for each type and each state."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from rye_projects import (
    TYPES,
    Rye,
    directive,
    on_server,
    put,
    python_tool,
    rye_project,
    serving,
    session,
    variables,
    well_formed,
)

POLICIES = ("off", "warn", "integrity", "trusted")
STATES = {
    "signed": "valid",
    "not signed": "unsigned",
    "changed": "modified",
    "moved": "modified",
    "without a key": "untrusted",
    "by a stranger": "untrusted",
}
REFUSED = {
    "off": (),
    "warn": (),
    "integrity": ("unsigned", "modified"),
    "trusted": ("unsigned", "modified", "untrusted"),
}
CODES = {"unsigned": "UNSIGNED", "modified": "INTEGRITY_FAILED", "untrusted": "UNTRUSTED_KEY"}
TIME = "2026-02-03T10:20:30Z"
RUNS = "def execute(params, project_path):\n    open('ran.txt', 'a').close()\n"


def text_of(item_type: str) -> str:
    return (
        directive("demo/a", inputs="")
        if item_type == "directive"
        else (
            python_tool("demo/a", RUNS) if item_type == "tool" else well_formed(item_type, "demo/a")
        )
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """Return the texts of one user's items by type and origin, and the user's keys as `keys`."""
    folder = tmp_path_factory.mktemp("texts")
    found: dict[tuple[str, str], str] = {}
    with serving(folder) as rye:
        stranger = variables(folder / "stranger")
        for item_type in TYPES:
            bare = text_of(item_type)
            path = rye.signed(item_type, "demo/a", bare)
            found[item_type, "signed"] = path.read_text(encoding="utf-8")
            found[item_type, "not signed"] = bare
            found[item_type, "changed"] = found[item_type, "signed"] + "\n"
            payload = f"rye:validated:{TIME}:{sha256(bare.encode()).hexdigest()}"
            line = f"# {payload}" if item_type == "tool" else f"<!-- {payload} -->"
            found[item_type, "without a key"] = f"{line}\n{bare}"
            moved = rye.put(item_type, "other/a", bare.replace("demo", "other"))
            rye.sign(item_type, "other/a")
            found[item_type, "moved"] = moved.read_text(encoding="utf-8")
        with on_server(rye.root, stranger) as driver:
            other = Rye(folder, rye.root, driver)
            for item_type in TYPES:
                path = other.signed(item_type, "demo/a", text_of(item_type))
                found[item_type, "by a stranger"] = path.read_text(encoding="utf-8")
        keys = {
            path.relative_to(rye.user).as_posix(): path.read_text(encoding="utf-8")
            for path in rye.user.rglob("*.pem")
        }
    found["keys", ""] = json.dumps(keys)
    return found


@pytest.fixture(scope="module", params=POLICIES)
def strict(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    texts: dict[tuple[str, str], str],
) -> Iterator[tuple[str, Rye]]:
    """Yield that user's session under each policy; variables try to switch the policy off."""
    policy = str(request.param)
    folder = tmp_path_factory.mktemp(policy)
    tries = {"RYE_DEV_MODE": "1", "RYE_POLICY": "off", "RYE_SIGNATURE_POLICY": "off"}
    with serving(folder, settings=f'policy = "{policy}"', environment=tries) as rye:
        for name, text in json.loads(texts["keys", ""]).items():
            path = put(rye.user / name, text)
            path.parent.chmod(0o700)
            path.chmod(0o600)
        yield policy, rye


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("how", STATES)
def test_it_refuses_what_it_says_and_tells_the_rest(
    strict: tuple[str, Rye], texts: dict[tuple[str, str], str], item_type: str, how: str
) -> None:
    policy, rye = strict
    rye.put(item_type, "demo/a", texts[item_type, how])
    state = STATES[how]
    ran = rye.root / "ran.txt"
    ran.unlink(missing_ok=True)
    failed, answer = rye.ask("execute", item_type=item_type, item_id="demo/a")
    refused = state in REFUSED[policy]
    if how == "moved" and not refused:  # cannot be signed here, as its path and name differ
        assert failed
        assert "VALIDATION_FAILED" == answer["error"]["code"]
        assert not ran.exists()
        return

    assert refused == failed
    assert (item_type == "tool" and not refused) == ran.exists()
    if refused:
        error = answer["error"]
        assert (CODES[state], policy, state) == (
            error["code"],
            error["policy"],
            error["signature"]["state"],
        )
        assert "demo/a" in error["message"]
        fix = "trusted_keys/" if how == "by a stranger" else 'sign it with "sign"'
        assert fix in error["message"]
    else:
        metadata = answer["metadata"]
        assert (policy, state) == (metadata["policy"], metadata["signature"])
        warned = state != "valid" and policy != "off"
        assert warned == any(state in each for each in metadata.get("warnings", ()))


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("how", STATES)
def test_a_dry_run_goes_by_it_too_and_reading_never_does(
    strict: tuple[str, Rye], texts: dict[tuple[str, str], str], item_type: str, how: str
) -> None:
    policy, rye = strict
    rye.put(item_type, "demo/a", texts[item_type, how])
    state = STATES[how]
    failed, _ = rye.ask("execute", item_type=item_type, item_id="demo/a", dry_run=True)
    loaded = rye.load(item_type, "demo/a")
    (found,) = rye.says("search", item_type=item_type, query="", source="project")["results"]

    assert (state in REFUSED[policy] or how == "moved") == failed
    assert (state, state) == (loaded["signature"]["state"], found["signature"])
    assert texts[item_type, how] == loaded["content"]


class TestTypes:
    """Each type has a separate policy."""

    @pytest.mark.parametrize(
        ("settings", "refused"),
        [
            ("", ["tool"]),
            ('policy = { tool = "warn" }', []),
            ('policy = { directive = "integrity" }', ["directive", "tool"]),
            ('policy = { knowledge = "trusted", tool = "off" }', ["knowledge"]),
        ],
    )
    def test_an_unsigned_item_is_refused_where_its_type_is_strict(
        self, tmp_path: Path, settings: str, refused: list[str]
    ) -> None:
        found: list[str] = []
        with serving(tmp_path, settings=settings) as rye:
            for item_type in TYPES:
                rye.put(item_type, "demo/a", text_of(item_type))
                if rye.ask("execute", item_type=item_type, item_id="demo/a")[0]:
                    found.append(item_type)

        assert refused == found
        assert ("tool" not in refused) == (rye.root / "ran.txt").exists()

    def test_it_is_fixed_when_the_server_is_written(self, tmp_path: Path) -> None:
        """Neither the config nor the emitted settings are read while it runs."""
        root = rye_project(tmp_path / "project", 'policy = "trusted"')
        with session(tmp_path, root) as rye:
            codes = [code(rye)]
            for path in (root / ".ralph/ralphgen.toml", root / ".ralph/mcp/rye/settings.py"):
                text = path.read_text(encoding="utf-8")
                put(path, text.replace("trusted", "off"))
                codes.append(code(rye))

        assert ["UNSIGNED"] * 3 == codes


def code(rye: Rye) -> Any:
    rye.put("tool", "demo/a", python_tool("demo/a"))
    return rye.refuses("execute", item_type="tool", item_id="demo/a")["code"]


def test_a_repository_cannot_bring_the_python_that_trusted_tools_run_in(
    strict: tuple[str, Rye],
) -> None:
    policy, rye = strict
    rye.signed("tool", "demo/b", python_tool("demo/b", RUNS))
    brought = rye.root / ".venv/bin/python"
    put(brought, '#!/bin/sh\ntouch brought.txt\nexec python3 "$@"\n').chmod(0o755)
    (rye.root / "ran.txt").unlink(missing_ok=True)
    answer = rye.run("tool", "demo/b")
    brought.unlink()
    warning = 'the project\'s own ".venv" is not used under the policy "trusted": it is not signed'

    assert (rye.root / "ran.txt").exists()
    assert (policy != "trusted") == (rye.root / "brought.txt").exists()
    assert ([warning] if policy == "trusted" else []) == answer["metadata"].get("warnings", [])
