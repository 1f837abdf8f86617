"""Reads XML into elements; sections that are no XML are cut out before, and stand beside it.

The sections `template`, `example` and `raw` may hold anything but their own end. What stands where
such a one was is a placeholder in double square brackets, such as `[[template-1]]`.
"""

from __future__ import annotations

import re

from ..formats import place
from ..values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEEPEST = 100  # elements within each other
MOST = 10_000  # elements
OPAQUE = ("template", "example", "raw")
_OPENING = re.compile(
    rf"<!--|<!\[CDATA\[|<({'|'.join(OPAQUE)})(?=[\s>])[^<>]*+(?<!/)>|^```[ \t]*$", re.MULTILINE
)
_END_OF = {"<!--": "-->", "<![CDATA[": "]]>"}


class RefusedXmlError(Exception):
    """Text that is not read as XML."""


class Element:
    """An element: `content` is its texts and elements, in order."""

    __slots__ = ("attributes", "content", "tag")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.content: list[str | Element] = []

    @property
    def elements(self) -> list[Element]:
        """Return the elements directly within it."""
        return [each for each in self.content if isinstance(each, Element)]

    @property
    def text(self) -> str:
        """Return the text directly within it, without what is blank around it."""
        return "".join(each for each in self.content if isinstance(each, str)).strip()

    @property
    def flat_text(self) -> str:
        """Return all text within it, that of other elements too."""
        return "".join(self.texts()).strip()

    @property
    def is_plain(self) -> bool:
        """Return whether it is a text and nothing else."""
        return not self.attributes and not any(isinstance(each, Element) for each in self.content)

    def parts(self) -> list[Any]:
        """Return its texts that are not blank, and its elements as JSON objects, in order."""
        return [
            each.json() if isinstance(each, Element) else each.strip()
            for each in self.content
            if isinstance(each, Element) or each.strip()
        ]

    def json(self) -> dict[str, Any]:
        """Return the whole of it; `text` stands before the `children`, which may be texts."""
        parts = self.parts()
        text = parts.pop(0) if parts and isinstance(parts[0], str) else ""
        return {"tag": self.tag, "attributes": self.attributes, "text": text, "children": parts}

    def texts(self) -> Iterator[str]:
        """Yield all texts within it, in order."""
        for each in self.content:
            if isinstance(each, Element):
                yield from each.texts()
            else:
                yield each


class Cut:
    """The XML of a text from a place on, up to the fence that ends it.

    `sections` are the texts that were cut out, by their placeholders; `end` is the place behind the
    fence.
    """

    __slots__ = ("_lost", "_start", "_text", "end", "sections", "xml")

    def __init__(self, text: str, start: int) -> None:
        """Raises `RefusedXmlError` where something has no end."""
        self._text = text
        self._start = start
        self._lost: list[tuple[int, int]] = []
        self.sections: dict[str, str] = {}
        self.xml, self.end = self._cut()

    def place(self, line: int) -> str:
        """Return the place in the text of what stands in a line of the XML."""
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
                raise RefusedXmlError(f"{where}: {shown(opening)} is not closed")
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
    """Return the root element; raises `RefusedXmlError`."""
    from xml.parsers.expat import ExpatError, ParserCreate

    builder = _Builder()
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.declaration
    try:
        parser.Parse(cut.xml, True)
    except ExpatError as error:
        reason = str(error).partition(": ")[0]
        raise RefusedXmlError(f"{cut.place(error.lineno)}: is not valid XML: {reason}") from error
    except RefusedXmlError as error:
        raise RefusedXmlError(f"{cut.place(parser.CurrentLineNumber)}: {error}") from error
    except ValueError as error:
        raise RefusedXmlError(f"is not valid XML: {error}") from error
    return builder.root.elements[0]


class _Builder:
    """Builds elements of what a parser meets."""

    __slots__ = ("_left", "_open", "root")

    def __init__(self) -> None:
        self.root = Element("", {})
        self._open = [self.root]
        self._left = MOST

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) > DEEPEST:
            raise RefusedXmlError(f"has elements nested more than {DEEPEST} levels deep")
        self._left -= 1
        if self._left < 0:
            raise RefusedXmlError(f"has more than {MOST} elements")
        element = Element(tag, attributes)
        self._open[-1].content.append(element)
        self._open.append(element)

    def end(self, _: str) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        self._open[-1].content.append(text)

    def declaration(self, *_: object) -> None:
        """Refuse entities: they can grow without end, or name files of the machine."""
        raise RefusedXmlError('"DOCTYPE" is not supported: remove it')
