"""The files that init creates."""

import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from proved_projects import write_files

from ralphgen.emit.scaffold import (
    CONFIG_TEXT,
    DESCRIPTIONS,
    IGNORED,
    SCHEMAS,
    SCHEMAS_FOLDER,
    Proposal,
    config_schema,
    create_database,
    load_stack,
    proposal_text,
    propose_checks,
    proposed_checks,
    switch_on,
    write_ignored,
    write_schemas,
)
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.project.config import Config
from ralphgen.project.inspect import RecipeFile


def config(root: Path, data: bytes | None = None) -> Path:
    path = root / ".ralph/ralphgen.toml"
    if data is not None:
        path.parent.mkdir()
        path.write_bytes(data)
    return path


def test_without_a_config_one_is_written(tmp_path: Path) -> None:
    switch_on(tmp_path, [])

    assert CONFIG_TEXT.encode() == config(tmp_path).read_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"# mine\r\nkits = [\r\n  'ralph', # the heart\r\n]\r\n",
        b"\xef\xbb\xbf# with a byte order mark\n",
        b"",
    ],
    ids=["comments", "mark", "empty"],
)
def test_a_config_that_needs_no_change_keeps_its_bytes(tmp_path: Path, data: bytes) -> None:
    path = config(tmp_path, data)
    switch_on(tmp_path, ["ralph"])

    assert data == path.read_bytes()


def test_a_kit_that_is_on_is_not_listed_twice(tmp_path: Path) -> None:
    path = config(tmp_path, b'kits = ["ralph"]\n')
    switch_on(tmp_path, [kit.key for kit in KITS] * 2)

    assert 1 == path.read_bytes().count(b'"ralph"')


def test_a_config_that_is_not_valid_is_refused_with_its_line_and_kept(tmp_path: Path) -> None:
    path = config(tmp_path, b"\nkits = [\n")
    with pytest.raises(ProjectError) as caught:
        switch_on(tmp_path, ["ralph"])

    assert str(caught.value).startswith(".ralph/ralphgen.toml:2: invalid TOML")
    assert b"\nkits = [\n" == path.read_bytes()


def test_a_link_to_nothing_is_not_replaced_by_a_database(tmp_path: Path) -> None:
    path = tmp_path / ".ralph/db/ralph.db"
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere")

    assert not create_database(tmp_path, "Shop", load_stack("empty"))
    assert path.is_symlink()
    assert not (path.parent / "nowhere").exists()


def test_leftovers_of_an_interrupted_init_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / ".ralph/db"
    folder.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        (folder / f"ralph.db.new{suffix}").write_bytes(b"rubbish")

    assert create_database(tmp_path, "Shop", load_stack("empty"))
    assert ["ralph.db"] == [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_gitignore_gets_the_lines_of_later_versions(tmp_path: Path, end: str) -> None:
    path = tmp_path / IGNORED
    path.parent.mkdir()
    before = end.join(["# mine", "/backups/", "# /worktrees/", "*.tmp"])
    path.write_bytes(before.encode())

    assert [IGNORED] == write_ignored(tmp_path)
    after = path.read_bytes().decode()
    assert after.startswith(before + end)
    assert {"/db/", "/sessions/"} <= {*after.split(end)}
    assert 1 == after.count("/worktrees/")
    assert 1 == after.count("/backups/")
    assert [] == write_ignored(tmp_path)
    assert after == path.read_bytes().decode()


UNITTEST = Proposal("tests", ("python", "-m", "unittest", "discover", "-s", "tests"))
PYTEST = Proposal("tests", ("python", "-m", "pytest", "-q"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], []),
        ([("README.md", "x")], []),
        (
            [("package.json", '{"scripts": {"test": "jest", "lint": "eslint ."}}')],
            [Proposal("tests", ("npm", "run", "test")), Proposal("lint", ("npm", "run", "lint"))],
        ),
        (
            [("package.json", '{"scripts": {"test": "jest"}}'), ("pnpm-lock.yaml", "")],
            [Proposal("tests", ("pnpm", "run", "test"))],
        ),
        ([("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\""}}')], []),
        ([("package.json", "{"), ("pyproject.toml", "[")], []),
        ([("package.json", "[1]")], []),
        ([("pyproject.toml", "[tool.pytest.ini_options]\n")], [PYTEST]),
        ([("tests/test_a.py", "")], [PYTEST]),
        ([("pytest.ini", "")], [PYTEST]),
        ([("tests/test_a.py", "import unittest\n")], [UNITTEST]),
        (
            [("tests/test_a.py", "from unittest import TestCase\n"), ("tests/__init__.py", "")],
            [Proposal("tests", UNITTEST.run[:4])],
        ),
        ([("tests/test_a.py", "import unittest\n"), ("pytest.ini", "")], [PYTEST]),
        ([("tests/test_a.py", "import unittest, pytest\n")], [PYTEST]),
        (
            [("pyproject.toml", "[tool.ruff]\n[tool.pytest]\n")],
            [PYTEST, Proposal("lint", ("ruff", "check", "."))],
        ),
        ([("Makefile", "test: build\n\ttrue\n")], [Proposal("tests", ("make", "test"))]),
        ([("Makefile", "test := 1\ntests:\n")], []),
        ([("Cargo.toml", "")], [Proposal("tests", ("cargo", "test"))]),
        ([("go.mod", "")], [Proposal("tests", ("go", "test", "./..."))]),
        ([("test.sh", "")], [Proposal("tests", ("./test.sh",), protect="test.sh")]),
        ([("tests/test_a.py", ""), ("Makefile", "test:\n")], [PYTEST]),
    ],
)
def test_the_files_of_a_project_suggest_checks(
    tmp_path: Path, files: list[tuple[str, str]], expected: list[Proposal]
) -> None:
    write_files(tmp_path, files)

    assert expected == proposed_checks(tmp_path)


def test_proposals_are_comments_that_hold_a_valid_config() -> None:
    text = proposal_text([PYTEST, Proposal("e2e", ("./test.sh",), protect="test.sh")], is_on=False)
    marked = [line.removeprefix("# ").removeprefix("#") for line in text.splitlines()[3:]]
    assert {} == tomllib.loads(text)

    assert {
        "checks": [
            {"name": "tests", "run": ["python", "-m", "pytest", "-q"]},
            {"name": "e2e", "run": ["./test.sh"]},
        ],
        "protect": ["test.sh"],
    } == tomllib.loads("\n".join(marked))["done"]


def test_proposals_are_added_once(tmp_path: Path) -> None:
    write_files(tmp_path, [(".ralph/ralphgen.toml", 'kits = ["ralph"]'), ("go.mod", "")])

    assert propose_checks(tmp_path, no).startswith("found checks: tests; enable them")
    text = (tmp_path / ".ralph/ralphgen.toml").read_text(encoding="utf-8")
    assert text.startswith('kits = ["ralph"]\n\n# Checks that must pass')
    assert "" == propose_checks(tmp_path, no)


def test_proposals_are_enabled_by_a_yes(tmp_path: Path) -> None:
    write_files(tmp_path, [(".ralph/ralphgen.toml", 'kits = ["ralph"]'), ("go.mod", "")])
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    assert "enabled checks in .ralph/ralphgen.toml: tests" == propose_checks(tmp_path, yes)
    settings = tomllib.loads((tmp_path / ".ralph/ralphgen.toml").read_text(encoding="utf-8"))
    assert [{"name": "tests", "run": ["go", "test", "./..."]}] == settings["done"]["checks"]
    assert 'found checks: "tests" (go test ./...)' in asked[0]


def no(_question: str) -> bool:
    return False


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

    assert (tmp_path / ".ralph" / named).resolve() == tmp_path / SCHEMAS_FOLDER / "config.json"
    assert (tmp_path / SCHEMAS_FOLDER / "config.json").is_file()
    assert "*\n" == (tmp_path / SCHEMAS_FOLDER / ".gitignore").read_text(encoding="utf-8")
