"""Sessions with claims: refusals, released tasks, and the next task."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Result, idle_claude, ralphgen, run_sql
from driving import create_project, made_here, query, quiet
from engines import ENGINES
from held_tasks import claim_task, comments, held_on, leave, row, status
from making_sessions import opened

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError, UntrustedError, UsageError
from ralphgen.project.root import SESSIONS, database_place
from ralphgen.sessions.claims import (
    NOT_MADE,
    RATE_LIMITED,
    UNAVAILABLE,
    ClaimedError,
    NothingReadyError,
    end_claim,
)

pytestmark = pytest.mark.slow
NEVER = "CREATE TRIGGER never BEFORE UPDATE ON tasks BEGIN SELECT RAISE(ABORT, 'never'); END"
NEVER_ON_POSTGRESQL = """
CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'never'; END$$;
CREATE TRIGGER never BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION never()
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a ledger."""
    return create_project(tmp_path_factory.mktemp("plain"))


@pytest.fixture(params=ENGINES)
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with held_on(request.param, tmp_path / "p") as project:
        yield project


def session(root: Path, *arguments: str) -> Result:
    return ralphgen("session", "create", "task_execution", *arguments, "--project", root)


def test_a_held_task_is_refused_with_its_holder_and_the_end_of_the_lease(root: Path) -> None:
    first = claim_task(root, 2)
    folders = sorted((root / SESSIONS).iterdir())
    with pytest.raises(ClaimedError) as refused:
        claim_task(root, 2)

    assert 4 == refused.value.exit_code
    assert f'task 2 is claimed by the session "{first.session_id}" until 20' in str(refused.value)
    assert folders == sorted((root / SESSIONS).iterdir())
    assert first.claim is not None
    facts = json.loads(first.context.read_bytes())["claim"]
    assert {"task": 2, "token": 1, "lease": 900, "kept": False} == facts
    done = session(root, "--task", "2")
    assert (4, "") == (done.returncode, done.stdout)
    assert f'hint: end the session with "ralphgen session end {first.session_id}"' in done.stderr


def test_the_next_are_taken_one_after_the_other_until_nothing_is_ready(root: Path) -> None:
    run_sql(root, "UPDATE tasks SET priority = 'high' WHERE id = 3")
    tasks = [claim_task(root).task for _ in range(3)]

    assert [3, 1, 2] == tasks
    with pytest.raises(NothingReadyError) as nothing:
        claim_task(root)
    assert 8 == nothing.value.exit_code
    done = session(root, "--next", "--json")
    assert (8, "null\n") == (done.returncode, done.stdout)
    assert "no task is ready" in done.stderr


def test_the_next_is_of_the_feature_and_the_discipline_that_are_named(root: Path) -> None:
    rows = query(root, "SELECT id, feature, discipline FROM tasks")
    task, feature, discipline = rows[-1]
    run_sql(root, f"UPDATE tasks SET status = 'done' WHERE discipline = '{discipline}'")
    run_sql(root, f"UPDATE tasks SET status = 'pending' WHERE id = {task}")
    made = claim_task(root, feature=feature, discipline=discipline)

    assert (task, feature, discipline) == (made.task, made.feature, made.discipline)
    with pytest.raises(NothingReadyError):
        claim_task(root, discipline=discipline)


def test_end_of_a_session_names_the_state_of_its_task(root: Path) -> None:
    made = session(root, "--task", "2")
    name = Path(made.stdout.strip()).parent.name
    ended = ralphgen("session", "end", name, "--project", root)

    assert f"release the task with: ralphgen session end {name}" == made.stderr.splitlines()[-1]
    assert f"ended session {name}; task 2 is ready again\n" == ended.stdout


def test_brief_of_the_next_task_claims_nothing(root: Path) -> None:
    arguments = ("session", "brief", "task_execution", "--next", "--json", "--project", root)
    briefed = ralphgen(*arguments)
    run_sql(root, "UPDATE tasks SET status = 'done'")

    assert "Complete one task" in json.loads(briefed.stdout)["task"]
    assert [] == query(root, "SELECT * FROM ralphgen_claims")
    assert 8 == ralphgen(*arguments).returncode


def test_a_session_of_the_command_waits_for_its_client(root: Path) -> None:
    """The command's own process ends immediately; the claim is for the client that starts later."""
    assert 0 == session(root, "--next").returncode

    assert [(None,)] == query(root, "SELECT pid FROM ralphgen_claims")
    assert 4 == session(root, "--task", "1").returncode


@pytest.mark.parametrize("recipe", ["opus_review", "yap", "enrichment"])
def test_only_who_may_close_its_own_task_takes_one(root: Path, recipe: str) -> None:
    with pytest.raises(UsageError, match="task"):
        opened(root, recipe, next=True)
    if recipe == "enrichment":
        opened(root, recipe, task=2)
    assert [] == query(root, "SELECT * FROM ralphgen_claims")


OWN_RECIPE = 'base = "task_execution"\nallow = {ralph = ["get_task"]}\n'


def without_closing(root: Path, how: str) -> tuple[str, dict[str, Any]]:
    """Remove the tool that closes a task in one way; return a recipe, and more of its request."""
    settings = root / ".ralph" / "ralphgen.toml"
    removals = {
        "settings": '[disciplines.backend]\ndisable = ["set_task_status"]\n',
        "kit": 'kits = ["ralph", "dela"]\n',
    }
    if how in removals:
        settings.write_text(removals[how] + settings.read_text("utf-8"), encoding="utf-8")
    elif how == "column":
        query(root, "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT")
        removed = '{"additional_disabled": ["set_task_status"]}'
        query(root, "UPDATE disciplines SET mcp_tool_overrides = ?", removed)
    elif how == "recipe":
        folder = root / ".ralph" / "recipes"
        folder.mkdir()
        (folder / "reader.toml").write_text(OWN_RECIPE, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    made_here(root)
    recipe = "reader" if how == "recipe" else "task_execution"
    return recipe, {"kits": ("dela",)} if how == "kit" else {}


@pytest.mark.parametrize("how", ["settings", "column", "recipe", "kit"])
def test_a_session_without_its_closing_tool_claims_its_task(root: Path, how: str) -> None:
    recipe, more = without_closing(root, how)
    first = opened(root, recipe, task=1, **more)

    assert all("set_task_status" not in one.names for one in first.served)
    assert first.session_id == row(root, 1)[0]
    with pytest.raises(ClaimedError):
        opened(root, recipe, task=1, **more)
    words = ("launch", "task_execution", "--task", "1", "--project", root)
    launched = ralphgen(*words, more=idle_claude(root))
    assert 4 == launched.returncode
    assert "task 1 is claimed by" in launched.stderr
    assert 1 != opened(root, recipe, next=True, **more).task


def test_a_preview_claims_nothing(root: Path) -> None:
    opened(root, "task_execution", task=2, dry_run=True)
    opened(root, "task_execution", next=True, dry_run=True)
    briefed = ralphgen("session", "brief", "task_execution", "--task", "2", "--project", root)
    listed = ralphgen("task", "list", "--ready", "--json", "--project", root)
    following = ralphgen("task", "next", "--json", "--project", root)

    assert [0, 0, 0] == [briefed.returncode, listed.returncode, following.returncode]
    assert [] == query(root, "SELECT * FROM ralphgen_claims")


def test_a_session_that_cannot_be_made_gives_its_task_back_without_an_attempt(root: Path) -> None:
    (root / ".ralph" / "mcp" / "policy.py").unlink()
    with pytest.raises(UntrustedError):
        claim_task(root, 2)

    assert (None, 2, 0) == row(root, 2)


def test_the_end_gives_the_task_back_and_the_last_attempt_blocks_it(root: Path) -> None:
    made = claim_task(root, 2)
    run_sql(root, "UPDATE tasks SET status = 'in_progress' WHERE id = 2")

    assert "pending" == end_claim(made, "open", "Two tests fail.")
    assert (None, 2, 1) == row(root, 2)
    said = f'The session "{made.session_id}" ended: open. Two tests fail.'
    assert [said] == comments(root, 2)[-1:]
    assert "blocked" == end_claim(claim_task(root, 2), "failed")
    assert [("2 sessions ended without closing it",)] == query(
        root, "SELECT blocked_by FROM tasks WHERE id = 2"
    )


@pytest.mark.parametrize(
    ("runs", "cause"),
    [
        ([("lint", 0, []), ("tests", 1, [])], ': "tests" failed'),
        ([("tests", None, []), ("tests", 0, [])], ""),
        ([("tests", 1, []), ("tests", 0, ["t.py"])], ": it changed t.py, which is protected"),
    ],
)
def test_the_reason_of_a_blocked_task_names_the_check_or_the_file(
    root: Path, runs: list[tuple[str, int | None, list[str]]], cause: str
) -> None:
    end_claim(claim_task(root, 2), "open")
    made = claim_task(root, 2)
    for name, code, protected in runs:
        query(
            root,
            "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, exit_code, "
            "started, seconds, tree, protected) VALUES (2, ?, ?, '', ?, '2026-01-01', 1, 't', ?)",
            *(made.session_id, name, code, json.dumps(protected)),
        )

    assert "blocked" == end_claim(made, "open")
    reason = f"2 sessions ended without closing it{cause}"
    assert [(reason,)] == query(root, "SELECT blocked_by FROM tasks WHERE id = 2")


def test_task_is_blocked_for_a_given_reason(root: Path) -> None:
    made = claim_task(root, 2)

    assert "blocked" == end_claim(made, "open", reason="its sessions cost $3.10")
    assert [("its sessions cost $3.10",)] == query(
        root, "SELECT blocked_by FROM tasks WHERE id = 2"
    )
    assert comments(root, 2)[-1].endswith("ended: open. Blocked: its sessions cost $3.10.")


@pytest.mark.parametrize("outcome", [RATE_LIMITED, UNAVAILABLE, NOT_MADE])
def test_a_failure_unrelated_to_the_task_is_not_an_attempt(root: Path, outcome: str) -> None:
    for _ in range(3):
        assert "pending" == end_claim(claim_task(root, 2), outcome)
    assert 0 == row(root, 2)[2]


def test_a_closed_task_remains_closed_unless_its_merge_failed(root: Path) -> None:
    made = claim_task(root, 2)
    run_sql(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    assert "done" == end_claim(made, "done")

    run_sql(root, "UPDATE tasks SET status = 'pending' WHERE id = 2")
    again = claim_task(root, 2)
    run_sql(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    assert "pending" == end_claim(again, "conflict", reopens=True)
    assert 1 == row(root, 2)[2]


def test_a_stale_task_is_claimed_before_ready_ones_of_its_priority(root: Path) -> None:
    lost = claim_task(root, 3)
    leave(root, 3)
    run_sql(root, "UPDATE tasks SET priority = 'high' WHERE id = 1")

    assert 1 == claim_task(root).task
    over = claim_task(root)
    assert 3 == over.task
    assert (over.session_id, 2, 1) == row(root, 3)
    (said,) = comments(root, 3)[-1:]
    assert f'Session "{over.session_id}" took this task over' in said
    assert lost.session_id in said
    assert "in_progress" == status(root, 3)


def test_a_task_that_was_left_once_too_often_is_blocked_and_the_next_is_taken(root: Path) -> None:
    for _ in range(2):
        claim_task(root, 1)
        leave(root, 1)
    run_sql(root, "UPDATE tasks SET priority = 'critical' WHERE id = 1")

    assert 2 == claim_task(root).task
    assert "blocked" == status(root, 1)
    assert "Blocked: 2 sessions ended without closing it" in comments(root, 1)[-1]


def test_a_task_in_progress_by_the_user_is_never_claimed(root: Path) -> None:
    """This includes tasks that a session claimed before without starting them."""
    run_sql(root, "UPDATE tasks SET status = 'in_progress'")
    with pytest.raises(NothingReadyError):
        claim_task(root)
    claim_task(root, 1)
    leave(root, 1, began=False)
    with pytest.raises(NothingReadyError):
        claim_task(root)


def test_without_a_ledger_sessions_claim_nothing_and_next_gives_the_reason(plain: Path) -> None:
    made = opened(plain, "task_execution", task=2)

    assert made.claim is None
    assert end_claim(made, "open") is None
    with pytest.raises(ProjectError, match="ledger on"):
        opened(plain, "task_execution", next=True)


def test_next_and_a_task_are_not_given_together(root: Path) -> None:
    done = session(root, "--next", "--task", "2")

    assert 2 == done.returncode
    assert '"--task" and "--next" exclude each other' in done.stderr


def test_a_table_that_refuses_the_status_is_let_go_all_the_same(root: Path) -> None:
    made = claim_task(root, 2)
    never = NEVER if database_place(root) is None else NEVER_ON_POSTGRESQL
    run_sql(root, "UPDATE tasks SET status = 'in_progress' WHERE id = 2", never)
    with pytest.raises(ProjectError, match="never"):
        end_claim(made, "open")

    assert row(root, 2)[0] is None
