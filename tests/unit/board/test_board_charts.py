"""Pictures of the board: their coordinates, their texts, and the HTML of their macro."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from xml.etree.ElementTree import Element
from zoneinfo import ZoneInfo

import pytest
from defusedxml.ElementTree import fromstring

from ralphgen.board.charts import (
    MOST,
    Picture,
    SessionSpan,
    burn_up,
    nights,
    spending,
    timeline,
)
from ralphgen.board.render import environment
from ralphgen.loop.cost import Costs

BEGIN = datetime(2026, 11, 27, 22, 40, tzinfo=timezone(timedelta(hours=1)))
END = BEGIN + timedelta(hours=8)
HOSTILE = """</title><script>alert("1")</script> & 'two'"""


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def session(
    begun: float, ended: float | None, outcome: str = "done", title: str = "a"
) -> SessionSpan:
    return SessionSpan(title, at(begun), None if ended is None else at(ended), outcome)


def printed(view: Picture, name: str = "Sessions", *, table: bool = True) -> str:
    source = "{{ charts.picture(view, name, table=table) }}"
    return environment().from_string(source).render(view=view, name=name, table=table)


def svg(view: Picture, name: str = "Sessions") -> Element:
    """The picture as XML, which fails if a text is not escaped."""
    found = re.search(r'<svg role="img".*?</svg>\n<p', printed(view, name), re.DOTALL)
    assert found is not None
    return fromstring(found[0].removesuffix("<p"))


def texts(view: Picture) -> list[str]:
    return [view.summary, *(text for row in view.rows for text in row)]


class TestTimeline:
    """Sessions on a time axis."""

    def test_no_sessions_are_a_sentence(self) -> None:
        assert timeline([], BEGIN, END) == Picture("No sessions.")
        assert "<svg" not in printed(timeline([], BEGIN, END))

    def test_one_session_is_a_bar_at_its_time(self) -> None:
        view = timeline([session(0, 240)], BEGIN, END)

        (bar,) = view.bars
        assert (0.0, 50.0, "done") == (bar.x, bar.width, bar.kind)
        assert "22:40 to 02:40, done" == bar.detail
        assert "1 session from 22:40 to 06:40: 1 done." == view.summary

    def test_hours_follow_the_time_zone(self) -> None:
        begun = SessionSpan("a", BEGIN.astimezone(UTC), at(30).astimezone(UTC), "done")

        view = timeline([begun], BEGIN, END)

        assert ["23:00", "00:00", "01:00"] == [label for _, label in view.ticks[:3]]
        assert "22:40 to 23:10, done" == view.bars[0].detail

    def test_hours_of_a_night_with_a_change_of_the_clock_are_whole(self) -> None:
        begin = datetime(2026, 10, 24, 23, 30, tzinfo=ZoneInfo("Europe/Berlin"))
        end = datetime(2026, 10, 25, 4, 30, tzinfo=ZoneInfo("Europe/Berlin"))  # six hours later

        view = timeline([SessionSpan("a", begin, end, "done")], begin, end)

        assert ["00:00", "01:00", "02:00", "02:00", "03:00", "04:00"] == [
            label for _, label in view.ticks
        ]
        assert 100.0 == view.bars[0].width

    @pytest.mark.parametrize(
        ("minutes", "labels"),
        [
            (20, ["22:40", "22:45", "22:50", "22:55", "23:00"]),
            (60, ["22:45", "23:00", "23:15", "23:30"]),
            (
                60 * 24 * 2,
                ["28 Nov", "06:00", "12:00", "18:00", "29 Nov", "06:00", "12:00", "18:00"],
            ),
            (60 * 24 * 30, ["01 Dec", "05 Dec", "09 Dec"]),
        ],
    )
    def test_the_axis_has_few_labels_at_whole_steps(self, minutes: int, labels: list[str]) -> None:
        view = timeline([session(0, minutes)], BEGIN, at(minutes))

        assert labels == [label for _, label in view.ticks][: len(labels)]
        assert len(view.ticks) <= 10

    def test_sessions_at_the_same_time_are_in_different_lanes(self) -> None:
        view = timeline(
            [session(0, 60), session(10, 20), session(65, 90), session(30, 70)], BEGIN, END
        )

        assert [2, 18, 18, 2] == [bar.y for bar in view.bars]
        assert not overlapping(view)

    def test_a_session_without_duration_is_visible(self) -> None:
        """Also two at the same moment, at the end of the axis, or with an end before its start."""
        view = timeline(
            [session(5, 5), session(5, 5), session(480, 480), session(9, 2)], BEGIN, END
        )

        assert 4 == len(view.bars)
        assert all(bar.width >= 0.8 and bar.x + bar.width <= 100 for bar in view.bars)
        assert not overlapping(view)

    def test_a_running_session_ends_now(self) -> None:
        (bar,) = timeline([session(240, None, "run")], BEGIN, END).bars

        assert (50.0, 50.0) == (bar.x, bar.width)
        assert "02:40 until now, running" == bar.detail

    def test_an_unknown_end_is_not_made_up(self) -> None:
        (bar,) = timeline([session(240, None, "stop")], BEGIN, END).bars

        assert 0.8 == bar.width
        assert "02:40 with an unknown end, stopped" == bar.detail

    def test_sessions_outside_of_the_axis_are_cut_or_left_out(self) -> None:
        view = timeline([session(-90, -5), session(-5, 48), session(600, 700)], BEGIN, END)

        assert [(0.0, 10.0)] == [(bar.x, bar.width) for bar in view.bars]
        assert view.summary.startswith("1 session ")

    def test_an_axis_without_length_has_bars(self) -> None:
        view = timeline([session(0, 0)], BEGIN, BEGIN)

        assert 1 == len(view.bars)
        assert svg(view) is not None

    def test_outcomes_have_words_and_signs_besides_colours(self) -> None:
        kinds = ("ask", "stop", "open", "run", "done")
        view = timeline(
            [session(60 * n, 60 * n + 50, kind) for n, kind in enumerate(kinds)], BEGIN, END
        )

        assert list(kinds) == [kind for kind, _ in view.key]
        signs = {one.get("class") for one in svg(view).iter("line")} - {"g"}
        assert {"o-ask", "o-stop", "o-open", "o-run"} == signs

    def test_a_thousand_sessions_are_counted_in_columns(self) -> None:
        kinds = ("ask", "stop", "open", "done", "done")
        many = [session(n * 0.4, n * 0.4 + 9, kinds[n % 5]) for n in range(1_000)]

        view = timeline(many, BEGIN, END)

        assert len(view.bars) <= MOST
        assert 1_000 == sum(int(bar.label.split()[0]) for bar in view.bars)
        assert "1,000 sessions" in view.summary
        assert "200 asked a question" in view.summary
        assert all(0 <= bar.y and bar.y + bar.height <= 90 for bar in view.bars)
        assert len(printed(view, table=False)) < 45_000

    def test_many_sessions_at_once_are_counted_in_columns(self) -> None:
        view = timeline([session(0, 400)] * 30, BEGIN, END)

        assert ["30 done"] == [bar.label for bar in view.bars]
        assert "begun from 22:40 to 22:52" == view.bars[0].detail


def overlapping(view: Picture) -> list[tuple[str, str]]:
    return [
        (one.label, other.label)
        for number, one in enumerate(view.bars)
        for other in view.bars[number + 1 :]
        if one.y == other.y and one.x < other.x + other.width and other.x < one.x + one.width
    ]


class TestSpending:
    """The cost over time against a budget."""

    def test_the_line_adds_up_reported_and_estimated_costs(self) -> None:
        view = spending([(at(120), 2.0, None), (at(60), None, 1.0)], 10.0, BEGIN, END, at(240))

        spent, limit, pace = view.shapes
        assert "0.0,90.0 125.0,82.2 250.0,66.6 500.0,66.6" == spent.points
        assert ("0,12.0 1000,12.0", "$10.00") == (limit.points, limit.label)
        assert "500.0,66.6 1000.0,43.2" == pace.points
        assert "about $3.00 of $10.00; at this pace about $6.00 at 06:40." == view.summary
        assert (("23:40", "about $1.00"), ("00:40", "about $3.00")) == view.rows

    def test_the_pace_ends_at_the_budget(self) -> None:
        view = spending([(at(60), 4.0, None)], 8.0, BEGIN, END, at(120))

        assert "500.0,12.0" == view.shapes[-1].points.split()[-1]
        assert view.summary.endswith("at this pace about $8.00 at 02:40.")

    @pytest.mark.parametrize("budget", [None, 0.0, 5.0])
    def test_an_unknown_cost_is_never_zero(self, budget: float | None) -> None:
        view = spending([(at(60), None, None)], budget, BEGIN, END)

        assert (("23:40", "cost unknown"),) == view.rows
        assert view.summary.startswith("cost unknown")
        assert [] == [one.kind for one in view.shapes if one.kind != "limit"]
        assert not re.search(r"\$0\.00", "".join(texts(view)).replace("budget $0.00", ""))

    def test_sessions_of_unknown_cost_are_counted(self) -> None:
        view = spending([(at(60), None, None), (at(90), 1.5, None)], None, BEGIN, END)

        assert "$1.50 + 1 unknown." == view.summary

    def test_nothing_spent_is_a_sentence(self) -> None:
        assert "nothing spent." == spending([], None, BEGIN, END).summary
        assert "<svg" not in printed(spending([], None, BEGIN, END))

    @pytest.mark.parametrize("end", [BEGIN, END])
    def test_costs_beyond_an_axis_are_inside_the_picture(self, end: datetime) -> None:
        costs = [(at(minutes), 1.0, None) for minutes in (-60, 0, 480, 900)]

        view = spending(costs, 2.0, BEGIN, end)

        points = [tuple(map(float, one.split(","))) for one in view.shapes[0].points.split()]
        assert all(0 <= x <= 1_000 and 0 <= y <= 90 for x, y in points)
        assert "$4.00 of $2.00." == view.summary

    def test_a_thousand_costs_are_a_bounded_line_with_the_whole_sum(self) -> None:
        view = spending([(at(n * 0.48), 0.01, None) for n in range(1_000)], 20.0, BEGIN, END)

        assert len(view.shapes[0].points.split()) <= MOST
        assert len(view.rows) <= MOST
        assert ("$10.00", "$10.00 of $20.00.") == (view.rows[-1][1], view.summary)


class TestBurnUp:
    """Tasks by status over days."""

    def test_areas_are_on_top_of_each_other(self) -> None:
        days = {
            date(2026, 11, 2): {"done": 2, "pending": 2},
            date(2026, 11, 1): {"pending": 4},
        }

        view = burn_up(days)

        done, pending = view.shapes
        assert "0.0,90.0 1000.0,51.0 1000.0,51.0 1000.0,90.0 1000.0,90.0 0.0,90.0" == done.points
        assert "0.0,12.0 1000.0,12.0 1000.0,12.0 1000.0,51.0 1000.0,51.0 0.0,90.0" == pending.points
        assert "4 tasks on 02 Nov 2026: 2 pending, 2 done." == view.summary
        assert (("01 Nov 2026", "0", "4"), ("02 Nov 2026", "2", "2")) == view.rows
        assert ("Day", "done", "pending") == view.head

    @pytest.mark.parametrize(
        "days", [{}, {date(2026, 11, 1): {}}, {date(2026, 11, 1): {"done": 0}}]
    )
    def test_no_tasks_are_a_sentence(self, days: dict[date, dict[str, int]]) -> None:
        assert burn_up(days) == Picture("No tasks.")

    def test_one_day_is_drawn_from_edge_to_edge(self) -> None:
        (area,) = burn_up({date(2026, 11, 1): {"done": 3}}).shapes

        assert {"0.0", "1000.0"} == {point.split(",")[0] for point in area.points.split()}
        assert "3 done" == area.label

    def test_days_are_at_their_dates_though_some_are_missing(self) -> None:
        days = {date(2026, 11, day): {"done": day} for day in (1, 2, 11)}

        (area,) = burn_up(days).shapes

        assert ["0.0", "100.0", "1000.0"] == [one.split(",")[0] for one in area.points.split()[:3]]

    def test_a_status_of_the_project_has_an_area(self) -> None:
        view = burn_up({date(2026, 11, 1): {HOSTILE: 3, "done": 1}})

        assert ["done", HOSTILE] == [one.kind for one in view.shapes]
        classes = [one.get("class") for one in svg(view).iter("polyline")]
        assert ["v-done", "v-other"] == classes

    def test_many_days_are_thinned_out_and_the_last_one_remains(self) -> None:
        first = date(2020, 1, 1)
        view = burn_up({first + timedelta(days=n): {"done": n} for n in range(1_000)})

        assert len(view.rows) <= MOST
        assert ("26 Sep 2022", "999") == view.rows[-1]

    def test_an_area_without_space_has_no_label_in_the_picture(self) -> None:
        view = burn_up({date(2026, 11, 1): {"done": 99, "blocked": 1}})

        assert [True, False] == [one.y is not None for one in view.shapes]
        assert (("blocked", "1 blocked"), ("done", "99 done")) == view.key


class TestNights:
    """The cost of each night."""

    def test_each_night_is_a_bar(self) -> None:
        view = nights([("Mon", Costs(5.0, None, 0)), ("Tue", Costs(9.0, 1.0, 1))])

        assert [(0.0, 51.0, 39.0), (12.0, 12.0, 78.0)] == [
            (bar.x, bar.y, bar.height) for bar in view.bars
        ]
        assert (("Mon", "$5.00"), ("Tue", "about $10.00 + 1 unknown")) == view.rows
        assert "2 nights, the last one about $10.00 + 1 unknown." == view.summary

    def test_an_unknown_cost_is_a_bar_of_another_kind_and_never_zero(self) -> None:
        view = nights([("Mon", Costs(None, None, 2))])

        assert ("unknown", "cost unknown") == (view.bars[0].kind, view.bars[0].detail)
        assert view.bars[0].height > 0
        assert "$" not in printed(view)

    def test_a_reported_cost_of_zero_is_known(self) -> None:
        (bar,) = nights([("Mon", Costs(0.0, None, 0))]).bars

        assert ("known", "$0.00", 0.0) == (bar.kind, bar.detail, bar.height)

    def test_a_night_without_sessions_of_agents_costs_nothing(self) -> None:
        assert "nothing spent" == nights([("Mon", Costs(None, None, 0))]).bars[0].detail

    def test_no_nights_are_a_sentence(self) -> None:
        assert nights([]) == Picture("No nights.")

    def test_the_newest_of_many_nights_are_shown_and_the_others_counted(self) -> None:
        view = nights([(str(n), Costs(1.0, None, 0)) for n in range(1_000)])

        assert (MOST, "999") == (len(view.bars), view.bars[-1].label)
        assert view.summary.endswith("800 earlier ones are not shown.")
        assert len(view.ticks) <= 8
        assert all(bar.x + bar.width <= 100 for bar in view.bars)


VIEWS: Sequence[Picture] = (
    timeline([session(0, 9, kind, HOSTILE) for kind in ("done", "ask")], BEGIN, END),
    spending([(at(60), 1.0, None)], 10.0, BEGIN, END, at(90)),
    burn_up({date(2026, 11, 1): {HOSTILE: 3, "done": 1}, date(2026, 11, 2): {"done": 9}}),
    nights([(HOSTILE, Costs(1.0, None, 0)), ("b", Costs(None, None, 1))]),
)


@pytest.mark.parametrize("view", VIEWS)
class TestMacro:
    """The HTML of any picture."""

    def test_a_picture_has_a_name_and_a_description(self, view: Picture) -> None:
        found = svg(view, HOSTILE)

        assert "img" == found.get("role")
        assert [("title", HOSTILE), ("desc", view.summary)] == [
            (one.tag, one.text) for one in list(found)[:2]
        ]

    def test_no_text_is_markup(self, view: Picture) -> None:
        text = printed(view, HOSTILE)

        assert "<script" not in text
        assert HOSTILE in [one.text for one in svg(view, HOSTILE).iter()]

    def test_no_style_script_link_or_id_is_in_it(self, view: Picture) -> None:
        """The policy of the page refuses styles, and a page may have a picture twice."""
        assert not re.search(r"""\s(?:style|on\w+|href|id)=|<(?:style|script|a)\b""", printed(view))

    @pytest.mark.parametrize("macro", ["timeline", "spending", "burn_up", "nights"])
    def test_each_kind_has_a_name(self, view: Picture, macro: str) -> None:
        text = environment().from_string(f"{{{{ charts.{macro}(view) }}}}").render(view=view)

        assert re.search(r"<title>[A-Z][a-z ]+</title>\n<desc>", text)

    def test_a_table_has_the_same_values(self, view: Picture) -> None:
        text = printed(view)

        assert text.count("<tr>") == 1 + len(view.rows)
        assert "<table" not in printed(view, table=False)
