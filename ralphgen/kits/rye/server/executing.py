"""Executes items: runs tools, and returns directives and knowledge to the agent."""

from __future__ import annotations

import json
import os
import sys
import time

from ralphgen.runtime.deferred import DeferredResult, take_time
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values import MAX_CHARACTERS, fitted, shorten_record, size

from . import values as schemas
from .commands import ReadyCommand, ToolEnvironment, ready_command
from .formats.directives import checked_inputs, filled_parts, with_inputs
from .formats.tools import NO_ENTRY, imported_names, require
from .http import ReadyRequest, ready_request
from .spaces import (
    DIRECTIVE,
    PRIMITIVES,
    PROJECT,
    PYTHON_RUNTIME,
    SUBPROCESS,
    SYSTEM,
    TOOL,
    is_segment,
    read_item,
)
from .trust import TRUSTED
from .values import (
    CHAIN_TOO_DEEP,
    CIRCULAR_DEPENDENCY,
    EXECUTION_FAILED,
    UNTRUSTED_KEY,
    VALIDATION_FAILED,
    Filling,
    is_finite,
    mapping_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .formats import Parsed
    from .spaces import Item, Spaces
    from .trust import Verdict
    from .workspace import Rye

LONGEST = 10  # elements of a chain
MERGED = "env"  # the one config key that is merged by member


class ChainLink:
    """A verified and parsed item; for tools, one element of an executor chain.

    `digest` is the SHA-256 of its file, as read.
    """

    __slots__ = ("digest", "item", "parsed", "verdict")

    def __init__(self, item: Item, parsed: Parsed, verdict: Verdict, digest: str) -> None:
        self.item = item
        self.parsed = parsed
        self.verdict = verdict
        self.digest = digest

    @property
    def executor_id(self) -> Any:
        """Return the id of the executor, or None for a primitive."""
        return self.parsed.metadata.get("executor_id")

    def entry(self) -> dict[str, Any]:
        """Return the facts of this chain element for an answer."""
        return {
            "item_id": self.item.id,
            "source": self.item.source,
            "tool_type": self.parsed.metadata.get("tool_type"),
            "executor_id": self.executor_id,
            "signature": self.verdict.state,
        }


def link_of(rye: Rye, item: Item) -> ChainLink:
    """Return an item if its policy allows it; raises `CodedError` otherwise."""
    if rye.permissions.problem:
        raise CodedError(UNTRUSTED_KEY, rye.permissions.problem)
    text = read_item(item)
    verdict = rye.trust().require(item, text, signs=rye.sees("sign"))
    return ChainLink(item, require(item, text), verdict, sha256_hex(text.encode()))


def chain_of(rye: Rye, spaces: Spaces, tool: ChainLink) -> list[ChainLink]:
    """Return the chain from the tool over its executors to the primitive.

    Each executor is found in the space of the previous element or a lower one, and must pass the
    tool policy. Raises `CodedError`.
    """
    chain = [tool]
    while chain[-1].executor_id is not None:
        link = link_of(rye, _next(spaces, chain))
        chain.append(link)
    return chain


def neighbours_of(rye: Rye, spaces: Spaces, tool: ChainLink) -> dict[str, ChainLink]:
    """Return the neighbouring tools that a Python tool imports, also indirectly, by module name.

    Each must pass the tool policy. Modules of the standard library do not count. Raises
    `CodedError`.
    """
    found: dict[str, ChainLink] = {}
    pending = [tool]
    while pending:
        for name in sorted(imported_names(pending.pop().parsed.body)):
            if name in found or name in sys.stdlib_module_names or not is_segment(name):
                continue
            item_id = "/".join(filter(None, (tool.item.category, name)))
            item = spaces.at(TOOL, item_id, tool.item.source)
            if item is None or item.extension != tool.item.extension:
                continue
            try:
                found[name] = link_of(rye, item)
            except CodedError as error:
                # The item in the answer is the executed tool.
                facts = {key: fact for key, fact in error.facts.items() if key != "item_id"}
                text = f'the tool "{tool.item.id}" imports "{name}": {error}'
                raise CodedError(error.code, text, **facts, imported=item_id) from error
            pending.append(found[name])
    return found


def entries(chain: Sequence[ChainLink]) -> list[dict[str, Any]]:
    """Return the facts of a chain for an answer."""
    return [link.entry() for link in chain]


def has_python_runtime(chain: Sequence[ChainLink]) -> bool:
    """Return whether the server's Python runtime is in the chain."""
    return any(_is_built_in(link, (PYTHON_RUNTIME,)) for link in chain)


def is_part(tool: ChainLink) -> bool:
    """Return whether a tool is a built-in primitive or runtime, which cannot run alone."""
    return _is_built_in(tool, (*PRIMITIVES, PYTHON_RUNTIME))


def _next(spaces: Spaces, chain: Sequence[ChainLink]) -> Item:
    """Return the executor of the last element; raises `CodedError`."""
    last = chain[-1]
    named = last.executor_id
    try:
        item = spaces.executor(named, last.item.space)
    except CodedError as error:
        text = f'the tool "{last.item.id}" has the executor "{named}": {error}'
        # The item and source in the answer are those of the executed tool.
        facts = {name: fact for name, fact in error.facts.items() if name != "item_id"}
        facts |= {"executor_id": named, "chain": entries(chain)}
        raise CodedError(error.code, text, **facts) from error
    way = " → ".join([*(link.item.id for link in chain), item.id])
    if any((link.item.source, link.item.id) == (item.source, item.id) for link in chain):
        text = f'the executor chain returns to "{item.id}": {way}'
        raise CodedError(CIRCULAR_DEPENDENCY, text, chain=entries(chain))
    if len(chain) == LONGEST:
        text = f"the executor chain has more than {LONGEST} elements: {way}"
        raise CodedError(CHAIN_TOO_DEEP, text, chain=entries(chain))
    return item


def _is_built_in(link: ChainLink, ids: Sequence[str]) -> bool:
    return link.item.source == SYSTEM and link.item.id in ids


def configuration_of(chain: Sequence[ChainLink]) -> dict[str, Any]:
    """Return the merged configs of a chain; the tool's values override the primitive's.

    Parameters do not affect it. Raises `CodedError`.
    """
    config: dict[str, Any] = {}
    for link in reversed(chain):
        said = mapping_at(f"config of {link.item.id}", link.parsed.metadata.get("config"))
        for key, value in said.items():
            before = config.get(key)
            if key == MERGED and isinstance(value, dict) and isinstance(before, dict):
                config[key] = {**before, **value}
            else:
                config[key] = value
    return config


# Limits for texts and lists, tried in order: often one long text is the whole answer.
STEPS = (MAX_CHARACTERS, 32_000, 24_000, 16_000)
AROUND_FACTS = 500  # characters of an error answer besides its facts
LONGEST_ERRORS = 8_000  # characters of standard error in a failure
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
    """Return the record, whole if it fits; otherwise `cut` names the shortened fields."""
    for most in STEPS:
        candidate = shorten_record(record, most, most)
        if size(candidate) <= room:
            return candidate
    return fitted(record, room)


class ExecutionReport:
    """Builds the answer or the error of one call.

    `warnings` grows during the call; `chain` is empty until resolved, and for other item types.
    """

    __slots__ = ("_link", "_policy", "_started", "chain", "warnings")

    def __init__(self, link: ChainLink, policy: str, started: float) -> None:
        self._link = link
        self._policy = policy
        self._started = started
        self.warnings = list(link.verdict.warnings)
        self.chain: list[ChainLink] = []

    def answer(self, status: str, **parts: Any) -> dict[str, Any]:
        """Return the answer of a successful call."""
        about = {"status": status, "type": self._link.item.type}
        return bounded({**about, **self._place(), **parts, **self._further()})

    def failure(self, error: CodedError) -> CodedError:
        """Return the error of a failed call with the facts of the call.

        Keeps the end of a long standard error, which contains the cause.
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
    """Run a tool, or return a directive or knowledge; with `dry_run`, only check it.

    Raises `CodedError` with the item, policy and signature in its facts.
    """
    item_type, dry_run = arguments["item_type"], arguments.get("dry_run", False)
    if item_type == TOOL and not dry_run:
        if rye.is_contained:
            text = "tools run outside, and this session is contained: run commands in your shell"
            raise CodedError(EXECUTION_FAILED, text)
        take_time()
    started = time.monotonic()
    spaces = rye.spaces(arguments["project_path"])
    item = spaces.find(item_type, arguments["item_id"], arguments.get("source"))
    try:
        link = link_of(rye, item)
    except CodedError as error:  # a signature would not help a call with wrong parameters
        if (wrong := _wrong_parameters(item, arguments)) is not None:
            raise CodedError(wrong.code, str(wrong), **(error.facts | wrong.facts)) from error
        raise
    report = ExecutionReport(link, rye.trust().policy_of(item_type), started)
    try:
        given = _call_parameters(arguments)
        if item_type == TOOL:
            return _tool(rye, spaces, link, given, report, dry_run=dry_run)
        return _guide(link, given, report, dry_run=dry_run)
    except CodedError as error:
        raise report.failure(error) from error


def _wrong_parameters(item: Item, arguments: dict[str, Any]) -> CodedError | None:
    """Return the error of a call of an untrusted item, None if its parameters are valid.

    None also for an item that cannot be parsed.
    """
    try:
        said = require(item, read_item(item)).metadata
    except CodedError:
        return None
    try:
        given = _call_parameters(arguments)
        if item.type == TOOL:
            schemas.checked(said.get("config_schema"), given, item.id)
        elif item.type == DIRECTIVE:
            checked_inputs(said.get("inputs") or [], given)
    except CodedError as error:
        return error
    return None


def _call_parameters(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call; raises `CodedError` for values outside JSON."""
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
    """Check and start a tool, and return its deferred result; raises `CodedError`.

    With `dry_run`, return the result of the checks without starting it.
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
    """Return the command or request of a chain with all placeholders filled."""
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
    """Return the values of `BUILT_IN`."""
    files = {name: (link.item.path, link.digest) for name, link in neighbours.items()}
    return {
        "params_json": json.dumps(parameters),
        "project_path": project,
        "shim": os.path.join(HERE, SHIM),
        "tool_dir": os.path.dirname(tool.item.path),
        "tool_neighbours": json.dumps(files),
        "tool_path": tool.item.path,
        "tool_sha256": tool.digest,
    }


def _guide(
    link: ChainLink, given: dict[str, Any], report: ExecutionReport, *, dry_run: bool
) -> dict[str, Any]:
    """Return a directive with its inputs filled in, or knowledge with its metadata and content.

    Raises `CodedError`.
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
