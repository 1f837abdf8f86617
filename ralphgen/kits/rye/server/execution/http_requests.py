"""Makes a request of the config of a chain that ends in `http_client`, and data of its answer."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..values import EXECUTION_FAILED, VALIDATION_FAILED, as_text
from .config import (
    choice_at,
    count_at,
    mapping_at,
    scalar_at,
    text_at,
    timeout_of,
    unknown_keys,
)
from .http_connection import PROJECT_FILE, check_allowed, target_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..workspace import Rye
    from .config import Filling
    from .http_client import HttpRequest, Response

KEYS = ("method", "url", "headers", "body", "timeout", "auth", "retry")
BEARER, API_KEY = "bearer", "api_key"
API_KEY_HEADER = "X-API-Key"
BACKOFFS = ("exponential", "linear")
# What a URL begins with as far as its path: from there on, nothing changes where it leads.
_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\\@\s]+[/?#]")
_WHOLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_-]*\}")
SUCCESSFUL = range(200, 400)  # status codes


class ReadyRequest:
    """A request that is ready to be sent, to `hosts` only where there are any.

    `shown` is what may be said of it: its variables, which may be secrets, stand in it by their
    names.
    """

    __slots__ = ("_hosts", "request", "shown", "warnings")

    def __init__(
        self,
        request: HttpRequest,
        hosts: tuple[str, ...],
        shown: dict[str, Any],
        warnings: list[str],
    ) -> None:
        self.request = request
        self._hosts = hosts
        self.shown = shown
        self.warnings = warnings

    def begin(self, rye: Rye) -> tuple[Callable[[], Any], Callable[[], None]]:
        """Send it: what waits for its data, and what gives it up; raises `CodedError`.

        Where it does not go well, the first raises `CodedError` too.
        """
        from .http_client import begin

        call = begin(rye.jobs(), self.request, self._hosts)
        return lambda: data_of_response(call.outcome()), call.leave


def ready_request(
    config: Mapping[str, Any],
    filling: Filling,
    *,
    hosts: tuple[str, ...],
    within: tuple[str, ...] = (),
    max_timeout: float,
) -> ReadyRequest:
    """Return the request of a config, with everything filled in; raises `CodedError`.

    `hosts` are those that the user permits, `within` those that the project leaves of them.
    """
    from .http_client import METHODS, HttpRequest

    limit, warnings = timeout_of(config, max_timeout)
    method = config.get("method", "GET")
    if isinstance(method, str):
        method = method.upper()
    url = text_at("config.url", config.get("url"))
    request = HttpRequest(
        method=choice_at("config.method", method, METHODS),
        url=url_of(url, filling, hosts),
        headers=_headers(config, filling),
        # A body that is one parameter, which was not given, is none.
        body=next(iter(filling.value([config.get("body")])), None),
        timeout=limit,
        retry=_retry(config.get("retry")),
    )
    target = target_of(request.url)
    check_allowed(target, hosts)
    check_allowed(target, within, PROJECT_FILE)
    shown = {"method": request.method, "url": filling.shown(url), "timeout": limit}
    return ReadyRequest(
        request, hosts, shown, [*unknown_keys(config, KEYS, "http_client"), *warnings]
    )


def url_of(author: str, filling: Filling, hosts: tuple[str, ...]) -> str:
    """Return the URL with everything filled in; what was given with the call is percent-encoded.

    Who calls a tool must not choose where its request goes, with the author's keys perhaps. So a
    parameter stands after the host, unless a person has said which hosts there are: then a URL may
    be one parameter as a whole.
    """
    from urllib.parse import quote

    if hosts and _WHOLE.fullmatch(author):
        return filling.text(author)
    url = ""
    for value, given in filling.pieces(author):
        if given and not _HOST.match(url):
            raise CodedError(
                VALIDATION_FAILED,
                '"config.url" has a parameter before its path: write the host, such as '
                '"https://example.com/{name}"; the whole URL can be one parameter only if '
                '"rye.toml" in the user space sets "hosts"',
            )
        url += quote(as_text(value), safe="", errors="replace") if given else value
    path = re.split("[?#]", url, maxsplit=1)[0]
    if {".", ".."} & set(path.split("/")):
        raise CodedError(
            VALIDATION_FAILED,
            'the path of "config.url" contains "." or ".." after substitution: use another value',
        )
    return url


def _headers(config: Mapping[str, Any], filling: Filling) -> dict[str, str]:
    """Return the headers, without those that are nothing but a parameter that was not given."""
    headers: dict[str, str] = {}
    for name, text in mapping_at("config.headers", config.get("headers")).items():
        value = filling.argument(scalar_at(f"config.headers.{name}", text))
        if value is not None:
            headers[name] = _header_value(f"config.headers.{name}", value)
    return headers | _credentials(config.get("auth"), filling)


def _credentials(said: object, filling: Filling) -> dict[str, str]:
    """Return the header that says who asks."""
    if said is None:
        return {}
    auth = mapping_at("config.auth", said)
    if choice_at("config.auth.type", auth.get("type"), (BEARER, API_KEY)) == BEARER:
        return {"Authorization": f"Bearer {_secret(auth, 'token', filling)}"}
    name = text_at("config.auth.header", auth.get("header", API_KEY_HEADER))
    return {name: _secret(auth, "key", filling)}


def _secret(auth: Mapping[str, Any], key: str, filling: Filling) -> str:
    where = f"config.auth.{key}"
    value = filling.text(text_at(where, auth.get(key)))
    if not value.strip():
        raise CodedError(
            VALIDATION_FAILED,
            f'"{where}" is empty after substitution: ask the user to set its variable, add it to '
            '"env" in [rye] of .ralph/ralphgen.toml and run "ralphgen regen"',
        )
    return _header_value(where, value)


def _header_value(where: str, value: str) -> str:
    """Return the value, which must not end its line: a second header could follow."""
    if not value.replace("\t", " ").isprintable():
        raise CodedError(
            VALIDATION_FAILED, f'"{where}" contains a line break or a control character'
        )
    return value


def _retry(said: object) -> dict[str, Any]:
    """Return how often to try, and how the pauses between grow."""
    from .http_client import MOST_ATTEMPTS

    retry = mapping_at("config.retry", said)
    attempts = retry.get("max_attempts", 1)
    backoff = retry.get("backoff", BACKOFFS[0])
    return {
        "max_attempts": count_at("config.retry.max_attempts", attempts, MOST_ATTEMPTS),
        "backoff": choice_at("config.retry.backoff", backoff, BACKOFFS),
    }


def data_of_response(response: Response) -> dict[str, Any]:
    """Return what a server has answered; raises `CodedError`, with that in `details`, for a no."""
    data: dict[str, Any] = {
        "status_code": response.status_code,
        "headers": dict(response.headers),
        "body": response.body,
    }
    if response.truncated:
        data["truncated"] = True
    if response.status_code not in SUCCESSFUL:
        text = f"the response has the status {response.status_code}"
        raise CodedError(EXECUTION_FAILED, text, details=data)
    return data
