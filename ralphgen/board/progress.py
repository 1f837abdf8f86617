"""The progress of a project: its tasks by feature and day, its nights, learnings and specs."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Any

from ralphgen.board import nights
from ralphgen.board.live import specum_settings
from ralphgen.board.text import line, moment, natural, paragraph
from ralphgen.kits.ralph.rows import NOT_ACTIONABLE, Rows, decode_learnings
from ralphgen.kits.specum.progress import SpecProgress, spec_progress
from ralphgen.ledger.record import SessionRecord, Spent, newest_sessions
from ralphgen.runtime.errors import ToolError

MOST_SPECS = 200
FEATURES = 200
ORDER = ("done", "in_progress", "blocked", "pending", "draft", "skipped")
STATUS_NAMES = 30
OTHERS = "others"
NEWEST = 20  # learnings
MOST_CHARACTERS = 2_000_000
"""Limits the stored learnings that are read; learnings of further features are only counted."""
SHORT = 10_000  # characters of a list that is remembered
MOST_CHANGES = 10_000  # of tasks, in the picture of their statuses
MOST_SESSIONS = 2_000  # in the picture of the nights
CHANGES = (
    "SELECT time, before, after FROM ralphgen_journal WHERE lower(table_name) = 'tasks'"
    " ORDER BY number DESC LIMIT ?"
)
COUNTED = "SELECT FEATURE, STATUS, COUNT(*) FROM tasks GROUP BY 1, 2"
FILLED = "WHERE CAST(learnings AS TEXT) NOT IN ('', '[]') ORDER BY "


@dataclass(frozen=True, slots=True)
class Share:
    """The tasks of one status; `start` counts the tasks of earlier statuses."""

    status: str
    count: int
    start: int


@dataclass(frozen=True, slots=True)
class FeatureProgress:
    """The tasks of a feature, or of all; `known` is whether the feature has its own row.

    `actionable` are all except drafts and skipped ones, and `percent` is the done share of those,
    rounded down.
    """

    name: str
    title: str
    known: bool
    shares: tuple[Share, ...]
    total: int
    actionable: int
    done: int
    percent: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The tasks of all features, by title; `left_out` counts the features that are not shown."""

    overall: FeatureProgress
    features: tuple[FeatureProgress, ...]
    left_out: int


def read_progress(rows: Rows) -> Progress:
    """Return the progress of every feature, including those without tasks."""
    sql = COUNTED.replace("FEATURE", rows.exactly("feature"))
    by_feature: dict[str, Counter[str]] = {}
    for feature, status, count in rows.execute(sql.replace("STATUS", rows.exactly("status"))):
        by_feature.setdefault(line(feature), Counter())[line(status)] += count
    columns = ["name", *rows.chosen("features", "display_name")]
    titles = {line(row[0]): line(row[-1]).strip() for row in rows.read("features", columns)}
    names = {name: title or name for name, title in titles.items()}
    overall = sum(by_feature.values(), Counter[str]())
    usual = [one for one in ORDER if one in overall]
    rest = sorted(overall.keys() - {*usual}, key=lambda one: (-overall[one], one))
    statuses = (*usual, *sorted(rest[:STATUS_NAMES]), *([OTHERS] if rest[STATUS_NAMES:] else []))
    listed = sorted({*by_feature, *names}, key=lambda one: (natural(names.get(one) or one), one))
    features = tuple(
        _progress(name, names.get(name, name), by_feature.get(name, Counter()), statuses)
        for name in listed[:FEATURES]
    )
    features = tuple(replace(one, known=one.name in names) for one in features)
    return Progress(
        _progress("", "All", overall, statuses), features, max(0, len(listed) - FEATURES)
    )


def _progress(
    name: str, title: str, counts: Mapping[str, int], statuses: Sequence[str]
) -> FeatureProgress:
    total, done = sum(counts.values()), counts.get("done", 0)
    actionable = total - sum(counts.get(one, 0) for one in NOT_ACTIONABLE)
    named, start, shares = sum(counts.get(one, 0) for one in statuses), 0, list[Share]()
    for status in statuses:
        count = counts.get(status, 0) if status != OTHERS else total - named
        if count:
            shares.append(Share(status, count, start))
        start += count
    percent = done * 100 // actionable if actionable else 0
    return FeatureProgress(name, title, True, tuple(shares), total, actionable, done, percent)


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
        days.setdefault(day, {one: count for one, count in counts.items() if count > 0})
        for stored, number in ((before, 1), (after, -1)):
            status = _status(stored)
            if status is not None:
                counts[status] += number
    if day is not None:
        earlier = {one: count for one, count in counts.items() if count > 0}
        days[day - timedelta(days=1)] = earlier
    return days


def _status(stored: str | None) -> str | None:
    """Return the status in one side of a change, None if it is not among the changed columns."""
    if stored is None or '"status"' not in stored:
        return None
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    return line(found["status"]) if isinstance(found, dict) and "status" in found else None


def read_nights(rows: Rows, working: Collection[str] | None = None) -> list[tuple[datetime, Spent]]:
    """Return the beginning and the cost of each night with agents' sessions that do not work now.

    Without `working`, these are the ended ones, which is the same on every machine.
    """
    found = [
        one
        for one in newest_sessions(rows, MOST_SESSIONS)
        if one.agent and (one.ended if working is None else one.session_id not in working)
    ]
    return [(night.begin, _spent(night.sessions)) for night in reversed(nights.nights(found))]


def _spent(sessions: Sequence[SessionRecord]) -> Spent:
    known = [one.cost_usd for one in sessions if one.cost_usd is not None]
    estimated = [
        one.estimated_usd
        for one in sessions
        if one.cost_usd is None and one.estimated_usd is not None
    ]
    return Spent(
        count=len(sessions),
        known=sum(known) if known else None,
        estimated=sum(estimated) if estimated else None,
        unknown=len(sessions) - len(known) - len(estimated),
    )


@dataclass(frozen=True, slots=True)
class Learning:
    """A learning of a feature."""

    feature: str
    text: str
    reason: str
    source: str
    created: str


@dataclass(frozen=True, slots=True)
class Learnings:
    """Learnings, newest first; `total` counts the learnings of all features.

    `unreadable` names the features with an invalid list, `not_looked_at` counts the ones beyond the
    read limit. `lacks` is why there are none.
    """

    total: int
    newest: tuple[Learning, ...]
    unreadable: tuple[str, ...] = ()
    not_looked_at: int = 0
    lacks: str = ""


Learned = tuple[int, list[tuple[datetime, int, dict[str, Any]]]]
"""How many learnings a feature has, and the newest with their moments and places."""
_NEVER = datetime.min.replace(tzinfo=UTC)


def read_learnings(rows: Rows) -> Learnings:
    """Return the newest learnings of all features."""
    lacks = rows.lacks("features", "learnings")
    if lacks:
        return Learnings(0, (), lacks=lacks)
    found: list[tuple[datetime, int, object, dict[str, Any]]] = []
    unreadable: list[str] = []
    left, skipped, total = MOST_CHARACTERS, 0, 0
    for name, stored in rows.read("features", ["name", "learnings"], FILLED + rows.exactly("name")):
        left -= len(stored) if isinstance(stored, str) else 0
        if left < 0:
            skipped += 1
            continue
        # Short lists are remembered: of hundreds of features, one has changed since.
        short = isinstance(stored, str) and len(stored) <= SHORT
        learned = _remembered(stored) if short else _newest(stored)
        if learned is None:
            unreadable.append(line(name))
        else:
            total += learned[0]
            found += [(when, at, name, one) for when, at, one in learned[1]]
    newest = tuple(
        Learning(
            feature=line(feature),
            text=paragraph(one["text"]),
            reason=paragraph(one.get("reason")),
            source=line(one["source"]),
            created=line(one.get("created")),
        )
        for _, _, feature, one in nlargest(NEWEST, found, key=itemgetter(0, 1))
    )
    return Learnings(total, newest, tuple(unreadable[:NEWEST]), skipped)


def _newest(stored: object) -> Learned | None:
    decoded = decode_learnings(stored)
    if not decoded.readable:
        return None
    dated = [
        (moment(one.get("created")) or _NEVER, at, one) for at, one in enumerate(decoded.values)
    ]
    return len(dated), nlargest(NEWEST, dated, key=itemgetter(0, 1))


_remembered = lru_cache(maxsize=1_000)(_newest)


@dataclass(frozen=True, slots=True)
class SpecList:
    """The first specs of `total`, by name; `problem` is why none are shown."""

    total: int
    rows: tuple[SpecProgress, ...]
    problem: str = ""


def read_specs(root: Path) -> SpecList | None:
    """Return the specs of the project in `root`, or None if the kit is off."""
    settings = specum_settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return SpecList(0, (), line(error))
    shown = (replace(row, problem=line(row.problem)) for row in found[:MOST_SPECS])
    return SpecList(len(found), tuple(shown))
