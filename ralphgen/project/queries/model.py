"""What is known of a named query once it was prepared against the schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: its type in JSON ("boolean", "integer", "number", "string"), and its default.

    The type "decimal" is a text with a number of any length. `optional` says that it may be left
    out, and `default` is its value then.
    """

    name: str
    type: str
    description: str = ""
    optional: bool = False
    default: str | int | float | bool | None = None


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A named query that compiles: what it takes, what it answers and what it touches.

    `sql` is the statement as the engine takes it. `columns` are those of its rows, with a type of
    JSON, empty where it is not known. `reads` are the columns that it reads, by table or view,
    and `views` the definitions of those views on SQLite.
    `verb` is INSERT, UPDATE, DELETE or REPLACE (which may change what is there) for one that writes
    the table `writes`, of which it sets the columns `sets`; else empty. `place` says where it
    stands, for messages. On a server `names` are the columns that it reads itself and by no view,
    and `tied` the column, by parameter, that has its value in each row that is written.
    """

    name: str
    kind: str
    description: str
    sql: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    reads: Mapping[str, Names]
    place: str
    verb: str = ""
    writes: str = ""
    sets: Names = ()
    views: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Names] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """The queries of a project, and what their tables are, as a value of JSON for `project.json`.

    From that alone they can be prepared again where there is no database.
    """

    queries: tuple[PreparedQuery, ...] = ()
    facts: Mapping[str, Any] | None = None
