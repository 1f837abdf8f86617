"""The board's pictures as coordinates; "macros/charts.html.jinja" prints them.

`x` and `width` are percents, `y` and `height` pixels: text keeps its size at each width. `points`
are in a box of 1000 by `TALL`. A picture has at most `MOST` marks and counts the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple

from ralphgen.errors import counted
from ralphgen.loop.cost import Costs, cost_words

MOST, TICKS = 200, 9  # of bars or points, and of labels on an axis
LANES = 10  # of sessions at the same time
LANE, BAR, TEXT, TALL = 16, 11, 12, 90  # pixels: of a lane with its bar, of a label, of a box
THIN, GAP = 0.8, 0.3  # percents: the width of the shortest bar, and the space behind each
OUTCOMES = {  # the most urgent first
    "ask": "asked a question",
    "stop": "stopped",
    "open": "left open",
    "run": "running",
    "done": "done",
}
STATUSES = ("done", "in_progress", "blocked", "pending", "draft", "skipped")  # the lowest first
DATE = "%d %b %Y"
HOUR, DAY = 60, 1_440  # minutes
STEPS = (5, 15, 30, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR)


class SessionSpan(NamedTuple):
    """A session on the time axis; `outcome` is one of `OUTCOMES`, `ended` None if unknown."""

    title: str
    begun: datetime
    ended: datetime | None
    outcome: str


class Bar(NamedTuple):
    """One or more sessions, or a night; `kind` is an outcome, `known` or `unknown`."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str
    detail: str


class Shape(NamedTuple):
    """A line (`spent`, `pace`, `limit`) or the area of a status; `y` is the place of its label."""

    kind: str
    points: str
    label: str = ""
    y: float | None = None


class Axis(NamedTuple):
    """An axis of time, in the time zone of its beginning."""

    begin: datetime
    end: datetime

    def percent(self, at: datetime) -> float:
        """Return the place of a time; the edge if it is outside."""
        length = max(self.end.timestamp() - self.begin.timestamp(), 1.0)
        place = (at.timestamp() - self.begin.timestamp()) / length
        return round(min(max(place, 0.0), 1.0) * 100, 2)

    def clock(self, at: datetime) -> str:
        """Return a time, with the day if the axis is longer than one."""
        is_long = self.end - self.begin > timedelta(days=1)
        return at.astimezone(self.begin.tzinfo).strftime("%d %b %H:%M" if is_long else "%H:%M")

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return labels at whole steps of minutes, hours or days."""
        wanted = (self.end - self.begin) / timedelta(minutes=TICKS - 1)
        step = 60 * next((one for one in STEPS if one >= wanted), DAY * -int(-wanted // DAY))
        shift = (self.begin.utcoffset() or timedelta()).total_seconds()
        first = int(-(-(self.begin.timestamp() + shift) // step) * step - shift)
        times = [
            datetime.fromtimestamp(stamp, self.begin.tzinfo)
            for stamp in range(first, int(self.end.timestamp()) + 1, step)
        ]
        days = [step >= DAY * 60 or (wanted > DAY / TICKS and not at.hour) for at in times]
        return tuple(
            (self.percent(at), at.strftime("%d %b" if day else "%H:%M"))
            for at, day in zip(times, days, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with labels of its axis and kinds, and a table; an empty one has only a summary."""

    summary: str
    height: int = TALL
    bars: tuple[Bar, ...] = ()
    shapes: tuple[Shape, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    key: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def timeline(sessions: Iterable[SessionSpan], begin: datetime, end: datetime) -> Picture:
    """Return the sessions between two times, in lanes; very many are counted in columns instead."""
    axis = Axis(begin, end)
    ends = [(one, end if one.outcome == "run" else one.ended or one.begun) for one in sessions]
    inside = [(one, until) for one, until in ends if one.begun <= end and until >= begin]
    if not inside:
        return Picture("No sessions.")
    lanes: list[float] = []  # their ends
    bars = []
    for one, until in sorted(inside, key=lambda pair: pair[0].begun)[: MOST + 1]:
        x = min(axis.percent(one.begun), 100 - THIN)
        width = max(THIN, round(axis.percent(until) - x, 2))
        lane = next((lane for lane, last in enumerate(lanes) if last <= x), len(lanes))
        lanes[lane : lane + 1] = [x + width + GAP]
        span = f"to {axis.clock(one.ended)}" if one.ended else "with an unknown end"
        span = "until now" if one.outcome == "run" else span
        detail = f"{axis.clock(one.begun)} {span}, {OUTCOMES[one.outcome]}"
        bars.append(Bar(x, lane * LANE + 2, width, BAR, one.outcome, one.title, detail))
    height = len(lanes) * LANE + 2
    if len(bars) > MOST or len(lanes) > LANES:
        bars, height = _columns([one for one, _ in inside], axis), TALL
    found = Counter(one.outcome for one, _ in inside)
    key = [(kind, f"{found[kind]} {OUTCOMES[kind]}") for kind in OUTCOMES if found[kind]]
    words = ", ".join(words for _, words in key)
    span = f"from {axis.clock(begin)} to {axis.clock(end)}"
    return Picture(
        f"{counted(len(inside), 'session')} {span}: {words}.",
        height,
        tuple(bars),
        ticks=axis.ticks(),
        key=tuple(key),
        head=("Session", "Time and outcome"),
        rows=tuple((one.label, one.detail) for one in bars),
    )


def _columns(sessions: Sequence[SessionSpan], axis: Axis) -> list[Bar]:
    """Return the numbers of sessions by the time of their beginning, the outcomes stacked."""
    cells, length = MOST // len(OUTCOMES), axis.end - axis.begin
    places = [min(int(axis.percent(one.begun) * cells / 100), cells - 1) for one in sessions]
    found = Counter(zip(places, (one.outcome for one in sessions), strict=True))
    top, bars = max(Counter(places).values()), []
    for cell in sorted({*places}):
        y = float(TALL)
        first, last = (axis.clock(axis.begin + length * at / cells) for at in (cell, cell + 1))
        for kind in reversed(OUTCOMES):
            if number := found[cell, kind]:
                height = round(max(2.0, number / top * (TALL - TEXT)), 1)
                y = round(y - height, 1)
                place = cell * 100 / cells, y, 90 / cells, height
                label, detail = f"{number} {OUTCOMES[kind]}", f"begun from {first} to {last}"
                bars.append(Bar(*place, kind, label, detail))
    return bars


def spending(
    costs: Iterable[tuple[datetime, float | None, float | None]],
    budget: float | None,
    begin: datetime,
    end: datetime,
    now: datetime | None = None,
) -> Picture:
    """Return the sum of reported and estimated costs in US dollars at their times.

    The line ends at `now` (default: `end`); another continues it at the same pace, up to `budget`.
    """
    axis = Axis(begin, end)
    spent, total, passed = Costs(), 0.0, axis.percent(now or end)
    line, rows = {0: (0.0, 0.0)}, {}  # by a place on the axis, which limits their number
    for at, known, estimated in sorted(costs, key=lambda one: one[0]):
        spent.take({"cost_usd": known, "estimated_usd": estimated})
        total = _sum(spent)
        x = min(axis.percent(at), passed)
        place = 1 + int(x * (MOST - 3) / 100)
        line[place], rows[place] = (x, total), (axis.clock(at), str(spent))
    line[MOST] = passed, total
    x, expected = 100.0, total * 100 / (passed or 100)
    if budget and total < budget < expected:
        x, expected = passed * budget / total, budget
    top = max(budget or 0.0, expected) or 1.0
    summary = str(spent) or "nothing spent"
    shapes = [Shape("spent", _points(line.values(), top))] if total else []
    if budget is not None:
        y, label = _y(budget, top), f"${budget:,.2f}"
        summary += f" of {label}" if total else f", budget {label}"
        shapes.append(Shape("limit", f"0,{y} 1000,{y}", label, y + TEXT))
    if total < expected:
        shapes.append(Shape("pace", _points([line[MOST], (x, expected)], top)))
        at = begin + (end - begin) * x / 100
        summary += f"; at this pace {cost_words(None, expected)} at {axis.clock(at)}"
    return Picture(
        f"{summary}.",
        shapes=tuple(shapes),
        ticks=axis.ticks(),
        head=("Time", "Spent"),
        rows=tuple(rows.values()),
    )


def burn_up(days: Mapping[date, Mapping[str, int]]) -> Picture:
    """Return the tasks of each status over days as stacked areas; many days are thinned out."""
    dates = sorted(days)[:: -1 - len(days) // MOST][::-1]
    names = {status for day in dates for status, number in days[day].items() if number}
    if not names:
        return Picture("No tasks.")
    order = [one for one in STATUSES if one in names] + sorted(names.difference(STATUSES))
    rows = [[days[day].get(one, 0) for one in order] for day in dates]
    top, length = max(map(sum, rows)), (dates[-1] - dates[0]).days
    # A second point for the last day: a single day is drawn from edge to edge.
    xs = [*((day - dates[0]).days / (length or 1) * 100 for day in dates), 100.0]
    shapes = []
    for at, status in enumerate(order):
        low, high = ([sum(row[:to]) for row in [*rows, rows[-1]]] for to in (at, at + 1))
        outline = [*zip(xs, high, strict=True), *[*zip(xs, low, strict=True)][::-1]]
        bottom, ceiling = _y(low[-1], top), _y(high[-1], top)
        y = (bottom + ceiling + TEXT) / 2 - 2 if bottom - ceiling >= TEXT else None
        label = f"{rows[-1][at]} {status.replace('_', ' ')}"
        shapes.append(Shape(status, _points(outline, top), label, y))
    key = tuple((one.kind, one.label) for one in reversed(shapes))
    words = ", ".join(label for _, label in key)
    ends = dict.fromkeys((dates[0], dates[-1]))
    return Picture(
        f"{counted(sum(rows[-1]), 'task')} on {dates[-1]:{DATE}}: {words}.",
        shapes=tuple(shapes),
        ticks=tuple((100.0 * at, f"{day:{DATE}}") for at, day in enumerate(ends)),
        key=key,
        head=("Day", *(one.replace("_", " ") for one in order)),
        rows=tuple((f"{day:{DATE}}", *map(str, row)) for day, row in zip(dates, rows, strict=True)),
    )


def nights(costs: Sequence[tuple[str, Costs]]) -> Picture:
    """Return a bar for the cost of each labelled night, the oldest first; the newest are shown."""
    if not costs:
        return Picture("No nights.")
    shown, slot = costs[-MOST:], min(100 / len(costs[-MOST:]), 12.0)
    top = max(_sum(one) for _, one in shown) or 1.0
    bars = []
    for at, (label, one) in enumerate(shown):
        is_known = not one.unknown or one.known is not None or one.estimated is not None
        y = _y(_sum(one), top) if is_known else float(TALL - TEXT)
        place = round(at * slot, 2), y, round(slot * 0.8, 2), round(TALL - y, 1)
        kind, words = "known" if is_known else "unknown", str(one) or "nothing spent"
        bars.append(Bar(*place, kind, label, words))
    has_unknown = any(one.kind == "unknown" for one in bars)
    left_out = len(costs) - len(shown)
    more = f"; {left_out} earlier ones are not shown" if left_out else ""
    labelled = bars[:: 1 + len(bars) // 7]
    return Picture(
        f"{counted(len(costs), 'night')}, the last one {bars[-1].detail}{more}.",
        bars=tuple(bars),
        ticks=tuple((round(one.x + one.width / 2, 2), one.label) for one in labelled),
        key=(("known", "cost"), ("unknown", "cost unknown")) if has_unknown else (),
        head=("Night", "Cost"),
        rows=tuple((one.label, one.detail) for one in bars),
    )


def _sum(costs: Costs) -> float:
    return (costs.known or 0.0) + (costs.estimated or 0.0)


def _y(value: float, top: float) -> float:
    return round(TALL - value / top * (TALL - TEXT), 1)


def _points(places: Iterable[tuple[float, float]], top: float) -> str:
    return " ".join(f"{x * 10:.1f},{_y(value, top)}" for x, value in places)
