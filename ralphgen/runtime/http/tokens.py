"""Signs and verifies the bearer tokens of sessions: JSON Web Tokens (RFC 7519)."""

from __future__ import annotations

import re
import time

import jwt

from ..engine.ledger import SESSION_ID
from ..errors import StartError, log
from .app import HttpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine import Revocations

    Known = tuple[str, dict[str, Any]]  # a token and its claims

LONGEST_LIFE = 24 * 60 * 60  # seconds
LONGEST_TOKEN = 8_192  # characters
LEEWAY = 5  # seconds that the clocks of two machines may differ
LEAST_KEY = 32  # bytes
# The claims of RFC 7519, and the session's: its recipe, its discipline, the rows that it is about,
# the number and the seconds of its claim on the task, the tools that remain of the recipe's (each
# as "kit:tool"), the digest of the policy. A worker's token has `wrk`, its name, and no recipe; the
# token of a session on a worker has both.
CLAIMS: Mapping[str, tuple[type, ...]] = {
    "iss": (str,),
    "aud": (str,),
    "sub": (str,),
    "jti": (str,),
    "iat": (int,),
    "nbf": (int,),
    "exp": (int,),
    "rec": (str,),
    "dis": (str,),
    "fea": (str,),
    "tsk": (int,),
    "tgt": (str,),
    "cla": (int,),
    "lea": (int,),
    "tools": (list,),
    "pol": (str,),
    "wrk": (str,),
}
REQUIRED = ("iss", "aud", "sub", "jti", "iat", "nbf", "exp")
OF_SESSION = ("rec", "pol")  # and of no worker
WORKER = r"[a-z0-9][a-z0-9-]{0,39}"  # the name of a worker
# Claims that the token's maker sets.
SUBJECT = ("jti", "sub", "rec", "dis", "fea", "tsk", "tgt", "cla", "lea", "tools", "wrk")
CLAIM = ("tsk", "cla", "lea")  # a claim on a task needs all of them


class TokenError(Exception):
    """A token that grants no access; the text gives the reason, without any part of the token."""


class Keys:
    """Signs and verifies: `algorithm` is HS256 or EdDSA, `text` the value of the key's variable.

    For HS256 the key is the bytes of any text. For EdDSA it is a private key as PEM, or a public
    one if tokens are only verified. Raises `StartError` for an invalid key.
    """

    __slots__ = ("_private", "_public", "algorithm")

    def __init__(self, algorithm: str, text: str, variable: str) -> None:
        self.algorithm = algorithm
        self._private: Any = None
        if algorithm == "EdDSA":
            self._private, self._public = _pair(text, variable)
            return
        key = text.encode()
        if len(key) < LEAST_KEY:
            raise StartError(
                f'the key in the variable "{variable}" has {len(key)} bytes, but HS256 requires at '
                f"least {LEAST_KEY}"
            )
        if b"-----BEGIN" in key:
            raise StartError(
                f'the key in the variable "{variable}" is a PEM key, which requires algorithm = '
                '"EdDSA"'
            )
        self._private = self._public = key

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token of the claims; raises `StartError` where only the public key is here."""
        if self._private is None:
            raise StartError("this is a public key, but signing tokens requires the private key")
        return jwt.encode(dict(claims), self._private, algorithm=self.algorithm)

    def verified(self, token: str, issuer: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token for this server; raises `TokenError`."""
        try:
            if jwt.get_unverified_header(token).keys() - {"alg", "typ"}:
                raise TokenError("it has an unknown header")
            found: dict[str, Any] = jwt.decode(
                token,
                self._public,
                algorithms=[self.algorithm],
                audience=audience,
                issuer=issuer,
                leeway=LEEWAY,
                options={"require": [*REQUIRED], "strict_aud": True},
            )
        except jwt.PyJWTError as error:
            raise TokenError(_reason(error)) from error
        return found


class Verifier:
    """Identifies the session of a token: the one function to replace for another kind of token.

    `policy` is the digest of the policy that the server has.
    """

    __slots__ = ("_audience", "_issuer", "_keys", "_policy")

    def __init__(self, keys: Keys, issuer: str, audience: str, policy: str) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._policy = policy

    def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is good now; raises `TokenError` for any other."""
        if len(token) > LONGEST_TOKEN:
            raise TokenError("it is too long")
        claims = self._keys.verified(token, self._issuer, self._audience)
        problem = claims_problem(claims)
        if not problem and claims.get("pol", self._policy) != self._policy:
            problem = "it was created for another policy"
        if problem:
            raise TokenError(problem)
        return claims

    def signed(self, subject: Mapping[str, Any], life: int, now: int | None = None) -> str:
        """Return a token for a session or a worker; raises `StartError` for an invalid subject.

        It is good for `life` seconds from `now` on, in seconds since 1970.
        """
        now = int(time.time()) if now is None else now
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "iat": now,
            "nbf": now,
            "exp": now + life,
            **({"pol": self._policy} if "rec" in subject else {}),
            **{key: subject[key] for key in SUBJECT if subject.get(key) is not None},
        }
        problem = claims_problem(claims)
        if problem:
            raise StartError(f"the session is invalid: {problem}")
        return self._keys.sign(claims)


def claims_problem(claims: Mapping[str, Any]) -> str:
    """Return the problem with the shape of claims; empty if there is none."""
    for key, value in claims.items():
        if key not in CLAIMS:
            return "it has a claim that is not known"
        if not isinstance(value, CLAIMS[key]) or isinstance(value, bool):
            return f'its claim "{key}" has the wrong type'
    if not re.fullmatch(WORKER, claims.get("wrk", "a")):
        return 'its claim "wrk" is not the name of a worker'
    of_worker = "wrk" in claims and "rec" not in claims
    if of_worker and not {*claims} <= {*REQUIRED, "wrk"}:
        return "it names a worker and a session"
    required = (*REQUIRED, *(() if of_worker else OF_SESSION))
    missing = [key for key in required if key not in claims]
    if missing:
        return f'its claim "{missing[0]}" is missing'
    return _value_problem(claims)


def _value_problem(claims: Mapping[str, Any]) -> str:
    """Return which value of claims, which are all there, is none; empty for nothing."""
    if not re.fullmatch(SESSION_ID, claims["jti"]):
        return 'its claim "jti" is not a session id'
    if not 0 < claims["exp"] - claims["iat"] <= LONGEST_LIFE:
        return "it is good for more than a day"
    if "cla" in claims or "lea" in claims:
        if any(claims.get(key) is None for key in CLAIM):
            return "it holds a task by half"
        if claims["cla"] < 1 or claims["lea"] < 1:
            return 'its claim "cla" or "lea" is none'
    if not all(isinstance(tool, str) and tool.count(":") == 1 for tool in claims.get("tools", ())):
        return 'its claim "tools" is not a list of kit:tool'
    return ""


def _pair(text: str, variable: str) -> tuple[Any, Any]:
    """Return the private key, or None without one, and the public key of a PEM text."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )

    try:
        if "PRIVATE KEY" in text:
            private = load_pem_private_key(text.encode(), password=None)
            if isinstance(private, Ed25519PrivateKey):
                return private, private.public_key()
        else:
            public = load_pem_public_key(text.encode())
            if isinstance(public, Ed25519PublicKey):
                return None, public
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass
    raise StartError(f'the variable "{variable}" does not contain an Ed25519 key in PEM format')


def _reason(error: jwt.PyJWTError) -> str:
    """Return why a token is refused, in words that repeat nothing of it."""
    reasons: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
        (jwt.ExpiredSignatureError, "it has expired"),
        (jwt.ImmatureSignatureError, "it is not good yet"),
        (jwt.InvalidAudienceError, "it was created for another server"),
        (jwt.InvalidIssuerError, "it was created for another project"),
        (jwt.MissingRequiredClaimError, "a claim is missing"),
        (jwt.InvalidAlgorithmError, "it is signed in another way"),
        (jwt.InvalidSignatureError, "its signature is wrong"),
    )
    return next((text for kind, text in reasons if isinstance(error, kind)), "it is not a token")


MOST = 4_096  # tokens that are known to be good


class Bearer:
    """The tokens that were verified, each known to its end, and the sessions that were ended."""

    __slots__ = ("_known", "_revocations", "_verifier")

    def __init__(self, verifier: Verifier, revocations: Revocations) -> None:
        self._known: dict[bytes, Known] = {}  # by the header
        self._revocations = revocations
        self._verifier = verifier

    def token_of(self, header: bytes) -> Known:
        """Return the token of a header `Authorization`, and its claims.

        Raises `HttpError` unless the header has a token that is valid now.
        """
        try:
            known = self._known.get(header) or self._verified(header)
            self._refuse_ended(header, known[1])
        except TokenError as error:
            why = str(error).replace('"', "'")
            challenge = f'Bearer error="invalid_token", error_description="{why}"'
            text = f"the token opens nothing: {error}"
            raise HttpError(401, text, **{"www-authenticate": challenge}) from error
        except OSError as error:
            log("error", "http", f"the list of ended sessions cannot be read: {error.strerror}")
            raise HttpError(503, "cannot determine whether this session has ended") from error
        return known

    def _refuse_ended(self, header: bytes, claims: dict[str, Any]) -> None:
        """Raise `TokenError` for a token that has expired or a session that was ended."""
        if claims["exp"] <= time.time():
            self._known.pop(header, None)
            raise TokenError("it has expired")
        if self._revocations.holds(claims["jti"]):
            raise TokenError("its session was ended")

    def _verified(self, header: bytes) -> Known:
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            text = 'a token is needed: "ralphgen session create RECIPE --token" makes one'
            raise HttpError(401, text, **{"www-authenticate": "Bearer"})
        known = (token, self._verifier.claims(token))
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[header] = known
        return known
