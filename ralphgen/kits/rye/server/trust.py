"""Keys, signatures, and trust in them."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import NO_LINK, NotAFileError, open_file, reason, replace_file
from ralphgen.runtime.loader import add_packages

from . import values as codes
from .spaces import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    from .spaces import Item

OFF, WARN, INTEGRITY, TRUSTED = "off", "warn", "integrity", "trusted"
WORDS = (OFF, WARN, INTEGRITY, TRUSTED)  # from the loosest to the strictest
DEFAULT = {"directive": WARN, "tool": TRUSTED, "knowledge": WARN}
FILE = "rye.toml"


class Permissions:
    """The permissions of a session: the user's file, restricted by the project's settings.

    `policy` maps each item type to its required trust. HTTP tools may reach only `hosts`, or all
    public hosts if it is empty; `project_hosts` restricts this further if set. `env` names the
    variables for tools. `problem` is the error in the user's file; then nothing is permitted.
    """

    __slots__ = ("env", "hosts", "policy", "problem", "project_hosts")

    def __init__(self, user: str, project: Mapping[str, Any]) -> None:
        self.problem = ""
        own: Mapping[str, Any] = {}
        if user and os.path.lexists(os.path.join(user, FILE)):
            try:
                own = _read(user)
            except ValueError as error:
                self.problem = f'"{os.path.join(user, FILE)}" is invalid: {error}'
        policies = {**DEFAULT, **own.get("policy", {})}
        self.policy = {
            kind: max(policies[kind], project["policy"][kind], key=WORDS.index) for kind in DEFAULT
        }
        self.hosts: tuple[str, ...] = tuple(host.lower() for host in own.get("hosts", ()))
        self.project_hosts: tuple[str, ...] = tuple(project.get("hosts", ()))
        self.env = [name for name in project.get("env", ()) if name in own.get("env", ())]


def _read(user: str) -> dict[str, Any]:
    """Read the user's file; raises `ValueError` if it is invalid."""
    import tomllib

    try:
        with KeyFolder(user) as folder:
            found = tomllib.loads(folder.public(FILE).decode())
    except (OSError, RecursionError, UnfitKeyError) as error:
        raise ValueError(str(error)) from error
    unknown = found.keys() - {"policy", "hosts", "env"}
    if unknown:
        raise ValueError(f'unknown key "{min(unknown)}": expected policy, hosts or env')
    policy = found.get("policy", {})
    if isinstance(policy, str):
        policy = dict.fromkeys(DEFAULT, policy)
    if not isinstance(policy, dict) or not policy.keys() <= DEFAULT.keys():
        raise ValueError(f'"policy" must be a string, or a table of {", ".join(DEFAULT)}')
    if not all(word in WORDS for word in policy.values()):
        raise ValueError(f'"policy" must be one of {", ".join(WORDS)}')
    for name in ("hosts", "env"):
        names = found.get(name, [])
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError(f'"{name}" must be a list of names')
    return {**found, "policy": policy}


LARGEST = 1 << 14  # bytes of a key file
ROOT = 0  # can change everything anyway
WRITABLE, OPEN = 0o022, 0o077  # mode bits for others: write; any access
OURS_ALONE = 0o600

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | NO_LINK
OWN, TRUSTED_KEYS = "keys", "trusted_keys"  # folders of the user space
PRIVATE, PUBLIC = "private_key.pem", "public_key.pem"


class UnfitKeyError(Exception):
    """A key that must not be used; the message contains the reason and the fix."""


class KeyFolder:
    """An open directory of keys, unaffected by later changes of its path.

    Raises `FileNotFoundError` if it does not exist, and `UnfitKeyError` if others can write to
    it.
    """

    __slots__ = ("_folder", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._folder = os.open(path, _FOLDER)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unopened(path, "directory", error) from error
        try:
            _refuse_foreign(path, os.fstat(self._folder), {os.geteuid(), ROOT}, WRITABLE)
        except UnfitKeyError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        os.close(self._folder)

    def secret(self, name: str) -> bytes:
        """Return a private file; raises `FileNotFoundError`, `UnfitKeyError`."""
        return self._content(name, {os.geteuid()}, OPEN)

    def public(self, name: str) -> bytes:
        """Return a write-protected file; raises `FileNotFoundError`, `UnfitKeyError`."""
        return self._content(name, {os.geteuid(), ROOT}, WRITABLE)

    def put_first(self, name: str, data: bytes) -> None:
        """Write a file unless it exists; safe against races; raises `OSError`."""
        try:
            replace_file(name, data, mode=OURS_ALONE, exclusive=True, folder=self._folder)
        except FileExistsError:
            return

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a file; raises `OSError`."""
        replace_file(name, data, mode=OURS_ALONE, folder=self._folder)

    def _content(self, name: str, owners: set[int], forbidden: int) -> bytes:
        path = os.path.join(self.path, name)
        try:
            file = open_file(name, links=False, folder=self._folder)
        except FileNotFoundError:
            raise
        except NotAFileError as error:
            raise UnfitKeyError(f'"{path}" is not a file: move it') from error
        except OSError as error:
            raise _unopened(path, "file", error) from error
        try:
            _refuse_foreign(path, os.fstat(file), owners, forbidden)
            return os.read(file, LARGEST)
        finally:
            os.close(file)


def open_key_folder(path: str) -> KeyFolder:
    """Open a key directory, created with mode 0700 if missing.

    Raises `OSError` and `UnfitKeyError`.
    """
    from contextlib import suppress

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return KeyFolder(path)


def _unopened(path: str, what: str, error: OSError) -> UnfitKeyError:
    """Return the error of a file or directory that exists but cannot be opened."""
    fix = f"it must be a {what} that you own, not a symbolic link"
    return UnfitKeyError(f'cannot open "{path}" ({reason(error)}): {fix}')


def _refuse_foreign(path: str, status: os.stat_result, owners: set[int], forbidden: int) -> None:
    """Raise `UnfitKeyError` for a wrong owner or a forbidden mode bit."""
    from shlex import quote

    if status.st_uid not in owners:
        text = f'"{path}" belongs to another user: move it, or take ownership'
        raise UnfitKeyError(text)
    if status.st_mode & forbidden == 0:
        return
    name = os.path.basename(path)
    if forbidden == WRITABLE:
        fix = f'check its content, then run "chmod go-w {quote(path)}"'
        raise UnfitKeyError(f'other users can write to "{name}": {fix}')
    fix = f'run "chmod 600 {quote(path)}", or move it if it may be compromised'
    raise UnfitKeyError(f'other users can access "{name}": {fix}')


class Key:
    """The user's key; `public` is the content of its public key file."""

    __slots__ = ("_private", "fingerprint", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = private.public_key()
        self._private = private
        self.fingerprint = fingerprint_of(public)
        self.public = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def signature_of(self, message: bytes) -> str:
        """Return the signature of a message, as base64 for URLs."""
        from base64 import urlsafe_b64encode

        return urlsafe_b64encode(self._private.sign(message)).decode("ascii")


def own_key(user: str) -> Key:
    """Return the key of the user space `user`, created if missing.

    Concurrent first calls of several servers return the same key. Raises `UnfitKeyError`, and
    `OSError` if it cannot be created.
    """
    folder = os.path.join(user, OWN)
    try:
        return _read_own(folder)
    except FileNotFoundError:
        with open_key_folder(folder) as keys:
            keys.put_first(PRIVATE, _new_pem())
        return _read_own(folder)


def is_published(user: str, key: Key) -> bool:
    """Return whether the user's public key file exists, which means it was trusted before.

    Raises `UnfitKeyError`, and `OSError` if the directory does not exist.
    """
    with KeyFolder(os.path.join(user, OWN)) as keys:
        return _holds(keys, PUBLIC, key.public)


def publish(user: str, key: Key) -> None:
    """Trust the user's key, then write its public key file as a record of that.

    Raises `UnfitKeyError` and `OSError`.
    """
    for folder, name in ((TRUSTED_KEYS, f"{key.fingerprint}.pem"), (OWN, PUBLIC)):
        with open_key_folder(os.path.join(user, folder)) as keys:
            if not _holds(keys, name, key.public):
                keys.put(name, key.public)


def is_signed(user: str, fingerprint: str, signature: str, message: bytes) -> bool:
    """Return whether a key signed a message; raises `UnfitKeyError` if it is not trusted."""
    key = trusted_key(user, fingerprint)
    from base64 import urlsafe_b64decode

    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(urlsafe_b64decode(signature), message)
    except InvalidSignature:
        return False
    return True


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """Return the fingerprint of a key, the first 16 digits of its SHA-256."""
    return sha256_hex(key.public_bytes_raw())[:16]


def _read_own(folder: str) -> Key:
    with KeyFolder(folder) as keys:
        data = keys.secret(PRIVATE)
    add_packages()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(data, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        path = os.path.join(folder, PRIVATE)
        fix = "move it to generate a new key, or replace it"
        raise UnfitKeyError(f'"{path}" is not an Ed25519 key without a password: {fix}')
    return Key(private)


def _new_pem() -> bytes:
    """Return the file content of a new private key."""
    add_packages()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _holds(keys: KeyFolder, name: str, data: bytes) -> bool:
    """Return whether a file has this content and is write-protected."""
    try:
        return keys.public(name) == data
    except (FileNotFoundError, UnfitKeyError):
        return False


def trusted_key(user: str, fingerprint: str) -> Ed25519PublicKey:
    """Return the trusted key of this fingerprint; raises `UnfitKeyError`."""
    if not user:
        text = (
            "no key is trusted, because the user space is inside the project: start the server "
            "with USER_SPACE set to a directory outside it"
        )
        raise UnfitKeyError(text)
    name = f"{fingerprint}.pem"
    path = os.path.join(user, TRUSTED_KEYS, name)
    try:
        with KeyFolder(os.path.dirname(path)) as keys:
            data = keys.public(name)
    except FileNotFoundError as error:
        text = (
            f"the key {fingerprint} is not trusted: to trust it, the user copies the signer's "
            f'public key ("{OWN}/{PUBLIC}") to "{TRUSTED_KEYS}/{name}" in the user space'
        )
        raise UnfitKeyError(text) from error
    add_packages()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey) or fingerprint_of(key) != fingerprint:
        raise UnfitKeyError(f'"{path}" is not the Ed25519 key {fingerprint}: move it')
    return key


SIGNED, VALIDATED = "signed", "validated"  # with a key; without one, which anyone can forge
MARKDOWN = ".md"
VERSION = "rye-signature-1"  # of the signed message
LONGEST_STALE = 4_000  # characters of a stale signature line

_BOM = "\ufeff"
# 64 bytes in base64 leave four spare bits in the last letter; other values than zero would be a
# second encoding of the same signature.
_PAYLOAD = (
    r"rye:(?:(?P<form>signed)|validated)"
    r":(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
    r":(?P<hash>[0-9a-f]{64})"
    r"(?(form):(?P<signature>[A-Za-z0-9_-]{85}[AQgw]==):(?P<fingerprint>[0-9a-f]{16}))"
)
_END = r"(?P<end>\r?\n|\Z)"
_COMMENT = re.compile(f"# {_PAYLOAD}{_END}")
_HTML_COMMENT = re.compile(f"<!-- {_PAYLOAD} -->{_END}")
# Neither may contain a line break or the end of its comment.
_STALE = r"(?:rye:signed|rye:validated|kiwi-mcp:validated):"
_STALE_COMMENT = re.compile(rf"#[ \t]*{_STALE}[ -~\t]{{0,{LONGEST_STALE}}}{_END}")
_STALE_HTML_COMMENT = re.compile(
    rf"<!--[ \t]*{_STALE}[ -=?-~\t]{{0,{LONGEST_STALE}}}-->[ \t]*{_END}"
)


class Signature:
    """The parts of a signature line.

    `form` is `SIGNED` or `VALIDATED`; the latter has neither `signature` nor `fingerprint`.
    """

    __slots__ = ("fingerprint", "form", "hash", "signature", "timestamp")

    def __init__(
        self, digest: str, timestamp: str, *, signature: str = "", fingerprint: str = ""
    ) -> None:
        self.form = SIGNED if signature else VALIDATED
        self.hash = digest
        self.timestamp = timestamp
        self.signature = signature
        self.fingerprint = fingerprint

    @property
    def payload(self) -> str:
        """Return the signature line without comment marks."""
        parts = ["rye", self.form, self.timestamp, self.hash]
        return ":".join([*parts, self.signature, self.fingerprint] if self.signature else parts)

    def info(self) -> dict[str, Any]:
        """Return the facts for an answer; `fingerprint` is None without a key."""
        return {
            "form": self.form,
            "timestamp": self.timestamp,
            "hash": self.hash,
            "fingerprint": self.fingerprint or None,
        }


def line_of(signature: Signature, extension: str) -> str:
    """Return a signature as a comment line for this extension, without a line break."""
    payload = signature.payload
    return f"<!-- {payload} -->" if extension == MARKDOWN else f"# {payload}"


def split(text: str, extension: str) -> tuple[Signature | None, str]:
    """Return the signature of a text and the rest, or None and the whole text."""
    pattern = _HTML_COMMENT if extension == MARKDOWN else _COMMENT
    found = pattern.match(text, _place(text, extension))
    if found is None:
        return None, text
    parts = found.groupdict()
    signature = Signature(
        parts["hash"],
        parts["timestamp"],
        signature=parts["signature"] or "",
        fingerprint=parts["fingerprint"] or "",
    )
    bare = _without(text, found)
    # A signature line in another place, such as before a shebang, does not count.
    again = with_line(bare, extension, line_of(signature, extension))
    return (signature, bare) if _normal(again) == _normal(text) else (None, text)


def with_line(bare: str, extension: str, line: str) -> str:
    """Return the text with a line inserted at the top, after a shebang; `split` reverses it.

    Uses the line ending of the first line.
    """
    place = _place(bare, extension)
    if place > 1 and not bare.endswith("\n", 0, place):  # only a shebang
        return f"{bare}\n{line}"
    first = bare.find("\n")
    newline = "\r\n" if first > 0 and bare[first - 1] == "\r" else "\n"
    return bare[:place] + line + newline + bare[place:]


def without_stale(bare: str, extension: str) -> str:
    """Return the rest from `split` without stale signature lines at the top.

    Otherwise they would pile up with each signing.
    """
    pattern = _STALE_HTML_COMMENT if extension == MARKDOWN else _STALE_COMMENT
    while found := pattern.match(bare, _place(bare, extension)):
        bare = _without(bare, found)
    return bare


def digest_of(bare: str) -> str:
    """Return the SHA-256 of a text without its signature, independent of line endings."""
    return sha256_hex(_normal(bare).encode())


def message_of(item_type: str, item_id: str, digest: str, timestamp: str) -> bytes:
    """Return the signed message: the digest, name and time of a text."""
    return f"{VERSION}\n{item_type}\n{item_id}\n{digest}\n{timestamp}".encode()


def _normal(text: str) -> str:
    """Return the text with normalized line endings."""
    return text.replace("\r\n", "\n")


def _place(text: str, extension: str) -> int:
    """Return the offset of the signature line: after a byte order mark and a tool's shebang."""
    start = int(text.startswith(_BOM))
    if extension == MARKDOWN or not text.startswith("#!", start):
        return start
    return text.find("\n") + 1 or len(text)


def _without(text: str, found: re.Match[str]) -> str:
    """Return the text without a line; for the last line, without the line break before it."""
    before = text[: found.start()]
    return (before if found["end"] else before.removesuffix("\n")) + text[found.end() :]


VALID, UNSIGNED, MODIFIED, UNTRUSTED = "valid", "unsigned", "modified", "untrusted"
MANIFEST = "manifest"  # the form of system items: the manifest has their digests
CODES = {UNSIGNED: codes.UNSIGNED, MODIFIED: codes.INTEGRITY_FAILED, UNTRUSTED: codes.UNTRUSTED_KEY}
REFUSED = {
    OFF: frozenset[str](),
    WARN: frozenset[str](),
    INTEGRITY: frozenset({UNSIGNED, MODIFIED}),
    TRUSTED: frozenset(CODES),
}


class Verdict:
    """The result of verifying a text.

    `state` is `VALID` or one of `CODES`, with the `reason`. `form` is that of the signature, or
    `MANIFEST`, or empty; `fingerprint` identifies the key. `warnings` are about items that the
    policy accepts although they are not valid.
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
        """Return the facts for an answer, without empty ones."""
        names = ("form", "fingerprint", "timestamp", "reason")
        parts = {name: getattr(self, name) for name in names}
        return {"state": self.state, **{name: part for name, part in parts.items() if part}}


class Trust:
    """Trust of a session in items, from the trusted keys of the user and the server's manifest.

    `policy` is the required trust by item type; `user` is the user space, empty if no key is
    trusted; `folder` is the directory of the emitted server. Caches only the manifest.
    """

    __slots__ = ("_digests", "_folder", "_policy", "_seen", "_user")

    def __init__(self, policy: Mapping[str, str], user: str, folder: str) -> None:
        self._policy = policy
        self._user = user
        self._folder = folder
        self._digests: Mapping[str, str] = {}
        self._seen: tuple[int, int, int] | None = None

    def policy_of(self, item_type: str) -> str:
        """Return the policy of an item type."""
        return self._policy[item_type]

    def verdict(self, item: Item, text: str) -> Verdict:
        """Return the verdict on the text of an item."""
        if item.source == SYSTEM:
            path = os.path.relpath(item.path, self._folder).replace(os.sep, "/")
            if self._emitted().get(path) == sha256_hex(text.encode()):
                return Verdict(VALID, form=MANIFEST)
            return Verdict(MODIFIED, "it differs from the generated file", form=MANIFEST)
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
        """Return the verdict on a text; raises `CodedError` if the policy rejects it.

        `signs` tells whether the session has the `sign` tool, for the hint.
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
        del entry["reason"]  # already in the message
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
        """Return the verdict on a key signature; the hash was checked before."""
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

    def _emitted(self) -> Mapping[str, str]:
        """Return the digests of the emitted files by path; empty without a manifest."""
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
    """Return the fix for a rejected item, unless the reason contains it."""
    if item.source == SYSTEM:
        return '; run "ralphgen regen --force" in the project'
    if verdict.state == UNTRUSTED and verdict.form == SIGNED:
        return ""  # signing it again would replace the other signer's signature
    seen = "review it"
    if verdict.state == MODIFIED:
        seen = "check what changed, and who changed it"
    act = 'sign it with "sign"' if signs else "ask the user to sign it"
    return f"; {seen}, and if it is correct, {act}"
