"""Decides what of a project has to be trusted before a session may start, and whether it is."""

import json
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.errors import Problem, ProjectError
from ralphgen.output.manifest import MANIFEST, Files, digest
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import (
    CheckSettings,
    Config,
    DoneSettings,
    LaunchConfig,
    LoopConfig,
    shown_url,
)
from ralphgen.project.discipline_servers import discipline_servers
from ralphgen.project.model import OwnRecipe
from ralphgen.project.own_tools import FOLDER as TOOLS
from ralphgen.project.own_tools import tool_files
from ralphgen.project.prompts import FOLDER as PROMPTS
from ralphgen.project.prompts import Words
from ralphgen.project.recipes import FOLDER as RECIPES
from ralphgen.project.recipes import RecipeFile
from ralphgen.project.root import DATABASE, FOLDER
from ralphgen.project.rows import ProjectRows
from ralphgen.trust.committed import checked_out_texts, committed_texts, in_repository
from ralphgen.trust.record import keep_record, read_record
from ralphgen.trust.verify import UntrustedError, refuse_edited

HARMLESS_MODES = frozenset({"default", "manual", "plan"})  # in which Claude Code asks as it is used
CLAUDE_LOCAL = ".claude/settings.local.json"
CLAUDE_SETTINGS = (".claude/settings.json", CLAUDE_LOCAL)
HARMLESS_SETTINGS = frozenset({"$schema", "cleanupPeriodDays", "language", "model", "outputStyle"})
NARROWING = frozenset({"ask", "deny"})  # of its permissions

Ask = Callable[[Sequence[str]], bool]
"""Shows what would run, and returns whether a person trusts it."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing that a project makes a person run.

    `digest` stands for its content, `shown` says to a person what it is, and `files` are those of
    the project that it stands in.
    """

    digest: str
    shown: str
    files: tuple[str, ...] = ()


def launch_items(launch: LaunchConfig) -> list[TrustItem]:
    """Return what `[launch]` lets an agent do without a question."""
    found = [("allows", rule) for rule in launch.allow]
    if launch.permission_mode and launch.permission_mode not in HARMLESS_MODES:
        found.append(("sets permission_mode to", launch.permission_mode))
    return [
        TrustItem(_digest("launch", [does, value]), f'[launch] {does} "{value}"', (CONFIG,))
        for does, value in found
    ]


def check_items(done: DoneSettings) -> list[TrustItem]:
    """Return what sessions run to prove that a task is done."""
    return [
        TrustItem(
            _digest("check", [check.run, check.dela]),
            f'the check "{check.name}" runs {_check_command(check)}',
            (CONFIG,),
        )
        for check in done.checks
    ]


def loop_items(loop: LoopConfig) -> list[TrustItem]:
    """Return what `[loop]` runs: the commands that make work trees ready, and the agents."""
    found = [("setup", f"[loop] setup runs {shlex.join(run)}", run) for run in loop.setup]
    for name, agent in loop.agents.items():
        run = agent.command
        found.append(("agent", f'the agent "{name}" runs {shlex.join(run)}', [name, *run]))
    return [TrustItem(_digest(kind, run), shown, (CONFIG,)) for kind, shown, run in found]


def _check_command(check: CheckSettings) -> str:
    return shlex.join(check.run) if check.run else f'the task "{check.dela}" of dela'


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
            f'the discipline "{discipline}" {_use(name, entry)}',
            (CONFIG if name in configured else config.database.path or DATABASE,),
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
    return TrustItem(_digest("tool", [file, sha256_hex]), f"sessions run {file}", (file,))


def told_items(describe: Mapping[str, str]) -> list[TrustItem]:
    """Return what agents are told of tools in the project's own words."""
    return [
        TrustItem(
            _digest("told", [entry, text]), f'agents are told of "{entry}": {text}', (CONFIG,)
        )
        for entry, text in describe.items()
    ]


def _words_item(file: str, text: str) -> TrustItem:
    return TrustItem(_digest("words", [file, text]), f"agents follow {file}", (file,))


def _recipe_item(file: str, description: str, prompt: str) -> TrustItem:
    shown = f'agents follow "{"prompt" if prompt else "description"}" of {file}'
    return TrustItem(_digest("recipe", [file, description, prompt]), shown, (file,))


def claude_items(root: Path) -> list[TrustItem]:
    """Return what the settings of Claude Code in a work tree may run or allow, such as hooks.

    Where it prints, Claude Code asks nobody whether it may. What it has allowed itself in a clone
    at a person's word stands in a file that git does not know.
    """
    found = []
    for file in CLAUDE_SETTINGS:
        if not (root / file).is_file():
            continue
        own = file == CLAUDE_LOCAL and in_repository(root) and committed_texts(root / file) == ()
        for key, value in _claude_settings(root / file).items():
            widens = key != "permissions" or not (own or _only_narrows(value))
            if key not in HARMLESS_SETTINGS and widens:
                text = f'Claude Code takes "{key}" from {file}'
                place = str(root / file)  # perhaps of another work tree than the project's
                found.append(TrustItem(_digest("claude", [file, key, value]), text, (place,)))
    return found


def _only_narrows(permissions: object) -> bool:
    return isinstance(permissions, dict) and permissions.keys() <= NARROWING


def _claude_settings(path: Path) -> dict[str, object]:
    """Return the settings in a file; where they cannot be read, its text in their place."""
    try:
        text = path.read_bytes()
        found: object = json.loads(text)
    except OSError:
        return {}
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"settings": digest(text)}


def is_plain(config: Config, rows: ProjectRows, found: Sequence[TrustItem]) -> bool:
    """Return whether a project makes nobody run anything but the server that ralphgen writes.

    `found` are the words that its agents follow, and its own tools.
    """
    configured = any(discipline.mcp_servers for discipline in config.disciplines.values())
    stored = (rows.mcp_servers(name) for name in rows.names("disciplines"))
    run = (*check_items(config.done), *loop_items(config.loop))
    settled = (*found, *launch_items(config.launch), *told_items(config.describe), *run)
    return not (settled or configured or any(map(_holds_any, stored)))


def _holds_any(stored: object) -> bool:
    return str(stored or "").strip() not in {"", "[]"}


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
        text = f'there is no whole server in "{folder}"'
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
    text = f"the server in {FOLDER} is not one that ralphgen {__version__} writes"
    return [TrustItem(found, f'{text} ("ralphgen regen" writes its own)')]


def require_trust(root: Path, items: Sequence[TrustItem], ask: Ask) -> str:
    """Ask for those of the items that are not trusted; return why a yes was not recorded, if so.

    In a project that was made on this machine nobody is asked for what is not committed: it did not
    come with a pull. Raises `UntrustedError` where a person says no, or cannot be asked.
    """
    foreign = _foreign(root, items)
    if foreign and not ask([item.shown for item in foreign]):
        problems = [Problem(f"not trusted on this machine: {item.shown}") for item in foreign]
        *others, last = problems
        hint = 'look at it, then run "ralphgen trust", which records that you trust it'
        raise UntrustedError.of([*others, Problem(last.text, hint)])
    failure = keep_record(root, [item.digest for item in items])
    return failure if foreign else ""


def record_written(root: Path, manifest: str, run: Sequence[TrustItem], *, made_here: bool) -> str:
    """Record that this user has written the server of the manifest, and what it would `run`.

    Returns why that was not done: it failed, or a clone or a pull may have brought what it would
    run, and a server on record starts without a question.
    """
    if foreign := _foreign(root, run):
        shown = "; ".join(item.shown for item in foreign)
        return f'the server does not start yet: {shown}: look at it, then run "ralphgen trust"'
    digests = [*(item.digest for item in run), digest(manifest.encode())]
    return keep_record(root, digests, made_here=made_here)


def _foreign(root: Path, items: Sequence[TrustItem]) -> list[TrustItem]:
    """Return the items that are not on record, and that a clone or a pull may have brought."""
    record = read_record(root)
    return [
        item
        for item in items
        if item.digest not in record.digests
        and not (record.made_here and item.files and not _may_be_pulled(root, item))
    ]


def _may_be_pulled(root: Path, item: TrustItem) -> bool:
    """Return whether a commit, which may be another's, holds the item, or nobody can say.

    It is looked for in what was committed: in a config, a line of one's own beside it does not make
    it one's own. A database that is committed counts as a whole.
    """
    for file in item.files:
        is_whole = file.startswith((f"{PROMPTS}/", f"{TOOLS}/"))  # of which all is the item
        texts = checked_out_texts(root / file, filtered=is_whole)
        if texts is None:
            return True
        held = [_digests_in(file, text) for text in texts]
        if any(digests is None or item.digest in digests for digests in held):
            return True
    return False


def _digests_in(file: str, text: bytes) -> frozenset[str] | None:
    """Return the digests of the items that a file holds, None where nobody can say."""
    if file == CONFIG:
        return _digests_in_config(text)
    try:
        whole = text.decode().removeprefix("\ufeff")
        if file.startswith(f"{PROMPTS}/"):
            return frozenset([_words_item(file, whole).digest])
        if file.startswith(f"{TOOLS}/"):
            return frozenset([_tool_item(file, digest(text)).digest])
        if file.startswith(f"{RECIPES}/"):
            recipe = RecipeFile.model_validate(tomllib.loads(whole))
            item = _recipe_item(file, recipe.description or "", recipe.prompt or "")
            return frozenset([item.digest])
    except (ValueError, RecursionError):
        return None
    return None


def _digests_in_config(text: bytes) -> frozenset[str] | None:
    """Return the digests of the items that a config holds, None where it cannot be read."""
    try:
        found = tomllib.loads(text.decode())
        wanted = found.keys() & {"describe", "disciplines", "done", "launch", "loop"}
        config = Config.model_validate({key: found[key] for key in wanted})
        ran = (*check_items(config.done), *loop_items(config.loop))
        items = [*launch_items(config.launch), *told_items(config.describe), *ran]
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
        return f'asks "{name}" at {shown_url(entry["url"])}{named}'
    return f'starts "{name}": {shlex.join([entry["command"], *entry["args"]])}{named}'


def _version(manifest: bytes) -> object:
    try:
        return json.loads(manifest)["ralphgen"]
    except (ValueError, LookupError, TypeError):
        return None


def _digest(kind: str, facts: object) -> str:
    text = json.dumps([kind, facts], sort_keys=True)
    return sha256(text.encode()).hexdigest()
