"""API for the tools of a project: decorators, the project, and the error for refusals."""

from __future__ import annotations

from ..errors import ToolError

__all__ = ["OwnProject", "OwnSession", "ToolError", "reads", "writes"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Protocol, TypeVar, overload

    Function = TypeVar("Function", bound=Callable[..., Any])
    Does = Literal["adds", "idempotent", "destructive", "open_world"]

    class Writes(Protocol):
        """The signatures of `writes`."""

        @overload
        def __call__(self, does: Function, /) -> Function: ...

        @overload
        def __call__(self, does: Does = "adds", /) -> Callable[[Function], Function]: ...


def reads(function: Function) -> Function:
    """Say that a tool changes nothing: sessions that may only read have it too."""
    return function


def _writes(does: Any = "adds", /) -> Any:
    """Declare the effects of a tool.

    `@writes` and `@writes("adds")` declare that it destroys nothing; `"idempotent"`, that the same
    call again changes nothing more; `"destructive"`, that it deletes or replaces; `"open_world"`,
    that it does something elsewhere.
    """
    if callable(does):
        return does
    return lambda function: function


writes: Writes = _writes


class OwnSession:
    """The rows and the recipe of the calling session; each is None if the session has none."""

    __slots__ = ("discipline", "feature", "recipe", "session_id", "target", "task")

    def __init__(
        self,
        *,
        session_id: str,
        recipe: str,
        discipline: str | None = None,
        task: int | None = None,
        feature: str | None = None,
        target: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.recipe = recipe
        self.discipline = discipline
        self.task = task
        self.feature = feature
        self.target = target


class OwnProject:
    """The project of the session that calls a tool.

    `session` is that session, `root` the folder that it works in. Every method asks the server, and
    raises `ToolError` with a sentence for the agent if the server refuses.
    """

    __slots__ = ("_ask", "root", "session")

    def __init__(
        self, ask: Callable[[str, dict[str, Any]], Any], session: OwnSession, root: str
    ) -> None:
        self._ask = ask
        self.session = session
        self.root = root

    def rows(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows that one SELECT answers, by column; `:name` stands for a parameter."""
        found: list[dict[str, Any]] = self._ask("rows", {"sql": sql, "parameters": parameters})
        return found

    def query(self, name: str, **parameters: object) -> dict[str, Any]:
        """Return the answer of a query of `.ralph/queries`, by its name."""
        found: dict[str, Any] = self._ask("query", {"name": name, "parameters": parameters})
        return found

    def write(self, sql: str, **parameters: object) -> dict[str, Any]:
        """Run one INSERT, UPDATE or DELETE, wholly or not at all, on the record of the session.

        Returns how many rows it `changed`, and what RETURNING gives of them as `rows`.
        """
        found: dict[str, Any] = self._ask("write", {"sql": sql, "parameters": parameters})
        return found

    def run(self, check: str) -> dict[str, Any]:
        """Run a check of `[[done.checks]]` by its name, to its end; no evidence is kept of it.

        Returns its `exit_code` (None if it was stopped), its `seconds` and the `tail` of its
        output.
        """
        found: dict[str, Any] = self._ask("run", {"check": check})
        return found
