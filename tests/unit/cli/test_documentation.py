"""The documentation's examples can be typed: all commands are there, and settings are valid."""

import re
import shlex
from pathlib import Path

from ralphgen.cli.commands import load
from ralphgen.kits.registry import KITS
from ralphgen.project.config import Config, read_config
from ralphgen.project.inspect import settings_models
from ralphgen.runtime.files.main_tree import CLIENT_FILES, CLIENT_FOLDERS, CLIENT_PARTS
from ralphgen.terminal.console import COMMANDS as TABLE

ROOT = Path(__file__).parents[3]
COMMANDS = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
LOOP = (ROOT / "docs/loop.md").read_text(encoding="utf-8")
WORK_TREES = (ROOT / "docs/worktrees.md").read_text(encoding="utf-8")
HTTP = (ROOT / "docs/http.md").read_text(encoding="utf-8")


def command_names() -> set[str]:
    return {*TABLE}


def typed_commands(page: str) -> list[list[str]]:
    """Return the commands of a page's examples, and those within its text."""
    examples = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    lines = [*examples, *re.findall(r"`(ralphgen [^`]+)`", page)]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def refused_words(words: list[str]) -> list[str]:
    """The names of commands and options in a command line that are none."""
    if not words or words[0] not in TABLE:
        return words[:1]
    command, words = load(words[0]), words[1:]
    while commands := getattr(command, "commands", None):
        is_alone = not words or words[0].startswith("-")
        if is_alone and command.invoke_without_command:
            break
        if is_alone or words[0] not in commands:
            return words[:1]
        command, words = commands[words[0]], words[1:]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return [word for word in words if word.startswith("-") and word not in known]


def example(page: str) -> str:
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_command_is_described_and_no_other() -> None:
    first = [
        re.split(r"(?<!\\)\|", line)[1] for line in COMMANDS.splitlines() if line.startswith("| `")
    ]
    described = {
        re.split(r"[ \\]", words.removeprefix("ralphgen "))[0]
        for cell in first
        for words in re.findall(r"`([^`]+)`", cell)
    }

    assert command_names() == described


def test_documented_parts_of_the_loop_exist() -> None:
    shown = typed_commands(LOOP)

    assert [] == [words for words in shown if refused_words(words)]
    assert {"loop", "log", "undo"} <= {words[0] for words in shown}


def test_documented_parts_of_http_exist(tmp_path: Path) -> None:
    shown = typed_commands(re.sub(r"^export \w+=.*$", "", HTTP, flags=re.MULTILINE))
    shown = [words for words in shown if words]

    assert [] == [words for words in shown if refused_words(words)]
    assert {"regen", "serve", "session", "connect"} <= {words[0] for words in shown}
    assert "https://mcp.example.com/mcp" == getattr(
        parse_config(example(HTTP), tmp_path).http, "url", ""
    )


def test_missing_commands_would_be_noticed() -> None:
    page = "```sh\nralphgen task nxt\nralphgen board --no-opn . # x\n```\n`ralphgen brod`"

    assert [["nxt"], ["--no-opn"], ["brod"]] == [*map(refused_words, typed_commands(page))]


def test_settings_for_worktrees_are_valid(tmp_path: Path) -> None:
    assert [["npm", "ci"]] == parse_config(example(WORK_TREES), tmp_path).loop.setup


def parse_config(text: str, folder: Path) -> Config:
    (folder / ".ralph").mkdir()
    (folder / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    return read_config(folder, tuple(kit.key for kit in KITS), settings_models(KITS)).values


def test_the_page_of_settings_has_all_settings_outside_kits(tmp_path: Path) -> None:
    given = parse_config(example(SETTINGS), tmp_path).model_fields_set
    own = {field.alias or name for name, field in Config.model_fields.items()}

    assert own == {"schema" if name == "db_schema" else name for name in given}


def test_the_page_of_settings_names_every_file_of_clients() -> None:
    section = SETTINGS.partition("## Client settings")[2].partition("\n## ")[0]
    named = {*re.findall(r"`([^`]+)`", section)}
    parts = {one for folder in CLIENT_PARTS for one in (folder, *CLIENT_PARTS[folder])}
    parts |= {f"{folder}/{one}" for folder in CLIENT_PARTS for one in CLIENT_PARTS[folder]}

    assert {*CLIENT_FOLDERS, *CLIENT_FILES} <= named
    assert named - {"launch", "[done] protect"} <= {*CLIENT_FOLDERS, *CLIENT_FILES, *parts}
