"""Tools that ask over HTTP: what is sent, what is told of the answer, and whom they may ask."""

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
"""Set once nobody waits for the slow answer any more."""


def respond(asked: Asked, write: Write) -> None:
    """Answers by the first part of the path."""
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
    """A session whose tools may ask that host, and get one variable."""
    settings = f'policy = "off"\nhosts = ["{asked.name}"]\nenv = ["API_TOKEN"]'
    folder = tmp_path_factory.mktemp("requests")
    with serving(folder, settings=settings, environment={"API_TOKEN": SECRET}) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye, asked: Host) -> Rye:
    """The same, without any item, and nothing was asked yet."""
    shared.clear()
    asked.asked.clear()
    return shared


def lay(rye: Rye, url: str, **config: Any) -> None:
    """Lay down a tool that asks for a URL."""
    text = yaml_tool("demo/ask", executor_id="http_client", config={"url": url, **config})
    rye.put("tool", "demo/ask", text, extension=".yaml")


def ask(rye: Rye, **parameters: Any) -> dict[str, Any]:
    data: dict[str, Any] = rye.run("tool", "demo/ask", **parameters)["data"]
    return data


def refusal(rye: Rye, **parameters: Any) -> dict[str, Any]:
    return rye.refuses("execute", item_type="tool", item_id="demo/ask", parameters=parameters)


def test_a_request_is_sent_and_its_answer_told(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/towns/{{town}}?q={{q}}")
    answer = rye.run("tool", "demo/ask", town="São Paulo/../x", q="a&b=c")

    path = "/towns/S%C3%A3o%20Paulo%2F..%2Fx?q=a%26b%3Dc"
    assert (200, path) == (answer["data"]["status_code"], answer["data"]["body"]["path"])
    assert "application/json" == answer["data"]["headers"]["content-type"]
    assert ["demo/ask", HTTP_CLIENT] == [element["item_id"] for element in answer["chain"]]
    assert [f"GET {path} HTTP/1.1"] == [each.line for each in asked.asked]


def test_a_body_keeps_the_types_of_parameters(rye: Rye, asked: Host) -> None:
    body = {"n": "{n}", "list": ["{tags}"], "text": "for {who}", "left": "{out}"}
    schema = {"type": "object", "properties": {name: {} for name in ("n", "tags", "who", "out")}}
    config = {"url": f"http://{asked.name}/x", "method": "POST", "body": body}
    text = yaml_tool("demo/ask", executor_id="http_client", config=config, config_schema=schema)
    rye.put("tool", "demo/ask", text, extension=".yaml")
    ask(rye, n=3, tags=["a"], who="Bob")

    (request,) = asked.asked
    assert {"n": 3, "list": [["a"]], "text": "for Bob"} == json.loads(request.body)


def test_a_secret_of_the_environment_is_sent_and_not_told(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/x", auth={"type": "bearer", "token": "${API_TOKEN}"})
    told = rye.run("tool", "demo/ask")
    checked = rye.says("execute", item_type="tool", item_id="demo/ask", dry_run=True)

    (request,) = asked.asked
    assert f"Bearer {SECRET}" == request.headers["authorization"]
    assert SECRET not in json.dumps([told, checked])


def test_a_variable_that_was_not_lent_is_no_credential(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/x", auth={"type": "api_key", "key": "${USER_SPACE}"})

    assert "VALIDATION_FAILED" == refusal(rye)["code"]
    assert [] == asked.asked


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_status_of_failure_is_one_and_keeps_the_answer(
    rye: Rye, asked: Host, status: int
) -> None:
    lay(rye, f"http://{asked.name}/{status}")
    error = refusal(rye)

    assert "EXECUTION_FAILED" == error["code"]
    assert (status, f"/{status}") == (
        error["details"]["status_code"],
        error["details"]["body"]["path"],
    )


def test_a_redirect_is_told_and_not_followed(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/moved")
    data = ask(rye)

    assert (302, "http://127.0.0.1:1/") == (data["status_code"], data["headers"]["location"])
    assert 1 == len(asked.asked)


def test_a_long_answer_is_cut_and_named(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/long")
    answer = rye.run("tool", "demo/ask")

    assert ["data.body"] == answer["cut"]
    assert 10_000 < len(answer["data"]["body"]) < 40_000


def test_a_host_that_takes_too_long_is_not_waited_for(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/slow", timeout=0.2)

    code = refusal(rye)["code"]
    GIVEN_UP.set()

    assert "TIMEOUT" == code


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data",
    ],
)
def test_no_other_host_is_asked(rye: Rye, url: str, dry_run: bool) -> None:
    lay(rye, url)
    error = rye.refuses("execute", item_type="tool", item_id="demo/ask", dry_run=dry_run)

    assert "EXECUTION_FAILED" == error["code"]
    assert "is not an allowed host" in error["message"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/", "gopher://x/"])
def test_no_other_scheme_is_taken(rye: Rye, url: str) -> None:
    lay(rye, url)

    assert "VALIDATION_FAILED" == refusal(rye)["code"]


def test_a_parameter_does_not_choose_the_host(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{{host}}:{asked.port}/x")

    assert "VALIDATION_FAILED" == refusal(rye, host="127.0.0.1")["code"]
    assert [] == asked.asked


def test_a_value_adds_no_header(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/x", headers={"X-Who": "{who}"})

    assert "VALIDATION_FAILED" == refusal(rye, who="Bob\r\nX-Other: 1")["code"]
    assert [] == asked.asked
    ask(rye, who="Bob")
    assert "Bob" == asked.asked[0].headers["x-who"]


def test_nothing_is_put_in_twice(rye: Rye, asked: Host) -> None:
    lay(rye, f"http://{asked.name}/{{a}}", method="POST", body={"text": "{a}"})
    ask(rye, a="${API_TOKEN}{b}", b="second")

    (request,) = asked.asked
    assert {"text": "${API_TOKEN}{b}"} == json.loads(request.body)
    assert SECRET not in request.line


def test_without_hosts_no_machine_of_the_own_network_is_asked(tmp_path: Any, asked: Host) -> None:
    asked.asked.clear()
    with serving(tmp_path, settings='policy = "off"') as rye:
        lay(rye, f"http://{asked.name}/x")
        error = refusal(rye)

    assert "EXECUTION_FAILED" == error["code"]
    assert "is not a public host" in error["message"]
    assert [] == asked.asked
