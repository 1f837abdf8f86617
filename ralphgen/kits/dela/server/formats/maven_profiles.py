"""Decides which profiles of a pom.xml are active, by its folder, the settings and the JDK."""

from __future__ import annotations

import os
import re
import sys

from ..folder import UnreadableError
from ..runners import inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from ..folder import Folder

_OF_JAVA = re.compile(r"(?:java|sun|os|user|file|line|path|jdk|native|maven|project)\..*")
_RANGE = re.compile(r"([\[(])([^,\])]*),([^,\])]*)[\])]")
_VARIABLE = re.compile(r"\$\{([^${}]+)\}")
_VERSION = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_FAMILIES = {"linux": ("unix",), "darwin": ("unix", "mac"), "win32": ("windows",)}
_SYSTEMS = {"linux": "linux", "darwin": "mac os x"}
_MACHINES = {"x86_64": "amd64", "arm64": "aarch64"}


class Profiles:
    """The profiles and properties that are given to Maven, and what it runs on.

    These are those of the nearest `.mvn/maven.config` and `.mvn/jvm.config`, and of the variables
    MAVEN_OPTS and MAVEN_ARGS.
    """

    __slots__ = ("_environment", "_folder", "_off", "_on", "properties")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._environment: Mapping[str, str] = inherited(folder)
        texts = [_nearest(folder, name) for name in ("jvm.config", "maven.config")]
        texts += [self._environment.get(name, "") for name in ("MAVEN_OPTS", "MAVEN_ARGS")]
        words = re.sub(r"(?<!\S)(-P|--activate-profiles)[\s=]*", "-P", "\n".join(texts)).split()
        given = [word[2:].partition("=") for word in words if word.startswith("-D")]
        self.properties = {name: value for name, _, value in given}
        named = [name for word in words if word.startswith("-P") for name in word[2:].split(",")]
        self._off = {name[1:] for name in named if name.startswith(("!", "-"))}
        self._on = {name.lstrip("+?") for name in named} - {"", *self._off}

    def active(self, profiles: Sequence[Element], base: str) -> list[Element]:
        """Return the profiles of a pom.xml that are active for the project in `base`, or may be."""
        states = [(profile, self._state(profile, base)) for profile in profiles]
        is_any_active = any(state is True for _, state in states)
        return [
            profile
            for profile, state in states
            if state is not False and (state != "by default" or not is_any_active)
        ]

    def _state(self, profile: Element, base: str) -> bool | str | None:
        """Return whether a profile is active; None where only Maven knows."""
        name = text_of(profile, "id")
        if name in self._on | self._off:
            return name in self._on
        parts = {tag_of(part): part for part in below(profile, "activation") for part in part}
        by_default = parts.pop("activeByDefault", None)
        found = [self._holds(kind, part, base) for kind, part in parts.items()]
        state = False if False in found else None if None in found else bool(found)
        is_default = by_default is not None and (by_default.text or "").strip() == "true"
        return "by default" if is_default and state is False else state

    def _holds(self, kind: str, part: Element, base: str) -> bool | None:
        if kind == "jdk":
            return self._is_jdk((part.text or "").strip())
        if kind == "property":
            return self._has_property(text_of(part, "name"), text_of(part, "value"))
        if kind == "file":
            exists, missing = text_of(part, "exists"), text_of(part, "missing")
            is_there = self._is_there(exists or missing, base)
            return is_there if exists or is_there is None else not is_there
        return _is_system(part) if kind == "os" else None

    def _is_jdk(self, wanted: str) -> bool | None:
        version = _jdk(self._environment)
        if version is None:
            return None
        bounds = _RANGE.fullmatch(wanted)
        if bounds is None and wanted.startswith(("[", "(")):
            return None
        if bounds is None:
            is_not = wanted.startswith("!")
            return version.startswith(wanted[is_not:]) != is_not
        opening, low, high = bounds.groups()
        own = _numbers(version)
        is_above = not low or own > _numbers(low) or (opening == "[" and own >= _numbers(low))
        is_below = not high or own < _numbers(high) or (wanted[-1] == "]" and own <= _numbers(high))
        return is_above and is_below

    def _has_property(self, name: str, wanted: str) -> bool | None:
        is_not, plain = name.startswith("!"), name.removeprefix("!")
        if plain.startswith("env."):
            value = self._environment.get(plain.removeprefix("env."), "")
        elif plain not in self.properties and _OF_JAVA.fullmatch(plain):
            return None
        else:
            value = self.properties.get(plain, "")
        if not wanted:
            return bool(value) != is_not
        return (value == wanted.removeprefix("!")) != wanted.startswith("!")

    def _is_there(self, given: str, base: str) -> bool | None:
        """Return whether a file is there; None for one that is not in the project, or unknown."""
        known = {"basedir": base, **self.properties}
        text = _VARIABLE.sub(lambda found: known.get(found[1], found[0]), given)
        path = os.path.normpath(os.path.join(base, text))
        if not text or "${" in text or not text.isprintable() or not self._folder.is_inside(path):
            return None
        self._folder.look(path)
        return os.path.exists(path)


def _nearest(folder: Folder, name: str) -> str:
    places = (os.path.join(place, ".mvn", name) for place in folder.upwards())
    path = next(filter(folder.is_file, places), None)
    try:
        return folder.text(path) if path else ""
    except UnreadableError as error:
        folder.report(error.path, error.why)
        return ""


def _jdk(environment: Mapping[str, str]) -> str | None:
    """Return the version of the JDK that Maven runs on, which is in a file of it."""
    from shutil import which

    home = environment.get("JAVA_HOME")
    program = None if home else which("java", path=environment.get("PATH", ""))
    place = home or (program and os.path.dirname(os.path.dirname(os.path.realpath(program))))
    if not place:
        return None
    try:
        with open(os.path.join(place, "release"), encoding="utf-8") as file:
            found = _VERSION.search(file.read(1 << 16))
    except (OSError, ValueError):
        return None
    return found[1] if found else None


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version, without zeros at its end."""
    found = [int(part) for part in re.findall("[0-9]{1,18}", version)]
    while found and not found[-1]:
        found.pop()
    return found


def _is_system(part: Element) -> bool | None:
    """Return whether the machine is one that is described; None where only Java knows."""
    known = {
        "family": _FAMILIES.get(sys.platform),
        "name": (_SYSTEMS[sys.platform],) if sys.platform in _SYSTEMS else None,
        "arch": (_MACHINES.get(os.uname().machine, os.uname().machine),),
    }
    states: list[bool | None] = []
    for entry in part:
        wanted, own = (entry.text or "").strip().lower(), known.get(tag_of(entry))
        is_not = wanted.startswith("!")
        states.append(None if own is None else (wanted[is_not:] in own) != is_not)
    return False if False in states else None if None in states else bool(states)


def below(element: Element, *names: str) -> list[Element]:
    """Return the elements at the end of a path of local names, in order."""
    found = [element]
    for name in names:
        found = [child for parent in found for child in parent if tag_of(child) == name]
    return found


def text_of(element: Element, name: str) -> str:
    """Return the text of the first child of a local name; empty where there is none."""
    child = next(iter(below(element, name)), None)
    return "" if child is None else (child.text or "").strip()


def tag_of(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]
