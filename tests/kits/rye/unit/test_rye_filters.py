"""Search filters on the metadata of items."""

from typing import Any

import pytest
from rye_searching import answer, put
from rye_workspaces import Workspace

from ralphgen.runtime.errors import CodedError


class TestFilters:
    """Filters by version, tag, date and other metadata."""

    @pytest.fixture(autouse=True)
    def items(self, workspace: Workspace) -> None:
        put(workspace, "area/a", "x", version="1.9.0", tags=["Alpha", "beta"], level=5)
        put(workspace, "area/b", "x", version="1.10.0", tags=["beta"], created_at="2026-01-02")
        put(workspace, "c", "x", version="2.0", tags=[], created_at="2026-01-31T12:00:00+02:00")

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({}, "abc"),
            ({"version": "1.9.0"}, "a"),
            ({"version": ["1.9.0", "2.0"]}, "ac"),
            ({"version": "!1.9.0"}, "bc"),
            ({"version": ">1.9"}, "bc"),
            ({"version": ">=1.9"}, "abc"),
            ({"version": "<1.10"}, "a"),
            ({"version": "<= 2.0.0"}, "abc"),
            ({"version": ">1.x"}, ""),
            ({"tags": "alpha"}, "a"),
            ({"tags": ["alpha", "beta"]}, "ab"),
            ({"tags": "!alpha"}, "bc"),
            ({"tags": "alph"}, ""),
            ({"tags": "beta", "version": ">1.9"}, "b"),
            ({"level": 5}, "a"),
            ({"level": "5"}, "a"),
            ({"level": ">4.5"}, "a"),
            ({"level": "<4"}, ""),
            ({"level": ">x"}, ""),
            ({"category": "AREA"}, "ab"),
            ({"category": ""}, "c"),
            ({"source": "project", "type": "knowledge"}, "abc"),
            ({"name": ["a", "c"]}, "ac"),
            ({"unknown": "x"}, ""),
            ({"unknown": "!x"}, ""),
            ({"date_from": "2026-01-02"}, "bc"),
            ({"date_from": "2026-01-03"}, "c"),
            ({"date_to": "2026-01-31"}, "bc"),
            ({"date_to": "2026-01-31T09:59:59Z"}, "b"),
            ({"date_from": "2026-01-31T10:00:00Z"}, "c"),
            ({"created_at": ">2026-01-02"}, "c"),
            ({"created_at": "<=2026-01-31"}, "bc"),
            ({"created_at": "<2026-01-31"}, "b"),
        ],
    )
    def test_only_what_passes_is_found(
        self, workspace: Workspace, filters: dict[str, Any], expected: str
    ) -> None:
        told = answer(workspace, "x", filters=filters)

        assert sorted(expected) == sorted(result["name"] for result in told["results"])
        assert len(expected) == told["total"]

    @pytest.mark.parametrize(
        "filters",
        [
            {"version": {}},
            {"version": []},
            {"version": [[]]},
            {"version": None},
            {"version": ">="},
            {"version": "x" * 501},
            {"date_from": "yesterday"},
            {"date_to": 5},
            {"version": ["x"] * 21},
            {f"field{number}": "x" for number in range(21)},
        ],
    )
    def test_filters_that_mean_nothing_are_refused(
        self, workspace: Workspace, filters: dict[str, Any]
    ) -> None:
        with pytest.raises(CodedError, match='"filters') as caught:
            answer(workspace, "x", filters=filters)

        assert "VALIDATION_FAILED" == caught.value.code
