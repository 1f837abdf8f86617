"""The Agent Skills that are rendered: legal, complete, true to the schemas, and the same again."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import case_names, lay_down
from driving import SCHEMAS, create_database
from goldens import Goldens

from ralphgen.emit.skills import GUIDE, MOST, TEXT, Skill, render_skills
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS as EVERY
from ralphgen.planning import KitPlan, ServerPlan, SkillPlan, session_tools

KITS = [kit for kit in EVERY if not kit.any_schema]  # the kits of one project
KIT_KEYS = [kit.key for kit in KITS]
ERAS = ("a0", "a8", "b6")
NAMES = {
    "ralph": "ralph-project",
    "dela": "dela-tasks",
    "specum": "specum-workflow",
    "acm": "acm-workflow",
    "rye": "rye-items",
}
FILES = {".mcp.json", "CLAUDE.md"}
OTHER_WORDS = {"tool_guide", "next_cursor", "MCP_PROTOCOL", "ACM_ROOT", "ACM_REGISTRY_ROOT"}
OTHER_WORDS |= {"USER_SPACE", "RYE_DEBUG", "RYE_PORT"}
OTHER_WORDS |= {"create_directive", "create_tool", "create_knowledge"}  # items that rye brings
OTHER_WORDS |= {"date_from", "date_to"}  # members of an argument


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServerPlan]:
    """The plans of the oldest, the usual and the newest schema that is served, all kits on."""
    found = {}
    for era in ERAS:
        root = tmp_path_factory.mktemp(era)
        create_database(root, (SCHEMAS / f"{era}.sql").read_text(encoding="utf-8"))
        config = f"kits = {json.dumps(KIT_KEYS)}\n"
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        found[era] = Project(root).plan
    return found


@pytest.fixture(scope="module", params=[(era, key) for era in ERAS for key in KIT_KEYS], ids=str)
def rendered(
    request: pytest.FixtureRequest, plans: dict[str, ServerPlan]
) -> tuple[ServerPlan, KitPlan, Skill]:
    era, key = request.param
    plan = plans[era]
    (kit,) = (kit for kit in plan.kits if kit.key == key)
    return plan, kit, skill_of(plan, key)


Rendered = tuple[ServerPlan, KitPlan, Skill]


def skill_of(plan: ServerPlan, key: str) -> Skill:
    (skill,) = (skill for skill in render_skills(plan) if skill.kit == key)
    return skill


def words(kit: KitPlan) -> SkillPlan:
    assert kit.skill is not None
    return kit.skill


def schemas(plan: ServerPlan, kit: KitPlan) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool["inputSchema"] for tool in session_tools(plan, "manual", kit)}


def required(plan: ServerPlan, kit: KitPlan, tool: str) -> set[str]:
    """The arguments of a tool that a call must give in every kind of session that has it."""
    found = [
        {*listed["inputSchema"].get("required", ())}
        for recipe in plan.policy.recipes
        for listed in session_tools(plan, recipe, kit)
        if listed["name"] == tool
    ]
    return set.intersection(*found) if found else set()


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a skill and the rest; nothing may precede it."""
    found = re.fullmatch(r"---\n(.*?\n)---\n(.*)", text, re.DOTALL)
    assert found
    values = yaml.safe_load(found[1])
    assert isinstance(values, dict)
    return values, found[2]


class TestFormat:
    """Clients' requirements for skills: an invalid skill is not loaded."""

    def test_each_kit_has_a_skill_of_its_settled_name(self, plans: dict[str, ServerPlan]) -> None:
        for plan in plans.values():
            assert {key: NAMES[key] for key in KIT_KEYS} == {
                skill.kit: skill.name for skill in render_skills(plan)
            }

    def test_the_front_matter_is_within_the_limits(self, rendered: Rendered) -> None:
        _, _, skill = rendered
        values, _ = front_matter(skill.files[TEXT])

        assert ["name", "description"] == list(values)
        assert f".claude/skills/{values['name']}" == skill.folder
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", values["name"])
        assert 1 <= len(values["name"]) <= 64
        assert 1 <= len(values["description"]) <= 1024
        assert not re.search(r"[<>\n]", values["description"])

    def test_the_description_is_in_the_third_person(self, rendered: Rendered) -> None:
        _, kit, _ = rendered
        description = words(kit).description

        assert re.match(r"[A-Z][a-z]+s[ ,]", description)
        assert " Use when " in description
        assert not re.search(r"\b(I|you|your|we)\b", description, re.IGNORECASE)

    def test_the_text_is_short_and_ends_with_one_line_end(self, rendered: Rendered) -> None:
        _, _, skill = rendered
        for path in (TEXT, GUIDE):
            text = skill.files[path]

            assert re.search(r"[^\n]\n\Z", text)
            assert "\n\n\n" not in text
            assert not re.search(r"[ \t]$", text, re.MULTILINE)
        assert len(front_matter(skill.files[TEXT])[1].splitlines()) < 500

    def test_a_table_has_as_many_cells_in_each_row(self, rendered: Rendered) -> None:
        _, _, skill = rendered
        for path in (TEXT, GUIDE):
            for table in re.findall(r"(?:^\|.*\n)+", skill.files[path], re.MULTILINE):
                cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}

                assert 1 == len(cells), table

    def test_links_lead_to_files_and_headings_of_the_skill(self, rendered: Rendered) -> None:
        _, _, skill = rendered
        links = re.findall(r"\]\(([^)]+)\)", skill.files[TEXT])
        headings = re.findall(r"^## (.+)$", skill.files[GUIDE], re.MULTILINE)

        assert [GUIDE, f"{GUIDE}#setup"] == links
        assert "setup" in [heading.lower() for heading in headings]
        assert [] == re.findall(r"\]\(", skill.files[GUIDE])


class TestTruth:
    """A skill's statements about tools match the server's list."""

    def test_every_tool_is_once_in_the_table_and_has_a_section(self, rendered: Rendered) -> None:
        _, kit, skill = rendered
        table = skill.files[TEXT].partition("\n| tool |")[2].partition("\n\n")[0]
        named = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
        sections = re.findall(r"^## (.+)$", skill.files[GUIDE], re.MULTILINE)

        assert [tool.name for tool in kit.tools] == named
        assert [*named, "Setup"] == sections

    def test_the_arguments_equal_the_listed_schema(self, rendered: Rendered) -> None:
        plan, kit, skill = rendered
        for name, schema in schemas(plan, kit).items():
            required = schema.get("required", [])
            expected = [
                (argument, "yes" if argument in required else "", enum(rule))
                for argument, rule in schema.get("properties", {}).items()
            ]

            assert expected == list(told_arguments(skill, name)), name

    def test_nothing_is_named_that_there_is_not(self, rendered: Rendered) -> None:
        """Tools, arguments and values must exist in this schema."""
        plan, kit, skill = rendered
        known = vocabulary(plan, kit)
        for path in (TEXT, GUIDE):
            prose = re.sub(r"```.*?```", "", skill.files[path], flags=re.DOTALL)
            codes = set(re.findall(r"`([^`\n]+)`", prose))
            bare = set(re.findall(r"\w+_\w+", re.sub(r"`[^`\n]+`", "", prose)))

            assert set() == {code for code in codes if code not in known}
            assert set() == {word for word in bare if word not in known | OTHER_WORDS}

    def test_each_step_gives_a_tool_its_arguments(self, plans: dict[str, ServerPlan]) -> None:
        """A step that no project has would never be missed."""
        plan = plans["a8"]
        for kit in plan.kits:
            known = schemas(plan, kit)
            for workflow in words(kit).workflows:
                assert {*workflow.needs} <= {*known}, workflow.title
                for step in workflow.steps:
                    rules = known[step.tool]["properties"] if step.tool else {}

                    assert {*step.given} <= {*rules}, step
                    assert set() == required(plan, kit, step.tool) - {*step.given}, step
                    for name, value in step.given.items():
                        assert value is None or value in rules[name].get("enum", [value]), step

    def test_a_skill_covers_every_possible_tool(self, plans: dict[str, ServerPlan]) -> None:
        assert {kit.key for kit in KITS} == {kit.key for kit in plans["a8"].kits}
        for kit in KITS:
            for tool in kit.tools:
                assert tool.purpose, tool.name
                assert tool.answer, tool.name
                assert {*tool.instead} <= {*kit.catalog} - {tool.name}, tool.name

    def test_a_tool_that_a_project_lacks_takes_its_steps_along(
        self, plans: dict[str, ServerPlan]
    ) -> None:
        plan = plans["a8"]
        (kit,) = (kit for kit in plan.kits if kit.key == "ralph")
        lacking = ("enrich_task", "list_tasks", "update_task")
        kept = tuple(tool for tool in kit.tools if tool.name not in lacking)
        less = replace(kit, tools=kept)
        policy = deepcopy(plan.policy)
        for recipe in policy.recipes.values():
            names = without(tuple(recipe.tools["ralph"]), kept)
            recipe.tools = {**recipe.tools, "ralph": names}
        changed = replace(plan, kits=(less,), policy=policy)
        text = "".join(skill_of(changed, "ralph").files[path] for path in (TEXT, GUIDE))

        assert [] == [name for name in lacking if re.search(rf"\b{name}\b", text)]
        assert "## Enrich a draft" not in text
        assert "4. `create_task` with" in text

    def test_the_server_is_wired_as_configured(self, rendered: Rendered) -> None:
        _, kit, skill = rendered
        (block,) = re.findall(r"```json\n(.*?)```", skill.files[GUIDE], re.DOTALL)
        entry = {"type": "stdio", "command": "ralphgen", "args": ["serve", kit.key]}

        assert {"mcpServers": {kit.key: entry}} == json.loads(block)
        assert f"as described in {skill.folder}/SKILL.md" in skill.files[GUIDE]


class TestSessions:
    """The skill is specific to the project: its recipes, and the removals of its disciplines."""

    def test_each_recipe_has_a_row_with_its_tools(self, rendered: Rendered) -> None:
        plan, kit, skill = rendered
        every = tuple(tool.name for tool in kit.tools)
        rows = session_table(skill)

        assert list(plan.policy.recipes) == [row[0].replace("\\", "") for row in rows]
        for row, recipe in zip(rows, plan.policy.recipes.values(), strict=True):
            names = every if row[3] == "all" else tuple(re.findall("`([^`]+)`", row[3]))

            assert recipe.tools[kit.key] == names

    def test_custom_recipes_and_removals_are_described(self, tmp_path: Path) -> None:
        skill = skill_of(Project(lay_down("full", tmp_path / "p")).plan, "ralph")
        rows = {row[0]: row[1:] for row in session_table(skill)}
        guide = skill.files[GUIDE]

        tools = "`list_tasks`, `get_task`, `update_task`, `add_task_comment`"
        assert ["`opus_review`", "a feature", f"{tools}, `append_feature_learning`"] == rows[
            "triage"
        ]
        assert (
            "The discipline intern removes `delete_task`, `delete_feature`, " in skill.files[TEXT]
        )
        assert "- In triage: takes `id`, `priority` only" in guide
        assert "- In task\\_execution: " not in guide  # only what needs an escape has one
        assert "`status` is one of `in_progress`, `done`, `blocked`, `pending`" in guide

    def test_no_row_of_the_database_is_in_it(self, tmp_path: Path) -> None:
        """It is committed: titles, names and prompts of rows are not for everybody."""
        root = lay_down(
            "full",
            tmp_path / "p",
            "INSERT INTO features (name, display_name, acronym) VALUES ('quokka', 'Quokka', 'Q');"
            "UPDATE disciplines SET system_prompt = 'quokka', display_name = 'Quokka';",
        )
        files = [skill.files for skill in render_skills(Project(root).plan)]

        assert "quokka" not in json.dumps(files).lower()

    @pytest.mark.thorough
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name", ["a|b <script> *x* `y` [z](u)\nc", "---\nname: evil", "$x$ \u202e~~y~~", "x" * 150]
    )
    def test_names_cannot_break_out_of_their_cells(self, tmp_path: Path, name: str) -> None:
        root = lay_down("a8", tmp_path / "p")
        folder = root / ".ralph/recipes"
        folder.mkdir()
        (folder / f"{name}.toml").write_text('base = "discuss"\n', encoding="utf-8")
        config = f'[disciplines.{json.dumps(name)}]\ndisable = ["create_task"]\n'
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        skill = skill_of(Project(root).plan, "ralph")
        plain = skill_of(Project(lay_down("a8", tmp_path / "q")).plan, "ralph")

        assert front_matter(plain.files[TEXT])[0] == front_matter(skill.files[TEXT])[0]
        assert len(session_table(plain)) + 1 == len(session_table(skill))
        assert {5} == {len(row) + 1 for row in session_table(skill)}
        for path in (TEXT, GUIDE):
            assert headings(plain.files[path]) == headings(skill.files[path])
            assert "<script>" not in skill.files[path]
            assert "[z](u)" not in skill.files[path]
            assert "\u202e" not in skill.files[path]

    @pytest.mark.thorough
    @pytest.mark.slow
    def test_it_stays_short_however_many_recipes_there_are(self, tmp_path: Path) -> None:
        root = lay_down("a8", tmp_path / "p")
        folder = root / ".ralph/recipes"
        folder.mkdir()
        for number in range(600):
            (folder / f"r{number}.toml").write_text('base = "yap"\n', encoding="utf-8")
        tables = (f'[disciplines.d{n}]\ndisable = ["get_task"]\n' for n in range(600))
        (root / ".ralph/ralphgen.toml").write_text("".join(tables), encoding="utf-8")
        skill = skill_of(Project(root).plan, "ralph")

        assert MOST == len(session_table(skill))
        assert len(skill.files[TEXT].splitlines()) < 500
        assert (
            "This table has the first 100 rows; `ralphgen tools` prints all." in skill.files[TEXT]
        )


def test_nothing_in_it_names_a_machine_a_version_or_a_day(tmp_path: Path) -> None:
    first = render_skills(Project(lay_down("full", tmp_path / "a")).plan)
    second = render_skills(Project(lay_down("full", tmp_path / "b/c")).plan)

    assert [skill.files for skill in first] == [skill.files for skill in second]
    for skill in first:
        text = "".join(text for path, text in skill.files.items() if path != "manifest.json")
        assert not re.search(r"(?<![\w.])/(home|tmp|usr|root|var|Users)|\d{4}-\d\d|\d\.\d", text)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("case", case_names(failing=False))
def test_no_project_breaks_the_tables_or_the_front_matter(case: str, tmp_path: Path) -> None:
    plan = Project(lay_down(case, tmp_path / "p")).plan
    for skill in render_skills(plan):
        assert skill.name == front_matter(skill.files[TEXT])[0]["name"]
        assert {5} == {len(row) + 1 for row in session_table(skill)}
        (kit,) = (kit for kit in plan.kits if kit.key == skill.kit)
        for name, schema in schemas(plan, kit).items():
            told = [argument for argument, _, _ in told_arguments(skill, name)]
            assert list(schema.get("properties", {})) == told


@pytest.mark.parametrize(
    ("case", "used_for", "heading", "tool"),
    [
        ("tables", "rows of these tables: ", "The project's tables", "update_risk"),
        ("queries", "to run the project's named queries", "Named queries", "risks_of"),
        (
            "own_tools",
            "for the project's custom tools",
            "Custom tools of the project",
            "release_notes",
        ),
    ],
)
def test_tools_of_a_project_are_described_like_tools_of_a_kit(
    case: str, used_for: str, heading: str, tool: str, tmp_path: Path
) -> None:
    skill = skill_of(Project(lay_down(case, tmp_path / "p")).plan, "ralph")
    values, text = front_matter(skill.files[TEXT])

    assert used_for in values["description"]
    assert len(values["description"]) <= 1024
    assert f"\n## {heading}\n" in text
    assert f"\n| `{tool}` | " in text
    assert f"\n## {tool}\n" in skill.files[GUIDE]


@pytest.mark.parametrize("case", ["full", "dela", "specum", "acm", "rye", "tables"])
def test_the_skills_of_a_case_are_the_goldens(case: str, tmp_path: Path, goldens: Goldens) -> None:
    skills = render_skills(Project(lay_down(case, tmp_path / "p")).plan)
    found = {
        f"{skill.name}/{path}": text
        for skill in skills
        for path, text in skill.files.items()
        if path.endswith(".md")
    }

    goldens.check(f"{case}/expected_skills", found)


def without(names: tuple[str, ...], kept: Any) -> tuple[str, ...]:
    """The names that are left where only these tools are there."""
    left = {tool.name for tool in kept}
    return tuple(name for name in names if name in left)


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ .*$", text, re.MULTILINE)


def session_table(skill: Skill) -> list[list[str]]:
    """The cells of each row of the table of recipes."""
    table = skill.files[TEXT].partition("\n| recipe |")[2].partition("\n\n")[0]
    rows = table.rstrip("\n").split("\n")[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def told_arguments(skill: Skill, tool: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, whether it must be, and the listed values of each argument in a tool's section."""
    section = skill.files[GUIDE].partition(f"\n## {tool}\n")[2].partition("\n## ")[0]
    for row in section.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        if cells and cells[0].startswith("`"):
            values = [] if "at " in cells[3] or "like" in cells[3] else cells[3].split(", ")
            yield cells[0].strip("`"), cells[2], [value.strip("`") for value in values if value]


def enum(rule: dict[str, Any]) -> list[str]:
    return [str(value) for value in rule.get("items", rule).get("enum", [])]


def vocabulary(plan: ServerPlan, kit: KitPlan) -> set[str]:
    """Return every word that may be code: names, values, bounds, recipes, files and commands."""
    rules = [rule for one in schemas(plan, kit).values() for rule in one["properties"].values()]
    items = [rule.get("items", rule) for rule in rules]
    bounds = ("minimum", "maximum", "pattern")
    return {
        *(tool.name for other in plan.kits for tool in other.tools if needed(kit, other)),
        *(tool.name for tool in kit.tools),
        *(name for one in schemas(plan, kit).values() for name in one["properties"]),
        *(str(value) for item in items for value in item.get("enum", ())),
        *(str(item[bound]) for item in items for bound in bounds if bound in item),
        *plan.policy.recipes,
        *(other.key for other in plan.kits),
        *words(kit).variables,
        *FILES,
        *("true", "false", f"mcp__{kit.key}__"),
        *("ralphgen connect claude", "ralphgen dela allow", "ralphgen tools"),
    }


def needed(kit: KitPlan, other: KitPlan) -> bool:
    """Return whether arguments of a kit depend on tools of another one."""
    entries = {argument.needs for tool in kit.tools for argument in tool.arguments}
    return any(entry.startswith(f"{other.key}:") for entry in entries)
