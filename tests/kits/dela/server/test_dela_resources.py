"""Processes of tasks as resources, and the progress of awaited tasks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import HOLDING, allow, at_home, ended, entry, serving, start_task
from driving import Driver, Era, connected
from lifelines import until
from mcp import MCPError

FILES = {
    "hold.sh": HOLDING,
    "slow.sh": "#!/bin/sh\nfor i in 1 2 3 4 5 6; do echo step $i; sleep 0.5; done\n",
    "lines.sh": '#!/bin/sh\ni=0\nwhile [ $i -lt 3000 ]; do i=$((i + 1)); echo "line $i"; done\n',
}
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


@pytest.fixture
def server(root: Path, tmp_path: Path) -> Iterator[Driver]:
    with serving(root, tmp_path) as driver:
        yield driver


def read(server: Driver, uri: str) -> dict[str, Any]:
    (content,) = server.portal.call(server.client.read_resource, uri).contents
    assert "application/json" == content.mime_type
    found: dict[str, Any] = json.loads(getattr(content, "text", ""))
    return found


def uris(server: Driver) -> list[str]:
    return [str(one.uri) for one in server.portal.call(server.client.list_resources).resources]


def templates(server: Driver) -> list[str]:
    listed = server.portal.call(server.client.list_resource_templates)
    return [one.uri_template for one in listed.resource_templates]


def test_a_process_and_its_output_are_resources(server: Driver) -> None:
    assert [] == uris(server)
    pid = start_task(server, "hold", "started")
    assert [f"job://{pid}", f"joblog://{pid}"] == uris(server)
    assert ["job://{pid}", "joblog://{pid}{?from}"] == templates(server)

    running = read(server, f"job://{pid}")
    assert (pid, "hold", "running", None) == tuple(
        running[key] for key in ("pid", "unique_name", "state", "exit_code")
    )
    log = read(server, f"joblog://{pid}")
    assert (["started"], f"joblog://{pid}?from=1") == (log["lines"], log["next"])
    server.call("task_stop", pid=pid)
    ended(server, pid)
    assert "running" != read(server, f"job://{pid}")["state"]
    assert "next" not in read(server, f"joblog://{pid}")


def test_pages_of_output_put_together_are_all_of_it(server: Driver) -> None:
    answer = server.call("task_start", unique_name="lines", wait_for_exit_seconds=60)
    pid = answer["pid"]
    uri, lines, pages = f"joblog://{pid}?from=2000", [], 0
    while uri:
        page = read(server, uri)
        lines += page["lines"]
        uri = page.get("next", "")
        pages += 1

    assert [f"line {number}" for number in range(2001, 3001)] == lines
    assert pages > 1


@pytest.mark.parametrize(
    "uri", ["job://1", "job://x", "job://0", "joblog://1?from=-1", "job://1?from=0", "pid://1", ""]
)
def test_what_is_not_there_is_refused_by_its_uri(server: Driver, uri: str) -> None:
    with pytest.raises(MCPError) as caught:
        read(server, uri)

    assert -32602 == caught.value.error.code
    assert {"uri": uri} == caught.value.error.data


def test_who_cannot_ask_for_a_process_reads_none(root: Path, tmp_path: Path) -> None:
    with at_home(tmp_path):
        allow(tmp_path, entry("Directory", root))
        with connected(root, "yap", kit="dela") as server:
            assert ([], []) == (uris(server), templates(server))
        kept = {"dela": ["task_start", "task_status"]}
        with connected(root, kit="dela", enabled_tools=kept) as server:
            server.call("task_start", unique_name="hold", wait_for_exit_seconds=0)
            (uri,) = uris(server)
            assert "hold" == read(server, uri)["unique_name"]
            with pytest.raises(MCPError):
                read(server, uri.replace("job", "joblog"))


def test_who_listens_hears_when_a_process_ends(root: Path, tmp_path: Path) -> None:
    heard: list[str] = []

    async def listen(server: Driver, uri: str) -> None:
        async with server.client.listen(resource_subscriptions=[uri]) as updates:
            await server.client.call_tool("task_stop", {"pid": int(uri[6:])})
            async for update in updates:
                heard.append(str(getattr(update, "uri", "")))
                return

    with serving(root, tmp_path) as server:
        pid = start_task(server, "hold", "started")
        server.portal.call(listen, server, f"job://{pid}")

    assert [f"job://{pid}"] == heard


@ERAS
def test_who_waits_for_a_task_hears_how_far_it_is(root: Path, tmp_path: Path, era: Era) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def start(server: Driver) -> None:
        given = {"unique_name": "slow", "wait_for_exit_seconds": 60}
        await server.client.call_tool("task_start", given, progress_callback=note)

    with serving(root, tmp_path, era=era) as server:
        server.portal.call(start, server)
        assert until(lambda: len(told) > 1)

    assert [1, 2] == [done for done, *_ in told][:2]
    assert {60} == {total for _, total, _ in told}
    assert all("lines of output, the last: step " in (message or "") for *_, message in told)
