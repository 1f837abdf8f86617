"""A project's own descriptions reach clients unchanged, on every tool and with any content."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import connected, create_project, made_here

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project

pytestmark = pytest.mark.slow

RISKS = "CREATE TABLE risks (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"
QUERY = """
-- name: some_risks :many
-- Risks.
-- :least integer = 1
SELECT id FROM risks WHERE id >= :least ORDER BY id;
"""
TOOL = '''
from ralphgen.tools import Project


def own(project: Project, word: str) -> str:
    """Say a word."""
    return word
'''
ENTRIES = (
    *("ralph:create_task", "create_task.title", "ralph:list_risks", "create_risks.name"),
    *("some_risks", "ralph:some_risks.least", "own", "ralph:own.word"),
)
WORDS = (
    '"""; import os; os.abort(); """',
    "' + __import__('os').abort() + '",
    r"back\slash \n \x00 \N{DIGIT ONE} \"",
    "{{ 7 * 7 }} {% raw %} {# no #} {self} {0} %s %(x)s $HOME `id` $(id)",
    "<script>alert(1)</script> &amp; ]]> | a | b | \\| <!-- x",
    "# fmt: on # noqa # type: ignore",
    "ä 漢 🙂 e\u0301",
    "x" * 2_000,
)


def project(root: Path) -> Path:
    create_project(root, RISKS)
    for file, text in (("queries/a.sql", QUERY), ("tools/a.py", TOOL)):
        (root / ".ralph" / file).parent.mkdir()
        (root / ".ralph" / file).write_text(text, encoding="utf-8")
    return root


def configured(root: Path, words: dict[str, str]) -> None:
    lines = [
        f"{json.dumps(entry)} = {json.dumps(text, ensure_ascii=False)}"
        for entry, text in words.items()
    ]
    text = "\n".join(["[describe]", *lines, "[tables.risks]", 'tools = ["list", "create"]', ""])
    (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")


@pytest.mark.thorough
def test_words_that_look_like_code_or_a_template_remain_words(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    words = dict(zip(ENTRIES, WORDS, strict=True))
    configured(root, words)
    said: list[str] = []
    regenerate(root, force=False, say=said.append)
    with connected(made_here(root)) as server:
        tools = {tool["name"]: tool for tool in server.tools()}
    for entry, text in words.items():
        name, _, argument = entry.removeprefix("ralph:").partition(".")
        schema = tools[name]["inputSchema"]["properties"]
        assert text == (schema[argument] if argument else tools[name])["description"]
        size = len(json.dumps(text, ensure_ascii=False).encode()) - 2
        assert any(f'"{entry}": your own description ({size:,} bytes)' in line for line in said), (
            said
        )
    skill = ralphgen("connect", "claude", "--skills", "--print", "--project", root)
    assert 0 == skill.returncode, skill.stderr
    assert 0 == ralphgen("check", root).returncode


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("list_riks", 'did you mean "list_risks"?'),
        ("ralph:create_risks.nam", 'did you mean "name"?'),
        ("some_risk", 'did you mean "some_risks"?'),
        ("some_risks.most", "the arguments are least"),
        ("own.wort", 'did you mean "word"?'),
        ("ralph:owm", '"own"'),
    ],
)
def test_misspelled_arguments_of_custom_tools_are_reported(
    tmp_path: Path, entry: str, hint: str
) -> None:
    root = project(tmp_path / "p")
    configured(root, {entry: "x"})
    with pytest.raises(ProjectError) as error:
        _ = Project(root).plan

    assert ".ralph/ralphgen.toml:2" in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize("text", ["a\0b", "a\rb", "a\u2028b", "a\x1b[31mb", "a\u200bb"])
def test_characters_that_no_one_sees_are_refused(tmp_path: Path, text: str) -> None:
    root = project(tmp_path / "p")
    configured(root, {"own": text})
    with pytest.raises(ProjectError, match=r"ralphgen\.toml:2"):
        _ = Project(root).plan


def test_one_tool_has_one_sentence(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    configured(root, {"own": "x", "ralph:own": "y"})
    with pytest.raises(ProjectError) as error:
        _ = Project(root).plan

    assert '3: "ralph:own" is described twice, also as "own"' in str(error.value)
