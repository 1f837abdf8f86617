"""The noun of `tools add` for one row of a table."""

import pytest

from ralphgen.kits.tables.finding import noun_of
from ralphgen.project.model import Table


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        *(("orders", "order"), ("order_lines", "order_line"), ("OrderLines", "order_line")),
        *(("categories", "category"), ("companies", "company"), ("cities", "city")),
        *(("policies", "policy"), ("queries", "query"), ("deliveries", "delivery")),
        *(("entries", "entry"), ("properties", "property"), ("histories", "history")),
        *(("addresses", "address"), ("classes", "class"), ("dishes", "dish"), ("boxes", "box")),
        *(("batches", "batch"), ("courses", "course"), ("warehouses", "warehouse")),
        *(("employees", "employee"), ("days", "day"), ("games", "game"), ("views", "view")),
    ],
)
def test_a_regular_plural_gets_its_singular(name: str, noun: str) -> None:
    assert noun == noun_of(Table(name, ()))


@pytest.mark.parametrize(
    "name",
    [
        *("statuses", "series", "movies", "buses", "news", "status", "bus", "analysis", "analyses"),
        *("species", "cookies", "lens", "address", "canvas", "aliases", "axes", "caches", "shoes"),
        *("leaves", "metadata", "children", "people", "sms", "gps", "dns", "aws", "zombies", "s"),
        *(
            "order_status",
            "tv_series",
            "physics",
            "chaos",
            "lenses",
            "calories",
            "us",
            "news_series",
        ),
    ],
)
def test_a_name_in_doubt_is_kept(name: str) -> None:
    assert name == noun_of(Table(name, ()))
