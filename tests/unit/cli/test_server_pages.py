"""The pages on PostgreSQL and HTTP are true: their first examples print the shown output."""

import os
import shutil
import socket
from pathlib import Path

import pytest
from postgresql import database, needs_postgresql, programs
from typed_pages import type_in_one_shell

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DOCS = Path(__file__).parents[3] / "docs"
NAMED = "postgresql://me@localhost/shop"  # as on the page
PORT = "8755"
PROGRAMS = ("curl", "openssl")


def first_example(name: str) -> str:
    """Return a page up to the end of its first example."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    return page[: page.index("\n```\n") + 5]


@needs_postgresql
def test_pages_on_postgresql_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PATH", os.pathsep.join((str(programs()), os.environ["PATH"])))
    with database() as dsn:
        user, _, rest = dsn.removeprefix("postgresql://").partition(":")
        password, _, rest = rest.partition("@/")
        name, _, host = rest.partition("?host=")
        services.write_text(
            f"[shop]\nuser={user}\npassword={password}\ndbname={name}\nhost={host}\n",
            encoding="utf-8",
        )
        page = first_example("postgresql") + first_example("logins")

        assert tmp_path / "shop" == type_in_one_shell(
            page.replace(NAMED, f"'{dsn}'"), tmp_path, tmp_path
        )


@pytest.mark.skipif(None in map(shutil.which, PROGRAMS), reason="curl or openssl is missing")
@pytest.mark.parametrize("name", ["http", "http-server", "workers"])
def test_pages_on_http_print_the_shown_output(name: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    page = first_example(name).replace(PORT, port)

    assert tmp_path / "shop" == type_in_one_shell(page, tmp_path, tmp_path)
