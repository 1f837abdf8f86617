"""HTTP tools: requests and their answers, without secrets."""

import json
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from http_hosts import Asked, Host, Write, answering, host
from lifelines import PATIENCE
from rye_projects import HTTP_CLIENT, Rye, serving, yaml_tool

SECRET = "hush-hush"  # noqa: S105
GIVEN_UP = Event()
"""Set when the client stops waiting for the slow answer."""


def respond(asked: Asked, write: Write) -> None:
    """Choose the answer by the first part of the path."""
    _, path, _ = asked.line.split(" ")
    kind = path.split("/")[1].partition("?")[0]
    if kind == "slow":
        GIVEN_UP.wait(PATIENCE)
    if kind == "long":
        return answering(b"x" * 200_000)(asked, write)
    if kind == "moved":
        return answering(b"", status=302, more="Location: http://127.0.0.1:1/\r\n")(asked, write)
    status = int(kind) if kind.isdigit() else 200
    body = json.dumps({"path": path, "body": asked.body.decode()}).encode()
    return answering(body, "application/json", status)(asked, write)


@pytest.fixture(scope="module")
def asked() -> Iterator[Host]:
    with host(respond) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, asked: Host) -> Iterator[Rye]:
    """Yield a session that allows that host and one variable."""
    settings = f'policy = "off"\nhosts = ["{asked.name}"]\nenv = ["API_TOKEN"]'
    folder = tmp_path_factory.mktemp("requests")
    with serving(folder, settings=settings, environment={"API_TOKEN": SECRET}) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye, asked: Host) -> Rye:
    """Return the same session without items and without requests."""
    shared.clear()
    asked.asked.clear()
    return shared


def lay(rye: Rye, url: str, **config: Any) -> None:
    """Write a tool that requests a URL."""
    text = yaml_tool("demo/ask", executor_id="http_client", config={"url": url, **config})
    rye.put("tool", "demo/ask", text, extension=".yaml")


def ask(rye: Rye, **parameters: Any) -> dict[str, Any]:
    data: dict[str, Any] = rye.run("tool", "demo/ask", **parameters)["data"]
    return data


def test_a_request_is_sent_and_its_answer_told(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/towns/{{town}}?q={{q}}")
    answer = rye.run("tool", "demo/ask", town="São Paulo/../x", q="a&b=c")

    path = "/towns/S%C3%A3o%20Paulo%2F..%2Fx?q=a%26b%3Dc"
    assert (200, path) == (answer["data"]["status_code"], answer["data"]["body"]["path"])
    assert "application/json" == answer["data"]["headers"]["content-type"]
    assert ["demo/ask", HTTP_CLIENT] == [element["item_id"] for element in answer["chain"]]
    assert [f"GET {path} HTTP/1.1"] == [each.line for each in asked.asked]


def test_a_secret_of_the_environment_is_sent_and_not_told(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/x", auth={"type": "bearer", "token": "${API_TOKEN}"})
    told = rye.run("tool", "demo/ask")
    checked = rye.says("execute", item_type="tool", item_id="demo/ask", dry_run=True)

    (request,) = asked.asked
    assert f"Bearer {SECRET}" == request.headers["authorization"]
    assert SECRET not in json.dumps([told, checked])
