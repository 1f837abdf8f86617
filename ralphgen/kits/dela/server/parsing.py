"""Parses the files of tasks with well-kept libraries; every way in which that fails has words.

Whoever may write files in a project may write such as keep a parser busy for minutes or make it
crash. So what is known to do that is refused before, and each file is parsed once.
"""

from __future__ import annotations

import os
import re

from ralphgen.runtime.loader import add_packages

from .folder import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any
    from xml.etree.ElementTree import Element

    from .folder import Folder

DEEP = "is nested too deeply"
LARGEST = 1 << 18  # bytes of a file whose parser takes its time
LARGEST_JSON5 = 1 << 15  # characters of a file with comments, or with commas at the end
MOST_PARTS = 30  # of a key in TOML: the time that a key takes grows with their square
MOST_MEMBERS = 200  # of a mapping of facts

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:\.[ \t]*+{_PART}){{{MOST_PARTS}}}")


def read_yaml(folder: Folder, path: str) -> Any:
    """Return the first document of a YAML file, None if it is empty. Raises `UnreadableError`."""
    return next(iter(read_documents(folder, path)), None)


def read_documents(folder: Folder, path: str) -> list[Any]:
    """Return the documents of a YAML file, in which every scalar is a text.

    That `on` and `yes` are texts, as they are to the programs that read these files, and that 3
    is "3", is what a loader without types is for. Raises `UnreadableError`.
    """
    documents: list[Any] = _once("yaml", folder, path, lambda: _yaml(folder, path))[0]
    return documents


def has_tags(folder: Folder, path: str) -> bool:
    """Return whether a YAML file has a tag such as `!!binary`: a value may be another then.

    Raises `UnreadableError`.
    """
    _, text = _once("yaml", folder, path, lambda: _yaml(folder, path))
    if "!" not in text:
        return False
    import yaml  # what it cannot read safely was refused above

    events = yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    return any(getattr(event, "tag", None) is not None for event in events)


def member_tags(folder: Folder, path: str, number: int, key: str) -> dict[str, str]:
    """Return the tags that a document gives to the members of a top-level mapping, by their names.

    The tag of the mapping itself has an empty name. Raises `UnreadableError`.
    """
    if not has_tags(folder, path):
        return {}
    import yaml

    _, text = _once("yaml", folder, path, lambda: _yaml(folder, path))
    roots = yaml.compose_all(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    root: Any = [*roots][number]
    tags: dict[str, str] = {}
    for name, node in root.value if root.id == "mapping" else ():
        if name.value == key:
            tags[""] = node.tag
            pairs = node.value if node.id == "mapping" else ()
            tags |= {str(member.value): value.tag for member, value in pairs}
    return tags


def _once(kind: str, folder: Folder, path: str, parse: Callable[[], object]) -> Any:
    """Return the parsed file, or raise `UnreadableError`; it is parsed once for each real path."""
    folder.look(path)
    key = kind, os.path.realpath(path)
    if key not in folder.parsed:
        try:
            folder.parsed[key] = parse()
        except UnreadableError as error:
            folder.parsed[key] = error
    found = folder.parsed[key]
    if isinstance(found, UnreadableError):
        raise UnreadableError(path, found.why)
    return found


def _yaml(folder: Folder, path: str) -> tuple[Any, str]:
    """Return the documents of a YAML file, and its text."""
    from ralphgen.runtime.files.yaml import YamlError, read_all

    text = folder.text(path, LARGEST)
    folder.spend("values", 0)
    try:
        documents = read_all(text)
    except YamlError as error:
        where = f"line {error.line}: " if error.line else ""
        raise UnreadableError(path, f"{where}{error}") from error
    folder.spend("values", sum(document.count for document in documents))
    return [document.value for document in documents], text


def read_json(folder: Folder, path: str) -> Any:
    """Return the value of a JSON file. Raises `UnreadableError`."""
    return _once("json", folder, path, lambda: _json(path, folder.text(path)))


def read_json5(folder: Folder, path: str) -> Any:
    """Return the value of a JSON file that may hold comments and trailing commas.

    Raises `UnreadableError`.
    """
    return _once("json5", folder, path, lambda: _json5(folder, path))


def _json5(folder: Folder, path: str) -> Any:
    text = folder.text(path, LARGEST)
    try:
        return _json(path, text)  # a thousand times as fast, and mostly enough
    except UnreadableError:
        if len(text) > LARGEST_JSON5:
            raise
    add_packages()
    import json5

    try:
        return json5.loads(text)
    except ValueError as error:
        raise UnreadableError(path, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableError(path, DEEP) from error


def _json(path: str, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(
            path, f"line {error.lineno}: is not valid JSON: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_toml(folder: Folder, path: str) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises `UnreadableError`."""
    import tomllib

    text = folder.text(path, LARGEST)
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableError(path, f"line {line}: has a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(path, f"is not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_xml(folder: Folder, path: str) -> Element:
    """Return the root element of an XML file; entities are refused. Raises `UnreadableError`."""
    from xml.etree.ElementTree import ParseError

    text = folder.text(path)
    add_packages()
    from defusedxml import DefusedXmlException, EntitiesForbidden
    from defusedxml.ElementTree import fromstring

    try:
        root: Element = fromstring(text)
    except ParseError as error:
        raise UnreadableError(path, f"is not valid XML: {error}") from error
    except EntitiesForbidden as error:
        raise UnreadableError(
            path, f'defines the entity "{error.name}": replace it with its text'
        ) from error
    except DefusedXmlException as error:
        raise UnreadableError(path, "refers to another file, which was not read") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, f"is XML of an unsupported kind: {error}") from error
    return root


def mapping(value: object) -> dict[str, Any]:
    """Return the value, where it is an object whose keys are texts; else an empty one."""
    if not isinstance(value, dict):
        return {}
    return {key: member for key, member in value.items() if isinstance(key, str)}


def merged(value: object, most: int = MOST_MEMBERS) -> dict[str, Any]:
    """Return the members of a YAML mapping with those that `<<` takes from others; else none.

    Of two with one key the mapping's own counts, then that of what is named first. Not more than
    `most` are taken, the own before others: thousands of mappings may name one with thousands.
    """
    parts: list[dict[str, Any]] = []
    pending = [value] if isinstance(value, dict) else []
    seen: set[int] = set()
    while pending and most > 0 and len(seen) <= MOST_MEMBERS:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list):
            pending += reversed(part[:MOST_MEMBERS])
        own = [*_members(part, most)]
        most -= len(own)
        parts.append({key: member for key, member in own if key != "<<"})
        pending += [member for key, member in own if key == "<<"]
    members: dict[str, Any] = {}
    for earlier in reversed(parts):
        members |= earlier
    return members


def _members(value: object, most: int) -> Iterator[tuple[str, Any]]:
    """Yield the first members of a mapping, those whose keys are texts."""
    if isinstance(value, dict):
        for _, (key, member) in zip(range(most), value.items(), strict=False):
            if isinstance(key, str):
                yield key, member
