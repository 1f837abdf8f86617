"""The board's pictures as coordinates; "macros/charts.html.jinja" prints them.

`x` and `width` are percents, `y` and `height` pixels: text keeps its size at each width. `points`
are in a box of 1000 by `TALL`. A picture has at most `MOST` marks and counts the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial

from ralphgen.ledger.record import Spent
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


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """A session on the time axis; `outcome` is one of `OUTCOMES`, `ended` None if unknown."""

    title: str
    begun: datetime
    ended: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One or more sessions, or a night; `kind` is an outcome, `known` or `unknown`."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A line (`spent`, `pace`, `limit`) or the area of a status; `y` is the place of its label."""

    kind: str
    points: str
    label: str = ""
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, and a table of the same; an empty one has only a summary.

    `ticks` are the labels of the axis with their `x`, and `key` has words for each kind.
    """

    summary: str
    height: int = TALL
    bars: tuple[Bar, ...] = ()
    shapes: tuple[Shape, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    key: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def timeline(sessions: Iterable[SessionSpan], begin: datetime, end: datetime) -> Picture:
    """Return the sessions between two times, in lanes and in the time zone of `begin`.

    With more than `MOST`, or more than `LANES` at once, they are counted in columns instead.
    """
    ends = [(one, end if one.outcome == "run" else one.ended or one.begun) for one in sessions]
    inside = [(one, until) for one, until in ends if one.begun <= end and until >= begin]
    if not inside:
        return Picture("No sessions.")
    clock = partial(_clock, begin=begin, end=end)
    lanes: list[float] = []  # their ends
    bars = []
    for one, until in sorted(inside, key=lambda pair: pair[0].begun)[: MOST + 1]:
        x = min(_percent(one.begun, begin, end), 100 - THIN)
        width = max(THIN, round(_percent(until, begin, end) - x, 2))
        lane = next((lane for lane, last in enumerate(lanes) if last <= x), len(lanes))
        lanes[lane : lane + 1] = [x + width + GAP]
        span = f"to {clock(one.ended)}" if one.ended else "with an unknown end"
        span = "until now" if one.outcome == "run" else span
        detail = f"{clock(one.begun)} {span}, {OUTCOMES[one.outcome]}"
        bars.append(Bar(x, lane * LANE + 2, width, BAR, one.outcome, one.title, detail))
    height = len(lanes) * LANE + 2
    if len(bars) > MOST or len(lanes) > LANES:
        bars, height = _columns([one for one, _ in inside], begin, end), TALL
    found = Counter(one.outcome for one, _ in inside)
    key = tuple((kind, f"{found[kind]} {OUTCOMES[kind]}") for kind in OUTCOMES if found[kind])
    words = ", ".join(words for _, words in key)
    return Picture(
        f"{_many(len(inside), 'session')} from {clock(begin)} to {clock(end)}: {words}.",
        height=height,
        bars=tuple(bars),
        ticks=_ticks(begin, end),
        key=key,
        head=("Session", "Time and outcome"),
        rows=tuple((one.label, one.detail) for one in bars),
    )


def _columns(sessions: Sequence[SessionSpan], begin: datetime, end: datetime) -> list[Bar]:
    """Return the numbers of sessions by the time of their beginning, the outcomes stacked."""
    cells, clock = MOST // len(OUTCOMES), partial(_clock, begin=begin, end=end)
    places = [
        min(int(_percent(one.begun, begin, end) * cells / 100), cells - 1) for one in sessions
    ]
    found = Counter(zip(places, (one.outcome for one in sessions), strict=True))
    top, bars = max(Counter(places).values()), []
    for cell in sorted({*places}):
        y, times = float(TALL), [begin + (end - begin) * at / cells for at in (cell, cell + 1)]
        detail = f"begun from {clock(times[0])} to {clock(times[1])}"
        for kind in reversed(OUTCOMES):
            if number := found[cell, kind]:
                height = round(max(2.0, number / top * (TALL - TEXT)), 1)
                y = round(y - height, 1)
                place = cell * 100 / cells, y, 90 / cells, height
                bars.append(Bar(*place, kind, f"{number} {OUTCOMES[kind]}", detail))
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
    spent, total, passed = Costs(), 0.0, _percent(now or end, begin, end)
    line, rows = {0: (0.0, 0.0)}, {}  # by a place on the axis, which limits their number
    for at, known, estimated in sorted(costs, key=lambda one: one[0]):
        spent.take({"cost_usd": known, "estimated_usd": estimated})
        total = (spent.known or 0.0) + (spent.estimated or 0.0)
        x = min(_percent(at, begin, end), passed)
        place = 1 + int(x * (MOST - 3) / 100)
        line[place], rows[place] = (x, total), (_clock(at, begin, end), str(spent))
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
        summary += f"; at this pace {cost_words(None, expected)} at {_clock(at, begin, end)}"
    return Picture(
        f"{summary}.",
        shapes=tuple(shapes),
        ticks=_ticks(begin, end),
        head=("Time", "Spent"),
        rows=tuple(rows.values()),
    )


def burn_up(days: Mapping[date, Mapping[str, int]]) -> Picture:
    """Return the tasks of each status over days as areas on top of each other.

    More than `MOST` days are thinned out evenly; the last one remains.
    """
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
        f"{_many(sum(rows[-1]), 'task')} on {dates[-1]:{DATE}}: {words}.",
        shapes=tuple(shapes),
        ticks=tuple((100.0 * at, f"{day:{DATE}}") for at, day in enumerate(ends)),
        key=key,
        head=("Day", *(one.replace("_", " ") for one in order)),
        rows=tuple((f"{day:{DATE}}", *map(str, row)) for day, row in zip(dates, rows, strict=True)),
    )


def nights(costs: Sequence[tuple[str, Spent]]) -> Picture:
    """Return a bar for the cost of each labelled night, the oldest first; the newest are shown."""
    if not costs:
        return Picture("No nights.")
    shown, bars = costs[-MOST:], []
    known = [(one.known or 0.0) + (one.estimated or 0.0) for _, one in shown]
    slot = min(100 / len(shown), 12.0)
    for at, (label, one) in enumerate(shown):
        words = cost_words(one.known, one.estimated, one.unknown) or "nothing spent"
        kind = "unknown" if one.known is one.estimated is None and one.unknown else "known"
        y = _y(known[at], max(known) or 1.0) if kind == "known" else float(TALL - TEXT)
        place = round(at * slot, 2), y, round(slot * 0.8, 2), round(TALL - y, 1)
        bars.append(Bar(*place, kind, label, words))
    has_unknown = any(one.kind == "unknown" for one in bars)
    left_out = len(costs) - len(shown)
    more = f"; {left_out} earlier ones are not shown" if left_out else ""
    return Picture(
        f"{_many(len(costs), 'night')}, the last one {bars[-1].detail}{more}.",
        bars=tuple(bars),
        ticks=tuple(
            (round(one.x + one.width / 2, 2), one.label) for one in bars[:: 1 + len(bars) // 7]
        ),
        key=(("known", "cost"), ("unknown", "cost unknown")) if has_unknown else (),
        head=("Night", "Cost"),
        rows=tuple((one.label, one.detail) for one in bars),
    )


def _percent(at: datetime, begin: datetime, end: datetime) -> float:
    """Return the place of a time on an axis of at least a second; the edge if it is outside."""
    length = max(end.timestamp() - begin.timestamp(), 1.0)
    return round(min(max((at.timestamp() - begin.timestamp()) / length, 0.0), 1.0) * 100, 2)


def _clock(at: datetime, begin: datetime, end: datetime) -> str:
    """Return a time in the zone of an axis, with the day if the axis is longer than one."""
    long = end - begin > timedelta(days=1)
    return at.astimezone(begin.tzinfo).strftime("%d %b %H:%M" if long else "%H:%M")


def _ticks(begin: datetime, end: datetime) -> tuple[tuple[float, str], ...]:
    """Return labels at whole steps of minutes, hours or days."""
    wanted = (end - begin) / timedelta(minutes=TICKS - 1)
    step = 60 * next((one for one in STEPS if one >= wanted), DAY * -int(-wanted // DAY))
    shift = (begin.utcoffset() or timedelta()).total_seconds()
    first = int(-(-(begin.timestamp() + shift) // step) * step - shift)
    found = []
    for stamp in range(first, int(end.timestamp()) + 1, step):
        at = datetime.fromtimestamp(stamp, begin.tzinfo)
        has_day = step >= DAY * 60 or (wanted > DAY / TICKS and not at.hour)
        found.append((_percent(at, begin, end), at.strftime("%d %b" if has_day else "%H:%M")))
    return tuple(found)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _y(value: float, top: float) -> float:
    return round(TALL - value / top * (TALL - TEXT), 1)


def _points(places: Iterable[tuple[float, float]], top: float) -> str:
    return " ".join(f"{x * 10:.1f},{_y(value, top)}" for x, value in places)
