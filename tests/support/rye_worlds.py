"""Items in every state of trust, with the keys and the manifest that make them so."""

import json
from hashlib import sha256
from pathlib import Path

from rye_projects import EXTENSIONS, put, well_formed

from ralphgen.kits.rye.server.spaces import TOOL, TYPES, Item, Space
from ralphgen.kits.rye.server.trust import (
    MODIFIED,
    UNSIGNED,
    UNTRUSTED,
    Key,
    Signature,
    Trust,
    digest_of,
    line_of,
    message_of,
    own_key,
    publish,
    with_line,
)

TIME = "2026-02-11T09:30:00Z"


class World:
    """A project, a user space with a key, and the folder of a server."""

    def __init__(self, folder: Path) -> None:
        """Create it in an empty folder."""
        self.project = Space("project", str(folder / "project/.ai"))
        self.user = folder / "user/.ai"
        self.server = folder / "project/.ralph/mcp"
        self.system = Space("system", str(self.server / "rye/system"))
        self.key = own_key(str(self.user))
        publish(str(self.user), self.key)

    def trust(self, policy: str = "warn", user: Path | None = None) -> Trust:
        """Asks the same of every type."""
        place = str(self.user if user is None else user)
        return Trust(dict.fromkeys(TYPES, policy), place, str(self.server))

    def item(self, item_type: str = TOOL, item_id: str = "demo/a", extension: str = "") -> Item:
        return Item(item_type, item_id, extension or EXTENSIONS[item_type], self.project)

    def signed(self, item: Item, bare: str, key: Key | None = None, time: str = TIME) -> str:
        """A text with the line of a signature by the key of the user space, or by another."""
        digest = digest_of(bare)
        key = key or self.key
        signature = Signature(
            digest,
            time,
            signature=key.signature_of(message_of(item.type, item.id, digest, time)),
            fingerprint=key.fingerprint,
        )
        return with_line(bare, item.extension, line_of(signature, item.extension))

    def in_state(self, state: str, item: Item) -> str:
        """The text of an item in a state."""
        bare = well_formed(item.type, item.id)
        if state == UNSIGNED:
            return bare
        if state == UNTRUSTED:
            line = line_of(Signature(digest_of(bare), TIME), item.extension)
            return with_line(bare, item.extension, line)
        return self.signed(item, bare) + ("changed" if state == MODIFIED else "")

    def emit(self, text: str, listed: str | None = None) -> Item:
        """A tool of the server; its manifest lists the digest of this text or of another."""
        item = Item(TOOL, "rye/core/x", ".yaml", self.system)
        put(Path(item.path), text)
        digest = sha256((text if listed is None else listed).encode()).hexdigest()
        files = {"rye/system/tools/rye/core/x.yaml": digest}
        put(self.server / "manifest.json", json.dumps({"files": files}))
        return item
