"""Edits of a discipline obey the rules of its readers, and reveal no secret."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import snapshot
from driving import create_project
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.board.discipline_forms import (
    DisciplineForm,
    Edit,
    FormError,
    Server,
    Variable,
    problems_of,
)
from ralphgen.board.disciplines import RESERVED, DisciplineView, ServerRow, read_disciplines
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
    servers=(ServerRow("docs", "docs-server", (), ("KEY", "TOKEN"), "here"),),
    other_servers=(ServerRow("search", "find", (), (), "the config"),),
    disabled_home="config",
    disabled=(),
    other_disabled=(),
    problems=(),
    prose=(),
    stored_servers="",
    stored_disabled="",
    fingerprint="f",
)


def edit(**lists: Any) -> Edit:
    return Edit(discipline="backend", fingerprint="f", **lists)


def server(**changes: Any) -> Edit:
    """Return an edit of one server, which is valid except for the changes."""
    return edit(servers=(Server(**{"name": "docs", "command": "run", **changes}),))


def variables(*pairs: tuple[str, str | None], was: int | None = 0) -> Edit:
    return server(env=tuple(Variable(name=name, value=value) for name, value in pairs), was=was)


def problems(edit: Edit, saw: DisciplineView = SAW) -> list[tuple[str, str]]:
    return [(one.field, one.text) for one in problems_of(edit, saw, CATALOG)]


FINE = {
    "nothing": edit(),
    "empty lists": edit(servers=(), disabled=()),
    "a server": server(args=("", "--port", "a b", "ü😀\n"), env=(Variable(name="K", value=""),)),
    "values that stay": variables(("TOKEN", None), ("KEY", None)),
    "a value that stays under a new name": server(name="other", env=(Variable(name="KEY"),), was=0),
    "the longest name": server(name="x" * 64),
    "tools": edit(disabled=("get_task", "dela:list_tasks", "sign", "ralph:get_task")),
}


@pytest.mark.parametrize("given", FINE.values(), ids=FINE)
def test_what_readers_take_has_no_problem(given: Edit) -> None:
    assert [] == problems(given)


LONG = "x" * 40_000
WRONG: dict[str, tuple[Edit, str, str]] = {
    "reserved": (server(name="ralph"), "servers.0.name", "is used by one of the project"),
    "a kit that is off": (server(name="rye"), "servers.0.name", "is used by one"),
    "in the config": (server(name="search"), "servers.0.name", 'duplicate MCP server "search"'),
    "no name": (server(name=""), "servers.0.name", "use letters"),
    "a blank": (server(name="a b"), "servers.0.name", '"a b": use letters'),
    "two lines": (server(name="docs\n"), "servers.0.name", r'"docs\n": use letters'),
    "a very long name": (server(name=LONG), "servers.0.name", "at most 64 characters"),
    "half a character in a name": (server(name="\ud800"), "servers.0.name", "use letters"),
    "no command": (server(command=""), "servers.0.command", "expected a string that is not blank"),
    "a blank command": (server(command=" \t\n"), "servers.0.command", "that is not blank"),
    "a NUL in the command": (server(command="a\0"), "servers.0.command", "a NUL character"),
    "half a character": (server(command="a\udc00"), "servers.0.command", "surrogate pair"),
    "a long command": (server(command=LONG), "servers.0.command", "40,000 characters"),
    "a NUL in an argument": (server(args=("a", "\0")), "servers.0.args.1", "a NUL character"),
    "many arguments": (server(args=("a",) * 201), "servers.0.args", "expected at most 200"),
    "no variable": (variables(("", "x")), "servers.0.env.0.name", 'a name without "="'),
    "both in the name": (variables((f"K={PRIVATE}", "x")), "servers.0.env.0.name", '"="'),
    "a NUL in a variable": (variables(("a\0", "x")), "servers.0.env.0.name", "a NUL character"),
    "a NUL in a value": (variables(("K", f"{PRIVATE}\0")), "servers.0.env.0.value", "a NUL"),
    "half a value": (variables(("K", f"{PRIVATE}\udc00")), "servers.0.env.0.value", "surrogate"),
    "a long value": (variables(("K", PRIVATE * 9000)), "servers.0.env.0.value", "54,000"),
    "a variable twice": (variables(("K", "x"), ("K", "y")), "servers.0.env.1.name", "twice"),
    "no value": (variables(("NEW", None)), "servers.0.env.0.value", "no stored value"),
    "no value before": (
        variables(("KEY", None), was=None),
        "servers.0.env.0.value",
        "no stored value",
    ),
    "no such server": (variables(("KEY", None), was=1), "servers.0.was", "position 1"),
    "a server before the first": (variables(was=-1), "servers.0.was", "position -1"),
    "no tool": (edit(disabled=("get_tsak",)), "disabled.0", 'no kit has a tool "get_tsak"'),
    "no kit": (edit(disabled=("sign", "rail:sign")), "disabled.1", 'a tool "rail:sign"'),
    "another kit's": (edit(disabled=("ralph:sign",)), "disabled.0", 'a tool "ralph:sign"'),
    "no text": (edit(disabled=("",)), "disabled.0", 'a tool ""'),
    "a tool of two lines": (edit(disabled=("a\n: b",)), "disabled.0", r'a tool "a\n: b"'),
    "a long tool": (edit(disabled=(LONG,)), "disabled.0", "at most 200 characters"),
    "a tool twice": (edit(disabled=("sign", "sign")), "disabled.1", '"sign" is listed twice'),
    "many tools": (edit(disabled=("sign",) * 201), "disabled", "201 items"),
}


@pytest.mark.parametrize(("given", "field", "text"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_at_its_field(given: Edit, field: str, text: str) -> None:
    (problem,) = [one for one in problems_of(given, SAW, CATALOG) if one.field == field]

    assert text in problem.text
    assert f"{problem.text}{problem.hint}".isprintable()
    assert len(f"{problem.text}{problem.hint}") < 1200
    assert PRIVATE not in repr(problems_of(given, SAW, CATALOG))


def test_a_misspelled_tool_is_given_a_suggestion() -> None:
    (problem,) = problems_of(edit(disabled=("getTask",)), SAW, CATALOG)

    assert 'did you mean "get_task"?' == problem.hint


def test_every_problem_is_said_at_once_in_the_order_of_the_fields() -> None:
    bad = Server(name="a b", command="", args=("\0",), env=(Variable(name="", value="x"),))
    found = problems(edit(servers=(bad, bad), disabled=("no", "nor")))

    fields = ("name", "command", "args.0", "env.0.name")
    expected = [f"servers.{at}.{field}" for at in (0, 1) for field in fields]
    assert [*expected, "disabled.0", "disabled.1"] == [field for field, _ in found]
    assert 'duplicate MCP server "a b"' == found[4][1]


def test_where_the_column_cannot_be_read_no_value_can_be_kept() -> None:
    ((field, _),) = problems(variables(("KEY", None)), replace(SAW, servers=None))

    assert "servers.0.was" == field


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
SERVERS = st.builds(Server, name=NAMES, command=TEXTS, args=st.lists(TEXTS).map(tuple))


@given(st.lists(SERVERS, max_size=3).map(tuple))
def test_the_rules_are_those_of_sessions(servers: tuple[Server, ...]) -> None:
    """Servers without a problem here start a session, and those with one would stop it."""
    column = [{"name": one.name, "command": one.command, "args": one.args} for one in servers]
    configured = {"search": McpServer(command="find")}
    try:
        discipline_servers("backend", json.dumps(column), configured, RESERVED)
        readable = True
    except ProjectError:
        readable = False

    assert readable == (not problems_of(edit(servers=servers), SAW, CATALOG))


FIELDS = (("discipline", "backend"), ("fingerprint", "f"))


def sent(*fields: tuple[str, str]) -> DisciplineForm:
    return DisciplineForm(Form((*FIELDS, *fields)))


def test_a_form_is_an_edit_without_its_blank_rows() -> None:
    form = sent(
        *(("edits", "servers"), ("servers.0.was", "0"), ("servers.0.name", " docs ")),
        *(("servers.0.command", "x"), ("servers.0.args", "-y 'a b'")),
        *(("servers.0.env.0.name", "KEY"), ("servers.0.env.0.value", "")),
        *(("servers.0.env.2.name", "K"), ("servers.0.env.2.value", "v")),
        *(("servers.0.env.3.name", ""), ("servers.0.env.3.value", "")),
        *(("servers.1.name", ""), ("servers.1.command", "")),
        *(("servers.2.was", "1"), ("servers.2.name", "gone"), ("servers.2.remove", "1")),
        *(("disabled", "sign"), ("prose", "description"), ("description", "Text")),
    )
    kept = (Variable(name="KEY"), Variable(name="K", value="v"))
    wanted = Server(name="docs", command="x", args=("-y", "a b"), env=kept, was=0)

    assert edit(servers=(wanted,), prose={"description": "Text"}) == form.edit()


@pytest.mark.parametrize("was", ["x", "-1", "1" * 10, "", "1.0"])
def test_a_position_that_is_none_is_of_a_new_server(was: str) -> None:
    form = sent(("edits", "servers"), ("servers.0.name", "docs"), ("servers.0.was", was))
    (found,) = form.edit().servers or ()

    assert found.was is None


def test_an_open_quote_is_said_at_its_field_without_its_words() -> None:
    fields = (("servers.7.name", "docs"), ("servers.7.args", f"'{PRIVATE}"))
    with pytest.raises(FormError) as caught:
        sent(("edits", "servers"), *fields).edit()
    (problem,) = caught.value.problems

    assert ("servers.7.args", "the arguments have an open quote") == (problem.field, problem.text)
    assert PRIVATE not in f"{caught.value!r}{problem}"


def test_a_problem_is_shown_at_the_row_that_it_is_about() -> None:
    form = sent(
        *(("edits", "servers"), ("edits", "disabled"), ("disabled", "no")),
        *(("servers.4.name", "a b"), ("servers.4.command", "x")),
        *(("servers.9.name", "docs"), ("servers.9.command", "x"), ("servers.9.env.5.name", "K")),
    )
    found = [form.shown(one).field for one in problems_of(form.edit(), SAW, CATALOG)]

    assert ["servers.4.name", "servers.9.env.5.value", "disabled"] == found
