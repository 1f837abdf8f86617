"""HTTP tools: answers, allowed hosts and limits."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from rye_projects import HTTP_CLIENT, yaml_tool
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.http import HostAnswer, Response, data_of_response


class Echo(BaseHTTPRequestHandler):
    """Echoes the request; the last part of the path is the status."""

    def do_POST(self) -> None:
        """Answer a request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = {"path": self.path, "key": self.headers.get("X-Key"), "body": body.decode()}
        data = json.dumps(told).encode()
        self.send_response(int(self.path.rpartition("/")[2].partition("?")[0]))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST  # noqa: N815 - the name that the server looks for

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def workspace(tmp_path: Path, host: str) -> Iterator[Workspace]:
    with opened(tmp_path, hosts=(host,), env=("RYE_TEST_KEY",)) as workspace:
        yield workspace


def put_request(workspace: Workspace, url: str, **config: Any) -> None:
    told = {"url": url, **config}
    text = yaml_tool("demo/x", executor_id=HTTP_CLIENT, config=told)
    workspace.put("tool", "demo/x", text, extension=".yaml")


def test_requests_and_commands_count_against_one_limit(workspace: Workspace, host: str) -> None:
    put_request(workspace, f"http://{host}/200")
    jobs = workspace.rye.jobs()
    for _ in range(jobs.most):
        jobs.take()
    error = workspace.refuses("tool", "demo/x")
    jobs.give_back()
    after = [workspace.run("demo/x")["data"]["status_code"] for _ in range(2)]

    assert "EXECUTION_FAILED" == error.code
    assert str(error).startswith("16 commands and requests are running, the maximum: ")
    assert [200, 200] == after


def test_a_request_that_fails_does_not_count_any_longer(workspace: Workspace, host: str) -> None:
    jobs = workspace.rye.jobs()
    for _ in range(jobs.most - 1):
        jobs.take()
    put_request(workspace, f"http://{host}/404")
    failures = [str(workspace.refuses("tool", "demo/x")) for _ in range(3)]

    assert ["the response has the status 404"] * 3 == failures


def test_the_answer_is_the_data(
    workspace: Workspace, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_TEST_KEY", "secret")
    put_request(
        workspace,
        f"http://{host}/{{a}}/200?q={{a}}",
        method="POST",
        headers={"X-Key": "${RYE_TEST_KEY}"},
        body={"n": "{n}", "a": "{a}"},
    )
    data = workspace.run("demo/x", a="../x y", n=[1])["data"]

    assert 200 == data["status_code"]
    assert "application/json" == data["headers"]["content-type"]
    assert "/..%2Fx%20y/200?q=..%2Fx%20y" == data["body"]["path"]
    assert "secret" == data["body"]["key"]
    assert {"n": [1], "a": "../x y"} == json.loads(data["body"]["body"])


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_status_that_is_no_success_is_a_failure_with_its_answer(
    workspace: Workspace, host: str, status: int
) -> None:
    put_request(workspace, f"http://{host}/{status}")
    error = workspace.refuses("tool", "demo/x")

    assert "EXECUTION_FAILED" == error.code
    assert str(status) in str(error)
    assert status == error.facts["details"]["status_code"]
    assert f"/{status}" == error.facts["details"]["body"]["path"]


def test_a_host_that_is_not_allowed_is_refused_before_anything_is_sent(
    workspace: Workspace,
) -> None:
    put_request(workspace, "{url}")
    given = {"url": "http://example.com/"}
    error = workspace.refuses("tool", "demo/x", parameters=given, dry_run=True)

    assert "is not an allowed host" in str(error)
    assert "demo/x" == error.facts["item_id"]


def test_without_hosts_one_of_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    with opened(tmp_path) as workspace:
        put_request(workspace, f"http://{host}/200")
        error = workspace.refuses("tool", "demo/x")

        assert "EXECUTION_FAILED" == error.code
        assert "is not a public host" in str(error)


def test_what_is_shown_of_it_holds_no_secret(
    workspace: Workspace, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_TEST_KEY", "secret")
    put_request(workspace, f"http://{host}/{{a}}?k=${{RYE_TEST_KEY}}")
    answer = workspace.execute("tool", "demo/x", parameters={"a": "b"}, dry_run=True)

    assert f"http://{host}/b?k=${{RYE_TEST_KEY}}" == answer["resolved"]["url"]
    assert "secret" not in json.dumps(answer)


def test_a_cut_answer_is_marked() -> None:
    answer = HostAnswer(200, [])
    answer.truncated = True

    assert data_of_response(Response(answer))["truncated"]
