"""The user's private key: created once, unreadable for other users."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from ralphgen.kits.rye.server.trust import UnfitKeyError, own_key, publish

REPOSITORY = Path(__file__).parents[4]
NOBODY = 65534
AT_ONCE = 8
# Waits for a line, then prints the fingerprint of the user's key.
SIGNER = """
import sys
from ralphgen.kits.rye.server import trust as keys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
keys._new_pem()
print(flush=True)
sys.stdin.readline()
print(keys.own_key(sys.argv[1]).fingerprint)
"""
# Runs as an unprivileged user, because root may write everywhere.
WITHOUT_RIGHTS = """
import os, sys
from ralphgen.kits.rye.server import trust as keys
keys._new_pem()
if not os.getuid():
    os.setgid(65534)
    os.setuid(65534)
try:
    keys.own_key(sys.argv[1])
except OSError as error:
    print(type(error).__name__)
"""
Break = Callable[[Path], object]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return the path of a user space that does not exist."""
    return tmp_path / "home" / ".ai"


def private(user: Path) -> Path:
    return user / "keys" / "private_key.pem"


def pem_of(key: Ed25519PublicKey) -> bytes:
    """Return the PEM bytes of a public key."""
    return key.public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


class TestOwnKey:
    """The first use creates the key; later uses read it."""

    def test_key_is_ed25519_without_a_password(self, user: Path) -> None:
        key = own_key(str(user))
        found = pem.load_pem_private_key(private(user).read_bytes(), None)

        assert isinstance(found, Ed25519PrivateKey)
        raw = found.public_key().public_bytes_raw()
        assert sha256(raw).hexdigest()[:16] == key.fingerprint
        assert private(user).read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")

    def test_key_is_private_whatever_the_umask(self, user: Path) -> None:
        before = os.umask(0)
        try:
            publish(str(user), own_key(str(user)))
        finally:
            os.umask(before)
        made = [user / "keys", user / "trusted_keys", *user.glob("*/*.pem")]

        expected = {0o700: 2, 0o600: 3}
        modes = [mode_of(path) for path in made]
        assert expected == {mode: modes.count(mode) for mode in modes}

    @pytest.mark.slow
    def test_concurrent_first_signatures_share_one_key(self, user: Path) -> None:
        signers = [
            subprocess.Popen(
                [sys.executable, "-c", SIGNER, str(user)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(AT_ONCE)
        ]
        for signer in signers:
            assert signer.stdout is not None
            signer.stdout.readline()  # the child is ready
        for signer in signers:
            assert signer.stdin is not None
            signer.stdin.write("\n")
            signer.stdin.flush()
        fingerprints = {signer.communicate()[0] for signer in signers}

        assert {f"{own_key(str(user)).fingerprint}\n"} == fingerprints
        assert [private(user)] == [*(user / "keys").iterdir()]

    @pytest.mark.slow
    def test_failed_creation_names_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            Path(place).chmod(0o555)
            said = subprocess.run(
                [sys.executable, "-c", WITHOUT_RIGHTS, f"{place}/.ai"],
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                check=False,
            )
            left = [*Path(place).iterdir()]

        assert ("PermissionError\n", "", []) == (said.stdout, said.stderr, left)

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
    def test_key_accessible_by_others_is_refused(self, user: Path, mode: int) -> None:
        own_key(str(user))
        private(user).chmod(mode)

        with pytest.raises(
            UnfitKeyError, match=r'other users can access .*: run "chmod 600 .*pem"'
        ):
            own_key(str(user))

    @pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
    def test_key_in_a_directory_writable_by_others_is_refused(self, user: Path, mode: int) -> None:
        own_key(str(user))
        (user / "keys").chmod(mode)

        with pytest.raises(UnfitKeyError, match=r'other users can write to .* run "chmod go-w'):
            own_key(str(user))

    def test_no_key_is_created_in_a_directory_writable_by_others(self, user: Path) -> None:
        (user / "keys").mkdir(parents=True)
        (user / "keys").chmod(0o777)

        with pytest.raises(UnfitKeyError):
            own_key(str(user))
        assert [] == [*(user / "keys").iterdir()]

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
    @pytest.mark.parametrize("name", ["keys", "keys/private_key.pem"])
    def test_key_of_another_user_is_refused(self, user: Path, name: str) -> None:
        own_key(str(user))
        os.chown(user / name, NOBODY, NOBODY)

        with pytest.raises(UnfitKeyError, match="belongs to another user"):
            own_key(str(user))

    @pytest.mark.parametrize("name", ["keys", "keys/private_key.pem"])
    @pytest.mark.parametrize("dangling", [False, True])
    def test_key_behind_a_link_is_refused(self, user: Path, name: str, dangling: bool) -> None:
        own_key(str(user))
        elsewhere = user / "elsewhere"
        (user / name).rename(elsewhere)
        (user / name).symlink_to(user / "nowhere" if dangling else elsewhere)

        with pytest.raises(UnfitKeyError, match="not a symbolic link"):
            own_key(str(user))
        assert not (user / "nowhere").exists()

    @pytest.mark.parametrize(
        "put",
        [
            pytest.param(lambda path: path.write_bytes(b""), id="nothing"),
            pytest.param(lambda path: path.write_bytes(b"no key"), id="text"),
            pytest.param(
                lambda path: path.write_bytes(
                    Ed25519PrivateKey.generate().private_bytes(
                        pem.Encoding.PEM,
                        pem.PrivateFormat.PKCS8,
                        pem.BestAvailableEncryption(b"password"),
                    )
                ),
                id="with a password",
            ),
            pytest.param(
                lambda path: path.write_bytes(
                    generate_private_key(65537, 2048).private_bytes(
                        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()
                    )
                ),
                id="of another kind",
            ),
            pytest.param(
                lambda path: path.write_bytes(pem_of(Ed25519PrivateKey.generate().public_key())),
                id="public",
            ),
        ],
    )
    def test_invalid_key_is_refused_and_kept(self, user: Path, put: Break) -> None:
        own_key(str(user))
        put(private(user))
        before = private(user).read_bytes()

        with pytest.raises(
            UnfitKeyError, match="is not an Ed25519 key without a password: move it"
        ):
            own_key(str(user))
        assert before == private(user).read_bytes()

    @pytest.mark.parametrize(
        "put", [pytest.param(os.mkfifo, id="a pipe"), pytest.param(os.mkdir, id="a folder")]
    )
    def test_key_that_is_not_a_file_is_refused(self, user: Path, put: Break) -> None:
        own_key(str(user))
        private(user).unlink()
        put(private(user))

        with pytest.raises(UnfitKeyError, match="is not a file: move it"):
            own_key(str(user))
