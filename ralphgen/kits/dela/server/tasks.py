"""The tools that find tasks and start them, and the command of a task for other kits."""

from __future__ import annotations

import _thread
import os

from ralphgen.runtime.deferred import DeferredResult, report_progress
from ralphgen.runtime.errors import RefusedError, ToolError, one_line
from ralphgen.runtime.processes import RUNNING, FullError, NotRunningError, Pipes
from ralphgen.runtime.processes.secrets import passed_on
from ralphgen.runtime.values import page

from .allowlist import FORCED, check_further, check_name, check_variables
from .jobs import GRACE
from .output import (
    OutputBuffer,
    bad_arguments,
    client_text,
    not_allowlisted,
    not_started,
    runner_unavailable,
    too_many,
    unknown_runner,
    unknown_task_refusal,
    with_text,
)
from .runners import HINTS
from .task import find_instance, find_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralphgen.runtime.processes import Job, Jobs

    from .allowlist import Rules
    from .task import Task
    from .workspace import Dela

MOST = 200  # default tasks per page
PROBLEMS = 20  # files named in an answer
WAIT = 1  # default seconds to wait for the end of a task
TOLD = 1  # seconds between progress reports
LONGEST_LINE = 200  # characters of the last line in a progress report
LINES = 8192  # lines of the first output: an answer has no space for more
ANYWHERE = "sh"  # scripts run in any folder; other runners look for files in the current one


def list_tasks(dela: Dela, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every task, with the field names of dela; `errors` are files that cannot be used."""
    folder = dela.folder(arguments.get("cwd"))
    found, problems = dela.tasks(folder)
    runner = arguments.get("runner")
    if runner is not None and runner not in HINTS:
        raise unknown_runner(runner, (task.runner for task in found))
    tasks = [task for task in found if runner in (None, task.runner)]
    begin = _position(arguments.get("cursor"), len(tasks))
    rules = dela.rules()
    rows = [_task_facts(dela, rules, task, folder) for task in tasks[begin:]]
    answer = page(
        "tasks",
        rows,
        range(begin + 1, len(tasks) + 1),
        limit=arguments.get("limit", MOST),
        total=len(tasks),
    )
    problems += rules.problems()
    answer["errors"] = [{"file_path": path, "error": why} for path, why in problems[:PROBLEMS]]
    return answer


def task_start(dela: Dela, arguments: dict[str, Any]) -> DeferredResult:
    """Start a task, and wait a little for its end.

    Raises `RefusedError`, each check in its turn, before anything is started.
    """
    jobs = dela.started()
    cwd = dela.folder(arguments.get("cwd"))
    task, folder = find_task_above(dela, arguments["unique_name"], cwd)
    check_name(task)
    rules = dela.rules()
    if not dela.permits(rules, task, folder):
        below = "" if folder == dela.root else os.path.relpath(folder, dela.root)
        denied = rules.denial(task.name, task.unique_name, task.path) is not None
        fault = f'"{rules.path}": {rules.problem}' if rules.problem else ""
        raise not_allowlisted(task.unique_name, below=below, denied=denied, fault=fault)
    words, variables = arguments.get("args", []), arguments.get("env", {})
    check_further(task, words, dela.tasks(folder)[0], rules)
    check_variables(task, variables)
    if task.runner != ANYWHERE:
        cwd = folder
    if not dela.runners.available(task, folder, again=True):
        raise runner_unavailable(task.runner, task.unique_name, HINTS[task.runner])
    try:
        job = jobs.start(
            command_of(task, folder, words),
            pipes=Pipes(OutputBuffer(dela.setting("lines"), dela.setting("bytes"))),
            cwd=cwd,
            environment={**passed_on(dela.server), **variables, **FORCED.get(task.runner, {})},
            about={
                "unique_name": task.unique_name,
                "source_name": task.source_name,
                "command": task.command,
                "file_path": task.path,
                "args": arguments.get("args"),
                "cwd": cwd,
            },
        )
    except FullError as error:
        raise too_many(jobs.most, stops=dela.sees("task_stop")) from error
    except OSError as error:
        raise not_started(error.strerror or str(error)) from error
    seconds = arguments.get("wait_for_exit_seconds", WAIT)
    return DeferredResult(lambda: _outcome(job, seconds), lambda: _stop_unwanted(jobs, job))


def _stop_unwanted(jobs: Jobs, job: Job) -> None:
    """Stop a task whose result cannot be delivered, without waiting for its end."""

    def stop() -> None:
        try:
            jobs.stop(job, GRACE)
        except NotRunningError:
            return  # it has ended by itself

    _thread.start_new_thread(stop, ())


def _outcome(job: Job, seconds: float) -> dict[str, Any]:
    """Return the state and output of a task after so many seconds, or at its end."""
    ended = _is_over(job, seconds)
    answer: dict[str, Any] = {"state": job.state if ended else RUNNING}
    if ended:
        answer["exit_code"] = job.exit_code
    else:
        answer["pid"] = job.pid
    if ended and job.signal is not None:
        answer["signal"] = job.signal
    if ended and job.error is not None:
        answer["error"] = job.error
    page = job.output.tail(LINES)
    text = "".join(page.lines)
    whole, all_of_it = with_text(answer, "initial_output", text)
    if all_of_it and not page.offset:
        return whole
    cut = {**answer, "pid": job.pid, "output_truncated": True}
    return with_text(cut, "initial_output", text)[0]


def _is_over(job: Job, seconds: float) -> bool:
    """Return whether a task ends within so many seconds; report its progress to the client."""
    passed = 0
    while passed + TOLD < seconds:
        if job.wait(TOLD):
            return True
        passed += TOLD
        page = job.output.tail(1)
        last = one_line("".join(page.lines).rstrip("\n")[:LONGEST_LINE])[:LONGEST_LINE]
        about = f"{page.total} lines of output" + (f", the last: {last}" if last else "")
        report_progress(passed, int(seconds), about)
    return job.wait(seconds - passed)


def find_task_above(dela: Dela, name: str, cwd: str) -> tuple[Task, str]:
    """Return the task of a name and its folder: the nearest one, up to the root.

    Raises `RefusedError` if there is none, or if several match. The search ends there, because the
    runner would not take a task further up.
    """
    folder = cwd
    while True:
        task, meant = find_task(dela.tasks(folder)[0], name)
        if task is None and not meant:
            task, meant = find_instance(dela.tasks(folder)[0], name)
        if task is not None:
            return task, folder
        if meant or folder == dela.root:
            raise unknown_task_refusal(name, meant, lists=dela.sees("list_tasks"))
        folder = os.path.dirname(folder)


def command_of(task: Task, folder: str, words: list[str]) -> list[str]:
    """Return the command of a task with further arguments; the project's own files by full path."""
    program = task.argv[0]
    if "/" in program:
        program = os.path.join(folder, program)
    own = list(task.argv[1:])
    if task.runner == ANYWHERE:
        own = [os.path.join(folder, word) for word in own]
    between = task.before_arguments if words else ()
    return [program, *own, *between, *words]


def _task_facts(dela: Dela, rules: Rules, task: Task, folder: str) -> dict[str, Any]:
    """Return a task as `list_tasks` shows it."""
    return {
        "unique_name": task.unique_name,
        "source_name": task.source_name,
        "runner": task.runner,
        "command": task.command,
        "runner_available": dela.runners.available(task, folder),
        "allowlisted": dela.permits(rules, task, folder),
        "file_path": task.path,
        "description": task.description,
    }


def _position(cursor: str | None, count: int) -> int:
    """Return how many tasks the pages before have shown."""
    if cursor is None:
        return 0
    if cursor not in map(str, range(1, count)):
        raise bad_arguments(
            f"invalid cursor '{client_text(cursor)}'",
            "Use the 'next_cursor' of the previous page, or omit 'cursor'",
        )
    return int(cursor)


def task_command(dela: Dela, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how the task `unique_name` is run: `argv`, `cwd` and additional variables `env`.

    The allowlist does not apply, because naming the task in the settings is the permission. Raises
    `ToolError` if the task does not exist or its runner is unavailable.
    """
    try:
        task, folder = find_task_above(dela, arguments["unique_name"], dela.root)
        check_name(task)
        if not dela.runners.available(task, folder, again=True):
            raise runner_unavailable(task.runner, task.unique_name, HINTS[task.runner])
    except RefusedError as error:
        raise ToolError(str(error)) from error
    forced = FORCED.get(task.runner, {})
    return {"argv": command_of(task, folder, []), "cwd": folder, "env": dict(forced)}


SERVICES = {"task_command": task_command}
