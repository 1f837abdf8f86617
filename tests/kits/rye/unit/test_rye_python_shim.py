"""The shim that runs Python tools and prints one document."""

import ast
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from lifelines import PATIENCE

from ralphgen.kits.rye.server import python_shim

pytestmark = pytest.mark.slow

SHIM = str(python_shim.__file__)
NOISE = (
    "import atexit, ctypes, os, subprocess, sys; print('noise')",
    "sys.__stdout__.write('noise')",
    "os.write(1, b'noise')",
    "os.system('echo noise')",
    "subprocess.run(['echo', 'noise'])",
    "ctypes.CDLL(None).puts(b'noise'); ctypes.CDLL(None).fflush(None)",
    "print('noise', file=sys.stderr)",
    "atexit.register(print, 'noise')",
)


class Ended:
    """A finished tool process; `document` is None if it printed nothing."""

    def __init__(self, process: "subprocess.CompletedProcess[bytes]") -> None:
        self.document: Any = json.loads(process.stdout) if process.stdout else None
        self.errors = process.stderr.decode()
        self.code = process.returncode


def run(
    folder: Path,
    source: str | bytes,
    parameters: object = None,
    *,
    digest: str | None = None,
    neighbours: object = None,
) -> Ended:
    """Run a tool as the runtime does, in a bare environment."""
    data = source.encode() if isinstance(source, str) else source
    tool = folder / "tool.py"
    tool.write_bytes(data)
    own = sha256(data).hexdigest() if digest is None else digest
    process = subprocess.run(
        (sys.executable, "-I", SHIM, str(tool), own, str(folder), json.dumps(neighbours or {})),
        input=json.dumps({} if parameters is None else parameters).encode(),
        capture_output=True,
        check=False,
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        timeout=PATIENCE,
    )
    return Ended(process)


def value_of(folder: Path, source: str | bytes, parameters: object = None) -> Any:
    document = run(folder, source, parameters).document
    assert document["ok"], document
    return document["value"]


def error_of(folder: Path, source: str | bytes, parameters: object = None) -> str:
    document = run(folder, source, parameters).document

    assert {"ok", "error"} == {*document}
    assert document["ok"] is False
    return str(document["error"])


def returning(expression: str) -> str:
    return f"def execute(params, project_path):\n    return {expression}\n"


class TestEntry:
    """The called function of a tool and its arguments."""

    def test_execute_gets_the_parameters_and_the_project(self, tmp_path: Path) -> None:
        given = {"a": [1, "ä\u2028", None], "b": {"c": 2.5}}

        assert [given, str(tmp_path)] == value_of(
            tmp_path, returning("[params, project_path]"), given
        )

    def test_a_coroutine_is_waited_for(self, tmp_path: Path) -> None:
        source = (
            "import asyncio\n"
            "async def execute(params, project_path):\n"
            "    await asyncio.sleep(0)\n"
            "    return 'done'\n"
        )

        assert "done" == value_of(tmp_path, source)

    @pytest.mark.parametrize("prefix", ["", "async "])
    def test_main_gets_the_parameters_as_its_own(self, tmp_path: Path, prefix: str) -> None:
        source = f"{prefix}def main(a, b=2):\n    return [a, b]\n"

        assert [1, 2] == value_of(tmp_path, source, {"a": 1})

    def test_execute_goes_before_main(self, tmp_path: Path) -> None:
        assert 1 == value_of(tmp_path, returning("1") + "def main(): return 2\n")

    @pytest.mark.parametrize("source", ["", "execute = 3\n"])
    def test_a_tool_without_either_says_so(self, tmp_path: Path, source: str) -> None:
        assert error_of(tmp_path, source).startswith("the tool has no function to call: ")

    def test_a_parameter_that_main_does_not_take_is_told(self, tmp_path: Path) -> None:
        error = error_of(tmp_path, "def main(a): return a\n", {"b": 1})

        assert "TypeError: main() got an unexpected keyword argument 'b'" == error

    def test_it_is_not_the_main_module_and_knows_its_file(self, tmp_path: Path) -> None:
        source = "if __name__ == '__main__':\n    raise SystemExit\n" + returning(
            "[__name__, __file__, __import__('sys').argv]"
        )
        tool = str(tmp_path / "tool.py")

        assert ["_rye_tool", tool, [tool]] == value_of(tmp_path, source)

    def test_a_data_class_finds_its_module(self, tmp_path: Path) -> None:
        source = (
            "from __future__ import annotations\n"
            "from dataclasses import asdict, dataclass\n"
            "@dataclass\n"
            "class Point:\n"
            "    x: int\n" + returning("asdict(Point(3))")
        )

        assert {"x": 3} == value_of(tmp_path, source)

    def test_the_future_of_the_program_is_not_the_tools(self, tmp_path: Path) -> None:
        source = "def typed(x: 1 + 1): pass\n" + returning("typed.__annotations__['x']")

        assert 2 == value_of(tmp_path, source)

    def test_files_next_to_a_tool_cannot_be_imported(self, tmp_path: Path) -> None:
        (tmp_path / "beside.py").write_text("", encoding="utf-8")

        assert "ModuleNotFoundError: No module named 'beside'" == error_of(
            tmp_path, "import beside\n" + returning("1")
        )

    @pytest.mark.parametrize(
        "source",
        [
            returning("'ä'").encode(),
            b"\xef\xbb\xbf" + returning("'ä'").encode(),
            b"# -*- coding: latin-1 -*-\n" + returning("'ä'").encode("latin-1"),
            returning("'ä'").replace("\n", "\r\n").encode(),
            b"#!/usr/bin/env python3\n# rye:signed:x\n" + returning("'ä'").encode(),
        ],
        ids=["utf-8", "mark", "cookie", "crlf", "shebang"],
    )
    def test_the_file_may_be_spelled_as_python_allows(self, tmp_path: Path, source: bytes) -> None:
        assert "ä" == value_of(tmp_path, source)

    def test_other_bytes_than_those_checked_are_not_run(self, tmp_path: Path) -> None:
        source = "open('ran', 'w')\n" + returning("1")
        ended = run(tmp_path, source, digest=sha256(b"other").hexdigest())

        assert not ended.document["ok"]
        assert "has changed since it was checked" in ended.document["error"]
        assert not (tmp_path / "ran").exists()


class TestDocument:
    """Standard output contains one document, regardless of the output of the tool."""

    def test_what_a_tool_writes_goes_to_the_standard_error(self, tmp_path: Path) -> None:
        writing = "; ".join(NOISE)
        source = f"{writing}\ndef execute(params, project_path):\n    {writing}\n    return 1\n"
        ended = run(tmp_path, source)

        assert {"ok": True, "value": 1} == ended.document
        assert 2 * len(NOISE) == ended.errors.count("noise")

    def test_text_that_the_locale_does_not_know_is_written(self, tmp_path: Path) -> None:
        ended = run(tmp_path, "print('ä\\ud800')\n" + returning("'ä'"))

        assert {"ok": True, "value": "ä"} == ended.document
        assert "ä\\ud800\n" == ended.errors

    @pytest.mark.parametrize(
        "reading",
        ["__import__('sys').stdin.read()", "__import__('os').read(0, 9).decode()", "CHILD"],
    )
    def test_a_tool_that_reads_gets_an_end_of_file(self, tmp_path: Path, reading: str) -> None:
        child = "__import__('subprocess').run(['cat'], stdout=-1).stdout.decode()"

        assert "" == value_of(tmp_path, returning(child if reading == "CHILD" else reading))

    def test_a_process_that_ends_itself_leaves_none(self, tmp_path: Path) -> None:
        ended = run(tmp_path, returning("__import__('os')._exit(5)"))

        assert (None, 5) == (ended.document, ended.code)

    def test_a_copy_of_the_process_has_no_say(self, tmp_path: Path) -> None:
        source = (
            "import os\n"
            "def execute(params, project_path):\n"
            "    child = os.fork()\n"
            "    if child: os.waitpid(child, 0)\n"
            "    return 'parent' if child else 'child'\n"
        )

        assert "parent" == value_of(tmp_path, source)

    @pytest.mark.parametrize(
        "value", [None, "ä", [True, -1.5, "\u2028\x00", [], {"": {}}, ["\U0001f600"], 2**64]]
    )
    def test_a_value_of_json_arrives_as_it_is(self, tmp_path: Path, value: object) -> None:
        assert value == value_of(tmp_path, returning(repr(value)))

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ("return {1}", "Object of type set is not JSON serializable"),
            ("return b''", "Object of type bytes is not JSON serializable"),
            ("return (x for x in ())", "Object of type generator is not JSON serializable"),
            ("return float('nan')", "Out of range float values are not JSON compliant"),
            ("return {'a': [{1: 2}]}", "the key 1 of an object is not a string"),
            ("return {None: 2}", "the key None of an object is not a string"),
            ("a = []; a.append(a); return a", "Circular reference detected"),
            ("return '\\ud800'", "'utf-8' codec can't encode"),
        ],
    )
    def test_a_value_that_is_no_json_is_an_error_that_says_so(
        self, tmp_path: Path, body: str, why: str
    ) -> None:
        error = error_of(tmp_path, f"def execute(params, project_path):\n    {body}\n")

        assert error.startswith(f"the return value of the tool cannot be converted to JSON: {why}")

    def test_what_is_nested_too_deep_is_an_error(self, tmp_path: Path) -> None:
        source = (
            "def execute(params, project_path):\n"
            "    a = []\n"
            "    for _ in range(params['n']):\n"
            "        a = [a]\n"
            "    return a\n"
        )

        assert value_of(tmp_path, source, {"n": 100})
        for depth in (101, 100_000):
            error = error_of(tmp_path, source, {"n": depth})
            assert error.startswith("the return value of the tool cannot be converted to JSON: ")

    def test_a_value_that_is_too_long_to_be_kept_is_an_error(self, tmp_path: Path) -> None:
        most = 1 << 20
        frame = len('{"ok": true, "value": ""}')
        fits = value_of(tmp_path, returning(f"'x' * ({most} - {frame})"))

        assert most - frame == len(fits)
        assert error_of(tmp_path, returning(f"'x' * ({most} - {frame} + 1)")).startswith(
            f"the return value of the tool has {most + 1} bytes of JSON"
        )


class TestFailures:
    """Failures are reported with the name and message of the exception."""

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("raising", "error"),
        [
            ("ValueError('no such thing')", "ValueError: no such thing"),
            ("ValueError", "ValueError"),
            ("KeyError('a')", "KeyError: 'a'"),
            ("SystemExit(3)", "SystemExit: 3"),
            ("KeyboardInterrupt", "KeyboardInterrupt"),
            ("type('Own', (BaseException,), {})('x')", "Own: x"),
            ("type('Own', (Exception,), {'__str__': lambda self: 1 / 0})()", "Own"),
            ("ValueError('\\ud800')", "ValueError: \\ud800"),
        ],
    )
    @pytest.mark.parametrize("prefix", ["", "async "])
    def test_whatever_it_raises_is_an_error(
        self, tmp_path: Path, prefix: str, raising: str, error: str
    ) -> None:
        source = f"{prefix}def execute(params, project_path):\n    raise {raising}\n"

        assert error == error_of(tmp_path, source)

    @pytest.mark.parametrize("prefix", ["", "async "])
    def test_the_traceback_is_on_the_standard_error_from_the_tools_frame_on(
        self, tmp_path: Path, prefix: str
    ) -> None:
        source = f"{prefix}def execute(params, project_path):\n    raise ValueError('no')\n"
        ended = run(tmp_path, source)
        lines = ended.errors.splitlines()

        assert "Traceback (most recent call last):" == lines[0]
        assert f'  File "{tmp_path}/tool.py", line 2, in execute' == lines[1]
        assert "ValueError: no" == lines[-1]
        assert SHIM not in ended.errors

    def test_an_error_at_the_import_is_one_too(self, tmp_path: Path) -> None:
        assert "ZeroDivisionError: division by zero" == error_of(tmp_path, "1 / 0\n")

    @pytest.mark.parametrize("source", ["def f(:\n", "\0", b"\xff = 1\n"])
    def test_a_file_that_is_no_python_is_an_error_without_the_path(
        self, tmp_path: Path, source: str | bytes
    ) -> None:
        error = error_of(tmp_path, source)

        assert error.startswith(("SyntaxError: ", "ValueError: "))
        assert str(tmp_path) not in error

    def test_a_very_long_message_is_cut(self, tmp_path: Path) -> None:
        source = "def execute(params, project_path):\n    raise ValueError('x' * 5_000_000)\n"

        assert 2000 == len(error_of(tmp_path, source))


def test_it_is_alone_and_spelled_for_the_oldest_interpreter() -> None:
    """Any interpreter from 3.8 on can run the shim, which imports none of our modules."""
    tree = ast.parse(Path(SHIM).read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else ["." * node.level + (node.module or "")]
        )
    }

    assert {*sys.stdlib_module_names, "__future__"} >= {name.partition(".")[0] for name in names}
