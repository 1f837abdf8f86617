"""What an action on the board came to, and keeping it until the page that follows shows it."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

MOST_KEPT = 64


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field, such as `servers.0.command`; never with a secret in it.

    The field is empty where it is not about one.
    """

    field: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`message` is a sentence for people, `lines` are further ones; `problems` say why not."""

    ok: bool
    message: str
    lines: tuple[str, ...] = ()
    problems: tuple[FieldProblem, ...] = ()


class Notices:
    """Outcomes by a random id, each given out once; the oldest go first where nobody asks."""

    def __init__(self) -> None:
        """Keeps none."""
        self._kept: OrderedDict[str, Outcome] = OrderedDict()

    def keep(self, outcome: Outcome) -> str:
        """The id under which the outcome is kept."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = outcome
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return key

    def take(self, key: str) -> Outcome | None:
        """The outcome of an id, kept no longer; None where there is none."""
        return self._kept.pop(key, None)
