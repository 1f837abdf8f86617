"""The command line of a project's server, once it may start."""

import json
from collections.abc import Collection
from pathlib import Path

from ralphgen.errors import ProjectError, Say
from ralphgen.project.approvals import STARTED, context_digest, read_record
from ralphgen.project.root import FOLDER, refuse_outside_database
from ralphgen.runtime.values.encoding import sha256_hex


def server_command(
    root: Path, kits: Collection[str] = (), *, trust_edited: bool, say: Say
) -> tuple[str, ...]:
    """Return what starts the server of the project in `root`: a kit and its options come behind.

    `kits` are those that it will serve.

    An interrupted write is finished, and a missing environment is built; `say` gets the progress.
    Raises `UntrustedError` for a server that is neither on record nor what ralphgen writes, and
    `ProjectError` for a database outside of the project that is not on record.
    """
    folder = root / FOLDER
    if (folder / ".commit").exists():  # until it is finished, the server refuses to start
        from ralphgen.output import finish_interrupted

        finish_interrupted(folder)
    _require_trust(root, kits, trust_edited=trust_edited)
    from ralphgen.environment.ensure import server_program

    return server_program(folder, say)


def no_http() -> ProjectError:
    """Return the error of a project without the settings of HTTP."""
    hint = 'add [http] with its url to .ralph/ralphgen.toml, then run "ralphgen regen"'
    return ProjectError("this project is not served over HTTP", hint)


def _require_trust(root: Path, kits: Collection[str], *, trust_edited: bool) -> None:
    refuse_outside_database(root)
    if not starts_as_recorded(root, trust_edited=trust_edited):
        from ralphgen.sessions.items import require_server

        require_server(root, kits, trust_edited=trust_edited)
    elif set(kits) - {"ralph", "tables"}:  # the common start imports little
        from ralphgen.sessions.items import require_content

        require_content(root, kits)


def starts_as_recorded(root: Path, *, trust_edited: bool) -> bool:
    """Return whether the manifest is on record, and what starts the server is as it says.

    The latter is of no matter where edited files are trusted.
    """
    folder = root / FOLDER
    try:
        manifest = (folder / "manifest.json").read_bytes()
        if not {sha256_hex(manifest), context_digest(root)} <= {*read_record(root).digests, ""}:
            return False
        listed = json.loads(manifest)["files"]
        return trust_edited or all(
            listed[path] == sha256_hex((folder / path).read_bytes())
            for path in STARTED
            if path in listed
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
