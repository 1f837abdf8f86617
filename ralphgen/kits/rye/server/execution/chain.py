"""Follows a tool to the primitive that carries it out: each executor names the next one."""

from __future__ import annotations

import re
import sys

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.encoding import sha256_hex

from ..files import read_item
from ..formats.parsing import require
from ..formats.tools import imported_names
from ..item import PRIMITIVES, PYTHON_RUNTIME, SYSTEM, TOOL, is_segment
from ..values import (
    CHAIN_TOO_DEEP,
    CIRCULAR_DEPENDENCY,
    UNTRUSTED_KEY,
    VALIDATION_FAILED,
)
from .config import mapping_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..authenticity.trust import Verdict
    from ..formats import Parsed
    from ..item import Item
    from ..spaces import Spaces
    from ..workspace import Rye

LONGEST = 10  # elements
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){2}")
MERGED = "env"  # what is put together member by member


class ChainLink:
    """A verified and parsed item; of tools, an element of a chain.

    `digest` is the SHA-256 of the bytes of its file, as they were read.
    """

    __slots__ = ("digest", "item", "parsed", "verdict")

    def __init__(self, item: Item, parsed: Parsed, verdict: Verdict, digest: str) -> None:
        self.item = item
        self.parsed = parsed
        self.verdict = verdict
        self.digest = digest

    @property
    def executor_id(self) -> Any:
        """Return what carries this tool out; None for a primitive."""
        return self.parsed.metadata.get("executor_id")

    def entry(self) -> dict[str, Any]:
        """Return what an answer says of an element of a chain."""
        return {
            "item_id": self.item.id,
            "source": self.item.source,
            "tool_type": self.parsed.metadata.get("tool_type"),
            "executor_id": self.executor_id,
            "signature": self.verdict.state,
        }


def link_of(rye: Rye, item: Item) -> ChainLink:
    """Return an item as the policy of its type lets it through; raises `CodedError`."""
    if rye.permissions.problem:
        raise CodedError(UNTRUSTED_KEY, rye.permissions.problem)
    text = read_item(item)
    verdict = rye.trust().require(item, text, signs=rye.sees("sign"))
    return ChainLink(item, require(item, text), verdict, sha256_hex(text.encode()))


def chain_of(rye: Rye, spaces: Spaces, tool: ChainLink) -> list[ChainLink]:
    """Return the tool, what it names as its executor, and so on to the primitive.

    Each is looked for from the space of the one before it downwards, and let through by the policy
    of tools. Raises `CodedError`.
    """
    chain = [tool]
    while chain[-1].executor_id is not None:
        link = link_of(rye, _next(spaces, chain))
        _check_version(link, chain[-1])
        chain.append(link)
    return chain


def neighbours_of(rye: Rye, spaces: Spaces, tool: ChainLink) -> dict[str, ChainLink]:
    """Return the tools beside a Python tool that it imports, and that these import, by module.

    Each is let through by the policy of tools. What Python's own library has is none. Raises
    `CodedError`.
    """
    found: dict[str, ChainLink] = {}
    pending = [tool]
    while pending:
        for name in sorted(imported_names(pending.pop().parsed.body)):
            if name in found or name in sys.stdlib_module_names or not is_segment(name):
                continue
            item_id = "/".join(filter(None, (tool.item.category, name)))
            item = spaces.at(TOOL, item_id, tool.item.source)
            if item is None or item.extension != tool.item.extension:
                continue
            try:
                found[name] = link_of(rye, item)
            except CodedError as error:
                # The item is the tool that is executed.
                facts = {key: fact for key, fact in error.facts.items() if key != "item_id"}
                text = f'the tool "{tool.item.id}" imports "{name}": {error}'
                raise CodedError(error.code, text, **facts, imported=item_id) from error
            pending.append(found[name])
    return found


def entries(chain: Sequence[ChainLink]) -> list[dict[str, Any]]:
    """Return what an answer says of a chain."""
    return [link.entry() for link in chain]


def has_python_runtime(chain: Sequence[ChainLink]) -> bool:
    """Return whether the server's own Python runtime carries the tool out."""
    return any(_is_built_in(link, (PYTHON_RUNTIME,)) for link in chain)


def is_part(tool: ChainLink) -> bool:
    """Return whether a tool is a primitive or runtime of the server, which does nothing alone."""
    return _is_built_in(tool, (*PRIMITIVES, PYTHON_RUNTIME))


def _next(spaces: Spaces, chain: Sequence[ChainLink]) -> Item:
    """Return the item that the last element names as its executor; raises `CodedError`."""
    last = chain[-1]
    named = last.executor_id
    try:
        item = spaces.executor(named, last.item.space)
    except CodedError as error:
        text = f'the tool "{last.item.id}" has the executor "{named}": {error}'
        # The item and its space are those of the tool that is executed.
        facts = {name: fact for name, fact in error.facts.items() if name != "item_id"}
        facts |= {"executor_id": named, "chain": entries(chain)}
        raise CodedError(error.code, text, **facts) from error
    way = " → ".join([*(link.item.id for link in chain), item.id])
    if any((link.item.source, link.item.id) == (item.source, item.id) for link in chain):
        text = f'the executor chain returns to "{item.id}": {way}'
        raise CodedError(CIRCULAR_DEPENDENCY, text, chain=entries(chain))
    if len(chain) == LONGEST:
        text = f"the executor chain has more than {LONGEST} elements: {way}"
        raise CodedError(CHAIN_TOO_DEEP, text, chain=entries(chain))
    return item


def _is_built_in(link: ChainLink, ids: Sequence[str]) -> bool:
    return link.item.source == SYSTEM and link.item.id in ids


def _check_version(executor: ChainLink, tool: ChainLink) -> None:
    """Raise `CodedError` where an executor takes other versions only of the tool that names it."""
    where = f"child_constraints of {executor.item.id}"
    said = mapping_at(where, executor.parsed.metadata.get("child_constraints"))
    if said.get(tool.item.id) is None:
        return
    limits = mapping_at(f"{where}.{tool.item.id}", said[tool.item.id])
    version = _version(f"version of {tool.item.id}", tool.parsed.metadata.get("version"))
    least, most = limits.get("min_version"), limits.get("max_version")
    too_old = least is not None and version < _version(f"{where}.min_version", least)
    too_new = most is not None and version > _version(f"{where}.max_version", most)
    if too_old or too_new:
        words = [f"from {least}" if least else "", f"to {most}" if most else ""]
        raise CodedError(
            VALIDATION_FAILED,
            f'"{executor.item.id}" requires "{tool.item.id}" in versions '
            f"{' '.join(filter(None, words))}, found {tool.parsed.metadata.get('version')}",
        )


def _version(where: str, written: object) -> tuple[int, ...]:
    """Return the numbers of a version, X.Y.Z."""
    if not isinstance(written, str) or not _VERSION.fullmatch(written):
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be a version such as "1.2.3"')
    return tuple(int(part) for part in written.split("."))


def configuration_of(chain: Sequence[ChainLink]) -> dict[str, Any]:
    """Return the configs of a chain, from the primitive's to the tool's, which wins.

    No parameter has a say in it. Raises `CodedError`.
    """
    config: dict[str, Any] = {}
    for link in reversed(chain):
        said = mapping_at(f"config of {link.item.id}", link.parsed.metadata.get("config"))
        for key, value in said.items():
            before = config.get(key)
            if key == MERGED and isinstance(value, dict) and isinstance(before, dict):
                config[key] = {**before, **value}
            else:
                config[key] = value
    return config
