"""The file of a client loses nothing when a server is added to it."""

import json
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.emit.clients import CLIENTS, ClientEntries
from ralphgen.emit.connected import client_file
from ralphgen.errors import ProjectError

CALL = {"command": "ralphgen", "args": ["serve", "ralph"]}
WITHOUT_RIGHTS = """
import encodings.unicode_escape, os, ralphgen.emit.connected
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
WITHOUT_SPACE = """
import ralphgen.emit.connected, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
"""
WRITE = """
import pathlib, sys
from ralphgen.emit.clients import ClientEntries, ProjectError
from ralphgen.emit.connected import client_file
root = pathlib.Path(sys.argv[1])
try:
    client_file(ClientEntries("claude", root, ["ralph"])).write(root)
except ProjectError as error:
    print(error)
"""


def create_file(client: str, root: Path, content: str | bytes) -> Path:
    """The client's file with a content."""
    path = ClientEntries(client, root, []).file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def merged(client: str, root: Path, content: str) -> str:
    """Return the content of a file once the server is in it, including line ends."""
    path = create_file(client, root, content)

    assert client_file(ClientEntries(client, root, ["ralph"])).write(root)
    assert not client_file(ClientEntries(client, root, ["ralph"])).write(root)

    return path.read_bytes().decode()


def refusal(client: str, root: Path, content: str | bytes) -> str:
    """Return the refusal of a file that must not change."""
    path = create_file(client, root, content)
    before = path.read_bytes()
    with pytest.raises(ProjectError) as caught:
        client_file(ClientEntries(client, root, ["ralph"])).write(root)

    assert before == path.read_bytes()

    return str(caught.value).replace(str(path), "FILE")


@pytest.mark.parametrize("content", ["", " \n", "\ufeff"])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_empty_file_is_filled(tmp_path: Path, client: str, content: str) -> None:
    expected = content.strip() + ClientEntries(client, tmp_path, ["ralph"]).text

    assert expected == merged(client, tmp_path, content)


def test_a_server_is_added_in_the_layout_of_the_file(tmp_path: Path) -> None:
    """Tabs are kept, and so are single-line values, numbers and escapes."""
    before = '{\n\t"n": 1.50e3,\n\n\t"mcpServers": {\n\t\t"\\u00e9é": {"url": "x"}\n\t}\n}'
    entry = (
        ',\n\t\t"ralph": {\n\t\t\t"command": "ralphgen",\n\t\t\t"args": [\n'
        '\t\t\t\t"serve",\n\t\t\t\t"ralph"\n\t\t\t]\n\t\t}'
    )

    assert before.replace('"x"}', '"x"}' + entry) == merged("gemini", tmp_path, before)


@pytest.mark.parametrize("before", ['{"mcpServers":{"x":{}}}', '{ "mcpServers": { "x": {} } }'])
def test_a_file_of_one_line_keeps_one_line(tmp_path: Path, before: str) -> None:
    entry = ', "ralph": {"command": "ralphgen", "args": ["serve", "ralph"]}'

    assert before.replace("{}", "{}" + entry) == merged("gemini", tmp_path, before)


def test_a_server_is_indented_as_its_neighbour_is(tmp_path: Path) -> None:
    before = '{\n  "mcpServers": {\n\n      "x": {}\n  }\n}'
    text = merged("gemini", tmp_path, before)

    assert text.startswith(before[:-6] + ',\n      "ralph": {\n        "command"')
    assert text.endswith("\n      }\n  }\n}")


@pytest.mark.parametrize("before", ["{}\n", "{\n}\n", '{\n  "mcpServers": {}\n}\n'])
def test_an_empty_object_opens_up(tmp_path: Path, before: str) -> None:
    assert ClientEntries("gemini", tmp_path, ["ralph"]).text == merged("gemini", tmp_path, before)


def test_a_project_of_any_name_is_written_in_its_own_letters(tmp_path: Path) -> None:
    root = tmp_path / "löja 店"

    assert str(root) in ClientEntries("desktop", root, ["ralph"]).text
    assert str(root) in merged("desktop", root, '{"mcpServers": {}}')
    assert str(root) in merged("desktop", root, '{"mcpServers": {"x": {}}}')


def test_an_entry_of_the_same_name_keeps_the_keys_that_are_not_ours(tmp_path: Path) -> None:
    own = '{"command": "/old/ralphgen", "env": {"A": "b"}, "disabled": true}'
    before = f'{{"mcpServers": {{"ralph": {own}}}}}'
    env = '"env": {"A": "b", "CLAUDE_PROJECT_DIR": "${workspaceFolder}"}'
    rest = '"disabled": true, "type": "stdio", "args": ["serve", "ralph"]'

    assert (
        '{"mcpServers": {"ralph": {"command": "ralphgen", ' + env + ", " + rest + "}}}"
        == merged("cursor", tmp_path, before)
    )


@pytest.mark.parametrize("command", ['"node"', '["ralphgen"]', "null"])
def test_a_server_of_the_same_name_that_is_another_program_remains(
    tmp_path: Path, command: str
) -> None:
    before = f'{{"mcpServers": {{"ralph": {{"command": {command}, "args": ["mine.js"]}}}}}}'

    with pytest.raises(ProjectError, match='has a server "ralph" with another command'):
        merged("claude", tmp_path, before)


def test_a_toml_file_keeps_its_comments_and_order(tmp_path: Path) -> None:
    before = (
        '# mine\nmodel = "é"  # why\n\n[mcp_servers.ralph]\ncommand = "/old/ralphgen" # old\n'
        'args = ["serve", "ralph"]\nstartup_timeout_sec = 20\n\n# about z\n[z]\na = 1 # last'
    )

    after = before.replace('"/old/ralphgen"', '"ralphgen"')
    after = after.replace('"ralph"]', '"ralph", "--structured-output"]')
    assert after == merged("codex", tmp_path, before)


def test_a_new_toml_table_follows_the_existing_ones(tmp_path: Path) -> None:
    before = '[mcp_servers.x]\nurl = "y"\n# about z\n[z]\na = 1 # last\n'
    table = ClientEntries("codex", tmp_path, ["ralph"]).text

    assert f"{before}\n{table}" == merged("codex", tmp_path, before)


def test_servers_in_braces_take_one_more(tmp_path: Path) -> None:
    before = "a = 1 # a\nmcp_servers = {x = {}} # x\n"
    entry = 'ralph = {command = "ralphgen", args = ["serve", "ralph", "--structured-output"]}'

    assert before.replace("{}}", f"{{}},{entry}}}") == merged("codex", tmp_path, before)


@pytest.mark.parametrize(
    ("client", "content"),
    [("claude", '\ufeff{\r\n  "a": "é"\r\n}\r\n'), ("codex", '\ufeffa = "é" # c\r\n')],
)
def test_windows_line_ends_and_a_byte_order_mark_remain(
    tmp_path: Path, client: str, content: str
) -> None:
    text = merged(client, tmp_path, content)

    assert content[:12] == text[:12]
    assert "\n" not in text.replace("\r\n", "")
    assert text.count("\r\n") > content.count("\r\n")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.dictionaries(st.text().filter(lambda name: name != "ralph"), JSON_VALUES, max_size=3)
SERVERS = MEMBERS.map(lambda servers: {"mcpServers": servers})
DOCUMENTS = st.builds(
    lambda before, servers, after: before | servers | after, MEMBERS, st.just({}) | SERVERS, MEMBERS
)


@given(
    document=DOCUMENTS,
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    ascii_only=st.booleans(),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_adding_a_server_moves_no_character_of_any_json(
    *, document: dict[str, Any], indent: int | str | None, ascii_only: bool, line_end: str
) -> None:
    """The file after is the file before with one piece put in."""
    before = json.dumps(document, indent=indent, ensure_ascii=ascii_only).replace("\n", line_end)
    with TemporaryDirectory() as folder:
        after = merged("gemini", Path(folder), before)

    more = len(after) - len(before)

    assert any(before == after[:at] + after[at + more :] for at in range(len(before)))
    assert document | {
        "mcpServers": document.get("mcpServers", {}) | {"ralph": CALL}
    } == json.loads(after)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{\n  // mine\n  "servers": {}\n}', "line 2 is not plain JSON, which has no comments"),
        ('{\n  "servers": {},\n}', "not plain JSON, which has no comments or trailing commas"),
        ("[]", 'expected an object around "servers"'),
        ('{"servers": []}', 'expected an object around "ralph"'),
        ('{"servers": {"ralph": "x"}}', 'expected an object around "type", "command"'),
        ('{"servers": {"ralph": {"env": "x"}}}', 'expected an object around "CLAUDE_PROJECT_DIR"'),
        ('{"servers": {}, "servers": {"x": {}}}', 'duplicate key "servers"'),
        ('{"servers": {"x": {}, "\\u0078": {}}}', 'duplicate key "x"'),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_json_that_would_lose_something_is_left_with_what_to_add_by_hand(
    tmp_path: Path, content: str, reason: str
) -> None:
    said = refusal("vscode", tmp_path, content)
    first, hint, added = said.split("\n", 2)

    assert '"FILE" cannot be added to without loss: ' in first
    assert reason in first
    assert "hint: add this by hand:" == hint
    assert ClientEntries("vscode", tmp_path, ["ralph"]).text.rstrip() == added


@pytest.mark.parametrize(
    "content", ["a =", "mcp_servers = 1", "[[mcp_servers]]", "a = nan", "a = 1\na = 2"]
)
def test_toml_that_takes_no_more_tables_is_unchanged(tmp_path: Path, content: str) -> None:
    said = refusal("codex", tmp_path, content)

    assert said.endswith("by hand:\n" + ClientEntries("codex", tmp_path, ["ralph"]).text.rstrip())


@pytest.mark.parametrize(
    ("client", "content"),
    [
        ("claude", '{"mcpServers": {"ralph": {"type": "http", "url": "x"}}}'),
        ("gemini", '{"mcpServers": {"ralph": {"httpUrl": "x"}}}'),
        ("opencode", '{"mcp": {"ralph": {"type": "remote", "url": "x"}}}'),
        ("windsurf", '{"mcpServers": {"ralph": {"serverUrl": "x"}}}'),
        ("codex", '[mcp_servers.ralph]\nurl = "x"\n'),
    ],
)
def test_a_server_at_a_url_is_not_ours_to_change(tmp_path: Path, client: str, content: str) -> None:
    said = refusal(client, tmp_path, content)

    assert said.startswith('"FILE" has a server "ralph" at a URL\nhint: give it another name there')


@pytest.mark.parametrize("command", ['["npx", "ralph"]', "[]", '"ralphgen"', "[7]"])
def test_a_command_in_one_list_is_ours_by_its_beginning(tmp_path: Path, command: str) -> None:
    old = f'{{"mcp": {{"ralph": {{"type": "local", "command": {command}}}}}}}'
    if command in {"[]", '"ralphgen"'}:
        assert json.loads(merged("opencode", tmp_path, old)) == json.loads(
            ClientEntries("opencode", tmp_path, ["ralph"]).text
        )
    else:
        assert "with another command" in refusal("opencode", tmp_path, old)


def test_the_server_of_another_project_remains_until_that_project_is_gone(tmp_path: Path) -> None:
    """Claude Desktop has one file for all projects, and each has its own "ralph"."""
    (tmp_path / "one/.ralph").mkdir(parents=True)

    assert client_file(ClientEntries("desktop", tmp_path / "one", ["ralph"])).write(
        tmp_path / "one"
    )

    content = ClientEntries("desktop", tmp_path, []).file.read_bytes()

    assert f'has a server "ralph" of "{tmp_path / "one"}"' in refusal(
        "desktop", tmp_path / "two", content
    )

    (tmp_path / "one").rename(tmp_path / "two")

    assert client_file(ClientEntries("desktop", tmp_path / "two", ["ralph"])).write(
        tmp_path / "two"
    )


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    assert ".mcp.json:1: is not UTF-8\nhint: save it as UTF-8" == refusal(
        "claude", tmp_path, b'"\xe9"'
    )


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").mkdir()
    with pytest.raises(
        ProjectError, match="is a directory, expected a file\nhint: move it elsewhere"
    ):
        client_file(ClientEntries("claude", tmp_path, ["ralph"])).write(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".vscode").touch()
    with pytest.raises(ProjectError, match="not a directory"):
        client_file(ClientEntries("vscode", tmp_path, ["ralph"])).write(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "mode", "reason"),
    [(WITHOUT_RIGHTS, 0o555, "permission denied"), (WITHOUT_SPACE, 0o755, "file too large")],
)
def test_a_write_that_fails_leaves_the_folder_as_it_was(limit: str, mode: int, reason: str) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(mode)
        program = [sys.executable, "-c", limit + WRITE, folder]
        said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        left = list(Path(folder).iterdir())
        Path(folder).chmod(0o755)

    assert f'"{folder}/.mcp.json" cannot be written: {reason}\nhint: check the permissions' in said
    assert [] == left


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_link_remains_a_link_and_its_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Such a file may hold keys that only its owner may read, and be kept in another folder."""
    kept = tmp_path / "dotfiles/mcp.json"
    kept.parent.mkdir()
    kept.write_text("{}", encoding="utf-8")
    kept.chmod(mode)
    (tmp_path / ".mcp.json").symlink_to(kept)

    assert client_file(ClientEntries("claude", tmp_path, ["ralph"])).write(tmp_path)
    assert (tmp_path / ".mcp.json").is_symlink()
    assert "ralph" in json.loads(kept.read_bytes())["mcpServers"]
    assert mode == stat.S_IMODE(kept.stat().st_mode)
    assert [kept] == list(kept.parent.iterdir())


def test_a_complete_file_is_not_rewritten(tmp_path: Path) -> None:
    client_file(ClientEntries("claude", tmp_path, ["ralph"])).write(tmp_path)
    before = ClientEntries("claude", tmp_path, []).file.stat()

    assert not client_file(ClientEntries("claude", tmp_path, ["ralph"])).write(tmp_path)
    assert before == ClientEntries("claude", tmp_path, []).file.stat()


def test_settings_of_the_user_keep_variables_of_an_entry_and_other_projects(tmp_path: Path) -> None:
    codex, claude = (
        ClientEntries(client, tmp_path, ["ralph"], personal=True) for client in ("codex", "claude")
    )
    table = '[mcp_servers.ralph]\ncommand = "ralphgen"\nenv = {TOKEN = "x"}\n'
    state = '{"userID": 1.50, "projects": {"/x": {"mcpServers": {"ralph": {}}}}}'

    assert {"TOKEN": "x", "CLAUDE_PROJECT_DIR": str(tmp_path)} == (
        tomllib.loads(codex.merge(table))["mcp_servers"]["ralph"]["env"]
    )
    assert state[:-2] == claude.merge(state)[: len(state) - 2]
    assert {"/x", str(tmp_path)} == json.loads(claude.merge(state))["projects"].keys()
