"""The output that a user sees on a terminal."""

import os
import select


def read_screen(screen: int, until: bytes | None = None, *, patience: float) -> bytes:
    """Return a terminal's output up to these bytes, or until the last program leaves it."""
    seen = b""
    while (until is None or until not in seen) and select.select([screen], [], [], patience)[0]:
        try:
            piece = os.read(screen, 1 << 16)
        except OSError:  # Linux reports that no program is left this way
            break
        if not piece:
            break
        seen += piece
    return seen
