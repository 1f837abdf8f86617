"""Sessions of tokens hold their tasks as others do, whichever worker of a server answers them."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
from command_line import ralphgen
from driving import query
from engines import ENGINES
from held_tasks import ATTEMPTS, claim_task, comments, held_on, row, status
from http_servers import CONFIG, KEY, URL, HttpServer, serving
from lifelines import until

from ralphgen.sessions.claims import ClaimedError, end_claim

pytestmark = pytest.mark.thorough
LEASE = 600
SETTINGS = f"{ATTEMPTS}[claims]\nlease = {LEASE}\n{CONFIG}rate = 100000\n"
PAST, SOON = "2020-02-10T00:00:00.000Z", "2099-02-10T00:00:00.000Z"


@pytest.fixture(params=ENGINES)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HttpServer]:
    """Two workers on a project with three tasks that can be begun."""
    monkeypatch.setenv("RALPH_KEY", KEY)
    with held_on(request.param, tmp_path / "p", SETTINGS) as root, serving(root) as running:
        yield running


def create_token(root: Path, *options: str) -> tuple[str, str]:
    """A token that `ralphgen session create` makes, and the id of its session."""
    done = ralphgen("session", "create", "task_execution", *options, "--token", "--project", root)
    assert 0 == done.returncode, done.stderr
    own = done.stdout.strip()
    return own, jwt.decode(own, KEY, algorithms=["HS256"], audience=URL)["jti"]


def call_text(server: HttpServer, own: str, tool: str, **given: Any) -> str:
    """The text of an answer: a result, or a refusal."""
    code, answer = server.call(own, tool, **given)
    assert 200 == code, answer
    return str(answer["result"]["content"][0]["text"])


def set_lease(root: Path, task: int, expires: str) -> None:
    query(root, "UPDATE ralphgen_claims SET expires = ? WHERE task_id = ?", expires, task)


def expires(root: Path, task: int) -> Any:
    ((found,),) = query(root, f"SELECT expires FROM ralphgen_claims WHERE task_id = {task}")
    return found


def kill_workers(server: HttpServer) -> None:
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)


def answers(server: HttpServer, own: str) -> bool:
    """Whether a call is answered, which after a kill may take a worker its time."""
    try:
        return server.call(own, "get_task")[0] == 200
    except OSError:
        return False


def test_a_token_holds_its_task_against_every_other_session(server: HttpServer) -> None:
    root = server.root
    _, own = create_token(root, "--task", "2")
    refused = ralphgen(
        "session", "create", "task_execution", "--task", "2", "--token", "--project", root
    )

    assert (4, "") == (refused.returncode, refused.stdout)
    assert f'task 2 is claimed by the session "{own}"' in refused.stderr
    assert f'hint: end the session with "ralphgen session revoke {own}"\n' in refused.stderr
    with pytest.raises(ClaimedError):
        claim_task(root, 2)
    _, following = create_token(root, "--next")
    assert (own, following) == (row(root, 2)[0], row(root, 1)[0])
    assert [(None, None)] * 2 == query(
        root, "SELECT pid, host FROM ralphgen_claims WHERE session IS NOT NULL"
    )


def test_each_worker_serves_a_claim_and_a_kill_of_all_loses_nothing_of_it(
    server: HttpServer,
) -> None:
    root = server.root
    token, own = create_token(root, "--task", "2")
    call_text(server, token, "set_task_status", status="in_progress")
    kill_workers(server)

    assert until(partial(answers, server, token))
    for number in range(8):
        call_text(server, token, "add_task_comment", body=f"Step {number}.")
    kill_workers(server)
    assert until(partial(answers, server, token))
    assert "done" in call_text(server, token, "set_task_status", status="done", summary="It works.")
    assert (None, 1) == row(root, 2)[:2]
    assert "Step 7." in comments(root, 2)
    assert "lost" not in call_text(server, token, "add_task_comment", body="One more thing.")
    call_text(server, token, "set_task_status", status="in_progress")
    assert own == row(root, 2)[0]


def test_a_token_whose_lease_has_ended_continues_until_another_has_its_task(
    server: HttpServer,
) -> None:
    root = server.root
    token, own = create_token(root, "--task", "2")
    call_text(server, token, "set_task_status", status="in_progress")
    set_lease(root, 2, PAST)
    assert "lost" not in call_text(server, token, "add_task_comment", body="I am slow.")
    assert own == row(root, 2)[0]

    kill_workers(server)  # only the database and the token remain
    set_lease(root, 2, PAST)
    other = claim_task(root, 2)
    assert until(lambda: _refused(server, token))
    before = comments(root, 2)
    said = call_text(server, token, "set_task_status", status="done", summary="Mine.")
    assert "this session has lost its claim on task 2" in said
    assert f'it is claimed by the session "{other.session_id}"' in said
    assert ("in_progress", before) == (status(root, 2), comments(root, 2))
    assert "blocked" == end_claim(other, "open")  # it was the second attempt
    assert "lost its claim" in call_text(server, token, "add_task_comment", body="Still here.")


def _refused(server: HttpServer, token: str) -> bool:
    try:
        return "lost its claim" in call_text(server, token, "add_task_comment", body="I am slow.")
    except OSError:
        return False


def test_reading_counts_as_a_sign_of_life_and_silence_does_not(server: HttpServer) -> None:
    root = server.root
    token, _ = create_token(root, "--task", "2")
    assert "Out" not in call_text(server, token, "get_task")
    set_lease(root, 2, PAST)
    kill_workers(server)

    assert until(partial(answers, server, token))
    assert until(lambda: PAST < expires(root, 2) < SOON)


def test_to_end_a_token_lets_its_task_go(server: HttpServer) -> None:
    root = server.root
    token, own = create_token(root, "--task", "2")
    call_text(server, token, "set_task_status", status="in_progress")
    ended = ralphgen("session", "revoke", own, "--project", root)
    assert 0 == ended.returncode, ended.stderr

    assert ("pending", None) == (status(root, 2), row(root, 2)[0])
    assert any(f'The session "{own}" ended: ended.' in one for one in comments(root, 2))
    assert until(lambda: server.call(token, "get_task")[0] == 401)
    create_token(root, "--task", "2")
