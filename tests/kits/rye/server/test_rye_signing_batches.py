"""Signing by pattern: items are signed separately, inside the space, and all are reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rye_projects import (
    Rye,
    on_server,
    put,
    python_tool,
    rye_project,
    variables,
    well_formed,
    yaml_tool,
)

NOWHERE = Path("/proc/rye/.ai")  # not even root can create a directory here


def is_signed(path: Path) -> bool:
    return b"rye:signed:" in path.read_bytes()


def test_the_user_space_has_patterns_too(rye: Rye) -> None:
    ours = rye.put("tool", "demo/a")
    users = [rye.put("tool", name, space="user") for name in ("demo/a", "demo/b")]
    answer = rye.sign("tool", "demo/*", parameters={"location": "user"})

    assert ["demo/a", "demo/b"] == answer["signed"]
    assert [False, True, True] == [is_signed(path) for path in (ours, *users)]


def test_files_that_are_no_items_are_left_alone(rye: Rye) -> None:
    folder = rye.project / "tools"
    text = python_tool("a")
    others = [
        put(folder / name, text)
        for name in ("_a.py", ".a.py", "__pycache__/a.py", ".git/a.py", "A.py", "demo/_x/a.py")
    ]
    others += [put(folder / "demo/a.txt", text), put(folder / "core.json", "{}")]
    rye.put("tool", "demo/a")
    answer = rye.sign("tool", "**")

    assert ["demo/a"] == answer["signed"]
    assert [] == [path for path in others if is_signed(path)]


def test_both_kinds_of_tools_are_meant(rye: Rye) -> None:
    rye.put("tool", "demo/a")
    rye.put("tool", "demo/b", yaml_tool("demo/b"), extension=".yaml")
    rye.put("tool", "demo/c", yaml_tool("demo/c"), extension=".yml")

    assert ["demo/a", "demo/b", "demo/c"] == rye.sign("tool", "demo/*")["signed"]


@contextmanager
def with_user_space(folder: Path, place: Path, policy: str) -> Iterator[Rye]:
    """Yield a session on a new project with its user space at `place`."""
    root = rye_project(folder / "project", f'policy = "{policy}"')
    environment = {**variables(folder), "USER_SPACE": str(place)}
    with on_server(root, environment) as driver:
        yield Rye(folder, root, driver)


class TestWithoutAKey:
    """No key can be created in an unwritable directory."""

    @pytest.mark.parametrize("item_id", ["demo/a", "demo/*"])
    def test_where_the_policy_asks_for_one_nothing_is_signed(
        self, tmp_path: Path, item_id: str
    ) -> None:
        with with_user_space(tmp_path, NOWHERE, "trusted") as rye:
            path = rye.put("tool", "demo/a")
            error = rye.refuses("sign", item_type="tool", item_id=item_id)

        assert "UNTRUSTED_KEY" == error["code"]
        assert well_formed("tool", "demo/a") == path.read_text(encoding="utf-8")
