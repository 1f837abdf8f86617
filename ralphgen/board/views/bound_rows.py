"""The rows that arguments of a tool stand for in a session, in words."""

from collections.abc import Iterator

from ralphgen.planning.model import Names
from ralphgen.runtime.access.row_scope import ANY, OWN, RULES, WITHIN
from ralphgen.runtime.policy import GRANTS, Policy
from ralphgen.runtime.session import Session
from ralphgen.runtime.tool import Tool

OTHERS = {"task": "another task of its feature"}
"""By kind of row that may be named within bounds, which others those are."""


def bound_clauses(tool: Tool) -> Names:
    """A clause for each argument that can name none, or not all, of the other rows."""
    return tuple(
        _clause(tool, argument, tie.kind, tie.reach)
        for argument, tie in tool.ties.items()
        if tie.reach != ANY or argument not in tool.properties
    )


def loose_clauses(policy: Policy, kit: str, session: Session, tool: Tool) -> Iterator[str]:
    """Clauses on what a tie leaves open, and on sessions that are about another kind of row."""
    for argument, rule in policy.bound(session.base, kit).get(tool.name, {}).items():
        kind, reach = RULES[rule]
        clause = _clause(tool, argument, kind, reach)
        if argument not in tool.ties:
            yield f"in a session about a {kind}, {clause}"
        elif reach == ANY and argument in tool.properties:
            yield clause
    for kind, need in policy.targets(session.base).items():
        if need == GRANTS and tool.name in policy.ungranted(session.base, kit, [kind]):
            yield f"a session that is about no {kind} does not have it"


def _clause(tool: Tool, argument: str, kind: str, reach: str) -> str:
    """Which row an argument names; one that is not offered is the session's own for good."""
    own = f"the session's own {kind}"
    if argument not in tool.properties:
        return f'"{argument}" is not asked for: it is {own}'
    words = {
        OWN: f"is {own} and no other",
        WITHIN: f"is {own} or {OTHERS.get(kind, 'one near it')}",
        ANY: f"is {own} where it is left out",
    }
    return f'"{argument}" {words[reach]}'
