"""Carries out a tool: its chain is made and checked, then its primitive does the work."""

from __future__ import annotations

import json
import os

from ralphgen.runtime.deferred import Waiting
from ralphgen.runtime.errors import CodedError

from ..authenticity.trust import TRUSTED
from ..codes import VALIDATION_FAILED
from ..item import PROJECT, TOOL
from ..system_names import SUBPROCESS
from . import parameters as schemas
from .chain import chain_of, has_python_runtime, is_part
from .commands import Order, order_of
from .configuration import configuration_of
from .environment import Environment
from .filling import Filling
from .requests import Query, query_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..spaces import Spaces
    from ..workspace import Rye
    from .reading import Link
    from .report import Report

HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = "python_shim.py"


class Call:
    """A tool that is ready to be run; `parameters` are those given and the defaults.

    `work` is what its primitive is to do; there is none of a part of other tools' chains, which
    does nothing by itself. `interpreters` are the programs that were found for its variables.
    """

    __slots__ = ("interpreters", "parameters", "tool", "work")

    def __init__(
        self,
        tool: Link,
        parameters: dict[str, Any],
        work: Order | Query | None,
        interpreters: dict[str, str],
    ) -> None:
        self.tool = tool
        self.parameters = parameters
        self.work = work
        self.interpreters = interpreters

    def shown(self) -> dict[str, Any]:
        """What would be done, without the values of variables: they may be secrets."""
        shown = self.work.shown if self.work else {}
        return {**shown, "interpreters": self.interpreters} if self.interpreters else shown


def prepared(rye: Rye, spaces: Spaces, tool: Link, given: dict[str, Any], report: Report) -> Call:
    """Everything checked that can be before anything is done; raises `CodedError`."""
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


def begun(rye: Rye, call: Call, report: Report) -> Waiting:
    """The work of a tool, begun; raises `CodedError` where it cannot be."""
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

    return Waiting(outcome, leave)


def _work(
    rye: Rye, chain: list[Link], filling: Filling, environment: Environment, project: str
) -> Order | Query:
    """What the primitive at the end of a chain is to do."""
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
        return order_of(config, filling, variables, project=project, max_timeout=most)
    return query_of(config, filling, hosts=rye.setting("hosts"), max_timeout=most)


def _built_in(tool: Link, parameters: dict[str, Any], project: str) -> dict[str, str]:
    """The values that the server gives itself, by the names of `BUILT_IN`."""
    return {
        "params_json": json.dumps(parameters),
        "project_path": project,
        "shim": os.path.join(os.path.dirname(HERE), "primitives", SHIM),
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
