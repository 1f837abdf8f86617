"""Every element of a chain is verified, and exactly the verified bytes run."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rye_attacks import INTEGRITY, TRUSTED, code, marking, ran, shell, stamped
from rye_projects import PYTHON_RUNTIME, SUBPROCESS, Rye, put, python_tool, serving, yaml_tool

SETTINGS = TRUSTED

STATES: dict[str, tuple[Callable[[Path], object], str]] = {
    "unsigned": (lambda path: path.write_text(unsigned(path), "utf-8"), "UNSIGNED"),
    "modified": (
        lambda path: path.write_text(path.read_text("utf-8") + "tags: [x]\n", "utf-8"),
        "INTEGRITY_FAILED",
    ),
    "stamped": (lambda path: path.write_text(stamped(unsigned(path)), "utf-8"), "UNTRUSTED_KEY"),
    "moved": (lambda path: path.rename(path.with_name("other.yaml")), "EXECUTOR_NOT_FOUND"),
}


def unsigned(path: Path) -> str:
    return path.read_text("utf-8").split("\n", 1)[1]


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """Return the session without items."""
    shared.clear()
    (shared.folder / "marker").unlink(missing_ok=True)
    return shared


def signed_chain(rye: Rye, *ids: str, script: str = "echo done") -> list[Path]:
    """Write and sign tools that execute each other, the last one by the subprocess primitive."""
    ends = [*ids[1:], SUBPROCESS]
    return [
        rye.signed("tool", item_id, shell(item_id, script, executor_id=end), extension=".yaml")
        for item_id, end in zip(ids, ends, strict=True)
    ]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_that_is_not_valid_stops_the_whole_chain(rye: Rye, which: int, state: str) -> None:
    """S18: the first, middle or last element that belongs to the project."""
    paths = signed_chain(rye, "a", "b", "c", script=f"touch {rye.folder}/marker; echo done")
    before = ran(rye, "a")
    (rye.folder / "marker").unlink()
    spoil, expected = STATES[state]
    spoil(paths[which])
    found = ran(rye, "a"), code(rye, "execute", item_type="tool", item_id="a", dry_run=True)
    missing = "ITEM_NOT_FOUND" if which == 0 and state == "moved" else expected

    assert "success" == before
    assert (missing, missing) == found
    assert not (rye.folder / "marker").exists()


def test_a_runtime_of_the_project_is_held_to_its_own_signature(rye: Rye) -> None:
    """S17: it is not part of the server, regardless of its metadata."""
    marker = rye.folder / "marker"
    config = {"command": sys.executable, "args": ["-c", marking(marker)]}
    runtime = {"tool_type": "runtime", "executor_id": SUBPROCESS, "config": config}
    rye.signed("tool", "a", python_tool("a", executor_id="own/python_runtime"))
    text = yaml_tool("own/python_runtime", **runtime)
    rye.put("tool", "own/python_runtime", text, extension=".yaml")
    first = ran(rye, "a")
    rye.put("tool", "own/python_runtime", stamped(text), extension=".yaml")
    second = ran(rye, "a")

    assert ("UNSIGNED", "UNTRUSTED_KEY") == (first, second)
    assert not marker.exists()


def test_a_tool_that_calls_itself_a_primitive_is_none(rye: Rye) -> None:
    """S17: only files in the server's system space are primitives."""
    for name in ("own/subprocess", "own/http_client", "primitives/subprocess"):
        text = yaml_tool(name, tool_type="primitive", executor_id=None)
        rye.put("tool", name, stamped(text), extension=".yaml")
        rye.put("tool", "a", shell("a", "echo x", executor_id=name), extension=".yaml")
        rye.sign("tool", "a")

        assert ran(rye, "a") in ("UNTRUSTED_KEY", "EXECUTOR_NOT_FOUND")


@pytest.fixture(scope="module")
def served_intact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session that permits all intact tools, which run in the project's Python."""
    with serving(tmp_path_factory.mktemp("intact"), settings=INTEGRITY) as rye:
        yield rye


@pytest.fixture
def intact(served_intact: Rye) -> Rye:
    """Return the session without items."""
    served_intact.clear()
    (served_intact.folder / "marker").unlink(missing_ok=True)
    return served_intact


@contextmanager
def kept(path: Path) -> Iterator[None]:
    """Restore a file at the end of the block."""
    data = path.read_bytes()
    try:
        yield
    finally:
        path.unlink()
        path.write_bytes(data)


def test_what_was_verified_is_what_runs(intact: Rye) -> None:
    """S18: a file that changes between its verification and its start does not run."""
    marker = intact.folder / "marker"
    path = intact.signed("tool", "a", python_tool("a", "def main(): return 1\n"))
    wrapper = (
        f"#!/bin/sh\ncat >> {path} <<'END'\n{marking(marker)}END\nexec {sys.executable} \"$@\"\n"
    )
    python = put(intact.root / ".venv/bin/python", wrapper)
    python.chmod(0o755)
    try:
        refusal = intact.refuses("execute", item_type="tool", item_id="a")
    finally:
        python.unlink()

    assert "EXECUTION_FAILED" == refusal["code"]
    assert "changed since it was checked" in refusal["message"]
    assert not marker.exists()


def test_a_link_that_takes_the_place_of_the_file_is_not_run(intact: Rye) -> None:
    """S3, S18: a replaced file of the same name does not run either."""
    marker = intact.folder / "marker"
    evil = put(intact.folder / "evil.py", marking(marker))
    path = intact.signed("tool", "a", python_tool("a", "def main(): return 1\n"))
    python = put(
        intact.root / ".venv/bin/python",
        f'#!/bin/sh\nln -sf {evil} {path}\nexec {sys.executable} "$@"\n',
    )
    python.chmod(0o755)
    try:
        found = ran(intact, "a")
    finally:
        python.unlink()

    assert "EXECUTION_FAILED" == found
    assert not marker.exists()


@pytest.mark.parametrize("how", ["text", "link", "manifest"])
def test_what_comes_with_the_server_is_as_it_came(intact: Rye, how: str) -> None:
    """S18: a changed file, a replaced file or a changed manifest is detected."""
    marker = intact.folder / "marker"
    intact.signed("tool", "a", python_tool("a", "def main(): return 1\n"))
    path = intact.file("tool", PYTHON_RUNTIME, space="system", extension=".yaml")
    manifest = intact.root / ".ralph/mcp/manifest.json"
    evil = path.read_text("utf-8").replace("${RYE_PYTHON}", "touch").replace('"-I"', f'"{marker}"')
    with kept(path), kept(manifest):
        if how == "text":
            path.write_text(evil, "utf-8")
        elif how == "link":
            path.unlink()
            path.symlink_to(put(intact.folder / "evil.yaml", evil))
        else:
            listed = json.loads(manifest.read_text("utf-8"))
            listed["files"][str(path.relative_to(manifest.parent))] = "0" * 64
            manifest.write_text(json.dumps(listed), "utf-8")
        found = ran(intact, "a")

    assert ("EXECUTOR_NOT_FOUND" if how == "link" else "INTEGRITY_FAILED") == found
    assert not marker.exists()


def test_a_folder_within_the_project_has_the_same_policy(rye: Rye) -> None:
    """S19: the policy also applies to items of a package inside the project."""
    marker = rye.folder / "marker"
    text = python_tool("a", marking(marker))
    package = rye.root / "node_modules/package"
    for each in (text, stamped(text)):
        put(package / ".ai/tools/a.py", each)
        found = rye.refuses("execute", item_type="tool", item_id="a", project_path=str(package))

        assert found["code"] in ("UNSIGNED", "UNTRUSTED_KEY")
    assert not marker.exists()
