"""Runs the checks of a task on the files of a work tree, by the project's own server."""

import json
from pathlib import Path
from typing import NamedTuple

from ralphgen.agents.calls import open_server
from ralphgen.errors import ProgramError, Say
from ralphgen.kits.registry import read_settings
from ralphgen.project.root import ProjectPlace

KIT, TOOL = "ralph", "run_checks"
ALL = "the checks"


class CheckFailure(NamedTuple):
    """A check that failed: its name, and the end of what it wrote."""

    name: str
    tail: str


def failed_check(
    root: Path, place: Path, task: int, *, trust_edited: bool, say: Say
) -> CheckFailure | None:
    """Return the first check of a task that fails on the files in `place`, None where none does.

    What came of them is kept as evidence. A project without checks has none that could fail.
    Raises `ProgramError` if the checks change files: no work could be proved by them then.
    """
    if not read_settings(root).done.checks:
        return None
    at = ProjectPlace(root, place, root)
    with open_server(at, KIT, TOOL, None, trust_edited=trust_edited, say=say, apart=True) as server:
        answer = server.call(TOOL, {"task": task})
    if answer.refused:
        return CheckFailure(ALL, answer.text)
    said = json.loads(answer.text)
    if said["passed"]:
        return None
    red = next((one for one in said["checks"] if one["exit_code"] != 0), None)
    if red is None:
        raise ProgramError(f"the checks give no proof: {said.get('not_proved', '')}")
    return CheckFailure(str(red["name"]), str(red["tail"]))
