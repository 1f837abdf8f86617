"""The items of every server: well-formed, executable, read-only and part of the wheel."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import create_project
from rye_projects import (
    KITS,
    SYSTEM_ITEMS,
    Rye,
    put,
    python_tool,
    serving,
    session,
)

from ralphgen.kits.rye import system_items

ROOT = Path(__file__).parents[4]
EVERY = [(kind, item_id) for kind, ids in SYSTEM_ITEMS.items() for item_id in ids]
INPUTS = {
    "rye/create_directive": {"id": "demo/tidy", "purpose": "Tidy the desk"},
    "rye/create_tool": {"id": "demo/count", "purpose": "Count lines", "kind": "command"},
    "rye/create_knowledge": {"id": "demo/desks", "title": "What is known of desks"},
}
FORMATS = {"directive": "directives", "tool": "tools", "knowledge": "knowledge"}
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
REGENERATE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import ralphgen
from ralphgen.emit.workflows import regenerate
assert Path(ralphgen.__file__).is_relative_to(sys.argv[1])
regenerate(Path(sys.argv[2]), force=False, say=lambda _line: None)
"""


@pytest.fixture(scope="module")
def rye(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session on a project without items."""
    with serving(tmp_path_factory.mktemp("system")) as found:
        yield found


@pytest.fixture
def alone(rye: Rye) -> Rye:
    """Return the session without items in the project and the user space."""
    rye.clear()
    return rye


def test_the_space_holds_these_items_and_no_other_file(rye: Rye) -> None:
    files = {
        path.relative_to(rye.system).as_posix(): path.read_text(encoding="utf-8")
        for path in rye.system.rglob("*")
        if path.is_file()
    }
    ids = {(path.partition("/")[0], path.partition("/")[2].rpartition(".")[0]) for path in files}

    assert {(FORMATS[kind], item_id) for kind, item_id in EVERY} == ids
    assert system_items() == files


@pytest.mark.parametrize(("kind", "item_id"), [pair for pair in EVERY if "/core/" not in pair[1]])
def test_a_copy_in_the_project_can_be_signed_without_a_warning(
    alone: Rye, kind: str, item_id: str
) -> None:
    alone.load(kind, item_id, destination="project")
    signed = alone.sign(kind, item_id)

    assert ("signed", []) == (signed["status"], signed["warnings"])
    assert "valid" == alone.load(kind, item_id, source="project")["signature"]["state"]


@pytest.mark.parametrize("item_id", SYSTEM_ITEMS["directive"])
def test_a_directive_is_returned_with_its_inputs_in_its_steps(alone: Rye, item_id: str) -> None:
    answer = alone.run("directive", item_id, **INPUTS[item_id])
    steps = json.dumps(answer["data"]["steps"])

    assert "success" == answer["status"]
    assert "valid" == answer["metadata"]["signature"]
    assert all(value in steps for value in INPUTS[item_id].values())
    assert [] == re.findall(r"\{input:[a-z_]+", steps)
    assert all(f"Call {tool} with" in steps for tool in ("search", "load", "sign", "execute"))
    assert "dry_run true" in steps


@pytest.mark.parametrize("item_id", SYSTEM_ITEMS["directive"])
def test_what_a_directive_names_is_there(alone: Rye, item_id: str) -> None:
    text = alone.load("directive", item_id)["content"]
    named = re.findall(r'item_type "(\w+)" and item_id "(rye/[\w-]+)"', text)

    assert named
    for kind, named_id in named:
        assert "system" == alone.load(kind, named_id)["source"]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_examples_of_a_format_can_be_signed(alone: Rye, kind: str) -> None:
    """Agents copy the examples, so a refused example would teach a mistake."""
    for path, text in examples(kind):
        put(alone.project / path, text)
        item_id = path.partition("/")[2].rpartition(".")[0]
        signed = alone.sign(kind, item_id)
        assert ("signed", []) == (signed["status"], signed["warnings"]), path


def examples(kind: str) -> Iterator[tuple[str, str]]:
    """Return the example items in the entry on a format, by path below `.ai/`."""
    text = system_items()[f"knowledge/rye/{kind}-format.md"]
    if kind == "directive":
        (found,) = re.findall(r"^````markdown\n(.*?)^````$", text, re.MULTILINE | re.DOTALL)
        yield "directives/release/publish.md", found
    elif kind == "knowledge":
        (found,) = re.findall(r"^```markdown\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        yield "knowledge/api/retry-limits.md", found
    else:
        (python,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        yield "tools/text/count-lines.py", python
        command, request = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        yield "tools/git/last-commits.yaml", command
        yield "tools/weather/ask.yaml", request


def test_the_python_example_runs(alone: Rye) -> None:
    ((path, text), *_) = examples("tool")
    put(alone.project / path, text)
    alone.sign("tool", "text/count-lines")
    put(alone.root / "three.txt", "a\nb\nc\n")

    assert {"lines": 3} == alone.run("tool", "text/count-lines", file="three.txt")["data"]


def chain(answer: dict[str, Any]) -> list[str]:
    return [element["item_id"] for element in answer["chain"]]


@pytest.mark.thorough
def test_the_built_wheel_carries_the_space(tmp_path: Path) -> None:
    """Upstream's wheel did not, so only a source tree could execute items."""
    root = create_project(tmp_path / "project", config=KITS).resolve()
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    for path in (root / ".ralph/mcp/rye/system").rglob("*.*"):
        path.unlink()
    command = [sys.executable, "-I", "-c", REGENERATE, str(tmp_path / "installed"), str(root)]
    subprocess.run(command, check=True)
    with session(tmp_path, root) as rye:
        found = rye.found("", source="system")
        rye.signed("tool", "demo/echo", python_tool("demo/echo"))
        answer = rye.run("tool", "demo/echo", who="Bob")

    assert sorted(item_id for _, item_id in EVERY) == sorted(found)
    assert {"who": "Bob"} == answer["data"]["params"]
