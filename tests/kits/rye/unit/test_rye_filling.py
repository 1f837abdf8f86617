"""Filling of placeholders in texts, arguments, URLs and requests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.rye.server.http import ready_request, url_of
from ralphgen.kits.rye.server.values import Filling
from ralphgen.runtime.errors import CodedError

VARIABLES = {"HOME": "/far/x", "EMPTY": "", "BASE": "https://api.example.com"}


def filling(declared: tuple[str, ...] = (), **parameters: Any) -> Filling:
    return Filling(
        parameters,
        declared=frozenset(declared),
        built_in={"project_path": "/project"},
        variables=VARIABLES,
    )


class TestText:
    """Placeholders in a text."""

    @pytest.mark.parametrize(
        ("author", "expected"),
        [
            ("{a} {a}", "x x"),
            ("${HOME}/{a}", "/far/x/x"),
            ("${NO:-none} ${EMPTY:-none} ${HOME:-none} ${NO:-}", "none none /far/x "),
            ("{} {1} {print $1} $HOME {{a}}", "{} {1} {print $1} $HOME {x}"),
            ("{project_path}", "/project"),
            ("{list} {map} {yes} {n} {f}", '[1, "é"] {"k": null} true 5 1.5'),
            ("{given-not}", ""),
            ("[{null}]", "[]"),
        ],
    )
    def test_placeholders_become_values(self, author: str, expected: str) -> None:
        found = filling(
            ("given-not",), a="x", list=[1, "é"], map={"k": None}, yes=True, n=5, f=1.5, null=None
        )

        assert expected == found.text(author)

    def test_built_in_value_overrides_a_parameter(self) -> None:
        assert "/project" == filling(project_path="/evil").text("{project_path}")

    def test_missing_variable_is_empty_and_noted(self) -> None:
        found = filling()

        assert "[]" == found.text("[${NO}]${EMPTY}")
        assert ["NO"] == list(found.unset)

    @given(st.text(st.sampled_from("{}$:-aHOME_x ")), st.text(st.sampled_from("{}$:-aHOME_x ")))
    def test_inserted_value_is_not_expanded(self, value: str, around: str) -> None:
        """An inserted value cannot form a placeholder with the surrounding characters."""
        whole = filling(a=value).text(f"|{{a}}|{around.replace('{', '').replace('$', '')}")

        assert f"|{value}|" == whole[: len(value) + 2]

    def test_shown_text_contains_no_variable_values(self) -> None:
        found = filling(a="${HOME}")

        assert "${HOME} ${NO:-x} ${HOME} /project" == found.filled_text(
            "${HOME} ${NO:-x} {a} {project_path}"
        )


class TestArgument:
    """A filled argument is never split."""

    @pytest.mark.parametrize("author", ["{absent}", "{null}"])
    def test_argument_of_an_omitted_parameter_is_none(self, author: str) -> None:
        assert filling(("absent",), null=None).argument(author) is None


@pytest.mark.parametrize("author", ["{names}", "out/{names}", "${HOME}/{names}"])
def test_unknown_placeholder_suggests_the_nearest_name(author: str) -> None:
    found = filling(("name",))

    for fill in (found.text, found.argument, found.value, found.filled_text):
        with pytest.raises(CodedError, match=r'"\{names\}" has no value: .*"\{name\}"'):
            fill(author)


@pytest.mark.parametrize("author", ["--x={absent}", "{absent}/", " {absent}", "{absent}{a}"])
def test_omitted_parameter_within_a_longer_text_is_refused(author: str) -> None:
    found = filling(("absent",), a="x", null=None)

    for fill in (found.text, found.argument, found.value, lambda one: found.value([{"a": one}])):
        with pytest.raises(CodedError, match=r'"\{absent\}" is not filled: give "absent"'):
            fill(author)
    assert "--x=" == found.text("--x={null}")


class TestUrl:
    """A tool's caller cannot choose the host of its request."""

    @pytest.mark.parametrize(
        ("author", "value", "expected"),
        [
            ("https://h/{a}", "x/../y?z#w", "https://h/x%2F..%2Fy%3Fz%23w"),
            ("https://h/p?q={a}&r=1", "1&s=2", "https://h/p?q=1%26s%3D2&r=1"),
            ("https://h?q={a}", "é ", "https://h?q=%C3%A9%20"),
            ("${BASE}/v1/{a}", "b", "https://api.example.com/v1/b"),
            ("https://h/{a}", [1, 2], "https://h/%5B1%2C%202%5D"),
        ],
    )
    def test_values_are_percent_encoded(self, author: str, value: Any, expected: str) -> None:
        assert expected == url_of(author, filling(a=value), ())

    @pytest.mark.parametrize(
        "author",
        [
            *("{a}", "https://{a}/x", "https://h{a}/x", "https://h:{a}/", "{a}://h/x"),
            *("https://u@{a}/x", "${BASE}{a}/x", "https:{a}/x", "https:///{a}", "https://h\\{a}/"),
        ],
    )
    def test_parameter_cannot_name_the_host(self, author: str) -> None:
        with pytest.raises(CodedError, match="has a parameter before its path"):
            url_of(author, filling(a="evil.example.com"), ())

    def test_allowed_hosts_permit_a_parameter_as_the_whole_url(self) -> None:
        found = filling(a="https://h.example.com/x?y=1")

        assert "https://h.example.com/x?y=1" == url_of("{a}", found, ("h.example.com",))
        with pytest.raises(CodedError, match="before its path"):
            url_of("https://{a}/", found, ("h.example.com",))

    @pytest.mark.parametrize(
        ("author", "value"), [("https://h/a/{a}/b", ".."), ("https://h/{a}{a}", ".")]
    )
    def test_value_cannot_climb_up_the_path(self, author: str, value: str) -> None:
        with pytest.raises(CodedError, match="after substitution"):
            url_of(author, filling(a=value), ())


class TestRequest:
    """The config of a request."""

    @staticmethod
    def query(most: float = 60, **config: Any) -> Any:
        config = {"url": "https://h.example.com/{a}", **config}
        return ready_request(config, filling(("no",), a="x", b="y"), hosts=(), max_timeout=most)

    def test_every_part_of_a_request_is_filled_in(self) -> None:
        found = self.query(
            method="post",
            headers={"X-A": "{b}", "X-No": "{no}", "X-N": 5},
            auth={"type": "api_key", "key": "${HOME}"},
            body={"b": "{b}"},
            retry={"max_attempts": 2, "backoff": "linear"},
        )
        request = found.request

        assert ("POST", "https://h.example.com/x") == (request.method, request.url)
        assert {"X-A": "y", "X-N": "5", "X-API-Key": "/far/x"} == request.headers
        assert {"b": "y"} == request.body
        assert {"max_attempts": 2, "backoff": "linear"} == request.retry
        assert "/far/x" not in str(found.shown)

    def test_bearer_token_becomes_a_header(self) -> None:
        auth = {"type": "bearer", "token": "${HOME}"}

        assert {"Authorization": "Bearer /far/x"} == self.query(auth=auth).request.headers

    @pytest.mark.parametrize("value", ["x\r\nY: z", "x\ny", "a\0b"])
    def test_header_with_a_line_break_is_refused(self, value: str) -> None:
        with pytest.raises(CodedError, match="a line break or a control character"):
            ready_request(
                {"url": "https://h.example.com", "headers": {"X": "{v}"}},
                filling(v=value),
                hosts=(),
                max_timeout=60,
            )

    @pytest.mark.parametrize(
        ("config", "why"),
        [
            ({"url": None}, '"config.url" must be a string, found nothing'),
            ({"url": " "}, '"config.url" must be a string that is not empty'),
            ({"url": "ftp://h/x"}, "http"),
            ({"method": "STEAL"}, '"config.method" must be "GET" or'),
            ({"method": 5}, '"config.method" must be "GET" or'),
            ({"headers": []}, '"config.headers" must be an object, found a list'),
            ({"headers": {"a": []}}, '"config.headers.a" must be a string or a number'),
            ({"timeout": "5"}, '"config.timeout" must be a number of seconds above 0, found a'),
            ({"timeout": 0}, '"config.timeout" must be a number of seconds above 0, found 0'),
            ({"timeout": True}, '"config.timeout" must be a number of seconds above 0'),
            ({"auth": {"type": "basic"}}, '"config.auth.type" must be "bearer" or "api_key"'),
            ({"auth": {"type": "bearer"}}, '"config.auth.token" must be a string'),
            ({"auth": {"type": "bearer", "token": "${NO}"}}, '"config.auth.token" is empty after'),
            ({"retry": {"max_attempts": 0}}, '"config.retry.max_attempts" must be an integer'),
            ({"retry": {"backoff": "x"}}, '"config.retry.backoff" must be'),
        ],
    )
    def test_invalid_config_is_named(self, config: dict[str, Any], why: str) -> None:
        with pytest.raises(CodedError) as caught:
            self.query(**config)

        assert "VALIDATION_FAILED" == caught.value.code
        assert why in str(caught.value)

    def test_long_timeout_is_reduced_with_a_warning(self) -> None:
        found = self.query(most=5, timeout=60)

        assert 5 == found.request.timeout
        assert ["the timeout of 60 seconds in the config is reduced to the maximum: 5"] == (
            found.warnings
        )

    def test_unknown_key_is_reported(self) -> None:
        assert 'unknown config key "verify"' in self.query(verify=False).warnings[0]
