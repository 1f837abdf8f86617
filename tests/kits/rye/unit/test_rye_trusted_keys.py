"""Trusted keys are keys in the user space that no other user can write."""

import shutil
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ralphgen.kits.rye.server.trust import UnfitKeyError, is_signed, own_key, publish

Spoil = Callable[[Path], object]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return the path of a user space that does not exist."""
    return tmp_path / "home" / ".ai"


def pem_of(key: Ed25519PublicKey) -> bytes:
    """Return the PEM bytes of a public key."""
    return key.public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)


def trusting(user: Path, key: Ed25519PrivateKey) -> Path:
    """Trust a key and return its file."""
    public = key.public_key()
    path = user / "trusted_keys" / f"{sha256(public.public_bytes_raw()).hexdigest()[:16]}.pem"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(pem_of(public))
    path.chmod(0o600)
    return path


def says(path: Path, key: Ed25519PrivateKey) -> bool:
    """Return whether signatures of a key count if its public key is at `path`."""
    signature = urlsafe_b64encode(key.sign(b"text")).decode()
    fingerprint = sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
    return is_signed(str(path.parents[1]), fingerprint, signature, b"text")


def facts_below(folder: Path) -> dict[Path, tuple[int, int, int, int]]:
    """Return inode, mode, size and modification time of all files in a directory."""
    found = {path: path.stat() for path in folder.rglob("*")}
    return {
        path: (facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns)
        for path, facts in found.items()
    }


class TestPublishing:
    """Publishing writes the public key, which is then trusted."""

    def test_publishing_again_changes_nothing(self, user: Path) -> None:
        key = own_key(str(user))
        publish(str(user), key)
        before = facts_below(user)
        publish(str(user), key)

        assert before == facts_below(user)

    def test_other_file_is_replaced_and_links_are_not_followed(self, user: Path) -> None:
        key = own_key(str(user))
        trusted = user / f"trusted_keys/{key.fingerprint}.pem"
        trusted.parent.mkdir(mode=0o700)
        (user / "other").write_bytes(b"other")
        trusted.symlink_to(user / "other")
        (user / "keys/public_key.pem").write_bytes(b"old")
        publish(str(user), key)

        assert not trusted.is_symlink()
        assert key.public == trusted.read_bytes() == (user / "keys/public_key.pem").read_bytes()
        assert b"other" == (user / "other").read_bytes()

    def test_key_is_not_published_to_a_directory_writable_by_others(self, user: Path) -> None:
        key = own_key(str(user))
        (user / "trusted_keys").mkdir()
        (user / "trusted_keys").chmod(0o777)

        with pytest.raises(UnfitKeyError, match=r'run "chmod go-w .*trusted_keys"'):
            publish(str(user), key)
        assert [] == [*(user / "trusted_keys").iterdir()]


class TestTrustedKeys:
    """A key counts if its file has the right name and no other user can write it."""

    def test_signature_of_another_message_is_invalid(self, user: Path) -> None:
        key = Ed25519PrivateKey.generate()
        trusted = trusting(user, key)
        signature = own_key(str(user)).signature_of(b"text")

        assert not is_signed(str(user), trusted.stem, signature, b"text")

    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            pytest.param(lambda path: path.unlink(), "is not trusted", id="taken away"),
            pytest.param(
                lambda path: path.rename(path.with_name("f" * 16 + ".pem")),
                "is not trusted",
                id="under another name",
            ),
            pytest.param(
                lambda path: path.write_bytes(pem_of(Ed25519PrivateKey.generate().public_key())),
                "is not the Ed25519 key",
                id="another key",
            ),
            pytest.param(lambda path: path.write_bytes(b"x"), "is not the Ed25519 key", id="text"),
            pytest.param(lambda path: path.chmod(0o622), "other users can write to", id="writable"),
            pytest.param(
                lambda path: path.parent.chmod(0o777), "other users can write to", id="its folder"
            ),
            pytest.param(
                lambda path: path.symlink_to(path.rename(path.with_suffix(".x"))),
                "not a symbolic link",
                id="a link",
            ),
            pytest.param(
                lambda path: (
                    shutil.move(path.parent, path.parents[1] / "x")
                    and path.parent.symlink_to(path.parents[1] / "x")
                ),
                "not a symbolic link",
                id="a link to the folder",
            ),
        ],
    )
    def test_unprotected_key_is_not_trusted(self, user: Path, spoil: Spoil, why: str) -> None:
        key = Ed25519PrivateKey.generate()
        path = trusting(user, key)
        spoil(path)

        with pytest.raises(UnfitKeyError, match=why):
            says(path, key)

    def test_no_key_is_trusted_without_a_user_space(self) -> None:
        with pytest.raises(UnfitKeyError, match="the user space is inside the project"):
            is_signed("", "f" * 16, "A" * 88, b"text")
