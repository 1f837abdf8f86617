"""Hosts that requests of tools may reach: allowed hosts and public addresses."""

import pytest
from http_hosts import Names, answering, ask, host, refusal_of

from ralphgen.kits.rye.server.http import is_public

pytestmark = pytest.mark.usefixtures("no_thread_left")


class TestUrls:
    """Valid and invalid URLs."""

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("file:///etc/passwd", 'must begin with "http://" or "https://"'),
            ("ftp://example.com/", 'must begin with "http://" or "https://"'),
            ("gopher://example.com/", 'must begin with "http://" or "https://"'),
            ("example.com", 'must begin with "http://" or "https://"'),
            ("", 'must begin with "http://" or "https://"'),
            ("http://", "has no valid host"),
            ("http:///path", "has no valid host"),
            ("http://:80/", "has no valid host"),
            ("http://exa%6dple.com/", "has no valid host"),
            ("http://[fe80::1%25eth0]/", "has no valid host"),
            ("http://a..b/", "has no valid host"),
            ("http://" + "a" * 64 + ".com/", "has no valid host"),
            ("http://[::1/", "has an invalid host or port"),
            ("http://a:b/", "has an invalid host or port"),
            ("http://a:99999/", "has an invalid host or port"),
            ("http://a:0/", "has the invalid port 0"),
            ("http://user@example.com/", "contains a user name or a password"),
            ("http://user:pass@example.com/", "contains a user name or a password"),
            ("http://@example.com/", "contains a user name or a password"),
            ("http://a\\@b/", "contains a space, a backslash"),
            ("http://a/b c", "contains a space, a backslash"),
            ("http://a/b\r\nX: y", "contains a space, a backslash"),
            ("ht\ntp://a/", "contains a space, a backslash"),
            (" http://a/", "contains a space, a backslash"),
            ("http://a/\ud800", "has an invalid host or port"),
        ],
    )
    def test_one_that_is_not_understood_in_one_way_is_refused(self, url: str, why: str) -> None:
        error = refusal_of(url)

        assert "VALIDATION_FAILED" == error.code
        assert str(error).startswith(f"the URL {why}")


class TestHosts:
    """Allowed hosts."""

    @pytest.mark.parametrize(
        ("allowed", "asked"),
        [
            ("example.com", "http://example.com.evil.test/"),
            ("example.com", "http://evil.example.com/"),
            ("example.com", "http://example.com:8080/"),
            ("example.com:443", "http://example.com/"),
            ("example.com:8080", "http://example.com/"),
            ("127.0.0.1", "http://2130706433/"),
            ("127.0.0.1", "http://127.1/"),
            ("::1", "http://[::2]/"),
        ],
    )
    def test_another_is_refused_with_what_to_do(self, allowed: str, asked: str) -> None:
        error = refusal_of(asked, allowed)

        assert "EXECUTION_FAILED" == error.code
        assert 'is not an allowed host: ask the user to add it to "hosts"' in (str(error))

    @pytest.mark.parametrize(
        ("allowed", "asked"),
        [
            ("example.test", "http://example.test/"),
            ("example.test", "https://example.test/"),
            ("example.test", "http://example.test:80/"),
            ("example.test:443", "https://example.test/"),
            ("[::1]", "http://[0:0::1]/"),
            ("::1", "http://[::1]/"),
            ("[::1]:80", "http://[::1]:80/"),
        ],
    )
    def test_no_port_stands_for_the_ports_of_the_schemes(
        self, names: Names, allowed: str, asked: str
    ) -> None:
        names.known = {"example.test": [[]], "::1": [[]]}  # has no address to connect to

        assert "cannot connect to" in str(refusal_of(asked, allowed))


class TestAddresses:
    """Without allowed hosts, only public addresses are reachable, under any name."""

    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",  # noqa: S104 - nothing is bound
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fe80::1%eth0",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
        ],
    )
    def test_an_address_of_another_network_is_not_public(self, address: str) -> None:
        assert not is_public(address)

    @pytest.mark.parametrize(
        "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"]
    )
    def test_all_others_are(self, address: str) -> None:
        assert is_public(address)

    @pytest.mark.parametrize(
        "name",
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "LocalHost."],
    )
    def test_this_machine_is_not_reached_by_any_of_its_names(self, name: str) -> None:
        with host(answering()) as found:
            error = refusal_of(f"http://{name}:{found.port}/")

            assert [] == found.asked
        assert "EXECUTION_FAILED" == error.code
        assert "is not a public host: ask the user to add" in str(error)

    def test_a_name_with_one_private_address_is_refused(self, names: Names) -> None:
        names.known = {"both.test": [["8.8.8.8", "127.0.0.1"]]}

        assert '"both.test" is not a public host' in str(refusal_of("http://both.test/"))

    def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(
        self, names: Names
    ) -> None:
        """With DNS rebinding, a second lookup would return another machine."""
        names.known = {"rebinding.test": [["127.0.0.1"], ["192.0.2.1"]]}
        with host(answering(b"here")) as found:
            name = f"rebinding.test:{found.port}"
            response = ask(f"http://{name}/", name)

            assert ("here", name) == (response.body, found.asked[0].headers["host"])
        assert [["192.0.2.1"]] == names.known["rebinding.test"]

    def test_the_second_address_is_tried_where_the_first_is_not_there(self, names: Names) -> None:
        with host(answering(b"here")) as found:
            names.known = {"two.test": [["127.0.0.2", "127.0.0.1"]]}
            name = f"two.test:{found.port}"

            assert "here" == ask(f"http://{name}/", name).body
