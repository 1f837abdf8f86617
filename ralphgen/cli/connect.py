"""The command that connects an MCP client with the project."""

import shlex
import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.cli.completion import complete_clients, complete_recipes
from ralphgen.cli.recipes import RecipeCommand
from ralphgen.errors import Say, UsageError, plain
from ralphgen.terminal.app import App, Project, Quiet, ShellCommand
from ralphgen.terminal.console import progress, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.emit.clients import ClientForm
    from ralphgen.emit.connected import ConnectTarget
    from ralphgen.kits.project import Project as Inspected

app = App()
CONNECT = """\
Add the project's servers to Claude Code, Codex, Cursor, …

With --skills, --subagents, --plugin, --gate or --agents-md, write only those files.
"ralphgen regen" keeps all files up to date, and "ralphgen check" compares them."""


class ConnectCommand(RecipeCommand):
    """A command whose help lists the recipes, although its first argument is a client."""

    parse_args = ShellCommand.parse_args


@app.command(
    cls=ConnectCommand, help=CONNECT, example="ralphgen connect claude --skills --agents-md"
)
def connect(
    client: Annotated[
        str,
        typer.Argument(
            metavar="CLIENT",
            help="claude, cursor, vscode, codex, gemini, opencode, zed, windsurf or desktop.",
            autocompletion=complete_clients,
        ),
    ],
    skills: Annotated[
        bool, typer.Option("--skills", help="Write Agent Skills to .claude/skills/.")
    ] = False,
    subagents: Annotated[
        bool,
        typer.Option("--subagents", help="Write a subagent per agent role to .claude/agents/."),
    ] = False,
    plugin: Annotated[
        bool, typer.Option("--plugin", help="Write a plugin to .ralph/plugin/.")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Write a Stop hook that proves the files.")
    ] = False,
    agents_md: Annotated[
        bool, typer.Option("--agents-md", help="Write a section about the servers into AGENTS.md.")
    ] = False,
    prints: Annotated[
        bool, typer.Option("--print", help="Print the texts without writing them.")
    ] = False,
    user: Annotated[
        bool,
        typer.Option("--user", help="Write your own settings of the client, with full paths."),
    ] = False,
    http: Annotated[
        str, typer.Option("--http", metavar="URL", help="URL of the HTTP server.")
    ] = "",
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Recipe of clients without a session.",
            autocompletion=complete_recipes,
        ),
    ] = "",
    project: Project = Path(),
    quiet: Quiet = False,
) -> None:
    """Write the files of an MCP client, and record them as trusted."""
    from ralphgen.emit.clients import AGENTS_MD, GATE, PLUGIN, SKILLS, SUBAGENTS, client_form
    from ralphgen.kits.project import Project as Inspected
    from ralphgen.project.root import project_root, write_root

    chosen = {SKILLS: skills, SUBAGENTS: subagents, PLUGIN: plugin, GATE: gate}
    chosen |= {AGENTS_MD: agents_md}
    kinds = [kind for kind, wanted in chosen.items() if wanted]
    form = client_form(client, personal=user)
    _refuse_unsupported(client, form, kinds)
    if kinds and (http or recipe or user):
        text = '"--http", "--recipe" and "--user" are for the client\'s configuration'
        raise UsageError(text, f"leave out --{kinds[0]}")
    if http and user:
        raise UsageError('"--user" writes a path of this machine, "--http" a URL', "choose one")
    if prints and recipe:
        raise UsageError('"--print" writes nothing, and "--recipe" does', "leave out one of them")
    root = project_root(project) if prints else write_root(project, "connect")
    inspected = Inspected(root)
    targets, is_local = _targets(inspected, client, kinds, http, user=user)
    if prints:
        _print(targets)
        return
    tell = progress(quiet)
    if recipe:
        _set_recipe(inspected, recipe, tell)
    _write(root, targets, tell)
    if user and not form.by_project:
        _warn_of_shared(inspected, client)
    if form.note and not kinds:
        tell(f"note: {form.note}")
    if gate and client == "codex":
        tell("next: start Codex and trust the hook with /hooks")
    if plugin:
        tell("next: claude --plugin-dir .ralph/plugin")
    if not kinds and not http:
        _tell_recipe(root, project, tell)
    if is_local and not which("ralphgen"):
        from ralphgen.cli.project import NOT_ON_PATH

        text, hint = NOT_ON_PATH
        own = shlex.join(["ralphgen", "connect", client, "--user", *_place(project)])
        say(f"warning: {text}\nhint: {hint if kinds else own}")


def _refuse_unsupported(client: str, form: "ClientForm", kinds: "Sequence[str]") -> None:
    """Raise `UsageError` for a kind of file that the client does not read."""
    from ralphgen.emit.clients import CLIENTS

    for kind in kinds:
        if kind not in form.files:
            readers = ", ".join(name for name in CLIENTS if kind in CLIENTS[name].files)
            raise UsageError(f"{client} does not use --{kind}", f"clients that do: {readers}")


def _targets(
    inspected: "Inspected",
    client: str,
    kinds: "Sequence[str]",
    http: str,
    *,
    user: bool,
) -> "tuple[list[ConnectTarget], bool]":
    """Return the files to write, and whether one of them starts the ralphgen on PATH."""
    from ralphgen.emit.clients import GATE, ClientEntries
    from ralphgen.emit.connected import client_file, gate_file, targets
    from ralphgen.project.config import is_public_url

    plan = inspected.plan
    if kinds:
        found = [[gate_file(client)] if one == GATE else targets(one, inspected) for one in kinds]
        return [target for some in found for target in some], True
    if http and not is_public_url(http):
        text = f'invalid URL "{http}"'
        raise UsageError(text, "use the url of [http], such as https://mcp.example.com/mcp")
    remote = {kit.key: f"{http}/{kit.key}" for kit in plan.kits if http and kit.http is not None}
    kits = [kit.key for kit in plan.kits]
    entries = ClientEntries(client, inspected.root, kits, remote, personal=user)
    return [client_file(entries)], len(remote) < len(kits) and not entries.form.personal


def _print(targets: "Sequence[ConnectTarget]") -> None:
    """Print the texts; several ones with their paths."""
    texts = {path: text for target in targets for path, text in target.texts.items()}
    for path, text in texts.items():
        sys.stdout.write(text if len(texts) == 1 else f"==> {path} <==\n{text}")


def _write(root: Path, targets: "Sequence[ConnectTarget]", tell: Say) -> None:
    """Write the files and record them as trusted."""
    from ralphgen.emit.connected import write_targets
    from ralphgen.emit.trust import recorded_writes

    with recorded_writes(root, [root / target.path for target in targets]):
        for target, changed in write_targets(root, targets):
            count = f" ({changed} files)" if len(target.texts) > 1 else ""
            tell(f"wrote {target.path}{count}" if changed else f"{target.path} is up to date")


def _warn_of_shared(inspected: "Inspected", client: str) -> None:
    """Print a warning if the project's file has servers of the same names."""
    from ralphgen.emit.clients import CLIENTS, file_entries

    root, kits = inspected.root, [kit.key for kit in inspected.plan.kits]
    if not CLIENTS[client].personal and (shared := file_entries(client, root, kits)):
        path = shared.file.relative_to(root).as_posix()
        say(f"warning: {path} has the same servers, and {client} may prefer them")


def _set_recipe(inspected: "Inspected", recipe: str, tell: Say) -> None:
    """Change the recipe of clients without a session, which are not about a row."""
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.runtime.policy import REQUIRED
    from ralphgen.sessions.create import create_default_context
    from ralphgen.sessions.decide import Request

    needs = {
        name: [kind for kind, need in one.targets.items() if need == REQUIRED]
        for name, one in inspected.plan.policy.recipes.items()
    }
    if needs.get(recipe):
        usable = ", ".join(name for name in needs if not needs[name])
        text = f'the recipe "{plain(recipe)}" is for a session on a {needs[recipe][0]}'
        raise UsageError(text, f"clients without a session can have: {plain(usable)}")
    _, warnings = create_default_context(
        inspected.root, Request(recipe), say=tell, ask=confirm_trust
    )
    for warning in warnings:
        say(f"warning: {plain(warning)}")


def _tell_recipe(root: Path, named: Path, tell: Say) -> None:
    """Print the recipe of clients without a session; if it only reads, how to change it."""
    from ralphgen.cli.next_steps import default_recipe

    recipe, wider = default_recipe(root)
    if not recipe:
        return  # the server itself refuses a context that cannot be read
    read_only = ", which only reads" if wider else ""
    tell(f'clients without a session get the recipe "{plain(recipe)}"{read_only}')
    if wider:
        command = shlex.join(["ralphgen", "session", "create", wider, "--default", *_place(named)])
        tell(f"to let them change rows: {command}")


def _place(project: Path) -> list[str]:
    """Return the option of a command that names the project."""
    return [] if project == Path() else ["-C", str(project)]
