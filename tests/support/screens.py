"""What a person sees on a terminal."""

import os
import select


def shown(screen: int, until: bytes | None = None, *, patience: float) -> bytes:
    """What a terminal shows until these bytes come, or until the last program leaves it."""
    seen = b""
    while (until is None or until not in seen) and select.select([screen], [], [], patience)[0]:
        try:
            piece = os.read(screen, 1 << 16)
        except OSError:  # Linux says so that nobody is there any more
            break
        if not piece:
            break
        seen += piece
    return seen
