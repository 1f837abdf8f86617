"""Executes items: a tool is run, a directive and knowledge are returned to the agent."""

from __future__ import annotations

import json
import os
import time

from ralphgen.runtime.deferred import DeferredResult
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.paging import MAX_CHARACTERS, fitted, shortened, size

from .authenticity.trust import TRUSTED
from .execution import parameters as schemas
from .execution.chain import chain_of, configuration_of, has_python_runtime, is_part, link_of
from .execution.commands import ReadyCommand, ready_command
from .execution.environment import Environment
from .execution.filling import Filling
from .execution.http_requests import ReadyRequest, ready_request
from .failures import VALIDATION_FAILED
from .formats.inputs import checked_inputs, filled_parts, with_inputs
from .ids import SUBPROCESS
from .item import DIRECTIVE, KNOWLEDGE, PROJECT, TOOL
from .values import is_finite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .execution.chain import Link
    from .formats.parsed import Parsed
    from .spaces import Spaces
    from .workspace import Rye

# Characters of a text and items of a list, as many as can be: one long text often is all there is.
STEPS = (MAX_CHARACTERS, 32_000, 24_000, 16_000)
AROUND_FACTS = 500  # characters of an answer for what stands around the facts of a failure
LONGEST_ERRORS = 8_000  # characters of what a command wrote to its standard error
PASSED = "validation_passed"
HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = "python_shim.py"
FOLLOW = "Follow this directive: go through its steps in their order, and do what each of them says"
GO_BY = "Go by this knowledge in what you do next"


def bounded(record: dict[str, Any], room: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the record, whole where it fits; else `cut` names what is not."""
    for most in STEPS:
        candidate = shortened(record, most, most)
        if size(candidate) <= room:
            return candidate
    return fitted(record, room)


def facts(record: dict[str, Any], message: str) -> dict[str, Any]:
    """Return the facts of a failure, so that they fit beside its message."""
    return bounded(record, MAX_CHARACTERS - AROUND_FACTS - size(message))


def last_of(text: str) -> str:
    """Return the end of what was written to a standard error: there stands what went wrong."""
    return text if len(text) <= LONGEST_ERRORS else f"…{text[1 - LONGEST_ERRORS :]}"


class Report:
    """Builds the answer of one call, or the error that it ends with.

    `warnings` grows as the call goes on; `chain` is empty until it is known, and for what has none.
    """

    __slots__ = ("_link", "_policy", "_started", "chain", "warnings")

    def __init__(self, link: Link, policy: str, started: float) -> None:
        self._link = link
        self._policy = policy
        self._started = started
        self.warnings = list(link.verdict.warnings)
        self.chain: list[Link] = []

    def answer(self, status: str, **parts: Any) -> dict[str, Any]:
        """Return the answer of a call that went well."""
        about = {"status": status, "type": self._link.item.type}
        return bounded({**about, **self._place(), **parts, **self._further()})

    def failure(self, error: CodedError) -> CodedError:
        """Return the error of a call that went wrong, with what is known of the call."""
        found = dict(error.facts)
        if "details" in found:
            found["details"] = _told(found["details"])
        told = {"item_type": self._link.item.type, **self._place(), **found, **self._further()}
        return CodedError(error.code, str(error), **facts(told, str(error)))

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


def _told(details: dict[str, Any]) -> dict[str, Any]:
    """Return the details of a failure.

    Of a standard error its end, where it says what went wrong.
    """
    written = details.get("stderr")
    if not isinstance(written, str) or last_of(written) == written:
        return details
    return {**details, "stderr": last_of(written), "stderr_truncated": True}


def execute(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any] | DeferredResult:
    """Return what an item does, or what it tells an agent; with `dry_run`, only whether it could.

    Raises `CodedError`, with the item, the policy and its signature among the facts.
    """
    item_type, dry_run = arguments["item_type"], arguments.get("dry_run", False)
    if item_type == TOOL and not dry_run:
        rye.may_take_long()
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
    """Return the parameters of a call; raises `CodedError` for what JSON cannot hold."""
    given: dict[str, Any] = arguments.get("parameters") or {}
    if not is_finite(given):
        text = '"parameters" hold a number that is too large, or too much within each other'
        raise CodedError(VALIDATION_FAILED, text)
    return given


def _tool(
    rye: Rye, spaces: Spaces, link: Link, given: dict[str, Any], report: Report, *, dry_run: bool
) -> dict[str, Any] | DeferredResult:
    call = prepare(rye, spaces, link, given, report)
    if not dry_run:
        return start(rye, call, report)
    return report.answer(
        PASSED,
        message="the tool, its chain and the parameters are valid: nothing was run",
        parameters=call.parameters,
        validated_pairs=len(report.chain) - 1,
        resolved=call.shown(),
    )


def _guide(link: Link, given: dict[str, Any], report: Report, *, dry_run: bool) -> dict[str, Any]:
    """Return the answer for what the agent carries out itself."""
    if link.item.type == KNOWLEDGE and given:
        report.warnings.append("knowledge takes no parameters: they have no effect")
    parts: dict[str, Any] = {}
    if link.item.type == DIRECTIVE:
        data, parts["parameters"] = directive_data(link.parsed, given)
        instructions = FOLLOW
    else:
        data = knowledge_data(link.parsed, link.item.id)
        instructions = GO_BY
    if dry_run:
        text = f"the {link.item.type} and the parameters are valid"
        return report.answer(PASSED, message=text, **parts)
    return report.answer("success", data=data, instructions=instructions, **parts)


class Call:
    """A call of a tool, ready to be started; `parameters` are those given and the defaults.

    `work` is what its primitive is to do; there is none of a part of other tools' chains, which
    does nothing by itself. `interpreters` are the programs that were found for its variables.
    """

    __slots__ = ("interpreters", "parameters", "tool", "work")

    def __init__(
        self,
        tool: Link,
        parameters: dict[str, Any],
        work: ReadyCommand | ReadyRequest | None,
        interpreters: dict[str, str],
    ) -> None:
        self.tool = tool
        self.parameters = parameters
        self.work = work
        self.interpreters = interpreters

    def shown(self) -> dict[str, Any]:
        """Return what would be done, without the values of variables: they may be secrets."""
        shown = self.work.shown if self.work else {}
        return {**shown, "interpreters": self.interpreters} if self.interpreters else shown


def prepare(rye: Rye, spaces: Spaces, tool: Link, given: dict[str, Any], report: Report) -> Call:
    """Return everything checked that can be before anything is done; raises `CodedError`."""
    schema = tool.parsed.metadata.get("config_schema")
    parameters = schemas.checked(schema, given, tool.item.id)
    report.chain = chain_of(rye, spaces, tool)
    for link in report.chain[1:]:
        report.warnings += link.verdict.warnings
    if is_part(tool):
        return Call(tool, parameters, None, {})
    project = os.path.dirname(spaces.of(PROJECT).folder)
    trusting = rye.trust().policy_of(TOOL) != TRUSTED
    environment = Environment(project, rye.setting("env"), venvs=trusting)
    for link in reversed(report.chain):
        environment.add(link.item.id, link.parsed.metadata.get("env_config"))
    filling = Filling(
        parameters,
        declared=schemas.declared(schema),
        built_in=_built_in(tool, parameters, project),
        variables=environment.variables,
    )
    work = _work(rye, report.chain, filling, environment, project)
    unset = environment.unset | filling.unset
    report.warnings += [*work.warnings, *_unset(unset), *_unused(environment.unused)]
    return Call(tool, parameters, work, environment.interpreters)


def start(rye: Rye, call: Call, report: Report) -> DeferredResult:
    """Return the work of a tool, start; raises `CodedError` where it cannot be."""
    work = call.work
    if work is None:
        text = f'"{call.tool.item.id}" carries other tools out: execute one whose executor_id it is'
        if rye.takes("execute", "dry_run"):
            text += ", or check it with dry_run"
        raise CodedError(VALIDATION_FAILED, text)
    data, leave = work.begin(rye)

    def outcome() -> dict[str, Any]:
        try:
            return report.answer("success", data=data())
        except CodedError as error:
            raise report.failure(error) from error

    return DeferredResult(outcome, leave)


def _work(
    rye: Rye, chain: list[Link], filling: Filling, environment: Environment, project: str
) -> ReadyCommand | ReadyRequest:
    """Return what the primitive at the end of a chain is to do."""
    tool = chain[0]
    if has_python_runtime(chain) and tool.item.extension != ".py":
        raise CodedError(
            VALIDATION_FAILED,
            f'the tool "{tool.item.id}" is a {tool.item.extension} file, and the Python runtime '
            "runs .py files: name another executor_id",
        )
    config, most = configuration_of(chain), rye.setting("max_timeout")
    if chain[-1].item.id == SUBPROCESS:
        variables = environment.variables
        return ready_command(config, filling, variables, project=project, max_timeout=most)
    return ready_request(config, filling, hosts=rye.setting("hosts"), max_timeout=most)


def _built_in(tool: Link, parameters: dict[str, Any], project: str) -> dict[str, str]:
    """Return the values that the server gives itself, by the names of `BUILT_IN`."""
    return {
        "params_json": json.dumps(parameters),
        "project_path": project,
        "shim": os.path.join(HERE, "execution", SHIM),
        "tool_dir": os.path.dirname(tool.item.path),
        "tool_path": tool.item.path,
        "tool_sha256": tool.digest,
    }


def _unset(names: dict[str, None]) -> list[str]:
    return [
        f'the variable "{name}" is not there for tools, so it is empty: a person can set it, add '
        'it to "env" of [rye] in .ralph/ralphgen.toml and run "ralphgen regen"'
        for name in names
    ]


def _unused(folders: Sequence[str]) -> list[str]:
    return [
        f'the project\'s own "{folder}" is not used under the policy "{TRUSTED}": nobody signed it'
        for folder in folders
    ]


def directive_data(parsed: Parsed, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a directive says with its inputs put in, and their values.

    Raises `CodedError`.
    """
    values = checked_inputs(parsed.metadata.get("inputs") or [], given)
    data = {**parsed.metadata, "body": parsed.body}
    return {**data, **with_inputs(filled_parts(parsed), values)}, values


def knowledge_data(parsed: Parsed, item_id: str) -> dict[str, Any]:
    """Return what knowledge says.

    Its id, its title, all else that it says of itself, and its content.
    """
    named = {"id": item_id, "title": parsed.title}
    return {**named, **parsed.metadata, **named, "content": parsed.body}
