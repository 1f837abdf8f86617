"""Why the server of a discipline does not start, in words and in seconds."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ralphgen.agents.process import failure_of

pytestmark = pytest.mark.slow

ANSWERING = """
import json, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}), flush=True)
"""


def entry(body: str, **env: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", body], "env": env}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"command": "no-such-program", "args": []}, "cannot be run: no such file or directory"),
        ({"command": "false"}, "ended with exit code 1"),
        (entry("import sys; sys.exit('no key')"), "ended with exit code 1: no key"),
        (entry("import os; os.kill(os.getpid(), 9)"), "ended with exit code -9"),
        (entry("import sys; sys.exit()"), "ended with exit code 0"),
        (entry(ANSWERING), ""),
        (entry(f"{ANSWERING}\nimport time; time.sleep(600)"), ""),
        ({"type": "http", "url": "http://nowhere.invalid/"}, ""),
    ],
)
def test_a_server_that_cannot_start_gives_the_reason(
    tmp_path: Path, server: dict[str, Any], expected: str
) -> None:
    assert expected == failure_of(server, tmp_path)


def test_a_hanging_server_is_not_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralphgen.agents.process.PATIENCE", 0.3)
    before = time.monotonic()

    assert "did not answer for 0.3 s" == failure_of(entry("import time; time.sleep(60)"), tmp_path)
    assert time.monotonic() - before < 20


def test_output_of_a_server_holds_no_secret(tmp_path: Path) -> None:
    body = "import os, sys; sys.exit(f'the key {os.environ[\"KEY\"]} is wrong')"

    assert "ended with exit code 1: the key *** is wrong" == failure_of(
        entry(body, KEY="s3cr3t"), tmp_path
    )


def test_a_probed_server_gets_the_environment_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RALPH_KEY", "RALPH_ADMIN_DSN", "RALPH_TOKEN", "MINE"):
        monkeypatch.setenv(name, "secret")
    body = "import os, sys; sys.exit(' '.join(sorted(os.environ.keys() & {'RALPH_KEY', "
    body += "'RALPH_ADMIN_DSN', 'RALPH_TOKEN', 'MINE', 'OWN'})))"

    assert "ended with exit code 1: MINE OWN" == failure_of(entry(body, OWN="1"), tmp_path)
