"""In which session a call runs: the one that it is made from, or one for this call alone."""

import ast
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ralphgen.errors import ProjectError, UsageError, plain
from ralphgen.project.root import FOLDER
from ralphgen.project.rows import open_rows
from ralphgen.runtime.context import BY_COMMAND
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.values.encoding import sha256_hex
from ralphgen.sessions.decide import Request, context_facts, decide_subject, project_facts
from ralphgen.sessions.store import MCP_CONFIG, session_folder

HINT = 'run "ralphgen regen"'
Options = tuple[str, ...]
"""What stands behind the kit on the command line of a server."""


def read_policy(root: Path, *, trust_edited: bool) -> Policy:
    """Return the policy that was generated for the project in `root`: read as data, never run.

    Raises `ProjectError` where there is none, where it was edited and that is not trusted, and
    where another ralphgen has written one that this one does not know.
    """
    path = root / FOLDER / "policy.py"
    try:
        text = path.read_bytes()
        manifest = _manifest(root)
        edited = sha256_hex(text) != manifest["files"]["policy.py"]
        policy = _policy(ast.parse(text))
        policy.name_tools(manifest.get("tools", {}))
    except OSError as error:
        raise ProjectError(f'there is no whole server in "{root / FOLDER}"', HINT) from error
    except (
        *(SyntaxError, ValueError, LookupError, TypeError, AttributeError),
        *(RecursionError, StartError),
    ) as error:
        raise ProjectError(f'"{path}" is not one that this ralphgen writes', HINT) from error
    if edited and not trust_edited:
        raise ProjectError(f'"{path}" is not as it was generated', 'run "ralphgen regen --force"')
    return policy


def own_options(root: Path, session_id: str, kit: str) -> Options:
    """Return the options with which the session of this id starts its server of a kit.

    Raises `UsageError` where the project has no such session, or that session no such server.
    """
    folder = session_folder(root, session_id)
    try:
        data = b"" if folder is None else (folder / MCP_CONFIG).read_bytes()
        servers = json.loads(data)["mcpServers"]
    except (OSError, ValueError, LookupError) as error:
        text = f'this shell belongs to the session "{plain(session_id)}"'
        raise UsageError(
            f'{text}, which is none of the project in "{root}"',
            "run it in a terminal of your own",
        ) from error
    if kit not in servers:
        raise UsageError(
            f'the session "{plain(session_id)}" has no server of the kit "{kit}"',
            f"it has those of {', '.join(servers)}",
        )
    words = [str(word) for word in servers[kit]["args"]]
    return tuple(words[words.index(kit) + 1 :])


@contextmanager
def made_options(
    root: Path, work_tree: Path, policy: Policy, request: Request
) -> Iterator[Options]:
    """The options of servers for one call in a work tree: good until the servers have started.

    Rows made by a call with every tool are on record as the user's, others as an agent's.

    Raises `UsageError` and `ProjectError` as a session of the request would.
    """
    hidden = _manifest(root)["schema"]["hide"]
    with open_rows(root, has_tasks="ralph" in policy.kits) as rows:
        subject = decide_subject(policy, request, rows)
        made_for = project_facts(root, work_tree, rows.identity(hidden))
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"call-{moment}-{os.urandom(4).hex()}"
    facts = context_facts(policy, subject, request.kits or policy.kits, name, made_for)
    facts |= {"user": BY_COMMAND} if policy.profile(subject.base) == FULL else {}
    facts |= {"as_read": asdict(request.as_read)} if request.as_read is not None else {}
    text = json.dumps(facts).encode()
    with TemporaryDirectory(prefix="ralphgen-") as folder:
        path = Path(folder, "context.json")
        path.write_bytes(text)
        yield "--context", str(path), "--sha256", sha256_hex(text)


def _manifest(root: Path) -> dict[str, Any]:
    manifest: dict[str, Any]
    manifest = json.loads((root / FOLDER / "manifest.json").read_bytes())
    return manifest


def _policy(module: ast.Module) -> Policy:
    """Return the policy that the last statement of a module makes.

    Raises `TypeError`, `ValueError` or `LookupError` for a module of another form.
    """
    emitted = module.body[-1]
    if not isinstance(emitted, ast.Assign):
        raise TypeError
    named = _keywords(emitted.value)
    recipes = {
        str(ast.literal_eval(name)): Recipe(
            **{key: ast.literal_eval(value) for key, value in _keywords(recipe).items()}
        )
        for name, recipe in _items(named.pop("recipes"))
    }
    return Policy(recipes=recipes, **{key: ast.literal_eval(value) for key, value in named.items()})


def _keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return what a call is given by name; raises `TypeError` for anything else."""
    if not isinstance(call, ast.Call) or call.args:
        raise TypeError
    return {str(word.arg): word.value for word in call.keywords}


def _items(mapping: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(mapping, ast.Dict):
        raise TypeError
    for key, value in zip(mapping.keys, mapping.values, strict=True):
        if key is not None:
            yield key, value
