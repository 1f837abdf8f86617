"""The configuration file of each MCP client, and its entries for the project's servers."""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError, UsageError, suggestion
from ralphgen.files import MARK
from ralphgen.project.lookup import STRUCTURED
from ralphgen.runtime.files.main_tree import home_top, repository_of

COMMAND = "ralphgen"  # found on the client's PATH: a file that names no machine can be committed
BEARER_VARIABLE = "RALPH_TOKEN"  # has the token of the session that a client works in
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"  # `serve` looks there if its own folder is not a project
TYPES = ("stdio", "http")
# Kinds of files for clients besides their configuration.
SKILLS, SUBAGENTS, PLUGIN, AGENTS_MD = "skills", "subagents", "plugin", "agents-md"
GATE = "gate"
# Files of clients that can have a Stop hook; both have the same form.
GATE_FILES = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}
GATE_COMMAND = f"{COMMAND} gate --hook"
GATE_HOOK = {"hooks": [{"type": "command", "command": GATE_COMMAND, "timeout": 600}]}


@dataclass(frozen=True, slots=True)
class ClientForm:
    """One client: its file, the key that holds its servers, and the keys of an entry.

    `types` are the values of `"type"` for a local and a remote server, for a client that needs it.
    `one_command` puts the arguments into the list `command`. `project` is the client's variable for
    the project directory, for a client that starts servers in another one. `remote` is its key for
    a URL, empty if its file cannot have one. `variable` is a reference to an environment variable
    in a header; a client without it gets the name of the variable. A `personal` file is in the
    user's home: its entry has the project, and the path of the command, since no shell has set
    PATH. `by_project` reports that the file has separate servers for each project. `comments`
    reports that its file may have comments. `files` are the other kinds of files that `connect`
    writes for the client. `structured` reports that the client uses structured content. `note` is
    one more thing that the user must know.
    """

    file: Callable[[Path], Path]
    key: str = "mcpServers"
    types: tuple[str, str] = ("", "")
    one_command: bool = False
    project: str = ""
    remote: str = "url"
    variable: str = ""
    personal: bool = False
    by_project: bool = False
    toml: bool = False
    comments: bool = False
    files: tuple[str, ...] = (AGENTS_MD,)
    structured: bool = False
    note: str = ""


def _settings_folder() -> Path:
    """Return the directory where desktop programs keep the user's settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return _configuration_folder()


def _configuration_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


CLIENTS: Mapping[str, ClientForm] = {
    "claude": ClientForm(
        lambda root: root / ".mcp.json",
        types=TYPES,
        variable=f"${{{BEARER_VARIABLE}}}",
        files=(SKILLS, SUBAGENTS, PLUGIN, GATE, AGENTS_MD),
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
        comments=True,
        project="${workspaceFolder}",
        variable=f"${{env:{BEARER_VARIABLE}}}",
    ),
    "codex": ClientForm(
        lambda root: root / ".codex" / "config.toml",
        key="mcp_servers",
        toml=True,
        files=(GATE, AGENTS_MD),
        structured=True,
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
        comments=True,
        variable=f"{{env:{BEARER_VARIABLE}}}",
        structured=True,
    ),
    "zed": ClientForm(
        lambda root: root / ".zed" / "settings.json",
        key="context_servers",
        comments=True,
        remote="",
        note="Zed starts it in folders that it trusts",
    ),
    "windsurf": ClientForm(
        lambda _root: Path.home() / ".codeium" / "windsurf" / "mcp_config.json",
        personal=True,
        remote="serverUrl",
        variable=f"${{env:{BEARER_VARIABLE}}}",
    ),
    "desktop": ClientForm(
        lambda _root: _settings_folder() / "Claude" / "claude_desktop_config.json",
        personal=True,
        remote="",
        files=(),
    ),
}
_USER_FILES: Mapping[str, Callable[[Path], Path]] = {
    "claude": lambda _: Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json",
    "cursor": lambda _: Path.home() / ".cursor" / "mcp.json",
    "vscode": lambda _: _settings_folder() / "Code" / "User" / "mcp.json",
    "codex": lambda _: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
    "gemini": lambda _: Path.home() / ".gemini" / "settings.json",
    "opencode": lambda _: _configuration_folder() / "opencode" / "opencode.json",
    "zed": lambda _: _configuration_folder() / "zed" / "settings.json",
}
PERSONAL: Mapping[str, ClientForm] = {
    client: replace(
        form,
        file=_USER_FILES.get(client, form.file),
        personal=True,
        by_project=client == "claude",
        note="",
    )
    for client, form in CLIENTS.items()
}
"""The form of the user's settings of each client."""
ADDRESSES = tuple({form.remote: None for form in CLIENTS.values() if form.remote})


def client_form(client: str, *, personal: bool = False) -> ClientForm:
    """Return the form of a client, or of the user's personal settings for it.

    Raises `UsageError` for an unknown client.
    """
    if client in CLIENTS:
        return (PERSONAL if personal else CLIENTS)[client]
    raise UsageError(
        f'unknown client "{client}"',
        suggestion(client, CLIENTS, "the clients", "ralphgen connect --help"),
    )


@dataclass(frozen=True, slots=True)
class ClientEntries:
    """The entries of one client for the servers of a project, one for each kit.

    `remote` has the URLs of the kits that are served over HTTP. `personal` selects the user's own
    settings of the client. `command` is the path of ralphgen in such a file; without it, the one on
    PATH, or else next to this interpreter. Raises `UsageError` for an unknown client, and for a URL
    that the client's file cannot have.
    """

    client: str
    root: Path
    kits: Sequence[str]
    remote: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    personal: bool = False

    @property
    def form(self) -> ClientForm:
        """The form of the client."""
        return client_form(self.client, personal=self.personal)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys from the top of the file to the servers."""
        if not self.form.by_project:
            return (self.form.key,)
        tree = repository_of(str(self.root))  # Claude Code takes its main worktree for the project
        return ("projects", home_top(tree) if tree else str(self.root.resolve()), self.form.key)

    @property
    def file(self) -> Path:
        """The configuration file of the client."""
        return self.form.file(self.root)

    @property
    def text(self) -> str:
        """The text of a file with these entries alone."""
        form, entries = self.form, self._entries()
        if form.toml:
            from ralphgen.project.toml_edit import edited

            return edited("", [((form.key, kit), entries[kit]) for kit in self.kits])

        return json.dumps(nested(self.keys, entries), indent=2, ensure_ascii=False) + "\n"

    def servers(self) -> Mapping[str, Any]:
        """Return the servers in the client's file; raises ValueError if it cannot be parsed."""
        try:
            text = self.file.read_bytes().decode("utf-8-sig", errors="replace")
            values = tomllib.loads(text) if self.form.toml else json.loads(text)
            for key in self.keys:
                values = values[key]
        except (OSError, RuntimeError, LookupError, TypeError):
            return {}  # such as for a user without a home
        return values if isinstance(values, dict) else {}

    def foreign(self) -> list[str]:
        """Return the kits whose names the client's file has for servers that are not theirs.

        Another program that passes on `serve KIT` counts as theirs.
        """
        try:
            servers = self.servers()
        except (ValueError, RecursionError):
            return []
        return [kit for kit in self.kits if kit in servers and not self._serves(kit, servers[kit])]

    def _serves(self, kit: str, entry: Any) -> bool:
        if _is_own(self.form, self.root, kit, entry):
            return True
        arguments = _call(self.form, entry)[1] if isinstance(entry, dict) else None
        return isinstance(arguments, list) and arguments[-2:] == ["serve", kit]

    def merge(self, old: str) -> str:
        """Return the text of the client's file with these entries.

        Only `command`, `args`, `type`, the variable of the project, URL and header change in
        entries that exist. Raises `ProjectError`, with the text to add by hand, if something else
        would be lost, and if another server has the name of an entry.
        """
        text = old.removeprefix(MARK)
        mark = old.removesuffix(text)
        if not text.strip():
            return mark + self.text
        form, entries = self.form, self._entries()
        try:
            return mark + merged(
                text,
                self.keys,
                entries,
                toml=form.toml,
                refuse=lambda there: _refuse_others(form, self.file, there, entries),
            )
        except (ValueError, RecursionError) as error:
            raise ProjectError(
                f'"{self.file}" cannot be added to without loss: {reason(error)}',
                f"add this by hand:\n{self.text.rstrip()}",
            ) from error

    def _entries(self) -> dict[str, dict[str, Any]]:
        form = self.form
        if self.remote and not form.remote:
            with_url = ", ".join(name for name in CLIENTS if CLIENTS[name].remote)
            text = f'the settings file of "{self.client}" does not support HTTP servers'
            raise UsageError(text, f"clients that do: {with_url}")
        return {
            kit: _remote_entry(form, self.remote[kit]) if kit in self.remote else self._local(kit)
            for kit in self.kits
        }

    def _local(self, kit: str) -> dict[str, Any]:
        form = self.form
        entry: dict[str, Any] = {"type": form.types[0]} if form.types[0] else {}
        path = (self.command or _program()) if form.personal else ""
        command = str(Path(path).absolute()) if path else COMMAND
        arguments = ["serve", kit, *([STRUCTURED] if form.structured else [])]
        if form.one_command:
            entry["command"] = [command, *arguments]
        else:
            entry |= {"command": command, "args": arguments}
        project = str(self.root.resolve()) if form.personal else form.project
        return entry | ({"env": {PROJECT_VARIABLE: project}} if project else {})


def _program() -> str | None:
    """Return the path of ralphgen: the one on PATH, or else next to this interpreter."""
    return shutil.which(COMMAND) or shutil.which(COMMAND, path=str(Path(sys.executable).parent))


def file_entries(
    client: str, root: Path, kits: Sequence[str], *, personal: bool = False
) -> ClientEntries | None:
    """Return the entries that the client's file has for kits of the project, or None.

    The text of a file that cannot be parsed counts, unless the file may have comments.
    """
    entries = ClientEntries(client, root, kits, personal=personal)
    form = entries.form
    try:
        servers = entries.servers()
    except (ValueError, RecursionError):
        text = entries.file.read_text(encoding="utf-8", errors="replace")
        is_ours = f'"{COMMAND}"' in text and not (form.comments or form.personal)
        return entries if is_ours else None
    own = {kit: servers[kit] for kit in kits if _is_own(form, root, kit, servers.get(kit))}
    urls = {kit: entry[form.remote] for kit, entry in own.items() if form.remote in entry}
    paths = [one["command"] for one in own.values() if isinstance(one.get("command"), str)]
    kept = next((path for path in paths if os.access(path, os.X_OK)), "") if form.personal else ""
    return replace(entries, kits=[*own], remote=urls, command=kept) if own else None


def _is_own(form: ClientForm, root: Path, kit: str, entry: Any) -> bool:
    """Return whether an entry, or None, starts or reaches the server of a kit of the project."""
    if not isinstance(entry, dict):
        return False
    if form.personal and entry.get("env", {}).get(PROJECT_VARIABLE) != str(root.resolve()):
        return False
    url = entry.get(form.remote)
    if url is not None:
        return isinstance(url, str) and url.endswith(f"/{kit}")
    return _starts_ours(form, kit, entry)


def _starts_ours(form: ClientForm, kit: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry starts ralphgen, or another program with the arguments of ours."""
    program, arguments = _call(form, entry)
    is_command = isinstance(program, str) and Path(program).stem == COMMAND
    return is_command or arguments == ["serve", kit]


def _call(form: ClientForm, entry: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the program and the arguments of an entry, without the option of the client."""
    program, arguments = entry.get("command", COMMAND), entry.get("args")
    if form.one_command and isinstance(program, list):
        program, arguments = next(iter(program), COMMAND), program[1:]
    if isinstance(arguments, list):
        arguments = [word for word in arguments if word != STRUCTURED]
    return program, arguments


def _remote_entry(form: ClientForm, url: str) -> dict[str, Any]:
    """Return the entry of a server at a URL; the client's environment has the token."""
    entry = {"type": form.types[1]} if form.types[1] else {}
    entry[form.remote] = url
    if form.variable:
        return entry | {"headers": {"Authorization": f"Bearer {form.variable}"}}
    return entry | {"bearer_token_env_var": BEARER_VARIABLE}


def _refuse_others(
    form: ClientForm, path: Path, old: Mapping[str, Any], entries: Mapping[str, Any]
) -> None:
    """Raise `ProjectError` if a server that is not this project's has the name of an entry."""
    for kit in sorted(old.keys() & entries.keys()):
        place = next((old[kit][key] for key in ADDRESSES if key in old[kit]), None)
        if form.remote in entries[kit]:
            taken = "that is started here" if "command" in old[kit] else ""
            taken = "at another URL" if place not in (None, entries[kit][form.remote]) else taken
        else:
            taken = "at a URL" if place is not None else ""
        if not _starts_ours(form, kit, old[kit]):
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


_JSON = json.JSONDecoder()
_BETWEEN = re.compile(r"[ \t\r\n]*[:,]?[ \t\r\n]*")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")


def merged(
    text: str,
    keys: Sequence[str],
    entries: Mapping[str, Any],
    *,
    toml: bool,
    refuse: Callable[[Mapping[str, Any]], None],
) -> str:
    """Return the text with the entries below nested keys; everything else is unchanged.

    `refuse` takes the current entries. Raises ValueError or RecursionError, which `reason` puts
    into words, if something would be lost.
    """
    parsed: Callable[[str], Any] = tomllib.loads if toml else json.loads
    there = parsed(text)
    expected = _overlaid(there, nested(keys, entries))
    for key in keys:
        there = there.get(key, {})
    refuse(there)
    if toml:
        return _merged_toml(text, keys[-1], entries)
    new = _spliced(text, 0, nested(keys, entries))
    if 0 < text.count("\n") == text.count("\r\n"):
        new = re.sub(r"(?<!\r)\n", "\r\n", new)
    if json.loads(new) != expected:
        raise ValueError("other values would change")
    return new


def has_gate(text: str) -> bool:
    """Return whether settings of a client have the Stop hook of the gate, with any options."""
    try:
        groups = json.loads(text)["hooks"]["Stop"]
        commands = [str(one.get("command")) for group in groups for one in group["hooks"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return any(GATE_COMMAND in command for command in commands)


def with_gate(path: str, old: str) -> str:
    """Return settings of a client with the Stop hook of the gate; other hooks are unchanged.

    Raises `ProjectError`, with the text to add by hand, if something else would be lost.
    """
    text = old.removeprefix(MARK)
    mark = old.removesuffix(text)
    if has_gate(text):
        return old
    alone = json.dumps(nested(("hooks", "Stop"), [GATE_HOOK]), indent=2) + "\n"
    if not text.strip():
        return mark + alone
    try:
        hooks = {**json.loads(text)}.get("hooks")
        groups = hooks.get("Stop", []) if isinstance(hooks, dict) else []
        entries = {"Stop": [*groups, GATE_HOOK]}
        return mark + merged(text, ("hooks",), entries, toml=False, refuse=_refuse_no_list)
    except (ValueError, TypeError, RecursionError) as error:
        raise ProjectError(
            f'"{path}" cannot be added to without loss: {reason(error)}',
            f"add this by hand:\n{alone.rstrip()}",
        ) from error


def _refuse_no_list(hooks: Mapping[str, Any]) -> None:
    if not isinstance(hooks.get("Stop", []), list):
        raise TypeError('expected a list in "Stop"')


def nested(keys: Sequence[str], value: Any) -> Any:
    """Return objects inside each other, with one key each and the value innermost."""
    for key in reversed(keys):
        value = {key: value}
    return value


def _overlaid(old: Any, wanted: Any) -> Any:
    """Return the values of the new file: `wanted` over the old ones."""
    if not isinstance(wanted, dict):
        return wanted
    if isinstance(old, dict):
        return old | {key: _overlaid(old.get(key, {}), value) for key, value in wanted.items()}
    raise ValueError(f"expected an object around {', '.join(map(json.dumps, wanted))}")


def reason(error: Exception) -> str:
    """Return in words why an entry cannot be added to a text."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is not plain JSON, which has no comments or trailing commas"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _merged_toml(text: str, key: str, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Return TOML with changed values in existing tables and new tables at its end."""
    from ralphgen.project.toml_edit import edited

    there = tomllib.loads(text).get(key, {})
    changes: list[tuple[tuple[str, ...], Any]] = []
    for kit, entry in entries.items():
        if kit not in there:
            changes.append(((key, kit), entry))
            continue
        for name, value in entry.items():
            inner = there[kit].get(name)
            if isinstance(value, dict) and isinstance(inner, dict):
                changes += [((key, kit, name, each), value[each]) for each in value]
            elif inner != value:
                changes.append(((key, kit, name), value))
    return edited(text, changes)


def _spliced(text: str, at: int, wanted: Mapping[str, Any]) -> str:
    """Return JSON with `wanted` in the object at `at`; every other character is unchanged."""
    at = _after(text, at)
    for key, value in wanted.items():
        members = _members(text, at)
        start, end = members.get(key, (at, at))
        if key not in members:
            text = _inserted(text, at, members, key, value)
        elif isinstance(value, dict):
            text = _spliced(text, start, value)
        elif json.loads(text[start:end]) != value:
            text = text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]
    return text


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Return the range of each value of an object; raises ValueError for a duplicate key."""
    members: dict[str, tuple[int, int]] = {}
    at = _after(text, at + 1)
    while text[at] != "}":
        key, end = _JSON.raw_decode(text, at)
        start = _after(text, end)
        _, end = _JSON.raw_decode(text, start)
        if key in members:
            raise ValueError(f'duplicate key "{key}"')
        members[key] = (start, end)
        at = _after(text, end)
    return members


def _after(text: str, at: int) -> int:
    """Return the position of the next key or value, or of the end of the object."""
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _inserted(
    text: str, at: int, members: Mapping[str, tuple[int, int]], key: str, value: Any
) -> str:
    """Return JSON with a new last member of an object, in the layout of its neighbours."""
    first = _after(text, at + 1)
    gap = text[at + 1 : first]
    member = json.dumps(key, ensure_ascii=False) + ": "
    if members and "\n" not in gap:
        end = max(end for _, end in members.values())
        compact = json.dumps(value, ensure_ascii=False)
        return f"{text[:end]}, {member}{compact}{text[end:]}"
    found = _FIRST_INDENT.search(text)
    unit = found[1] if found else "  "
    line = text[text.rfind("\n", 0, at) + 1 : at]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    inner = gap.rpartition("\n")[2] if members else outer + unit
    member += json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + inner)
    if not members:
        return f"{text[: at + 1]}\n{inner}{member}\n{outer}{text[first:]}"
    end = max(end for _, end in members.values())
    return f"{text[:end]},\n{inner}{member}{text[end:]}"
