"""Decides which parts of a project require trust before a session starts, and checks for it.

Authority decides what a session may do: settings, the files below `.ralph` except its state, and
the settings of clients. Content is read or run by agents in the course of their work. When ralphgen
runs git, a repository's settings that cannot name a program always apply, those that can apply once
you trust them, all others never do, and a repository's hooks never run.
"""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen import __version__
from ralphgen.emit.delegation import read_delegation, texts_at, verified_commits
from ralphgen.emit.write import refuse_edited
from ralphgen.errors import ProjectError, RalphgenError, UntrustedError, plain
from ralphgen.files import MANIFEST, MARK, digest, files_by_suffix
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.project.approvals import (
    CONTEXT,
    Record,
    context_digest,
    context_digest_of,
    database_digest,
    keep_record,
    read_record,
)
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import (
    PROMPTS,
    CheckSettings,
    Config,
    DoneSettings,
    HttpSettings,
    LaunchConfig,
    LoopConfig,
    NotifyConfig,
    Words,
    config_model,
    prompt_names,
    public_url,
    read_words,
)
from ralphgen.project.disciplines import discipline_servers
from ralphgen.project.git import (
    committed_texts,
    has_loose_link,
    has_objects_of,
    has_outward_link,
    recorded_texts,
    refuse_foreign_link,
    settings_of,
    staged_texts,
)
from ralphgen.project.inspect import RecipeFile, hidden_columns, read_recipes, settings_models
from ralphgen.project.model import OwnRecipe
from ralphgen.project.own_tools import tool_files
from ralphgen.project.queries import FOLDER as QUERIES
from ralphgen.project.root import (
    DATABASE,
    FOLDER,
    RECIPES,
    database_name,
    has_database,
    is_on_server,
    outside_database,
    outside_message,
    project_home,
)
from ralphgen.project.schema import ProjectRows, open_rows
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.git import ATTRIBUTES
from ralphgen.runtime.files.main_tree import (
    CLIENT_FILES,
    CLIENT_FOLDERS,
    CLIENT_PARTS,
    RALPH,
    home_top,
    is_client_setting,
    repository_of,
    tree_top,
)
from ralphgen.runtime.processes.secrets import is_secret, masked_text
from ralphgen.runtime.system import is_below_launch, launched_session

# Below `.ralph`: what ralphgen writes there while work is done.
STATE_NAMES = frozenset(
    {
        *("backups", "db", "last-export.jsonl", "learnings.txt", "progress.txt", "sessions"),
        *("trust", "worktrees"),
    }
)
# Below `.ralph`: files that ralphgen compares itself, items of other kinds, and files that no
# session reads.
COVERED_PATHS = re.compile(
    r"\.ralph/(?:ralphgen\.toml|(?:mcp|schemas)(?:/.*)?|recipes/[^/]+\.toml|prompts/[^/]+\.md"
    r"|tools/[^/_.][^/]*\.py|(?:.*/)?(?:\.lock|\.gitignore|\.gitattributes|__pycache__(?:/.*)?))",
    re.DOTALL,
)
ENVIRONMENT_FILE = ".env"  # some clients and runners load it, and files with this prefix
PRUNED_FOLDERS = frozenset({".git", RALPH, "node_modules"})
LOCK_ENDING = ".lock"
CLIENT_INNER = (".claude/", ".github/")  # above a project, instructions are in these too
INSTRUCTIONS = frozenset(
    {
        *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"),
        *("agent.md", "crush.md", "iflow.md", "qwen.md", "copilot-instructions.md"),
        *(".clinerules", ".cursorrules", ".goosehints", ".roorules", ".rules", ".windsurfrules"),
    }
)
BUILD_FILES = frozenset(
    {
        *("gnumakefile", "makefile", "cmakelists.txt", "justfile", ".justfile"),
        *("package.json", "turbo.json", "pyproject.toml", "pom.xml", "mvnw", "gradlew"),
        *("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        *("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
        *("compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"),
        *("compose.override.yml", "compose.override.yaml"),
        *("docker-compose.override.yml", "docker-compose.override.yaml"),
    }
)
SCRIPT_ENDING = ".sh"
ITEMS_FOLDER = ".ai"
SKILL_FOLDERS = (".claude/skills", ".agents/skills")
SKILL_TOPS = frozenset(folder.partition("/")[0] for folder in SKILL_FOLDERS)
LINKED_TOPS = frozenset({ITEMS_FOLDER, *SKILL_TOPS})  # links in these folders are followed
CLAUDE_TREES = ".claude/worktrees/"
MOST_LINKS = 1_000  # linked folders in one of these places


def is_authority(path: str) -> bool:
    """Return whether a path, with `/` between its parts, is a file of authority at any depth."""
    parts = path.casefold().split("/")
    for at, part in enumerate(parts):
        below = parts[at + 1 :]
        is_state = below[:1] and (below[0] in STATE_NAMES or below[:2] == ["mcp", "sessions"])
        if part == ".git" or (part == RALPH and not is_state):
            return True
    return is_client_setting(path)


def is_content(path: str) -> bool:
    """Return whether a path is a file of content at any depth, and not of authority."""
    *folders, name = path.casefold().split("/")
    if is_authority(path):
        return False
    is_environment = name == ENVIRONMENT_FILE or name.startswith(f"{ENVIRONMENT_FILE}.")
    named = (
        name in INSTRUCTIONS
        or name in BUILD_FILES
        or name.endswith(SCRIPT_ENDING)
        or is_environment
    )
    return named or _has_items(folders)


def _has_items(folders: Sequence[str]) -> bool:
    """Return whether every file in a folder counts, given the parts of its path."""
    around = f"/{'/'.join(folders)}/"
    return ITEMS_FOLDER in folders or any(f"/{one}/" in around for one in SKILL_FOLDERS)


def authority_files(root: Path) -> list[str]:
    """Return the files below `.ralph` that are not state or covered by another item, sorted."""
    found = _files(root, RALPH, lambda path, _: _is_uncovered(path))
    return _present(root, filter(_is_uncovered, found))


def _is_uncovered(path: str) -> bool:
    return is_authority(path) and not COVERED_PATHS.fullmatch(path)


def client_files(tree: Path) -> list[str]:
    """Return the settings files of clients in a worktree, sorted.

    Some clients also read settings from parent folders, up to the top of the repository.
    """
    found = set[str]()
    for place, way in (tree, ""), *_folders_above(tree):
        inner = filter(is_authority, _files_in(place, {*CLIENT_PARTS, *CLIENT_FOLDERS}))
        names = [name for name in _names_in(place) if name.casefold() in CLIENT_FILES]
        found |= {f"{way}{path}" for path in (*inner, *names) if not path.endswith(LOCK_ENDING)}
    return _present(tree, found)


def content_files(tree: Path) -> list[str]:
    """Return the files that agents read or run in a work tree.

    Build files and scripts count at its top, instructions, skills and `.ai` everywhere below, and
    instructions and skills also in the folders above, up to the top of the repository.
    """
    found = {path for path in _names_in(tree) if is_content(path)}
    found |= {path for path in _files(tree, "", _enters_content) if _is_read(tree, path)}
    for place, way in _folders_above(tree):
        names = (
            f"{inner}{name}" for inner in ("", *CLIENT_INNER) for name in _names_in(place / inner)
        )
        found |= {f"{way}{path}" for path in names if _is_instruction(path)}
        skills = _files_in(place, SKILL_TOPS)
        found |= {f"{way}{path}" for path in skills if _is_read(place, path)}
    return _present(tree, found)


def _enters_content(path: str, is_link: bool) -> bool:
    """Return whether the walk enters a folder: most links lead to folders that it enters anyway."""
    *_, name = parts = path.casefold().split("/")
    if is_link and (LINKED_TOPS.isdisjoint(parts) or not _enters_client(path, is_link)):
        return False
    return name not in PRUNED_FOLDERS


def _enters_client(path: str, is_link: bool) -> bool:
    """Return whether the walk enters a folder, with links except in Claude Code's worktrees."""
    return not (is_link and path.casefold().startswith(CLAUDE_TREES))


def _is_read(tree: Path, path: str) -> bool:
    parts = path.casefold().split("/")
    if parts[-1] in INSTRUCTIONS or LINKED_TOPS.isdisjoint(parts):
        return parts[-1] in INSTRUCTIONS
    return _has_items(parts) or (tree / path).is_dir()  # a link out of the tree


def _is_instruction(path: str) -> bool:
    return path.casefold().rpartition("/")[2] in INSTRUCTIONS


def _folders_above(tree: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders above a work tree up to the top of its repository, and the way there."""
    top, place, way = tree_top(str(tree)), tree, ""
    while top is not None and str(place) != top and place != place.parent:
        place, way = place.parent, f"../{way}"
        yield place, way


def _names_in(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _present(tree: Path, paths: Iterable[str]) -> list[str]:
    """Return the paths of files, and of links to folders, sorted."""
    found = ((path, tree / path) for path in sorted({*paths}))
    return [path for path, at in found if at.is_file() or (at.is_symlink() and at.is_dir())]


def _files_in(tree: Path, tops: Collection[str]) -> Iterator[str]:
    """Yield the files below some folders of a work tree, however their names are spelled."""
    for name in _names_in(tree):
        if name.casefold() in tops:
            yield from _files(tree, name, _enters_client)


def _files(
    tree: Path,
    path: str,
    enters: Callable[[str, bool], bool],
    trail: tuple[str, ...] = (),
    entered: list[str] | None = None,
) -> Iterator[str]:
    """Yield the paths of files at or below a path of a work tree, also through links.

    A link to a folder outside of the repository is one of them, and its content is not. `enters`
    decides on each folder below, given whether it is a link. `trail` are the linked folders around
    the path, and `entered` all of them so far. Raises `ProjectError` for more than `MOST_LINKS`.
    """
    links = [] if entered is None else entered
    if (tree / path).is_symlink():
        real = os.path.realpath(tree / path)
        if not Path(real).is_relative_to(os.path.realpath(tree_top(str(tree)) or tree)):
            yield path
            return
        if real in trail:
            return
        links.append(path)
        if len(links) > MOST_LINKS:
            raise ProjectError(f'"{path}": too many linked folders', "remove the links")
        trail = (*trail, real)
    for folder, folders, names in os.walk(tree / path):
        way = os.path.relpath(folder, tree).replace(os.sep, "/")
        inner = [name if way == "." else f"{way}/{name}" for name in folders]
        chosen = [one for one in inner if enters(one, (tree / one).is_symlink())]
        for one in chosen:
            if (tree / one).is_symlink():
                yield from _files(tree, one, enters, trail, links)
        folders[:] = [one.rpartition("/")[2] for one in chosen if not (tree / one).is_symlink()]
        yield from (name if way == "." else f"{way}/{name}" for name in names)


HARMLESS_MODES = frozenset({"default", "manual", "plan"})  # Claude Code asks as usual in them
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
        *("board", "policy", "http", "db_schema", "notify"),
    }
)

CLIENT, CONTENT = "client", "content"  # kinds of items

Ask = Callable[[Sequence[str]], bool]
"""Shows the commands, and returns whether the user trusts them."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """One thing that a project could start, or tell an agent.

    `digest` identifies it with its content, `shown` describes it to the user, and `file` contains
    it: a path from the project's folder, or an absolute one. `sha256` is the digest of that file if
    the item covers all of it; its digest is then that of `kind` and `name`, so that other versions
    of the file have one too. `setting` is a key with its value as JSON, which needs approval
    if it `is_asked`; sessions do not list it if it `is_quiet`.
    """

    digest: str
    shown: str
    file: str = ""
    sha256: str = ""
    kind: str = ""
    name: str = ""
    setting: Mapping[str, str] = field(default_factory=dict)
    is_asked: bool = True
    is_quiet: bool = False

    def needs_approval(self, record: Record) -> bool:
        """Return whether the user has to approve the item."""
        if any(record.settings.get(key) is not None for key in self.setting):
            return self.is_asked
        return self.is_asked and self.digest not in record.digests

    @property
    def is_content(self) -> bool:
        """Whether agents change the file in the course of their work."""
        return self.kind == CONTENT

    @property
    def is_client(self) -> bool:
        """Whether the file has settings of a client."""
        return self.kind == CLIENT


def _whole_item(kind: str, name: str, sha256: str, shown: str, file: str = "") -> TrustItem:
    """Return the item that covers all of a file; `file` is its place if `name` is not."""
    return TrustItem(_digest(kind, [name, sha256]), shown, file or name, sha256, kind, name)


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


def notify_items(notify: NotifyConfig) -> list[TrustItem]:
    """Return the program or the variable with the URL to which `[notify]` sends lines."""
    if not notify.is_set:
        return []
    way = [*(notify.command or ()), notify.url_env]
    shown = f"runs {shlex.join(notify.command)}" if notify.command else "sends lines to the URL in "
    shown += notify.url_env or ""
    return [TrustItem(_digest("notify", way), f"[notify] {shown}", CONFIG)]


def _check_command(check: CheckSettings) -> str:
    return shlex.join(check.run) if check.run else f'the dela task "{check.dela}"'


def discipline_items(
    discipline: str | None, servers: Mapping[str, Mapping[str, Any]], config: Config
) -> list[TrustItem]:
    """Return a discipline's MCP servers as items, without secrets in `env` and headers.

    `servers` are entries of an MCP config, by name: those of `config`, and those of the database.
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
    """Return the project's own instructions to agents, from its prompts and recipes."""
    return [
        *(
            TrustItem(_digest("words", [one.file, one.text]), f"agents follow {one.file}", one.file)
            for one in words
        ),
        *(
            _recipe_item(recipe.origin, recipe.description, recipe.prompt)
            for recipe in recipes
            if recipe.description or recipe.prompt
        ),
    ]


def tool_items(root: Path) -> list[TrustItem]:
    """Return the files of custom tools, which the project's servers run.

    Raises `ProjectError` if one cannot be read.
    """
    return [
        _whole_item("tool", file.path, file.sha256, f"sessions run {file.path}")
        for file in tool_files(root)
    ]


def description_items(describe: Mapping[str, str]) -> list[TrustItem]:
    """Return the project's own descriptions of tools, which agents read."""
    return [
        TrustItem(
            _digest("told", [entry, text]), f'agents read this about "{entry}": {text}', CONFIG
        )
        for entry, text in describe.items()
    ]


def _recipe_item(file: str, description: str, prompt: str) -> TrustItem:
    shown = f'agents follow "{"prompt" if prompt else "description"}" of {file}'
    return TrustItem(_digest("recipe", [file, description, prompt]), shown, file)


def settings_items(root: Path, config: Config) -> list[TrustItem]:
    """Return the settings that no other item covers, such as those of kits.

    A key that is not listed as harmless counts, so that a new one cannot be missed. Settings that
    start nothing need no approval at first, but later: limits after a change that permits more,
    and grants after every change.
    """
    values = config.model_dump(mode="json")
    usual = type(config)().model_dump(mode="json")
    found = {key: value for key, value in values.items() if key not in SETTLED}
    loop = {key: values["loop"][key] for key in ("copy_files", "setup_when", "remote")}
    found |= {f"loop.{key}": value for key, value in loop.items()}
    usual |= {f"loop.{key}": usual["loop"][key] for key in loop}
    if config.http is not None:  # a variable whose value others know would sign tokens of theirs
        found |= {"http.url": config.http.url, "http.key_env": config.http.key_env}
        usual["http.key_env"] = HttpSettings.model_fields["key_env"].default
    asked = [key for key, value in found.items() if value != usual.get(key)]
    limits = {
        "done.checks": {one.name: one.disciplines or ["*"] for one in config.done.checks},
        "done.protect": values["done"]["protect"],
        "policy.rules": values["policy"]["rules"],
        "schema.hide": values["db_schema"]["hide"],
        "disciplines": {name: one.disable for name, one in config.disciplines.items()},
    }
    kits = {"kits": sorted(values["kits"])}
    grants = {key: values[key] for key in ("own_tools", "queries", "database")}
    tables = config.tables.items()
    grants["tables"] = {
        name: one.model_dump(mode="json", exclude_defaults=True) for name, one in tables
    }
    if values["http"]:
        grants["http"] = {key: values["http"][key] for key in ("allowed_hosts", "allowed_origins")}
    approved = read_record(root).settings
    return [
        _setting_item(CONFIG, key, value, approved, widened, is_asked=key in asked)
        for settings, widened in ((found | grants, "changed"), (limits, "lost"), (kits, "gained"))
        for key, value in settings.items()
    ]


def _setting_item(
    file: str,
    key: str,
    value: object,
    approved: Mapping[str, str],
    widened: str = "changed",
    *,
    is_asked: bool = False,
) -> TrustItem:
    """Return the item of a setting; `is_asked` if it needs approval before a change too.

    It permits more if it is `widened`: if it has "lost" or "gained" entries, or has "changed".
    """
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    shown, needs_approval = f"[{key}] of {file} is {text}", is_asked
    if (before := approved.get(key)) is not None:
        old, new = _entries(json.loads(before)), _entries(value)
        changes = {"lost": bool(old - new), "gained": bool(new - old), "changed": before != text}
        needs_approval = changes[widened]
        shown += f", previously {before}" if needs_approval else ""
    return TrustItem(
        _digest("settings", [key, value]),
        shown,
        file,
        setting={key: text},
        is_asked=needs_approval,
        is_quiet=not is_asked and not needs_approval,
    )


def _entries(value: object, way: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the entries of nested lists and tables, each with its way."""
    if isinstance(value, dict):
        return {one for key, inner in value.items() for one in _entries(inner, (*way, key))}
    if isinstance(value, list):
        return {one for inner in value for one in _entries(inner, way)}
    return {(*way, str(value))}


def database_items(root: Path, table: Mapping[str, Any] | None = None) -> list[TrustItem]:
    """Return the database if it is outside of the project, by the settings or by a link.

    `table` takes the place of `[database]`. Nothing outside is opened.
    """
    outside = outside_database(root, table)
    if not outside:
        return []
    is_named = database_name(root) != DATABASE if table is None else bool(table)
    file = CONFIG if is_named else DATABASE
    return [TrustItem(database_digest(*outside), outside_message(outside), file)]


def context_items(root: Path) -> list[TrustItem]:
    """Return the context of clients without a session, if it lets them do more than read."""
    found = context_digest(root)
    shown = f"clients without a session get the tools that {CONTEXT} names"
    return [TrustItem(found, shown, CONTEXT)] if found else []


def file_items(root: Path) -> list[TrustItem]:
    """Return the files below `.ralph` that no other item covers, one item each."""
    return [
        _whole_item("file", file, digest(data), f"sessions use {file}")
        for file in authority_files(root)
        if (data := _data(root / file)) is not None
    ]


def client_items(tree: Path) -> list[TrustItem]:
    """Return the files in a worktree with permissions, programs and servers for clients.

    Settings of Claude Code that can only narrow a session are left out.
    """
    found = []
    for file in client_files(tree):
        data = _data(tree / file)
        if data is None:
            continue
        shown = f"clients read settings from {file}"
        if file in CLAUDE_SETTINGS:
            keys = [  # the keys that may widen a session
                json.dumps(key)
                for key, value in _claude_settings(data).items()
                if key not in HARMLESS_SETTINGS
                and not (
                    key == "permissions" and isinstance(value, dict) and value.keys() <= NARROWING
                )
            ]
            if not keys:
                continue
            shown = f"Claude Code reads {', '.join(keys)} from {file}"
        place = str(tree / file)  # perhaps in another work tree than the project's
        found.append(_whole_item(CLIENT, file, digest(data), shown, place))
    return found


def run_check_items(done: DoneSettings, tree: Path) -> list[TrustItem]:
    """Return the checks, and the build files and scripts of a work tree that they may run.

    An agent may run its own files: in its shell, only the checks count.
    """
    if launched_session():
        return check_items(done)
    paths = [path for path in _names_in(tree) if is_content(path) and not _is_instruction(path)]
    files = _content_items_of(tree, _present(tree, paths)) if done.checks else []
    return [*check_items(done), *files]


def content_items(tree: Path) -> list[TrustItem]:
    """Return the files in a work tree that agents follow or run, one item each."""
    return _content_items_of(tree, content_files(tree))


def _content_items_of(tree: Path, files: Iterable[str]) -> list[TrustItem]:
    return [
        _whole_item(CONTENT, file, digest(data), f"agents follow or run {file}", str(tree / file))
        for file in files
        if (data := _data(tree / file)) is not None
    ]


def _data(path: Path) -> bytes | None:
    """Return the content of a file, or the text of a link to a folder; None if unreadable."""
    try:
        return os.fsencode(path.readlink()) if path.is_dir() else path.read_bytes()
    except OSError:
        return None


def _claude_settings(data: bytes) -> dict[str, object]:
    """Return the settings in a file; if it is not an object of JSON, one key that stands for it."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"settings": None}


def server_items(project: Project, *, trust_edited: bool) -> list[TrustItem]:
    """Return the project's server unless it is generated by this version or recorded.

    A newly generated server is recorded if every item that it would run is already recorded: the
    user is not asked again. Raises `UntrustedError` for files that differ from their manifest,
    unless `trust_edited`.
    """
    root = project.root
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
    if version == __version__ and project.files[MANIFEST].encode() == manifest:
        record = read_record(root)
        if not any(item.needs_approval(record) for item in run_items(project)):
            keep_record(root, [found])
        return []
    text = f"the server in {FOLDER} differs from the output of ralphgen {__version__}"
    shown = f'{text} ("ralphgen regen" replaces it)'
    return [TrustItem(found, shown, f"{FOLDER}/{MANIFEST}", found)]


def untrusted(root: Path, items: Sequence[TrustItem]) -> list[TrustItem]:
    """Return the items that need a question.

    Authority needs one unless it is on record. So does content in a folder without a record, and
    content that git has; an edit that git does not have is the user's. Items of a verified commit
    need none.
    """
    record = read_record(root)
    left = [
        item
        for item in items
        if item.needs_approval(record)
        and not (item.is_content and record.is_of_folder and not _is_held(root, item))
    ]
    accepted = delegated(root, left)
    return [item for item in left if item.digest not in accepted]


def delegated(root: Path, items: Sequence[TrustItem]) -> frozenset[str]:
    """Return the digests of the items that a verified commit of the delegated branch contains.

    A database outside of the project never counts: its content is not in the repository.
    """
    if not items or read_delegation(root) is None:
        return frozenset()
    outside = {item.digest for item in database_items(root)}
    inside = [item for item in items if item.digest not in outside]
    return _contained(root, inside, verified_commits(root))


def _contained(root: Path, items: Sequence[TrustItem], commits: Sequence[str]) -> frozenset[str]:
    """Return the digests of the items whose content one of the commits contains at their place."""
    texts = texts_at(root, {item.file for item in items if item.file}, commits)
    known = {file: _digests_of(root, file, found) for file, found in texts.items()}
    return frozenset(
        item.digest
        for item in items
        if not known.get(item.file, frozenset()).isdisjoint({item.digest, item.sha256})
    )


def _digests_of(root: Path, file: str, texts: Iterable[bytes]) -> frozenset[str]:
    """Return the digests of versions of a file and of the items in them."""
    found: set[str] = set()
    for text in texts:
        found |= {digest(text), *(_digests_in(root, file, text) or ())}
    return frozenset(found)


def items_at(root: Path, commit: str) -> list[TrustItem]:
    """Return the rules of a commit: the items in its settings, and its files if they are unchanged.

    Repository settings of git are listed too, which no commit contains. Raises `ProjectError` if
    its settings cannot be read.
    """
    texts = texts_at(root, [CONFIG], [commit]).get(CONFIG, [b""])
    found = _config_in(texts[0])
    if found is None:
        raise ProjectError(f'{CONFIG} of the commit "{commit}" cannot be read')
    config, table = found
    recipes = [f"{RECIPES}/{name}" for name in files_by_suffix(root, RECIPES, ".toml")]
    files = [
        *(
            item
            for file in recipes
            for item in _items_of_recipe(root, file, _data(root / file) or b"") or ()
        ),
        *words_items(read_words(root, prompt_names(root)), ()),
        *(*tool_items(root), *file_items(root), *context_items(root)),
        *(*client_items(root), *content_items(root)),
    ]
    if (manifest := _data(root / FOLDER / MANIFEST)) is not None:
        whole = digest(manifest)
        files.append(TrustItem(whole, f"the server in {FOLDER}", f"{FOLDER}/{MANIFEST}", whole))
    held = _contained(root, files, [commit])
    return [
        *_items_in(root, config, table),
        *(item for item in files if item.digest in held),
        *git_items(root, remote=config.uses_remote),
    ]


def require_trust(
    root: Path,
    items: Sequence[TrustItem],
    ask: Ask,
    *,
    is_whole: bool = False,
    needs_database: bool = True,
) -> str:
    """Ask for the items that are not trusted; return why a yes was not recorded, if so.

    With `is_whole` the items cover all the content of the folder, so that a yes accepts the folder.
    Raises `UntrustedError` if the user says no or cannot be asked. With `needs_database` its hint
    names a missing database.
    """
    foreign = untrusted(root, items)
    if foreign and not ask([item.shown for item in foreign]):
        text = "this project has not been approved on this machine; it would run:"
        listed = "\n".join(f"  {one_line(item.shown)}" for item in foreign)  # never cut
        hint = 'review and approve with "ralphgen trust"'
        with suppress(RalphgenError):  # a database outside of the project is not looked for
            if needs_database and not has_database(root):
                hint = f'create the database with "ralphgen init", then {hint}'
        raise UntrustedError(text, hint, listed)
    if is_below_launch():  # an agent's edit is not consent
        return ""
    failure = record_items(root, items, marks=bool(foreign) and is_whole)
    return failure if foreign else ""


def accept_database(root: Path, ask: Ask | None) -> None:
    """Record a database outside of the project before it is opened, as the user's own or asked.

    The rule is that of `record_own_files`. Raises `UntrustedError` if the user refuses, or
    cannot be asked.
    """
    record = read_record(root)
    new = [item for item in database_items(root) if item.needs_approval(record)]
    if not new:
        return
    path = Path(os.path.normpath(project_home(root) / database_name(root)))
    is_brought = not is_on_server(root) and has_outward_link(root, path)
    mine = [item for item in new if not is_brought and _is_own(root, item, record, None)]
    asked = ask if ask is not None else lambda _shown: mine == new
    require_trust(root, new, asked if not is_below_launch() else lambda _shown: False)


def record_items(root: Path, items: Sequence[TrustItem], *, marks: bool = False) -> str:
    """Record items as accepted by the user; return why that failed, or an empty string."""
    authority, content = digests_by_kind(items)
    return keep_record(root, authority, content, settings_of_items(items), marks=marks)


def digests_by_kind(items: Sequence[TrustItem]) -> tuple[list[str], list[str]]:
    """Return the digests of authority, and those of content."""
    authority = [item.digest for item in items if not item.is_content]
    return authority, [item.digest for item in items if item.is_content]


def settings_of_items(items: Sequence[TrustItem]) -> dict[str, str]:
    """Return the settings among the items, by key."""
    return {key: value for item in items for key, value in item.setting.items()}


def record_own_files(
    root: Path,
    manifest: str,
    items: Sequence[TrustItem],
    run: Sequence[TrustItem],
    ask: Ask | None = None,
) -> list[str]:
    """Record the server of the manifest and the items that the user wrote; return warnings.

    `ask` shows the new items to the user, and consent accepts all of them and the folder. Without
    it, only items that git does not have are recorded, in a folder that was accepted before. The
    server is recorded if every item that it would `run` is.
    """
    if is_below_launch():
        return []
    record = read_record(root)
    new = [item for item in items if item.needs_approval(record)]
    verified = delegated(root, new)
    new = [
        item
        for item in new
        if item.digest not in verified and not (item.setting and _is_own(root, item, record, None))
    ]
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
        listed = "\n".join(f"  {one_line(item.shown)}" for item in ordered)
        hint = 'review and approve with "ralphgen trust"'
        warnings.append(f"not approved on this machine yet{stops}:\n{listed}\nhint: {hint}")
    return warnings


def _is_own(root: Path, item: TrustItem, record: Record, ask: Ask | None) -> bool:
    """Return whether a new item is the user's own, if the user was not asked about it."""
    return ask is None and record.is_of_folder and not _is_held(root, item)


def _is_held(root: Path, item: TrustItem) -> bool:
    """Return whether git may have brought the item, so someone else may have written it.

    The user's own line next to an item of the config does not make the item the user's. An edit is
    the user's only if git's own version of the file was accepted: git may have written the rest. A
    database that is committed counts as a whole.
    """
    if not item.file:
        return False
    path = root / item.file
    data = _data(path)
    if data is None or has_loose_link(path):
        return True
    if item.kind not in (CONTENT, CLIENT) and data.startswith(b"SQLite format 3\0"):
        return committed_texts(path) != ()
    is_known = has_objects_of(path, data) or not _is_base_accepted(root, item)
    if is_known or not (item.file == CONFIG or item.file.startswith(f"{RECIPES}/")):
        return is_known
    texts = recorded_texts(path)
    held = [_digests_in(root, item.file, text) for text in texts or ()]
    return texts is None or any(digests is None or item.digest in digests for digests in held)


def _is_base_accepted(root: Path, item: TrustItem) -> bool:
    """Return whether all items in the file as git's index has it were accepted, if it has it."""
    texts = staged_texts(root / item.file)
    return texts is not None and all(
        any(_is_accepted(root, item, version) for version in (text, lines, _crlf(lines)))
        for text in texts
        for lines in [text.replace(b"\r\n", b"\n")]
    )


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\n", b"\r\n")


def _is_accepted(root: Path, item: TrustItem, text: bytes) -> bool:
    items = _items_as_of(root, item, text)
    if items is None:
        return False
    record = read_record(root)
    left = [
        item
        for item in items
        if item.digest not in record.digests
        and (item.is_asked or not record.settings.keys().isdisjoint(item.setting))
    ]
    return {item.digest for item in left} <= delegated(root, left)


def _digests_in(root: Path, file: str, text: bytes) -> frozenset[str] | None:
    """Return the digests of the items in a version of a file, or None if they are unknown."""
    items = _items_as_of(root, TrustItem("", "", file), text)
    return None if items is None else frozenset(item.digest for item in items)


def _items_as_of(root: Path, item: TrustItem, text: bytes) -> list[TrustItem] | None:
    """Return the items in another version of an item's file, or None if they are unknown."""
    if item.kind:
        return [_whole_item(item.kind, item.name, digest(text), item.shown, item.file)]
    if item.file == CONTEXT:
        found = context_digest_of(text)
        return [TrustItem(found, item.shown, CONTEXT)] if found else []
    if item.file.startswith(f"{PROMPTS}/"):
        words = text.decode(errors="replace").removeprefix(MARK)
        return words_items([Words(item.file, words)], ())
    if item.file != CONFIG:
        return _items_of_recipe(root, item.file, text)
    config = _config_in(text)
    try:
        return None if config is None else _items_in(root, *config)
    except (ValueError, ProjectError, RecursionError):
        return None


def recipe_items(root: Path) -> list[TrustItem]:
    """Return the permissions of the project's recipes, one item each."""
    files = [f"{RECIPES}/{name}" for name in files_by_suffix(root, RECIPES, ".toml")]
    texts = ((file, _data(root / os.fsdecode(file.encode()))) for file in files)
    found = (_items_of_recipe(root, file, text or b"") or () for file, text in texts)
    return [item for items in found for item in items if item.setting]


def _items_of_recipe(root: Path, file: str, text: bytes) -> list[TrustItem] | None:
    """Return the items of a recipe's file, or None if it cannot be read."""
    try:
        whole = text.decode().removeprefix("\ufeff")
        recipe = RecipeFile.model_validate(tomllib.loads(whole))
    except (ValueError, RecursionError):
        return None
    words = recipe.description or "", recipe.prompt or ""
    tools = recipe.model_dump(include={"base", "allow", "narrow", "bind"})
    key = file.removeprefix(f"{RECIPES}/").removesuffix(".toml")
    approved, name = read_record(root).settings, f"recipe {key}"
    is_new = bool(approved) and name not in approved
    permissions = _setting_item(file, name, tools, approved, is_asked=is_new)
    return [permissions, *([_recipe_item(file, *words)] if any(words) else [])]


def _config_in(text: bytes) -> tuple[Config, Mapping[str, Any]] | None:
    """Return the settings in a file and its table `[database]`, or None if it cannot be read."""
    try:
        found = tomllib.loads(text.decode())
        config = config_model(settings_models(KITS)).model_validate(found)
    except (ValueError, ProjectError, RecursionError):
        return None
    return config, found.get("database", {})


def _items_in(root: Path, config: Config, database: Mapping[str, Any]) -> list[TrustItem]:
    """Return the items in settings, with their table `[database]`."""
    items = [
        *(*launch_items(config.launch), *description_items(config.describe)),
        *(*check_items(config.done), *loop_items(config.loop), *notify_items(config.notify)),
        *(*settings_items(root, config), *database_items(root, database)),
    ]
    for name, settings in config.disciplines.items():
        servers = discipline_servers(name, None, settings.mcp_servers, ())
        items += discipline_items(name, servers, config)
    return items


def _use(name: str, entry: Mapping[str, Any]) -> str:
    """Return how a session uses a server: it starts a command, or connects to an address."""
    shown = {
        **dict.fromkeys(entry.get("headers", {}), "…"),
        **{key: _shown_value(key, value) for key, value in entry.get("env", {}).items()},
    }
    named = "".join(f" with {key}={value}" for key, value in shown.items())
    if "url" in entry:
        return f'connects to "{name}" at {public_url(entry["url"])}{named}'
    return f'starts "{name}": {shlex.join([entry["command"], *entry["args"]])}{named}'


def _shown_value(name: str, value: str) -> str:
    """Return the value of a variable, masked if it is a reference or looks like a secret."""
    if is_secret(name) or re.fullmatch(r"\$\{\w*\}", value):
        return "…"
    return shlex.quote(masked_text(value))


def _version(manifest: bytes) -> object:
    try:
        return json.loads(manifest)["ralphgen"]
    except (ValueError, LookupError, TypeError):
        return None


def _digest(kind: str, facts: object) -> str:
    text = json.dumps([kind, facts], sort_keys=True)
    return sha256(text.encode()).hexdigest()


Servers = Mapping[str, Mapping[str, Any]]
"""Entries of an MCP config, by name."""


def own_items(
    project: Project,
    servers: Mapping[str | None, Servers],
    words: Sequence[TrustItem],
    work_tree: Path,
) -> list[TrustItem]:
    """Return the items that a session requires, besides the server.

    `servers` are the servers of disciplines, by discipline; `words` are the project's instructions
    to agents. Clients and agents work in `work_tree`.
    """
    config = project.settings
    return [
        *launch_items(config.launch),
        *run_items(project),
        *loop_items(config.loop),
        *notify_items(config.notify),
        *(item for item in file_items(project.root) if not _is_query(item)),
        *client_items(work_tree),
        *content_items(work_tree),
        *words,
        *(
            item
            for discipline, entries in servers.items()
            for item in discipline_items(discipline, entries, config)
        ),
    ]


def run_items(project: Project) -> list[TrustItem]:
    """Return the parts that the project's server runs, reaches or shows to its clients."""
    root, config = project.root, project.settings
    return [
        *check_items(config.done),
        *tool_items(root),
        *(item for item in file_items(root) if _is_query(item)),
        *description_items(config.describe),
        *context_items(root),
        *settings_items(root, config),
        *recipe_items(root),
        *database_items(root),
    ]


def _is_query(item: TrustItem) -> bool:
    return item.file.startswith(f"{QUERIES}/")


def own_file_items(project: Project) -> list[TrustItem]:
    """Return the items that every session requires, besides the server."""
    root, config = project.root, project.settings
    with open_rows(root) as rows:
        names = dict.fromkeys([*rows.names("disciplines"), *config.disciplines])
        servers: dict[str | None, Servers] = {
            name: servers_of(name, config, rows) for name in names
        }
    words = words_items(read_words(root, prompt_names(root)), project.facts.recipes)
    return own_items(project, servers, words, root)


def worker_items(project: Project) -> list[TrustItem]:
    """Return the items that a clone without the database requires: it starts no server."""
    root = project.root
    words = words_items(read_words(root, prompt_names(root)), read_recipes(root))
    git = git_items(root, remote=project.settings.uses_remote)
    return [*own_items(project, {}, words, root), *git]


def items_of(root: Path, discipline: str) -> list[TrustItem]:
    """Return the MCP servers of one discipline; raise `ProjectError` if they are unreadable."""
    config = read_settings(root)
    with open_rows(root) as rows:
        return discipline_items(discipline, servers_of(discipline, config, rows), config)


def servers_of(
    discipline: str | None, config: Config, rows: ProjectRows
) -> dict[str, dict[str, Any]]:
    """Return a discipline's MCP servers, as entries of an MCP config.

    Raises `ProjectError` if they cannot be read.
    """
    if discipline is None:
        return {}
    settings = config.disciplines.get(discipline)
    configured = settings.mcp_servers if settings is not None else {}
    reserved = tuple(kit.key for kit in KITS)
    return discipline_servers(discipline, rows.mcp_servers(discipline), configured, reserved)


def hidden_in(root: Path) -> frozenset[str]:
    """Return the columns that the settings hide, as `table.column`, in lower case."""
    settings = read_settings(root)
    return frozenset(map(str.lower, (*settings.db_schema.hide, *hidden_columns(settings))))


@contextmanager
def recorded_writes(root: Path, places: Iterable[Path]) -> Iterator[None]:
    """Record the files that a command of the user writes in the block, at or below places.

    A file that was not trusted before remains untrusted, since the command wrote only a part of it.
    Raises `UntrustedError` if a link that is not the user's own leads a place out of the project.
    """
    for place in places:
        refuse_foreign_link(root, place)
    before = {item.file for item in untrusted(root, _watched_items(root))}
    try:
        yield
    finally:
        if not is_below_launch():
            record_items(root, [item for item in _watched_items(root) if item.file not in before])


def _watched_items(root: Path) -> list[TrustItem]:
    return [*file_items(root), *client_items(root), *content_items(root)]


DATA_SETTINGS = (
    r"(user|author|committer)\..*",
    r"commit\.gpgsign",
    r"core\.(autocrlf|eol|safecrlf|filemode|ignorecase|symlinks|precomposeunicode|protecthfs)",
    r"core\.(protectntfs|longpaths|trustctime|checkstat|whitespace|sharedrepository)",
    r"core\.(bigfilethreshold|compression|logallrefupdates|excludesfile)",
    r"filter\..*\.required",
    r"lfs\.(repositoryformatversion|.*\.(access|locksverify))",
    r"merge\.(renames|conflictstyle|renamelimit)",
    r"remote\..*\.(fetch|push|tagopt|prune|promisor|partialclonefilter)",
    r"extensions\.partialclone",
)
PROGRAM_SETTINGS = (
    r"filter\..*\.(clean|smudge|process)",
    r"merge\..*\.driver",
    r"gpg\..*",
    r"lfs\..*",
    ATTRIBUTES,  # these choose filters, and how files are checked out
)
REMOTE_SETTINGS = (
    *(r"remote\..*", r"core\.(sshcommand|gitproxy)", r"ssh\..*"),
    *(r"credential\..*", r"http\..*", r"url\..*"),
)
ADDRESSES = (r"remote\..*\.(url|pushurl)",)
# Another kind of address is a path, whose repository has hooks, or names a program of git.
NETWORK_ADDRESS = re.compile(r"(https?|ssh|git)://.*|[^/:]+@[^/:]+:(?!:).*", re.DOTALL)


def git_items(root: Path, *, remote: bool) -> list[TrustItem]:
    """Return the settings of the repository that may name a program, and that git would use.

    Settings that are only for a remote count if the project has one.
    """
    kinds = (*PROGRAM_SETTINGS, *REMOTE_SETTINGS) if remote else PROGRAM_SETTINGS
    return [
        TrustItem(
            _setting_digest(key, value), f'git uses {key} = "{value}" from the repository\'s config'
        )
        for key, value in dict.fromkeys(settings_of(root))
        if not _is_data(key, value) and _matches(key, kinds)
    ]


def trusted_settings(root: Path) -> list[tuple[str, str]]:
    """Return the repository's settings that git may use: harmless and trusted ones.

    A relative path of a remote becomes absolute: git runs in another folder.
    """
    trusted = read_record(root).digests
    return [
        (key, _absolute(root, value) if _matches(key, ADDRESSES) else value)
        for key, value in settings_of(root)
        if _is_data(key, value)
        or (
            _matches(key, (*PROGRAM_SETTINGS, *REMOTE_SETTINGS))
            and _setting_digest(key, value) in trusted
        )
    ]


def _absolute(root: Path, address: str) -> str:
    """Return an address of a remote, with a path from the top of the main worktree."""
    tree = repository_of(str(root))
    is_path = ":" not in address.partition("/")[0]  # as git decides
    return str(Path(home_top(tree), address)) if is_path and tree is not None else address


def _is_data(key: str, value: str) -> bool:
    is_address = _matches(key, ADDRESSES)
    return _matches(key, DATA_SETTINGS) or (
        is_address and NETWORK_ADDRESS.fullmatch(value) is not None
    )


def _matches(key: str, kinds: tuple[str, ...]) -> bool:
    return any(re.fullmatch(kind, key, re.IGNORECASE | re.DOTALL) for kind in kinds)


def _setting_digest(key: str, value: str) -> str:
    return sha256_hex(json.dumps(["git", [key, value]]).encode())
