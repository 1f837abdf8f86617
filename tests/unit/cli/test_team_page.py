"""The commands of docs/team.md, typed one after the other, and the files of examples/team."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from http_servers import SERVED
from postgresql import database, needs_postgresql
from typed_pages import typed_commands

from ralphgen.runtime.engine.postgresql.revocations import MADE

with suppress(ModuleNotFoundError):
    import psycopg

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/team.md").read_text(encoding="utf-8")
TEAM = ROOT / "examples/team"
NAMED = "postgresql://me@localhost/shop"  # as on the page
SERVES = "ralphgen serve --http"
KEYS = {
    *("image", "build", "user", "read_only", "restart", "stop_grace_period", "environment"),
    *("ports", "volumes", "healthcheck", "depends_on"),
}


def test_the_compose_file_is_valid_and_names_existing_files() -> None:
    compose = yaml.safe_load((TEAM / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]

    assert services["server-1"] == services["server-2"]
    for service in services.values():
        assert KEYS >= {*service}
        assert 1 == len({"image", "build"} & {*service})
        texts = (*service.get("ports", ()), *service.get("environment", {}).values())
        assert all(isinstance(text, str) for text in texts), "YAML reads 2222:22 as a number"
        assert {*service.get("depends_on", ())} <= {*services}
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in (*compose["volumes"], "./.ralph", "./.ralph/mcp", "./Caddyfile")
    for name in services["proxy"]["environment"]["RALPH_SERVERS"].split():
        assert name.partition(":")[0] in services


def test_the_containerfile_has_known_instructions_and_sources() -> None:
    lines = (TEAM / "Containerfile").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]

    known = ["FROM", "WORKDIR", "COPY", "RUN", "EXPOSE", "ENTRYPOINT", "CMD"]
    assert known == [first for first, *_ in words]
    assert ".ralph/mcp/requirements.lock" == words[2][1]


@needs_postgresql
@pytest.mark.thorough
def test_each_command_of_the_page_does_as_the_text_around_it(tmp_path: Path) -> None:
    blocks = re.findall(r"```(sh|toml)\n(.*?)```", PAGE, re.DOTALL)
    with (
        database() as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
        typed_commands() as path,
    ):
        connection.execute(MADE.encode())  # like a server of step 4 that starts earlier
        before: list[str] = []
        for kind, text in blocks:
            if kind == "toml":
                config = tmp_path / "shop/.ralph/ralphgen.toml"
                config.write_text(f"{config.read_text(encoding='utf-8')}\n{text}", encoding="utf-8")
                continue
            lines = text.replace(NAMED, f"'{dsn}'").splitlines()
            serves = SERVES in lines
            typed([line for line in lines if line != SERVES], before, tmp_path, path)
            before += [line for line in lines if line.startswith(("cd ", "export RALPH_"))]
            if serves:
                assert_served(before, tmp_path)

    assert '"Authorization": "Bearer ${RALPH_TOKEN}"' in (tmp_path / "shop/.mcp.json").read_text(
        encoding="utf-8"
    )


def variables() -> dict[str, str]:
    """Return the environment of a user with ralphgen on PATH, and none of its variables."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RALPH_")}
    return {**kept, "PATH": path}


def typed(lines: list[str], before: list[str], folder: Path, path: str) -> None:
    """Type lines in a shell after the lines that set its directory and variables."""
    script = "\n".join(("set -e", *before, *lines))
    done = subprocess.run(
        ["bash", "-c", script],  # noqa: S607
        cwd=folder,
        env={**variables(), "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, f"{script}\n{done.stdout}\n{done.stderr}"


def assert_served(before: list[str], folder: Path) -> None:
    """Type the command that serves, and look that it does."""
    script = "\n".join(("set -e", *before, f"exec {SERVES} --port 0"))
    process = subprocess.Popen(
        ["bash", "-c", script],  # noqa: S607
        cwd=folder,
        env=variables(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert SERVED.search(line), line
        finally:
            process.terminate()
