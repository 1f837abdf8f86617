"""Decides which settings of a project's own repository count when ralphgen runs git with filters.

Settings that cannot name a program always count. Those that can, count once you trust them. All
others never do, and a repository's hooks never run.
"""

import json
import re
from pathlib import Path

from ralphgen.project.approvals import read_record
from ralphgen.project.git import settings_of
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.files.git import ATTRIBUTES
from ralphgen.trust.decide import TrustItem

DATA = (
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
PROGRAMS = (
    r"filter\..*\.(clean|smudge|process)",
    r"merge\..*\.driver",
    r"gpg\..*",
    r"lfs\..*",
    ATTRIBUTES,  # these choose filters, and how files are checked out
)
FOR_A_REMOTE = (
    *(r"remote\..*", r"core\.(sshcommand|gitproxy)", r"ssh\..*"),
    *(r"credential\..*", r"http\..*", r"url\..*"),
)
# Another kind of address is a path, whose repository has hooks, or names a program of git.
NETWORK = re.compile(r"(https?|ssh|git)://.*|[^/:]+@[^/:]+:(?!:).*", re.DOTALL)


def git_items(root: Path, *, remote: bool) -> list[TrustItem]:
    """Return the settings of the repository that may name a program, and that git would use.

    Settings that are only for a remote count if the project has one.
    """
    kinds = (*PROGRAMS, *FOR_A_REMOTE) if remote else PROGRAMS
    return [
        TrustItem(_digest(key, value), f'git uses {key} = "{value}" from the repository\'s config')
        for key, value in dict.fromkeys(settings_of(root))
        if not _is_data(key, value) and _matches(key, kinds)
    ]


def trusted_settings(root: Path) -> list[tuple[str, str]]:
    """Return the settings of the repository that git may use: data, and what you trust."""
    trusted = read_record(root).digests
    return [
        (key, value)
        for key, value in settings_of(root)
        if _is_data(key, value)
        or (_matches(key, (*PROGRAMS, *FOR_A_REMOTE)) and _digest(key, value) in trusted)
    ]


def _is_data(key: str, value: str) -> bool:
    is_address = _matches(key, (r"remote\..*\.(url|pushurl)",))
    return _matches(key, DATA) or (is_address and NETWORK.fullmatch(value) is not None)


def _matches(key: str, kinds: tuple[str, ...]) -> bool:
    return any(re.fullmatch(kind, key, re.IGNORECASE | re.DOTALL) for kind in kinds)


def _digest(key: str, value: str) -> str:
    return sha256_hex(json.dumps(["git", [key, value]]).encode())
