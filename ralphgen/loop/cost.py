"""The cost of sessions: reported by agents, estimated from time, or unknown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from ralphgen.ledger.record import SessionRecord

HOUR = 3_600  # seconds
LARGEST = 1e9  # US dollars: a larger amount is not a cost


def cost_words(
    known: float | None, estimated: float | None = None, unknown: int = 0, *, digits: int = 2
) -> str:
    """Return a cost in US dollars, such as `$14.20`, `about $3.00` or `$14.20 + 3 unknown`.

    `known` was reported and `estimated` is time multiplied by a rate, each None without such a
    session; `unknown` sessions have neither. Empty without sessions.
    """
    if known is None and estimated is None:
        return "cost unknown" if unknown else ""
    about = "" if estimated is None else "about "
    more = f" + {unknown} unknown" if unknown else ""
    return f"{about}${(known or 0.0) + (estimated or 0.0):,.{digits}f}{more}"


def session_cost(record: SessionRecord) -> str:
    """Return the cost of a recorded session; empty while it is active, or without an agent."""
    known, estimated = record.cost_usd, record.estimated_usd
    if known is None and estimated is None:
        return "unknown" if record.agent is not None and record.ended is not None else ""
    return cost_words(known, estimated, digits=4)


def _amount(value: object) -> float | None:
    """Return an amount from a file that agents can write, or None if it is not a cost."""
    if isinstance(value, int | float) and 0 <= value <= LARGEST:
        return float(value)
    return None


@dataclass(slots=True)
class Costs:
    """The costs of sessions, summed over the events of their ends."""

    known: float | None = None
    estimated: float | None = None
    unknown: int = 0

    @classmethod
    def of(cls, ends: Iterable[Mapping[str, Any]]) -> Self:
        """Return the costs of the sessions that these events end."""
        found = cls()
        for told in ends:
            found.take(told)
        return found

    def take(self, told: Mapping[str, Any]) -> None:
        """Add the session of an event `end`; an impossible cost counts as unknown."""
        known, estimated = map(_amount, (told.get("cost_usd"), told.get("estimated_usd")))
        if known is not None:
            self.known = (self.known or 0.0) + known
        elif estimated is not None:
            self.estimated = (self.estimated or 0.0) + estimated
        else:
            self.unknown += 1

    def __str__(self) -> str:
        """Return the costs as `cost_words` does."""
        return cost_words(self.known, self.estimated, self.unknown)


@dataclass(slots=True)
class HourlyRates:
    """The rate of each agent: US dollars per hour of the settings, else its average in this run."""

    settings: Mapping[str, float] = field(default_factory=dict)
    _reported: dict[str, tuple[float, float]] = field(default_factory=dict)  # dollars and seconds
    _lock: Lock = field(default_factory=Lock)

    def estimate(self, agent: str, cost: float | None, seconds: float) -> float | None:
        """Return the estimated cost of a session; None if it was reported or no rate is known."""
        with self._lock:
            spent, before = self._reported.get(agent, (0.0, 0.0))
            if cost is not None:
                self._reported[agent] = (spent + cost, before + seconds)
                return None
            if agent in self.settings:
                return self.settings[agent] * seconds / HOUR
            return spent / before * seconds if before else None
