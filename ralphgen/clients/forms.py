"""The file and the form in which each client is given the project's servers."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.clients.merging import merged, reason
from ralphgen.errors import ProjectError, UsageError
from ralphgen.output.files import put
from ralphgen.project.files import MARK, whole_text
from ralphgen.project.toml_edit import edited
from ralphgen.suggestion import suggestion

COMMAND = "ralphgen"  # found on the client's PATH: a file that names no machine can be committed
BEARER_VARIABLE = "RALPH_TOKEN"  # has the token of the session that a client works in
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"  # where `serve` looks when its own folder is no project
TYPES = ("stdio", "http")
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ClientForm:
    """One client: where its file lies, the key that holds its servers, and what an entry needs.

    `types` are its words for a server that it starts and for one at an address, where an entry says
    `"type"`. `one_command` puts the arguments into the list that `command` is then. `project` is
    the client's own name for the project's folder, for a client that may start a server elsewhere.
    `remote` is its key for the address of a server that is reached over HTTP, empty where its file
    cannot name one, and `variable` how it takes a variable of the environment into a header;
    without it, it is told the variable's name. `personal` says that the file is the user's: its
    entry names the project, and the command in full, since no shell has set the PATH. `note` is
    what a person has to do besides.
    """

    file: Callable[[Path], Path]
    key: str = "mcpServers"
    types: tuple[str, str] = ("", "")
    one_command: bool = False
    project: str = ""
    remote: str = "url"
    variable: str = ""
    personal: bool = False
    toml: bool = False
    note: str = ""


def _desktop_file(_root: Path) -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "Claude" / "claude_desktop_config.json"


CLIENTS: Mapping[str, ClientForm] = {
    "claude": ClientForm(
        lambda root: root / ".mcp.json", types=TYPES, variable=f"${{{BEARER_VARIABLE}}}"
    ),
    "cursor": ClientForm(
        lambda root: root / ".cursor" / "mcp.json",
        types=TYPES,
        project="${workspaceFolder}",
        variable=f"${{env:{BEARER_VARIABLE}}}",
    ),
    "vscode": ClientForm(
        lambda root: root / ".vscode" / "mcp.json",
        key="servers",
        types=TYPES,
        project="${workspaceFolder}",
        variable=f"${{env:{BEARER_VARIABLE}}}",
    ),
    "codex": ClientForm(
        lambda root: root / ".codex" / "config.toml",
        key="mcp_servers",
        toml=True,
        note="Codex reads it in folders that it trusts",
    ),
    "gemini": ClientForm(
        lambda root: root / ".gemini" / "settings.json",
        remote="httpUrl",
        variable=f"${{{BEARER_VARIABLE}}}",
        note="Gemini CLI reads it in folders that it trusts",
    ),
    "opencode": ClientForm(
        lambda root: root / "opencode.json",
        key="mcp",
        types=("local", "remote"),
        one_command=True,
        variable=f"{{env:{BEARER_VARIABLE}}}",
    ),
    "zed": ClientForm(
        lambda root: root / ".zed" / "settings.json",
        key="context_servers",
        remote="",
        note="Zed starts it in folders that it trusts",
    ),
    "windsurf": ClientForm(
        lambda _root: Path.home() / ".codeium" / "windsurf" / "mcp_config.json",
        personal=True,
        remote="serverUrl",
        variable=f"${{env:{BEARER_VARIABLE}}}",
    ),
    "desktop": ClientForm(_desktop_file, personal=True, remote=""),
}
ADDRESSES = tuple({form.remote: None for form in CLIENTS.values() if form.remote})


def client_file(client: str, root: Path) -> Path:
    """Return the file in which a client looks for servers; raises `UsageError` if unknown."""
    return _form(client).file(root)


def client_text(
    client: str, root: Path, kits: Sequence[str], remote: Mapping[str, str] = NOTHING
) -> str:
    """Return the whole text of a client's file that holds nothing but one server for each kit.

    `remote` are the addresses of the kits that are reached over HTTP. Raises `UsageError` for an
    unknown client, and for one whose file can name no such server.
    """
    form = _form(client)
    entries = _entries(form, client, root, kits, remote)
    if form.toml:
        return edited("", [((form.key, kit), entries[kit]) for kit in kits])
    return json.dumps({form.key: entries}, indent=2, ensure_ascii=False) + "\n"


def write_client(
    client: str, root: Path, kits: Sequence[str], remote: Mapping[str, str] = NOTHING
) -> bool:
    """Put one server for each kit into the client's file; whether that changed anything.

    What is there stays to the letter, but for `command`, `args`, `type` and the project's
    variable in entries of the same names, or the address and the header of those in `remote`.
    Raises `UsageError` as `client_text` does, and `ProjectError` where the file cannot be read,
    written or changed without losing something.
    """
    path = client_file(client, root)
    old = whole_text(path, str(path), missing="")
    text = old.removeprefix(MARK)
    alone = client_text(client, root, kits, remote)
    mark = old.removesuffix(text)
    new = mark + (_merged_text(client, root, kits, remote, text) if text.strip() else alone)
    if new == old:
        return False
    put(path, new)
    return True


def _form(client: str) -> ClientForm:
    if client in CLIENTS:
        return CLIENTS[client]
    raise UsageError(f'there is no client "{client}"', suggestion(client, CLIENTS, "the clients"))


def _entries(
    form: ClientForm, client: str, root: Path, kits: Sequence[str], remote: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    if remote and not form.remote:
        with_url = ", ".join(name for name in CLIENTS if CLIENTS[name].remote)
        text = f'the file of the client "{client}" names no server that is reached over HTTP'
        raise UsageError(text, f"those of {with_url} do")
    return {
        kit: _remote_entry(form, remote[kit]) if kit in remote else _entry(form, root, kit)
        for kit in kits
    }


def _remote_entry(form: ClientForm, url: str) -> dict[str, Any]:
    """Return what a client is told of a server by its address; the token is in its environment."""
    entry = {"type": form.types[1]} if form.types[1] else {}
    entry[form.remote] = url
    if form.variable:
        return entry | {"headers": {"Authorization": f"Bearer {form.variable}"}}
    return entry | {"bearer_token_env_var": BEARER_VARIABLE}


def _entry(form: ClientForm, root: Path, kit: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": form.types[0]} if form.types[0] else {}
    found = shutil.which(COMMAND) if form.personal else None
    command, arguments = str(Path(found).absolute()) if found else COMMAND, ["serve", kit]
    if form.one_command:
        entry["command"] = [command, *arguments]
    else:
        entry |= {"command": command, "args": arguments}
    project = str(root.resolve()) if form.personal else form.project
    return entry | ({"env": {PROJECT_VARIABLE: project}} if project else {})


def _merged_text(
    client: str, root: Path, kits: Sequence[str], remote: Mapping[str, str], text: str
) -> str:
    """Return the text with the entries in it; raises `ProjectError` with what to add by hand."""
    form = _form(client)
    path = form.file(root)
    entries = _entries(form, client, root, kits, remote)
    try:
        return merged(
            text,
            form.key,
            entries,
            toml=form.toml,
            refuse=lambda old: _refuse_others(form, path, old, entries),
        )
    except (ValueError, RecursionError) as error:
        raise ProjectError(
            f'"{path}" cannot be added to without loss: {reason(error)}',
            f"add this by hand:\n{client_text(client, root, kits, remote).rstrip()}",
        ) from error


def _refuse_others(
    form: ClientForm, path: Path, old: Mapping[str, Any], entries: Mapping[str, Any]
) -> None:
    """Raise `ProjectError` where a name is taken by a server that is not this project's."""
    for kit in sorted(old.keys() & entries.keys()):
        place = next((old[kit][key] for key in ADDRESSES if key in old[kit]), None)
        if form.remote in entries[kit]:
            taken = "that is started here" if "command" in old[kit] else ""
            taken = "at another URL" if place not in (None, entries[kit][form.remote]) else taken
        else:
            taken = "at a URL" if place is not None else ""
        program = old[kit].get("command", COMMAND)
        if form.one_command and isinstance(program, list):
            program = next(iter(program), COMMAND)
        if not isinstance(program, str) or Path(program).stem != COMMAND:
            taken = "with another command"
        if form.personal:
            project = str(old[kit].get("env", {}).get(PROJECT_VARIABLE, ""))
            other = project != entries[kit].get("env", {}).get(PROJECT_VARIABLE, project)
            taken = f'of "{project}"' if other and Path(project, ".ralph").is_dir() else taken
        if taken:
            raise ProjectError(
                f'"{path}" has a server "{kit}" {taken}',
                "give it another name there or remove it, then run the command again",
            )
