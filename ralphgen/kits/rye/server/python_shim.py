"""Runs a tool written in Python: the program that the interpreter of the project is given.

`python -I python_shim.py TOOL SHA256 PROJECT NEIGHBOURS` reads the parameters as JSON from its
standard input and writes one JSON document to its standard output: `{"ok": true, "value": ...}`, or
`{"ok": false, "error": "ValueError: ..."}`. NEIGHBOURS are the modules beside the tool that it may
import, as JSON: by name, path and SHA256. What the tool prints goes to the standard error, also
what its child processes print, and a failure's traceback. A tool that ends the process by itself
has no document.

It is alone with an interpreter that may be as old as 3.8: nothing here is imported from others.
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

NAME = "_rye_tool"  # of the tool's module: no package is called so
LARGEST = 1 << 20  # bytes of a document: as much as the server keeps
DEEPEST = 100  # lists and objects within each other, which every reader of JSON can follow
LONGEST = 2000  # characters of an error
CHUNK = 1 << 16


class ToolRefusedError(Exception):
    """The tool or its value is not as it must be; its text is the whole error."""


def result_of(tool: str, digest: str, project: str, given: bytes) -> bytes:
    """Return the document of a tool that is run with these parameters."""
    try:
        value = call(load(tool, digest), json.loads(given), project)
        document = as_json(value)
    except ToolRefusedError as error:
        return failure(str(error))
    except BaseException as error:  # also what should end the process
        tell(error, tool)
        return failure(sentence_of(error))
    return document


def load(tool: str, digest: str) -> ModuleType:
    """Return the tool as a module, made of the bytes that were checked, and of no others."""
    from types import ModuleType

    module = ModuleType(NAME)
    sys.modules[NAME] = module  # data classes look for their module there
    sys.argv = [tool]
    fill(module, tool, digest)
    return module


def fill(module: ModuleType, path: str, digest: str) -> None:
    """Run the bytes of a file in a module, where they are those that were checked."""
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
    """Finds and loads the modules beside the tool: what Python finds itself goes before them."""

    def __init__(self, files: dict[str, tuple[str, str]]) -> None:
        """Take of each module, by name, its path and the digest of its bytes."""
        self.files = files

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return where a module comes from, None for one that is no neighbour."""
        if name not in self.files:
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = self  # importlib.abc.Loader is not worth its import
        return ModuleSpec(name, loader)

    def create_module(self, _: ModuleSpec) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module, made of the bytes that were checked, and of no others."""
        fill(module, *self.files[module.__name__])


def call(module: ModuleType, parameters: dict[str, Any], project: str) -> Any:
    """Return what the tool's function returns, which may be a coroutine's."""
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
    """Return what an awaitable comes to."""
    from asyncio import run

    async def result() -> Any:
        return await value

    return run(result())


def as_json(value: Any) -> bytes:
    """Return the document of a value."""
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
    """Raise TypeError for what would be turned into something else, ValueError for what is deep."""
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
    """Return the document of an error."""
    clean = sentence[:LONGEST].encode("utf-8", "backslashreplace").decode()
    return json.dumps({"ok": False, "error": clean}, ensure_ascii=False).encode()


def sentence_of(error: BaseException) -> str:
    """Return what went wrong, without where."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the tool's own class
        text = ""
    return name + ": " + text if text else name


def tell(error: BaseException, tool: str) -> None:
    """Write the traceback of an error to the standard error, from the tool's first frame on."""
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
    """Write what a stream still holds, if it can be written."""
    try:
        stream.flush()
    except (OSError, ValueError):  # the tool has closed it
        return


def read_all(source: int) -> bytes:
    """Return all that there is to be read."""
    chunks: list[bytes] = []
    while True:
        chunk = os.read(source, CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def main() -> None:
    """Run the tool of the command line."""
    given = read_all(0)
    own = os.dup(1)  # which no child process inherits
    os.dup2(2, 1)
    streams: Any = (sys.stdout, sys.stderr)
    for stream in streams:
        # By lines, so that what is printed keeps its place among what else comes to this end.
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    process = os.getpid()
    tool, digest, project, neighbours = sys.argv[1:]
    sys.meta_path.append(Neighbours(json.loads(neighbours)))
    document = result_of(tool, digest, project, given)
    if os.getpid() != process:  # a copy that the tool has made of the process: it has no say
        os._exit(0)
    while document:
        document = document[os.write(own, document) :]
    os.close(own)


if __name__ == "__main__":
    main()
