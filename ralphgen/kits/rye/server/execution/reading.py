"""Takes up an item to be executed: it is read once, and what is verified is what is used."""

from __future__ import annotations

from ralphgen.runtime.values.digest import sha256_hex

from ..authenticity.signatures import split
from ..files import read_item
from ..formats.parsing import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..authenticity.trust import Verdict
    from ..formats.parsed import Parsed
    from ..item import Item
    from ..workspace import Rye


class Link:
    """An item that was verified and understood; of tools, an element of a chain.

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
        """What carries this tool out; None for a primitive."""
        return self.parsed.metadata.get("executor_id")

    def entry(self) -> dict[str, Any]:
        """What an answer says of an element of a chain."""
        return {
            "item_id": self.item.id,
            "source": self.item.source,
            "tool_type": self.parsed.metadata.get("tool_type"),
            "executor_id": self.executor_id,
            "signature": self.verdict.state,
        }


def link_of(rye: Rye, item: Item) -> Link:
    """An item as the policy of its type lets it through; raises `CodedError`."""
    text = read_item(item)
    verdict = rye.trust().require(item, text, signs=rye.sees("sign"))
    parsed = require(item, split(text, item.extension)[1])
    return Link(item, parsed, verdict, sha256_hex(text.encode()))
