"""Caddy and nginx with the files of examples/team, in front of servers on this machine.

They are looked for on the path, and below the folder that `RALPHGEN_PROXIES` names, into which
Debian's packages were unpacked.
"""

import datetime as dt
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from lifelines import until

TEAM = Path(__file__).parents[2] / "examples/team"
UNPACKED = os.environ.get("RALPHGEN_PROXIES", "")
HOST = "localhost"
TRIES = 3  # seconds for the connection that checks whether a proxy responds

# Differences from a dedicated machine: ports, and no changes to the system.
CADDY = """{
    admin off
    auto_https disable_redirects
    skip_install_trust
}
import %s
"""
NGINX = """
%(user)sdaemon off;
error_log stderr;
pid %(folder)s/pid;
worker_processes 1;
events {}
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    include %(folder)s/ralph.conf;
}
"""


def program(name: str) -> str:
    """Return the path of a proxy's program, empty if there is none."""
    unpacked = [str(Path(UNPACKED) / place) for place in ("usr/sbin", "usr/bin")] * bool(UNPACKED)
    folders = os.pathsep.join([*unpacked, os.environ["PATH"], "/usr/sbin"])
    return shutil.which(name, path=folders) or ""


class Proxy:
    """A proxy that runs: its address, and what trusts its certificate."""

    def __init__(self, port: int, authority: Path) -> None:
        self.port = port
        self.origin = f"https://{HOST}:{port}"
        self.trust = ssl.create_default_context(cafile=str(authority))


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server((HOST, 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextmanager
def caddy(folder: Path, port: int, servers: Sequence[int]) -> Iterator[Proxy]:
    """Caddy by our Caddyfile; its own authority makes the certificate."""
    file = folder / "Caddyfile"
    file.write_text(CADDY % (TEAM / "Caddyfile"), encoding="utf-8")
    variables = {
        "HOME": str(folder),
        "RALPH_SITE": f"https://{HOST}:{port}",
        "RALPH_SERVERS": " ".join(f"127.0.0.1:{server}" for server in servers),
    }
    command = [program("caddy"), "run", "--config", str(file), "--adapter", "caddyfile"]
    authority = folder / ".local/share/caddy/pki/authorities/local/root.crt"
    with running(command, folder, variables, lambda: authority.exists() and _answers(port)):
        yield Proxy(port, authority)


@contextmanager
def nginx(folder: Path, port: int, servers: Sequence[int]) -> Iterator[Proxy]:
    """The machine's nginx by our file, with a certificate of this test."""
    certificate, key = folder / "own.pem", folder / "own.key"
    make_certificate(certificate, key)
    text = (TEAM / "nginx.conf").read_text(encoding="utf-8")
    first, second = (f"127.0.0.1:{server}" for server in servers)
    for ours, theirs in {
        "127.0.0.1:8722": first,
        "127.0.0.1:8723": second,
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name mcp.example.com": f"server_name {HOST}",
        "/etc/ssl/mcp.example.com.pem": str(certificate),
        "/etc/ssl/mcp.example.com.key": str(key),
    }.items():
        assert 1 == text.count(ours), ours
        text = text.replace(ours, theirs)
    (folder / "ralph.conf").write_text(text, encoding="utf-8")
    user = "" if os.geteuid() else "user root;\n"  # else "nobody", who may not read the folder
    main = folder / "nginx.conf"
    main.write_text(NGINX % {"folder": folder, "user": user}, encoding="utf-8")
    command = [program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(main)]
    with running(command, folder, {}, lambda: _answers(port)):
        yield Proxy(port, certificate)


def make_certificate(certificate: Path, key: Path) -> None:
    """Write a certificate for this machine that signs itself, and its key."""
    own = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(own, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        own.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@contextmanager
def running(
    command: Sequence[str], folder: Path, variables: dict[str, str], ready: Callable[[], bool]
) -> Iterator[None]:
    """Run a proxy that is ready, and end it."""
    with (folder / "proxy.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **variables},
        )
        try:
            assert until(lambda: process.poll() is not None or ready())
            assert process.poll() is None, (folder / "proxy.log").read_text(encoding="utf-8")
            yield
        finally:
            process.terminate()
            process.wait()


def _answers(port: int) -> bool:
    """Return whether a server completes a handshake on a port."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((HOST, port), TRIES) as plain:
            context.wrap_socket(plain, server_hostname=HOST).close()
    except OSError:
        time.sleep(0.02)
        return False
    return True
