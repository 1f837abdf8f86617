"""What the elements of a chain say to its primitive, put together."""

from __future__ import annotations

from .shapes import mapping_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .reading import Link

MERGED = "env"  # what is put together member by member


def configuration_of(chain: Sequence[Link]) -> dict[str, Any]:
    """The configs of a chain, from the primitive's to the tool's, which wins.

    No parameter has a say in it. Raises `CodedError`.
    """
    config: dict[str, Any] = {}
    for link in reversed(chain):
        said = link.parsed.metadata.get("config")
        if said is None:
            continue
        for key, value in mapping_at(f"config of {link.item.id}", said).items():
            before = config.get(key)
            if key == MERGED and isinstance(value, dict) and isinstance(before, dict):
                config[key] = {**before, **value}
            else:
                config[key] = value
    return config


def unknown_keys(config: Mapping[str, Any], known: Sequence[str], primitive: str) -> list[str]:
    """What to warn of: keys that the primitive does not know, which do nothing."""
    return [
        f'the config says "{key}", which "{primitive}" does not know: it knows {", ".join(known)}'
        for key in config
        if key not in known
    ]


def timeout_of(seconds: float | None, most: float) -> tuple[float, list[str]]:
    """How long a tool may take, where it says so or not, and what to warn of."""
    if seconds is None or seconds <= most:
        return most if seconds is None else seconds, []
    text = f"the config asks for a timeout of {seconds:g} seconds, and gets the most: {most:g}"
    return most, [text]
