"""Reads directives: Markdown whose first block of XML says what the directive is.

The metadata of a directive are a JSON object with

- `name`, `version`, `extends`: attributes of the root; what else it has is in `attributes`;
- `description`, `category`, `author`, where they are said: texts;
- `model`, `limits`, `cost`, `context`, where they are there: an object of the attributes, with the
  text as `content` and elements within as `children`;
- `permissions`, `hooks`: lists of elements;
- `inputs`: a list of objects `{name, type, required, description}`, and `default` where there is
  one, with all further attributes as texts;
- `steps`: a list of objects `{name, description, action, text}`, each as far as it is there, with
  `attributes` for further ones; `content` is the whole of a step in order, texts and elements,
  where it holds more than these. `process` is the text of a process without steps;
- `outputs`: a list of objects `{name, description}` with all further attributes;
- `elements`: a list of the elements of other kinds, and of those that hold more than is said here,
  where there are any;
- `templates`: the sections that were no XML, by the placeholders that stand for them;
- `preamble`: the text before the block.

An element is `{tag, attributes, text, children}`; `text` is what stands before the first of the
children, and texts between them are among them, as texts. All numbers are texts, as they stand.
"""

from __future__ import annotations

import re

from ..formats import MOST_PROBLEMS, Parsed, text_of
from ..values import FALSE, TRUE, shown
from .xml_elements import Cut, RefusedXmlError, read_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .xml_elements import Element

_FENCE = re.compile(r"^(?:```xml[ \t]*+|(`{4,}+)([^`\n]*+))$", re.MULTILINE)
_TEXTS = ("description", "category", "author")
_OBJECTS = ("model", "limits", "cost", "context")
_LISTS = ("permissions", "hooks")
_MEMBERS = {"inputs": "input", "process": "step", "outputs": "output"}
_SAME = {"model_class": "model", "success": "outputs"}


def parse_directive(text: str, name: str) -> Parsed:
    """Return what a directive says, from its text with plain line ends; `name` is for lists."""
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
    """Return the line that opens the XML block, which lies within no block of more backticks."""
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
    """The metadata that the elements of a directive state."""

    __slots__ = ("metadata", "problems")

    def __init__(self, root: Element) -> None:
        self.problems: list[str] = []
        self.metadata: dict[str, Any] = {"permissions": [], "inputs": [], "steps": []}
        self.metadata["outputs"] = []
        if root.tag != "directive":
            self.problems.append(f'the root element must be "directive", found {shown(root.tag)}')
        self._attributes(root)
        seen: set[str] = set()
        for element in sorted(root.elements, key=lambda each: each.tag != "metadata"):
            if element.tag == "metadata":
                for inner in element.elements:
                    self._field(inner, seen)
                self._keep_rest(element)
            else:
                self._field(element, seen)
        self._keep_rest(root)

    def _attributes(self, root: Element) -> None:
        """Take the attributes of the root, which is left without them."""
        further, root.attributes = root.attributes, {}
        for key in ("name", "version", "extends"):
            if key in further:
                self.metadata[key] = further.pop(key)
        if further:
            self.metadata["attributes"] = further

    def _field(self, element: Element, seen: set[str]) -> None:
        """Take an element of the root or of the metadata."""
        key = _SAME.get(element.tag, element.tag)
        if key in seen:
            self.problems.append(f"duplicate element {shown(element.tag)}")
        elif key in _TEXTS:
            self.metadata[key] = element.flat_text
            self._keep(element, element.is_plain)
        elif key in _OBJECTS:
            self.metadata[key] = _object(element, "content")
        elif key in _LISTS:
            self.metadata[key] = [each.json() for each in element.elements]
            self._keep(element, not element.attributes and not element.text)
        elif key in _MEMBERS:
            self._members(element, key)
        else:
            self._keep(element, False)
            return
        seen.add(key)

    def _members(self, element: Element, key: str) -> None:
        """Take the inputs, the steps or the outputs."""
        members = [each for each in element.elements if each.tag == _MEMBERS[key]]
        if key == "inputs":
            self.metadata[key] = [self._input(each) for each in members]
        elif key == "outputs":
            self.metadata[key] = [_object(each, "description") for each in members]
        else:
            self.metadata["steps"] = [_step(each) for each in members]
            if element.text and element.is_plain:
                self.metadata["process"] = element.text
                return
        whole = not element.attributes and not element.text
        self._keep(element, whole and len(members) == len(element.elements))

    def _input(self, element: Element) -> dict[str, Any]:
        given = _object(element, "description")
        required = given.pop("required", "false").strip().lower()
        name = given.pop("name", "")
        if not name:
            self.problems.append('an "input" element has no "name"')
        if required not in (*TRUE, *FALSE, ""):
            self.problems.append(
                f'"required" of the input {shown(name)} must be true or false, '
                f"found {shown(required)}"
            )
        kind = given.pop("type", "") or "string"
        return {"name": name, "type": kind, "required": required in TRUE, **given}

    def _keep(self, element: Element, known: bool) -> None:
        """Put an element of which not everything is known with the others."""
        if not known:
            self._elements().append(element.json())

    def _elements(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.metadata.setdefault("elements", [])
        return found

    def _keep_rest(self, element: Element) -> None:
        """Put what an element says besides the elements in it with the others."""
        if element.attributes or element.text:
            rest = {"tag": element.tag, "attributes": element.attributes, "text": element.text}
            self._elements().append(rest | {"children": []})


def _object(element: Element, key: str) -> dict[str, Any]:
    """Return the attributes of an element with its text under a key, and what else is within it."""
    found = element.json()
    members: dict[str, Any] = dict(element.attributes)
    if found["text"]:
        members[key] = "\n".join(filter(None, (members.get(key), found["text"])))
    if found["children"]:
        members["children"] = found["children"]
    return members


def _step(element: Element) -> dict[str, Any]:
    """Return a step: what is plain by name, and all of it in order where something is not."""
    further = dict(element.attributes)
    step: dict[str, Any] = {"name": further.pop("name")} if "name" in further else {}
    if further:
        step["attributes"] = further
    whole = True
    for inner in element.elements:
        if inner.tag in {"description", "action"} and inner.tag not in step:
            step[inner.tag] = inner.flat_text
            whole = whole and inner.is_plain
        else:
            whole = False
    if element.text:
        step["text"] = element.text
    if not whole or (element.text and element.elements):
        step["content"] = element.parts()
    return step
