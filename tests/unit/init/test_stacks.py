"""The default disciplines satisfy the requirements of readers, the database and the board."""

import re
from itertools import combinations

import pytest

from ralphgen.emit.scaffold import STACKS, Discipline, Stack, load_stack
from ralphgen.errors import UsageError

IDS = {"generic": 1, "desktop": 2, "saas": 3, "mobile": 4, "empty": 0}

LOADED = tuple(load_stack(name) for name in STACKS)
FILLED = tuple(stack for stack in LOADED if stack.disciplines)
each_filled_stack = pytest.mark.parametrize("stack", FILLED, ids=lambda stack: stack.name)
LEFT_TO_DO = re.compile(r"\b(TODO|TBD|FIXME|XXX|lorem ipsum)\b")
STRAY_SPACE = re.compile(r"[^\S\n]{2,}|[^\S\n]\n|\n{3,}|[\t\r\\]")
# Sessions differ: a prompt that names a tool would promise one that a session may lack.
TOOL = re.compile(
    r"\b(?:add|append|create|delete|get|list|set|update)_[a-z_]+|\bmcp\b", re.IGNORECASE
)


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


def test_ids_equal_the_column_stack_id_and_titles_are_unique() -> None:
    assert IDS == {stack.name: stack.id for stack in LOADED}
    assert len(STACKS) == len({stack.title for stack in LOADED} - {""})


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
@pytest.mark.parametrize("field", ["name", "display_name", "acronym", "icon", "color"])
def test_names_and_looks_are_unique_in_a_stack(stack: Stack, field: str) -> None:
    assert len(stack.disciplines) == len({getattr(each, field) for each in stack.disciplines})


@each_filled_stack
def test_each_discipline_has_the_form_that_board_and_agents_expect(stack: Stack) -> None:
    for each in stack.disciplines:
        looks = f"{each.acronym} {each.color} {each.icon}"
        assert re.fullmatch("[A-Z0-9]{4} #[0-9a-f]{6} ([A-Z][a-z0-9]+)+", looks)
        assert len(sentences(each.description)) == 1
        assert each.description.endswith(".")
        assert len(each.skills) == len({*each.skills}) in {5, 6}
        assert all(1 <= len(skill.split()) <= 8 for skill in each.skills)
        conventions = each.conventions.splitlines()
        assert 4 <= len(conventions) <= 6
        assert all(re.fullmatch(r"- \S.*\.", line) for line in conventions)
        for text in texts(each):
            assert text == text.strip() != ""
            assert text.isascii()
            assert not [bad for bad in (LEFT_TO_DO, STRAY_SPACE, TOOL) if bad.search(text)]


@each_filled_stack
def test_a_prompt_names_the_specialist_and_ends_with_ordered_priorities(stack: Stack) -> None:
    for each in stack.disciplines:
        specialist, approach, priorities = each.system_prompt.split("\n\n")
        title, *items = priorities.splitlines()

        assert specialist.startswith("You are ")
        assert len(sentences(approach)) >= 3
        assert title == "Priorities, in order:"
        assert [f"{number}." for number in range(1, 6)] == [item.split()[0] for item in items]
        assert 120 <= len(each.system_prompt.split()) <= 300


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
