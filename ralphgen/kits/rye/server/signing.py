"""The tool that signs: which items it is to sign, and what it answers."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.paging import AROUND, MAX_CHARACTERS, fitted

from .authenticity.signer import NoKeyError, Pen
from .codes import ITEM_NOT_FOUND, READ_ONLY_SPACE, VALIDATION_FAILED
from .ids import is_pattern, is_reserved
from .item import PROJECT, SOURCES, SYSTEM, USER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .item import Item
    from .spaces import Spaces
    from .workspace import Rye

LOCATIONS = (PROJECT, USER)


def sign(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check an item, or each of those that a pattern means, and sign it.

    What has a signature of the same key and was not changed since is left as it is. Raises
    `CodedError`.
    """
    location = _location(arguments)
    spaces = rye.spaces(arguments["project_path"])
    item_type, item_id = arguments["item_type"], arguments["item_id"]
    if is_pattern(item_id):
        return _signed_all(Pen(rye), _meant(spaces, item_type, item_id, location))
    try:
        item = spaces.find(item_type, item_id, location)
    except CodedError as error:
        raise _elsewhere(rye, spaces, error, item_type, item_id) from error
    return _signed(Pen(rye), item)


def _location(arguments: Mapping[str, Any]) -> str:
    """The space whose items are signed; raises `CodedError`."""
    parameters = arguments.get("parameters") or {}
    if parameters.keys() - {"location"}:
        raise CodedError(VALIDATION_FAILED, '"parameters" takes nothing but "location"')
    named = {"source": arguments.get("source"), "parameters.location": parameters.get("location")}
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in given.items():
        if value == SYSTEM:
            text = f"the items of the {SYSTEM} space come with the server: they need no signature"
            raise CodedError(READ_ONLY_SPACE, text)
        if value not in LOCATIONS:
            text = f'"{name}" must be "{PROJECT}" or "{USER}"'
            raise CodedError(VALIDATION_FAILED, text)
    location, *others = {*given.values()} or {PROJECT}
    if others:
        text = '"source" and "parameters.location" name two spaces: give one of them'
        raise CodedError(VALIDATION_FAILED, text)
    return str(location)


def _elsewhere(
    rye: Rye, spaces: Spaces, error: CodedError, item_type: str, item_id: str
) -> CodedError:
    """The error of an item that was not found, with what to do where another space has it."""
    if error.code != ITEM_NOT_FOUND:
        return error
    found = filter(None, (spaces.at(item_type, item_id, source) for source in SOURCES))
    item = next(found, None)
    if item is None or (item.source != SYSTEM and not rye.takes("sign", "source")):
        return error
    if item.source != SYSTEM:
        mend = f': give source "{item.source}" to sign it there'
        return CodedError(error.code, f"{error}{mend}", **error.facts)
    text = f'the {item_type} "{item_id}" is in the {SYSTEM} space alone, and needs no signature'
    reserved = is_reserved(item_type, item_id, PROJECT)
    if rye.takes("load", "destination") and not reserved:
        text += f': to have one of your own, copy it with "load", destination "{PROJECT}", and '
        text += "sign the copy"
    facts = {"item_type": item_type, "item_id": item_id, "source": SYSTEM}
    return CodedError(READ_ONLY_SPACE, text, **facts)


def _meant(spaces: Spaces, item_type: str, pattern: str, location: str) -> list[Item]:
    """The items that a pattern means, at least one; raises `CodedError`."""
    items = spaces.matching(item_type, pattern, location)
    if not items:
        text = f'the {location} space has no {item_type} whose id is like "{pattern}"'
        raise CodedError(ITEM_NOT_FOUND, text, item_type=item_type, item_id=pattern)
    return items


def _signed(pen: Pen, item: Item) -> dict[str, Any]:
    """What came of one item; raises `CodedError`."""
    signed = pen.sign(item)
    answer = {
        "status": "signed",
        "item_id": item.id,
        "item_type": item.type,
        "path": item.path,
        "signature": signed.signature.payload,
        "signature_info": signed.signature.info(),
        "timestamp": signed.signature.timestamp,
        "location": item.source,
        "warnings": [*pen.warnings, *signed.warnings],
    }
    return fitted({**answer, "unchanged": True} if signed.unchanged else answer)


def _signed_all(pen: Pen, items: Sequence[Item]) -> dict[str, Any]:
    """What came of each of several items; raises `CodedError` where none could be signed."""
    signed: list[str] = []
    failed: list[dict[str, Any]] = []
    warnings: list[str] = []
    for item in items:
        try:
            warnings += [f"{item.id}: {warning}" for warning in pen.sign(item).warnings]
            signed.append(item.id)
        except NoKeyError:
            raise
        except CodedError as error:
            failed.append(_failure(item, error))
    facts = {"signed": signed, "failed": failed, "total": len(items)}
    summary = f"signed {len(signed)} of {len(items)}"
    if not signed:
        codes = {entry["error"]["code"] for entry in failed}
        text = f'{summary}: "failed" says of each item why'
        code = codes.pop() if len(codes) == 1 else VALIDATION_FAILED
        raise CodedError(code, text, **fitted(facts, MAX_CHARACTERS - AROUND))
    status = "partial" if failed else "completed"
    told = {"summary": summary, "warnings": [*pen.warnings, *warnings]}
    return fitted({"status": status, **facts, **told})


def _failure(item: Item, error: CodedError) -> dict[str, Any]:
    """Why an item of several was not signed."""
    told = {"code": error.code, "message": str(error)}
    issues = error.facts.get("issues")
    return {"item": item.id, "error": told, **({"issues": issues} if issues else {})}
