"""Parses the files of tasks with well-kept libraries; every way in which that fails has words."""

from __future__ import annotations

from ..packages import add_packages
from .folder import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from xml.etree.ElementTree import Element

    from .folder import Folder

DEEP = "holds values within each other too deep to be read"


def read_yaml(folder: Folder, path: str) -> Any:
    """The value of a YAML file, in which every scalar is a text; None for an empty file.

    That `on` and `yes` are texts, as they are to the programs that read these files, and that 3
    is "3", is what a loader without types is for. Raises `UnreadableError`.
    """
    text = folder.text(path)
    add_packages()
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise UnreadableError(path, f"{where}is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(path, f"is not YAML: {error}") from error
    except RecursionError as error:
        raise UnreadableError(path, DEEP) from error


def read_json(folder: Folder, path: str) -> Any:
    """The value of a JSON file. Raises `UnreadableError`."""
    import json

    try:
        return json.loads(folder.text(path))
    except json.JSONDecodeError as error:
        raise UnreadableError(path, f"line {error.lineno}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_json5(folder: Folder, path: str) -> Any:
    """The value of a JSON file that may hold comments and trailing commas.

    Raises `UnreadableError`.
    """
    import json

    text = folder.text(path)
    try:
        return json.loads(text)  # a hundred times as fast, and mostly enough
    except (ValueError, RecursionError):
        add_packages()
    import json5

    try:
        return json5.loads(text)
    except ValueError as error:
        raise UnreadableError(path, f"is not JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableError(path, DEEP) from error


def read_toml(folder: Folder, path: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises `UnreadableError`."""
    import tomllib

    try:
        return tomllib.loads(folder.text(path))
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(path, f"is not TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_xml(folder: Folder, path: str) -> Element:
    """The root element of an XML file; entities are refused. Raises `UnreadableError`."""
    from xml.etree.ElementTree import ParseError

    text = folder.text(path)
    add_packages()
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root: Element = fromstring(text)
    except ParseError as error:
        raise UnreadableError(path, f"is not XML: {error}") from error
    except (DefusedXmlException, ValueError, RecursionError) as error:
        raise UnreadableError(path, f"is XML of a kind that is not read: {error}") from error
    return root


def mapping(value: object) -> dict[str, Any]:
    """The value, where it is an object whose keys are texts; else an empty one."""
    if not isinstance(value, dict):
        return {}
    return {key: member for key, member in value.items() if isinstance(key, str)}
