"""`ralphgen call`: one tool of one kit, from the shell."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ralphgen.agents.calls import from_json, from_words, open_server, typed
from ralphgen.errors import RalphgenError, UsageError, plain
from ralphgen.project.root import ProjectPlace, project_place
from ralphgen.runtime.policy import FULL
from ralphgen.sessions.decide import Request
from ralphgen.terminal.console import say

VALUED = ("--recipe", "--task", "--feature", "--discipline", "--project", "-C", "--json")
HELP = 'see "ralphgen call --help"'
REFUSED = 1
RUN_CHECKS = "ralph:run_checks"


def call(words: Sequence[str]) -> int:
    """Call a tool and print its answer; return 0, 1 for a refusal, 2 for what cannot be asked."""
    try:
        return _call(words)
    except RalphgenError as error:
        say(f"error: {error}")
        return error.exit_code


def _call(words: Sequence[str]) -> int:
    options, rest = _read(words)
    trust_edited = "--trust-edited" in rest
    rest = [word for word in rest if word != "--trust-edited"]
    named, *given = rest or [""]
    kit, sign, tool = named.partition(":")
    if not sign or not kit or not tool:
        text = f'invalid tool "{plain(named)}"' if named else "missing argument KIT:TOOL"
        hint = 'use KIT:TOOL, such as ralph:list_tasks; "ralphgen tools" lists them'
        raise UsageError(text, hint)
    fixed = _fixed(given, options)
    place = project_place(Path(options.get("--project") or options.get("-C", "")))
    if named == RUN_CHECKS:
        _require_checked_files(place)
    with open_server(
        place, kit, tool, _request(options), trust_edited=trust_edited, say=say
    ) as server:
        if fixed is None:
            tools = server.tools() if given else []
            schemas = {one["name"]: one["inputSchema"]["properties"] for one in tools}
            fixed = typed(from_words(given), schemas.get(tool, {}))
        answer = server.call(tool, fixed)
    if answer.refused:
        say(f"error: {answer.text}")
        if answer.hint:
            say(f"hint: {answer.hint}")
        return REFUSED
    print(answer.text)
    return 0


def _require_checked_files(place: ProjectPlace) -> None:
    """Ask for trust in the checks and the build files that they may run."""
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import require_trust, run_check_items
    from ralphgen.kits.registry import read_settings

    items = run_check_items(read_settings(place.root).done, place.work_tree)
    require_trust(place.root, items, confirm_trust)


def _read(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options with a value, and the other words."""
    options: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, sign, value = word.partition("=")
        if name not in VALUED:
            if word.startswith("--") and word != "--trust-edited":
                raise UsageError(f"unknown option {plain(word)}", HELP)
            rest.append(word)
            continue
        if name in options or not (sign or left):
            problem = "is given twice" if name in options else "needs a value"
            raise UsageError(f'"{name}" {problem}', HELP)
        options[name] = value if sign else left.pop(0)
    return options, rest


def _fixed(given: Sequence[str], options: dict[str, str]) -> dict[str, object] | None:
    """Return the arguments that are given as JSON, None where they are words."""
    from_input = "-" in given
    if (from_input or "--json" in options) and len(given) + ("--json" in options) > 1:
        raise UsageError("arguments are given in two ways", HELP)
    if from_input:
        return from_json(sys.stdin.read())
    return from_json(options["--json"]) if "--json" in options else None


def _request(options: dict[str, str]) -> Request | None:
    """Return the session that is asked for; raises `UsageError` for a task that is no number."""
    if not {"--recipe", "--task", "--feature", "--discipline"} & options.keys():
        return None
    task = options.get("--task")
    if task is not None and not task.isdecimal():
        raise UsageError(f'invalid task id "{plain(task)}"', "use a number, such as --task 7")
    return Request(
        options.get("--recipe", FULL),
        None if task is None else int(task),
        options.get("--feature", ""),
        options.get("--discipline", ""),
    )
