"""Says how far the text of an item can be trusted, and refuses what the policy does not allow."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.encoding import sha256_hex

from .. import values as codes
from ..item import SYSTEM
from .permissions import INTEGRITY, OFF, TRUSTED, WARN
from .signatures import SIGNED, digest_of, message_of, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..item import Item
    from .signatures import Signature

VALID, UNSIGNED, MODIFIED, UNTRUSTED = "valid", "unsigned", "modified", "untrusted"
MANIFEST = "manifest"  # the form of what comes with the server: its digest is in the manifest
CODES = {UNSIGNED: codes.UNSIGNED, MODIFIED: codes.INTEGRITY_FAILED, UNTRUSTED: codes.UNTRUSTED_KEY}
REFUSED = {
    OFF: frozenset[str](),
    WARN: frozenset[str](),
    INTEGRITY: frozenset({UNSIGNED, MODIFIED}),
    TRUSTED: frozenset(CODES),
}


class Verdict:
    """The result of verifying a text: how far it can be trusted.

    `state` is one of the four; `reason` says why it is not `VALID`. `form` is that of the
    signature, or `MANIFEST`, empty where there is none; `fingerprint` names the key of a signature.
    `warnings` are what the policy does not refuse and yet wants told.
    """

    __slots__ = ("fingerprint", "form", "reason", "state", "timestamp", "warnings")

    def __init__(
        self, state: str, reason: str = "", *, form: str = "", signature: Signature | None = None
    ) -> None:
        self.state = state
        self.reason = reason
        self.form = signature.form if signature else form
        self.fingerprint = signature.fingerprint if signature else ""
        self.timestamp = signature.timestamp if signature else ""
        self.warnings: list[str] = []

    def entry(self) -> dict[str, Any]:
        """Return what an answer says of it; what is not there is left out."""
        names = ("form", "fingerprint", "timestamp", "reason")
        parts = {name: getattr(self, name) for name in names}
        return {"state": self.state, **{name: part for name, part in parts.items() if part}}


class Trust:
    """Whom a session trusts: the keys of the user space, and the manifest of the server.

    `policy` says by type what is refused; `user` is the user space, empty where no key is trusted;
    `folder` is that of the emitted server. Nothing but the manifest is remembered.
    """

    __slots__ = ("_digests", "_folder", "_policy", "_seen", "_user")

    def __init__(self, policy: Mapping[str, str], user: str, folder: str) -> None:
        self._policy = policy
        self._user = user
        self._folder = folder
        self._digests: Mapping[str, str] = {}
        self._seen: tuple[int, int, int] | None = None

    def policy_of(self, item_type: str) -> str:
        """Return what is asked of the items of a type."""
        return self._policy[item_type]

    def verdict(self, item: Item, text: str) -> Verdict:
        """Return how far the text of an item can be trusted."""
        if item.source == SYSTEM:
            return self._of_the_server(item, text)
        signature, bare = split(text, item.extension)
        if signature is None:
            return Verdict(UNSIGNED, "it has no signature")
        if signature.hash != digest_of(bare):
            return Verdict(MODIFIED, "it changed after it was signed", signature=signature)
        if signature.form != SIGNED:
            reason = "its signature was made without a key, so anyone could have made it"
            return Verdict(UNTRUSTED, reason, signature=signature)
        return self._by_key(item, signature)

    def require(self, item: Item, text: str, *, signs: bool) -> Verdict:
        """Return how far a text can be trusted, where the policy of its type allows that.

        `signs` says whether the session has the tool that signs. Raises `CodedError`.
        """
        verdict = self.verdict(item, text)
        policy = self.policy_of(item.type)
        if verdict.state == VALID or policy == OFF:
            return verdict
        told = f'the {item.type} "{item.id}" of the {item.source} space is {verdict.state}'
        if verdict.state not in REFUSED[policy]:
            verdict.warnings.append(f"{told}: {verdict.reason}")
            return verdict
        entry = verdict.entry()
        del entry["reason"]  # the message says it
        raise CodedError(
            CODES[verdict.state],
            f'{told}, and the policy "{policy}" rejects it: '
            f"{verdict.reason}{_fix(item, verdict, signs=signs)}",
            item_type=item.type,
            item_id=item.id,
            source=item.source,
            policy=policy,
            signature=entry,
        )

    def _by_key(self, item: Item, signature: Signature) -> Verdict:
        """Return what the key of a signature says of a text whose hash is right."""
        from .keys import UnfitKeyError, is_signed

        message = message_of(item.type, item.id, signature.hash, signature.timestamp)
        try:
            if is_signed(self._user, signature.fingerprint, signature.signature, message):
                return Verdict(VALID, signature=signature)
        except UnfitKeyError as error:
            return Verdict(UNTRUSTED, str(error), signature=signature)
        reason = (
            "its signature does not match its content, name and time: the item was moved or "
            "renamed, or its signature line was edited"
        )
        return Verdict(MODIFIED, reason, signature=signature)

    def _of_the_server(self, item: Item, text: str) -> Verdict:
        """Return whether a file that comes with the server is as it was emitted."""
        path = os.path.relpath(item.path, self._folder).replace(os.sep, "/")
        if self._emitted().get(path) == sha256_hex(text.encode()):
            return Verdict(VALID, form=MANIFEST)
        return Verdict(MODIFIED, "it differs from the generated file", form=MANIFEST)

    def _emitted(self) -> Mapping[str, str]:
        """Return the digests of the server's files by their paths; empty without a manifest."""
        import json

        path = os.path.join(self._folder, "manifest.json")
        try:
            status = os.stat(path)
            seen = status.st_mtime_ns, status.st_size, status.st_ino
            if seen != self._seen:
                with open(path, "rb") as file:
                    found = json.load(file)
                files = found.get("files") if isinstance(found, dict) else None
                self._digests = files if isinstance(files, dict) else {}
                self._seen = seen
        except (OSError, ValueError, RecursionError):
            self._digests, self._seen = {}, None
        return self._digests


def _fix(item: Item, verdict: Verdict, *, signs: bool) -> str:
    """Return what to do about an item that is refused, where the reason does not say that."""
    if item.source == SYSTEM:
        return '; run "ralphgen regen --force" in the project'
    if verdict.state == UNTRUSTED and verdict.form == SIGNED:
        return ""  # whoever signs it anew takes away what somebody else has vouched for
    seen = "review it"
    if verdict.state == MODIFIED:
        seen = "check what changed, and who changed it"
    act = 'sign it with "sign"' if signs else "ask the user to sign it"
    return f"; {seen}, and if it is correct, {act}"
