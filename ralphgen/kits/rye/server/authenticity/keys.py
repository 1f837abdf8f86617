"""The keys of a person: their own, made when they first sign, and those that they trust.

They lie in the user space and nowhere else: what a project brings says nothing on who is trusted.
"""

from __future__ import annotations

import os

from ralphgen.runtime.packages import add_packages
from ralphgen.runtime.values.digest import sha256_hex

from .key_folder import KeyFolder, UnfitKeyError, made_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

OWN, TRUSTED = "keys", "trusted_keys"  # folders of the user space
PRIVATE, PUBLIC = "private_key.pem", "public_key.pem"


class Key:
    """A person's own key; `public` is the file of its public half."""

    __slots__ = ("_private", "fingerprint", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        public = private.public_key()
        self._private = private
        self.fingerprint = fingerprint_of(public)
        self.public = _public_pem(public)

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


def check_trusted(user: str, fingerprint: str) -> None:
    """Raise `UnfitKeyError` where the key of this fingerprint is not trusted."""
    _trusted_key(user, fingerprint)


def is_signed(user: str, fingerprint: str, signature: str, message: bytes) -> bool:
    """Return whether a signature is that of a trusted key.

    Raises `UnfitKeyError` where the key is not trusted.
    """
    key = _trusted_key(user, fingerprint)
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
        fix = "move it away to get a new one, or put such a key there"
        raise UnfitKeyError(f'"{path}" is no Ed25519 key without a password: {fix}')
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


def _public_pem(key: Ed25519PublicKey) -> bytes:
    """Return the file of a public key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _holds(keys: KeyFolder, name: str, data: bytes) -> bool:
    """Return whether a file has this content, and nobody else may change that."""
    try:
        return keys.public(name) == data
    except (FileNotFoundError, UnfitKeyError):
        return False


def _trusted_key(user: str, fingerprint: str) -> Ed25519PublicKey:
    """Return the trusted key of this fingerprint; raises `UnfitKeyError`."""
    if not user:
        text = (
            "no key is trusted, since the user space lies within the project: set USER_SPACE to a "
            "folder outside of it where the server is started"
        )
        raise UnfitKeyError(text)
    name = f"{fingerprint}.pem"
    path = os.path.join(user, TRUSTED, name)
    try:
        with KeyFolder(os.path.dirname(path)) as keys:
            data = keys.public(name)
    except FileNotFoundError as error:
        text = (
            f"the key {fingerprint} is not trusted: a person can trust it by putting the public "
            f'key of whoever signed (their "{OWN}/{PUBLIC}") into "{TRUSTED}/{name}" of the user '
            "space"
        )
        raise UnfitKeyError(text) from error
    key = _public_key(data)
    if key is None or fingerprint_of(key) != fingerprint:
        raise UnfitKeyError(f'"{path}" is not the Ed25519 key {fingerprint}: move it away')
    return key


def _public_key(data: bytes) -> Ed25519PublicKey | None:
    """Return the key of a file; None where that holds no such key."""
    add_packages()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None
