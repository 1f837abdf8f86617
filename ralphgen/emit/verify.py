"""Compares generated files with their manifest before any of them runs."""

from pathlib import Path

from ralphgen.errors import RalphgenError
from ralphgen.files import MANIFEST, digest, is_there, listed, read_files, refuse_irregular
from ralphgen.project.approvals import STARTED
from ralphgen.project.root import FOLDER

TRUST_EDITED = "--trust-edited"


class UntrustedError(RalphgenError):
    """A project would run something that the user has not trusted on this machine."""

    exit_code = 2


def refuse_edited(folder: Path) -> None:
    """Raise `UntrustedError` if generated files were edited.

    A manifest must list the files that start a server; otherwise they could change without changing
    the trusted manifest. Raises `ProjectError` if another kind of file is in place of one.
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
