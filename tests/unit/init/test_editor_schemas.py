"""The schemas for editors match ralphgen's own validation of settings."""

import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ralphgen.emit.editor_schemas import DESCRIPTIONS, FOLDER, SCHEMAS, config_schema, write_schemas
from ralphgen.emit.scaffold import CONFIG_TEXT
from ralphgen.kits.registry import KITS
from ralphgen.project.config import Config
from ralphgen.project.inspect import RecipeFile

PAGE = (Path(__file__).parents[3] / "docs/settings.md").read_text(encoding="utf-8")
SETTINGS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]


def is_valid(name: str, text: str) -> bool:
    schema = SCHEMAS[name]()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid(tomllib.loads(text))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text", ["", CONFIG_TEXT, SETTINGS, 'kits = ["of-others"]', '[dela]\nroot = "app"\n']
)
def test_valid_settings_are_valid(text: str) -> None:
    assert is_valid("config", text)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "kit = []",
        "kits = [3]",
        "[loop]\nattempts = 0",
        '[launch]\nmode = "x"',
        "[dela]\nlines = -1",
    ],
)
def test_wrong_settings_are_wrong(text: str) -> None:
    assert not is_valid("config", text)


def test_a_recipe_needs_a_base() -> None:
    assert is_valid("recipe", 'base = "discuss"\nbind = ["task"]\n')
    assert not is_valid("recipe", 'bind = ["task"]\n')
    assert not is_valid("recipe", 'base = "discuss"\nbind = ["row"]\n')


def test_kits_are_suggested_not_enumerated() -> None:
    suggested, others = config_schema()["properties"]["kits"]["items"]["anyOf"]

    assert [kit.key for kit in KITS] == suggested["enum"]
    assert "string" == others["type"]


def test_no_key_is_without_a_description() -> None:
    bare = [
        f"{title}.{key}"
        for schema in (make() for make in SCHEMAS.values())
        for title, part in {**schema.get("$defs", {}), "": schema}.items()
        for key, value in part.get("properties", {}).items()
        if not value.get("description")
    ]

    assert [] == bare


def test_each_key_of_the_core_is_described_and_no_other() -> None:
    found: set[str] = set()
    for model in (Config, RecipeFile):
        schema = model.model_json_schema()
        for title, part in {**schema.get("$defs", {}), model.__name__: schema}.items():
            found |= {f"{title}.{key}" for key in part.get("properties", {})}

    assert set(DESCRIPTIONS) == found
    assert (
        "Unclosed tasks in a row"
        in SCHEMAS["config"]()["$defs"]["LoopConfig"]["properties"]["no_progress"]["description"]
    )


def test_the_line_of_a_new_config_leads_to_its_schema(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    named = CONFIG_TEXT.partition("#:schema ")[2].partition("\n")[0]

    assert (tmp_path / ".ralph" / named).resolve() == tmp_path / FOLDER / "config.json"
    assert (tmp_path / FOLDER / "config.json").is_file()
    assert "*\n" == (tmp_path / FOLDER / ".gitignore").read_text(encoding="utf-8")
