"""A function in `.ralph/tools` is a tool by its signature alone: nothing of it is run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.config import no_config, read_config
from ralphgen.project.model import OwnTool
from ralphgen.project.own_tools import FOLDER, LONGEST, MOST, read_own_tools

HEAD = "from typing import *\nfrom ralphgen.tools import Project, reads, writes\n"


def write_tool(root: Path, text: str | bytes, file: str = "some.py") -> Path:
    path = root / FOLDER / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def tools_of(root: Path) -> list[OwnTool]:
    return [*read_own_tools(root, no_config())]


def argument(root: Path, text: str) -> tuple[dict[str, Any], bool]:
    """The schema of a parameter, and whether it must be given."""
    write_tool(root, f'{HEAD}def tool(project: Project, {text}) -> str:\n    """Say so."""\n')
    ((name, schema, required),) = tools_of(root)[0].parameters
    assert "one" == name
    return json.loads(schema), required


def refusal(root: Path) -> str:
    with pytest.raises(ProjectError) as caught:
        tools_of(root)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "schema", "required"),
    [
        ("one: str", {"type": "string"}, True),
        ("one: 'int'", {"type": "integer"}, True),
        ("one: float = 1", {"type": "number", "default": 1}, False),
        ("*, one: bool = False", {"type": "boolean", "default": False}, False),
        ("one: Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}, True),
        ("one: Literal[1, 2, 1] = 2", {"type": "integer", "enum": [1, 2], "default": 2}, False),
        ("one: Literal['a', None]", {"type": "string", "enum": ["a"]}, False),
        ("one: list[str]", {"type": "array", "items": {"type": "string"}}, True),
        ("one: list", {"type": "array"}, True),
        ("one: list[Any]", {"type": "array"}, True),
        ("one: dict[str, Any]", {"type": "object"}, True),
        (
            "one: dict[str, list[int]]",
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "integer"}},
            },
            True,
        ),
        ("one: str | None", {"type": "string"}, False),
        ("one: None | str = None", {"type": "string"}, False),
        ("one: Optional[int] = 3", {"type": "integer", "default": 3}, False),
        ("one: 'Union[int, None]'", {"type": "integer"}, False),
        ("one: int = -3", {"type": "integer", "default": -3}, False),
        ("one: Any = None", {}, False),
        ("one: Any", {}, True),
    ],
)
def test_annotations_become_the_schema(
    tmp_path: Path, text: str, schema: dict[str, Any], required: bool
) -> None:
    assert (schema, required) == argument(tmp_path, text)


@pytest.mark.parametrize(
    ("decorator", "hints"),
    [
        ("", "OPEN_WORLD"),
        ("@reads\n", "READ_ONLY"),
        ("@writes\n", "NON_DESTRUCTIVE"),
        ('@writes("adds")\n', "NON_DESTRUCTIVE"),
        ('@writes("idempotent")\n', "IDEMPOTENT"),
        ('@writes("destructive")\n', "DESTRUCTIVE"),
        ('@writes("open_world")\n', "OPEN_WORLD"),
    ],
)
def test_decorators_become_the_hints(tmp_path: Path, decorator: str, hints: str) -> None:
    write_tool(tmp_path, f'{HEAD}{decorator}async def a(project: Project) -> str:\n    """B."""\n')

    assert [(hints, bool(decorator))] == [(one.hints, one.decorated) for one in tools_of(tmp_path)]


@pytest.mark.parametrize(
    ("text", "schema"),
    [("str", {"type": "string"}), ("str | None", {}), ("Optional[dict[str, Any]]", {})],
)
def test_an_optional_answer_is_any_value(tmp_path: Path, text: str, schema: dict[str, Any]) -> None:
    write_tool(tmp_path, f'{HEAD}def tool(project: Project) -> {text}:\n    """Say so."""\n')

    assert schema == json.loads(tools_of(tmp_path)[0].returns)


@pytest.mark.parametrize("decorator", ["@reads()", "@writes(does='adds', x=1)", "@a.b", "@(1 + 1)"])
def test_a_decorator_without_arguments_is_refused(tmp_path: Path, decorator: str) -> None:
    write_tool(tmp_path, f'{HEAD}\n{decorator}\ndef a(project: Project) -> str:\n    """B."""\n')

    assert f'{FOLDER}/some.py:4: "a": invalid decorator' in refusal(tmp_path)


def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    tool = 'def a(project: Project) -> str:\n    """B."""\n'
    write_tool(tmp_path, f"open({str(mark)!r}, 'w')\nraise SystemExit\n{HEAD}{tool}")

    assert ["a"] == [one.name for one in tools_of(tmp_path)]
    assert not mark.exists()


def test_a_docstring_describes_the_tool_and_its_arguments(tmp_path: Path) -> None:
    text = '''
def a(project: Project, one: str, two: str = "") -> str:
    """Do this,
    and   that.

    Note: for people.

    Args:
        one: the first,
            which goes on
        other: no argument
        two: the "second": {{ it }}

    and no more.
    """
'''
    (tool,) = tools_of(write_tool(tmp_path, HEAD + text))

    assert "Do this, and that." == tool.sentence
    told = (
        ("one", "the first, which goes on other: no argument"),
        ("two", 'the "second": {{ it }}'),
    )
    assert told == tool.about


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"def a(:\n", "some.py:1: invalid Python: "),
        (b"x = 1\n\xe9 = 2\n", "some.py:2: is not UTF-8"),
        (b"x = 1\0\n", "invalid Python: "),
        (b"return 1\n", "some.py:1: invalid Python: 'return' outside function"),
        (b"(" * 5_000, "some.py:1: invalid Python: "),
        (b"x = " + b"-" * 90_000 + b"1", "some.py:1: invalid Python: "),
        (b"#" * (LONGEST + 1), "some.py: has 200,001 bytes, expected at most 200,000"),
    ],
)
def test_invalid_python_is_refused_with_its_line(tmp_path: Path, text: bytes, said: str) -> None:
    assert said in refusal(write_tool(tmp_path, text))


def test_links_and_folders_are_refused(tmp_path: Path) -> None:
    write_tool(tmp_path, HEAD, "there.py")
    (tmp_path / FOLDER / "link.py").symlink_to(tmp_path / FOLDER / "there.py")
    (tmp_path / FOLDER / "folder.py").mkdir()
    os.mkfifo(tmp_path / FOLDER / "pipe.py")

    found = refusal(tmp_path)
    assert f"{FOLDER}/link.py: is a link" in found
    assert f"{FOLDER}/folder.py: cannot be read" in found
    assert f"{FOLDER}/pipe.py: cannot be read" in found


@pytest.mark.thorough
@pytest.mark.slow
def test_ten_thousand_tools_are_refused(tmp_path: Path) -> None:
    functions = "".join(f'def a{at}(p: Project) -> str: "B"\n' for at in range(5_000))
    write_tool(tmp_path, functions, "a.py")
    write_tool(tmp_path, functions.replace("def a", "def b"), "b.py")

    assert f"{FOLDER}: contains 10,000 tools, expected at most {MOST}" in refusal(tmp_path)


def test_a_huge_docstring_is_refused(tmp_path: Path) -> None:
    text = "much " * 1_000
    write_tool(tmp_path, f'{HEAD}def a(project: Project) -> str:\n    """{text}"""\n')

    assert 'some.py:3: "a": a sentence of its docstring has 4,999 bytes' in refusal(tmp_path)


def test_the_same_name_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    text = 'def Note(project: Project) -> str:\n    """B."""\n'
    write_tool(tmp_path, text, "a.py")
    write_tool(
        tmp_path, text.lower().replace("project:", "project:").replace(": project", ": Project")
    )

    found = refusal(tmp_path)
    assert f'{FOLDER}/some.py:1: duplicate tool "note"' in found
    assert f"it is also defined at {FOLDER}/a.py:1" in found


def test_a_table_for_a_tool_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_tool(tmp_path, 'def note(project: Project) -> str:\n    """B."""\n')
    (tmp_path / ".ralph/ralphgen.toml").write_text("\n[own_tools.not]\n", encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        read_own_tools(tmp_path, read_config(tmp_path, ("ralph",)))

    assert '.ralph/ralphgen.toml:2: there is no tool "not" in .ralph/tools' in str(caught.value)
    assert 'did you mean "note"?' in str(caught.value)
