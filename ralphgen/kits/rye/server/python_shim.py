"""Runs a Python tool in the interpreter of the project.

`python -I python_shim.py TOOL SHA256 PROJECT NEIGHBOURS` reads the parameters as JSON from
standard input and writes one JSON document to standard output: `{"ok": true, "value": ...}`, or
`{"ok": false, "error": "ValueError: ..."}`. NEIGHBOURS maps the names of modules that the tool may
import to their paths and SHA-256 digests. Output of the tool and its child processes goes to
standard error, and so do tracebacks. A tool that ends the process writes no document.

The interpreter may be as old as Python 3.8, and this file imports no other module of the server.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType
    from typing import Any

NAME = "_rye_tool"  # module name of the tool; no package has it
LARGEST = 1 << 20  # bytes of a document: the most that the server keeps
DEEPEST = 100  # nesting depth that every JSON reader supports
LONGEST = 2000  # characters of an error
CHUNK = 1 << 16


class ToolRefusedError(Exception):
    """The tool or its return value is invalid; the message is the whole error."""


def result_of(tool: str, digest: str, project: str, given: bytes) -> bytes:
    """Run a tool with these parameters and return its document."""
    try:
        value = call(load(tool, digest), json.loads(given), project)
        document = as_json(value)
    except ToolRefusedError as error:
        return failure(str(error))
    except BaseException as error:  # including SystemExit and KeyboardInterrupt
        tell(error, tool)
        return failure(sentence_of(error))
    return document


def load(tool: str, digest: str) -> ModuleType:
    """Return the tool as a module, compiled from the checked bytes only."""
    from types import ModuleType

    module = ModuleType(NAME)
    sys.modules[NAME] = module  # dataclasses look up their module here
    sys.argv = [tool]
    fill(module, tool, digest)
    return module


def fill(module: ModuleType, path: str, digest: str) -> None:
    """Run a file in a module if its bytes have the checked digest."""
    from hashlib import sha256

    with open(path, "rb") as file:
        source = file.read()
    if sha256(source).hexdigest() != digest:
        name = os.path.basename(path)
        raise ToolRefusedError(f'"{name}" has changed since it was checked: execute the tool again')
    code = compile(source, path, "exec", dont_inherit=True)
    module.__file__ = path
    exec(code, vars(module))


class Neighbours:
    """Finds and loads neighbouring modules; installed modules take precedence."""

    def __init__(self, files: dict[str, tuple[str, str]]) -> None:
        """Take the path and digest of each module, by name."""
        self.files = files

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of a neighbour, or None for other modules."""
        if name not in self.files:
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = self  # importing importlib.abc costs too much
        return ModuleSpec(name, loader)

    def create_module(self, _: ModuleSpec) -> None:
        """Return None: Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module, compiled from the checked bytes only."""
        fill(module, *self.files[module.__name__])


def call(module: ModuleType, parameters: dict[str, Any], project: str) -> Any:
    """Call the tool's function and return its value; awaits a coroutine."""
    execute, main = getattr(module, "execute", None), getattr(module, "main", None)
    if callable(execute):
        value = execute(parameters, project)
    elif callable(main):
        value = main(**parameters)
    else:
        raise ToolRefusedError(
            'the tool has no function to call: define "execute(params, project_path)" or "main"'
        )
    return wait_for(value) if hasattr(value, "__await__") else value


def wait_for(value: Any) -> Any:
    """Return the result of an awaitable."""
    from asyncio import run

    async def result() -> Any:
        return await value

    return run(result())


def as_json(value: Any) -> bytes:
    """Return the document for a value."""
    try:
        text = json.dumps({"ok": True, "value": value}, ensure_ascii=False, allow_nan=False)
        check(value)
        document = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolRefusedError(
            "the return value of the tool cannot be converted to JSON: " + str(error)
        ) from error
    if len(document) > LARGEST:
        raise ToolRefusedError(
            f"the return value of the tool has {len(document)} bytes of JSON: return at most "
            f"{LARGEST}"
        )
    return document


def check(value: Any) -> None:
    """Raise TypeError for keys that are not strings, ValueError for deep nesting."""
    left = [(value, 0)]
    while left:
        inner, depth = left.pop()
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        if isinstance(inner, dict):
            for key in inner:
                if not isinstance(key, str):
                    raise TypeError(f"the key {key!r:.100} of an object is not a string")
            left.extend((each, depth + 1) for each in inner.values())
        elif isinstance(inner, (list, tuple)):
            left.extend((each, depth + 1) for each in inner)


def failure(sentence: str) -> bytes:
    """Return the document for an error."""
    clean = sentence[:LONGEST].encode("utf-8", "backslashreplace").decode()
    return json.dumps({"ok": False, "error": clean}, ensure_ascii=False).encode()


def sentence_of(error: BaseException) -> str:
    """Return the error in one sentence, without its location."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # a class of the tool
        text = ""
    return name + ": " + text if text else name


def tell(error: BaseException, tool: str) -> None:
    """Write a traceback to standard error, starting at the tool's first frame."""
    from traceback import print_exception

    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != tool:
        trace = trace.tb_next
    flush(sys.__stdout__)
    try:
        print_exception(type(error), error, trace)
    except (OSError, ValueError):  # the tool has closed it
        return


def flush(stream: Any) -> None:
    """Flush a stream if it is open."""
    try:
        stream.flush()
    except (OSError, ValueError):  # the tool has closed it
        return


def read_all(source: int) -> bytes:
    """Return all bytes of a file descriptor."""
    chunks: list[bytes] = []
    while True:
        chunk = os.read(source, CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def main() -> None:
    """Run the tool given on the command line."""
    given = read_all(0)
    own = os.dup(1)  # child processes do not inherit it
    os.dup2(2, 1)
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:
        # Line buffering keeps the order of output from the tool and its child processes.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    process = os.getpid()
    tool, digest, project, neighbours = sys.argv[1:]
    sys.meta_path.append(Neighbours(json.loads(neighbours)))
    document = result_of(tool, digest, project, given)
    if os.getpid() != process:  # a fork of the tool must not write a document
        os._exit(0)
    while document:
        document = document[os.write(own, document) :]
    os.close(own)


if __name__ == "__main__":
    main()
