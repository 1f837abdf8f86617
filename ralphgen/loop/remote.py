"""Works on tasks without the database: a worker of a server that is reached over HTTP.

The agent gets one MCP server, a relay: it leads to a socket of this process, which forwards to the
server with the session's token and runs the checks itself. No agent can see a token.
"""

import base64
import ctypes
import http.client
import json
import os
import re
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ralphgen.agents.agent import (
    BLOCKED,
    CLAIM_LOST,
    DONE,
    FAILED,
    STOPPED,
    Agent,
    AgentEnd,
    AgentLine,
    LaunchOptions,
    Outcome,
    outcome_of,
)
from ralphgen.agents.launch import run_watched
from ralphgen.emit.trust import TrustItem, worker_items
from ralphgen.errors import ProgramError, ProjectError, RalphgenError, UsageError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.gate import WorkerChecks
from ralphgen.loop.conduct import (
    PreparedLoop,
    Telling,
    find_agents,
    refuse_limits,
    settle,
)
from ralphgen.loop.cost import HourlyRates
from ralphgen.loop.git import Git, base_branch, refuse_task_branch, tree_at
from ralphgen.loop.merging import LoopQueue
from ralphgen.loop.queued import Check, Checked, QueuedTask
from ralphgen.loop.run import PENDING, Assignment, Event, Limits, Result, Tell, event
from ralphgen.loop.trees import (
    Worktree,
    delete_branch,
    fetch_base,
    free_number,
    prepare,
    release,
    reserved_number,
)
from ralphgen.project.config import ALL, read_words
from ralphgen.project.inspect import done_rules
from ralphgen.project.model import done_facts
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.tasks.claims import moment
from ralphgen.runtime.tasks.merges import COLUMNS, QueuedMerge
from ralphgen.sessions.claims import (
    ASKED,
    INTERRUPTED,
    NOT_MADE,
    NothingReadyError,
)
from ralphgen.sessions.create import ProjectPrompts, run_of_checks, served_of, write_system
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.snapshot import fixed_rules
from ralphgen.sessions.store import (
    CONTEXT,
    MCP_CONFIG,
    make_folder,
    new_id,
    prune_sessions,
    remove,
)

VARIABLE = "RALPH_WORKER_TOKEN"
RECIPE, CLOSING, CHECKS = "task_execution", "set_task_status", "run_checks"
CHANCE = 8  # random bytes in an id: other machines create sessions too, unseen
SECONDS = 130.0  # for an answer; a server gives up earlier
PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds between attempts to reach the server
LOOK = 2.0  # seconds between looks at the merge queue
TAIL = 4_000  # characters of an output that a server takes
MOST_PAUSE = 15.0  # seconds between renewals of a claim
PR_SET_DUMPABLE = 4
AGAIN = (429, 502, 503, 504)  # statuses of calls to repeat
NOT_PUSHED = "not pushed"
CLOSING_REF = "refs/ralph/closing/"  # by number, task and session: the commit that may be entered
UNKNOWN = "the call may or may not have been done: read before you repeat it"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class LostServerError(ProjectError):
    """The server cannot be reached, or does not answer now."""


class RevokedError(UsageError):
    """The worker's token opens nothing: it was revoked or has expired (exit code 2)."""


class NotAllowedError(RevokedError):
    """The worker's token does not open this address (exit code 2)."""


class RefusedPushError(ProjectError):
    """The remote does not take a branch of the worker."""


class RefusedCallError(ProjectError):
    """The server refuses a call of the worker, which no repetition changes."""


def take_token() -> str:
    """Return the worker's token; agents and their commands do not see it afterwards.

    Raises `UsageError` if its variable is not set, and `ProjectError` for an invalid token.
    """
    token = os.environ.pop(VARIABLE, "")
    if not token:
        raise UsageError(f"{VARIABLE} is not set", 'make a token with "ralphgen worker add NAME"')
    if sys.platform == "linux":  # /proc shows the variables that a process was started with
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return token


def name_in(token: str) -> str:
    """Return the name of the worker in its token; raises `UsageError` if it names none."""
    try:
        part = token.split(".")[1]
        facts = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return str(facts["wrk"])
    except (ValueError, LookupError, TypeError) as error:
        text = f"{VARIABLE} does not contain the token of a worker"
        raise UsageError(text, 'make one with "ralphgen worker add NAME"') from error


def prepare_remote(
    project: Project, limits: Limits, agents: str, url: str, *, worktrees: bool
) -> PreparedLoop:
    """Return a loop on the tasks of the server at `url`; nothing is claimed or written.

    The token is in the environment. Raises `UsageError` for options that cannot be met, and
    `ProjectError` for a project whose work could not be pushed.
    """
    if not worktrees:
        raise UsageError("--server requires --worktrees", "add --worktrees")
    for option, value in (
        ("--max-task-cost", limits.max_task_cost),
        ("--review-every", limits.review_every),
    ):
        if value is not None:
            raise UsageError(f'"{option}" and "--server" cannot be combined', f"remove {option}")
    config = project.settings
    if config.loop.remote is None:
        text = "a worker pushes its work to a remote, but [loop] remote is not set"
        raise ProjectError(text, 'set it in .ralph/ralphgen.toml: [loop] remote = "origin"')
    found = find_agents(agents, config)
    refuse_limits(config, limits, found, worktrees=worktrees)
    server = WorkerServer(url)
    token = take_token()
    telling, stop_now = Telling(), threading.Event()
    calls, name = WorkerCalls(server, token), name_in(token)
    site = RemoteWorkplace(
        project, found, telling.tell, stop_now, calls, name, workers=limits.parallel
    )
    settled = settle(limits, config)
    return PreparedLoop(project.root, settled, found, site, (), telling, stop_now, is_remote=True)


class WorkerServer:
    """The project's server at a URL; each request has a separate connection."""

    def __init__(self, url: str) -> None:
        """Take the public URL of a server; raises `UsageError` for any other text."""
        self._parts = urlsplit(url.rstrip("/"))
        is_local = self._parts.hostname in ("localhost", "127.0.0.1", "::1")
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise UsageError(f'invalid URL "{one_line(url)}"', "use the url of [http]")
        if self._parts.scheme == "http" and not is_local:
            text = f'"{one_line(url)}" would send the token without encryption'
            raise UsageError(text, "use https")

    def post(
        self,
        path: str,
        token: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[], None] = lambda: None,
    ) -> tuple[int, bytes]:
        """Return the status and body of an answer; `sent` is called before the request is sent.

        Raises `LostServerError`.
        """
        parts = self._parts
        port, name = parts.port, parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context()
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                name, port, timeout=SECONDS, context=context
            )
        else:
            made = http.client.HTTPConnection(name, port, timeout=SECONDS)
        try:
            made.connect()
            sent()
            fields = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "Authorization": f"Bearer {token}",
                **(headers or {}),
            }
            made.request("POST", f"{parts.path}/{path}", body, fields)
            answer = made.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise LostServerError(f"the server cannot be reached: {one_line(reason)}") from error
        finally:
            made.close()


class WorkerCalls:
    """The calls of a worker, which a repetition does not change."""

    def __init__(self, server: WorkerServer, token: str) -> None:
        self.server = server
        self._token = token
        self.is_away = False  # whether the last call found no server

    def call(self, verb: str, *, until: float = 0.0, **body: object) -> dict[str, Any]:
        """Return the answer to a call, which is repeated until it is answered, or `until` a time.

        Raises `RevokedError`, `RefusedCallError` and, after that time, `LostServerError`.
        """
        data = json.dumps(body).encode()
        for number in range(1_000_000):
            try:
                answer = self._once(verb, data)
            except LostServerError:
                self.is_away = True
                pause = PAUSES[min(number, len(PAUSES) - 1)]
                if number >= len(PAUSES) and time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
            else:
                self.is_away = False
                return answer
        raise LostServerError("the server cannot be reached")

    def _once(self, verb: str, data: bytes) -> dict[str, Any]:
        status, answer = self.server.post(f"worker/{verb}", self._token, data)
        try:
            found = json.loads(answer)
            text = "" if status == http.client.OK else str(found["error"]["message"])
        except (ValueError, LookupError, TypeError) as error:
            text = f"the server answers with status {status}, which is not of ralphgen"
            raise LostServerError(text) from error
        if status == http.client.OK:
            return dict(found)
        text = f"the server refuses this worker: {one_line(text)}"
        if status in AGAIN:
            raise LostServerError(text)
        refusals = {
            http.client.UNAUTHORIZED: RevokedError,
            http.client.FORBIDDEN: NotAllowedError,
        }
        if status in refusals:
            hint = 'make a new token with "ralphgen worker add NAME"'
            raise refusals[http.HTTPStatus(status)](text, hint)
        raise RefusedCallError(text)


class ServerRows:
    """The rows of the merge queue of a branch, which a worker runs for its server."""

    is_remote = True

    def __init__(self, calls: WorkerCalls, root: Path, target: str) -> None:
        self._calls, self._root, self._target = calls, root, target
        self._tasks: dict[int, QueuedTask] = {}
        self._proved: dict[tuple[str, int | None], set[tuple[str, str]]] = {}

    def waiting(self) -> list[QueuedMerge]:
        """Return the waiting entries, in order."""
        return [entry for entry, _ in self._read([])]

    def find(self, numbers: Collection[int], /) -> list[tuple[QueuedMerge, str | None]]:
        """Return entries of any state with the status of their tasks, None without a task."""
        return self._read([*numbers]) if numbers else []

    def tasks(self, wanted: Collection[int], /) -> dict[int, QueuedTask]:
        """Return tasks of entries that were waiting, by number."""
        return {task: self._tasks[task] for task in wanted if task in self._tasks}

    def lead(self) -> bool:
        """Take the lease and end the runs of a killed runner; return False if another has it."""
        return self._lease("begin")

    def keep(self) -> bool:
        """Renew the lease; return False if another runner has it."""
        return self._lease("keep")

    def leave(self) -> None:
        """End the lease."""
        self._lease("end")

    def next_batch(self) -> int:
        """Return the number of a new batch; raises `ProjectError` for other rules on done."""
        rules = rules_digest(Project(self._root))
        answer = self._calls.call("batch", branch=self._target, rules=rules)
        return int(answer["batch"])

    def proved(self, tree: str, task: int | None, /) -> set[tuple[str, str]]:
        """Return name and definition of the checks that have passed on a tree."""
        known = self._proved.get((tree, task))  # another thread may read the queue meanwhile
        if known is None:
            known = _pairs(self._calls.call("proved", tree=tree, task=task)["checks"])
        return known

    def open_run(self, checked: Checked, /) -> int:
        """Record the start of a run; return its number."""
        facts = checked._asdict()
        members = facts.pop("members")
        answer = self._calls.call("run", branch=self._target, entries=members, **facts)
        return int(answer["run"])

    def close_run(
        self, number: int, _checks: Sequence[Check], results: Sequence[Check], *, passed: bool
    ) -> None:
        """Record the end of a run; its `results` become evidence."""
        found = {
            one["name"]: {
                "exit_code": one["exit_code"],
                "seconds": one.get("seconds", 0.0),
                "started": moment(),
                "tail": _sendable(one.get("tail", "")),
            }
            for one in results
        }
        self._proved.clear()
        self._calls.call("ran", run=number, passed=passed, results=found)

    def claim_landing(self, commits: Mapping[int, str], batch: int, /) -> bool:
        """Record the merge commits of entries; return False if one was dropped already."""
        return bool(self._calls.call("landing", batch=batch, entries=commits)["claimed"])

    def release_landing(self, numbers: Collection[int], /) -> None:
        """Let entries wait again whose merge commits are not in the branch."""
        self._calls.call("landing", batch=None, entries=dict.fromkeys(numbers, ""))

    def land(self, commits: Mapping[int, str], batch: int | None, /, *, flaky: str = "") -> None:
        """Record by number the commits that merged entries, of a batch if it is known."""
        self._calls.call("landed", batch=batch, entries=commits, flaky=_sendable(flaky))

    def send_back(
        self, entry: QueuedMerge, batch: int, why: str, tail: str, *, refused: bool, repeats: bool
    ) -> bool:
        """Return an entry to its task; return False if it waits for the user.

        The server knows whether the failure `repeats`.
        """
        del repeats
        facts: Any = {"reason": _sendable(why), "output": _sendable(tail), "refused": refused}
        answer = self._calls.call("returned", batch=batch, entry=entry.number, **facts)
        return bool(answer["ended"])

    def note(self, numbers: Collection[int], why: str, /) -> None:
        """Record why entries still wait."""
        self._calls.call("waits", entries=[*numbers], reason=_sendable(why))

    def _lease(self, state: str) -> bool:
        answer = self._calls.call("runner", branch=self._target, state=state)
        return answer["lease"] is not None

    def _read(self, numbers: Sequence[int]) -> list[tuple[QueuedMerge, str | None]]:
        found = []
        self._proved.clear()
        for one in self._calls.call("queue", branch=self._target, entries=numbers)["entries"]:
            entry = QueuedMerge([one[name] for name in COLUMNS])
            if not re.fullmatch("[0-9a-f]{40,64}", entry.work):
                raise LostServerError(f"the server names no commit for merge {entry.number}")
            if entry.task is not None:
                self._tasks[entry.task] = QueuedTask(str(one["title"] or ""), one["discipline"])
            if entry.tree is not None:
                self._proved[entry.tree, entry.task] = _pairs(one["proved"])
            found.append((entry, one["status"]))
        return found


def _pairs(listed: Sequence[Sequence[str]]) -> set[tuple[str, str]]:
    return {(name, definition) for name, definition in listed}


def _sendable(text: str) -> str:
    """Return the end of a text as the server takes it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")[-TAIL:]


class RemoteClaim:
    """The claim of a worker's session, which a thread renews in the block.

    `lost` is set once the session can no longer write: another session may have its task, or the
    server was out of reach until the lease ended. `status` is the last known one of the task.
    """

    def __init__(self, calls: WorkerCalls, session: str, lease: float, host: str) -> None:
        self._calls, self._session, self._lease, self._host = calls, session, lease, host
        self._over = threading.Event()
        self.lost = threading.Event()
        self.ends = time.monotonic() + lease
        self.status: str | None = None
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def renew(self) -> None:
        """Renew the claim once, and read the status of the task."""
        began = time.monotonic()
        try:
            answer = self._calls.call("renew", sessions=[self._session], host=self._host)
        except LostServerError:
            if time.monotonic() >= self.ends:
                self.lost.set()
        except RalphgenError:  # revoked
            self.lost.set()
        else:
            found = answer["sessions"][self._session]
            self.status = found["status"]
            if found.get("lost"):
                self.lost.set()
            self.ends = began + self._lease

    def _keep(self) -> None:
        pause = min(self._lease / 3, MOST_PAUSE)
        while not self._over.wait(pause) and not self.lost.is_set():
            self.renew()


class Relay:
    """The MCP server of an agent: forwards to the server, and answers `run_checks` here.

    `entry` is what the agent starts. `question` is the number of the question to the user, if the
    session has asked one, and `tree` the tree on which its task was closed.
    """

    def __init__(
        self,
        server: WorkerServer,
        taken: Mapping[str, Any],
        claim: RemoteClaim,
        checks: WorkerChecks,
        keep: Callable[[str], None],
    ) -> None:
        """Forward calls to the server; `keep` takes a tree before the task is closed on it."""
        self._server, self._claim, self._checks, self._keep = server, claim, checks, keep
        self._kit, self._token = taken["kit"], taken["token"]
        tools = taken["describe"]["tools"]
        self._reading = {
            one["name"] for one in tools if one.get("annotations", {}).get("readOnlyHint")
        }
        self._folder = tempfile.TemporaryDirectory(prefix="ralphgen-")  # sockets have short names
        self._path = str(Path(self._folder.name, "relay"))
        self._listening = socket.socket(socket.AF_UNIX)
        self.question: int | None = None
        self.tree = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that an agent starts."""
        program = str(Path(__file__).with_name("relay.py"))
        return (sys.executable, "-I", "-S", program, self._path)

    def __enter__(self) -> Self:
        self._listening.bind(self._path)
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._checks.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        writing = threading.Lock()

        def answer(line: bytes) -> None:
            found = self._answer(line)
            if found:
                with writing, suppress(OSError):
                    client.sendall(found.strip() + b"\n")

        with client, client.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                if line.strip():
                    threading.Thread(target=answer, args=(line,), daemon=True).start()

    def _answer(self, line: bytes) -> bytes:
        try:
            frame = json.loads(line)
            identity, method = frame.get("id"), frame.get("method")
            params = frame.get("params") or {}
            name, given = params.get("name"), params.get("arguments") or {}
        except (ValueError, AttributeError, RecursionError):
            return self._forward(line, {}, None)
        try:
            if method == "tools/call" and name == CHECKS:
                return _tool_answer(identity, self._checks.run(), is_error=False)
            closes = method == "tools/call" and name == CLOSING and given.get("status") == DONE
            tree = self._checks.proved_tree() if closes else ""
            if closes:
                self._keep(tree)
        except (ToolError, ProgramError) as error:
            return _tool_answer(identity, str(error), is_error=True)
        answer = self._forward(line, frame, identity)
        if name == CLOSING:
            self._note(answer, tree)
        return answer

    def _note(self, answer: bytes, tree: str) -> None:
        """Take note of a status that the server has set."""
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            result = json.loads(answer)["result"]
            if not result.get("isError"):
                found = json.loads(result["content"][0]["text"])
                self.question = found.get("asked", self.question)
                if found["new"] == DONE:
                    self.tree = tree

    def _forward(self, line: bytes, frame: Mapping[str, Any], identity: object) -> bytes:
        """Return the server's answer to a line, which is sent again if it has not arrived.

        A call that may have arrived is sent again only if it reads.
        """
        arrived, number = False, 0

        def note_arrival() -> None:
            nonlocal arrived
            arrived = True

        call = frame.get("params") or {}
        reads = frame.get("method") != "tools/call" or call.get("name") in self._reading
        headers = _routing(frame)
        while not self._claim.lost.is_set():
            arrived = False
            try:
                status, answer = self._server.post(
                    self._kit, self._token, line.strip(), headers, note_arrival
                )
            except LostServerError as error:
                if arrived and not reads:
                    return _tool_answer(identity, f"{error}; {UNKNOWN}", is_error=True)
            else:
                if status == http.client.UNAUTHORIZED:
                    self._claim.lost.set()
                elif status not in AGAIN or (status == http.client.GATEWAY_TIMEOUT and not reads):
                    return _whole(answer, identity)
            self._claim.lost.wait(PAUSES[min(number, len(PAUSES) - 1)])
            number += 1
        return _failed(identity, "this session has ended: stop working on its task")


def _routing(frame: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers by which the stateless version routes a request."""
    params = frame.get("params") or {}
    version = (params.get("_meta") or {}).get(VERSION_KEY)
    if type(version) is not str:
        return {}
    method = str(frame.get("method"))
    found = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    if method in NAMED_BY:
        name = str(params.get(NAMED_BY[method], ""))
        spelled = base64.b64encode(name.encode()).decode()
        plain = name.isascii() and name.isprintable() and name == name.strip()
        found["Mcp-Name"] = name if plain else f"=?base64?{spelled}?="
    return found


def _whole(answer: bytes, identity: object) -> bytes:
    """Return an answer that names its request, though the server could not tell which it was."""
    try:
        frame = json.loads(answer) if answer else {}
    except ValueError:
        return _failed(identity, "the server's answer is not JSON")
    if frame and frame.get("id") is None and identity is not None:
        return json.dumps({**frame, "id": identity}).encode()
    return answer


def _tool_answer(identity: object, told: object, *, is_error: bool) -> bytes:
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    result = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}).encode()


def _failed(identity: object, text: str) -> bytes:
    if identity is None:
        return b""
    error = {"code": -32603, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode()


class RemoteWorkplace:
    """Worktrees in a worker's clone, for tasks that a server hands out."""

    def __init__(
        self,
        project: Project,
        agents: Sequence[Agent],
        tell: Tell,
        stop: threading.Event,
        calls: WorkerCalls,
        name: str,
        workers: int,
    ) -> None:
        """Let so many `workers` take tasks for the machine `name`."""
        self._agents = {one.name: one for one in agents}
        self._blocked: set[int] = set()  # tasks that this loop has blocked
        self._calls = calls
        self._host = one_line(socket.gethostname())[:100] or "unknown"
        self._locks = ExitStack()
        self._name = name
        self._numbers: list[int] = []
        self._project = project
        self._rates = HourlyRates(project.settings.launch.cost_per_hour)
        self._root = project.root
        self._stop = stop
        self._tell = tell
        self._workers = workers
        self._may_merge = True  # until the server says otherwise
        self._merging: LoopQueue | None = None  # once it has said so
        self._next_look = 0.0
        self.recorded: list[str] = []

    def trust_items(self) -> list[TrustItem]:
        """Return the items that a worker requires: it starts no server of the project."""
        return worker_items(self._project)

    def is_merging(self) -> bool:
        """Return whether work waits that this worker merges, and nothing prevents that now."""
        return self._merging is not None and self._merging.is_merging()

    def merge_waiting(self) -> list[tuple[int, str]]:
        """Run the merge queue if the token allows that, as `LoopQueue.merge_waiting`."""
        if not self._may_merge or time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + LOOK
        if self._merging is None:
            branch = base_branch(self._root)
            queue = LoopQueue(
                *(self._root, branch, self._project.settings.loop, self._tell_blocked),
                stop=self._stop,
                recorded=self.recorded,
                rows=ServerRows(self._calls, self._root, branch),
            )
            try:
                queue.queue.waiting()
            except NotAllowedError:
                self._may_merge = False
                return []
            self._merging = queue
            self._note(0, f'worker {self._name} runs the merge queue of "{branch}"')
        return self._merging.merge_waiting()

    def tasks_for_user(self) -> set[int]:
        """Return the tasks that this loop has blocked, and those whose merge is pending here."""
        pending = set[int]() if self._merging is None else self._merging.waiting_tasks()
        return self._blocked | pending

    def is_away(self) -> bool:
        """Return whether the server could not be reached by the last call."""
        return self._calls.is_away

    def disk_fault(self, _error: RalphgenError) -> ProgramError | None:
        """Return nothing: git and the agent report a full disk."""
        return None

    def counts(self) -> dict[str, int]:
        """Return nothing: the server knows the tasks."""
        return {}

    def notes(self) -> list[str]:
        """Return the lines that a loop here begins with."""
        return [f"note: worker {self._name}; work is pushed to ralph/ and merged by the queue"]

    def target(self) -> Event:
        """Return the branch that tasks start from; raise `ProjectError` if there is none."""
        branch = base_branch(self._root)
        refuse_task_branch(branch)
        return event("target", branch=branch, folder=str(self._root), merges=False)

    def begin(self, _tasks: Sequence[int]) -> None:
        """Take the places of the worktrees, and fetch the base branch."""
        config = self._project.settings
        prune_sessions(self._root, config.sessions.keep_days)
        try:
            self._enter_unqueued_work()
        except LostServerError as error:
            self._note(0, f"{error}: finished work is entered by the next loop")
        for _ in range(self._workers):
            self._numbers.append(self._locks.enter_context(free_number(self._root)))

    def session(self, job: Assignment, worker: int) -> Result:
        """Run one session; raise `NothingReadyError` if there is no task for it."""
        if self._merging is not None and self._merging.error is not None:
            raise self._merging.error
        session_id = new_id(self._root, RECIPE, self._name, CHANCE)
        words = ProjectPrompts(read_words(self._root, (ALL, RECIPE)), None, ())
        taken = self._calls.call(
            "take",
            session=session_id,
            recipe=RECIPE,
            agent=job.agent,
            host=self._host,
            skip=sorted(job.behind),
            brief=words.facts(self._project.settings.brief),
        )
        if taken["task"] is None:
            raise NothingReadyError("no task is ready", waits=bool(taken["running"]))
        job.begins()
        with RemoteClaim(self._calls, session_id, taken["lease"], self._host) as claim:
            try:
                result = self._worked(job, worker, taken, claim)
            except BaseException:
                with suppress(RalphgenError):
                    self._end(taken, NOT_MADE, claim)
                raise
        return result

    def _end(
        self,
        taken: Mapping[str, Any],
        outcome: str,
        claim: RemoteClaim,
        comment: str = "",
        **usage: Any,
    ) -> str | None:
        """Report the end of a session; return the status of its task."""
        body = {"session": taken["session"], "outcome": outcome, "comment": comment[:8_000]}
        given = {name: value for name, value in usage.items() if value is not None}
        answer = self._calls.call("end", until=claim.ends, **body, **given)
        status: str | None = answer["status"]
        return status

    def _worked(
        self, job: Assignment, worker: int, taken: Mapping[str, Any], claim: RemoteClaim
    ) -> Result:
        task, session_id, told = taken["task"], taken["session"], partial(self._note, worker)
        self._require_rules(taken)
        number, config = self._numbers[worker - 1], self._project.settings.loop
        tree = prepare(self._root, number, task, config, told, self._stop)
        checks = WorkerChecks(self._root, tree.root, task, taken["discipline"], self._prover(taken))
        kept = f"{CLOSING_REF}{number}/{task}/{session_id}"
        keep = partial(self._keep, kept, taken["title"], tree.began)
        with Relay(self._calls.server, taken, claim, checks, keep) as relay:
            session = self._session(taken, tree, relay, checks)
            agent = self._agents[job.agent]
            facts = {"worker": worker, "session": session_id, "task": task}
            self._tell(event("session", **facts, agent=job.agent, title=taken["title"]))
            began = time.monotonic()

            def out(line: AgentLine) -> None:
                if line.tool:
                    self._tell(event("call", worker=worker, tool=line.tool))

            options = LaunchOptions(session.prompt, printing=True, max_cost=job.cost)
            call = agent.call(session, options)
            endings = (job.seconds, self._stop, claim.lost)
            try:
                end = run_watched(session, agent, call, endings, out, told)
            except BaseException:
                remove(session.folder)
                raise
            claim.renew()
            outcome, comment = self._concluded(kept, tree, relay, claim, end, worker)
            seconds = time.monotonic() - began
            estimate = self._rates.estimate(job.agent, end.usage.cost, seconds)
            self._tell(
                event(
                    "end",
                    **facts,
                    outcome=outcome,
                    turns=end.usage.turns,
                    cost_usd=end.usage.cost,
                    estimated_usd=estimate,
                    changed=None,
                    checks=checks.results(),
                    seconds=round(seconds, 3),
                )
            )
            if relay.question is not None:
                self._tell(event("question", task=task, question=relay.question))
        status = self._end(
            *(taken, outcome, claim, comment),
            turns=end.usage.turns,
            cost=end.usage.cost,
            estimate=estimate,
            input_tokens=end.usage.tokens_in,
            output_tokens=end.usage.tokens_out,
            model=end.model[:100] or None,
        )
        self._blocked.discard(task)
        if status == BLOCKED:
            self._blocked.add(task)
        Git(self._root).run_quietly("update-ref", "-d", kept)
        if outcome == DONE and self._merging is not None:
            outcome = PENDING
        return Result(
            *(task, outcome, end.usage.cost, None, end.limit, end.unavailable), estimate=estimate
        )

    def _concluded(
        self,
        kept: str,
        tree: Worktree,
        relay: Relay,
        claim: RemoteClaim,
        end: AgentEnd,
        worker: int,
    ) -> tuple[str, str]:
        """Push the work of a session that has closed its task; return its outcome and a comment."""
        if claim.lost.is_set():
            return CLAIM_LOST, ""
        reached = claim.status if relay.question is None else ASKED
        outcome = outcome_of(end, reached, closes=True)
        if outcome.word == STOPPED and self._stop.is_set():
            outcome = Outcome(INTERRUPTED, outcome.exit_code)
        if outcome.word != DONE:
            return outcome.word, ""
        if not relay.tree:
            return NOT_PUSHED, "Its worker recorded no tree: the task was not closed by its relay."
        try:
            commit = self._push(kept, tree.base, claim.ends, worker)
        except RefusedPushError as error:
            self._note(worker, str(error))
            return NOT_PUSHED, str(error)
        held = tree_at(self._root, tree.path)
        if held is not None:
            held.say("checkout", "--quiet", "--force", "--detach", commit)
            held.say("clean", "--quiet", "-ffd")
            release(held)
        delete_branch(Git(self._root), tree.branch)
        return DONE, ""

    def _keep(self, kept: str, title: str, began: str, tree: str) -> None:
        """Keep a tree as a commit under a ref; after a kill, the next loop enters it."""
        git, task = Git(self._root), kept.split("/")[-2]
        message = f"{one_line(title) or 'Work'} (task {task})"
        git.say("update-ref", kept, git.commit_tree(message, tree, began))

    def _push(self, kept: str, base: str, until: float, worker: int = 0) -> str:
        """Push the kept commit, and enter it for its merge; return it.

        Raises `RefusedPushError`, and what `WorkerCalls.call` raises.
        """
        git, remote = Git(self._root), self._project.settings.loop.remote
        task, session = kept.split("/")[-2:]
        commit, tree = git.say("rev-parse", kept, f"{kept}^{{tree}}").splitlines()
        branch = f"ralph/task-{task}-{session}"
        push = git.push(str(remote), commit, branch)
        if push.outcome != "done":
            text = f'the branch "{branch}" could not be pushed: {one_line(push.words)}'
            raise RefusedPushError(text)
        facts = {"session": session, "commit": commit, "tree": tree, "branch": base}
        answer = self._calls.call("enter", until=until, **facts)
        if self._merging is not None:
            self._merging.enter(answer["number"], worker)
            self._next_look = 0.0
        self._note(worker, f"task {task} waits to be merged, as merge {answer['number']}")
        return commit

    def _enter_unqueued_work(self) -> None:
        """Enter the work of sessions that were killed after they had closed their tasks.

        Raises `LostServerError`, and `RevokedError` for a revoked worker.
        """
        git, told = Git(self._root), partial(self._note, 0)
        for kept in git.say("for-each-ref", "--format=%(refname)", CLOSING_REF).splitlines():
            number, _, session = kept.removeprefix(CLOSING_REF).split("/")
            with reserved_number(self._root, int(number)) as is_free:
                if not is_free:
                    continue
                try:
                    answer = self._calls.call("renew", sessions=[session], host=self._host)
                except RefusedCallError:
                    continue  # it is of another worker with this clone
                outcome = FAILED.word
                if answer["sessions"][session]["status"] == DONE:
                    try:
                        self._push(kept, base_branch(self._root), 0.0)
                        outcome = DONE
                    except RefusedPushError as error:
                        told(str(error))
                        continue  # the next loop tries it again
                    except RefusedCallError as error:
                        told(str(error))  # another session has its task
                self._calls.call("end", session=session, outcome=outcome)
                git.say("update-ref", "-d", kept)

    def _prover(self, taken: Mapping[str, Any]) -> Callable[..., None]:
        def prove(
            tree: str, base: str, protected: Sequence[str], results: Mapping[str, Any]
        ) -> None:
            try:
                self._calls.call(
                    "prove",
                    session=taken["session"],
                    tree=tree,
                    base=base,
                    protected=[*protected][:100],
                    results=results,
                )
            except RalphgenError as error:
                raise ToolError(f"the results could not be reported: {error}") from error

        return prove

    def _require_rules(self, taken: Mapping[str, Any]) -> None:
        """Fetch the base branch; require the rules and the base commit that the server names.

        Another worker may have merged what the task depends on.
        """
        git, config = Git(self._root), self._project.settings.loop
        branch = base_branch(self._root)
        if reason := fetch_base(git, branch, config):
            raise ProjectError(reason)
        self._project = Project(self._root)
        has_base = taken["base"] is None or (
            git.commit(taken["base"]) is not None
            and git.contains(f"refs/heads/{branch}", taken["base"])
        )
        if has_base and rules_digest(self._project) == taken["rules"]:
            return
        lacking = "the rules on done" if has_base else f"the commit {taken['base']}"
        text = f'the branch "{branch}" of this clone lacks {lacking} of the server'
        raise ProjectError(text, "push them there, or update and trust this clone")

    def _session(
        self, taken: Mapping[str, Any], tree: Worktree, relay: Relay, checks: WorkerChecks
    ) -> PreparedSession:
        """Return the session of a task, with its folder."""
        root, config = self._root, self._project.settings
        rules, more = fixed_rules(root, tree.root, taken["feature"])
        facts = {
            "version": 1,
            "session_id": taken["session"],
            "recipe": RECIPE,
            "base": RECIPE,
            "discipline": taken["discipline"],
            "target_discipline": None,
            "feature": taken["feature"],
            "task_id": taken["task"],
            "enabled_tools": {},
            "disabled_tools": {},
            **rules,
        }
        program, *arguments = relay.command
        entry: dict[str, Any] = {"command": program, "args": arguments}
        if longest := run_of_checks(rules):
            entry["timeout"] = 1_000 * longest[taken["kit"]]
        wired = {"mcpServers": {taken["kit"]: entry}}
        digest = make_folder(root, taken["session"], facts, lambda _: wired, more)
        folder = root / ".ralph/mcp/sessions" / taken["session"]
        checks.begin(folder / CONTEXT, rules.get("done", {}))
        served = served_of(taken["kit"], relay.command, taken["describe"])
        write_system(folder, [served])
        return PreparedSession(
            root=root,
            work_tree=tree.root,
            session_id=taken["session"],
            recipe=RECIPE,
            profile=RECIPE,
            folder=folder,
            context=folder / CONTEXT,
            mcp_config=folder / MCP_CONFIG,
            sha256=digest,
            task=taken["task"],
            feature=taken["feature"],
            discipline=taken["discipline"],
            target=None,
            served=(served,),
            other_servers=(),
            runs=(),
            launch=config.launch,
            transcripts=config.sessions.transcripts,
            warnings=(),
        )

    def _tell_blocked(self, told: Event) -> None:
        """Tell an event of the queue, and record the task that it has blocked."""
        if "blocked" in told:
            self._blocked.add(told["blocked"])
        self._tell(told)

    def _note(self, worker: int, line: str) -> None:
        self._tell(event("note", worker=worker, text=line))


def rules_digest(project: Project) -> str:
    """Return the digest of a clone's rules on done."""
    rules = done_rules(project.settings)
    facts = {"checks": ()} if rules is None else done_facts(rules)
    return sha256_hex(json.dumps(facts, sort_keys=True).encode())
