"""Holds sessions open: each with its workspace and its queue, a bounded number in one process."""

from __future__ import annotations

import _thread
import asyncio
import time

from .. import protocol
from ..deferred import DeferredResult
from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ContextError,
    DeferError,
    RefusedError,
    StartError,
    ToolError,
    log,
)
from ..policy import FULL
from ..protocol import RequestReader
from ..protocol.background import Worker, outcome_of
from ..protocol.handlers import Handlers
from ..session import session_of
from ..tasks.claims import renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from ..engine import Database
    from ..kit import Kit
    from ..policy import Policy
    from ..protocol import RpcRequest
    from ..protocol.handlers import Answer
    from .app import Receive

    Use = Mapping[str, Any]  # the restrictions of a kit over HTTP, from `http_settings`


class Lease:
    """The claim that a token names, renewed at the first call and every third of its lease.

    No process holds it: any process of any machine may answer the next call. `connect` opens a
    separate connection, so no call waits for the renewal. `claims` are the token's.
    """

    __slots__ = ("_claims", "_connect", "_next")

    def __init__(self, connect: Callable[[], Database], claims: Mapping[str, Any]) -> None:
        self._claims = claims
        self._connect = connect
        self._next = 0.0

    def used(self) -> None:
        """Note that the session has called."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._claims["lea"] / 3
            _thread.start_new_thread(self._renew, ())

    def _renew(self) -> None:
        """Renew the claim once; after a failure, a later call tries again."""
        told = self._claims
        try:
            database = self._connect()
            try:
                database.writing(
                    lambda: renew(
                        database, told["tsk"], told["jti"], told["cla"], told["lea"], anywhere=True
                    )
                )
            finally:
                database.close()
        except (StartError, ToolError) as error:
            log("warning", "http", f"a claim could not be renewed: {error}")


PATIENCE = 1.0  # seconds that a new session waits for an idle one
LOOK = 0.01
GRACE = 0.1
TOKEN_IDS = ("jti", "wti")  # claims of a token; each can be revoked
HELD = {"task": "tsk", "token": "cla", "lease": "lea"}  # keys of a claim in contexts and tokens


class BusyError(Exception):
    """As many sessions are open as may be, and all of them work."""


class Kits:
    """The kits of the emitted server in `folder` that are served, with its policy.

    `uses` are the restrictions over HTTP, by kit; `version` is that of ralphgen.
    """

    __slots__ = ("_kits", "_policy", "_uses", "folder", "version")

    def __init__(
        self,
        folder: str,
        kits: Mapping[str, Kit],
        policy: Policy,
        uses: Mapping[str, Use],
        version: str,
    ) -> None:
        self.folder = folder
        self._kits = kits
        self._policy = policy
        self._uses = uses
        self.version = version

    @property
    def names(self) -> tuple[str, ...]:
        """The kits, in order."""
        return tuple(self._kits)

    def handlers(self, kit: str, claims: Mapping[str, Any]) -> Handlers:
        """Return a kit in the session of a token's claims, with a separate workspace.

        Raises `ContextError` if the claims do not fit the server, and `StartError` if the kit
        cannot start now.
        """
        use, found = self._uses[kit], self._kits[kit]
        try:
            facts = self._facts(claims)
            session = session_of(kit, facts, self._policy, f"token of {claims['jti']}")
            about_task = session.task is not None
            is_remote = about_task and session.worker is None
            tools = session.tools(found.tools, use["withheld_values"] if is_remote else {})
        except StartError as error:
            raise ContextError(str(error)) from error
        workspace = found.open_workspace(self.folder, session)
        handlers = Handlers(found, session, tools, workspace, self.version)
        handlers.listening = ()
        handlers.without_tasks()  # not every process could be asked after a call
        for said in (handlers.capabilities, handlers.stateless_capabilities):
            if "resources" in said:
                said["resources"] = {}  # no open stream could announce changes
        return handlers

    def _facts(self, claims: Mapping[str, Any]) -> dict[str, Any]:
        """Return the claims as the facts of a context; without `tools`, every tool is enabled.

        The user takes no part in it: any holder of the token sends the answers too.
        """
        every = {kit: [*self._policy.allowed(FULL, kit)] for kit in self._policy.kits}
        named: dict[str, list[str]] = {}
        for tool in claims.get("tools", ()):
            kit, _, name = tool.partition(":")
            named.setdefault(kit, []).append(name)
        held = {name: claims[key] for name, key in HELD.items() if key in claims}
        worker = claims.get("wrk")
        return {
            "session_id": claims["jti"],
            "recipe": claims["rec"],
            "discipline": claims.get("dis"),
            "target_discipline": claims.get("tgt"),
            "feature": claims.get("fea"),
            "task_id": claims.get("tsk"),
            "claim": {**held, "kept": worker is not None} if "token" in held else None,
            "enabled_tools": named if "tools" in claims else every,
            "disabled_tools": {
                kit: [] if worker else [*use["withheld"]] for kit, use in self._uses.items()
            },
            "worker": worker,
            "token_ids": [claims[key] for key in TOKEN_IDS if key in claims],
            "brief": claims.get("brief", {}),  # no token has one: `take` shows its brief by it
        }

    def has_tasks(self, kit: str) -> bool:
        """Return whether the agents of a kit work on tasks."""
        return bool(self._kits[kit].brief)

    def profile(self, recipe: str) -> str:
        """Return the built-in recipe behind a recipe, empty if there is no such recipe."""
        return self._policy.profile(recipe) if recipe in self._policy.recipes else ""

    def relayed(self, kit: str, claims: Mapping[str, Any]) -> frozenset[str]:
        """Return the tools that the worker of a token's session answers, not this server."""
        return frozenset(self._uses[kit]["withheld"] if "wrk" in claims else ())


class OpenSession:
    """One session of one kit in one process; answers its requests in turns.

    `requests` has one reader for a handshake version and one for the stateless version. `users`
    counts the requests that are being answered; a `closed` session takes no more. `lease` is the
    lease of its claim on a task, None without a claim. `relayed` names the tools that its worker
    answers.
    """

    __slots__ = (
        *("_lease", "_unused_until", "_waiting", "_worker"),
        *("closed", "handlers", "relayed", "requests", "users"),
    )

    def __init__(
        self,
        handlers: Handlers,
        lease: Lease | None = None,
        relayed: frozenset[str] = frozenset(),
    ) -> None:
        self._lease = lease
        self._unused_until = time.monotonic() + GRACE  # who has opened it is about to use it
        self._waiting: dict[int | str, asyncio.Future[Any]] = {}  # calls that take time, by request
        self._worker = Worker(lambda: None)
        self.closed = False
        self.handlers = handlers
        self.relayed = relayed
        self.requests = tuple(
            RequestReader(handlers, modern, alone=True) for modern in (False, True)
        )
        self.users = 0

    def begin(self) -> None:
        """Note that a request is being answered; the caller later takes it off `users` again."""
        self.users += 1
        self._unused_until = 0.0
        if self._lease is not None:
            self._lease.used()

    def refuse_relayed(self, tool: str) -> None:
        """Raise `RefusedError` for a tool that the session's worker answers."""
        if tool in self.relayed:
            text = f'"{tool}" runs on the worker of this session: call it there'
            raise RefusedError(INVALID_PARAMS, text)

    async def answer(self, request: RpcRequest, receive: Receive) -> dict[str, Any]:
        """Return the answer to a request, after any wait; raises `RefusedError`.

        A call that takes time is abandoned if it is cancelled, or if `receive` reports that the
        client has gone: no one could receive its outcome.
        """
        if request.result is not None:
            return request.result
        method, params = self.handlers.methods[request.method], request.params
        begun: Answer
        try:
            if request.method in protocol.STATIC_METHODS:
                begun = method(params)
            else:
                begun = self._worker.at_once(lambda: method(params))
        except DeferError:
            reads = self.handlers.only_reads(request.method, params)
            call = self.waited(lambda: method(params), reads=reads)
            return await self._until_disconnect(call, request.identity, receive)
        if isinstance(begun, DeferredResult):
            call = self.waited(lambda: begun, reads=True, uses_workspace=False)
            return await self._until_disconnect(call, request.identity, receive)
        return begun

    def cancel(self, identity: int | str) -> None:
        """Abandon the call of a request, if this process waits for it."""
        if identity in self._waiting:
            self._waiting[identity].cancel()

    async def _until_disconnect(
        self, call: Awaitable[dict[str, Any]], identity: int | str, receive: Receive
    ) -> dict[str, Any]:
        waiting = asyncio.ensure_future(call)
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        self._waiting[identity] = waiting
        try:
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() and not waiting.cancelled():
                return waiting.result()
            raise RefusedError(INTERNAL_ERROR, "the call was cancelled")
        finally:
            gone.cancel()
            waiting.cancel()
            if self._waiting.get(identity) is waiting:  # clients of one token may count alike
                del self._waiting[identity]

    async def waited(
        self, work: Callable[[], Answer | None], *, reads: bool, uses_workspace: bool = True
    ) -> dict[str, Any]:
        """Return the result of a call on a separate thread; raises `RefusedError`."""
        outcome = await outcome_of(
            asyncio.get_running_loop(),
            self._worker,
            work,
            reads=reads,
            uses_workspace=uses_workspace,
        )
        if outcome is None:
            raise RefusedError(INTERNAL_ERROR, "cancelled before it began")
        if isinstance(outcome, RefusedError):
            raise outcome
        return outcome

    @property
    def tools(self) -> frozenset[str]:
        """The names of the kit's tools, whichever of them the session has."""
        return frozenset(tool.name for tool in self.handlers.kit.tools)

    @property
    def is_lost(self) -> bool:
        """True if it has opened another database than the current one."""
        return bool(self.handlers.workspace.is_lost)

    @property
    def idle(self) -> bool:
        """True if no request or call is running in it."""
        used = self.users or self._worker.calls
        return not used and time.monotonic() >= self._unused_until

    async def close(self) -> None:
        """Let go of everything."""
        self.closed = True
        await asyncio.to_thread(self.handlers.workspace.close)


class OpenSessions:
    """At most `most` open sessions of this process; the one unused for longest is closed first."""

    __slots__ = ("_kits", "_making", "_most", "_open", "_opening")

    def __init__(self, kits: Kits, most: int) -> None:
        self._kits = kits
        self._making = 0  # that are about to be open, or closed
        self._most = most
        self._open: dict[tuple[str, str], OpenSession] = {}  # the latest is last
        self._opening: dict[tuple[str, str], asyncio.Task[OpenSession]] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def open_session(self, kit: str, token: str) -> OpenSession | None:
        """Return the session of a token if it is open."""
        found = self._open.pop((kit, token), None)
        if found is not None:
            self._open[kit, token] = found
        return found

    async def opened(self, kit: str, token: str, claims: Mapping[str, Any]) -> OpenSession:
        """Open the session of a token; raises `StartError` if that fails, and `BusyError`."""
        key = (kit, token)
        task = self._opening.get(key)
        if task is None:
            task = asyncio.create_task(self._create_session(key, claims))
            self._opening[key] = task
        return await asyncio.shield(task)

    async def drop(self, kit: str, token: str) -> None:
        """Close the session of a token if it is open, even while it answers a request."""
        found = self._open.pop((kit, token), None)
        if found is not None:
            await found.close()

    async def close(self) -> None:
        """Close all."""
        while self._open:
            await self._open.pop(next(iter(self._open))).close()

    async def _create_session(self, key: tuple[str, str], claims: Mapping[str, Any]) -> OpenSession:
        try:
            await self._place()
            self._making += 1
            try:
                handlers = await asyncio.to_thread(self._handlers, key[0], claims)
                lease = _lease(handlers.workspace, claims)
                opened = OpenSession(handlers, lease, self._kits.relayed(key[0], claims))
                self._open[key] = opened
            finally:
                self._making -= 1
            return opened
        finally:
            del self._opening[key]  # at once: who finds a task that is done would wait for nothing

    async def _place(self) -> None:
        """Return once one more may be open; raises `BusyError` if all are in use for `PATIENCE`."""
        end = time.monotonic() + PATIENCE
        while len(self._open) + self._making >= self._most:
            idle = next((one for one, session in self._open.items() if session.idle), None)
            if idle is not None:
                self._making += 1
                try:
                    await self._open.pop(idle).close()
                finally:
                    self._making -= 1
            elif time.monotonic() > end:
                raise BusyError
            else:
                await asyncio.sleep(LOOK)

    def _handlers(self, kit: str, claims: Mapping[str, Any]) -> Handlers:
        return self._kits.handlers(kit, claims)


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until a client whose request has come has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _lease(workspace: Any, claims: Mapping[str, Any]) -> Lease | None:
    """Return the lease of the claim that a token names, None if it names no claim."""
    if HELD["token"] not in claims:
        return None
    database = workspace.database
    return Lease(lambda: type(database)(database.path), claims)
