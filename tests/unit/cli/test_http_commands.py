"""Tokens, their ends, and clients' settings for a server over HTTP, from the command line."""

import json
import re
from pathlib import Path

import jwt
import pytest
from command_line import ralphgen, ran
from driving import query
from http_servers import KEY, URL, http_project, project_id, serving

from ralphgen.runtime.http.metrics import policy_digest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return http_project(tmp_path_factory.mktemp("commands") / "p", "workers = 1\n")


@pytest.mark.thorough
def test_a_token_is_printed_alone_and_opens_its_session_until_it_is_revoked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httptools")
    monkeypatch.setenv("RALPH_KEY", KEY)
    asked = ("session", "create", "task_execution", "--task", "1", "--token", "--ttl", "1h")
    done = ralphgen(*asked, "--project", root)
    assert 0 == done.returncode, done.stderr
    own = done.stdout.strip()
    said = jwt.decode(own, KEY, algorithms=["HS256"], audience=URL)

    assert (project_id(root), policy_digest(str(root / ".ralph/mcp"))) == (said["iss"], said["pol"])
    assert ("task_execution", 1, "backend", "auth") == (
        said["rec"],
        said["tsk"],
        said["dis"],
        said["fea"],
    )
    assert 3_600 == said["exp"] - said["iat"]
    assert re.fullmatch(r"task_execution-.*-[0-9a-f]{16}", said["jti"])  # other machines make some
    assert not [*(root / ".ralph/mcp").glob("sessions/*")]
    with serving(root) as server:
        assert 200 == server.call(own, "get_task")[0]
        ended = ralphgen("session", "revoke", said["jti"], "--project", root)

        assert 0 == ended.returncode, ended.stderr
        assert 401 == server.call(own, "get_task")[0]


@pytest.mark.thorough
def test_without_its_key_no_token_is_made(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RALPH_KEY", raising=False)
    done = ralphgen("session", "create", "yap", "--token", "--project", root)

    assert (1, "") == (done.returncode, done.stdout)
    assert '"RALPH_KEY" is not set' in done.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--ttl", "25h"], 2), (["--ttl", "soon"], 2), (["--kit", "ralph"], 2), (["--task", "99"], 1)],
)
def test_invalid_tokens_are_refused(root: Path, options: list[str], code: int) -> None:
    done = ralphgen("session", "create", "task_execution", "--token", *options, "--project", root)

    assert (code, "") == (done.returncode, done.stdout)


def test_a_client_gets_the_address_and_a_variable_and_no_token(root: Path) -> None:
    done = ralphgen("connect", "claude", "--http", URL, "--print", "--project", root)

    assert {
        "ralph": {
            "type": "http",
            "url": f"{URL}/ralph",
            "headers": {"Authorization": "Bearer ${RALPH_TOKEN}"},
        }
    } == json.loads(done.stdout)["mcpServers"]
    assert 2 == ralphgen("connect", "desktop", "--http", URL, "--project", root).returncode
    assert 2 == ralphgen("connect", "claude", "--http", f"{URL}?x", "--project", root).returncode


def test_revoke_of_an_unknown_id_names_it_and_still_revokes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_KEY", KEY)
    ran("db", "ledger", "on", "--yes", "--quiet", cwd=root)
    ran("session", "create", "yap", "--token", "--project", root)
    ((own,),) = query(root, "SELECT id FROM ralphgen_sessions WHERE recipe = 'yap'")
    known = ralphgen("session", "revoke", own, "--project", root)
    done = ralphgen("session", "revoke", f"{own}0", "--project", root)

    assert (0, f"revoked all tokens of session {own}\n", "") == (
        known.returncode,
        known.stdout,
        known.stderr,
    )
    assert (1, f"revoked all tokens of session {own}0\n") == (done.returncode, done.stdout)
    assert done.stderr.startswith(f'error: there is no session "{own}0" on record\n')
    assert f'hint: did you mean "{own}"?' in done.stderr
    invalid = ralphgen("session", "revoke", f"{own} x", "--project", root)
    assert (2, f'error: invalid session id "{own} x"\nhint: did you mean "{own}"?\n') == (
        invalid.returncode,
        invalid.stderr,
    )
