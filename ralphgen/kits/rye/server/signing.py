"""Signs items with the user's key: one by id, or all that match a pattern."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import reason
from ralphgen.runtime.values import AROUND, MAX_CHARACTERS, fitted

from .spaces import PROJECT, SOURCES, SYSTEM, USER, is_pattern, is_reserved, read_item, write_item
from .trust import (
    TRUSTED,
    UNTRUSTED,
    VALID,
    Signature,
    UnfitKeyError,
    digest_of,
    line_of,
    message_of,
    split,
    with_line,
    without_stale,
)
from .values import (
    INTEGRITY_FAILED,
    ITEM_NOT_FOUND,
    READ_ONLY_SPACE,
    SPACE_VIOLATION,
    UNTRUSTED_KEY,
    VALIDATION_FAILED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .spaces import Item, Spaces
    from .trust import Key
    from .workspace import Rye

LOCATIONS = (PROJECT, USER)


def sign(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check and sign one item, or each item that matches a pattern.

    An item with a valid signature by the same key is left unchanged. Raises `CodedError`.
    """
    location = _location(arguments)
    spaces = rye.spaces(arguments["project_path"])
    item_type, item_id = arguments["item_type"], arguments["item_id"]
    if is_pattern(item_id):
        items = spaces.matching(item_type, item_id, location)
        if not items:
            text = f'no {item_type} in the {location} space matches "{item_id}"'
            raise CodedError(ITEM_NOT_FOUND, text, item_type=item_type, item_id=item_id)
        return _signed_all(Signer(rye), items)
    try:
        item = spaces.find(item_type, item_id, location)
    except CodedError as error:
        raise _elsewhere(rye, spaces, error, item_type, item_id) from error
    return _signed(Signer(rye), item)


def _location(arguments: Mapping[str, Any]) -> str:
    """Return the space to sign in; raises `CodedError`."""
    parameters = arguments.get("parameters") or {}
    if parameters.keys() - {"location"}:
        raise CodedError(VALIDATION_FAILED, '"parameters" accepts only "location"')
    named = {"source": arguments.get("source"), "parameters.location": parameters.get("location")}
    given = {name: value for name, value in named.items() if value is not None}
    for name, value in given.items():
        if value == SYSTEM:
            text = f"items of the {SYSTEM} space come with the server and need no signature"
            raise CodedError(READ_ONLY_SPACE, text)
        if value not in LOCATIONS:
            text = f'"{name}" must be "{PROJECT}" or "{USER}"'
            raise CodedError(VALIDATION_FAILED, text)
    location, *others = {*given.values()} or {PROJECT}
    if others:
        text = '"source" and "parameters.location" name different spaces: use only one of them'
        raise CodedError(VALIDATION_FAILED, text)
    return str(location)


def _elsewhere(
    rye: Rye, spaces: Spaces, error: CodedError, item_type: str, item_id: str
) -> CodedError:
    """Return the error of a missing item, naming another space that has it."""
    if error.code != ITEM_NOT_FOUND:
        return error
    found = filter(None, (spaces.at(item_type, item_id, source) for source in SOURCES))
    item = next(found, None)
    if item is None or (item.source != SYSTEM and not rye.takes("sign", "source")):
        return error
    if item.source != SYSTEM:
        fix = f': set source "{item.source}" to sign it there'
        return CodedError(error.code, f"{error}{fix}", **error.facts)
    text = f'the {item_type} "{item_id}" is only in the {SYSTEM} space, and needs no signature'
    reserved = is_reserved(item_type, item_id, PROJECT)
    if rye.takes("load", "destination") and not reserved:
        text += f': to customize it, copy it with "load", destination "{PROJECT}", and '
        text += "sign the copy"
    facts = {"item_type": item_type, "item_id": item_id, "source": SYSTEM}
    return CodedError(READ_ONLY_SPACE, text, **facts)


def _signed(signer: Signer, item: Item) -> dict[str, Any]:
    """Sign one item and return the answer; raises `CodedError`."""
    signed = signer.sign(item)
    answer = {
        "status": "signed",
        "item_id": item.id,
        "item_type": item.type,
        "path": item.path,
        "signature": signed.signature.payload,
        "signature_info": signed.signature.info(),
        "timestamp": signed.signature.timestamp,
        "location": item.source,
        "warnings": [*signer.warnings, *signed.warnings],
    }
    return fitted({**answer, "unchanged": True} if signed.unchanged else answer)


def _signed_all(signer: Signer, items: Sequence[Item]) -> dict[str, Any]:
    """Sign several items and return their results; raises `CodedError` if all fail."""
    signed: list[str] = []
    failed: list[dict[str, Any]] = []
    warnings: list[str] = []
    for item in items:
        try:
            warnings += [f"{item.id}: {warning}" for warning in signer.sign(item).warnings]
            signed.append(item.id)
        except NoKeyError:
            raise
        except CodedError as error:
            issues = {"issues": error.facts["issues"]} if error.facts.get("issues") else {}
            told = {"code": error.code, "message": str(error)}
            failed.append({"item": item.id, "error": told, **issues})
    facts = {"signed": signed, "failed": failed, "total": len(items)}
    summary = f"signed {len(signed)} of {len(items)}"
    if not signed:
        codes = {entry["error"]["code"] for entry in failed}
        text = f'{summary}: see "failed" for the reasons'
        code = codes.pop() if len(codes) == 1 else VALIDATION_FAILED
        raise CodedError(code, text, **fitted(facts, MAX_CHARACTERS - AROUND))
    status = "partial" if failed else "completed"
    about = {"summary": summary, "warnings": [*signer.warnings, *warnings]}
    return fitted({"status": status, **facts, **about})


class NoKeyError(CodedError):
    """No item can be signed, because there is no usable key."""


class Signed:
    """The result of signing an item; `unchanged` means that it was already signed."""

    __slots__ = ("signature", "unchanged", "warnings")

    def __init__(self, signature: Signature, warnings: list[str], *, unchanged: bool) -> None:
        self.signature = signature
        self.warnings = warnings
        self.unchanged = unchanged


class Signer:
    """Signs items with one key, read at the first item; `warnings` apply to all items."""

    __slots__ = ("_asked", "_key", "_rye", "_why", "warnings")

    def __init__(self, rye: Rye) -> None:
        self._rye = rye
        self._asked = False
        self._key: Key | None = None
        self._why = ""  # why there is no key
        self.warnings: list[str] = []

    def sign(self, item: Item) -> Signed:
        """Check an item and sign it, unless it has an equivalent signature.

        Raises `CodedError` and then leaves the item unchanged.
        """
        text = read_item(item)
        existing, bare = split(text, item.extension)
        bare = without_stale(bare, item.extension)
        warnings = _checked(item, text, bare)
        if not self._asked:
            self._key = self._own_key()
            self._asked = True
        key = self._key
        if existing is not None and self._suffices(item, text, existing, key):
            return Signed(existing, warnings, unchanged=True)
        signature = self._signature(item, bare, key)
        line = line_of(signature, item.extension)
        replace_unchanged(item, text, with_line(bare, item.extension, line))
        return Signed(signature, warnings, unchanged=False)

    def _own_key(self) -> Key | None:
        """Return the user's key, or None if it cannot be created.

        Raises `NoKeyError` if the key must not be used.
        """
        from .trust import own_key

        user = self._rye.user
        if not user:
            raise NoKeyError(
                SPACE_VIOLATION,
                "cannot sign while the user space is inside the project, because a project could "
                "then bring its own keys: start the server with USER_SPACE set to a directory "
                f'outside "{self._rye.project}"',
            )
        try:
            key = own_key(user)
        except UnfitKeyError as error:
            raise NoKeyError(UNTRUSTED_KEY, f"cannot use your key: {error}") from error
        except OSError as error:
            self._why = f'cannot create a key in "{user}" ({reason(error)})'
            self.warnings.append(
                f"{self._why}, so the signature detects only accidental changes: anyone could "
                "renew it"
            )
            return None
        self._trust(user, key)
        return key

    def _trust(self, user: str, key: Key) -> None:
        """Trust a new key; the user decides about older ones."""
        from .trust import is_published, publish, trusted_key

        try:
            if not is_published(user, key):
                publish(user, key)
        except (UnfitKeyError, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            self.warnings.append(f"cannot add your key to the trusted keys: {why}")
            return
        try:
            trusted_key(user, key.fingerprint)
        except UnfitKeyError as error:
            self.warnings.append(f'your signatures are "{UNTRUSTED}" here: {error}')

    def _suffices(self, item: Item, text: str, existing: Signature, key: Key | None) -> bool:
        """Return whether the existing signature is as good as a new one."""
        state = self._rye.trust().verdict(item, text).state
        if key is None:
            return state in {VALID, UNTRUSTED}
        return state == VALID and existing.fingerprint == key.fingerprint

    def _signature(self, item: Item, bare: str, key: Key | None) -> Signature:
        """Return a new signature; raises `NoKeyError` if the policy requires a key."""
        digest = digest_of(bare)
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if key is not None:
            signature = key.signature_of(message_of(item.type, item.id, digest, timestamp))
            return Signature(digest, timestamp, signature=signature, fingerprint=key.fingerprint)
        if self._rye.trust().policy_of(item.type) == TRUSTED:
            raise NoKeyError(
                UNTRUSTED_KEY,
                f'{self._why}, and the policy "{TRUSTED}" for each {item.type} requires one: '
                "make that directory writable",
            )
        return Signature(digest, timestamp)


def _checked(item: Item, text: str, bare: str) -> list[str]:
    """Return the warnings about an item; raises `CodedError` if it cannot be signed.

    `bare` is the signed part of the file's `text`.
    """
    from .formats.tools import issues_of, parse

    if bare.strip("\ufeff \t\r\n"):
        issues, warnings = issues_of(item, parse(item, text, bare))
    else:
        issues, warnings = ["it is empty"], []
    if not issues:
        return warnings
    facts = {"item_type": item.type, "item_id": item.id, "issues": issues}
    raise CodedError(
        VALIDATION_FAILED,
        f'the {item.type} "{item.id}" cannot be signed: {issues[0]}; fix its file first',
        **fitted(facts, MAX_CHARACTERS - AROUND),
    )


def replace_unchanged(item: Item, before: str, after: str) -> None:
    """Write an item unless its file has changed since it was read; keeps the file mode.

    An edit between this check and the replacement is lost, because editors honour no lock. Raises
    `CodedError`.
    """
    if read_item(item) != before:
        raise CodedError(
            INTEGRITY_FAILED,
            f'the {item.type} "{item.id}" changed while it was signed: review it and sign it again',
            item_type=item.type,
            item_id=item.id,
        )
    write_item(item, after, exclusive=False)
