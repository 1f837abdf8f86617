"""Puts the inputs of a directive into its texts, in one pass over what its author wrote."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError

from ..codes import VALIDATION_FAILED
from ..formats.references import REFERENCE
from .filling import MOST, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from typing import Any


def resolved(value: Any, inputs: Mapping[str, Any]) -> Any:
    """A JSON value in whose texts the inputs stand; what was put in is not looked at again.

    A reference to what is not there stays as it is written, unless it is optional or says what
    stands there instead. Raises `CodedError` where too much would be put in.
    """
    room = MOST

    def put_in(found: re.Match[str]) -> str:
        nonlocal room
        text = _value(found, inputs)
        room -= len(text)
        if room < 0:
            text = f"more than {MOST:,} characters would be put in: let it name its inputs less"
            raise CodedError(VALIDATION_FAILED, text)
        return text

    return _mapped(value, put_in)


def _mapped(value: Any, put_in: Callable[[re.Match[str]], str]) -> Any:
    """A JSON value, the references in its texts replaced."""
    if isinstance(value, str):
        return REFERENCE.sub(put_in, value)
    if isinstance(value, (list, tuple)):
        return [_mapped(item, put_in) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(member, put_in) for key, member in value.items()}
    return value


def _value(found: re.Match[str], inputs: Mapping[str, Any]) -> str:
    name = found["name"] or found["other"]
    if name in inputs:
        return as_text(inputs[name])
    if found["default"] is not None:
        return found["default"]
    return "" if found["optional"] else found[0]
