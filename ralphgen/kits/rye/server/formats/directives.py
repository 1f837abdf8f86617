"""Parses directives: Markdown whose first XML block defines the directive.

The metadata of a directive is a JSON object with

- `name`, `version`, `extends`: attributes of the root; `attributes` has the others;
- `description`, `category`, `author`, if present: strings;
- `model`, `limits`, `cost`, `context`, if present: an object of the attributes, with the text as
  `content` and nested elements as `children`;
- `permissions`, `hooks`: lists of elements;
- `inputs`: a list of objects `{name, type, required, description}`, an optional `default`, and
  all other attributes as strings;
- `steps`: a list of objects with the optional keys `{name, description, action, text}`, and other
  `attributes`. `content` lists all texts and elements of a step in order if there are more.
  `process` is the text of a process without steps;
- `outputs`: a list of objects `{name, description}` with all other attributes;
- `elements`: a list of unknown elements, and of elements with more content than described here, if
  there are any;
- `templates`: the literal sections, by placeholder;
- `preamble`: the text before the block.

An element is `{tag, attributes, text, children}`. `text` comes before the first child, and
`children` contains later texts as strings. Numbers remain strings.
"""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values import nearest

from ..values import (
    FALSE,
    MAX_INSERTED,
    NAMES,
    TRUE,
    VALIDATION_FAILED,
    as_text,
    preview,
    value_of,
)
from . import MOST_PROBLEMS, Parsed, place, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any
    from xml.etree.ElementTree import Element

DEEPEST = 100  # nested elements
MAX_ELEMENTS = 10_000  # elements
OPAQUE = ("template", "example", "raw")
_OPENING = re.compile(
    rf"<!--|<!\[CDATA\[|<({'|'.join(OPAQUE)})(?=[\s>])[^<>]*+(?<!/)>|^```[ \t]*$", re.MULTILINE
)
_END_OF = {"<!--": "-->", "<![CDATA[": "]]>"}


class RefusedXmlError(Exception):
    """Text that is not accepted as XML."""


def _content(element: Element) -> list[str | Element]:
    """Return the texts and child elements of an element, in order."""
    content: list[str | Element] = [element.text or ""]
    for child in element:
        content += (child, child.tail or "")
    return content


def _text(element: Element) -> str:
    """Return the direct text of an element, stripped."""
    return "".join(each for each in _content(element) if isinstance(each, str)).strip()


def _is_plain(element: Element) -> bool:
    """Return whether an element contains only text."""
    return not element.attrib and not len(element)


def _parts(element: Element) -> list[Any]:
    """Return the non-blank texts and the elements, as JSON objects, in order."""
    return [
        each.strip() if isinstance(each, str) else _json(each)
        for each in _content(element)
        if not isinstance(each, str) or each.strip()
    ]


def _json(element: Element) -> dict[str, Any]:
    """Return an element as JSON; `text` precedes the `children`, which may be strings."""
    parts = _parts(element)
    text = parts.pop(0) if parts and isinstance(parts[0], str) else ""
    return {"tag": element.tag, "attributes": element.attrib, "text": text, "children": parts}


class Cut:
    """The XML of a text from an offset up to its closing fence.

    `sections` maps placeholders to the literal texts that they replace; `end` is the offset after
    the fence.
    """

    __slots__ = ("_lost", "_start", "_text", "end", "sections", "xml")

    def __init__(self, text: str, start: int) -> None:
        """Raises `RefusedXmlError` if a section is not closed."""
        self._text = text
        self._start = start
        self._lost: list[tuple[int, int]] = []
        self.sections: dict[str, str] = {}
        self.xml, self.end = self._cut()

    def place(self, line: int) -> str:
        """Return the place in the text for a line of the XML."""
        before = self._text.count("\n", 0, self._start)
        lost = sum(lines for above, lines in self._lost if above < line)
        return place(self._text, before + line + lost)

    def _cut(self) -> tuple[str, int]:
        text = self._text
        kept: list[str] = []
        last = position = self._start
        above = 0
        while found := _OPENING.search(text, position):
            opening, tag = found[0], found[1]
            if opening[0] == "`":
                kept.append(text[last : found.start()])
                return "".join(kept), found.end()
            end = text.find(_END_OF.get(opening) or f"</{tag}>", found.end())
            if end < 0:
                where = place(text, text.count("\n", 0, found.start()) + 1)
                raise RefusedXmlError(f"{where}: {preview(opening)} is not closed")
            position = end + 1
            if tag:
                placeholder = f"[[{tag}-{len(self.sections) + 1}]]"
                self.sections[placeholder] = text[found.end() : end]
                kept += (text[last : found.end()], placeholder)
                above += kept[-2].count("\n")
                self._lost.append((above, text.count("\n", found.end(), end)))
                last = end
        raise RefusedXmlError("the XML block is not closed: add a line of three backticks")


def read_elements(cut: Cut) -> Element:
    """Return the root element; raises `RefusedXmlError`.

    Entities can expand without limit or read local files, so declarations are refused.
    """
    from xml.etree.ElementTree import TreeBuilder
    from xml.parsers.expat import ExpatError, ParserCreate

    builder = TreeBuilder()
    depth = count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth += 1
        count += 1
        if depth > DEEPEST:
            raise RefusedXmlError(f"has elements nested more than {DEEPEST} levels deep")
        if count > MAX_ELEMENTS:
            raise RefusedXmlError(f"has more than {MAX_ELEMENTS} elements")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def declaration(*_: object) -> None:
        raise RefusedXmlError('"DOCTYPE" is not supported: remove it')

    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = declaration
    try:
        parser.Parse(cut.xml, True)
    except ExpatError as error:
        reason = str(error).partition(": ")[0]
        raise RefusedXmlError(f"{cut.place(error.lineno)}: is not valid XML: {reason}") from error
    except RefusedXmlError as error:
        raise RefusedXmlError(f"{cut.place(parser.CurrentLineNumber)}: {error}") from error
    except ValueError as error:
        raise RefusedXmlError(f"is not valid XML: {error}") from error
    return builder.close()


_FENCE = re.compile(r"^(?:```xml[ \t]*+|(`{4,}+)([^`\n]*+))$", re.MULTILINE)
_TEXTS = ("description", "category", "author")
_OBJECTS = ("model", "limits", "cost", "context")
_LISTS = ("permissions", "hooks")
_MEMBERS = {"inputs": "input", "process": "step", "outputs": "output"}
_SAME = {"model_class": "model", "success": "outputs"}


def parse_directive(text: str, name: str) -> Parsed:
    """Parse a directive from text with line feeds; `name` is the default title."""
    fence = _fence(text)
    if fence is None:
        why = 'no XML block: expected a line "```xml", the element "directive", and a line "```"'
        return Parsed({}, text, title=name, problems=(why,))
    try:
        cut = Cut(text, fence.end())
        reading = _Reading(read_elements(cut))
    except RefusedXmlError as error:
        return Parsed({}, text, title=name, problems=(str(error),))
    found = reading.metadata
    found["templates"] = cut.sections
    found["preamble"] = text[: fence.start()].strip("\n")
    return Parsed(
        found,
        text[cut.end :].strip("\n"),
        title=found.get("name") or name,
        description=text_of(found, "description"),
        problems=tuple(reading.problems[:MOST_PROBLEMS]),
    )


def _fence(text: str) -> re.Match[str] | None:
    """Return the opening line of the XML block, skipping blocks with more backticks."""
    outer = ""
    for found in _FENCE.finditer(text):
        backticks = found[1] or ""
        if not outer and not backticks:
            return found
        if not outer:
            outer = backticks
        elif len(backticks) >= len(outer) and not found[2].strip():
            outer = ""
    return None


class _Reading:
    """The metadata in the elements of a directive."""

    __slots__ = ("metadata", "problems")

    def __init__(self, root: Element) -> None:
        self.problems: list[str] = []
        self.metadata: dict[str, Any] = {"permissions": [], "inputs": [], "steps": []}
        self.metadata["outputs"] = []
        if root.tag != "directive":
            self.problems.append(f'the root element must be "directive", found {preview(root.tag)}')
        further, root.attrib = root.attrib, {}
        for key in ("name", "version", "extends"):
            if key in further:
                self.metadata[key] = further.pop(key)
        if further:
            self.metadata["attributes"] = further
        seen: set[str] = set()
        for element in sorted(root, key=lambda each: each.tag != "metadata"):
            if element.tag == "metadata":
                for inner in element:
                    self._field(inner, seen)
                self._keep_rest(element)
            else:
                self._field(element, seen)
        self._keep_rest(root)

    def _field(self, element: Element, seen: set[str]) -> None:
        """Add an element of the root or of "metadata"."""
        key = _SAME.get(element.tag, element.tag)
        if key in seen:
            self.problems.append(f"duplicate element {preview(element.tag)}")
        elif key in _TEXTS:
            self.metadata[key] = "".join(element.itertext()).strip()
            self._keep(element, _is_plain(element))
        elif key in _OBJECTS:
            self.metadata[key] = _object(element, "content")
        elif key in _LISTS:
            self.metadata[key] = [_json(each) for each in element]
            self._keep(element, not element.attrib and not _text(element))
        elif key in _MEMBERS:
            self._members(element, key)
        else:
            self._keep(element, False)
            return
        seen.add(key)

    def _members(self, element: Element, key: str) -> None:
        """Add the inputs, steps or outputs."""
        members = [each for each in element if each.tag == _MEMBERS[key]]
        if key == "inputs":
            self.metadata[key] = [self._input(each) for each in members]
        elif key == "outputs":
            self.metadata[key] = [_object(each, "description") for each in members]
        else:
            self.metadata["steps"] = [_step(each) for each in members]
            if _text(element) and _is_plain(element):
                self.metadata["process"] = _text(element)
                return
        whole = not element.attrib and not _text(element)
        self._keep(element, whole and len(members) == len(element))

    def _input(self, element: Element) -> dict[str, Any]:
        given = _object(element, "description")
        required = given.pop("required", "false").strip().lower()
        name = given.pop("name", "")
        if not name:
            self.problems.append('an "input" element has no "name"')
        if required not in (*TRUE, *FALSE, ""):
            self.problems.append(
                f'"required" of the input {preview(name)} must be true or false, '
                f"found {preview(required)}"
            )
        kind = given.pop("type", "") or "string"
        return {"name": name, "type": kind, "required": required in TRUE, **given}

    def _keep(self, element: Element, known: bool) -> None:
        """Add an element to `elements` unless the metadata already contains all of it."""
        if not known:
            self._elements().append(_json(element))

    def _elements(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.metadata.setdefault("elements", [])
        return found

    def _keep_rest(self, element: Element) -> None:
        """Add the attributes and text of an element to `elements`."""
        if element.attrib or _text(element):
            rest = {"tag": element.tag, "attributes": element.attrib, "text": _text(element)}
            self._elements().append(rest | {"children": []})


def _object(element: Element, key: str) -> dict[str, Any]:
    """Return the attributes of an element, with its text under `key` and its children."""
    found = _json(element)
    members: dict[str, Any] = dict(element.attrib)
    if found["text"]:
        members[key] = "\n".join(filter(None, (members.get(key), found["text"])))
    if found["children"]:
        members["children"] = found["children"]
    return members


def _step(element: Element) -> dict[str, Any]:
    """Return a step; `content` is set if it has more than plain parts."""
    further = dict(element.attrib)
    step: dict[str, Any] = {"name": further.pop("name")} if "name" in further else {}
    if further:
        step["attributes"] = further
    whole = True
    for inner in element:
        if inner.tag in {"description", "action"} and inner.tag not in step:
            step[inner.tag] = "".join(inner.itertext()).strip()
            whole = whole and _is_plain(inner)
        else:
            whole = False
    if _text(element):
        step["text"] = _text(element)
    if not whole or (_text(element) and len(element)):
        step["content"] = _parts(element)
    return step


# The parts of a directive that its inputs fill; templates remain literal.
FILLED = ("preamble", "steps", "process", "elements", "body")
_REFERRED = "[A-Za-z_][A-Za-z0-9_-]*"
# `{input:k}`, `{input:k?}`, `{input:k:default}`, `{input:k|default}`, `${inputs.k}`
REFERENCE = re.compile(
    rf"\{{input:(?P<name>{_REFERRED})(?:(?P<optional>\?)|[:|](?P<default>[^{{}}]*))?\}}"
    rf"|\$\{{inputs\.(?P<other>{_REFERRED})\}}"
)
LIMITS = {"min": "at least", "max": "at most"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_ISSUES = 20


def filled_parts(parsed: Parsed) -> dict[str, Any]:
    """Return the parts of a directive that its inputs fill."""
    parts = {**parsed.metadata, "body": parsed.body}
    return {name: parts[name] for name in FILLED if name in parts}


def input_names(value: Any) -> Iterator[str]:
    """Yield the input name of each reference in a JSON value."""
    if isinstance(value, str):
        for found in REFERENCE.finditer(value):
            yield found["name"] or found["other"]
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from input_names(inner)


class WrongValueError(Exception):
    """A value does not fit an input; the message explains why."""


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return the type name of an input; a valid one is in `KINDS`."""
    return str(entry.get("type") or "string").strip().lower()


def choices_of(entry: Mapping[str, Any]) -> list[str] | None:
    """Return the allowed values of an input as strings, or None without an enum."""
    written = entry.get("enum")
    if not isinstance(written, str):
        return None
    return [word.strip() for word in written.replace("|", ",").split(",")]


def fitting(entry: Mapping[str, Any], value: Any) -> Any:
    """Convert a value to the type of an input and check it; raises `WrongValueError`."""
    kind = kind_of(entry)
    made = KINDS[kind](value) if kind in KINDS else value
    choices = choices_of(entry)
    if choices is not None and as_text(made) not in choices:
        raise WrongValueError(f"must be one of {', '.join(choices)}")
    for attribute, word in LIMITS.items():
        limit = limit_of(entry.get(attribute))
        if limit is None or isinstance(made, bool):
            continue
        # A limit applies to a number, or to the length of a string, list or object.
        measure = made if isinstance(made, (int, float)) else len(made)
        if measure < limit if attribute == "min" else measure > limit:
            raise WrongValueError(f"must be {word} {entry[attribute]}")
    return made


def limit_of(written: Any) -> float | None:
    """Return a limit as a number, or None if it is invalid."""
    try:
        number = float(written)
    except (TypeError, ValueError):
        return None
    return number if number <= float("inf") else None  # "nan" parses, but compares with nothing


def _string(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise WrongValueError(f"must be a string, found {NAMES[type(value)]}")
    return as_text(value)


def _integer(value: Any) -> Any:
    number = _number(value)
    if number != int(number):
        raise WrongValueError(f"must be an integer, found {preview(value)}")
    return int(number)


def _number(value: Any) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise WrongValueError(f"must be a number, found {preview(value)}")
    return found


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in TRUE + FALSE:
        raise WrongValueError(f"must be true or false, found {preview(value)}")
    return word in TRUE


def _structure(value: Any, kind: type) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if not isinstance(found, kind):
        raise WrongValueError(f"must be {NAMES[kind]} in JSON, found {preview(value)}")
    return found


def _read(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if it is not JSON."""
    try:
        return value_of(text)
    except ValueError:
        return text


KINDS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": lambda value: _structure(value, list),
    "object": lambda value: _structure(value, dict),
}


def input_issues(parsed: Parsed) -> Iterator[str]:
    """Yield the problems of the declared and the referenced inputs of a directive."""
    entries: Sequence[Mapping[str, Any]] = parsed.metadata["inputs"]
    names = [entry["name"] for entry in entries]
    seen: set[str] = set()
    for name in names:  # used between braces in the text
        if name in seen:
            yield f"duplicate input {preview(name)}"
        elif not _NAME.fullmatch(name):
            yield f"invalid input name {preview(name)}: use letters, digits and underscores"
        seen.add(name)
    for entry in entries:
        yield from _value_issues(entry)
    for name in dict.fromkeys(input_names(filled_parts(parsed))):
        if name not in names:
            meant = nearest(name, names)
            further = f": did you mean {preview(meant)}?" if meant else ""
            yield f"the text uses an undeclared input {preview(name)}{further}"


def _value_issues(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the type, limits, enum and default of an input."""
    of = f"of the input {preview(entry['name'])}"
    if kind_of(entry) not in KINDS:
        yield f'"type" {of} must be {" or ".join(KINDS)}, found {preview(entry["type"])}'
        return
    broken = [each for each in LIMITS if each in entry and limit_of(entry[each]) is None]
    for attribute in broken:
        yield f"{preview(attribute)} {of} must be a number, found {preview(entry[attribute])}"
    if broken:
        return
    default = [] if entry.get("default") is None else [entry["default"]]
    for attribute, values in (("enum", choices_of(entry) or []), ("default", default)):
        for value in values:
            try:
                fitting(entry, value)
            except WrongValueError as error:
                yield f"{preview(attribute)} {of} contains {preview(value)}: it {error}"


def checked_inputs(inputs: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the inputs by name, converted to their types, with defaults.

    A directive is text for an agent, so values may be strings. Raises `CodedError` with all
    problems, including undeclared parameters.
    """
    names = [entry["name"] for entry in inputs]
    issues = [_unknown(name, names) for name in given if name not in names]
    values: dict[str, Any] = {}
    for entry in inputs:
        name = entry["name"]
        value = entry.get("default") if given.get(name) is None else given[name]
        if value is not None:
            try:
                values[name] = fitting(entry, value)
            except WrongValueError as error:
                issues.append(f'"{name}" {error}')
        elif entry.get("required"):
            issues.append(f'"{name}" is missing')
    if issues:
        further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise CodedError(
            VALIDATION_FAILED,
            f"the parameters do not match the inputs of the directive: {issues[0]}{further}",
            issues=issues[:MOST_ISSUES],
            inputs=[dict(entry) for entry in inputs],
        )
    return values


def _unknown(name: str, names: list[str]) -> str:
    """Return the message for an unknown input."""
    if not names:
        return f'unknown input "{name}": the directive takes none'
    meant = nearest(name, names)
    if meant is not None:
        return f'unknown input "{name}": did you mean "{meant}"?'
    listed = ", ".join(f'"{known}"' for known in names)
    return f'unknown input "{name}": expected {listed}'


def with_inputs(value: Any, inputs: Mapping[str, Any]) -> Any:
    """Return a JSON value with all input references replaced, without recursion.

    A reference to a missing input is unchanged, unless it is optional or has a default. Raises
    `CodedError` if the result grows too large.
    """
    room = MAX_INSERTED

    def put_in(found: re.Match[str]) -> str:
        nonlocal room
        text = _referred_text(found, inputs)
        room -= len(text)
        if room < 0:
            most = f"{MAX_INSERTED:,} characters"
            text = f"the inputs would expand to more than {most}: use fewer references"
            raise CodedError(VALIDATION_FAILED, text)
        return text

    return _mapped(value, put_in)


def _mapped(value: Any, put_in: Callable[[re.Match[str]], str]) -> Any:
    """Return a JSON value with `put_in` applied to the references in its strings."""
    if isinstance(value, str):
        return REFERENCE.sub(put_in, value)
    if isinstance(value, (list, tuple)):
        return [_mapped(item, put_in) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(member, put_in) for key, member in value.items()}
    return value


def _referred_text(found: re.Match[str], inputs: Mapping[str, Any]) -> str:
    name = found["name"] or found["other"]
    if name in inputs:
        return as_text(inputs[name])
    if found["default"] is not None:
        return found["default"]
    return "" if found["optional"] else found[0]
