"""Tells whose a request is: its bearer token, verified once, and whether its session was ended."""

from __future__ import annotations

import time

from ..errors import log
from .exchange import HttpError
from .tokens import TokenError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..engine import Revocations
    from .tokens import Verifier

    Known = tuple[str, dict[str, Any]]  # a token and its claims

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

        Raises `HttpError` where it has none that is good now.
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
        """Raise `TokenError` for a token whose time is over, and one that a person has ended."""
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
