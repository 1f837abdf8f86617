"""HTTP requests of tools to real hosts on this machine."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from http_hosts import Asked, Host, Write, answering, host
from lifelines import PATIENCE, until

from ralphgen.kits.rye.server.http import METHODS, HttpRequest, Response, begin
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.processes import Jobs

MOST = 1 << 20


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    threads = threading.active_count()
    yield

    assert until(lambda: threads == threading.active_count())


def request_to(found: Host, path: str = "/", **how: Any) -> HttpRequest:
    given: dict[str, Any] = {"method": "GET", "headers": {}, "body": None, "retry": {}}
    given |= {"timeout": PATIENCE, **how}
    return HttpRequest(url=f"http://{found.name}{path}", **given)


def ask(found: Host, path: str = "/", **how: Any) -> Response:
    return begin(Jobs(most=1), request_to(found, path, **how), (found.name,)).outcome()


def failure_of(found: Host, **how: Any) -> CodedError:
    with pytest.raises(CodedError) as caught:
        ask(found, **how)
    return caught.value


class TestAnswers:
    """Responses."""

    def test_redirect_is_not_followed(self) -> None:
        with host(answering(status=302, more="Location: /elsewhere\r\n")) as found:
            response = ask(found)

            assert (302, "/elsewhere") == (response.status_code, response.headers["location"])
            assert 1 == len(found.asked)

    @pytest.mark.parametrize(
        "body",
        ["", "{", "[NaN]", '"\\ud800"', "1e999", "[" * 100_000, "9" * 5000],
        ids=["empty", "broken", "nan", "surrogate", "infinite", "deep", "long"],
    )
    def test_invalid_json_remains_text(self, body: str) -> None:
        with host(answering(body.encode(), "application/json")) as found:
            assert body == ask(found).body

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ("ä".encode(), "text/plain"),
            ("ä".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
            ("\ufeffä".encode(), "text/plain"),
            ("ä".encode(), "text/plain; charset=no-such"),
            ("ä".encode(), "text/plain; charset=base64"),
            ("ä".encode(), "text/html"),
        ],
    )
    def test_other_bodies_are_text_in_their_character_set(self, body: bytes, kind: str) -> None:
        with host(answering(body, kind)) as found:
            assert "ä" == ask(found).body

    def test_lone_surrogates_are_replaced(self) -> None:
        with host(answering(b"+2AA-", "text/plain; charset=utf-7")) as found:
            assert "?" == ask(found).body

    def test_long_body_is_cut(self) -> None:
        with host(answering(b"x" * (MOST + 1))) as found:
            response = ask(found)

        assert (MOST, True) == (len(response.body), response.truncated)

    def test_cut_json_remains_text(self) -> None:
        with host(answering(b'"' + b"x" * MOST + b'"', "application/json")) as found:
            assert '"xxx' == ask(found).body[:4]

    def test_endless_body_is_cut(self) -> None:
        def answer(_asked: Asked, write: Write) -> None:
            write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                write(b"400\r\n" + b"x" * 1024 + b"\r\n")

        with host(answer) as found:
            assert ask(found).truncated

    @pytest.mark.thorough
    @pytest.mark.slow
    def test_many_small_pieces_are_read_in_little_time(self) -> None:
        def answer(_asked: Asked, write: Write) -> None:
            pieces = b"1\r\nx\r\n" * 100_000
            write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")

        with host(answer) as found:
            assert "x" * 100_000 == ask(found).body


class TestRequests:
    """Requests."""

    @pytest.mark.parametrize("method", METHODS)
    def test_the_method_and_the_path_arrive(self, method: str) -> None:
        with host(answering()) as found:
            ask(found, "/a%20b/ä;c?d=e f&g=%26#h".replace(" ", "%20"), method=method)

            assert [f"{method} /a%20b/%C3%A4;c?d=e%20f&g=%26 HTTP/1.1"] == [
                each.line for each in found.asked
            ]
            assert found.name == found.asked[0].headers["host"]

    def test_request_reveals_nothing_about_the_client(self) -> None:
        with host(answering()) as found:
            ask(found, headers={"X-Key": " value ", "ACCEPT": "text/html"})
            headers = found.asked[0].headers

        assert {
            "host": found.name,
            "accept": "text/html",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": "ralphgen",
            "x-key": "value",
        } == headers

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    def test_body_is_sent_as_json(self, method: str) -> None:
        value = {"a": ["ä", None, 1.5]}
        with host(answering()) as found:
            ask(found, method=method, body=value)
            asked = found.asked[0]

        assert value == json.loads(asked.body)
        assert "application/json" == asked.headers["content-type"]

    def test_body_of_another_content_type_is_sent_as_text(self) -> None:
        with host(answering()) as found:
            ask(found, method="POST", body="a=ä", headers={"Content-Type": "text/plain"})
            asked = found.asked[0]

        assert ("a=ä".encode(), "text/plain") == (asked.body, asked.headers["content-type"])

    def test_missing_body_has_no_length(self) -> None:
        with host(answering()) as found:
            ask(found, method="POST")

        assert "0" == found.asked[0].headers["content-length"]

    @pytest.mark.parametrize(
        ("how", "why"),
        [
            ({"headers": {"A": "b\r\nC: d"}}, 'the header "A" contains a line break'),
            ({"headers": {"A": "b\nC: d"}}, 'the header "A" contains a line break'),
            ({"headers": {"A": "b\0"}}, 'the header "A" contains a line break'),
            ({"headers": {"A\r\nB": "c"}}, "invalid header name"),
            ({"headers": {"A B": "c"}}, "invalid header name"),
            ({"headers": {"": "c"}}, "invalid header name"),
            ({"headers": {"Host": "c"}}, 'the header "Host" is set by the server'),
            ({"headers": {"content-length": "9"}}, "is set by the server"),
            ({"headers": {"Transfer-Encoding": "chunked"}}, "is set by the server"),
            ({"method": "TRACE"}, 'unknown method "TRACE": use GET,'),
            ({"method": "GET / HTTP/1.1\r\nX"}, "use GET,"),
            ({"body": {}}, "a GET request cannot have a body"),
            ({"method": "POST", "body": {1, 2}}, "the body cannot be sent as JSON"),
            ({"method": "POST", "body": float("nan")}, "the body cannot be sent as JSON"),
        ],
    )
    def test_invalid_request_is_refused_before_sending(self, how: dict[str, Any], why: str) -> None:
        with host(answering()) as found:
            error = failure_of(found, **how)

            assert "VALIDATION_FAILED" == error.code
            assert why in str(error)
            assert [] == found.asked

    def test_no_proxy_of_the_environment_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with host(answering(b"proxy")) as proxy, host(answering(b"host")) as found:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://{proxy.name}")

            assert "host" == ask(found).body
            assert [] == proxy.asked


class TestLimits:
    """Time limits and cancellation."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_the_time_is_a_total_also_where_a_host_trickles(self, head: bytes) -> None:
        over = threading.Event()

        def answer(_asked: Asked, write: Write) -> None:
            write(head)
            while not over.wait(0.05):
                write(b"x")

        with host(answer) as found:
            before = time.monotonic()
            error = failure_of(found, timeout=0.5)
            took = time.monotonic() - before
            over.set()

        assert "TIMEOUT" == error.code
        assert f'"{found.name}" did not respond within 0.5 seconds' in str(error)
        assert 0.5 <= took < PATIENCE / 4

    def test_silent_host_times_out(self) -> None:
        over = threading.Event()

        def answer(_asked: Asked, _write: Write) -> None:
            over.wait(PATIENCE)

        with host(answer) as found:
            assert "TIMEOUT" == failure_of(found, timeout=0.3).code
            over.set()

    def test_leaving_ends_the_wait_and_the_connection(self) -> None:
        arrived, gone = threading.Event(), threading.Event()

        def answer(_asked: Asked, write: Write) -> None:
            arrived.set()
            try:
                while True:
                    write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    time.sleep(0.01)
            except OSError:
                gone.set()

        with host(answer) as found:
            call = begin(Jobs(most=1), request_to(found), (found.name,))
            caught: list[str] = []
            waiting = threading.Thread(target=lambda: caught.append(_end_of(call)))
            waiting.start()
            assert arrived.wait(PATIENCE)
            before = time.monotonic()
            call.leave()
            left = time.monotonic() - before
            waiting.join(PATIENCE)

            assert gone.wait(PATIENCE)
        assert left < 0.5
        assert ["the request was cancelled"] == caught


def _end_of(call: Any) -> str:
    try:
        call.outcome()
    except CodedError as error:
        return str(error)
    return ""
