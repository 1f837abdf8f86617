"""The pages of the documentation's site; `.ci/run` makes the site, which looks at every link."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ralphgen.emit.scaffold import config_schema
from ralphgen.kits.registry import KITS

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, str(ROOT / "docs/build.py"), str(folder)], check=True)
    return folder / "pages"


def test_the_menu_and_the_index_for_agents_lead_to_every_page(pages: Path) -> None:
    settings = tomllib.loads((pages.parent / "zensical.toml").read_text(encoding="utf-8"))
    named = [*settings["project"]["nav"]]
    found: set[str] = set()
    while named:
        one = named.pop()
        if isinstance(one, str):
            found.add(one)
        elif isinstance(one, dict):
            named += one.values()
        else:
            named += one
    index = (pages / "llms.txt").read_text(encoding="utf-8")
    there = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}

    assert {path for path in there if not path.startswith("github/")} <= found <= there
    assert all(f"]({path}): " in index for path in found)
    summary = settings["project"]["site_description"]
    assert index.startswith(f"# ralphgen\n\n> {summary}\n\n## Start\n")


def test_the_reference_names_every_command_setting_and_kit(pages: Path) -> None:
    reference = pages / "docs/reference"
    commands = (reference / "commands.md").read_text(encoding="utf-8")
    config = (reference / "config.md").read_text(encoding="utf-8")

    for command in ("init", "regen", "task add", "loop", "board", "dela allow", "tools add"):
        assert f"## `ralphgen {command}`\n" in commands
    assert "[bold]" not in commands
    for key in config_schema()["properties"]:
        assert f"\n| `{key}` | " in config
    for section in ("[http]", "[loop.agents.<name>]", "[[done.checks]]", "[queries.<name>]"):
        assert f"\n## `{section}`\n" in config
    for kit in KITS:
        text = (reference / f"tools-{kit.key}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# Tools of `{kit.key}`\n\n")
        assert "\n| argument | type |" in text


def test_the_reference_lists_every_error_with_its_exit_code(pages: Path) -> None:
    text = (pages / "docs/reference/errors.md").read_text(encoding="utf-8")

    for row in (
        "| 4 | Another session holds the task |",
        "| 3 | `blocked` | the task is blocked |",
        "| `-32700` | the line is no JSON |",
        "| 421 | this server does not accept requests for that host name |",
        '| `EXISTS` | …: set "overwrite" to replace it |',
        "| 1 | git is not installed | install git |",
    ):
        assert f"\n{row}\n" in text


def test_the_reference_lists_the_resources_and_prompts_of_each_kit(pages: Path) -> None:
    text = (pages / "docs/reference/resources.md").read_text(encoding="utf-8")

    assert "\n| `ralph://tasks/{id}` | " in text
    assert "\n| `research` | " in text
    for kit in KITS:
        if not kit.any_schema:
            assert f"\n## {kit.key}\n" in text
