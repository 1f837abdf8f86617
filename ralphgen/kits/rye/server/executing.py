"""Executes items: a tool does its work, a directive and knowledge are handed to the agent."""

from __future__ import annotations

import time

from ralphgen.runtime.errors import CodedError

from .codes import VALIDATION_FAILED
from .execution import guiding
from .execution.reading import link_of
from .execution.report import Report
from .item import DIRECTIVE, KNOWLEDGE, TOOL
from .json_values import is_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralphgen.runtime.deferred import Waiting

    from .execution.reading import Link
    from .spaces import Spaces
    from .workspace import Rye

PASSED = "validation_passed"


def execute(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any] | Waiting:
    """What an item does, or what it tells an agent; with `dry_run`, only whether it could.

    Raises `CodedError`, with the item, the policy and its signature among the facts.
    """
    item_type, dry_run = arguments["item_type"], arguments.get("dry_run", False)
    if item_type == TOOL and not dry_run:
        rye.begin()
    started = time.monotonic()
    spaces = rye.spaces(arguments["project_path"])
    item = spaces.find(item_type, arguments["item_id"], arguments.get("source"))
    link = link_of(rye, item)
    report = Report(link, rye.trust().policy_of(item_type), started)
    try:
        given = _given(arguments)
        if item_type == TOOL:
            return _tool(rye, spaces, link, given, report, dry_run=dry_run)
        return _guide(link, given, report, dry_run=dry_run)
    except CodedError as error:
        raise report.failure(error) from error


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call; raises `CodedError` for what JSON cannot hold."""
    given: dict[str, Any] = arguments.get("parameters") or {}
    if not is_finite(given):
        text = '"parameters" hold a number that is too large, or too much within each other'
        raise CodedError(VALIDATION_FAILED, text)
    return given


def _tool(
    rye: Rye, spaces: Spaces, link: Link, given: dict[str, Any], report: Report, *, dry_run: bool
) -> dict[str, Any] | Waiting:
    from .execution.running import begun, prepared

    call = prepared(rye, spaces, link, given, report)
    if not dry_run:
        return begun(rye, call, report)
    return report.answer(
        PASSED,
        message="the tool, its chain and the parameters are valid: nothing was run",
        parameters=call.parameters,
        validated_pairs=len(report.chain) - 1,
        resolved=call.shown(),
    )


def _guide(link: Link, given: dict[str, Any], report: Report, *, dry_run: bool) -> dict[str, Any]:
    """The answer for what the agent carries out itself."""
    if link.item.type == KNOWLEDGE and given:
        report.warnings.append("knowledge takes no parameters: they have no effect")
    parts: dict[str, Any] = {}
    if link.item.type == DIRECTIVE:
        data, parts["parameters"] = guiding.directive(link.parsed, given)
        instructions = guiding.FOLLOW
    else:
        data = guiding.knowledge(link.parsed, link.item.id)
        instructions = guiding.GO_BY
    if dry_run:
        text = f"the {link.item.type} and the parameters are valid"
        return report.answer(PASSED, message=text, **parts)
    return report.answer("success", data=data, instructions=instructions, **parts)
