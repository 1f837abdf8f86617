"""The default disciplines satisfy the requirements of readers, the database and the board."""

import re
from itertools import combinations

import pytest

from ralphgen.emit.scaffold import STACKS, Discipline, Stack, load_stack
from ralphgen.errors import UsageError

TABLE = {
    "generic": [
        ("implementation", "IMPL", "Hammer", "#077bf8"),
        ("refactoring", "RFCT", "Recycle", "#9e4ccf"),
        ("investigation", "INVS", "Search", "#729807"),
        ("testing", "TEST", "CheckCircle", "#d38306"),
        ("architecture", "ARCH", "Compass", "#af15ff"),
        ("devops", "DVOP", "Rocket", "#08b2bc"),
        ("security", "SECR", "Shield", "#f72623"),
        ("documentation", "DOCS", "BookOpen", "#0c8c81"),
    ],
    "desktop": [
        ("frontend", "FRNT", "Code", "#068d87"),
        ("backend", "BACK", "Server", "#ea7805"),
        ("data", "DATA", "Database", "#7a10ff"),
        ("integration", "INTG", "Cable", "#1da405"),
        ("platform", "PLTF", "Monitor", "#0388fb"),
        ("quality", "QLTY", "Award", "#9e7704"),
        ("security", "SECR", "Shield", "#ea2b2b"),
        ("documentation", "DOCS", "BookOpen", "#e8c127"),
    ],
    "saas": [
        ("nextjs_app_router", "ROUT", "Route", "#0f62d6"),
        ("react_components", "RCMP", "Component", "#0a8fa8"),
        ("api_routes", "APIR", "Webhook", "#d9480f"),
        ("database_prisma", "DBPR", "Database", "#5f3dc4"),
        ("authentication", "AUTH", "KeyRound", "#c92a2a"),
        ("monorepo_deployment", "DPLY", "Boxes", "#2b8a3e"),
        ("testing", "TEST", "FlaskConical", "#b7791f"),
        ("documentation", "DOCS", "BookOpenText", "#a61e6e"),
    ],
    "mobile": [
        ("flutter_ui", "FLUI", "Smartphone", "#0b7fd0"),
        ("dart_logic", "DART", "Braces", "#00897b"),
        ("firebase_backend", "FIRE", "Flame", "#e8590c"),
        ("state_management", "STAT", "Workflow", "#8e44ad"),
        ("platform_integration", "PLAT", "Plug", "#546e7a"),
        ("testing", "TEST", "TestTubeDiagonal", "#5c940d"),
        ("app_distribution", "DIST", "PackageCheck", "#d81b60"),
        ("documentation", "DOCS", "NotebookText", "#8f6b0a"),
    ],
    "empty": [],
}

LOADED = tuple(load_stack(name) for name in STACKS)
FILLED = tuple(stack for stack in LOADED if stack.disciplines)
DISCIPLINES = tuple(
    pytest.param(discipline, id=f"{stack.name}-{discipline.name}")
    for stack in FILLED
    for discipline in stack.disciplines
)

each_filled_stack = pytest.mark.parametrize("stack", FILLED, ids=lambda stack: stack.name)
each_discipline = pytest.mark.parametrize("discipline", DISCIPLINES)


def every_discipline() -> list[tuple[str, Discipline]]:
    """Each discipline of every stack, under a label that is unique."""
    return [(f"{stack.name}/{each.name}", each) for stack in FILLED for each in stack.disciplines]


def texts(discipline: Discipline) -> list[str]:
    """Return every text of a discipline that users or agents read."""
    return [
        discipline.display_name,
        discipline.description,
        discipline.system_prompt,
        *discipline.skills,
        discipline.conventions,
    ]


def sentences(text: str) -> set[str]:
    """The sentences and list items of a text, without numbers, bullets and capitals.

    A line that ends with a colon only introduces a list.
    """
    lines = (line for line in text.splitlines() if not line.endswith(":"))
    pieces = (piece for line in lines for piece in re.split(r"(?<=[.!?])\s+", line))
    bare = (re.sub(r"^(\d+\.|-)\s*", "", piece).strip().casefold() for piece in pieces)
    return {piece for piece in bare if re.search("[a-z]", piece)}


def words(text: str) -> set[str]:
    """The distinct words of a text."""
    return set(re.findall(r"[a-z']+", text.casefold()))


@pytest.mark.parametrize(("name", "rows"), TABLE.items(), ids=TABLE)
def test_a_stack_holds_its_disciplines_in_order(
    name: str, rows: list[tuple[str, str, str, str]]
) -> None:
    found = [
        (each.name, each.acronym, each.icon, each.color) for each in load_stack(name).disciplines
    ]

    assert rows == found


def test_ids_equal_the_column_stack_id() -> None:
    expected = {"generic": 1, "desktop": 2, "saas": 3, "mobile": 4, "empty": 0}

    assert expected == {stack.name: stack.id for stack in LOADED}


def test_each_stack_has_a_unique_title() -> None:
    titles = [stack.title for stack in LOADED]

    assert len(STACKS) == len(set(titles))
    assert all(titles)


def test_an_unknown_name_is_refused_with_the_list_of_names() -> None:
    with pytest.raises(UsageError) as refused:
        load_stack("sass")

    expected = (
        'unknown stack "sass", expected one of "generic", "desktop", "saas", "mobile", "empty"'
    )

    assert expected == refused.value.problems[0].text
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("name", ["", "Generic", "generic.toml", "../stacks/generic"])
def test_only_the_exact_name_of_a_stack_opens_a_file(name: str) -> None:
    with pytest.raises(UsageError):
        load_stack(name)


@each_filled_stack
def test_names_acronyms_icons_and_colors_are_unique_in_a_stack(stack: Stack) -> None:
    count = len(stack.disciplines)

    assert count == len({each.name for each in stack.disciplines})
    assert count == len({each.display_name for each in stack.disciplines})
    assert count == len({each.acronym for each in stack.disciplines})
    assert count == len({each.icon for each in stack.disciplines})
    assert count == len({each.color for each in stack.disciplines})


@each_discipline
def test_acronym_color_and_icon_have_the_form_the_board_expects(discipline: Discipline) -> None:
    assert re.fullmatch("[A-Z0-9]{4}", discipline.acronym)
    assert re.fullmatch("#[0-9a-f]{6}", discipline.color)
    assert re.fullmatch("([A-Z][a-z0-9]+)+", discipline.icon)


@each_discipline
def test_a_description_is_one_sentence(discipline: Discipline) -> None:
    assert len(sentences(discipline.description)) == 1
    assert discipline.description.endswith(".")


@each_discipline
def test_a_prompt_names_the_specialist_and_ends_with_ordered_priorities(
    discipline: Discipline,
) -> None:
    specialist, approach, priorities = discipline.system_prompt.split("\n\n")
    title, *items = priorities.splitlines()

    assert specialist.startswith("You are ")
    assert len(sentences(approach)) >= 3
    assert title == "Priorities, in order:"
    assert [f"{number}." for number in range(1, 6)] == [item.split()[0] for item in items]


@each_discipline
def test_a_prompt_has_120_to_300_words(discipline: Discipline) -> None:
    assert 120 <= len(discipline.system_prompt.split()) <= 300


@each_discipline
def test_skills_are_five_or_six_short_items(discipline: Discipline) -> None:
    assert len(discipline.skills) in {5, 6}
    assert len(discipline.skills) == len(set(discipline.skills))
    assert all(1 <= len(skill.split()) <= 8 for skill in discipline.skills)


@each_discipline
def test_conventions_are_four_to_six_bullets(discipline: Discipline) -> None:
    lines = discipline.conventions.splitlines()

    assert 4 <= len(lines) <= 6
    assert all(re.fullmatch(r"- \S.*\.", line) for line in lines)


@each_discipline
def test_no_text_is_left_to_be_written(discipline: Discipline) -> None:
    found = re.findall(r"\b(TODO|TBD|FIXME|XXX|lorem ipsum)\b", "\n".join(texts(discipline)))

    assert not found


@each_discipline
def test_texts_are_plain_lines_without_stray_space(discipline: Discipline) -> None:
    for text in texts(discipline):
        assert text
        assert text == text.strip()
        assert text.isascii()
        assert not re.search(r"[^\S\n]{2,}|[^\S\n]\n|\n{3,}|[\t\r\\]", text)


@each_discipline
def test_no_text_names_a_tool_of_a_server(discipline: Discipline) -> None:
    """Sessions differ: a prompt that names a tool would promise one that a session may lack."""
    pattern = r"\b(?:add|append|create|delete|get|list|set|update)_[a-z_]+|\bmcp\b"

    found = re.findall(pattern, "\n".join(texts(discipline)), re.IGNORECASE)

    assert not found


def test_no_two_disciplines_share_a_sentence() -> None:
    def read(discipline: Discipline) -> set[str]:
        return sentences("\n".join([*texts(discipline)[1:3], discipline.conventions]))

    shared = [
        (one, other, read(first) & read(second))
        for (one, first), (other, second) in combinations(every_discipline(), 2)
        if read(first) & read(second)
    ]

    assert not shared


def test_no_two_prompts_are_alike() -> None:
    """Alike: half of the distinct words of both are the same (Jaccard index of 0.5)."""
    alike = [
        (one, other)
        for (one, first), (other, second) in combinations(every_discipline(), 2)
        if 2 * len(words(first.system_prompt) & words(second.system_prompt))
        >= len(words(first.system_prompt) | words(second.system_prompt))
    ]

    assert not alike
