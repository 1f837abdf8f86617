"""Processes of tools: time limits, children, cancellation and concurrent calls."""

import json
import os
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from driving import Era
from lifelines import Lifeline, until
from rye_projects import Rye, frames, python_tool, rye_project, serving, variables, yaml_tool
from wire import MODERN, Wire

FREE = 'policy = { tool = "off" }'

SETTINGS = FREE
HOLDS = 'exec 3>"$1"; echo held >&3; {more} sleep 600'
NO_DRIVER: Any = None  # never used for a call
GATE = 'read -r line < "$1"; echo "$line"'


def unserved(folder: Path) -> Rye:
    """Return a new project without a server, so that a test can write items first."""
    return Rye(folder, rye_project(folder / "project", FREE), NO_DRIVER)


def put_shell(rye: Rye, item_id: str, script: str, **config: Any) -> None:
    """Write a tool that runs a script with the parameter `path`."""
    told = {"command": "sh", "args": ["-c", script, "sh", "{path}"], **config}
    rye.put("tool", item_id, yaml_tool(item_id, config=told), extension=".yaml")


def call_of(rye: Rye, item_id: str, **parameters: Any) -> dict[str, Any]:
    """Return the arguments that execute a tool."""
    given = {"item_type": "tool", "item_id": item_id, "project_path": str(rye.root)}
    return {**given, "parameters": parameters}


def begin(rye: Rye, item_id: str, **parameters: Any) -> Future[Any]:
    """Execute a tool without waiting for it."""
    driver = rye.driver
    given = call_of(rye, item_id, **parameters)
    return driver.portal.start_task_soon(driver.client.call_tool, "execute", given)


def answer(future: Future[Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(future.result().content[0].text)
    return found


class TestTheTimeLimit:
    """The time limit ends the tool and its children."""

    def test_a_python_tool_ends_with_its_children(self, rye: Rye, lifeline: Lifeline) -> None:
        code = (
            "import os, subprocess, time\n\ndef execute(params, project_path):\n"
            "    held = os.open(params['path'], os.O_WRONLY)\n"
            "    os.set_inheritable(held, True)\n    os.write(held, b'held\\n')\n"
            "    subprocess.Popen(['sleep', '600'], close_fds=False)\n    time.sleep(600)\n"
        )
        text = python_tool("demo/slow", code, CONFIG={"timeout": 2})
        rye.put("tool", "demo/slow", text)
        error = rye.refuses("execute", **call_of(rye, "demo/slow", path=str(lifeline.path)))

        assert "TIMEOUT" == error["code"]
        assert lifeline.was_held()
        assert lifeline.was_let_go()

    def test_what_is_left_behind_is_not_waited_for_and_ends_with_the_server(
        self, tmp_path: Path, lifeline: Lifeline
    ) -> None:
        with serving(tmp_path, settings=FREE) as rye:
            put_shell(rye, "demo/leaves", 'exec 3>"$1"; echo held >&3; sleep 600 & echo done')
            found = rye.run("tool", "demo/leaves", path=str(lifeline.path))

        assert "done\n" == found["data"]["stdout"]
        assert lifeline.was_held()
        assert lifeline.was_let_go()


class TestCancelling:
    """Cancelling a call ends its process."""

    @pytest.mark.parametrize("era", ["auto", "legacy"])
    def test_a_client_of_the_sdk_that_gives_up_ends_the_tool(
        self, rye: Rye, tmp_path: Path, lifeline: Lifeline, era: Era
    ) -> None:
        """With the era "auto", the test uses the shared session."""
        with (
            nullcontext(rye) if era == "auto" else serving(tmp_path, settings=FREE, era=era)
        ) as served:
            put_shell(served, "demo/slow", HOLDS.format(more="sleep 600 &"))
            waiting = begin(served, "demo/slow", path=str(lifeline.path))
            assert lifeline.was_held()
            waiting.cancel()

            assert lifeline.was_let_go()
            assert ["demo/slow"] == served.found("slow", source="project")

    @pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
    def test_so_does_the_notification(
        self, tmp_path: Path, lifeline: Lifeline, version: str
    ) -> None:
        envelope = {"_meta": MODERN} if version >= "2026" else {}
        rye = unserved(tmp_path)
        root = rye.root
        put_shell(rye, "demo/slow", HOLDS.format(more=""))
        given = call_of(rye, "demo/slow", path=str(lifeline.path))
        with frames(root, variables(tmp_path), version=version) as wire:
            params = {"name": "execute", "arguments": given, **envelope}
            wire.send("tools/call", params, id="slow")
            assert lifeline.was_held()
            wire.send("notifications/cancelled", {"requestId": "slow", **envelope})

            assert lifeline.was_let_go()
            wire.leave()
            assert 0 == wire.end()

    def test_the_end_of_the_server_ends_what_runs(self, tmp_path: Path, lifeline: Lifeline) -> None:
        rye = unserved(tmp_path)
        root = rye.root
        put_shell(rye, "demo/slow", HOLDS.format(more="setsid sleep 600 &"))
        given = call_of(rye, "demo/slow", path=str(lifeline.path))
        with frames(root, variables(tmp_path)) as wire:
            wire.send("tools/call", {"name": "execute", "arguments": given}, id="slow")
            assert lifeline.was_held()
            wire.leave()

            assert lifeline.was_let_go()
            assert 0 == wire.end()


class TestAtOnce:
    """Concurrent calls do not wait for each other."""

    def test_two_tools_answer_on_their_own_and_a_search_in_between(
        self, rye: Rye, tmp_path: Path
    ) -> None:
        gates = [tmp_path / name for name in ("one", "two")]
        for gate in gates:
            os.mkfifo(gate)
        put_shell(rye, "demo/waits", GATE)
        one, two = (begin(rye, "demo/waits", path=str(gate)) for gate in gates)
        found = rye.found("waits")
        gates[1].write_text("second\n", encoding="utf-8")
        second = answer(two)
        first_was_waiting = not one.done()
        loaded = rye.load("tool", "demo/waits")["item_id"]
        gates[0].write_text("first\n", encoding="utf-8")

        assert (["demo/waits"], "demo/waits", True) == (found, loaded, first_was_waiting)
        assert "second\n" == second["data"]["stdout"]
        assert "first\n" == answer(one)["data"]["stdout"]

    def test_each_of_many_gets_its_own_answer(self, rye: Rye) -> None:
        rye.put("tool", "demo/echo", python_tool("demo/echo"))
        calls = [begin(rye, "demo/echo", number=number) for number in range(12)]

        assert [*range(12)] == [answer(call)["data"]["params"]["number"] for call in calls]

    def test_more_than_run_at_once_are_refused_and_the_others_go_on(
        self, rye: Rye, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        waits = 'while ! [ -e "$1" ]; do sleep 0.02; done'
        put_shell(rye, "demo/waits", f'echo >> "{tmp_path}/begun"; {waits}')
        calls = [begin(rye, "demo/waits", path=str(gate)) for _ in range(16)]
        begun = tmp_path / "begun"
        assert until(lambda: begun.exists() and 16 == len(begun.read_bytes().splitlines()))
        error = rye.refuses("execute", **call_of(rye, "demo/waits", path=str(gate)))
        gate.touch()

        assert ("EXECUTION_FAILED", True) == (error["code"], "16 commands" in error["message"])
        assert {"success"} == {answer(call)["status"] for call in calls}


class TestStandardInput:
    """A tool cannot read the client's requests."""

    def test_a_tool_that_reads_gets_nothing_and_the_next_call_is_answered(
        self, tmp_path: Path
    ) -> None:
        rye = unserved(tmp_path)
        put_shell(rye, "demo/command", "cat")
        code = "import sys\n\ndef execute(p, q): return {'stdout': sys.stdin.read()}"
        rye.put("tool", "demo/python", python_tool("demo/python", code))
        calls = [call_of(rye, item_id) for item_id in ("demo/command", "demo/python")] * 2
        with frames(rye.root, variables(tmp_path)) as wire:
            found = [told(wire, given) for given in calls]
            wire.leave()
            assert 0 == wire.end()

        assert [""] * 4 == [each["data"]["stdout"] for each in found]

    def test_a_tool_has_none_of_the_servers_open_files(self, rye: Rye) -> None:
        put_shell(rye, "demo/lists", "ls -l /proc/self/fd")
        lines = rye.run("tool", "demo/lists")["data"]["stdout"].splitlines()
        numbers = [line.split()[-3] for line in lines if "->" in line]

        assert ["0", "1", "2", "3"] == numbers  # the last descriptor belongs to the listing itself


def told(wire: Wire, given: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to an execution, which must be the next frame."""
    frame = wire.ask("tools/call", {"name": "execute", "arguments": given})
    found: dict[str, Any] = json.loads(frame["result"]["content"][0]["text"])
    return found
