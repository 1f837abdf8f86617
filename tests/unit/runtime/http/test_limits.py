"""Which names of hosts are taken, and how many requests of a session are answered at once."""

import pytest

from ralphgen.runtime.http.app import Hosts, HttpError, Places

HOSTS = Hosts(["mcp.example.com", "other.example:8443", "[2001:db8::1]"], [], 8722)


@pytest.mark.parametrize(
    "host",
    [
        "mcp.example.com",
        "MCP.example.com:443",
        "other.example:8443",
        "127.0.0.1:8722",
        "[::1]:8722",
        "[2001:db8::1]",
        "[2001:db8::1]:443",
    ],
)
def test_its_own_names_are_taken(host: str) -> None:
    assert HOSTS.takes_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8722:9",
        "other.example:8443:8443",
        "other.example",
        "other.example:1",
        "mcp.example.com:",
        "mcp.example.com:x",
        "127.0.0.1",
        "[::1]:8722:9",
        "evil.example",
        "",
    ],
)
def test_no_other_name_is_taken(host: str) -> None:
    assert not HOSTS.takes_host(host)


def test_a_session_has_limited_places_and_releases_each() -> None:
    places = Places(2)
    with places.counted_request("one"), places.counted_request("one"):
        with pytest.raises(HttpError) as refused, places.counted_request("one"):
            pass
        with places.counted_request("other"):
            pass
    with places.counted_request("one"):
        pass

    assert (429, "1") == (refused.value.status, refused.value.headers["retry-after"])
