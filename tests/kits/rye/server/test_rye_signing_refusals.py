"""Refused signatures: each has a reason and leaves the file unchanged."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import context_for, on_context, server_command
from lifelines import until
from rye_projects import (
    HTTP_CLIENT,
    Rye,
    directive,
    frames,
    knowledge,
    put,
    python_tool,
    rye_project,
    serving,
    session,
    variables,
    yaml_tool,
)
from wire import Wire

MANY = 400
FULL_DISK = 'ulimit -f 2; exec "$@"'  # 1 KiB
FIX = 'declare "name" in "config_schema"; for literal braces, use the default of a parameter'
NAMES = {"type": "object", "properties": {"names": {"type": "string"}}}
ISSUES: tuple[tuple[str, str, str, str], ...] = (
    (
        "directive",
        ".md",
        directive("demo/a", version="1.0"),
        '"version" must be X.Y.Z, found "1.0"',
    ),
    *(
        (
            "tool",
            ".yaml",
            yaml_tool("demo/a", config_schema=NAMES, **fields),
            f'the placeholder "{{name}}" has no value: did you mean "{{names}}"? If not, {FIX}',
        )
        for fields in (
            {"config": {"command": "mkdir", "args": ["-p", "out/{name}"]}},
            {
                "config": {"url": "https://example.com", "body": {"a": [{"b": "{name}"}]}},
                "executor_id": HTTP_CLIENT,
            },
            {"config": {"command": "ls"}, "env_config": {"env": {"A": "{name}"}}},
        )
    ),
    (
        "tool",
        ".py",
        python_tool("demo/a", CONFIG={"env": {"A": "{named}"}}),
        f'the placeholder "{{named}}" has no value: {FIX.replace("name", "named")}',
    ),
    ("knowledge", ".md", knowledge("demo/a", title=...), 'missing required field "title"'),
)


def refusal(rye: Rye, item_type: str, item_id: str = "demo/a", **given: Any) -> dict[str, Any]:
    return rye.refuses("sign", item_type=item_type, item_id=item_id, **given)


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session that executes unsigned items."""
    with serving(tmp_path_factory.mktemp("lax"), settings='policy = "off"') as rye:
        yield rye


class TestExecution:
    """An item that cannot be signed is not executed either, under any policy."""

    @pytest.mark.parametrize(("item_type", "extension", "text", "issue"), ISSUES)
    def test_the_issue_is_named_and_nothing_runs(
        self, lax: Rye, item_type: str, extension: str, text: str, issue: str
    ) -> None:
        lax.clear()
        lax.put(item_type, "demo/a", text, extension=extension)
        error = lax.refuses("execute", item_type=item_type, item_id="demo/a")

        assert "VALIDATION_FAILED" == error["code"]
        assert issue in error["message"]
        assert not (lax.root / "out").exists()

    def test_braces_come_from_the_default_of_a_parameter(self, lax: Rye) -> None:
        lax.clear()
        schema = {"type": "object", "properties": {"form": {"default": "%{http_code}"}}}
        text = yaml_tool(
            "demo/a", config={"command": "echo", "args": ["{form}"]}, config_schema=schema
        )
        lax.put("tool", "demo/a", text, extension=".yaml")
        ran = lax.says("execute", item_type="tool", item_id="demo/a")

        assert "%{http_code}\n" == ran["data"]["stdout"]


class TestWhere:
    """Signing applies to the project unless one of two arguments names the user space."""

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, "project"),
            ({"source": "project"}, "project"),
            ({"source": "user"}, "user"),
            ({"parameters": {"location": "project"}}, "project"),
            ({"parameters": {"location": "user"}}, "user"),
            ({"source": "user", "parameters": {"location": "user"}}, "user"),
        ],
    )
    def test_only_the_item_of_that_space_is_signed(
        self, rye: Rye, given: dict[str, Any], expected: str
    ) -> None:
        paths = {name: rye.put("tool", "demo/a", space=name) for name in ("project", "user")}
        answer = rye.sign("tool", "demo/a", **given)
        signed = [name for name, path in paths.items() if b"rye:signed:" in path.read_bytes()]

        assert (expected, [expected], str(paths[expected])) == (
            answer["location"],
            signed,
            answer["path"],
        )


@contextmanager
def on_full_disk(root: Path, environment: dict[str, str]) -> Iterator[Wire]:
    """Yield a server that cannot write files above 1 KiB."""
    command = server_command(root, "rye", *on_context(context_for(root, "manual")))
    with subprocess.Popen(
        ["/bin/sh", "-c", FULL_DISK, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **environment},
    ) as process:
        wire = Wire(process)
        wire.shake_hands()
        yield wire
        wire.leave()


def signing(root: Path, item_id: str) -> dict[str, Any]:
    given = {"item_type": "tool", "item_id": item_id, "project_path": str(root)}
    return {"name": "sign", "arguments": given}


class TestCrashes:
    """A crash leaves either the old or the new file."""

    def test_where_the_disk_is_full_it_is_the_old_one(self, tmp_path: Path) -> None:
        root = rye_project(tmp_path / "project")
        text = python_tool("demo/a") + "# long\n" * 500
        path = put(root / ".ai/tools/demo/a.py", text)
        with on_full_disk(root, variables(tmp_path)) as wire:
            told = wire.ask("tools/call", signing(root, "demo/a"))["result"]
            error = json.loads(told["content"][0]["text"])["error"]

        assert "EXECUTION_FAILED" == error["code"]
        assert error["message"].endswith("cannot be written: file too large")
        assert text == path.read_text(encoding="utf-8")
        assert [path] == [*path.parent.iterdir()]

    @pytest.mark.thorough
    def test_where_the_server_is_killed_each_is_one_or_the_other(self, tmp_path: Path) -> None:
        root = rye_project(tmp_path / "project")
        texts = {f"demo/t{number}": python_tool(f"demo/t{number}") for number in range(MANY)}
        paths = {name: put(root / f".ai/tools/{name}.py", told) for name, told in texts.items()}
        with frames(root, variables(tmp_path)) as wire:
            wire.send("tools/call", signing(root, "**"), id=7)
            assert until(
                lambda: any(path.read_bytes().startswith(b"# rye:") for path in paths.values())
            )
            wire.process.kill()
        with session(tmp_path, root) as rye:
            states = {name: rye.load("tool", name)["signature"]["state"] for name in texts}
            total = rye.says("search", item_type="tool", query="", source="project")["total"]

        assert {"valid"} <= {*states.values()} <= {"valid", "unsigned"}
        assert MANY == total
        for name, path in paths.items():
            lines = path.read_text(encoding="utf-8").split("\n", 1)
            assert texts[name] == (lines[1] if "valid" == states[name] else "\n".join(lines))
