"""The lanes of the suite: the fast tests, their restrictions, and the number of examples.

The tests in `tests/unit` and `tests/kits/<kit>/unit` are fast, except the tests, classes and
modules marked `slow`. A fast test that starts a process fails. The modules of `THOROUGH`, and the
tests marked `thorough`, are a separate lane, which CI runs in addition to the default one.
"""

import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

TESTS = Path(__file__).parents[1]
NOT_FAST = ("slow", "thorough", "soak", "benchmark", "interop", "browser")
THOROUGH_TEST = re.compile(r"\bmark\.thorough\b|\bshortened\(")
SLOW_MODULE = re.compile(r"^pytestmark = pytest\.mark\.slow$", re.MULTILINE)
# Attacks, kills, time limits and sweeps, each with its own server or process. A few tests of the
# default lane cover the same properties in general.
THOROUGH = (
    "golden/test_emitted_code.py",
    "kits/dela/server/test_dela_front.py",
    "kits/dela/server/test_dela_policy.py",
    "kits/dela/server/test_dela_real_runners.py",
    "kits/dela/server/test_dela_regressions_*.py",
    "kits/dela/server/test_dela_resources.py",
    "kits/dela/server/test_dela_schemas.py",
    "kits/dela/unit/test_allowing.py",
    "kits/dela/unit/test_cli_allow.py",
    "kits/dela/unit/test_hostile_tasks.py",
    "kits/ralph/server/test_brief.py",
    "kits/ralph/server/test_concurrency.py",
    "kits/ralph/server/test_earlier_sessions.py",
    "kits/ralph/server/test_elicitation.py",
    "kits/ralph/server/test_held_tasks.py",
    "kits/ralph/server/test_ledger_on_postgresql.py",
    "kits/ralph/server/test_long_resources.py",
    "kits/ralph/server/test_many_rows.py",
    "kits/ralph/server/test_proof.py",
    "kits/ralph/server/test_run_checks.py",
    "kits/ralph/server/test_schema_eras.py",
    "kits/rye/server/test_rye_attacks_*.py",
    "kits/rye/server/test_rye_protocol*.py",
    "kits/rye/server/test_rye_settings.py",
    "kits/rye/server/test_rye_spaces_places.py",
    "kits/rye/unit/test_rye_other_systems.py",
    "kits/rye/unit/test_rye_parsing_hostile.py",
    "kits/rye/unit/test_rye_subprocess.py",
    "kits/rye/unit/test_rye_tampering.py",
    "kits/specum/server/test_specum_bridge.py",
    "kits/specum/server/test_specum_importing.py",
    "kits/specum/server/test_specum_policy.py",
    "server/protocol/test_equals_sdk.py",
    "server/protocol/test_generated_conversations.py",
    "server/protocol/test_connection.py",
    "server/http/test_http_equals_stdio.py",
    "server/http/test_http_frames.py",
    "server/test_call_equals_client.py",
    "server/test_fails_closed.py",
    "server/test_loader.py",
    "server/test_long_calls.py",
    "server/test_contexts.py",
    "server/test_parallel_sessions.py",
    "server/test_replaced_database.py",
    "server/test_resource_updates.py",
    "server/test_waiting.py",
    "server/test_start_during_regen.py",
    "server/test_wire_schema.py",
    "unit/board/test_board_actions.py",
    "unit/board/test_board_agents.py",
    "unit/board/test_board_at_once.py",
    "unit/board/test_board_attacks.py",
    "unit/board/test_board_cli.py",
    "unit/board/test_board_connections.py",
    "unit/board/test_board_drift.py",
    "unit/board/test_board_events.py",
    "unit/board/test_board_hostile.py",
    "unit/board/test_board_loop.py",
    "unit/board/test_board_saving.py",
    "unit/cli/test_bad_input.py",
    "unit/cli/test_cli_checks.py",
    "unit/cli/test_cli_console.py",
    "unit/cli/test_cli_ledger.py",
    "unit/cli/test_edits_at_once.py",
    "unit/cli/test_examples.py",
    "unit/cli/test_exchange_commands.py",
    "unit/cli/test_fresh_processes.py",
    "unit/cli/test_harmless_output.py",
    "unit/cli/test_hints.py",
    "unit/cli/test_history_commands.py",
    "unit/cli/test_how_to_pages.py",
    "unit/cli/test_loop_page.py",
    "unit/cli/test_postgresql_ledger.py",
    "unit/cli/test_postgresql_logins.py",
    "unit/cli/test_session_list.py",
    "unit/cli/test_task_commands.py",
    "unit/cli/test_tutorial.py",
    "unit/cli/test_typed_commands.py",
    "unit/doctor/test_doctor.py",
    "unit/doctor/test_doctor_postgresql.py",
    "unit/environment/test_environment.py",
    "unit/environment/test_location.py",
    "unit/exchange/test_branch_attacks.py",
    "unit/exchange/test_branch_kills.py",
    "unit/exchange/test_moving.py",
    "unit/generate/test_merges.py",
    "unit/generate/test_postgresql_projects.py",
    "unit/generate/test_upgrade.py",
    "unit/history/test_undo_at_random.py",
    "unit/history/test_undone_lines.py",
    "unit/init/test_recorded_tables.py",
    "unit/kits/test_second_kit.py",
    "unit/launch/test_codex.py",
    "unit/launch/test_killed_launch.py",
    "unit/launch/test_lying_agents.py",
    "unit/launch/test_named_agents.py",
    "unit/launch/test_recorded_sessions.py",
    "unit/loop/test_asked_loops.py",
    "unit/loop/test_begin.py",
    "unit/loop/test_kept_sessions.py",
    "unit/loop/test_kept_work.py",
    "unit/loop/test_killed_merges.py",
    "unit/loop/test_left_branches.py",
    "unit/loop/test_merging.py",
    "unit/loop/test_trees.py",
    "unit/loop/test_loop_command.py",
    "unit/loop/test_loop_worktrees.py",
    "unit/loop/test_night_branch.py",
    "unit/loop/test_stopped_loops.py",
    "unit/loop/test_whole_nights.py",
    "unit/output/test_output_crashes.py",
    "unit/plugin/test_hooks.py",
    "unit/project/test_config_lock.py",
    "unit/project/test_linked_trees.py",
    "unit/runtime/processes/test_groups.py",
    "unit/runtime/processes/test_jobs.py",
    "unit/runtime/engine/postgresql/test_forged_rows_on_postgresql.py",
    "unit/sessions/test_claim_races.py",
    "unit/sessions/test_session_files.py",
    "unit/sessions/test_mcp_servers.py",
    "unit/sessions/test_overrides.py",
    "unit/sessions/test_own_recipes.py",
    "unit/sessions/test_session_claims.py",
    "unit/trust/test_committed.py",
    "unit/trust/test_edited_servers.py",
    "unit/trust/test_trust.py",
    "unit/trust/test_trust_record.py",
    "unit/trust/test_trusted_words.py",
)
STARTS = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "subprocess.Popen",
)
SHARES = {"fast": 0.1, "thorough": 0.5, "soak": 20.0}  # of the number of examples in a test
DEFAULT = 0.3


class Lane:
    """The current activity of this process."""

    share = DEFAULT
    fast = False  # whether the current test is
    started: str | None = None  # the process that a fast test has started


def examples(number: int) -> int:
    """How many of `number` generated examples the lane tries, at least five."""
    return max(5, round(number * Lane.share))


def shortened(values: Iterable[object], *kept: object) -> list[Any]:
    """Return a parameter's values: `kept` ones for the default lane, the others for thorough."""
    thorough = pytest.mark.thorough
    return [value if value in kept else pytest.param(value, marks=thorough) for value in values]


def choose(expression: str) -> None:
    """Take the lane that `-m` names; in CI the examples are the same each time."""
    Lane.share = SHARES.get(expression, DEFAULT)
    derandomize = bool(os.environ.get("CI"))  # a new finding must hold up no other change
    settings.register_profile(
        "lane", max_examples=examples(100), deadline=None, derandomize=derandomize
    )
    settings.load_profile("lane")
    sys.addaudithook(notice_processes)


def notice_processes(event: str, arguments: tuple[object, ...]) -> None:
    """Remember that a fast test starts a process: it fails at its end."""
    if Lane.fast and event in STARTS:
        Lane.started = f"{event} {arguments[:2]}"


@cache
def lies_among_fast_tests(path: Path) -> bool:
    """Return whether a test module's path is among the fast tests."""
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return parts[:1] == ("unit",) or (parts[:1] == ("kits",) and "unit" in parts[1:3])


@cache
def is_thorough(path: Path) -> bool:
    """Return whether a test module belongs to the thorough lane."""
    inside = path.relative_to(TESTS) if path.is_relative_to(TESTS) else path
    return any(inside.match(pattern) for pattern in THOROUGH)


@cache
def holds_a_thorough_test(path: Path) -> bool:
    """Whether a test module is of the thorough lane, or marks some of its tests so."""
    return is_thorough(path) or bool(THOROUGH_TEST.search(path.read_text("utf-8")))


def is_fast(item: pytest.Item) -> bool:
    """Return whether a test is in the fast lane."""
    return lies_among_fast_tests(item.path) and not any(map(item.get_closest_marker, NOT_FAST))


def holds_no_fast_test(path: Path) -> bool:
    """Return whether the fast lane can skip the import of a module."""
    if not path.name.startswith("test_"):
        return False
    if is_thorough(path):
        return True
    return not lies_among_fast_tests(path) or bool(SLOW_MODULE.search(path.read_text("utf-8")))
