"""Measured values as tables on standard output, and as JSON for comparing runs."""

import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

TARGET = os.environ.get("RALPHGEN_BENCHMARK_JSON", "")
MANY = 8  # columns


def summary(values: Sequence[float]) -> dict[str, float]:
    """Minimum, median and 95th percentile of some runs."""
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"min": ordered[0], "median": median(ordered), "p95": high, "runs": len(ordered)}


class Topic:
    """The rows of one table; each is compared with the first row that has the same measure.

    Runs taken in turns are compared pair by pair, so that a drifting speed of the machine does not
    spoil the ratio.
    """

    def __init__(self, name: str) -> None:
        """Begins an empty table."""
        self.name = name
        self.rows: dict[str, dict[str, list[float]]] = {}
        self.notes: list[str] = []

    def add(self, row: str, measure: str, *values: float) -> None:
        """Add more runs; the measure's name ends with the unit."""
        self.rows.setdefault(row, {}).setdefault(measure, []).extend(values)

    def note(self, text: str) -> None:
        """Add a remark, such as why a row is missing."""
        self.notes.append(text)

    def measures(self) -> list[str]:
        """Return the names of the columns, in order of appearance."""
        return [*dict.fromkeys(measure for row in self.rows.values() for measure in row)]

    def ratio(self, row: str, measure: str) -> float | None:
        """Return the ratio of this row's value to the first row's."""
        first = next((found[measure] for found in self.rows.values() if measure in found), [])
        values = self.rows[row].get(measure, [])
        if values is first or not values or not median(first):
            return None
        if len(values) == len(first) and all(first):
            return median(value / ours for value, ours in zip(values, first, strict=True))
        return median(values) / median(first)

    def as_json(self) -> dict[str, Any]:
        """Every figure, with its ratio to the first row's."""
        rows = {
            row: {
                measure: {**summary(values), "ratio": self.ratio(row, measure)}
                for measure, values in found.items()
            }
            for row, found in self.rows.items()
        }
        return {"machine": machine(), "rows": rows, "notes": self.notes}

    def as_text(self) -> str:
        """The table: a median with minimum and 95th percentile, and the ratio to the first row."""
        names, columns = [*self.rows], self.measures()
        cells = [
            ["", *columns],
            *([name, *(self._cell(name, column) for column in columns)] for name in names),
        ]
        if len(columns) > MANY:  # a row for each of them is easier to read
            cells = [[*row] for row in zip(*cells, strict=True)]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(wide[0]), *map(str.rjust, row[1:], wide[1:])]) for row in cells
        ]
        return "\n".join([f"\n== {self.name} ({machine()})", *lines, *self.notes, ""])

    def _cell(self, row: str, measure: str) -> str:
        if measure not in self.rows[row]:
            return ""
        found = summary(self.rows[row][measure])
        ratio = self.ratio(row, measure)
        text = format_number(found["median"])
        if found["runs"] > 1:
            text += f" ({format_number(found['min'])}..{format_number(found['p95'])})"
        return f"{text} x{ratio:.3g}" if ratio is not None else text


@contextmanager
def topic(name: str) -> Iterator[Topic]:
    """Yield a table, then show it, and write it if the environment names a file."""
    table = Topic(name)
    yield table
    sys.stdout.write(table.as_text())
    sys.stdout.flush()
    if TARGET:
        path = Path(TARGET)
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        told[name] = table.as_json()
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def format_number(value: float) -> str:
    """A number with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> str:
    """Return the conditions of the figures: the system, its cores, and their load."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    python = platform.python_version()
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {python}{load}"
