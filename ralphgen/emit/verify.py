"""Compares generated files with their manifest before any of them runs."""

from pathlib import Path

from ralphgen.errors import RalphgenError
from ralphgen.files import MANIFEST, digest, is_there, listed, read_files, refuse_irregular
from ralphgen.project.approvals import STARTED
from ralphgen.project.root import FOLDER

TRUST_EDITED = "--trust-edited"


class UntrustedError(RalphgenError):
    """A project would make a person run what nobody on this machine has said yes to."""

    exit_code = 2


def refuse_edited(folder: Path) -> None:
    """Raise `UntrustedError` where generated files are not as they were generated.

    Where the manifest left out what starts a server, that could change under a record of the
    manifest. Raises `ProjectError` where something else stands in place of a file.
    """
    digests = listed(folder) or {}
    unlisted = [path for path in STARTED if path not in digests and is_there(folder / path)]
    if unlisted:
        raise UntrustedError(
            f"{FOLDER}/{MANIFEST} does not list {', '.join(unlisted)}",
            'restore it, or run "ralphgen regen --force"',
        )
    refuse_irregular(folder, digests)
    disk = read_files(folder, digests)
    edited = [
        path for path, known in digests.items() if path not in disk or digest(disk[path]) != known
    ]
    if edited:
        raise UntrustedError(
            f"generated files in {FOLDER} were edited: {', '.join(edited)}",
            'restore the files, or run "ralphgen regen --force"; to accept your own edits, '
            f"pass {TRUST_EDITED}",
        )
