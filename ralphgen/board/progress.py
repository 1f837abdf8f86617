"""The progress of a project: its tasks by feature and day, its nights, learnings and specs."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ralphgen.board import charts
from ralphgen.board.live import specum_settings
from ralphgen.board.nights import costs_of, nights, working_sessions
from ralphgen.board.text import line, moment, natural, paragraph
from ralphgen.kits.ralph.rows import NOT_ACTIONABLE, Rows, decode_learnings
from ralphgen.kits.specum import spec_progress
from ralphgen.ledger.record import newest_sessions
from ralphgen.ledger.tables import state_of
from ralphgen.runtime.errors import ToolError

MOST_SPECS = 200
NEWEST = 20  # learnings
MOST_CHARACTERS = 2_000_000  # of learnings; those of further features are only counted
MOST_CHANGES = 10_000  # of tasks, in the picture of their statuses
MOST_SESSIONS = 2_000  # in the picture of the nights
CHANGES = (
    "SELECT time, before, after FROM ralphgen_journal WHERE lower(table_name) = 'tasks'"
    " ORDER BY number DESC LIMIT ?"
)
COUNTED = "SELECT FEATURE, STATUS, COUNT(*) FROM tasks GROUP BY 1, 2"
FILLED = "WHERE CAST(learnings AS TEXT) NOT IN ('', '[]') ORDER BY "
LEARNING = {"text": paragraph, "reason": paragraph}
LEARNING |= dict.fromkeys(("feature", "source", "created"), line)
NEVER = datetime.min.replace(tzinfo=UTC)


class FeatureProgress(NamedTuple):
    """The tasks of a feature by status; `is_known` is whether the feature has its own row.

    `actionable` counts all except drafts and skipped ones.
    """

    title: str
    is_known: bool
    counts: Mapping[str, int]
    done: int
    actionable: int


def read_progress(rows: Rows) -> list[FeatureProgress]:
    """Return the progress of all tasks, and of every feature by title."""
    sql = COUNTED.replace("FEATURE", rows.exactly("feature"))
    found = defaultdict[str, Counter[str]](Counter)
    for feature, status, count in rows.execute(sql.replace("STATUS", rows.exactly("status"))):
        found[line(feature)][line(status)] += count
    columns = ["name", *rows.available_columns("features", "display_name")]
    titles = {line(row[0]): line(row[-1]).strip() for row in rows.read("features", columns)}
    names = sorted({*found, *titles}, key=lambda one: (natural(titles.get(one) or one), one))
    overall = sum(found.values(), Counter[str]())
    order = [*charts.STATUSES, *sorted(overall.keys() - {*charts.STATUSES})]
    listed = [("All tasks", True, overall)]
    listed += [(titles.get(name) or name, name in titles, found[name]) for name in names]
    return [
        FeatureProgress(
            title,
            is_known,
            {one: counts[one] for one in order if counts[one]},
            counts["done"],
            counts.total() - sum(counts[one] for one in NOT_ACTIONABLE),
        )
        for title, is_known, counts in listed
    ]


def read_pictures(
    rows: Rows, now: Mapping[str, int], zone: tzinfo | None = None
) -> Mapping[str, charts.Picture] | None:
    """Return the pictures of a project, None without a ledger; `now` are the tasks by status.

    In a given time zone, they are the same on every machine.
    """
    if state_of(rows.connection).version is None:
        return None
    working = () if zone else working_sessions(rows)
    sessions = [
        one
        for one in newest_sessions(rows, MOST_SESSIONS)
        if one.agent and (one.ended if zone else one.session_id not in working)
    ]
    costs = [
        (f"{night.begin.astimezone(zone):%d %b}", costs_of(night.sessions))
        for night in reversed(nights(sessions))
    ]
    return {"burn_up": charts.burn_up(read_days(rows, now)), "nights": charts.nights(costs)}


def read_days(rows: Rows, now: Mapping[str, int]) -> dict[date, dict[str, int]]:
    """Return the tasks by status at the end of each day with a recorded change, and before all.

    `now` are the current numbers. Of very many changes, the newest count.
    """
    counts, days, day = Counter(now), dict[date, dict[str, int]](), None
    for time, before, after in rows.execute(CHANGES, MOST_CHANGES):
        found = moment(time)
        if found is None:
            continue
        day = found.date()
        days.setdefault(day, dict(+counts))
        for stored, number in ((before, 1), (after, -1)):
            status = _status(stored)
            if status is not None:
                counts[status] += number
    if day is not None:
        days[day - timedelta(days=1)] = dict(+counts)
    return days


def _status(stored: str | None) -> str | None:
    """Return the status in one side of a change, None if it is not among the changed columns."""
    if stored is not None and '"status"' in stored:
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            return line(json.loads(stored)["status"])
    return None


def read_learnings(rows: Rows) -> Mapping[str, Any]:
    """Return the newest learnings of all features, and the number of all.

    `unreadable` names the features with an invalid list, `not_looked_at` counts the ones beyond the
    read limit. `lacks` is why there are none.
    """
    lacks = rows.lacks("features", "learnings")
    found: list[tuple[datetime, int, Mapping[str, Any]]] = []
    unreadable, left, skipped = list[str](), MOST_CHARACTERS, 0
    rest = FILLED + rows.exactly("name")
    for name, stored in () if lacks else rows.read("features", ["name", "learnings"], rest):
        left -= len(str(stored))
        skipped += left < 0
        decoded = decode_learnings(stored if left >= 0 else "")
        if not decoded.readable:
            unreadable.append(line(name))
        for at, one in enumerate(decoded.values):
            found.append((moment(one.get("created")) or NEVER, at, {"feature": name, **one}))
    newest = nlargest(NEWEST, found, key=itemgetter(0, 1))
    return {
        "total": len(found),
        "newest": [
            {name: text_of(one.get(name)) for name, text_of in LEARNING.items()}
            for *_, one in newest
        ],
        "unreadable": unreadable[:NEWEST],
        "not_looked_at": skipped,
        "lacks": lacks,
    }


def read_specs(root: Path) -> Mapping[str, Any] | None:
    """Return the first specs by name, and the number of all; None if the kit is off."""
    settings = specum_settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return {"total": 0, "rows": (), "problem": line(error)}
    shown = [replace(row, problem=line(row.problem)) for row in found[:MOST_SPECS]]
    return {"total": len(found), "rows": shown, "problem": ""}
