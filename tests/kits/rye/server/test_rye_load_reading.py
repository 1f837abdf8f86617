"""Loading shows the text, metadata and trust of an item, and runs nothing."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import snapshot
from rye_projects import (
    HTTP_CLIENT,
    SYSTEM_ITEMS,
    TYPES,
    Rye,
    put,
    python_tool,
    serving,
)

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a user's session with a strict policy for execution."""
    folder = tmp_path_factory.mktemp("reading")
    with serving(folder, settings='policy = "trusted"') as found:
        yield found


@pytest.fixture
def rye(server: Rye) -> Rye:
    """Return the session without items in the project and the user space."""
    server.clear()
    return server


def other_line(path: Path) -> object:
    """Add a first line that is not a valid signature."""
    return put(path, "# rye:signed:never\n" + path.read_text(encoding="utf-8"))


def changed_body(path: Path) -> object:
    return path.write_bytes(path.read_bytes() + b"\n# more\n")


def by_another_key(path: Path) -> object:
    """Attribute the signature to an untrusted key."""
    text = path.read_text(encoding="utf-8")
    return put(path, re.sub(r":[0-9a-f]{16}( -->)?\n", rf":{'0' * 16}\1\n", text, count=1))


def keyless(path: Path) -> object:
    """Replace the signature with a digest, which needs no key."""
    text = path.read_text(encoding="utf-8")
    keyless = re.sub(r"rye:signed:(.*Z:[0-9a-f]{64}):\S+", r"rye:validated:\1", text, count=1)
    return put(path, keyless)


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize(
    ("change", "state"),
    [
        (None, "valid"),
        (other_line, "unsigned"),
        (changed_body, "modified"),
        (by_another_key, "untrusted"),
        (keyless, "untrusted"),
    ],
)
def test_an_item_is_shown_whatever_the_state_of_its_signature(
    rye: Rye, item_type: str, change: Change | None, state: str
) -> None:
    """Reading is needed to fix an item; only execution is refused."""
    path = rye.signed(item_type, "demo/greet")
    if change:
        change(path)
    answer = rye.load(item_type, "demo/greet")
    given = {"item_type": item_type, "item_id": "demo/greet", "dry_run": True}
    parameters = {"who": "Bob"} if item_type == "directive" else {}
    failed, _ = rye.ask("execute", **given, parameters=parameters)

    assert (state, state != "valid") == (answer["signature"]["state"], failed)
    assert path.read_text(encoding="utf-8") == answer["content"]
    assert ("reason" in answer["signature"]) == (state != "valid")


def test_nothing_of_a_tool_is_run_by_being_looked_at(rye: Rye) -> None:
    marker = rye.folder / "was-run"
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    code += f"def execute(params, project_path):\n    pathlib.Path({str(marker)!r}).touch()\n"
    rye.put("tool", "sly", python_tool("sly", code))
    rye.load("tool", "sly")
    rye.load("tool", "sly", destination="user")
    rye.found("sly")
    rye.sign("tool", "sly")

    assert not marker.exists()


def test_reading_leaves_everything_as_it_was(rye: Rye) -> None:
    for item_type in TYPES:
        rye.put(item_type, "demo/greet")
    before: list[Any] = [
        snapshot(place) for place in (rye.project, rye.system, rye.folder / "home")
    ]
    for item_type, ids in SYSTEM_ITEMS.items():
        rye.load(item_type, "demo/greet")
        rye.load(item_type, ids[0])
    rye.load("tool", HTTP_CLIENT, source="system")

    assert before == [snapshot(place) for place in (rye.project, rye.system, rye.folder / "home")]
    assert not rye.user.exists()
