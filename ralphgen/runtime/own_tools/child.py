"""The process that loads a project's own tools and runs their functions, one call at a time.

Requests and answers are lines of JSON on what was its standard input and output. While a function
runs, the standard output is the standard error, so that nothing it prints is taken for an answer.
"""

from __future__ import annotations

import json
import os
import sys

from ..errors import ToolError
from ..loader import add_packages
from . import api

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

else:
    ModuleType = type(sys)

OPTION = "--own-tools"  # server.py runs this module with it
HIGH_DESCRIPTOR = 200  # the descriptors that a function hardly closes by their numbers begin here
LONGEST_FILE = 200_000  # bytes of a file
LONGEST_LINE = 8_000_000  # bytes of a message
LONGEST_ANSWER = 4_000_000  # characters of JSON; far fewer are shown
TOO_LONG = '"{}" returned too much: make it return less'
STALE = (
    '.ralph/tools/{} {} since the server was generated: ask the user to run "ralphgen regen", then '
    "start a new session"
)


def serve(folder: str) -> int:
    """Answer requests until the server is gone; `folder` is the emitted server's."""
    wire = CallStreams()
    add_packages()
    _offer_api()
    tools = os.path.join(os.path.dirname(folder), "tools")
    loaded: dict[tuple[str, str], ModuleType] = {}
    environment = dict(os.environ)
    wire.tell({"ready": True})
    import signal

    while (request := wire.next()) is not None:
        # Undo the changes of the previous function to the process.
        signal.alarm(0)
        os.chdir(request["root"])
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        wire.reset()
        outcome = _outcome(wire, request, tools, loaded)
        wire.end_call()
        wire.tell({"call": request.get("call"), **outcome})
    os._exit(0)  # even if a function has left threads


class CallStreams:
    """The two ends of the pipes to the server, kept away from functions."""

    def __init__(self) -> None:
        from fcntl import F_DUPFD_CLOEXEC, fcntl
        from threading import Lock

        self._source = os.fdopen(
            fcntl(0, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR), encoding="utf-8", newline="\n"
        )
        self._target = fcntl(1, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
        self._error = fcntl(2, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
        self._nothing = fcntl(os.open(os.devnull, os.O_RDONLY), F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
        self._lock = Lock()
        self._process = os.getpid()
        self._call = 0  # the number of the call that may ask
        self.reset()

    def reset(self) -> None:
        """Let standard input be empty, and standard output and error go to the server's log."""
        os.dup2(self._nothing, 0)
        os.dup2(self._error, 1)
        os.dup2(self._error, 2)
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = open(
                descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        sys.stdin = open(0, encoding="utf-8", closefd=False)

    def next(self) -> dict[str, Any] | None:
        """Return the next request, None if the server is gone."""
        line = self._source.readline()
        return json.loads(line) if line else None

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message; a copy of this process that a function has made ends instead."""
        if os.getpid() != self._process:
            os._exit(0)
        data = json.dumps(message).encode() + b"\n"
        if len(data) > LONGEST_LINE:
            raise ToolError(f"the request has {len(data):,} bytes: send a shorter one")
        while data:
            data = data[os.write(self._target, data) :]

    def asking(self, name: str) -> Callable[[str, dict[str, Any]], Any]:
        """Return a function that asks the server for the current call, until the call ends.

        `name` identifies the call for the server.
        """
        call = self._call
        return lambda what, about: self._ask(call, {"call": name, "ask": what, **_plain(about)})

    def end_call(self) -> None:
        """End the requests of leftover threads: answers now belong to the next call."""
        if os.getpid() == self._process:
            with self._lock:
                self._call += 1

    def _ask(self, call: int, message: dict[str, Any]) -> Any:
        """Return the server's answer to a function's request; raises `ToolError`."""
        if os.getpid() != self._process:
            raise ToolError("a copy of the process cannot use the project")
        with self._lock:
            if call != self._call:
                raise ToolError("the tool call of this request has ended")
            try:
                self.tell(message)
            except (TypeError, ValueError) as error:
                raise ToolError(f"a parameter is not a JSON value: {error}") from error
            answer = self.next()
        if answer is None:
            os._exit(0)
        if "refused" in answer:
            raise ToolError(answer["refused"])
        return _with_bytes(answer["answer"])


def _offer_api() -> None:
    """Let functions import `ralphgen.tools`, as they do where ralphgen is installed."""
    package, tools = ModuleType("ralphgen"), ModuleType("ralphgen.tools")
    package.__path__ = []
    vars(tools).update(
        Project=api.OwnProject, ToolError=ToolError, reads=api.reads, writes=api.writes
    )
    vars(package)["tools"] = tools
    sys.modules |= {"ralphgen": package, "ralphgen.tools": tools}


def _outcome(
    wire: CallStreams,
    request: dict[str, Any],
    tools: str,
    loaded: dict[tuple[str, str], ModuleType],
) -> dict[str, Any]:
    """Return the outcome of a call: a result, a refusal, or a traceback for the log."""
    import traceback

    what = "cannot be loaded"
    try:
        function = _function(request, tools, loaded)
        if "session" not in request:  # the request only checks that the function loads
            return {"result": None}
        what = "failed"
        session = api.OwnSession(**request["session"])
        project = api.OwnProject(wire.asking(request["call"]), session, request["root"])
        result = _called(function, project, request["arguments"])
        length = len(json.dumps(result, allow_nan=False))
    except ToolError as error:
        return {"refused": str(error) or "the tool refuses this"}
    except BaseException as error:
        if isinstance(error, ValueError | TypeError | RecursionError) and "result" in locals():
            what = "returned invalid JSON"
        return {"failed": what, "traceback": traceback.format_exc()[-10_000:]}
    if length > LONGEST_ANSWER:
        return {"refused": TOO_LONG.format(request["tool"])}
    return {"result": result}


def _called(
    function: Callable[..., Any], project: api.OwnProject, arguments: dict[str, Any]
) -> Any:
    """Return the result of a function, awaited if necessary."""
    from inspect import Parameter, signature

    left = {
        name: None
        for name, one in [*signature(function).parameters.items()][1:]
        if one.default is Parameter.empty and name not in arguments
    }
    result = function(project, **left, **arguments)
    if hasattr(result, "__await__"):
        import asyncio

        async def awaited() -> Any:
            return await result

        result = asyncio.run(awaited())
    return result


def _function(
    request: dict[str, Any], tools: str, loaded: dict[tuple[str, str], ModuleType]
) -> Callable[..., Any]:
    """Return the function; its file is run once, if it is as it was. Raises `ToolError`."""
    file, digest = request["file"], request["sha256"]
    module = loaded.get((file, digest))
    if module is None:
        from ..encoding import sha256_hex
        from ..files import read_file

        path = os.path.join(tools, file)
        try:
            data, _ = read_file(path, LONGEST_FILE, links=False)
        except FileNotFoundError as error:
            raise ToolError(STALE.format(file, "was removed")) from error
        except OSError as error:
            raise ToolError(STALE.format(file, "became unreadable or a link")) from error
        if sha256_hex(data) != digest:
            raise ToolError(STALE.format(file, "was changed"))
        module = ModuleType(f"ralph_tools_{file.removesuffix('.py')}")
        module.__file__ = path
        sys.modules[module.__name__] = module
        text = data.decode().removeprefix("\ufeff")
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))
        loaded[file, digest] = module
    function: Callable[..., Any] = getattr(module, request["tool"])
    return function


def _plain(value: Any) -> Any:
    """Return a value with texts in the place of bytes, which JSON lacks."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes in hex": bytes(value).hex()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _with_bytes(value: Any) -> Any:
    """Return an answer with the bytes that it has."""
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if isinstance(value, dict):
        if [*value] == ["bytes in hex"]:
            return bytes.fromhex(value["bytes in hex"])
        return {key: _with_bytes(item) for key, item in value.items()}
    return value
