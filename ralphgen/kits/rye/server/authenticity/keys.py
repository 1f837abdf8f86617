"""Keeps the keys of a person, their own and those that they trust, where nobody else can put one.

They lie in the user space and nowhere else: what a project brings says nothing on who is trusted.
"""

from __future__ import annotations

import os

from ralphgen.runtime.files import NO_LINK, NotAFileError, open_file, reason
from ralphgen.runtime.files.write import replace_file
from ralphgen.runtime.modules import add_packages
from ralphgen.runtime.values.encoding import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

LARGEST = 1 << 14  # bytes of a key's file
ROOT = 0  # who can change everything anyway
WRITABLE, OPEN = 0o022, 0o077  # what others may do with a file: change it; anything at all
OURS_ALONE = 0o600

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | NO_LINK
OWN, TRUSTED = "keys", "trusted_keys"  # folders of the user space
PRIVATE, PUBLIC = "private_key.pem", "public_key.pem"


class UnfitKeyError(Exception):
    """A key that must not be used: the text says why, and what to do about it."""


class KeyFolder:
    """An open folder of keys: it stays the same, whatever its path leads to later.

    Raises `FileNotFoundError` where there is none, and `UnfitKeyError` where others could have put
    something into it.
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
        """Close the folder."""
        os.close(self._folder)

    def secret(self, name: str) -> bytes:
        """Return our file nobody else may read; raises `FileNotFoundError`, `UnfitKeyError`."""
        return self._content(name, {os.geteuid()}, OPEN)

    def public(self, name: str) -> bytes:
        """Return a file nobody else may write; raises `FileNotFoundError`, `UnfitKeyError`."""
        return self._content(name, {os.geteuid(), ROOT}, WRITABLE)

    def put_first(self, name: str, data: bytes) -> None:
        """Write a file unless there is one, which stays, however many try; raises `OSError`."""
        try:
            replace_file(name, data, mode=OURS_ALONE, exclusive=True, folder=self._folder)
        except FileExistsError:
            return

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whatever is there; raises `OSError`."""
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


def made_folder(path: str) -> KeyFolder:
    """Return the folder, made where it is not there, so that only we may look into it.

    Raises `OSError` and `UnfitKeyError`.
    """
    from contextlib import suppress

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return KeyFolder(path)


def _unopened(path: str, what: str, error: OSError) -> UnfitKeyError:
    """Return the error of a file or folder that cannot be opened for another reason than none."""
    fix = f"it must be a {what} that you own, not a symbolic link"
    return UnfitKeyError(f'cannot open "{path}" ({reason(error)}): {fix}')


def _refuse_foreign(path: str, status: os.stat_result, owners: set[int], forbidden: int) -> None:
    """Raise `UnfitKeyError` for what others own, or may do with it what is forbidden."""
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
    """A person's own key; `public` is the file of its public half."""

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
    """Return the key of the user space `user`, made where there is none.

    However many servers sign for the first time at once, they get the same. Raises
    `UnfitKeyError`, and `OSError` where it cannot be made.
    """
    folder = os.path.join(user, OWN)
    try:
        return _read_own(folder)
    except FileNotFoundError:
        with made_folder(folder) as keys:
            keys.put_first(PRIVATE, _new_pem())
        return _read_own(folder)


def is_published(user: str, key: Key) -> bool:
    """Return whether the public half of one's own key was written: it was trusted once, then.

    Raises `UnfitKeyError`, and `OSError` where there is no such folder.
    """
    with KeyFolder(os.path.join(user, OWN)) as keys:
        return _holds(keys, PUBLIC, key.public)


def publish(user: str, key: Key) -> None:
    """Trust one's own key, and write its public half, which says that this was done.

    Raises `UnfitKeyError` and `OSError`.
    """
    for folder, name in ((TRUSTED, f"{key.fingerprint}.pem"), (OWN, PUBLIC)):
        with made_folder(os.path.join(user, folder)) as keys:
            if not _holds(keys, name, key.public):
                keys.put(name, key.public)


def is_signed(user: str, fingerprint: str, signature: str, message: bytes) -> bool:
    """Return whether a key signed a message; raises `UnfitKeyError` where it is not trusted."""
    key = trusted_key(user, fingerprint)
    from base64 import urlsafe_b64decode

    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(urlsafe_b64decode(signature), message)
    except InvalidSignature:
        return False
    return True


def fingerprint_of(key: Ed25519PublicKey) -> str:
    """Return how a key is named: by the beginning of its sha256."""
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
    """Return the file of a new private key."""
    add_packages()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _holds(keys: KeyFolder, name: str, data: bytes) -> bool:
    """Return whether a file has this content, and nobody else may change that."""
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
    path = os.path.join(user, TRUSTED, name)
    try:
        with KeyFolder(os.path.dirname(path)) as keys:
            data = keys.public(name)
    except FileNotFoundError as error:
        text = (
            f"the key {fingerprint} is not trusted: to trust it, the user copies the signer's "
            f'public key ("{OWN}/{PUBLIC}") to "{TRUSTED}/{name}" in the user space'
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
