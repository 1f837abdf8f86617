"""The answers of custom tools match their declarations, also if they must be cut."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from driving import Driver, connected, create_project, made_here, quiet

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

TOOLS = '''
from typing import Any, Literal

from ralphgen.tools import Project

LONG = "long " * 50


def counts(project: Project, most: int) -> dict[str, int]:
    """Answer counts by name."""
    return {f"{LONG}{number}": number for number in range(most)}


def words(project: Project, most: int) -> dict[str, str]:
    """Answer words by name, one of which is cut."""
    return {"cut": "x", **{f"n{number}": LONG for number in range(most)}}


def nested(project: Project, most: int) -> dict[str, dict[str, list[int]]]:
    """Answer lists by name by name."""
    return {f"n{one}": {f"m{two}": [1] * most for two in range(most)} for one in range(most)}


def numbers(project: Project, most: int) -> list[int]:
    """Answer numbers."""
    return [10**9] * most


def rows(project: Project, most: int) -> list[dict[str, list[str]]]:
    """Answer rows."""
    return [{"a": [LONG] * most}] * most


def deep(project: Project, most: int) -> list[list[list[list[Literal["a", "b"]]]]]:
    """Answer lists in lists."""
    return [[[["a"] * most] * most] * most] * most


def gaps(project: Project, most: int) -> list[int | None]:
    """Answer numbers and nothing."""
    return [None, 1] * most


def half(project: Project, most: int) -> dict[str, float | None]:
    """Answer numbers and nothing by name."""
    return {f"n{number}": None for number in range(most)}


def word(project: Project, most: int) -> Literal["few", "many"]:
    """Answer one of two words."""
    return "many" if most else "few"


def none(project: Project, most: int) -> int | None:
    """Answer a number, or nothing."""
    return most or None


def anything(project: Project, most: int) -> Any:
    """Answer lists that no cut makes short."""
    found: Any = "x"
    for _ in range(12):
        found = {"a" * 90: found, "b" * 90: found}
    return [found] * most


def lies(project: Project, what: str) -> int:
    """Answer something else."""
    return {"text": "x", "float": 1.5, "bool": True, "none": None, "list": [1]}[what]


def lies_within(project: Project, what: str) -> dict[str, list[int]]:
    """Answer something else within what is right."""
    return {"text": {"a": ["x"]}, "value": {"a": 1}, "list": [1]}[what]
'''
SIZED = (
    "counts", "words", "nested", "numbers", "rows", "deep", "gaps", "half", "word", "none",
)  # fmt: skip
FAILED = "returned a value that is not of its declared type: continue without it"


@pytest.fixture(scope="module", params=["text", "structured"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    root = create_project(tmp_path_factory.mktemp("answers") / "p")
    (root / ".ralph/tools").mkdir()
    (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
    if request.param == "structured":
        (root / ".ralph/ralphgen.toml").write_text("structured_output = true\n", encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with connected(made_here(root)) as driver:
        yield driver


@pytest.fixture(scope="module")
def tools(server: Driver) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in server.tools()}


@pytest.mark.thorough
@pytest.mark.parametrize("most", [0, 40, 2_000])
@pytest.mark.parametrize("name", SIZED)
def test_an_answer_of_any_length_is_json_and_so_is_its_content(
    server: Driver, tools: dict[str, dict[str, Any]], name: str, most: int
) -> None:
    if name in {"nested", "rows", "deep"}:
        most = min(most, 20)
    text, content = server.both(name, {"most": most})

    assert "outputSchema" not in tools[name]
    assert 40_000 >= len(text)
    if name == "word":
        assert text in {"few", "many"}
        assert content is None
        return
    answer: dict[str, Any] = json.loads(text)
    assert content in (None, answer)
    if most > 1_000 and name not in {"none", "half", "gaps", "numbers"}:
        assert answer["cut"]


@pytest.mark.thorough
@pytest.mark.parametrize("most", [1, 40])
def test_an_answer_that_cannot_be_cut_is_refused(server: Driver, most: int) -> None:
    said = server.refusal("anything", most=most)

    assert '"anything" returned too much: make it return less' == said


@pytest.mark.parametrize("what", ["text", "float", "bool", "none", "list"])
def test_an_answer_of_another_type_is_none(server: Driver, what: str) -> None:
    assert FAILED in server.refusal("lies", what=what)


@pytest.mark.parametrize("what", ["text", "value", "list"])
def test_an_answer_of_another_type_within_is_none(server: Driver, what: str) -> None:
    assert FAILED in server.refusal("lies_within", what=what)
