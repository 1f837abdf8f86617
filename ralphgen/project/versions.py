"""Which ralphgen may write a project's server: what the config requires, and who wrote it last.

Of a version only the release part counts: `0.2.0` of `0.2.0.dev1`.
"""

import json
import operator
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from ralphgen import __version__
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.project.root import FOLDER

Release = tuple[int, ...]
RELEASE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
CLAUSE = re.compile(
    rf"(==|!=|~=|<=|>=|<|>)\s*({RELEASE.pattern})(\.\*)?(?:\.?(?:a|b|rc|post|dev)[0-9]+)*"
)
COMPARED: dict[str, Callable[[Release, Release], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class VersionError(RalphgenError):
    """Another ralphgen has to write this project (exit code 2)."""

    exit_code = 2


def _checked(text: str) -> str:
    """Return a range of versions; raise PydanticCustomError for what is none."""
    if not is_specifier(text):
        blank = not all(part.strip() for part in text.split(","))
        words = "versions of ralphgen on both sides of a comma" if blank else "versions of ralphgen"
        raise PydanticCustomError("versions", f'{words}, such as ">=0.2,<0.3"')
    return text


Specifier = Annotated[str, AfterValidator(_checked)]


def is_specifier(text: str) -> bool:
    """Return whether a text is what `requires` may be, such as `>=0.2,<0.3` (PEP 440)."""
    clauses = [CLAUSE.fullmatch(part.strip()) for part in text.split(",")]
    return all(clause is not None and _is_sound(*clause.groups()) for clause in clauses)


def contains(specifier: str, version: Release) -> bool:
    """Return whether each clause of a specifier holds for a release."""
    clauses = (CLAUSE.fullmatch(part.strip()) for part in specifier.split(","))
    return all(clause is not None and _holds(version, *clause.groups()) for clause in clauses)


def release(version: str) -> Release | None:
    """Return the numbers of a version's release, without zeros at its end; None of what is none."""
    found = RELEASE.match(version)
    return _trimmed(found[0]) if found else None


def _is_sound(sign: str, version: str, star: str | None) -> bool:
    """Return whether a clause has a meaning: `~=` wants two numbers, `.*` an equation."""
    if star:
        return sign in {"==", "!="}
    return sign != "~=" or "." in version


def _holds(found: Release, sign: str, version: str, star: str | None) -> bool:
    parts = tuple(map(int, version.split(".")))
    if sign == "~=":
        return found >= _trimmed(version) and _padded(found, len(parts))[:-1] == parts[:-1]
    if sign in {"==", "!="}:
        equal = _padded(found, len(parts)) == parts if star else found == _trimmed(version)
        return equal == (sign == "==")
    return COMPARED[sign](found, _trimmed(version))


def _trimmed(version: str) -> Release:
    return tuple(map(int, re.sub(r"(\.0+)+$", "", version).split(".")))


def _padded(version: Release, length: int) -> Release:
    return (*version, *[0] * length)[:length]


def written_by(manifest: bytes) -> str:
    """Return the version of the ralphgen that wrote a manifest; empty where it does not say."""
    try:
        return str(json.loads(manifest)["ralphgen"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def refuse_unwanted(root: Path, config: str) -> None:
    """Raise `VersionError` where the project in `root` requires another ralphgen than this one.

    `config` is the path of its settings, which are read as far as they can be: a later version may
    have keys that this one does not know. What is wrong with them is told where they are read
    whole.
    """
    try:
        wanted = tomllib.loads((root / config).read_text(encoding="utf-8-sig"))["requires"]
    except (OSError, ValueError, LookupError, RecursionError):
        return
    here = release(__version__)
    if not isinstance(wanted, str) or not is_specifier(wanted) or here is None:
        return
    if not contains(wanted, here):
        text = f'{config}: "requires" is "{wanted}", and this is ralphgen {__version__}'
        raise VersionError(text, f"install a ralphgen {wanted}")


def refuse_older(version: str) -> None:
    """Raise `VersionError` where a server was written by a later release than this one."""
    if _compared(version) > 0:
        raise VersionError(
            f"{FOLDER} was written by {version}, this is {__version__}",
            'install that or a later one; "ralphgen regen --force" goes back to this one',
        )


def refuse_earlier(version: str) -> None:
    """Raise `ProjectError` where a server was written by an earlier release than this one."""
    if is_earlier(version):
        raise ProjectError(
            f"{FOLDER} was written by {version}, this is {__version__}",
            'run "ralphgen upgrade", which shows what changes and then writes it',
        )


def is_earlier(version: str) -> bool:
    """Return whether a version is of an earlier release than this ralphgen."""
    return _compared(version) < 0


def _compared(version: str) -> int:
    """Return -1, 0 or 1 as a version is of an earlier, the same or a later release than this."""
    found, here = release(version), release(__version__)
    if found is None or here is None:
        return 0
    return (found > here) - (found < here)
