"""The README next to a server is true: its tools, their effects, and their sessions."""

from pathlib import Path

import pytest
from cases import case_names, lay_down

from ralphgen.kits.project import Project
from ralphgen.planning import session_tools
from ralphgen.spelling import markdown_cell


@pytest.fixture(scope="module", params=case_names(failing=False))
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(lay_down(str(request.param), tmp_path_factory.mktemp("readme") / "p"))


@pytest.mark.thorough
def test_each_tool_has_a_row_with_its_sentence_its_effect_and_its_recipes(
    served: Project,
) -> None:
    plan = served.plan
    for kit in plan.kits:
        expected = {}
        for tool in session_tools(plan, "manual", kit):
            recipes = [
                name
                for name, recipe in plan.policy.recipes.items()
                if tool["name"] in recipe.tools[kit.key]
            ]
            effect = "reads" if tool["annotations"].get("readOnlyHint") else "writes"
            effect += " with destination" if (kit.key, tool["name"]) == ("rye", "load") else ""
            sentence = markdown_cell(tool["description"])
            seen_by = markdown_cell(", ".join(recipes))
            expected[tool["name"]] = f"| `{tool['name']}` | {sentence} | {effect} | {seen_by} |"

        assert expected == tool_rows(served, kit.key)


def test_each_file_that_is_named_is_there_and_each_that_is_there_is_named(
    served: Project,
) -> None:
    named = [line.split("`")[1] for line in lines(served, below="| file |")]
    there = {path.partition("/")[0] + "/" * ("/" in path) for path in served.files}

    assert {"README.md", ".gitattributes", ".gitignore"} == there - {*named}
    assert [] == [name for name in named if name not in there]


def test_parts_that_a_project_lacks_are_not_named(served: Project) -> None:
    for name in served.plan.kits[0].absent:
        assert f"`{name}`" not in served.files["README.md"]


def test_a_hostile_recipe_is_shown_by_its_name(tmp_path: Path) -> None:
    root = lay_down("a8", tmp_path / "p")
    folder = root / ".ralph" / "recipes"
    folder.mkdir()
    (folder / "a|b <script> *x* `y` [z](u)\nc.toml").write_text(
        'base = "discuss"\n', encoding="utf-8"
    )
    rows = tool_rows(Project(root), "ralph")

    assert rows["get_discipline"].endswith(r", a\|b &lt;script&gt; \*x\* \`y\` \[z\](u) c |")


def tool_rows(served: Project, kit: str) -> dict[str, str]:
    rows = lines(served, below="| tool |", section=f"\n## {kit}\n")
    return {line.split("`")[1]: line for line in rows}


def lines(served: Project, below: str, section: str = "") -> list[str]:
    """The rows of the first table of a section whose first line begins with `below`."""
    _, _, text = served.files["README.md"].partition(section or "# ")
    _, _, rest = text.partition(f"\n{below}")
    rows = rest.partition("\n\n")[0].rstrip("\n").split("\n")
    return rows[2:]
