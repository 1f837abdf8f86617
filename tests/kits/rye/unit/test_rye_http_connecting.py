"""Connections of tool requests: retries and certificates."""

import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from http_hosts import Host, Names, answering, ask, host, refusal_of
from lifelines import PATIENCE

from ralphgen.kits.rye.server.http import TimedConnection, pause_after

pytestmark = pytest.mark.usefixtures("no_thread_left")


class TestConnecting:
    """Hosts that do not answer."""

    def test_a_port_without_a_host_is_told(self) -> None:
        name = f"127.0.0.1:{_free_port()}"
        error = refusal_of(f"http://{name}/", name)

        assert "EXECUTION_FAILED" == error.code
        assert f'cannot connect to "{name}": connection refused' == str(error)

    def test_a_name_without_an_address_is_told(self) -> None:
        error = refusal_of("http://nobody.invalid/", "nobody.invalid")

        assert 'unknown host "nobody.invalid"' == str(error)

    @pytest.mark.parametrize(
        ("backoff", "pauses"), [("exponential", [1, 2, 4, 8]), ("linear", [1, 2, 3, 4])]
    )
    def test_the_pauses_grow(self, backoff: str, pauses: list[float]) -> None:
        assert pauses == [pause_after(attempt, backoff) for attempt in (1, 2, 3, 4)]

    @pytest.mark.thorough
    @pytest.mark.slow
    def test_it_is_tried_again_until_somebody_is_there(self, names: Names) -> None:
        with host(answering(b"here")) as found:
            names.known = {"late.test": [["127.0.0.2"], ["127.0.0.2"], ["127.0.0.1"]]}
            name = f"late.test:{found.port}"
            before = time.monotonic()
            response = ask(f"http://{name}/", name, max_attempts=3)

            assert "here" == response.body
            assert 1 == len(found.asked)
        assert 3 <= time.monotonic() - before

    @pytest.mark.slow
    def test_no_more_often_than_said(self, names: Names) -> None:
        names.known = {"late.test": [[]] * 3}

        assert "cannot connect to" in str(
            refusal_of("http://late.test/", "late.test", max_attempts=2)
        )
        assert 1 == len(names.known["late.test"])

    def test_an_answer_that_breaks_off_is_not_asked_for_again(self) -> None:
        """The host may already have processed the request."""
        with host(lambda _asked, write: write(b"HTTP/1.1 2")) as found:
            refusal_of(f"http://{found.name}/", found.name, max_attempts=3)

            assert 1 == len(found.asked)

    def test_a_line_that_was_cut_takes_no_connection_any_more(self) -> None:
        """A request cancelled during name resolution must not connect afterwards."""
        line = TimedConnection(PATIENCE)
        line.cut()
        with socket.socket() as connection, pytest.raises(TimeoutError):
            line.hold(connection)

        with pytest.raises(TimeoutError):
            line.remaining_seconds()


class TestCertificates:
    """With TLS, a host needs a valid certificate for its name."""

    @pytest.fixture
    def secure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
        """Yield a host with a certificate for `secure.test` that this process trusts."""
        context = _context(tmp_path, "secure.test")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        with host(answering(b"here"), context) as found:
            yield found

    def test_its_own_name_is_proved_and_sent(self, secure: Host, names: Names) -> None:
        names.known = {"secure.test": [["127.0.0.1"]]}
        name = f"secure.test:{secure.port}"

        assert "here" == ask(f"https://{name}/", name).body
        assert name == secure.asked[0].headers["host"]

    def test_the_certificate_of_another_name_is_refused(self, secure: Host, names: Names) -> None:
        names.known = {"other.test": [["127.0.0.1"]] * 3}
        name = f"other.test:{secure.port}"
        error = refusal_of(f"https://{name}/", name, max_attempts=3)

        assert 'the certificate of "other.test" is not trusted: ' in str(error)
        assert [] == secure.asked
        assert 2 == len(names.known["other.test"])  # no retry, which would not help

    def test_a_certificate_that_nobody_trusts_is_refused(
        self, secure: Host, names: Names, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE")
        names.known = {"secure.test": [["127.0.0.1"]]}
        name = f"secure.test:{secure.port}"

        assert "is not trusted: " in str(refusal_of(f"https://{name}/", name))
        assert [] == secure.asked

    def test_a_host_without_tls_is_told(self) -> None:
        with host(answering()) as found:
            error = refusal_of(f"https://{found.name}/", found.name)

        assert f'cannot start TLS with "{found.name}": wrong version number' == str(error)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _context(folder: Path, name: str) -> ssl.SSLContext:
    """Return the TLS context of a host with a self-signed certificate for `name`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("::2"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "certificate.pem").write_bytes(pem)
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
