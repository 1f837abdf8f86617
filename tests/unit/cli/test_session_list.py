"""`ralphgen session list` with data of the ledger: outcome, turns and cost, within 80 columns."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, query

from ralphgen.ledger.tables import add_tables
from ralphgen.project.root import SESSIONS

pytestmark = pytest.mark.slow

LONG = "task_execution-1-20260210T175600Z-0a1b"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path / "p")
    add_tables(root)
    add_folder(root, LONG, task_id=1, feature="auth", discipline="backend")
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, recipe, task_id, agent, model, started, ended, outcome,"
        " turns, input_tokens, output_tokens, cost_usd) VALUES (?, 'task_execution', 1,"
        " 'Claude Code', 'opus', '2026-02-10T17:56:00Z', '2026-02-10T18:06:00Z',"
        " 'out of time or budget', 1234, 5, 6, 12.5)",
        LONG,
    )
    return root


def add_folder(root: Path, name: str, **facts: object) -> None:
    """Add a session as far as a list looks at it."""
    folder = root / SESSIONS / name
    folder.mkdir(parents=True)
    (folder / "context.json").write_text(json.dumps(facts), encoding="utf-8")


def list_sessions(root: Path, width: int) -> list[str]:
    done = ralphgen("session", "list", "--project", root, more={"COLUMNS": str(width)})
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


def test_a_record_holds_end_and_cost(root: Path) -> None:
    headings, row = list_sessions(root, 200)

    assert ["session", "about", "discipline", "age", "turns", "cost", "agent"] == headings.split()
    assert row.startswith(f"{LONG}  1 auth  backend  ")
    assert row.rstrip().endswith("1,234  $12.5000  not contained  out of time or budget")


@pytest.mark.parametrize("width", [30, 60, 80])
def test_it_fits_the_terminal_and_cuts_no_id(root: Path, width: int) -> None:
    lines = list_sessions(root, width)
    words = " ".join(" ".join(lines[1:]).split())

    assert LONG == lines[0]
    assert max(map(len, lines[1:])) <= width
    assert not [line for line in lines if line.endswith(("cost", "turns", "feature"))]
    assert words.startswith(
        "about task 1, feature auth, discipline backend, age 0 s, turns 1,234, cost $12.5000, "
        "agent not contained, out of"
    )


def test_without_a_record_nothing_of_it_is_shown(root: Path) -> None:
    query(root, "DELETE FROM ralphgen_sessions")
    headings, row = list_sessions(root, 80)

    assert ["session", "about", "discipline", "age", "agent"] == headings.split()
    assert ["1", "auth", "backend", "0", "s", "not", "contained"] == row.split()[1:]


def test_estimates_and_unknown_costs_are_named(root: Path) -> None:
    query(root, "UPDATE ralphgen_sessions SET cost_usd = NULL")
    unknown = list_sessions(root, 200)[1]
    query(root, "UPDATE ralphgen_sessions SET estimated_usd = 3.5")
    estimated = list_sessions(root, 200)[1]
    query(root, "UPDATE ralphgen_sessions SET estimated_usd = NULL, ended = NULL")

    assert "  1,234  unknown  " in unknown
    assert "  1,234  about $3.5000  " in estimated
    assert "unknown" not in list_sessions(root, 200)[1]


def test_programs_get_the_whole_record(root: Path) -> None:
    add_folder(root, "another")
    done = ralphgen("session", "list", "--json", "--project", root)
    found = {one["session_id"]: one for one in json.loads(done.stdout)}
    keys = ("outcome", "turns", "cost_usd", "input_tokens", "output_tokens", "agent", "model")

    assert ("out of time or budget", 1234, 12.5, 5, 6, "Claude Code", "opus") == tuple(
        found[LONG][key] for key in keys
    )
    assert (None,) * len(keys) == tuple(found["another"][key] for key in keys)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE ralphgen_sessions",
        "ALTER TABLE ralphgen_sessions RENAME COLUMN merged TO m",
        "UPDATE ralphgen_sessions SET id = CAST(x'ff' AS TEXT)",
    ],
)
def test_unreadable_sessions_are_not_listed(root: Path, sql: str) -> None:
    query(root, sql)

    assert LONG == list_sessions(root, 80)[1].split()[0]


def test_hostile_words_steer_no_terminal(root: Path) -> None:
    query(root, "UPDATE ralphgen_sessions SET outcome = ?", "\x1b[2J\u202eenod\n")

    assert r"\x1b[2J\u202eenod\n" in " ".join(list_sessions(root, 200))
