"""Each client's entry for a project's servers, in its documented form."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ralphgen.emit.clients import CLIENTS, ClientEntries, client_form
from ralphgen.emit.connected import client_file
from ralphgen.errors import ProjectError, UsageError

WORKSPACE = {"CLAUDE_PROJECT_DIR": "${workspaceFolder}"}
CALL = {"command": "ralphgen", "args": ["serve", "ralph"]}
STRUCTURED = [*CALL["args"], "--structured-output"]
STDIO = {"type": "stdio", **CALL}


def bearer(variable: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {variable}"}}


@pytest.mark.parametrize(
    ("client", "place", "expected"),
    [
        ("claude", ".mcp.json", {"mcpServers": {"ralph": STDIO}}),
        ("cursor", ".cursor/mcp.json", {"mcpServers": {"ralph": {**STDIO, "env": WORKSPACE}}}),
        ("vscode", ".vscode/mcp.json", {"servers": {"ralph": {**STDIO, "env": WORKSPACE}}}),
        ("codex", ".codex/config.toml", {"mcp_servers": {"ralph": {**CALL, "args": STRUCTURED}}}),
        ("gemini", ".gemini/settings.json", {"mcpServers": {"ralph": CALL}}),
        (
            "opencode",
            "opencode.json",
            {"mcp": {"ralph": {"type": "local", "command": ["ralphgen", *STRUCTURED]}}},
        ),
        ("zed", ".zed/settings.json", {"context_servers": {"ralph": CALL}}),
    ],
)
def test_each_client_gets_the_form_that_it_documents(
    tmp_path: Path, client: str, place: str, expected: dict[str, Any]
) -> None:
    text = ClientEntries(client, tmp_path, ["ralph"]).text

    assert tmp_path / place == ClientEntries(client, tmp_path, []).file
    assert expected == (tomllib if client == "codex" else json).loads(text)
    assert str(tmp_path) not in text  # the file can be committed


@pytest.mark.parametrize("is_on_path", [True, False], ids=("on PATH", "not on PATH"))
@pytest.mark.parametrize("client", CLIENTS)
def test_settings_of_the_user_name_the_project_and_the_full_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str, is_on_path: bool
) -> None:
    """Servers start outside of the project there, and without the PATH of a shell."""
    command = tmp_path / "bin/ralphgen"
    command.parent.mkdir()
    command.touch(0o755)
    if is_on_path:
        monkeypatch.setenv("PATH", str(command.parent))
    else:
        monkeypatch.setattr("sys.executable", str(command.with_name("python")))
    root = tmp_path / "shop"
    entries = ClientEntries(client, root, ["ralph"], personal=True)
    found = (tomllib if client == "codex" else json).loads(entries.text)
    for key in entries.keys:
        found = found[key]
    call = found["ralph"].pop("command")
    words = [call, *found["ralph"].pop("args", ())] if isinstance(call, str) else call

    arguments = STRUCTURED if client in {"codex", "opencode"} else CALL["args"]
    assert [str(command), *arguments] == words
    assert {"env": {"CLAUDE_PROJECT_DIR": str(root)}} == {
        name: value for name, value in found["ralph"].items() if name != "type"
    }
    assert tmp_path / "home" in entries.file.parents


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude", {"type": "http", "url": "U", **bearer("${RALPH_TOKEN}")}),
        ("cursor", {"type": "http", "url": "U", **bearer("${env:RALPH_TOKEN}")}),
        ("vscode", {"type": "http", "url": "U", **bearer("${env:RALPH_TOKEN}")}),
        ("codex", {"url": "U", "bearer_token_env_var": "RALPH_TOKEN"}),
        ("gemini", {"httpUrl": "U", **bearer("${RALPH_TOKEN}")}),
        ("opencode", {"type": "remote", "url": "U", **bearer("{env:RALPH_TOKEN}")}),
        ("windsurf", {"serverUrl": "U", **bearer("${env:RALPH_TOKEN}")}),
    ],
)
def test_a_server_at_an_address_is_named_with_the_variable_that_has_the_token(
    tmp_path: Path, client: str, expected: dict[str, Any]
) -> None:
    text = ClientEntries(client, tmp_path, ["ralph"], {"ralph": "U"}).text
    (servers,) = ((tomllib if client == "codex" else json).loads(text)).values()

    assert {"ralph": expected} == servers
    assert client_file(ClientEntries(client, tmp_path, ["ralph"], {"ralph": "U"})).write(tmp_path)
    with pytest.raises(ProjectError, match='has a server "ralph" at a'):
        client_file(ClientEntries(client, tmp_path, ["ralph"])).write(tmp_path)


@pytest.mark.parametrize("client", ["zed", "desktop"])
def test_a_file_without_addresses_names_the_files_with_them(tmp_path: Path, client: str) -> None:
    with pytest.raises(UsageError, match="claude, cursor, vscode, codex, gemini, opencode, winds"):
        client_file(ClientEntries(client, tmp_path, ["ralph"], {"ralph": "U"}))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_file_equals_the_printed_text_with_one_server_per_kit(
    tmp_path: Path, client: str
) -> None:
    kits = ["ralph", "dela", "rye"]
    expected = ClientEntries(client, tmp_path, kits).text

    assert client_file(ClientEntries(client, tmp_path, kits)).write(tmp_path)
    assert expected == ClientEntries(client, tmp_path, []).file.read_text(encoding="utf-8")
    assert all(f'"{kit}"' in expected for kit in kits)


def test_an_unknown_client_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r'unknown client "Curser"\nhint: did you mean "cursor"'):
        client_form("Curser")
    with pytest.raises(
        UsageError, match=r'the clients include .*; "ralphgen connect --help" lists'
    ):
        client_form("emacs")


@pytest.mark.parametrize("option", ["", ', "--structured-output"'])
def test_another_program_that_passes_on_our_arguments_serves_the_kit(
    tmp_path: Path, option: str
) -> None:
    entries = ClientEntries("codex", tmp_path, ["ralph"])
    words = f'"run", "ralphgen", "serve", "ralph"{option}'
    entries.file.parent.mkdir()
    entries.file.write_text(
        f'[mcp_servers.ralph]\ncommand = "uv"\nargs = [{words}]\n', encoding="utf-8"
    )

    assert [] == entries.foreign()
