"""`connect claude --plugin`: the files for Claude Code, and their updates."""

import ast
import json
from pathlib import Path

import pytest
import yaml
from command_line import initialized, ralphgen, ran, refused, run_sql, snapshot, texts
from driving import create_project
from proved_projects import proved_project

pytestmark = pytest.mark.slow

PLUGIN = ".ralph/plugin"
COMMANDS = ("brief", "check", "done", "next")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p")


def write_plugin(root: Path) -> Path:
    ran("connect", "claude", "--plugin", "--project", root)
    return root / PLUGIN


def front_matter(path: Path) -> dict[str, str]:
    _, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    found: dict[str, str] = yaml.safe_load(head)
    return found


def test_it_holds_skills_commands_hooks_and_what_names_them(tmp_path: Path) -> None:
    folder = write_plugin(proved_project(tmp_path / "p"))
    facts, market, hooks = (
        json.loads((folder / path).read_bytes())
        for path in (
            ".claude-plugin/plugin.json",
            ".claude-plugin/marketplace.json",
            "hooks/hooks.json",
        )
    )

    assert ("ralphgen", "./") == (facts["name"], market["plugins"][0]["source"])
    assert set(COMMANDS) == {path.stem for path in (folder / "commands").glob("*.md")}
    assert all(front_matter(folder / f"commands/{name}.md")["description"] for name in COMMANDS)
    assert "ralph-project" == front_matter(folder / "skills/ralph-project/SKILL.md")["name"]
    assert {"PreToolUse", "Stop", "SubagentStop"} == set(hooks["hooks"])
    assert "block" == hooks["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"]
    for program in (folder / "hooks").glob("*.py"):
        tree = ast.parse(program.read_bytes(), feature_version=(3, 9))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert [] == [name for name in names if "ralphgen" in name]


@pytest.mark.thorough
def test_commands_are_about_what_the_project_has(root: Path, tmp_path: Path) -> None:
    folder = write_plugin(root)
    done = (folder / "commands/done.md").read_text(encoding="utf-8")

    assert not (folder / "commands/check.md").exists()
    assert "task check" not in done

    other = initialized(tmp_path / "other", "--kit", "rye")
    config = other / ".ralph/ralphgen.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('["ralph", "rye"]', '["rye"]'), encoding="utf-8")
    folder = write_plugin(other)

    assert not (folder / "commands").exists()
    assert ["rye-items"] == [path.name for path in (folder / "skills").iterdir()]


def test_no_file_names_a_machine_and_the_same_project_gives_the_same_bytes(root: Path) -> None:
    before = texts(write_plugin(root))
    write_plugin(root)

    assert before == texts(root / PLUGIN)
    whole = b"".join(before.values())
    assert [] == [name for name in (root, Path.home()) if str(name).encode() in whole]
    state = snapshot(root)
    assert 0 == ralphgen("check", root).returncode
    assert state == snapshot(root)


def test_check_names_differences_and_edits_are_not_overwritten(root: Path) -> None:
    folder = write_plugin(root)
    (folder / "commands/own.md").write_text("a person's", encoding="utf-8")
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    done = ralphgen("check", root)

    assert 1 == done.returncode
    assert "skills/ralph-project/references/tool-guide.md" in done.stdout
    assert ".ralph/plugin/skills/ralph-project/references/tool-guide.md" in done.stderr

    (folder / "hooks/gate.py").write_text("mine", encoding="utf-8")
    said = refused("regen", "--no-install", root)

    assert ".ralph/plugin/hooks/gate.py was edited by hand; not overwritten" in said
    assert 'discard the edit with "ralphgen regen --force"' in said
    ran("regen", "--force", "--no-install", root)
    assert 0 == ralphgen("check", root).returncode
    assert "a person's" == (folder / "commands/own.md").read_text(encoding="utf-8")
