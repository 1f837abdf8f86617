"""Finds the phases and goals of a Maven build."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..parsing import read_xml
from ..runners import nearest_program
from ..task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from ..folder import Folder

_PHASES = {
    "clean": "remove what earlier builds made",
    "validate": "check that the project is complete",
    "compile": "compile the sources",
    "test": "run the unit tests",
    "package": "pack what was compiled, into a jar or the like",
    "verify": "run the checks of the whole package",
    "install": "put the package into the local repository",
    "deploy": "put the package into the remote repository",
    "site": "write the site that documents the project",
}
_OWN_GROUP = "org.apache.maven.plugins"  # that of a plugin which names none
_PREFIX = re.compile(r"maven-(?P<own>.+)-plugin|(?P<other>.+)-maven-plugin")
_WORD = re.compile(r"[A-Za-z0-9_][\w.-]*")  # no option, and nothing that is still to be filled in


def maven_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the nine phases, then each goal of a plugin's executions, once, as Maven takes it.

    Raises `UnreadableError` where pom.xml is no project.
    """
    path = folder.first("pom.xml")
    if path is None:
        return
    project = read_xml(folder, path)
    if _tag(project) != "project":
        raise UnreadableError(path, f"its root element is '{_tag(project)}', not 'project'")
    program, real = nearest_program(folder, "mvnw", "mvn"), os.path.realpath(path)
    for name, text in (_PHASES | dict(_goals(project))).items():
        yield Task(name, runner="mvn", argv=(program, name), path=real, description=text)


def _goals(project: Element) -> Iterator[tuple[str, str]]:
    """Yield every goal that an execution names, as Maven takes it, and its description."""
    for plugin in _below(project, "build", "plugins", "plugin"):
        artifact, prefix = _text(plugin, "artifactId"), _prefix(plugin)
        for goal in _below(plugin, "executions", "execution", "goals", "goal"):
            name = (goal.text or "").strip()
            if prefix and _WORD.fullmatch(name):
                yield f"{prefix}:{name}", f"run the goal '{name}' of {artifact}"


def _prefix(plugin: Element) -> str:
    """Return what stands before a plugin's goals; an empty text where that is not known.

    Maven derives the short prefix from names of two kinds (`maven-X-plugin`, `X-maven-plugin`);
    any other plugin is named in full, and its version is the one in the project.
    """
    artifact = _text(plugin, "artifactId")
    group = _text(plugin, "groupId") or _OWN_GROUP
    if not (_WORD.fullmatch(artifact) and _WORD.fullmatch(group)):
        return ""
    short = _PREFIX.fullmatch(artifact)
    return short["own"] or short["other"] if short else f"{group}:{artifact}"


def _below(element: Element, *names: str) -> list[Element]:
    """Return the elements at the end of a path of local names, in order."""
    found = [element]
    for name in names:
        found = [child for parent in found for child in parent if _tag(child) == name]
    return found


def _text(element: Element, name: str) -> str:
    child = next(iter(_below(element, name)), None)
    return "" if child is None else (child.text or "").strip()


def _tag(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]
