"""A project on the morning after a night of its loop, written as rows and commits.

`python tests/support/mornings.py FOLDER` builds one, for `ralphgen board --project FOLDER`.
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from shutil import which

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from driving import create_database, made_here, query, quiet
from proved_projects import INIT_SCHEMA, LEDGER, MARKER, check, git, python

from ralphgen.emit.trust import accept_database, check_items
from ralphgen.emit.workflows import regenerate
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record
from ralphgen.project.root import DATABASE, SESSIONS
from ralphgen.runtime.engine.ledger import RECORDED
from ralphgen.runtime.tasks.status import definition_of

BRANCH = "main"
BUDGET = 40.0
CONFIG = "\n".join(
    (
        check("lint", *python("print('all files are formatted')")),
        check("tests", *python("print('18 modules, 0 failing')")),
        "[loop]\nattempts = 2\n",
    )
)
POSTGRESQL = '[database]\nengine = "postgresql"\ndsn_env = "RALPH_DSN"\n'
FEATURES = {
    "sign-in": "Sign-in",
    "charts": "Tide charts",
    "alerts": "Alerts",
    "berths": "Berth booking",
    "offline": "Offline",
    "operations": "Operations",
}
DISCIPLINES = ("backend", "frontend", "data", "design", "qa", "security", "docs", "platform")
EARLIER = (
    ("Model gauges and readings", "charts", "backend"),
    ("Import ten years of readings", "alerts", "data"),
    ("Draw the first tide curve", "berths", "design"),
    ("E-mail sign-in", "offline", "qa"),
    ("Harbour search", "operations", "security"),
    ("Berth list", "sign-in", "docs"),
    ("Deploy from main", "charts", "platform"),
    ("Structured logs", "alerts", "backend"),
    ("Glossary of tidal terms", "berths", "frontend"),
    ("Accessibility baseline", "offline", "data"),
)
Facts = dict[str, object]
Named = tuple[int, str, str, str, str]  # id, title, feature, discipline, priority
NIGHT: tuple[Named, ...] = (
    (11, "Cache tide curves for seven days", "charts", "backend", "critical"),
    (12, "Rate-limit failed sign-ins by account and address", "sign-in", "security", "critical"),
    (13, "Send low-water alerts by e-mail", "alerts", "backend", "high"),
    (14, "Convert all gauges to chart datum", "charts", "data", "high"),
    (15, "Refuse two bookings of one berth and night", "berths", "backend", "high"),
    (16, "Back up the database every night", "operations", "platform", "high"),
    (17, "Expose request metrics for Prometheus", "operations", "platform", "high"),
    (18, "Show the tide curve on phones", "charts", "frontend", "high"),
    (19, "Let users sign in with a passkey", "sign-in", "backend", "high"),
    (20, "Keep the last seven days in the browser", "offline", "frontend", "high"),
    (21, "Test alerts across daylight saving time", "alerts", "qa", "medium"),
    (22, "Import berths from the harbour register", "berths", "data", "medium"),
    (23, "Write the page on chart datum", "charts", "docs", "medium"),
    (24, "Rotate the signing key without downtime", "operations", "platform", "medium"),
    (25, "Print a month of tides on one page", "charts", "frontend", "high"),
    (26, "Choose a berth on the harbour map", "berths", "frontend", "high"),
    (27, "Take a deposit when a berth is held", "berths", "backend", "high"),
    (28, "Sync bookings made without a network", "offline", "backend", "medium"),
    (29, "Let a skipper choose the alert level", "alerts", "frontend", "medium"),
    (30, "Offer recovery codes after a passkey is added", "sign-in", "frontend", "medium"),
    (31, "Make the curve readable for colour-blind users", "charts", "design", "medium"),
    (32, "Restore a backup into a fresh project every week", "operations", "qa", "medium"),
    (33, "Fill gaps of under an hour in gauge readings", "charts", "data", "low"),
    (34, "Explain cancellation rules", "berths", "docs", "low"),
    (35, "Sign the unsubscribe links", "alerts", "security", "low"),
    (36, "Test a full day in flight mode", "offline", "qa", "low"),
    (37, "Drop unused columns of the old booking table", "operations", "backend", "low"),
    (38, "Document how long sessions last", "sign-in", "docs", ""),
    (39, "Serve tide tables as iCalendar", "charts", "backend", ""),
    (40, "Alert on-call when the sync queue grows", "operations", "platform", ""),
)
DRAFTS = (
    ("Zoom the curve with two fingers", "charts", "frontend"),
    ("Round heights to the unit of the user", "charts", "backend"),
    ("Text-message alerts", "alerts", "backend"),
    ("Quiet hours", "alerts", "design"),
    ("Waiting list for full harbours", "berths", "backend"),
    ("Show prices with and without tax", "berths", "frontend"),
    ("Tell how old the shown data is", "offline", "frontend"),
    ("Pack curves as deltas", "offline", "data"),
    ("Preview environment per branch", "operations", "platform"),
    ("Scan dependencies weekly", "operations", "security"),
    ("Lock accounts after ten failed codes", "sign-in", "security"),
    ("Remember the last harbour", "sign-in", "frontend"),
    ("Compare forecast and measured height", "charts", "data"),
    ("Replay a storm in staging", "alerts", "qa"),
    ("FAQ for harbour masters", "berths", "docs"),
    ("Merge duplicate boats", "berths", "data"),
    ("Runbook for a full disk", "operations", "docs"),
    ("Dark chart for night watch", "charts", "design"),
    ("Delete an account within 30 days", "sign-in", "backend"),
    ("Measure battery use", "offline", "qa"),
)
NEEDS = {
    13: (11,),
    18: (11,),
    27: (22, 15),
    28: (20,),
    30: (19, 12),
    33: (14,),
    34: (27,),
    36: (20, 28),
    40: (17,),
}
QUESTION = (
    "Which datum do we convert to: LAT or MLLW? The harbour register uses LAT, the older readings"
    " MLLW."
)
OPTIONS = ("LAT", "MLLW", "Keep both, and convert when shown")
DESCRIPTION = """{title}.

Today each request computes the curve anew, which takes **340 ms** at the 95th percentile:

- key by gauge, day and datum;
- drop a day when a reading of it arrives.

```python
def curve(gauge: Gauge, day: date) -> Curve:
    return cache.get((gauge.id, day, gauge.datum))
```

See `docs/datum.md` for the datum."""
CRITERIA = (
    "Curves of the last 7 days are served from the cache",
    "A new reading drops the day it belongs to",
    "p95 below 40 ms on the staging data",
)
SUMMARY = """{title}: finished.

- `tidewatch/{name}.py` holds the new code.
- Expired entries are dropped on write, so memory stays flat.
- **Not done:** no metric yet for the hit rate; I opened a draft for it."""
FAILURE = """\
tests/test_passkey.py ..F.                                               [100%]
E       AssertionError: expected 200, got 401
1 failed, 17 passed in 4.12s"""
WATCHED = "tests/test_curve.py"
PROTECTED = "tests/golden/curve.txt"
CONFLICTING = "tidewatch/registry.py"
NO_TERMS = "the list of terms is not in the repository"
LEFT = 10
"""A task that a session of yours left in progress when its process ended."""


@dataclass(frozen=True)
class Shift:
    """A session of the night: minutes after its begin, and outcome; `lines` are those it writes."""

    worker: int
    task: int
    start: int
    end: int
    outcome: str
    cost: float | None
    lines: int = 21
    files: tuple[str, ...] = ()


DONE, OPEN, ASKED, BLOCKED = "done", "open", "asked", "blocked"
NOT_MERGED = "not merged"
SHIFTS = (
    Shift(1, 11, 0, 43, DONE, 0.65, files=(WATCHED,)),
    Shift(2, 12, 0, 22, DONE, 1.32),
    Shift(2, 13, 24, 77, DONE, 0.49),
    Shift(1, 15, 45, 108, DONE, 0.33),
    Shift(2, 18, 79, 131, DONE, 0.54),
    Shift(1, 16, 110, 147, DONE, 0.70, files=(CONFLICTING,)),
    Shift(2, 17, 133, 154, NOT_MERGED, 0.61, files=(CONFLICTING,)),
    Shift(1, 20, 149, 174, OPEN, 0.57),
    Shift(2, 14, 156, 190, ASKED, 0.86),
    Shift(1, 17, 176, 198, NOT_MERGED, 0.46, files=(CONFLICTING,)),
    Shift(2, 9, 192, 206, BLOCKED, 0.18),
    Shift(1, 19, 200, 231, OPEN, 0.93),
    Shift(2, 25, 208, 269, DONE, 0.43),
    Shift(1, 26, 233, 273, DONE, 0.80),
    Shift(2, 22, 271, 291, OPEN, 0.50, files=(PROTECTED,)),
    Shift(1, 21, 275, 316, DONE, 0.75),
    Shift(2, 23, 293, 344, DONE, 0.59),
    Shift(1, 19, 318, 340, OPEN, 0.72),
    Shift(1, 29, 342, 375, DONE, None),
    Shift(2, 22, 346, 360, OPEN, 0.46, files=(PROTECTED,)),
    Shift(2, 31, 362, 389, DONE, 0.85),
    Shift(1, 32, 377, 395, DONE, 0.32),
    Shift(2, 35, 391, 410, DONE, 0.53),
    Shift(1, 37, 397, 414, DONE, 0.37),
    Shift(2, 38, 412, 432, DONE, 0.74),
)
MINUTES = 432
"""How long the night was, which ended at 5:52 local time."""


@dataclass
class Night:
    """The identity of every session and commit of a night, by its shift."""

    root: Path
    begin: datetime
    first: str = ""  # the commit that the night began at
    commits: dict[Shift, tuple[str, str, str]] = field(default_factory=dict)  # merge, work, tree

    def at(self, minutes: float, seconds: int = 0) -> str:
        return stamp(self.begin + timedelta(minutes=minutes, seconds=seconds))

    def session(self, shift: Shift) -> str:
        moment = self.begin + timedelta(minutes=shift.start)
        return f"task_execution-{shift.task}-{moment:%Y%m%dT%H%M%SZ}-{shift.start:04x}"


EVERY: tuple[Named, ...] = (
    *((number, *one, "medium") for number, one in enumerate(EARLIER, start=1)),
    *NIGHT,
)
TITLES = {one[0]: one[1] for one in EVERY}
FEATURE_OF = {one[0]: one[2] for one in EVERY}
DISCIPLINE_OF = {one[0]: one[3] for one in EVERY}


def stamp(moment: datetime) -> str:
    """Return a time as the ledger writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(task: int) -> str:
    """Return the name of the module that a task is about."""
    return "_".join(TITLES[task].lower().replace("-", " ").split())


def morning(folder: Path, *, dsn: str = "", now: datetime | None = None) -> Path:
    """Build the project in a new folder, on a morning after a night that ended at 5:52.

    With a `dsn`, its rows are in that PostgreSQL database, which has the tables (`tables_sql`) and
    no rows; the variable RALPH_DSN must hold it.
    """
    here = (now or datetime.now(UTC)).astimezone()
    end = here.replace(hour=5, minute=52, second=0)
    end -= timedelta(days=end > here)
    begin = end.astimezone(UTC) - timedelta(minutes=MINUTES)
    root = shutil.copytree(_model(), folder, copy_function=shutil.copy)
    if dsn:
        (root / DATABASE).unlink()
        (root / ".ralph" / "ralphgen.toml").write_text(CONFIG + POSTGRESQL, encoding="utf-8")
        accept_database(root, lambda _shown: True)
        regenerate(root, force=False, say=quiet)
    night = Night(root, begin)
    _write_commits(night)
    made_here(root)
    add_to_record(root, [item.digest for item in check_items(read_settings(root).done)])
    _write_rows(night)
    _write_loop(night)
    for shift in SHIFTS:
        _write_session(night, shift)
    return root


def tables_sql() -> str:
    """Return the tables of the project, in the words of SQLite."""
    return INIT_SCHEMA.read_text(encoding="utf-8") + LEDGER.read_text(encoding="utf-8")


@contextmanager
def morning_on(engine: str, folder: Path) -> Iterator[Path]:
    """Build the project on an engine; the variable of its DSN is set for this process."""
    if engine == "sqlite":
        yield morning(folder)
        return
    import pytest  # noqa: PLC0415
    from engines import VARIABLE, for_postgresql  # noqa: PLC0415
    from postgresql import database, template_of  # noqa: PLC0415

    template = template_of(for_postgresql(f"{tables_sql()}{MARKER}"))
    with database(template) as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        yield morning(folder, dsn=dsn)


@cache
def _model() -> Path:
    """A project with its first rows and its first commit; it is made once, and copied."""
    root = Path(tempfile.mkdtemp(prefix="ralphgen-model-")) / "p"
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    create_database(root, tables_sql(), MARKER)
    (root / ".ralph" / "ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    ignored = "/backups/\n/db/\n/mcp/sessions/\n/trust/\n/worktrees/\n"
    files = {
        ".ralph/.gitignore": ignored,
        "README.md": "# Tidewatch\n\nTides, berths and alerts for small harbours.\n",
        WATCHED: "def test_curve():\n    assert 3 == len([1, 2, 3])\n",
        PROTECTED: "0.0 1.2 2.4\n",
        CONFLICTING: 'PARTS = [\n    "charts",\n]\n',
        "docs/datum.md": "# Datum\n\nHeights refer to chart datum.\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    git(root, "init", "--quiet", "--initial-branch", BRANCH)
    git(root, "config", "user.name", "Mara Lind")
    git(root, "config", "user.email", "mara@example.org")
    return root


def _work(shift: Shift) -> dict[str, str]:
    """Return the files that a session leaves, with their texts."""
    title, name = TITLES[shift.task], name_of(shift.task)
    body = "\n".join(f"    value += {number}" for number in range(shift.lines - 5))
    files = {
        f"tidewatch/{name}.py": f'"""{title}."""\n\n\ndef {name}(value: int) -> int:\n{body}\n',
        f"docs/{name}.md": f"# {title}\n",
    }
    texts = {
        WATCHED: "def test_curve():\n    assert 7 == len(range(7))\n",
        PROTECTED: "0.0 1.1 2.2\n",
        CONFLICTING: f'PARTS = [\n    "charts",\n    "task-{shift.task}",\n]\n',
    }
    return {**files, **{path: texts[path] for path in shift.files}}


def _write_commits(night: Night) -> None:
    """Write the first commit, and the merges and the kept branches of the night on it."""
    root = night.root
    git(root, "add", "--all")
    date = stamp(night.begin - timedelta(days=1))
    git(root, "commit", "--quiet", "--message", "Begin", "--date", date)
    night.first = git(root, "rev-parse", "HEAD").strip()
    lines: list[bytes] = []

    def commit(mark: int, ref: str, at: str, text: str, *parents: str, **files: str) -> None:
        who = f"Mara Lind <mara@example.org> {int(datetime.fromisoformat(at).timestamp())} +0000"
        lines.append(f"commit {ref}\nmark :{mark}\nauthor {who}\ncommitter {who}\n".encode())
        lines.append(f"data {len(text.encode())}\n{text}\n".encode())
        first, *others = parents
        lines.append(f"from {first}\n{''.join(f'merge {one}{chr(10)}' for one in others)}".encode())
        for path, content in files.items():
            lines.append(
                f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}".encode()
            )
            lines.append(b"\n")

    tip, marks = night.first, 0
    merged: dict[Shift, tuple[int, int]] = {}
    for shift in sorted(SHIFTS, key=lambda one: one.end):
        if shift.outcome == BLOCKED:  # it left no files
            continue
        files, title = _work(shift), f"{TITLES[shift.task]} (task {shift.task})"
        if shift.outcome == DONE:
            marks += 2
            commit(marks - 1, "refs/ralph/w", night.at(shift.end), title, night.first, **files)
            text = f"Merge task {shift.task}\n\n{_trailers(night, shift)}"
            at = night.at(shift.end, 40)
            commit(marks, f"refs/heads/{BRANCH}", at, text, tip, f":{marks - 1}", **files)
            tip, merged[shift] = f":{marks}", (marks, marks - 1)
        elif shift.outcome in {OPEN, ASKED}:
            marks += 1
            ref = f"refs/heads/ralph/task-{shift.task}-{_attempt(shift)}"
            text = "Keep unfinished work"
            commit(marks, ref, night.at(shift.end), text, night.first, **files)
            merged[shift] = marks, marks
        else:
            marks += 1
            ref = f"refs/heads/ralph/task-{shift.task}-{_attempt(shift)}"
            commit(marks, ref, night.at(shift.end), title, night.first, **files)
            merged[shift] = marks, marks
    stream = root / ".git" / "night-marks"
    done = subprocess.run(
        [str(which("git")), "fast-import", "--quiet", "--force", f"--export-marks={stream}"],
        input=b"".join(lines),
        cwd=root,
        capture_output=True,
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
    hashes = dict(one.split() for one in stream.read_text(encoding="utf-8").splitlines())
    git(root, "update-ref", "-d", "refs/ralph/w")
    git(root, "reset", "--quiet", "--hard")
    every = [hashes[f":{number}"] for number in range(1, marks + 1)]
    listed = git(root, "log", "--no-walk=unsorted", "--format=%H %T", *every)
    trees = dict(line.split() for line in listed.splitlines())
    for shift, (merge, work) in merged.items():
        found = hashes[f":{work}"]
        night.commits[shift] = hashes[f":{merge}"], found, trees[found]
    _write_kept(night)


def _attempt(shift: Shift) -> int:
    """Return the number of a session on its task."""
    return [one for one in SHIFTS if one.task == shift.task].index(shift) + 1


def _batch(shift: Shift) -> int:
    return SHIFTS.index(shift) + 2


def _trailers(night: Night, shift: Shift) -> str:
    return (
        f"Ralphgen-Task: {shift.task}\nRalphgen-Session: {night.session(shift)}\n"
        f"Ralphgen-Proof: lint=0 tests=0\nRalphgen-Batch: {_batch(shift)}\n"
    )


def _write_kept(night: Night) -> None:
    """Write the refs from which the next session of a task starts, as the loop does."""
    orders = []
    for shift in SHIFTS:
        if shift.outcome not in {NOT_MERGED, ASKED} or shift != _last(shift.task):
            continue
        failures = _attempt(shift) if shift.outcome == NOT_MERGED else 0
        commit = night.commits[shift][1]
        facts = {
            "commit": commit,
            "session": night.session(shift),
            "failures": failures,
            "conflicts": [CONFLICTING] if failures > 1 else [],
            "continued_by": "",
        }
        path = night.root / ".git" / f"kept-{shift.task}"
        path.write_text(json.dumps(facts), encoding="utf-8")
        blob = git(night.root, "hash-object", "-w", str(path)).strip()
        path.unlink()
        name = f"ralph/task-{shift.task}-{_attempt(shift)}"
        orders += [
            f"update refs/ralph/kept/{shift.task} {blob}",
            f"update refs/ralph/branches/{name} {commit}",
        ]
    subprocess.run(
        [str(which("git")), "update-ref", "--stdin"],
        input="\n".join([*orders, ""]),
        cwd=night.root,
        text=True,
        check=True,
    )


class _Writer:
    """Collects rows, and writes all of a table together."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rows: dict[tuple[str, tuple[str, ...]], list[tuple[object, ...]]] = {}

    def add(self, table: str, **values: object) -> None:
        self._rows.setdefault((table, tuple(values)), []).append(tuple(values.values()))

    def write(self) -> None:
        for (table, names), rows in self._rows.items():
            marks = ", ".join([f"({', '.join('?' * len(names))})"] * len(rows))
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES {marks}"
            query(self._root, sql, *(value for row in rows for value in row))


def _write_rows(night: Night) -> None:
    rows = _Writer(night.root)
    rows.add(
        "metadata",
        id=1,
        project_title="Tidewatch",
        project_description="Tides, berths and alerts for small harbours.",
        project_created=day(night, -30),
    )
    learnings = [
        {
            "text": "Heights are in metres over chart datum.",
            "source": "agent",
            "created": night.at(40),
        }
    ]
    for number, (name, title) in enumerate(FEATURES.items()):
        rows.add(
            "features",
            name=name,
            display_name=title,
            acronym=f"F{number}",
            created=day(night, -30),
            learnings=json.dumps(learnings if name == "charts" else []),
        )
    for number, name in enumerate(DISCIPLINES):
        rows.add(
            "disciplines",
            name=name,
            display_name=name.title(),
            acronym=f"D{number}",
            icon="Server",
            color="#3b6fd4",
            system_prompt=f"You are a {name} engineer.",
        )
    for named in EVERY:
        status, why = _status_of(named[0])
        _add_task(rows, night, named, status, "human", 0 if named[0] > LEFT else -2, why)
    for number, (title, feature, discipline) in enumerate(DRAFTS, start=41):
        _add_task(rows, night, (number, title, feature, discipline, ""), "draft", "agent", 0)
    rows.write()
    rows = _Writer(night.root)
    for shift in SHIFTS:
        _add_session(rows, night, shift)
    _add_claims(rows, night)
    rows.add(
        "ralphgen_questions",
        task_id=14,
        session=night.session(_last(14)),
        asked=night.at(_last(14).end),
        question=QUESTION,
        options=json.dumps(OPTIONS),
    )
    rows.add("ralphgen_runner", target=BRANCH, owner="harbour-1", expires="", batch=len(SHIFTS) + 2)
    rows.write()


def _last(task: int) -> Shift:
    return [one for one in SHIFTS if one.task == task][-1]


def day(night: Night, days: int) -> str:
    """Return a date some days from the night."""
    return (night.begin + timedelta(days=days)).strftime("%Y-%m-%d")


def _status_of(task: int) -> tuple[str, str | None]:
    """Return the status of a task after the night, and why it is blocked."""
    shift = next((one for one in reversed(SHIFTS) if one.task == task), None)
    if task == LEFT:
        return "in_progress", None
    if shift is None or task == 20:
        return "done" if shift is None and task < LEFT else "pending", None
    if shift.outcome == DONE:
        return "done", None
    if shift.outcome in {ASKED, BLOCKED}:
        return "blocked", QUESTION if shift.outcome == ASKED else NO_TERMS
    if shift.outcome == NOT_MERGED:
        return "blocked", f"its work did not merge twice: {_conflict(shift)}"
    cause = f"it changed {PROTECTED}, which is protected" if shift.files else '"tests" failed'
    return "blocked", f"2 sessions ended without closing it: {cause}"


def _conflict(shift: Shift) -> str:
    branch = f"ralph/task-{shift.task}-{_attempt(shift)}"
    return f"conflict with the base branch in {CONFLICTING}; the work is kept on {branch}"


def _add_task(
    rows: _Writer,
    night: Night,
    named: Named,
    status: str,
    provenance: str,
    days: int,
    why: str | None = None,
) -> None:
    task, title, feature, discipline, priority = named
    rows.add(
        "tasks",
        id=task,
        feature=feature,
        discipline=discipline,
        title=title,
        description=DESCRIPTION.format(title=title),
        status=status,
        priority=priority or None,
        depends_on=json.dumps(NEEDS.get(task, ())),
        blocked_by=why,
        created=day(night, days - 3),
        updated=day(night, days),
        completed=day(night, days) if status == "done" else None,
        acceptance_criteria=json.dumps(CRITERIA),
        provenance=provenance,
    )


def _add_session(rows: _Writer, night: Night, shift: Shift) -> None:
    """Add the rows of a session: its own, its checks, its merge, its comments, its changes."""
    session, end = night.session(shift), night.at(shift.end)
    merge, work, tree = night.commits.get(shift, ("", "", ""))
    is_finished = shift.outcome in {DONE, NOT_MERGED}
    rows.add(
        "ralphgen_sessions",
        id=session,
        recipe="task_execution",
        discipline=DISCIPLINE_OF[shift.task],
        task_id=shift.task,
        feature=FEATURE_OF[shift.task],
        agent="claude",
        model="claude-sonnet-4-5",
        started=night.at(shift.start),
        ended=end,
        outcome=DONE if is_finished else shift.outcome,
        turns=4 + shift.end - shift.start,
        input_tokens=40_000 * (shift.end - shift.start),
        output_tokens=900 * (shift.end - shift.start),
        cost_usd=shift.cost,
        base_commit=night.first,
        worktree=str(night.root / ".ralph" / "worktrees" / str(shift.worker)),
        merged=merge if shift.outcome == DONE else None,
    )
    if shift.outcome not in {ASKED, BLOCKED}:
        _add_checks(rows, night, shift, tree)
    if is_finished:
        is_merged = shift.outcome == DONE
        rows.add(
            "ralphgen_merges",
            task_id=shift.task,
            session=session,
            work=work,
            tree=tree,
            target=BRANCH,
            state="merged" if is_merged else "returned",
            entered=end,
            ended=night.at(shift.end, 41),
            batch=_batch(shift),
            runner="harbour-1",
            merged=merge if is_merged else None,
            reason=None if is_merged else _conflict(shift),
        )
    _add_talk(rows, night, shift)


def _add_checks(rows: _Writer, night: Night, shift: Shift, tree: str) -> None:
    settings = read_settings(night.root).done
    fails = shift.task == 19
    protected = [path for path in shift.files if path == PROTECTED]
    watched = [path for path in shift.files if path == WATCHED]
    for number, one in enumerate(settings.checks):
        is_red = fails and one.name == "tests"
        tail = "18 modules, 0 failing" if one.name == "tests" else ""
        rows.add(
            "ralphgen_evidence",
            task_id=shift.task,
            session=night.session(shift),
            check_name=one.name,
            definition=definition_of({"run": one.run}),
            exit_code=1 if is_red else 0,
            started=night.at(shift.end - 1, number * 5),
            seconds=4.3,
            tree=tree,
            protected=json.dumps(protected),
            watched=json.dumps(watched),
            tail=FAILURE if is_red else tail,
        )
    if shift.outcome in {DONE, NOT_MERGED}:
        rows.add(
            "ralphgen_evidence",
            task_id=shift.task,
            session=night.session(shift),
            check_name=RECORDED,
            definition="",
            exit_code=0,
            started=night.at(shift.end),
            seconds=0.0,
            tree=tree,
            protected="[]",
            watched="[]",
            tail=json.dumps({"base": night.first, "head": night.first}),
        )


def _add_talk(rows: _Writer, night: Night, shift: Shift) -> None:
    """Add the comments of a session, and what its tools wrote on record."""
    session, task = night.session(shift), shift.task
    moves: list[tuple[int, str, Facts, Facts]] = []
    own = "set_task_status"
    moves.append((shift.start, own, {"status": "pending"}, {"status": "in_progress"}))
    words = ""
    if shift.outcome in {DONE, NOT_MERGED}:
        moves.append((shift.end, own, {"status": "in_progress"}, {"status": "done"}))
        words = SUMMARY.format(title=TITLES[task], name=name_of(task))
        changed = ", ".join(json.dumps(path) for path in shift.files if path == WATCHED)
        words += f"\n\nChanged in this session: {changed}" if changed else ""
    if shift.outcome in {ASKED, BLOCKED}:
        after: Facts = {"status": "blocked", "blocked_by": _status_of(task)[1]}
        moves.append((shift.end, own, {"status": "in_progress", "blocked_by": None}, after))
    if words:
        _add_comment(rows, night, shift, DISCIPLINE_OF[task], words, shift.end, 0)
    elif shift.outcome == OPEN:
        text = "I could not finish: the session store refuses the new column."
        _add_comment(rows, night, shift, DISCIPLINE_OF[task], text, shift.end, -30)
    if shift.outcome in {OPEN, NOT_MERGED}:
        text = f'The session "{session}" ended: {shift.outcome}.'
        if shift.outcome == NOT_MERGED:
            text += f" It was not merged: {_conflict(shift)}."
        status, why = _status_of(task) if shift == _last(task) else ("pending", None)
        text += f" Blocked: {why}." if why else ""
        before = "done" if shift.outcome == NOT_MERGED else "in_progress"
        moves.append((shift.end, "give_back", {"status": before}, {"status": status}))
        _add_comment(rows, night, shift, "ralphgen", text, shift.end, 41)
    for minutes, tool, before_it, after_it in moves:
        rows.add(
            "ralphgen_journal",
            time=night.at(minutes),
            session=session,
            tool=tool,
            table_name="tasks",
            row_key=str(task),
            before=json.dumps(before_it),
            after=json.dumps(after_it),
        )


def _add_comment(
    rows: _Writer, night: Night, shift: Shift, author: str, body: str, minutes: int, seconds: int
) -> None:
    is_agent = author != "ralphgen"
    rows.add(
        "task_comments",
        task_id=shift.task,
        author=author,
        discipline=author if is_agent else None,
        agent_task_id=shift.task if is_agent else None,
        body=body,
        created=night.at(minutes, seconds),
    )


def _add_claims(rows: _Writer, night: Night) -> None:
    """Add the claims: released ones, and that of a session whose process is gone."""
    worked = {shift.task for shift in SHIFTS}
    for task in sorted(worked):
        tried = [one for one in SHIFTS if one.task == task and one.outcome != DONE]
        attempts = 0 if _last(task).outcome in {DONE, ASKED, BLOCKED} else len(tried)
        rows.add("ralphgen_claims", task_id=task, token=2, attempts=attempts)
    session = f"task_execution-{LEFT}-{night.begin + timedelta(minutes=301):%Y%m%dT%H%M%SZ}-1eff"
    facts = {
        "started": night.at(301),
        "agent": "claude",
        "feature": "offline",
        "discipline": "data",
    }
    common = {"id": session, "recipe": "task_execution", "task_id": LEFT, **facts}
    rows.add("ralphgen_sessions", **common)
    rows.add(
        "ralphgen_claims",
        task_id=LEFT,
        session=session,
        token=1,
        taken=night.at(301),
        expires=night.at(331),
        began=night.at(302),
    )


def _write_loop(night: Night) -> None:
    """Write the events of the loop, which has ended."""
    told: list[Mapping[str, object]] = []

    def tell(
        event: str, at: float, after: int = 0, on: Facts | None = None, **facts: object
    ) -> None:
        told.append({"event": event, "time": night.at(at, after), **(on or {}), **facts})

    options = {
        "agent": "claude",
        "parallel": 2,
        "max_tasks": None,
        "max_cost": BUDGET,
        "max_task_cost": None,
        "max_time": "8h",
        "until": "",
        "review_every": None,
        "worktrees": True,
        "onto": "",
        "sandbox": False,
    }
    tell("start", 0, -9, pid=2**22 - 3, options=options)
    tell("target", 0, -8, branch=BRANCH, folder=str(night.root), merges=True)
    tell("begin", 0, -1, agent="claude", workers=2, ready=24)
    for shift in SHIFTS:
        session = night.session(shift)
        facts: Facts = {"worker": shift.worker, "session": session, "task": shift.task}
        tell("session", shift.start, 0, facts, agent="claude", title=TITLES[shift.task])
        is_finished = shift.outcome in {DONE, NOT_MERGED}
        tell(
            "end",
            shift.end,
            0,
            facts,
            outcome=DONE if is_finished else shift.outcome,
            turns=4 + shift.end - shift.start,
            cost_usd=shift.cost,
            estimated_usd=None,
            changed=list(_work(shift)),
            checks={"lint": "passed", "tests": "passed"},
            seconds=60.0 * (shift.end - shift.start),
        )
        if is_finished:
            is_merged = shift.outcome == DONE
            commit = night.commits[shift][0]
            tell(
                "merge",
                shift.end,
                41,
                facts,
                outcome="merged" if is_merged else NOT_MERGED,
                text=f"as {commit[:12]}" if is_merged else _conflict(shift),
                commit=commit if is_merged else None,
            )
        if shift.outcome == ASKED:
            tell("question", shift.end, 1, task=shift.task, question=1)
    outcomes = {DONE: 16, NOT_MERGED: 2, OPEN: 5, ASKED: 1, BLOCKED: 1}
    cost = round(sum(shift.cost or 0.0 for shift in SHIFTS), 2)
    tell(
        "stop",
        MINUTES,
        50,
        reason="no task is ready",
        exit_code=5,
        cause="questions",
        outcomes=outcomes,
        recorded=[],
        cost_usd=cost,
        known_usd=cost,
        estimated_usd=None,
        cost_unknown=1,
        seconds=60.0 * MINUTES,
    )
    told.sort(key=lambda one: str(one["time"]))
    path = night.root / SESSIONS / f"loop-{night.begin:%Y%m%dT%H%M%SZ}-0cfa.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_lines(path, told)
    path.with_suffix(".asks").touch()


def _write_session(night: Night, shift: Shift) -> None:
    """Write the folder of a session: its context, its words and its calls."""
    session = night.session(shift)
    folder = night.root / SESSIONS / session
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    facts = {
        "version": 1,
        "session_id": session,
        "recipe": "task_execution",
        "base": "task_execution",
        "discipline": DISCIPLINE_OF[shift.task],
        "feature": FEATURE_OF[shift.task],
        "task_id": shift.task,
    }
    (folder / "context.json").write_text(json.dumps(facts), encoding="utf-8")
    words = (
        "I read the task and look for the module that computes the curve.",
        f"The code goes into `tidewatch/{name_of(shift.task)}.py`.",
        "All checks pass; I close the task.",
    )
    said: list[Mapping[str, object]] = [
        {"type": "system", "subtype": "init", "model": "claude-sonnet-4-5", "tools": []}
    ]
    for text in words:
        use = {"type": "tool_use", "name": "mcp__ralph__get_task", "id": "1", "input": {}}
        content = [{"type": "text", "text": text}, use]
        said.append({"type": "assistant", "message": {"content": content}})
    _write_lines(folder / "transcript.jsonl", said)
    called = {"kit": "ralph", "ms": 12.3, "bytes": 44, "ok": True}
    tools = ("get_task", "set_task_status", "run_checks", "set_task_status")
    minutes = (shift.start, shift.start + 1, shift.end - 1, shift.end)
    calls = [
        {"time": night.at(at), **called, "tool": tool}
        for at, tool in zip(minutes, tools, strict=True)
    ]
    _write_lines(folder / "calls.jsonl", calls)


def _write_lines(path: Path, values: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")


if __name__ == "__main__":
    os.umask(0o022)
    sys.stdout.write(f"{morning(Path(sys.argv[1]).absolute())}\n")
