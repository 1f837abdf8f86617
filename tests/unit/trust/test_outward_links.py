"""A link in a clone makes no command write, read or delete outside of the project."""

import os
from pathlib import Path

import pytest
from command_line import ralphgen
from lanes import shortened
from trusting import add

pytestmark = pytest.mark.slow


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (".ralph/mcp/sessions", ("session", "create", "manual")),
        (".ralph/mcp/sessions", ("session", "list")),
        (".ralph/mcp/sessions", ("launch", "manual", "--dry-run")),
        (".ralph/learnings.txt", ("call", "ralph:append_learning", "text=new")),
        (".ralph/progress.txt", ("call", "ralph:append_progress", "text=new")),
        (".ralph/learnings.txt", ("call", "ralph:read_learnings")),
        (".ralph/.gitignore", ("init", ".", "--no-install")),
        (".claude", ("connect", "claude", "--skills")),
        (".claude", ("connect", "claude", "--subagents")),
        (".mcp.json", ("connect", "claude")),
        ("AGENTS.md", ("connect", "claude", "--agents-md")),
    ],
)
def test_a_link_that_leads_out_is_refused(
    clone: Path, tmp_path: Path, place: str, words: tuple[str, ...]
) -> None:
    outside = tmp_path / "outside"
    old = outside / "session-20200101T000000Z-0000"
    old.mkdir(parents=True)
    for name in ("context.json", "mcp.json", "lock"):
        (old / name).write_text("{}", encoding="utf-8")
    os.utime(old / "lock", (0, 0))
    (outside / "file").write_text("- private\n", encoding="utf-8")
    link, is_folder = clone / place, place.endswith(("sessions", ".claude"))
    if link.is_dir():
        link.rmdir()
    link.unlink(missing_ok=True)
    link.symlink_to(outside if is_folder else outside / "file")
    before = files_of(outside)
    done = ralphgen(*words, cwd=clone, stdin="")

    assert 0 != done.returncode
    assert "a link" in done.stderr or "leads out of the project" in done.stderr
    assert "private" not in done.stdout
    assert before == files_of(outside)


@pytest.mark.parametrize(
    "words",
    [("init", "--kit", "dela", "--no-install"), ("tools", "add", "own"), ("init", "--no-install")],
)
def test_no_command_writes_the_settings_of_another_project(
    clone: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    add(clone, "CREATE TABLE own (id INTEGER PRIMARY KEY, name TEXT)")
    (clone / "Cargo.toml").write_text('[package]\nname = "x"\n', encoding="utf-8")
    config = clone / ".ralph/ralphgen.toml"
    config.replace(tmp_path / "other.toml")
    config.symlink_to(tmp_path / "other.toml")
    before = (tmp_path / "other.toml").read_bytes()
    done = ralphgen(*words, "--project", clone)

    assert (2, True) == (done.returncode, "leads out of the project" in done.stderr), done.stderr
    assert before == (tmp_path / "other.toml").read_bytes()


@pytest.mark.parametrize(
    "words", [("init", "--no-install"), ("status",), ("trust", "--yes"), ("serve", "ralph")]
)
def test_no_command_enters_a_linked_folder_of_ralphgen(
    clone: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (clone / ".ralph").rename(tmp_path / "outside")
    (clone / ".ralph").symlink_to(tmp_path / "outside")
    before = files_of(tmp_path / "outside")
    done = ralphgen(*words, "--project", clone)

    assert (1, True) == (done.returncode, '.ralph" is a link' in done.stderr), done.stderr
    assert before == files_of(tmp_path / "outside")


def test_the_users_own_link_is_followed(own: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (own / ".claude").symlink_to(tmp_path / "outside")

    assert 0 == ralphgen("connect", "claude", "--skills", cwd=own).returncode
    assert (tmp_path / "outside/skills").is_dir()


LINKS = {
    ".claude/agents": "../docs",
    ".github/hooks": "../docs",
    ".claude/skills/s": "../../docs",
    ".claude": "docs",
    ".claude/skills": "../far",
    ".ralph/queries": "../docs",
    "packages/x/.agents": "../../docs",
}


@pytest.mark.parametrize("link", shortened(LINKS, ".claude/agents", ".claude/skills/s"))
def test_files_behind_a_linked_folder_are_listed_and_a_change_asks_again(
    clone: Path, link: str
) -> None:
    inner = "skills/SKILL.md"
    (clone / "docs/skills").mkdir(parents=True)
    (clone / "docs" / inner).write_text("x", encoding="utf-8")
    (clone / "far").symlink_to("docs")
    (clone / link).parent.mkdir(parents=True, exist_ok=True)
    (clone / link).symlink_to(LINKS[link])

    assert f"{link}/{inner}" in ralphgen("trust", "-C", clone, "--yes").stderr
    assert "nothing to approve" in ralphgen("trust", "-C", clone).stderr
    (clone / "docs" / inner).write_text("y", encoding="utf-8")
    assert f"{link}/{inner}" in ralphgen("trust", "-C", clone).stderr


@pytest.mark.thorough
@pytest.mark.parametrize("link", [".claude", ".claude/skills", ".claude/agents", ".ralph/queries"])
def test_a_link_to_a_folder_outside_is_listed_by_its_target(
    clone: Path, tmp_path: Path, link: str
) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (clone / link).parent.mkdir(exist_ok=True)
        (clone / link).unlink(missing_ok=True)
        (clone / link).symlink_to(tmp_path / name)

        assert link in ralphgen("trust", "-C", clone, "--yes").stderr
        assert "nothing to approve" in ralphgen("trust", "-C", clone).stderr


def test_links_in_a_circle_end(clone: Path) -> None:
    (clone / ".claude/skills").mkdir(parents=True)
    (clone / ".claude/skills/s").symlink_to("../..")
    (clone / "SKILL.md").write_text("x", encoding="utf-8")

    assert ".claude/skills/s/SKILL.md" in ralphgen("trust", "-C", clone).stderr


def test_links_in_worktrees_of_claude_code_are_not_followed(clone: Path) -> None:
    packages = clone / ".claude/worktrees/x/node_modules"
    (packages / "store").mkdir(parents=True)
    for number in range(1_001):
        (packages / str(number)).symlink_to("store")

    assert "nothing to approve" in ralphgen("trust", "-C", clone).stderr
