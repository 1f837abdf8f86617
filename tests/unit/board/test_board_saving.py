"""Saving an edit of a discipline: it is all there, in the right place, and sessions heed it."""

import json
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from board_edits import (
    CONFIG,
    DOCS,
    FILE,
    FRESH,
    MIXED,
    NEITHER,
    NEW,
    PRIVATE,
    STORED,
    WANTED,
    discipline_view,
    edit,
    editable_project,
    editable_state,
    row,
    server,
    take_columns,
)
from command_line import ralphgen, ran
from driving import create_project, query
from making_sessions import client_of, opened

from ralphgen.board.disciplines import read_disciplines, save
from ralphgen.kits.registry import read_settings

pytestmark = pytest.mark.slow

ERA_ROWS = """
INSERT INTO metadata (id, project_title, project_created) VALUES (1, 'Shop', '2026-02-10');
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    VALUES ('testing', 'Testing', 'TEST', 'Server', '#ea7805');
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return editable_project(tmp_path_factory.mktemp("saving") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project, tmp_path / "p")


@pytest.mark.slow
def test_columns_take_both_lists_and_the_rest_of_the_row_stays(root: Path) -> None:
    before, others = row(root), editable_state(root)[0]
    saved = save(root, edit(root, servers=WANTED, disabled=("sign", "get_task")))
    after = row(root)

    assert (True, 'saved "testing" in .ralph/db/ralph.db', ()) == (
        saved.ok,
        saved.message,
        saved.problems,
    )
    assert STORED == json.loads(after.pop("mcp_servers"))
    overrides = json.loads(after.pop("mcp_tool_overrides"))
    assert {"additional_disabled": ["sign", "get_task"]} == overrides
    del before["mcp_servers"], before["mcp_tool_overrides"]
    assert before == after
    assert [one for one in others if one[0] != "testing"] == [
        one for one in editable_state(root)[0] if one[0] != "testing"
    ]
    assert CONFIG == (root / FILE).read_text(encoding="utf-8")


def test_a_session_made_afterwards_has_the_servers_and_lacks_the_tools(root: Path) -> None:
    save(root, edit(root, servers=WANTED, disabled=("get_feature", "list_tasks")))
    session = opened(root, "task_execution", task=1)
    entries = json.loads(session.mcp_config.read_bytes())["mcpServers"]
    with client_of(session.mcp_config) as driver:
        names = driver.names()

    assert ("docs", "more") == session.other_servers
    assert STORED[0]["env"] == entries["docs"]["env"]
    assert {"command": "more", "args": ["a", "b c"]} == entries["more"]
    assert "get_task" in names
    assert {"get_feature", "list_tasks"}.isdisjoint(names)
    assert ralphgen("check", root).returncode == 0


CREDENTIALS = ["-y", f"--token={PRIVATE}", "--key", PRIVATE, "--port", "1"]
MASKED = ("-y", "--token=***", "--key", "***", "--port", "1")


def with_credentials(root: Path) -> None:
    servers = [{"name": "docs", "command": f"run --pass {PRIVATE}", "args": CREDENTIALS}]
    sql = "UPDATE disciplines SET mcp_servers = ? WHERE name = 'testing'"
    query(root, sql, json.dumps(servers))


def saved_arguments(root: Path, *args: str) -> tuple[bool, list[str]]:
    typed = server("docs", "run --pass ***", args, was="0")
    saved = save(root, edit(root, servers=(typed,)))
    (stored,) = json.loads(row(root)["mcp_servers"])
    return saved.ok, stored["args"]


def test_masked_arguments_keep_their_values_when_others_change(root: Path) -> None:
    with_credentials(root)
    shown = discipline_view(root).servers["0"]

    assert ("run --pass ***", shlex.join(MASKED)) == (shown.command, shown.args)
    assert (True, [*CREDENTIALS[:4], "--port", "2"]) == saved_arguments(root, *MASKED[:5], "2")
    assert (True, ["--key", PRIVATE, "-q"]) == saved_arguments(root, "--key", "***", "-q")
    assert (True, ["--key", "new"]) == saved_arguments(root, "--key", "new")
    assert f"run --pass {PRIVATE}" == json.loads(row(root)["mcp_servers"])[0]["command"]


def test_a_masked_argument_that_was_not_there_is_refused(root: Path) -> None:
    with_credentials(root)

    assert (False, CREDENTIALS) == saved_arguments(root, *MASKED, "--secret=***")


@pytest.mark.parametrize(("sql", "stays"), [(MIXED, True), (NEITHER, False)], ids=["mixed", "none"])
def test_what_has_no_column_goes_into_the_config(
    root: Path, sql: tuple[str, ...], stays: bool
) -> None:
    take_columns(root, *sql)
    servers = WANTED if stays else (NEW[1],)
    saved = save(root, edit(root, servers=servers, disabled=("get_feature",)))
    text = (root / FILE).read_text(encoding="utf-8")

    assert saved.ok, saved
    assert ('saved "testing" in .ralph/db/ralph.db and .ralph/ralphgen.toml' == saved.message) is (
        stays
    )
    assert text.startswith(CONFIG)
    assert '\n[disciplines.testing]\ndisable = ["get_feature"]\n' in text
    assert ("[disciplines.testing.mcp_servers.more]" in text) is not stays
    session = opened(root, "task_execution", task=1)
    assert tuple(one.name for one in servers) == session.other_servers
    with client_of(session.mcp_config) as driver:
        assert "get_feature" not in driver.names()


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    ["a0", "b6", *(pytest.param(one, marks=pytest.mark.soak) for one in ("a5", "a8", "b1"))],
)
def test_every_era_takes_an_edit(tmp_path: Path, schema: str) -> None:
    root = create_project(tmp_path / "p", schema=schema, rows=ERA_ROWS)
    saved = save(root, edit(root, servers=(NEW[1],), disabled=("get_feature",)))

    assert (True, ()) == (saved.ok, saved.problems)
    assert STORED[1:] == json.loads(row(root)["mcp_servers"])
    assert '[disciplines.testing]\ndisable = ["get_feature"]\n' in (root / FILE).read_text("utf-8")
    session = opened(root, "yap", discipline="testing")
    assert ("more",) == session.other_servers
    assert "get_feature" not in session.served[0].names


def test_an_unreadable_list_that_the_edit_leaves_out_is_unchanged(root: Path) -> None:
    query(root, "UPDATE disciplines SET mcp_servers = 'no JSON' WHERE name = 'testing'")
    saved = save(root, edit(root, disabled=("sign",)))

    assert saved.ok, saved
    assert "no JSON" == row(root)["mcp_servers"]
    assert save(root, edit(root, servers=(NEW[1],))).ok
    assert STORED[1:] == json.loads(row(root)["mcp_servers"])


def test_an_override_that_nobody_can_read_is_mended_by_an_edit(root: Path) -> None:
    query(root, "UPDATE disciplines SET mcp_tool_overrides = '[7]' WHERE name = 'testing'")
    saved = save(root, edit(root, disabled=()))

    assert (True, ()) == (saved.ok, saved.problems)
    assert '{"additional_disabled":[]}' == row(root)["mcp_tool_overrides"]


def test_what_is_like_that_already_is_not_written(root: Path) -> None:
    text = json.dumps([DOCS], indent=3)
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'testing'", text)
    before = editable_state(root)
    same = server("docs", "docs-server", ("--port", "1"), {"KEY": ""}, "0")
    saved = save(root, edit(root, servers=(same,), disabled=()))

    assert (True, '"testing" already has these values') == (saved.ok, saved.message)
    assert before == editable_state(root)


def test_a_renamed_server_keeps_its_secret(root: Path) -> None:
    renamed = server("renamed", "x", env={"KEY": ""}, was="0")
    save(root, edit(root, servers=(NEW[1], renamed)))

    assert {"KEY": PRIVATE} == json.loads(row(root)["mcp_servers"])[1]["env"]


def test_a_stale_edit_is_refused_with_what_is_there_now(root: Path) -> None:
    first, second = edit(root, servers=WANTED), edit(root, disabled=("sign",))
    save(root, first)
    before = editable_state(root)
    saved = save(root, second)

    assert (False, True, "Nothing was changed") == (saved.ok, saved.stale, saved.message)
    assert "someone else changed the discipline" in saved.problems[0].text
    assert before == editable_state(root)


@pytest.mark.parametrize("sql", [(), MIXED, NEITHER], ids=["columns", "mixed", "config"])
def test_of_two_edits_at_once_one_is_saved_and_the_other_told(
    root: Path, sql: tuple[str, ...]
) -> None:
    take_columns(root, *sql)
    servers = [(server(name, "x"),) for name in ("one", "two")]
    edits = [edit(root, servers=one, disabled=("sign",)) for one in servers]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda one: save(root, one), edits))
    (winner,) = [name for name, saved in zip(("one", "two"), found, strict=True) if saved.ok]

    assert [not saved.ok for saved in found] == [saved.stale for saved in found]
    assert [winner] == [one.name for one in discipline_view(root).servers.values()]


@pytest.mark.parametrize("sql", [(), NEITHER], ids=["columns", "config"])
def test_edits_of_two_disciplines_at_once_are_both_saved(root: Path, sql: tuple[str, ...]) -> None:
    take_columns(root, *sql)
    names = [one.name for one in read_disciplines(root).rows][:4]
    edits = [edit(root, name, servers=(NEW[1],), disabled=("sign",)) for name in names]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda one: save(root, one), edits))

    assert [True] * 4 == [saved.ok for saved in found]
    for name in names:
        assert ["more"] == [one.name for one in discipline_view(root, name).servers.values()]
        assert ("sign",) == discipline_view(root, name).disabled


HOSTILE = [
    'a"]\n[launch]',
    "\u202edb",
    "a" * 3000,
    *(
        pytest.param(name, marks=pytest.mark.soak)
        for name in ("__proto__", "<script>", "😀", "a.b", "'", "{{x}}")
    ),
]


@pytest.mark.parametrize("sql", [(), NEITHER], ids=["columns", "config"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_saved_like_any_other(
    root: Path, name: str, sql: tuple[str, ...]
) -> None:
    take_columns(root, *sql)
    query(root, "UPDATE disciplines SET name = ? WHERE name = 'architecture'", name)
    env = {'"\n': "]\n[launch]\nallow = ['x']"}
    typed = server("docs", '"', ("'\n", "\u2028"), env)
    saved = save(root, edit(root, name, servers=(typed,), disabled=("sign",)))
    (found,) = discipline_view(root, name).servers.values()

    assert (True, ()) == (saved.ok, saved.problems)
    assert saved.message.isprintable()
    assert (typed.command, typed.args) == (found.command, found.args)
    assert {"0": ('"\n', "")} == found.env
    assert ("sign",) == discipline_view(root, name).disabled
    assert [] == read_settings(root).launch.allow


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["Unix", "Windows"])
def test_the_config_keeps_every_byte_around_the_edit(root: Path, mark: str, end: str) -> None:
    take_columns(root, *NEITHER)
    old = (mark + CONFIG.rstrip("\n") + "\n# the end").replace("\n", end).encode()
    (root / FILE).write_bytes(old)
    saved = save(root, edit(root, disabled=("sign",)))
    new = (root / FILE).read_bytes()

    assert (True, ()) == (saved.ok, saved.problems)
    added = f'{end}[disciplines.testing]{end}disable = ["sign"]'.encode()
    assert old + end.encode() + added == new
    assert save(root, edit(root, disabled=())).ok
    assert old in (root / FILE).read_bytes()


def test_a_project_without_a_config_gets_one(root: Path) -> None:
    take_columns(root, *NEITHER)
    (root / FILE).unlink()
    saved = save(root, edit(root, disabled=("sign",)))

    assert (True, ()) == (saved.ok, saved.problems)
    assert ("sign",) == discipline_view(root).disabled


def test_no_secret_is_said(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = edit(root, servers=WANTED, disabled=("sign",))
    saved = save(root, wanted)
    printed = capfd.readouterr()

    assert saved.lines
    everything = f"{saved!r}{wanted!r}{printed.out}{printed.err}"
    assert not any(secret in everything for secret in (PRIVATE, FRESH))


REMOTE = {"type": "http", "url": f"https://a.example/mcp?key={PRIVATE}", "headers": {"K": PRIVATE}}
SHOWN = server("far", "https://a.example/mcp?…", env={"K": ""}, was="0")


def with_remote(root: Path, home: str) -> None:
    """Let the discipline have a server that runs elsewhere, and no other."""
    if home == "column":
        value = json.dumps([{**REMOTE, "name": "far"}])
        query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'testing'", value)
        return
    take_columns(root, *NEITHER)
    text = f'\n[disciplines.testing.mcp_servers.far]\ntype = "http"\nurl = "{REMOTE["url"]}"\n'
    header = f'headers = {{K = "{PRIVATE}"}}\n'
    (root / FILE).write_text(f"{CONFIG}{text}{header}", encoding="utf-8")


@pytest.mark.parametrize("home", ["column", "config"])
def test_a_server_elsewhere_is_shown_without_secrets_and_keeps_its_address(
    root: Path, home: str
) -> None:
    with_remote(root, home)
    (shown,) = discipline_view(root).servers.values()
    assert SHOWN == replace(shown, place="")
    values = {**SHOWN.env, "1": ("New", FRESH)}
    saved = save(root, edit(root, servers=(replace(SHOWN, env=values),)))
    (entry,) = (
        one
        for name, one in json.loads(opened(root, "task_execution", task=1).mcp_config.read_bytes())[
            "mcpServers"
        ].items()
        if name == "far"
    )

    assert saved.ok
    assert {**REMOTE, "headers": {"K": PRIVATE, "New": FRESH}} == entry


def test_the_address_of_a_server_elsewhere_is_not_for_the_board(root: Path) -> None:
    with_remote(root, "column")
    before = editable_state(root)
    other = replace(SHOWN, command="https://b.example/mcp")
    saved = save(root, edit(root, servers=(other,)))

    assert not saved.ok
    assert "the board cannot change the address" in str(saved)
    assert PRIVATE not in str(saved)
    assert before == editable_state(root)


def test_the_tools_of_own_tables_can_be_taken_away(root: Path) -> None:
    query(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    config = (root / FILE).read_text(encoding="utf-8")
    (root / FILE).write_text(f'{config}[tables.risks]\nnoun = "risk"\n', encoding="utf-8")
    ran("regen", root, "--no-install")
    saved = save(root, edit(root, disabled=("ralph:list_risks", "create_risk")))

    assert (True, ()) == (saved.ok, saved.problems)
    assert ("create_risk", "ralph:list_risks") == discipline_view(root).disabled
    wrong = save(root, edit(root, disabled=("ralph:list_risk",)))
    assert "list_risks" in wrong.problems[0].hint


def test_they_can_where_the_project_cannot_be_generated_by_now(root: Path) -> None:
    """A typo in the config must not hide the tools of the server on disk from the user."""
    query(root, "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    config = (root / FILE).read_text(encoding="utf-8")
    (root / FILE).write_text(f'{config}[tables.risks]\nnoun = "risk"\n', encoding="utf-8")
    ran("regen", root, "--no-install")
    (root / ".ralph/recipes").mkdir()
    (root / ".ralph/recipes/own.toml").write_text('base = "none_such"\n', encoding="utf-8")
    saved = save(root, edit(root, disabled=("ralph:list_risks",)))

    assert saved.ok, saved
    assert ['.ralph/recipes/own.toml:1: there is no base "none_such"'] == [
        one.text for one in saved.problems
    ]
