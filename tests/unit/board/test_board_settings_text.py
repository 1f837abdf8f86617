"""The config after an edit of a discipline: the new values, and every other byte unchanged."""

import difflib
import tomllib

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.board.disciplines import with_settings
from ralphgen.project.config import DisciplineSettings

DOCS = {"command": "x y", "args": ["a"], "env": {"K E": 'q"\x7f\n', "B": "2"}}
FULL = DisciplineSettings.model_validate(
    {"disable": ["sign", "get_task"], "mcp_servers": {"docs": DOCS, "search": {"command": "find"}}}
)
NOTHING = DisciplineSettings()
COMMENTED = """\
kits = ["ralph"] # the only one

# The backend is careful.
[disciplines.backend]
# why
disable = [
  "get_task", # because
  # never
  "sign",
  "load",
] # after

# Searching.
[disciplines.backend.mcp_servers.search]
# within
command   =  'find it' # quoted
env = {TOKEN = "s", EMPTY = ""}

# About launching.
[launch]
allow = [ "Bash" ]


[disciplines.other]
disable = ["sign"]
# the end"""
LAYOUTS = {
    "nothing": "",
    "a comment": "# mine",
    "commented": COMMENTED,
    "Windows": COMMENTED.replace("\n", "\r\n"),
    "in braces": '[disciplines]\nbackend = { disable = ["a"], mcp_servers = '
    '{ search = { command = "y" } } } # end\nother.disable = ["sign"]\n',
    "all in braces": 'disciplines = { backend = { disable = ["x"] }, b = {disable = ["y"]} }\n',
    "dotted": 'disciplines.backend.disable = ["sign"]\n'
    'disciplines.backend.mcp_servers.gone.command = "x" # c\n'
    'disciplines.backend.mcp_servers.gone.env.A = "x" # c\nkits = ["ralph"]\n[launch]\n',
    "dotted in a table": '[disciplines]\nbackend.disable = ["x"]\n# c\n[launch]\n',
    "dotted servers": '[disciplines.backend]\nmcp_servers.docs.command = "x"\n# c\n',
    "out of order": '[disciplines.backend.mcp_servers.a]\ncommand = "1"\n[launch]\n# l\n'
    '[disciplines.backend.mcp_servers.search]\ncommand = "2"\n'
    '[disciplines.backend.mcp_servers.search.env]\nQ = "1"\n# tail\n[schema]\nhide = []\n'
    '[disciplines.other]\ndisable = ["sign"]\n[disciplines.backend]\n',
    "tables of variables": '[disciplines.backend.mcp_servers]\nsearch = {command = "f"}\n'
    '[disciplines.backend.mcp_servers.docs]\ncommand = "x"\n'
    '[disciplines.backend.mcp_servers.docs.env]\n# e\nB = "1" # bee\nC = "2"\n',
    "quoted keys": '["disciplines" . \'backend\']\n"disable" = ["a"]\n'
    '[disciplines.backend."mcp_servers".\'docs\']\ncommand = """\nlong\n[launch]\n"""\n',
    "other tables": "[[unknown]]\nx = 1\n[[unknown]]\n[disciplines.backend]\n[[unknown.y]]\n",
}


def settings(text: str, discipline: str = "backend") -> DisciplineSettings:
    found = tomllib.loads(text).get("disciplines", {}).get(discipline, {})
    return DisciplineSettings.model_validate(found)


def others(text: str) -> dict[str, object]:
    """Return every value outside the discipline."""
    values = tomllib.loads(text)
    values.get("disciplines", {}).pop("backend", None)
    return {key: value for key, value in values.items() if value or key != "disciplines"}


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the removed and the added lines."""
    lines = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return (
        [line[2:] for line in lines if line.startswith("- ")],
        [line[2:] for line in lines if line.startswith("+ ")],
    )


@pytest.mark.parametrize("wanted", [FULL, NOTHING], ids=["full", "nothing"])
@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_takes_what_is_wanted_and_keeps_the_rest(
    text: str, wanted: DisciplineSettings
) -> None:
    found = with_settings(text, "backend", wanted)

    assert sorted(wanted.disable) == sorted(settings(found).disable)
    assert wanted.mcp_servers == settings(found).mcp_servers
    assert others(text) == others(found)
    assert found == with_settings(found, "backend", wanted)
    assert ("\r\n" in text) == ("\r\n" in found)
    assert "\n" not in found.replace("\r\n", "") or "\r\n" not in text


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_what_is_there_already_changes_no_byte(text: str) -> None:
    assert text == with_settings(text, "backend", settings(text))


def test_a_server_goes_with_its_own_comments_and_no_others() -> None:
    gone, come = changed(COMMENTED, with_settings(COMMENTED, "backend", NOTHING))
    first, last = COMMENTED.splitlines(keepends=True).index("disable = [\n"), len("] # after\n")

    lines = COMMENTED.splitlines(keepends=True)
    assert (6, 10) == (first + 1, last)
    assert [*lines[5:11], *lines[13:17]] == gone
    assert [] == come


def test_comments_between_the_tables_of_a_server_go_with_it() -> None:
    table = "[disciplines.backend.mcp_servers.docs"
    text = f'# above\n{table}]\ncommand = "x"\n# its variables\n{table}.env]\nA = "b"\n# below\n'

    assert "# above\n# below\n" == with_settings(text, "backend", NOTHING)


def test_a_changed_value_leaves_its_neighbours_and_comments() -> None:
    wanted = settings(COMMENTED).model_dump()
    wanted["disable"] = ["new", "sign", "get_task"]
    wanted["mcp_servers"]["search"]["command"] = "seek"
    wanted["mcp_servers"]["search"]["env"] |= {"TOKEN": "t"}
    found = with_settings(COMMENTED, "backend", DisciplineSettings.model_validate(wanted))

    assert (
        ['  "load",\n', "command   =  'find it' # quoted\n", 'env = {TOKEN = "s", EMPTY = ""}\n'],
        ['  "new",\n', 'command   =  "seek" # quoted\n', 'env = {TOKEN = "t", EMPTY = ""}\n'],
    ) == changed(COMMENTED, found)


def test_new_settings_stand_with_those_of_the_discipline() -> None:
    wanted = settings(COMMENTED).model_dump()
    wanted["mcp_servers"]["docs"] = {"command": "x", "args": ["a"], "env": {"K": "v"}}
    found = with_settings(COMMENTED, "backend", DisciplineSettings.model_validate(wanted))

    table = '[disciplines.backend.mcp_servers.docs]\ncommand = "x"\nargs = ["a"]\nenv = {K = "v"}\n'
    above = 'env = {TOKEN = "s", EMPTY = ""}\n'
    assert COMMENTED.replace(above, f"{above}\n{table}") == found


@pytest.mark.parametrize(
    "text", ['[disciplines]\n[disciplines."back\\u0065nd"]\ndisable = [\n]\n'], ids=["escaped"]
)
def test_a_spelling_with_escapes_is_the_same_key(text: str) -> None:
    found = with_settings(text, "backend", FULL)

    assert FULL == settings(found)
    assert found.startswith('[disciplines]\n[disciplines."back\\u0065nd"]\n')


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SERVERS = st.fixed_dictionaries(
    {
        "command": TEXTS.filter(str.strip),
        "args": st.lists(TEXTS, max_size=2),
        "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
    }
)
SETTINGS = st.fixed_dictionaries(
    {
        "disable": st.lists(TEXTS.filter(bool), max_size=3, unique=True),
        "mcp_servers": st.dictionaries(st.sampled_from(["docs", "a-b", "_"]), SERVERS, max_size=2),
    }
).map(DisciplineSettings.model_validate)
HOSTILE = ["__proto__", 'a"b', "a\nb", "]x[", "😀", "a.b", "", "x" * 3000, "'", "#", "\x7f\x00"]


@hypothesis.settings(max_examples=30, deadline=None)  # each takes 50 ms
@given(st.sampled_from(HOSTILE), SETTINGS, SETTINGS, st.sampled_from(sorted(LAYOUTS)))
def test_whatever_is_wanted_of_whatever_name_is_there_afterwards(
    name: str, first: DisciplineSettings, second: DisciplineSettings, layout: str
) -> None:
    text = LAYOUTS[layout]
    once = with_settings(text, name, first)
    twice = with_settings(once, name, second)

    assert first == settings(once, name)
    assert sorted(second.disable) == sorted(settings(twice, name).disable)
    assert second.mcp_servers == settings(twice, name).mcp_servers
    assert settings(text) == settings(twice)
