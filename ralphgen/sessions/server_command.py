"""The command line of a project's server, once it may start.

Each start of `ralphgen serve` makes it, so that this module imports little.
"""

from __future__ import annotations

import os

from ralphgen.environment.program import server_program
from ralphgen.project.approvals import RUNNING, STARTED, context_digest, read_record
from ralphgen.project.lookup import FOLDER, has_usual_database
from ralphgen.runtime.encoding import read_json, sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from ralphgen.errors import ProjectError, Say


def server_command(
    root: str | Path, kits: Collection[str] = (), *, trust_edited: bool, say: Say
) -> tuple[str, ...]:
    """Return the command that starts the server of the project in `root`; add kit and options.

    `kits` are the kits that it will serve. An interrupted write is finished, and a missing
    environment is built; `say` gets the progress. Raises `UntrustedError` for a server that is
    neither on record nor what ralphgen writes, and `ProjectError` for a database outside of the
    project that is not on record.
    """
    folder = os.path.join(root, FOLDER)
    if os.path.exists(os.path.join(folder, ".commit")):  # until then, the server refuses to start
        from pathlib import Path

        from ralphgen.emit.write import finish_interrupted

        finish_interrupted(Path(folder))
    _require_trust(root, kits, trust_edited=trust_edited)
    return server_program(folder, say)


def no_http() -> ProjectError:
    """Return the error of a project without the settings of HTTP."""
    from ralphgen.errors import ProjectError

    hint = 'add [http] with its url to .ralph/ralphgen.toml, then run "ralphgen regen"'
    return ProjectError("this project is not served over HTTP", hint)


def _require_trust(root: str | Path, kits: Collection[str], *, trust_edited: bool) -> None:
    if not has_usual_database(str(root)):
        from pathlib import Path

        from ralphgen.project.root import refuse_outside_database

        refuse_outside_database(Path(root))
    recorded = _recorded_kits(root, trust_edited=trust_edited)
    if recorded is None:
        from pathlib import Path

        from ralphgen.sessions.create import require_server

        require_server(Path(root), kits, trust_edited=trust_edited)
    elif RUNNING & ({*kits} or recorded):  # the common start imports little
        from pathlib import Path

        from ralphgen.sessions.create import require_content

        require_content(Path(root), kits)


def _recorded_kits(root: str | Path, *, trust_edited: bool) -> set[str] | None:
    """Return the kits of the manifest if it is on record and lists the files that start the server.

    The files are not compared if edited ones are trusted.
    """
    folder = os.path.join(root, FOLDER)
    try:
        manifest = _read(os.path.join(folder, "manifest.json"))
        if not {sha256_hex(manifest), context_digest(root)} <= {*read_record(root).digests, ""}:
            return None
        facts = read_json(manifest.decode())
        for path in () if trust_edited else STARTED:
            digest = facts["files"].get(path)
            if digest and digest != sha256_hex(_read(os.path.join(folder, path))):
                return None
        return {*facts["tools"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
