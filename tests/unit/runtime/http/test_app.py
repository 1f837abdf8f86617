"""The answers of a worker's app if no session can be opened, and if no body arrives."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jwt
import pytest

from ralphgen.runtime.engine.sqlite.revocations import RevokedSessions, create
from ralphgen.runtime.errors import ContextError, StartError
from ralphgen.runtime.http import app as app_module
from ralphgen.runtime.http.app import Bearer, Hosts, HttpApp, Keys, Places, Rates, Verifier
from ralphgen.runtime.http.metrics import Metrics
from ralphgen.runtime.http.sessions import Kits, OpenSessions

KEY = "0123456789abcdef0123456789abcdef"
URL = "https://mcp.example.com/mcp"
BODY = {"type": "http.request", "body": b"{}", "more_body": False}
Headers = dict[bytes, bytes]


class Closed:
    """Kits without any session that opens."""

    def __init__(self, error: Exception) -> None:
        """Takes why."""
        self._error = error

    def handlers(self, _kit: str, _claims: object) -> Any:
        """Fail."""
        raise self._error


def not_ready() -> str:
    raise TimeoutError("a connection to elsewhere")


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., tuple[int, Headers]]:
    (tmp_path / "ralph.db").touch()
    create(str(tmp_path / "ralph.db"))
    now = int(time.time())
    claims = {"iss": "project", "aud": URL, "sub": "tester", "jti": "one", "rec": "manual"}
    claims |= {"iat": now, "nbf": now, "exp": now + 60, "pol": "policy"}  # type: ignore[dict-item]
    token = jwt.encode(claims, KEY, algorithm="HS256").encode()

    def asked(
        error: Exception | None = None,
        *,
        path: str = "/mcp/ralph",
        host: bytes = b"mcp.example.com",
        comes: bool = True,
        **headers: bytes,
    ) -> tuple[int, Headers]:
        kits = cast("Kits", Closed(error or StartError("no database")))
        app = HttpApp(
            {"/mcp/ralph": "ralph"},
            Bearer(
                Verifier(Keys("HS256", KEY, "RALPH_KEY"), "project", URL, "policy"),
                RevokedSessions(str(tmp_path / "ralph.db")),
            ),
            OpenSessions(kits, 2),
            hosts=Hosts(["mcp.example.com"], [], 8722),
            places=Places(8),
            rates=Rates(100),
            metrics=Metrics(1),
            ready=not_ready,
            limits=(1_000, 10),
        )
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not comes:
                await asyncio.Event().wait()
            return BODY

        async def send(message: Any) -> None:
            sent.append(message)

        pairs = [(name.encode(), value) for name, value in headers.items()]
        scope = {
            "method": "POST",
            "path": path,
            "headers": [(b"host", host), (b"authorization", b"Bearer " + token), *pairs],
        }
        asyncio.run(app(scope, receive, send))
        return sent[0]["status"], dict(sent[0]["headers"])

    return asked


@pytest.mark.parametrize(
    "error", [StartError("there is no database"), OSError(24, "Too many open files")]
)
def test_a_temporary_failure_is_not_an_invalid_token(
    ask: Callable[..., tuple[int, Headers]], error: Exception
) -> None:
    status, headers = ask(error)

    assert (503, b"5") == (status, headers[b"retry-after"])


def test_a_token_for_a_missing_session_remains_useless(
    ask: Callable[..., tuple[int, Headers]],
) -> None:
    assert 403 == ask(ContextError("there is no task 99"))[0]


def test_a_time_out_from_within_is_a_fault_of_the_server(
    ask: Callable[..., tuple[int, Headers]],
) -> None:
    """504 means that it exceeded the time limit of a request."""
    assert 500 == ask(path="/readyz")[0]


def test_who_is_refused_before_the_body_comes_is_not_waited_for(
    ask: Callable[..., tuple[int, Headers]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "LINGER", 0.01)
    status, headers = ask(host=b"evil.example", comes=False)

    assert (421, b"close") == (status, headers[b"connection"])


def test_a_client_that_waits_is_answered_at_once(
    ask: Callable[..., tuple[int, Headers]],
) -> None:
    status, headers = ask(host=b"evil.example", comes=False, expect=b"100-continue")

    assert (421, b"close") == (status, headers[b"connection"])


def test_a_refusal_after_the_body_leaves_the_connection(
    ask: Callable[..., tuple[int, Headers]],
) -> None:
    assert b"connection" not in ask(host=b"evil.example")[1]
