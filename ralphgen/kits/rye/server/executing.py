"""Executes items: a tool is run, a directive and knowledge are returned to the agent."""

from __future__ import annotations

import json
import os
import time

from ralphgen.runtime.deferred import DeferredResult, take_time
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.paging import MAX_CHARACTERS, fitted, shortened, size

from .authenticity.permissions import TRUSTED
from .execution import parameters as schemas
from .execution.chain import (
    chain_of,
    configuration_of,
    has_python_runtime,
    is_part,
    link_of,
    neighbours_of,
)
from .execution.commands import ReadyCommand, ready_command
from .execution.config import Filling
from .execution.environment import ToolEnvironment
from .execution.http_requests import ReadyRequest, ready_request
from .formats.inputs import checked_inputs, filled_parts, with_inputs
from .formats.tools import NO_ENTRY
from .item import DIRECTIVE, PROJECT, SUBPROCESS, TOOL
from .values import VALIDATION_FAILED, is_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .execution.chain import ChainLink
    from .spaces import Spaces
    from .workspace import Rye

# Characters of a text and items of a list, as many as can be: one long text often is all there is.
STEPS = (MAX_CHARACTERS, 32_000, 24_000, 16_000)
AROUND_FACTS = 500  # characters of an answer for what stands around the facts of a failure
LONGEST_ERRORS = 8_000  # characters of what a command wrote to its standard error
PASSED = "validation_passed"
HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = "python_shim.py"
UNSET = (
    'tools do not get the variable "{}", so it is empty: the user can set it, add it to "env" in '
    '[rye] of .ralph/ralphgen.toml and run "ralphgen regen"'
)
UNUSED = f'the project\'s own "{{}}" is not used under the policy "{TRUSTED}": it is not signed'
FOLLOW = "Follow this directive: do its steps in order"
GO_BY = "Apply this knowledge in your next steps"


def bounded(record: dict[str, Any], room: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the record, whole where it fits; else `cut` names what is not."""
    for most in STEPS:
        candidate = shortened(record, most, most)
        if size(candidate) <= room:
            return candidate
    return fitted(record, room)


class ExecutionReport:
    """Builds the answer of one call, or the error that it ends with.

    `warnings` grows as the call goes on; `chain` is empty until it is known, and for what has none.
    """

    __slots__ = ("_link", "_policy", "_started", "chain", "warnings")

    def __init__(self, link: ChainLink, policy: str, started: float) -> None:
        self._link = link
        self._policy = policy
        self._started = started
        self.warnings = list(link.verdict.warnings)
        self.chain: list[ChainLink] = []

    def answer(self, status: str, **parts: Any) -> dict[str, Any]:
        """Return the answer of a call that went well."""
        about = {"status": status, "type": self._link.item.type}
        return bounded({**about, **self._place(), **parts, **self._further()})

    def failure(self, error: CodedError) -> CodedError:
        """Return the error of a call that went wrong, with what is known of the call.

        Of a long standard error it has the end: there stands what went wrong.
        """
        found = dict(error.facts)
        written = found.get("details", {}).get("stderr")
        if isinstance(written, str) and len(written) > LONGEST_ERRORS:
            end = f"…{written[1 - LONGEST_ERRORS :]}"
            found["details"] = {**found["details"], "stderr": end, "stderr_truncated": True}
        told = {"item_type": self._link.item.type, **self._place(), **found, **self._further()}
        room = MAX_CHARACTERS - AROUND_FACTS - size(str(error))
        return CodedError(error.code, str(error), **bounded(told, room))

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._link.item.id, "source": self._link.item.source}

    def _further(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "duration_ms": int((time.monotonic() - self._started) * 1000),
            "policy": self._policy,
            "signature": self._link.verdict.state,
        }
        if self.warnings:
            metadata["warnings"] = list(dict.fromkeys(self.warnings))
        chain = [link.entry() for link in self.chain]
        return {"chain": chain, "metadata": metadata} if chain else {"metadata": metadata}


def execute(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any] | DeferredResult:
    """Return what an item does, or what it tells an agent; with `dry_run`, only whether it could.

    Raises `CodedError`, with the item, the policy and its signature among the facts.
    """
    item_type, dry_run = arguments["item_type"], arguments.get("dry_run", False)
    if item_type == TOOL and not dry_run:
        take_time()
    started = time.monotonic()
    spaces = rye.spaces(arguments["project_path"])
    item = spaces.find(item_type, arguments["item_id"], arguments.get("source"))
    link = link_of(rye, item)
    report = ExecutionReport(link, rye.trust().policy_of(item_type), started)
    try:
        given = _given(arguments)
        if item_type == TOOL:
            return _tool(rye, spaces, link, given, report, dry_run=dry_run)
        return _guide(link, given, report, dry_run=dry_run)
    except CodedError as error:
        raise report.failure(error) from error


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call; raises `CodedError` for what JSON cannot hold."""
    given: dict[str, Any] = arguments.get("parameters") or {}
    if not is_finite(given):
        text = '"parameters" contains a number that is too large, or is nested too deeply'
        raise CodedError(VALIDATION_FAILED, text)
    return given


def _tool(
    rye: Rye,
    spaces: Spaces,
    tool: ChainLink,
    given: dict[str, Any],
    report: ExecutionReport,
    *,
    dry_run: bool,
) -> dict[str, Any] | DeferredResult:
    """Return the work of a tool, which is begun; raises `CodedError` where it cannot be.

    Everything that can be checked before is checked; with `dry_run`, that is all.
    """
    parameters = schemas.checked(tool.parsed.metadata.get("config_schema"), given, tool.item.id)
    report.chain = chain_of(rye, spaces, tool)
    for link in report.chain[1:]:
        report.warnings += link.verdict.warnings
    work = None if is_part(tool) else _work(rye, spaces, parameters, report)
    if dry_run:
        return report.answer(
            PASSED,
            message="the tool, its chain and the parameters are valid; nothing was run",
            parameters=parameters,
            validated_pairs=len(report.chain) - 1,
            resolved=work.shown if work else {},
        )
    if work is None:
        text = f'"{tool.item.id}" only runs other tools: execute a tool with that executor_id'
        if rye.takes("execute", "dry_run"):
            text += ", or set dry_run to check it"
        raise CodedError(VALIDATION_FAILED, text)
    data, leave = work.begin(rye)

    def outcome() -> dict[str, Any]:
        try:
            return report.answer("success", data=data())
        except CodedError as error:
            raise report.failure(error) from error

    return DeferredResult(outcome, leave)


def _work(
    rye: Rye, spaces: Spaces, parameters: dict[str, Any], report: ExecutionReport
) -> ReadyCommand | ReadyRequest:
    """Return what the primitive at the end of a chain is to do, with everything filled in."""
    chain = report.chain
    tool = chain[0]
    project = os.path.dirname(spaces.of(PROJECT).folder)
    trusting = rye.trust().policy_of(TOOL) != TRUSTED
    neighbours: dict[str, ChainLink] = {}
    if has_python_runtime(chain):
        _check_python(tool)
        neighbours = neighbours_of(rye, spaces, tool)
    for link in neighbours.values():
        report.warnings += link.verdict.warnings
    environment = ToolEnvironment(project, rye.permissions.env, venvs=trusting)
    for link in reversed(chain):
        environment.add(link.item.id, link.parsed.metadata.get("env_config"))
    variables = environment.variables
    filling = Filling(
        parameters,
        declared=schemas.declared(tool.parsed.metadata.get("config_schema")),
        built_in=_built_in(tool, neighbours, parameters, project),
        variables=variables,
    )
    config, most = configuration_of(chain), rye.setting("max_timeout")
    work: ReadyCommand | ReadyRequest
    if chain[-1].item.id == SUBPROCESS:
        work = ready_command(config, filling, variables, project=project, max_timeout=most)
    else:
        hosts, within = rye.permissions.hosts, rye.permissions.project_hosts
        work = ready_request(config, filling, hosts=hosts, within=within, max_timeout=most)
    if environment.interpreters:
        work.shown["interpreters"] = environment.interpreters
    report.warnings += work.warnings
    report.warnings += map(UNSET.format, environment.unset | filling.unset)
    report.warnings += map(UNUSED.format, environment.unused)
    return work


def _check_python(tool: ChainLink) -> None:
    """Raise `CodedError` for a tool that the Python runtime cannot run."""
    if tool.item.extension != ".py":
        raise CodedError(
            VALIDATION_FAILED,
            f'the tool "{tool.item.id}" is a {tool.item.extension} file, but the Python runtime '
            "runs only .py files: change executor_id",
        )
    if not tool.parsed.metadata["entry"]:
        raise CodedError(VALIDATION_FAILED, f'in the tool "{tool.item.id}" {NO_ENTRY}')


def _built_in(
    tool: ChainLink,
    neighbours: Mapping[str, ChainLink],
    parameters: dict[str, Any],
    project: str,
) -> dict[str, str]:
    """Return the values that the server gives itself, by the names of `BUILT_IN`."""
    files = {name: (link.item.path, link.digest) for name, link in neighbours.items()}
    return {
        "params_json": json.dumps(parameters),
        "project_path": project,
        "shim": os.path.join(HERE, "execution", SHIM),
        "tool_dir": os.path.dirname(tool.item.path),
        "tool_neighbours": json.dumps(files),
        "tool_path": tool.item.path,
        "tool_sha256": tool.digest,
    }


def _guide(
    link: ChainLink, given: dict[str, Any], report: ExecutionReport, *, dry_run: bool
) -> dict[str, Any]:
    """Return the answer for what the agent carries out itself; raises `CodedError`.

    A directive comes with its inputs put in. Knowledge comes with its id, its title, all else that
    it says of itself, and its content.
    """
    said, body = link.parsed.metadata, link.parsed.body
    parts: dict[str, Any] = {}
    if link.item.type == DIRECTIVE:
        values = checked_inputs(said.get("inputs") or [], given)
        parts["parameters"] = values
        data = {**said, "body": body, **with_inputs(filled_parts(link.parsed), values)}
        instructions = FOLLOW
    else:
        if given:
            report.warnings.append("knowledge takes no parameters: they were ignored")
        named = {"id": link.item.id, "title": link.parsed.title}
        data = {**named, **said, **named, "content": body}
        instructions = GO_BY
    if dry_run:
        text = f"the {link.item.type} and the parameters are valid"
        return report.answer(PASSED, message=text, **parts)
    return report.answer("success", data=data, instructions=instructions, **parts)
