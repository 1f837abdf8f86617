"""Signs one item after the other with a person's key."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.paging import AROUND, MAX_CHARACTERS, fitted

from ..codes import INTEGRITY_FAILED, SPACE_VIOLATION, UNTRUSTED_KEY, VALIDATION_FAILED
from ..files import read_item, write_item
from ..wording import reason
from .key_folder import UnfitKeyError
from .signatures import Signature, digest_of, line_of, message_of, split, with_line, without_stale
from .trust import TRUSTED, UNTRUSTED, VALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..item import Item
    from ..workspace import Rye
    from .keys import Key


class NoKeyError(CodedError):
    """Nothing can be signed at all, whichever item it is."""


class Signed:
    """An item's signature; `unchanged` says that the item had it already."""

    __slots__ = ("signature", "unchanged", "warnings")

    def __init__(self, signature: Signature, warnings: list[str], *, unchanged: bool) -> None:
        self.signature = signature
        self.warnings = warnings
        self.unchanged = unchanged


class Pen:
    """Signs items with the key that the first of them asks for.

    `warnings` are those that are not of one item alone.
    """

    __slots__ = ("_asked", "_key", "_rye", "_why", "warnings")

    def __init__(self, rye: Rye) -> None:
        self._rye = rye
        self._asked = False
        self._key: Key | None = None
        self._why = ""  # there is no key
        self.warnings: list[str] = []

    def sign(self, item: Item) -> Signed:
        """Check an item and sign it; what has such a signature is left as it is.

        Raises `CodedError`: the item is then as it was.
        """
        text = read_item(item)
        standing, bare = split(text, item.extension)
        bare = without_stale(bare, item.extension)
        warnings = _checked(item, bare)
        key = self._own_key()
        if standing is not None and self._suffices(item, text, standing, key):
            return Signed(standing, warnings, unchanged=True)
        signature = self._signature(item, bare, key)
        line = line_of(signature, item.extension)
        replace_unchanged(item, text, with_line(bare, item.extension, line))
        return Signed(signature, warnings, unchanged=False)

    def _own_key(self) -> Key | None:
        """The person's key; None where there is none and none can be made.

        Raises `NoKeyError` where that must not be used.
        """
        if not self._asked:
            self._key = self._found_key()
            self._asked = True
        return self._key

    def _found_key(self) -> Key | None:
        from .keys import own_key

        user = self._rye.user
        if not user:
            raise NoKeyError(
                SPACE_VIOLATION,
                "nothing is signed while the user space lies within the project, since a project "
                "could then bring its own keys: set USER_SPACE to a folder outside of "
                f'"{self._rye.project}" where the server is started',
            )
        try:
            key = own_key(user)
        except UnfitKeyError as error:
            raise NoKeyError(UNTRUSTED_KEY, f"your key is not used: {error}") from error
        except OSError as error:
            self._why = f'no key can be made below "{user}" ({reason(error)})'
            self.warnings.append(
                f"{self._why}, so the signature only tells of accidents: anyone could renew it"
            )
            return None
        self._trust(user, key)
        return key

    def _trust(self, user: str, key: Key) -> None:
        """Trust a key that is new; whether an older one still is, is up to the person."""
        from .keys import check_trusted, is_published, publish

        try:
            if not is_published(user, key):
                publish(user, key)
        except (UnfitKeyError, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            self.warnings.append(f"your key cannot be added to those that you trust: {why}")
            return
        try:
            check_trusted(user, key.fingerprint)
        except UnfitKeyError as error:
            self.warnings.append(f'what you sign is "{UNTRUSTED}" here: {error}')

    def _suffices(self, item: Item, text: str, standing: Signature, key: Key | None) -> bool:
        """Whether the signature that an item has says as much as a new one would."""
        state = self._rye.trust().verdict(item, text).state
        if key is None:
            return state in {VALID, UNTRUSTED}
        return state == VALID and standing.fingerprint == key.fingerprint

    def _signature(self, item: Item, bare: str, key: Key | None) -> Signature:
        """A new signature; raises `NoKeyError` where one without a key would not do."""
        digest = digest_of(bare)
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if key is not None:
            signature = key.signature_of(message_of(item.type, item.id, digest, timestamp))
            return Signature(digest, timestamp, signature=signature, fingerprint=key.fingerprint)
        if self._rye.trust().policy_of(item.type) == TRUSTED:
            raise NoKeyError(
                UNTRUSTED_KEY,
                f'{self._why}, and the policy "{TRUSTED}" of each {item.type} asks for one: make '
                "that folder writable",
            )
        return Signature(digest, timestamp)


def _checked(item: Item, bare: str) -> list[str]:
    """The warnings about an item; raises `CodedError` where it must not be signed."""
    from ..formats.parsing import parse
    from ..formats.validation import issues_of

    if bare.strip("\ufeff \t\r\n"):
        issues, warnings = issues_of(item, parse(item, bare))
    else:
        issues, warnings = ["it is empty"], []
    if not issues:
        return warnings
    facts = {"item_type": item.type, "item_id": item.id, "issues": issues}
    raise CodedError(
        VALIDATION_FAILED,
        f'the {item.type} "{item.id}" is not signed, mend its file first: {issues[0]}',
        **fitted(facts, MAX_CHARACTERS - AROUND),
    )


def replace_unchanged(item: Item, before: str, after: str) -> None:
    """Write an item, unless somebody else has done so since; its file keeps its mode.

    What is written between this look and the moment when the file is replaced is lost: there is no
    lock that an editor would heed. Raises `CodedError`.
    """
    if read_item(item) != before:
        raise CodedError(
            INTEGRITY_FAILED,
            f'the {item.type} "{item.id}" was changed while it was signed: look at it and sign it '
            "again",
            item_type=item.type,
            item_id=item.id,
        )
    write_item(item, after, exclusive=False)
