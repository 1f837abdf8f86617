"""The project goes before the user and the user before the system, and all of that is told."""

from typing import Any

import pytest
from rye_projects import TYPES, Rye, directive, knowledge, python_tool, yaml_tool

SETTINGS = 'policy = "off"'

SOURCES = ("project", "user", "system")
SHARED = {
    "directive": "rye/create_tool",
    "tool": "rye/core/primitives/subprocess",
    "knowledge": "rye/tool-format",
}
"""By type, an id that the system has."""
OPEN = {"directive": SHARED["directive"], "knowledge": SHARED["knowledge"]}
"""Those that may be shadowed."""


def text_from(item_type: str, item_id: str, space: str) -> str:
    """An item whose text says where it lies."""
    if item_type == "directive":
        return directive(item_id, body=f"From the {space}", inputs="")
    if item_type == "knowledge":
        return knowledge(item_id, f"From the {space}\n")
    code = f'def execute(params, project_path):\n    return "From the {space}"\n'
    return python_tool(item_id, code)


def lay(rye: Rye, item_type: str, item_id: str, *spaces: str) -> None:
    for space in spaces:
        rye.put(item_type, item_id, text_from(item_type, item_id, space), space=space)


def told_by(rye: Rye, item_type: str, item_id: str, **source: str) -> str:
    """What an item that is executed says."""
    given = {"item_type": item_type, "item_id": item_id, **source}
    data = rye.says("execute", **given)["data"]
    keys = {"directive": "body", "knowledge": "content"}
    text = data[keys[item_type]] if item_type in keys else data
    return str(text).strip()


def placed(rye: Rye, item_type: str, item_id: str) -> list[tuple[str, list[str], str | None]]:
    """What a search says of all items of an id: their spaces and who goes before whom."""
    given = {"item_type": item_type, "query": "", "filters": {"id": item_id}}
    results = rye.says("search", **given)["results"]
    return [(found["source"], *shadowing(found)) for found in results]


def shadowing(answer: dict[str, Any]) -> tuple[list[str], str | None]:
    return answer.get("shadows", []), answer.get("shadowed_by")


@pytest.mark.parametrize("item_type", TYPES)
def test_the_first_space_that_has_an_item_goes_before_the_others(rye: Rye, item_type: str) -> None:
    lay(rye, item_type, "demo/git", "project", "user")
    both = rye.load(item_type, "demo/git")["source"], told_by(rye, item_type, "demo/git")
    rye.file(item_type, "demo/git").unlink()
    one = rye.load(item_type, "demo/git")["source"], told_by(rye, item_type, "demo/git")

    assert ("project", "From the project") == both
    assert ("user", "From the user") == one


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("source", ["project", "user"])
def test_an_item_of_another_space_is_not_there_for_who_pins_one(
    rye: Rye, item_type: str, source: str
) -> None:
    (other,) = {"project", "user"} - {source}
    lay(rye, item_type, "demo/git", other)
    for tool in ("load", "execute", "sign"):
        error = rye.refuses(tool, item_type=item_type, item_id="demo/git", source=source)

        assert ("ITEM_NOT_FOUND", [source]) == (error["code"], error["searched"])
        where, _, fix = error["message"].partition(
            f"in the {source} space, but in the {other} space"
        )
        assert where
        assert fix == (f': set source "{other}" to sign it there' if tool == "sign" else "")


@pytest.mark.parametrize("item_type", TYPES)
def test_signing_takes_the_item_of_the_named_space_alone(rye: Rye, item_type: str) -> None:
    lay(rye, item_type, "demo/git", "project", "user")
    before = rye.file(item_type, "demo/git").read_bytes()
    signed = rye.sign(item_type, "demo/git", source="user")

    assert ("user", before) == (signed["location"], rye.file(item_type, "demo/git").read_bytes())
    assert "unsigned" == rye.load(item_type, "demo/git")["signature"]["state"]
    assert "valid" == rye.load(item_type, "demo/git", source="user")["signature"]["state"]


@pytest.mark.parametrize("item_type", OPEN)
def test_search_and_load_say_who_hides_whom(rye: Rye, item_type: str) -> None:
    item_id = OPEN[item_type]
    lay(rye, item_type, item_id, "project", "user")
    loaded = [shadowing(rye.load(item_type, item_id, source=source)) for source in SOURCES]

    assert [
        ("project", ["user", "system"], None),
        ("system", [], "project"),
        ("user", ["system"], "project"),
    ] == sorted(placed(rye, item_type, item_id))
    assert [(["user", "system"], None), (["system"], "project"), ([], "project")] == loaded


@pytest.mark.parametrize("name", ["subprocess", "python_runtime"])
def test_their_bare_names_mean_the_systems_wherever_a_tool_names_its_executor(
    rye: Rye, name: str
) -> None:
    lay(rye, "tool", name, "project")
    if name == "subprocess":
        text = yaml_tool("demo/say", executor_id=name)
        rye.put("tool", "demo/say", text, extension=".yaml")
        ran = rye.run("tool", "demo/say", text="hello")
    else:
        rye.put("tool", "demo/say", python_tool("demo/say", executor_id=name))
        ran = rye.run("tool", "demo/say")

    assert {"system"} == {link["source"] for link in ran["chain"][1:]}
    assert "project" == rye.load("tool", name)["source"]
