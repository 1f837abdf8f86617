"""Edits of a discipline obey the rules of its readers, and reveal no secret."""

import json
from pathlib import Path
from typing import Any

import pytest
from board_edits import edit_of, server
from command_line import snapshot
from driving import create_project
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.board.disciplines import (
    LONGEST,
    RESERVED,
    DisciplineView,
    Edit,
    Server,
    problems_of,
    read_disciplines,
)
from ralphgen.board.text import Form
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.planning.server import full_catalog
from ralphgen.project.config import McpServer
from ralphgen.project.disciplines import discipline_servers

PRIVATE = "s3cr3t"
CATALOG = full_catalog(KITS, ())
SAW = DisciplineView(
    name="backend",
    shown="backend",
    display_name="Backend",
    servers_home="database",
    servers={"0": server("docs", "docs-server", env={"KEY": "", "TOKEN": ""}, was="0")},
    other_servers=(server("search", "find"),),
    disabled_home="config",
    disabled=(),
    other_disabled=(),
    problems=(),
    prose=(),
    stored_servers="",
    stored_disabled="",
    fingerprint="f",
)


def edit(**changes: Any) -> Edit:
    return edit_of("backend", "f", **changes)


def edit_of_server(**changes: Any) -> Edit:
    """Return an edit of one server, which is valid except for the changes."""
    return edit(servers=(Server(**{"name": "docs", "command": "run", **changes}),))


def variables(*pairs: tuple[str, str], was: str = "0") -> Edit:
    return edit_of_server(env={str(slot): pair for slot, pair in enumerate(pairs)}, was=was)


def problems(edit: Edit) -> list[tuple[str, str]]:
    return [(one.field, one.text) for one in problems_of(edit, SAW, CATALOG)]


FINE = {
    "nothing": edit(),
    "empty lists": edit(servers=(), disabled=()),
    "a server": edit_of_server(args="'' --port 'a b' 'ü😀\n'", env={"0": ("K", "v")}),
    "values that stay": variables(("TOKEN", ""), ("KEY", "")),
    "a value that stays under a new name": edit_of_server(
        name="other", env={"0": ("KEY", "")}, was="0"
    ),
    "the longest name": edit_of_server(name="x" * 64),
    "tools": edit(disabled=("get_task", "dela:list_tasks", "sign", "ralph:get_task")),
}


@pytest.mark.parametrize("given", FINE.values(), ids=FINE)
def test_what_readers_take_has_no_problem(given: Edit) -> None:
    assert [] == problems(given)


LONG = "x" * (LONGEST + 1)
WRONG: dict[str, tuple[Edit, str, str]] = {
    "reserved": (edit_of_server(name="ralph"), "servers.0.name", "is used by one of the project"),
    "a kit that is off": (edit_of_server(name="rye"), "servers.0.name", "is used by one"),
    "in the config": (edit_of_server(name="search"), "servers.0.name", "duplicate MCP server"),
    "no name": (edit_of_server(name=""), "servers.0.name", "use letters"),
    "a blank": (edit_of_server(name="a b"), "servers.0.name", '"a b": use letters'),
    "two lines": (edit_of_server(name="docs\n"), "servers.0.name", r'"docs\n": use letters'),
    "a very long name": (edit_of_server(name=LONG), "servers.0.name", "invalid MCP server name"),
    "no command": (edit_of_server(command=""), "servers.0.command", "a string that is not blank"),
    "a blank command": (edit_of_server(command=" \t\n"), "servers.0.command", "is not blank"),
    "a NUL in the command": (edit_of_server(command="a\0"), "servers.0.command", "a NUL character"),
    "a long command": (edit_of_server(command=LONG), "servers.0.command", "60,001 characters"),
    "a NUL in an argument": (edit_of_server(args="a \0"), "servers.0.args", "a NUL character"),
    "an open quote": (edit_of_server(args=f"'{PRIVATE}"), "servers.0.args", "have an open quote"),
    "no variable": (variables(("", "x")), "servers.0.env.0.name", 'a name without "="'),
    "both in the name": (variables((f"K={PRIVATE}", "x")), "servers.0.env.0.name", '"="'),
    "a NUL in a variable": (variables(("a\0", "x")), "servers.0.env.0.name", "a NUL character"),
    "a NUL in a value": (variables(("K", f"{PRIVATE}\0")), "servers.0.env.0.value", "a NUL"),
    "a long value": (variables(("K", PRIVATE * 10_001)), "servers.0.env.0.value", "60,006"),
    "a variable twice": (variables(("K", "x"), ("K", "y")), "servers.0.env.1.name", "twice"),
    "no value": (variables(("NEW", "")), "servers.0.env.0.value", "no stored value"),
    "no value before": (variables(("KEY", ""), was=""), "servers.0.env.0.value", "no stored value"),
    "no such server": (variables(("KEY", ""), was="1"), "servers.0.env.0.value", "no stored value"),
    "no tool": (edit(disabled=("get_tsak",)), "disabled", 'no kit has a tool "get_tsak"'),
    "no kit": (edit(disabled=("sign", "rail:sign")), "disabled", 'a tool "rail:sign"'),
    "another kit's": (edit(disabled=("ralph:sign",)), "disabled", 'a tool "ralph:sign"'),
    "no text": (edit(disabled=("",)), "disabled", 'a tool ""'),
    "a tool of two lines": (edit(disabled=("a\n: b",)), "disabled", r'a tool "a\n: b"'),
    "a long tool": (edit(disabled=(LONG,)), "disabled", "no kit has a tool"),
}


@pytest.mark.parametrize(("given", "field", "text"), WRONG.values(), ids=WRONG)
def test_a_problem_names_its_field(given: Edit, field: str, text: str) -> None:
    (problem,) = [one for one in problems_of(given, SAW, CATALOG) if one.field == field]

    assert text in problem.text
    assert f"{problem.text}{problem.hint}".isprintable()
    assert len(f"{problem.text}{problem.hint}") < 1200
    assert PRIVATE not in repr(problems(given))


def test_a_misspelled_tool_is_given_a_suggestion() -> None:
    (problem,) = problems_of(edit(disabled=("getTask",)), SAW, CATALOG)

    assert 'did you mean "get_task"?' == problem.hint


def test_every_problem_is_said_at_once_in_the_order_of_the_fields() -> None:
    bad = server("a b", "", ["\0"], {"": "x"})
    found = problems(edit(servers=(bad, bad), disabled=("no", "nor")))

    fields = ("name", "command", "args", "env.0.name")
    expected = [f"servers.{at}.{field}" for at in (0, 1) for field in fields]
    assert [*expected, "disabled"] == [field for field, _ in found]
    assert 'duplicate MCP server "a b"' == found[4][1]


def test_a_check_touches_no_file(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    saw = read_disciplines(root).rows[0]
    before = snapshot(root)
    for wrong, _, _ in WRONG.values():
        problems_of(wrong, saw, CATALOG)

    assert before == snapshot(root)


def test_an_edit_tells_no_value() -> None:
    given = variables(("KEY", PRIVATE))

    assert PRIVATE not in f"{given!r}{given}"


NAMES = st.sampled_from(["docs", "search", "ralph", "", "a b", "é", "x" * 65, "\n", "A-_1"])
TEXTS = st.sampled_from(["", " ", "run", "\t", "a\nb", "😀"])
SERVERS = st.builds(server, NAMES, TEXTS, st.lists(TEXTS))


@given(st.lists(SERVERS, max_size=3))
def test_the_rules_are_those_of_sessions(servers: list[Server]) -> None:
    """Servers without a problem here start a session, and those with one would stop it."""
    column = [{"name": one.name, "command": one.command} for one in servers]
    configured = {"search": McpServer(command="find")}
    try:
        discipline_servers("backend", json.dumps(column), configured, RESERVED)
        readable = True
    except ProjectError:
        readable = False

    assert readable == (not problems(edit(servers=servers)))


def sent(*fields: tuple[str, str]) -> Edit:
    return Edit.of(Form((("discipline", "backend"), ("fingerprint", "f"), *fields)))


def test_a_form_is_an_edit_without_its_blank_rows() -> None:
    found = sent(
        *(("edits", "servers"), ("servers.0.was", "0"), ("servers.0.name", " docs ")),
        *(("servers.0.command", "x"), ("servers.0.args", "-y 'a b'")),
        *(("servers.0.env.0.name", "KEY"), ("servers.0.env.0.value", "")),
        *(("servers.0.env.2.name", "K"), ("servers.0.env.2.value", "v")),
        *(("servers.0.env.3.name", ""), ("servers.0.env.3.value", "")),
        *(("servers.1.name", ""), ("servers.1.command", "")),
        *(("servers.2.was", "1"), ("servers.2.name", "gone"), ("servers.2.remove", "1")),
        *(("disabled", "sign"), ("prose", "description"), ("description", "Text")),
    )
    wanted = Server("docs", "x", "-y 'a b'", {"0": ("KEY", ""), "2": ("K", "v")}, was="0")

    assert edit(servers=(wanted,), prose={"description": "Text"}) == found


def test_a_tool_that_is_listed_twice_is_saved_once() -> None:
    found = sent(("edits", "disabled"), ("disabled", "sign\n\n get_task\nsign"))

    assert ("sign", "get_task") == found.disabled


def test_a_problem_is_shown_at_the_row_that_it_is_about() -> None:
    found = sent(
        *(("edits", "servers"), ("edits", "disabled"), ("disabled", "no")),
        *(("servers.4.name", "a b"), ("servers.4.command", "x")),
        *(("servers.9.name", "docs"), ("servers.9.command", "x"), ("servers.9.env.5.name", "K")),
    )

    fields = [field for field, _ in problems(found)]
    assert ["servers.4.name", "servers.9.env.5.value", "disabled"] == fields
