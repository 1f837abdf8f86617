"""What it means when an environment cannot be built, in a sentence with what helps."""

import re

from ralphgen.environment.location import HOME_VARIABLE
from ralphgen.errors import Problem, ProjectError

TAIL_LINES = 15

_LATER = '"ralphgen init --no-install" does without it for now'
_ELSEWHERE = f"{HOME_VARIABLE}=FOLDER puts it elsewhere"

# What a failure says, and what it means: the first that is found counts.
_CAUSES = {
    r"No space left on device|Disk quota exceeded|os error (28|122)\b": Problem(
        "there is no disk space left for the server's environment",
        f"free some; {_ELSEWHERE}, {_LATER}",
    ),
    r"DO NOT MATCH THE HASHES|Hash mismatch": Problem(
        "a package is not the one that is locked: its hash differs, and nothing of it was kept",
        f"ask whoever runs the package index or mirror; {_LATER}",
    ),
    r"ensurepip is not available|No module named '?(ensurepip|venv)\b": Problem(
        "this Python cannot make virtual environments",
        f'run "apt install python3-venv" (Debian, Ubuntu), or install uv; {_LATER}',
    ),
    r"NewConnectionError|ConnectTimeout|NameResolutionError|ReadTimeout|ProxyError|SSLError"
    r"|Failed to fetch|error sending request|network was disabled"
    r"|No matching distribution|No solution found": Problem(
        "the package index cannot be reached, or it lacks a locked package",
        f"go online, or set PIP_INDEX_URL (pip) or UV_DEFAULT_INDEX (uv) to a mirror; {_LATER}",
    ),
}


def explain_failure(output: str) -> Problem | None:
    """What the output of a failed pip, uv or venv means, with what helps; None if unknown."""
    found = (problem for pattern, problem in _CAUSES.items() if re.search(pattern, output))
    return next(found, None)


def build_failure(otherwise: str, *lines: str) -> ProjectError:
    """The cause if the lines name a known one, or else a sentence of ours, and the last lines."""
    cause = explain_failure("\n".join(lines))
    problem = cause or Problem(otherwise, f"fix what is said above; {_ELSEWHERE}, {_LATER}")
    shown = "".join(f"\n  {line}" for line in lines[-TAIL_LINES:])
    return ProjectError(f"{problem.text}:{shown}" if shown else problem.text, problem.hint)
