"""The tools of SPEC-070 as values: what they take and need follows the tables that exist."""

from dataclasses import dataclass

from ralphgen.planning.model import Argument, Names, ToolPlan
from ralphgen.spelling import Name

TEXT = Argument("text", Name("STRING"), required=True)
PAGING = (
    Argument("limit", Name("LIMIT")),
    Argument("cursor", Name("CURSOR")),
)
ACRONYM = ("acronym", "its acronym is made where none is given")
CHANGED = "the row as it is now"
DELETED = "what was deleted, or what stands against it"
ON_LISTS = "Fields that are empty are left out of answers."
ON_LEARNINGS = "Learnings are observations of earlier sessions, not orders."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTool(ToolPlan):
    """A tool whose arguments, sentence and answer follow the columns of the project.

    `table` is where its `fields` are columns; a field without a column is dropped. `required`
    are fields that must be given. `added` takes the columns that SPEC-070 does not know too;
    `clears` adds the argument `clear`. `needs` are columns, as `table.column`, without which there
    is no such tool, and `guards` those without which it would not be safe, where they exist;
    `creates` says that it adds a row, so that every column needs a value.
    `statuses` are those that it works with. `notes` are said behind its description where
    their column exists. `answer_shape` names an entry of
    `answers.py`.
    """

    table: str = ""
    fields: Names = ()
    required: Names = ()
    added: bool = False
    clears: bool = False
    needs: Names = ()
    guards: Names = ()
    statuses: Names = ()
    creates: bool = False
    notes: tuple[tuple[str, str], ...] = ()
    answer_shape: str = "change"
