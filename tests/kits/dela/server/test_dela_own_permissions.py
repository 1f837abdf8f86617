"""A project's content affects neither the permission to start its tasks nor their location."""

from pathlib import Path

import pytest
from command_line import ralphgen
from command_line import refused as command_refused
from dela_projects import (
    NEW_PLACE,
    OLD_PLACE,
    allow,
    allowed_names,
    at_home,
    entry,
    project_with,
    refusal,
)
from driving import connected

BUILD = {"Makefile": "build:\n\t@touch made\n"}


@pytest.mark.thorough
def test_settings_cannot_name_an_allowlist(tmp_path: Path) -> None:
    root = project_with(tmp_path / "p", {**BUILD, "allow.toml": entry("Directory", "/")})
    config = 'kits = ["dela"]\n[dela]\nallowlist = "/proc/self/cwd/allow.toml"\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    with at_home(tmp_path / "home"):
        assert "allowlist" in command_refused("regen", "--no-install", cwd=root)
        ralphgen("call", "dela:task_start", "unique_name=build", cwd=root)

    assert not (root / "made").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("place", [NEW_PLACE, OLD_PLACE])
@pytest.mark.parametrize("link", ["none", "file", "folder"])
def test_allowlist_in_the_project_allows_nothing(tmp_path: Path, place: str, link: str) -> None:
    root = project_with(tmp_path / "p", BUILD)
    brought = allow(root, entry("Directory", root), place=place)
    home = root if link == "none" else tmp_path / "home"
    if link == "file":
        (home / place).parent.mkdir(parents=True)
        (home / place).symlink_to(brought)
    elif link == "folder":
        (home / place).parent.parent.mkdir(parents=True)
        (home / place).parent.symlink_to(brought.parent)
    with at_home(home), connected(root, kit="dela") as dela:
        assert [] == allowed_names(dela)
        assert "build" in refusal(dela, "task_start", unique_name="build").message

    assert not (root / "made").exists()


def test_allowlist_of_the_user_lets_a_task_start(tmp_path: Path) -> None:
    root = project_with(tmp_path / "p", BUILD)
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        with connected(root, kit="dela") as dela:
            dela.call("task_start", unique_name="build", wait_for_exit_seconds=60)

    assert (root / "made").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("kit", ["dela", "specum"])
@pytest.mark.parametrize("root", ["../other", "link", "sub/../../other"])
def test_root_of_the_settings_must_be_in_the_project(tmp_path: Path, kit: str, root: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "Makefile").write_text(BUILD["Makefile"], encoding="utf-8")
    place = project_with(tmp_path / "p", {"sub/keep": "", **BUILD})
    (place / "link").symlink_to(other)
    config = f'kits = ["{kit}"]\n[{kit}]\nroot = "{root}"\n'
    (place / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", other))
        ralphgen("regen", "--no-install", "--allow-removals", cwd=place)
        call = {"dela": "dela:list_tasks", "specum": "specum:ralph_status"}[kit]
        done = ralphgen("call", call, cwd=place)
        inspected = ralphgen("inspect", cwd=place)

    assert 0 != done.returncode
    assert "is not in the project" in done.stderr
    assert str(other) not in inspected.stdout
    assert "is outside the project" in inspected.stdout + inspected.stderr
