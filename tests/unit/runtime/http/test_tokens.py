"""A token opens a session of one server, one project and one policy, for at most a day."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ralphgen.runtime.errors import StartError
from ralphgen.runtime.http.app import Keys, TokenError, Verifier

KEY = "0123456789abcdef0123456789abcdef"
URL, PROJECT, POLICY = "https://mcp.example.com/mcp", "project", "policy"
HOUR = 3_600
PAIR = Ed25519PrivateKey.generate()
PRIVATE = PAIR.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PUBLIC = PAIR.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def verifier(key: str = KEY, algorithm: str = "HS256") -> Verifier:
    return Verifier(Keys(algorithm, key, "RALPH_KEY"), PROJECT, URL, POLICY)


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    told = {
        "iss": PROJECT,
        "aud": URL,
        "sub": "tester",
        "jti": "one",
        "iat": now,
        "nbf": now,
        "exp": now + HOUR,
        "rec": "manual",
        "pol": POLICY,
    }
    return {name: value for name, value in {**told, **changed}.items() if value is not None}


def token(key: Any = KEY, algorithm: str = "HS256", **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, algorithm=algorithm)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def refusal(text: str, found: Verifier | None = None) -> str:
    with pytest.raises(TokenError) as raised:
        (found or verifier()).claims(text)
    return str(raised.value)


def test_a_signed_token_opens_its_session() -> None:
    own = verifier()
    signed = own.signed({"jti": "one", "sub": "me", "rec": "yap", "tsk": 7, "fea": None}, HOUR)
    found = own.claims(signed)

    assert ("one", "yap", 7, POLICY) == (found["jti"], found["rec"], found["tsk"], found["pol"])
    assert "fea" not in found


def test_a_pair_of_keys_lets_verify_who_cannot_sign() -> None:
    signed = verifier(PRIVATE, "EdDSA").signed({"jti": "one", "sub": "me", "rec": "yap"}, HOUR)
    reading = verifier(PUBLIC, "EdDSA")

    assert "yap" == reading.claims(signed)["rec"]
    with pytest.raises(StartError, match="public key"):
        reading.signed({"jti": "one", "sub": "me", "rec": "yap"}, HOUR)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"aud": "https://other.example/mcp"}, "another server"),
        ({"aud": [URL, "https://other.example/mcp"]}, "another server"),
        ({"iss": "other"}, "another project"),
        ({"pol": "other"}, "another policy"),
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"nbf": int(time.time()) + HOUR}, "not good yet"),
        ({"iat": int(time.time()) + HOUR, "exp": int(time.time()) + 2 * HOUR}, "not good yet"),
        ({"exp": int(time.time()) + 25 * HOUR}, "more than a day"),
        ({"rec": 7}, "wrong type"),
        ({"cla": 1, "lea": 60}, "by half"),
        ({"tsk": 7, "cla": 1}, "by half"),
        ({"tsk": 7, "cla": 0, "lea": 60}, "is none"),
        ({"tsk": "7"}, "wrong type"),
        ({"tsk": True}, "wrong type"),
        ({"tsk": 7.5}, "wrong type"),
        ({"tools": "ralph:get_task"}, "wrong type"),
        ({"tools": ["get_task"]}, "kit:tool"),
        ({"tools": [7]}, "kit:tool"),
        ({"jti": "../one"}, "not a session id"),
        ({"admin": True}, "not known"),
    ],
)
def test_a_claim_that_does_not_fit_opens_nothing(changed: dict[str, Any], why: str) -> None:
    assert why in refusal(token(**changed))


@pytest.mark.parametrize("name", sorted(claims()))
def test_no_claim_may_be_missing(name: str) -> None:
    without: dict[str, Any] = {name: None}

    assert refusal(token(**without))


class TestSignatures:
    """Only claims that the key has signed count."""

    @pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE"])
    def test_the_algorithm_none_is_refused(self, name: str) -> None:
        unsigned = f"{part({'alg': name, 'typ': 'JWT'})}.{part(claims())}."

        assert "signed in another way" in refusal(unsigned)

    def test_another_key_signs_nothing(self) -> None:
        assert "signature" in refusal(token("x" * 32))

    def test_an_edited_token_is_none(self) -> None:
        head, _, end = token().split(".")

        assert "signature" in refusal(f"{head}.{part(claims(rec='interactive'))}.{end}")

    def test_a_second_spelling_of_a_signature_is_refused(self) -> None:
        """Each would open its own session, with its own limits."""
        for key, algorithm in ((KEY, "HS256"), (PRIVATE, "EdDSA")):
            own = verifier(key, algorithm)
            known = own.signed({"jti": "one", "sub": "me", "rec": "yap"}, HOUR)
            unused = chr(ord(known[-1]) + 1)  # the last character has bits without a meaning
            for text in (f"{known}=", f"{known}==", f"{known}!", f"{known}\n", f"{known}\xe4"):
                assert refusal(text, own)
            assert refusal(known[:-1] + unused, own)
            assert own.claims(known)

    def test_a_public_key_is_not_a_secret(self) -> None:
        """Key confusion: HS256 with the public key, which everybody has, as its secret."""
        said = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims())}"
        digest = hmac.new(PUBLIC.encode(), said.encode(), hashlib.sha256).digest()
        forged = f"{said}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"

        assert "signed in another way" in refusal(forged, verifier(PUBLIC, "EdDSA"))
        with pytest.raises(StartError, match="EdDSA"):
            verifier(PUBLIC)

    def test_a_token_brings_no_key_and_no_extension(self) -> None:
        for more in ({"jwk": {"kty": "oct"}}, {"kid": "1"}, {"crit": ["b64"], "b64": False}):
            assert refusal(jwt.encode(claims(), KEY, algorithm="HS256", headers=more))

    @pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "é", token() + ".x", "x" * 9_000])
    def test_invalid_tokens_are_refused_in_words(self, text: str) -> None:
        assert refusal(text)


@pytest.mark.parametrize(
    ("algorithm", "key", "why"),
    [
        ("HS256", "x" * 31, "at least 32"),
        ("HS256", PRIVATE, "EdDSA"),
        ("EdDSA", KEY, "Ed25519"),
        ("EdDSA", PUBLIC.replace("MCow", "XXXX"), "Ed25519"),
    ],
)
def test_an_invalid_key_stops_the_start(algorithm: str, key: str, why: str) -> None:
    with pytest.raises(StartError, match=why):
        Keys(algorithm, key, "RALPH_KEY")
