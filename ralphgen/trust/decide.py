"""Decides what of a project has to be trusted before a session may start, and whether it is."""

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.errors import ProjectError, RalphgenError, plain
from ralphgen.files import MANIFEST, Files, digest
from ralphgen.kits.registry import KITS
from ralphgen.project.approvals import (
    CONTEXT,
    Record,
    context_digest,
    database_digest,
    keep_record,
    read_record,
)
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import (
    CheckSettings,
    Config,
    DoneSettings,
    HttpSettings,
    LaunchConfig,
    LoopConfig,
    config_model,
    shown_url,
)
from ralphgen.project.discipline_servers import discipline_servers
from ralphgen.project.inspect import settings_models
from ralphgen.project.model import OwnRecipe
from ralphgen.project.own_tools import tool_files
from ralphgen.project.prompts import Words
from ralphgen.project.recipes import RecipeFile
from ralphgen.project.root import (
    DATABASE,
    FOLDER,
    RECIPES,
    database_name,
    has_database,
    is_on_server,
    outside_database,
    outside_shown,
    project_home,
)
from ralphgen.runtime.system import is_below_launch
from ralphgen.trust.committed import (
    committed_texts,
    has_objects_of,
    has_outward_link,
    known_texts,
)
from ralphgen.trust.files import authority_files, client_files, content_files
from ralphgen.trust.verify import UntrustedError, refuse_edited

HARMLESS_MODES = frozenset({"default", "manual", "plan"})  # in which Claude Code asks as it is used
CLAUDE_LOCAL = ".claude/settings.local.json"
CLAUDE_SETTINGS = (".claude/settings.json", CLAUDE_LOCAL)
HARMLESS_SETTINGS = frozenset({"$schema", "cleanupPeriodDays", "language", "model", "outputStyle"})
NARROWING = frozenset({"ask", "deny"})  # of its permissions
# Settings that start nothing, widen nothing and lead nowhere outside of the project, or whose
# entries are items of another kind.
SETTLED = frozenset(
    {
        *("kits", "requires", "structured_output", "describe", "tables", "own_tools", "queries"),
        *("disciplines", "done", "launch", "claims", "sessions", "brief", "loop", "database"),
        *("board", "policy", "http", "db_schema"),
    }
)

Ask = Callable[[Sequence[str]], bool]
"""Shows the commands, and returns whether the user trusts them."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing that a project could start, or tell an agent.

    `digest` identifies it with its content, `shown` describes it to the user, and `file` contains
    it: a path from the project's folder, or an absolute one. `is_content` marks what agents change
    in the course of their work, `is_client` the settings of a client.
    """

    digest: str
    shown: str
    file: str = ""
    is_content: bool = False
    is_client: bool = False


def launch_items(launch: LaunchConfig) -> list[TrustItem]:
    """Return what `[launch]` lets an agent do without a question."""
    found = [("allows", rule) for rule in launch.allow]
    if launch.permission_mode and launch.permission_mode not in HARMLESS_MODES:
        found.append(("sets permission_mode to", launch.permission_mode))
    return [
        TrustItem(_digest("launch", [does, value]), f'[launch] {does} "{value}"', CONFIG)
        for does, value in found
    ]


def check_items(done: DoneSettings) -> list[TrustItem]:
    """Return what sessions run to prove that a task is done."""
    return [
        TrustItem(
            _digest("check", [check.run, check.dela]),
            f'check "{check.name}" runs {_check_command(check)}',
            CONFIG,
        )
        for check in done.checks
    ]


def loop_items(loop: LoopConfig) -> list[TrustItem]:
    """Return what `[loop]` runs: the commands that make work trees ready, and the agents."""
    found = [("setup", f"[loop] setup runs {shlex.join(run)}", run) for run in loop.setup]
    for name, agent in loop.agents.items():
        run = agent.command
        found.append(("agent", f'agent "{name}" runs {shlex.join(run)}', [name, *run]))
    return [TrustItem(_digest(kind, run), shown, CONFIG) for kind, shown, run in found]


def _check_command(check: CheckSettings) -> str:
    return shlex.join(check.run) if check.run else f'the dela task "{check.dela}"'


def discipline_items(
    discipline: str | None, servers: Mapping[str, Mapping[str, Any]], config: Config
) -> list[TrustItem]:
    """Return the MCP servers that a discipline brings along; values of `env` and headers stay out.

    `servers` are entries of an MCP config, by name: those of `config`, others the database's.
    """
    settings = config.disciplines.get(discipline or "")
    configured = settings.mcp_servers if settings is not None else {}
    return [
        TrustItem(
            _digest("server", [discipline, name, entry]),
            f'discipline "{discipline}" {_use(name, entry)}',
            CONFIG if name in configured else config.database.path or DATABASE,
        )
        for name, entry in servers.items()
    ]


def words_items(words: Sequence[Words], recipes: Sequence[OwnRecipe]) -> list[TrustItem]:
    """Return what the project itself says to agents, who follow it: its prompts, its recipes'."""
    return [
        *(_words_item(one.file, one.text) for one in words),
        *(
            _recipe_item(recipe.origin, recipe.description, recipe.prompt)
            for recipe in recipes
            if recipe.description or recipe.prompt
        ),
    ]


def tool_items(root: Path) -> list[TrustItem]:
    """Return the files of the project's own tools, which its servers run.

    Raises `ProjectError` where one cannot be read.
    """
    return [_tool_item(file.path, file.sha256) for file in tool_files(root)]


def _tool_item(file: str, sha256_hex: str) -> TrustItem:
    return TrustItem(_digest("tool", [file, sha256_hex]), f"sessions run {file}", file)


def told_items(describe: Mapping[str, str]) -> list[TrustItem]:
    """Return what agents are told of tools in the project's own words."""
    return [
        TrustItem(
            _digest("told", [entry, text]), f'agents read this about "{entry}": {text}', CONFIG
        )
        for entry, text in describe.items()
    ]


def _words_item(file: str, text: str) -> TrustItem:
    return TrustItem(_digest("words", [file, text]), f"agents follow {file}", file)


def _recipe_item(file: str, description: str, prompt: str) -> TrustItem:
    shown = f'agents follow "{"prompt" if prompt else "description"}" of {file}'
    return TrustItem(_digest("recipe", [file, description, prompt]), shown, file)


def settings_items(config: Config) -> list[TrustItem]:
    """Return the settings that no other item covers, such as those of kits.

    A key that is not listed as harmless counts, so that a new one cannot be missed.
    """
    values = config.model_dump(mode="json")
    usual = type(config)().model_dump(mode="json")
    found = {key: value for key, value in values.items() if key not in SETTLED}
    loop = {key: values["loop"][key] for key in ("copy_files", "setup_when", "remote")}
    found |= {f"loop.{key}": value for key, value in loop.items()}
    usual |= {f"loop.{key}": usual["loop"][key] for key in loop}
    if config.http is not None:  # a variable whose value others know would sign tokens of theirs
        found["http.key_env"] = config.http.key_env
        usual["http.key_env"] = HttpSettings.model_fields["key_env"].default
    return [
        TrustItem(
            _digest("settings", [key, value]),
            f"[{key}] of {CONFIG} is {json.dumps(value, ensure_ascii=False)}",
            CONFIG,
        )
        for key, value in found.items()
        if value != usual.get(key)
    ]


def database_items(root: Path, table: Mapping[str, Any] | None = None) -> list[TrustItem]:
    """Return the database if it is outside of the project, by the settings or by a link.

    `table` takes the place of `[database]`. Nothing outside is opened.
    """
    outside = outside_database(root, table)
    if not outside:
        return []
    is_named = database_name(root) != DATABASE if table is None else bool(table)
    file = CONFIG if is_named else DATABASE
    return [TrustItem(database_digest(*outside), outside_shown(outside), file)]


def context_items(root: Path) -> list[TrustItem]:
    """Return the context of clients without a session, if it lets them do more than read."""
    found = context_digest(root)
    shown = f"clients without a session get the tools that {CONTEXT} names"
    return [TrustItem(found, shown, CONTEXT)] if found else []


def file_items(root: Path) -> list[TrustItem]:
    """Return the files below `.ralph` that no other item covers, one item each."""
    return [
        TrustItem(_digest("file", [file, digest(data)]), f"sessions use {file}", file)
        for file in authority_files(root)
        if (data := _data(root / file)) is not None
    ]


def client_items(tree: Path) -> list[TrustItem]:
    """Return the files in a work tree from which clients take permissions, programs and servers.

    Settings of Claude Code that can only narrow a session are left out.
    """
    found = []
    for file in client_files(tree):
        data = _data(tree / file)
        if data is None:
            continue
        shown = f"clients read settings from {file}"
        if file in CLAUDE_SETTINGS:
            keys = _widening_keys(data)
            if not keys:
                continue
            shown = f"Claude Code reads {', '.join(keys)} from {file}"
        place = str(tree / file)  # perhaps in another work tree than the project's
        found.append(
            TrustItem(_digest("client", [file, digest(data)]), shown, place, is_client=True)
        )
    return found


def content_items(tree: Path) -> list[TrustItem]:
    """Return the files in a work tree that agents follow or run, one item each."""
    return [
        TrustItem(
            _digest("content", [file, digest(data)]),
            f"agents follow or run {file}",
            str(tree / file),
            is_content=True,
        )
        for file in content_files(tree)
        if (data := _data(tree / file)) is not None
    ]


def _data(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _widening_keys(data: bytes) -> list[str]:
    """Return the keys of Claude Code's settings that may widen a session, quoted."""
    return [
        json.dumps(key)
        for key, value in _claude_settings(data).items()
        if key not in HARMLESS_SETTINGS and not (key == "permissions" and _only_narrows(value))
    ]


def _only_narrows(permissions: object) -> bool:
    return isinstance(permissions, dict) and permissions.keys() <= NARROWING


def _claude_settings(data: bytes) -> dict[str, object]:
    """Return the settings in a file; if it is not an object of JSON, one key that stands for it."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"settings": None}


def server_items(
    root: Path, render: Callable[[], Files], run: Sequence[TrustItem], *, trust_edited: bool
) -> list[TrustItem]:
    """Return the project's own server, where it is not what this ralphgen writes and not on record.

    One that is what it writes is put on record when all that it would `run` is there already: it is
    not asked for again.
    `render` returns what would be written now. Raises `UntrustedError` for files that are not as
    their manifest says, unless `trust_edited`.
    """
    folder = root / FOLDER
    try:
        manifest = (folder / MANIFEST).read_bytes()
    except OSError as error:
        text = f'the server in "{folder}" is missing or incomplete'
        raise ProjectError(text, 'run "ralphgen regen"') from error
    if not trust_edited:
        refuse_edited(folder)
    found = digest(manifest)
    if found in read_record(root).digests:
        return []
    version = _version(manifest)
    if version == __version__ and render()[MANIFEST].encode() == manifest:
        if {item.digest for item in run} <= {*read_record(root).digests}:
            keep_record(root, [found])
        return []
    text = f"the server in {FOLDER} differs from the output of ralphgen {__version__}"
    return [TrustItem(found, f'{text} ("ralphgen regen" replaces it)')]


def untrusted(root: Path, items: Sequence[TrustItem]) -> list[TrustItem]:
    """Return the items that need a question.

    Authority needs one unless it is on record. So does content in a folder without a record, and
    content that git has; an edit that git does not have is the user's.
    """
    record = read_record(root)
    return [
        item
        for item in items
        if item.digest not in record.digests
        and not (item.is_content and record.is_of_folder and not _is_held(root, item))
    ]


def require_trust(
    root: Path, items: Sequence[TrustItem], ask: Ask, *, is_whole: bool = False
) -> str:
    """Ask for the items that are not trusted; return why a yes was not recorded, if so.

    With `is_whole` the items cover all the content of the folder, so that a yes accepts the folder.
    Raises `UntrustedError` if the user says no or cannot be asked.
    """
    foreign = untrusted(root, items)
    if foreign and not ask([item.shown for item in foreign]):
        text = "this project has not been approved on this machine; it would run:"
        listed = "\n".join(f"  {plain(item.shown)}" for item in foreign)
        hint = 'review and approve with "ralphgen trust"'
        with suppress(RalphgenError):  # a database outside of the project is not looked for
            if not has_database(root):
                hint = f'create the database with "ralphgen init", then {hint}'
        raise UntrustedError(text, hint, listed)
    if is_below_launch():  # an agent's edit is nobody's yes
        return ""
    failure = record_items(root, items, marks=bool(foreign) and is_whole)
    return failure if foreign else ""


def accept_database(root: Path, ask: Ask | None) -> None:
    """Record a database outside of the project before it is opened, as the user's own or asked.

    The rule is that of `record_written`. Raises `UntrustedError` if the user says no, or cannot be
    asked.
    """
    record = read_record(root)
    new = [item for item in database_items(root) if item.digest not in record.digests]
    if not new:
        return
    path = Path(os.path.normpath(project_home(root) / database_name(root)))
    is_brought = not is_on_server(root) and has_outward_link(root, path)
    mine = [item for item in new if not is_brought and _is_own(root, item, record, None)]
    asked = ask if ask is not None else lambda _shown: mine == new
    require_trust(root, new, asked if not is_below_launch() else lambda _shown: False)


def refuse_foreign_link(root: Path, place: Path) -> None:
    """Raise `UntrustedError` for a place in the project that a link leads out of it.

    A link that git does not have is the user's own, in a folder that was accepted.
    """
    real, home = Path(os.path.realpath(place)), Path(os.path.realpath(root))
    named = Path(os.path.normpath(Path.cwd() / place))
    is_inside = real.is_relative_to(home) or not named.is_relative_to(root)
    if is_inside or (read_record(root).is_of_folder and not has_outward_link(root, place)):
        return
    raise UntrustedError(f'"{place}" leads out of the project, to "{real}"', "remove the link")


def record_items(root: Path, items: Sequence[TrustItem], *, marks: bool = False) -> str:
    """Record items as accepted by the user; return why that failed, or an empty string."""
    authority = [item.digest for item in items if not item.is_content]
    content = [item.digest for item in items if item.is_content]
    return keep_record(root, authority, content, marks=marks)


def record_written(
    root: Path,
    manifest: str,
    items: Sequence[TrustItem],
    run: Sequence[TrustItem],
    ask: Ask | None = None,
) -> list[str]:
    """Record the server of the manifest and the items that the user wrote; return warnings.

    `ask` shows the new items to the user; a yes accepts all of them and the folder. Without it,
    only items that git does not have are recorded, in a folder that was accepted before. The server
    is recorded if all that it would `run` is.
    """
    if is_below_launch():
        return []
    record = read_record(root)
    new = [item for item in items if item.digest not in record.digests]
    accepted = ask is not None and bool(new) and ask([item.shown for item in new])
    held = [] if accepted else [item for item in new if not _is_own(root, item, record, ask)]
    mine = [item for item in items if item not in held]
    missing = {item.digest for item in run} & {item.digest for item in held}
    written = [] if missing else [TrustItem(digest(manifest.encode()), "")]
    failure = record_items(root, [*mine, *written], marks=accepted)
    warnings = [plain(failure)] if failure else []
    if held:
        stops = "; the server does not start" if missing else ""
        ordered = sorted(held, key=lambda item: item.digest not in missing)
        listed = "\n".join(f"  {plain(item.shown)}" for item in ordered)
        hint = 'review and approve with "ralphgen trust"'
        warnings.append(f"not approved on this machine yet{stops}:\n{listed}\nhint: {hint}")
    return warnings


def _is_own(root: Path, item: TrustItem, record: Record, ask: Ask | None) -> bool:
    """Return whether a new item is the user's own, if the user was not asked about it."""
    return ask is None and record.is_of_folder and not _is_held(root, item)


def _is_held(root: Path, item: TrustItem) -> bool:
    """Return whether git has the item, so that another than the user may have written it.

    A line of one's own next to an item of the config does not make the item one's own. A database
    that is committed counts as a whole.
    """
    if not item.file:
        return False
    path = root / item.file
    data = _data(path)
    if data is None or has_outward_link(root, path):
        return True
    if item.file != CONFIG and not item.file.startswith(f"{RECIPES}/"):
        is_database = not item.is_content and not item.is_client and _is_database(data)
        return committed_texts(path) != () if is_database else has_objects_of(path, data)
    if has_objects_of(path, data, is_parsed=True):
        return True
    texts = known_texts(path)
    if texts is None:
        return True
    held = [_digests_in(root, item.file, text) for text in texts]
    return any(digests is None or item.digest in digests for digests in held)


def _is_database(data: bytes) -> bool:
    return data.startswith(b"SQLite format 3\0")


def _digests_in(root: Path, file: str, text: bytes) -> frozenset[str] | None:
    """Return the digests of the items that a file holds, None where nobody can say."""
    if file == CONFIG:
        return _digests_in_config(root, text)
    try:
        whole = text.decode().removeprefix("\ufeff")
        recipe = RecipeFile.model_validate(tomllib.loads(whole))
    except (ValueError, RecursionError):
        return None
    item = _recipe_item(file, recipe.description or "", recipe.prompt or "")
    return frozenset([item.digest])


def _digests_in_config(root: Path, text: bytes) -> frozenset[str] | None:
    """Return the digests of the items that a config holds, None where it cannot be read."""
    try:
        found = tomllib.loads(text.decode())
        config = config_model(settings_models(KITS)).model_validate(found)
        ran = (*check_items(config.done), *loop_items(config.loop), *settings_items(config))
        items = [*launch_items(config.launch), *told_items(config.describe), *ran]
        items += database_items(root, found.get("database", {}))
        for name, settings in config.disciplines.items():
            servers = discipline_servers(name, None, settings.mcp_servers, ())
            items += discipline_items(name, servers, config)
    except (ValueError, ProjectError, RecursionError):
        return None
    return frozenset(item.digest for item in items)


def _use(name: str, entry: Mapping[str, Any]) -> str:
    """Return what a session does with a server: it starts a command, or asks at an address."""
    named = "".join(f" with {one}=…" for one in entry.get("env", entry.get("headers", {})))
    if "url" in entry:
        return f'connects to "{name}" at {shown_url(entry["url"])}{named}'
    return f'starts "{name}": {shlex.join([entry["command"], *entry["args"]])}{named}'


def _version(manifest: bytes) -> object:
    try:
        return json.loads(manifest)["ralphgen"]
    except (ValueError, LookupError, TypeError):
        return None


def _digest(kind: str, facts: object) -> str:
    text = json.dumps([kind, facts], sort_keys=True)
    return sha256(text.encode()).hexdigest()
