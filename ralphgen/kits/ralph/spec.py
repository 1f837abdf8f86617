"""The shape of a tool of SPEC-070: what it is called, what it takes and what it needs."""

from dataclasses import dataclass

from ralphgen.planning.model import Argument, Names
from ralphgen.spelling import Name

TEXT = Argument("text", Name("STRING"), required=True)
PAGING = (
    Argument("limit", Name("LIMIT")),
    Argument("cursor", Name("CURSOR")),
)


@dataclass(frozen=True, slots=True)
class Spec:
    """One tool.

    `table` is where its `fields` are columns; a field without a column is dropped. `required`
    are fields that must be given. `added` takes the columns that SPEC-070 does not know too;
    `clears` adds the argument `clear`. `needs` are columns, as `table.column`, without which there
    is no such tool, and `guards` those without which it would not be safe, where they exist;
    `creates` says that it adds a row, so that every column needs a value.
    `statuses` are those that it works with. `notes` are said behind its description where
    their column exists. `answers` names the shape of the answer. `search_hint` holds words that its
    name does not.
    """

    name: str
    module: str
    hints: str
    description: str
    table: str = ""
    arguments: tuple[Argument, ...] = ()
    fields: Names = ()
    required: Names = ()
    added: bool = False
    clears: bool = False
    needs: Names = ()
    guards: Names = ()
    statuses: Names = ()
    creates: bool = False
    notes: tuple[tuple[str, str], ...] = ()
    answers: str = "change"
    search_hint: str = ""
