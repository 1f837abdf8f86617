"""What the connections of all engines have in common, for those who check types."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Protocol, TypeVar

    from .closing import MayClose, Moved

    Result = TypeVar("Result")

    class WriteNotices(Protocol):
        """Waits for writes of others, on one thread."""

        def wait(self, interval: float) -> bool:
            """Wait for a write, a while at most; return whether there may have been one.

            Where none can be heard it is over after `interval` seconds.
            """

        def close(self) -> None:
            """Let go of what it has."""

    class Database(Protocol):
        """A connection to the project's database; values of a statement stand as "?" in it.

        `sees_redefined_views` says whether `schema_version` changes with every view. `path` is
        where it is, and `connection` that of the engine's driver. What is in
        `before_writes` is called at the begin of each transaction that writes, within it, and
        what is in `before_commits` at its end, with the tasks that it has made done or skipped.
        Unless it `has_tasks`, a table of that name is like any other.
        """

        before_commits: list[Callable[[Moved], None]]
        before_writes: list[Callable[[], None]]
        has_tasks: bool
        path: str
        sees_redefined_views: bool

        @property
        def connection(self) -> Any:
            """The connection of the driver."""

        @property
        def is_lost(self) -> bool:
            """Whether only another connection can be used; safe in any thread."""

        def when_open(self, check: Callable[[], None]) -> None:
            """Have a check made of the database once it is open."""

        def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            """Return every row that the statement answers."""

        def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
            """Yield the rows one by one, for who may not want all of them."""

        def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
            """Return the first row, or None."""

        def change(self, sql: str, values: Sequence[object] = ()) -> int:
            """Run one writing statement; returns the number of rows that it changed."""

        def insert(self, sql: str, values: Sequence[object]) -> int:
            """Run one INSERT; returns the number of the row."""

        def closing(self, may_close: MayClose, write: Callable[[], Result]) -> Result:
            """Return `write()`, by which these tasks may become done; in a transaction."""

        def schema_version(self) -> int:
            """Return what differs after a change of the schema; within a transaction."""

        def close(self) -> None:
            """Roll back what is open and let go of the connection."""

        def reading(self, work: Callable[[], Result]) -> Result:
            """Return `work()`, run on one state of the database; raises `ToolError`."""

        def writing(self, work: Callable[[], Result]) -> Result:
            """Return `work()` in one transaction, or not at all; raises `ToolError`."""
