"""The open sessions of a worker: which are reused, and which are opened again."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ralphgen.runtime.http import sessions as sessions_module
from ralphgen.runtime.http.sessions import BusyError, Kits, OpenSession, OpenSessions


class Project:
    """Kits whose sessions open at once."""

    def handlers(self, _kit: str, _claims: object) -> Any:
        """Return an object with a workspace that can be closed."""
        return SimpleNamespace(workspace=SimpleNamespace(close=lambda: None, is_lost=False))

    def relayed(self, _kit: str, _claims: object) -> frozenset[str]:
        """Return no tool: no worker answers for these sessions."""
        return frozenset()


async def opened_and_gone(sessions: OpenSessions) -> tuple[OpenSession, OpenSession]:
    """Open a session, close it before others learn that it was opened, and ask for it again."""
    opening = asyncio.ensure_future(sessions.opened("ralph", "token", {}))
    while True:
        await asyncio.sleep(0)
        if len(sessions):
            break
    first = sessions.open_session("ralph", "token")
    assert first is not None
    closing = sessions.drop("ralph", "token")
    closing.send(None)  # up to its first wait
    closing.close()
    again = await sessions.opened("ralph", "token", {})
    await opening
    return first, again


def test_a_session_that_is_gone_is_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with the closed one would have retried immediately, and forever."""
    monkeypatch.setattr(sessions_module, "RequestReader", lambda *_, **__: None)
    sessions = OpenSessions(cast("Kits", Project()), 2)
    first, again = asyncio.run(opened_and_gone(sessions))

    assert (True, False) == (first.closed, again.closed)


def test_more_sessions_than_places_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "RequestReader", lambda *_, **__: None)
    sessions = OpenSessions(cast("Kits", Project()), 2)
    most = list[int]()

    async def used(token: str) -> None:
        session = await sessions.opened("ralph", token, {})
        assert not session.closed
        session.begin()
        most.append(len(sessions))
        await asyncio.sleep(0.005)
        session.users -= 1

    async def all_at_once() -> None:
        await asyncio.gather(*(used(str(number)) for number in range(12)))

    asyncio.run(all_at_once())

    assert 12 == len(most)
    assert 2 == max(most)


def test_a_session_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "RequestReader", lambda *_, **__: None)
    monkeypatch.setattr(sessions_module, "PATIENCE", 0.02)
    sessions = OpenSessions(cast("Kits", Project()), 1)

    async def one_that_works_on() -> None:
        (await sessions.opened("ralph", "first", {})).begin()
        await sessions.opened("ralph", "second", {})

    with pytest.raises(BusyError):
        asyncio.run(one_that_works_on())
