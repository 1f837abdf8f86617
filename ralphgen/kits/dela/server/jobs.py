"""The tools on tasks that were started."""

from __future__ import annotations

from ralphgen.runtime.deferred import DeferredResult, take_time
from ralphgen.runtime.processes import NotRunningError
from ralphgen.runtime.values import fitted

from .output import (
    MAX_BYTES,
    bad_arguments,
    newest,
    not_running,
    oldest,
    size,
    unknown_process_refusal,
)
from .task import find_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralphgen.runtime.processes import Job, Jobs

    from .workspace import Dela

LINES = 200  # default lines of output
GRACE = 5  # default seconds between asking a task to end and ending it
MESSAGES = {
    "graceful": "Process stopped gracefully",
    "killed": "Process was force-killed after grace period",
    "failed": "Process could not be stopped",
}


def status(dela: Dela, _arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the running processes, oldest first."""
    running = dela.jobs.running() if dela.jobs is not None else []
    return fitted({"running": [_timed(job) for job in running], "cwd": dela.root})


def task_status(dela: Dela, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the processes of a task, newest first, or of one process."""
    if "pid" in arguments:
        jobs = [_find_job(dela, arguments["pid"])[1]]
    elif "unique_name" in arguments:
        jobs = _jobs_of_task(dela, arguments["unique_name"])
    else:
        raise bad_arguments("missing 'unique_name' or 'pid'", "Set 'unique_name' or 'pid'")
    return fitted({"jobs": [_timed(job) | end_facts(job) for job in jobs]})


def task_output(dela: Dela, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the last lines of output, or the lines from an offset."""
    _, job = _find_job(dela, arguments["pid"])
    if job.state != "running" and not job.pipes.dry.is_open:
        take_time()
        job.wait(0)  # until all its output is read
    wanted, offset = arguments.get("lines", LINES), arguments.get("offset")
    page = job.output.tail(wanted) if offset is None else job.output.read(offset, wanted)
    answer: dict[str, Any] = {
        "pid": job.pid,
        "lines": [],
        "total_lines": page.total,
        "total_bytes": page.received,
        "truncated": len(page.lines) < page.total - page.first,
        "buffer_full": page.has_lost,
        "offset": page.offset,
        "next_offset": page.next,
    }
    if page.first:
        answer["dropped_lines"] = page.first
    if arguments.get("show_truncation"):
        answer["truncation_info"] = {
            "requested_lines": wanted,
            "returned_lines": len(page.lines),
            "is_truncated": answer["truncated"],
            "buffer_full": page.has_lost,
            "buffer_capacity": dela.setting("lines"),
        }
    return _with_lines(answer, [line.removesuffix("\n") for line in page.lines], offset is None)


def task_stop(dela: Dela, arguments: dict[str, Any]) -> DeferredResult:
    """End a process and its children."""
    jobs, job = _find_job(dela, arguments["pid"])
    grace = arguments.get("grace_period", GRACE)
    if job.state != "running":
        raise not_running(job.pid)
    dela.started()  # may take time
    # The process is stopped even if no client waits for the result.
    return DeferredResult(lambda: _stopped(jobs, job, grace), lambda: None)


def _stopped(jobs: Jobs, job: Job, grace: float) -> dict[str, Any]:
    try:
        how = jobs.stop(job, grace)
    except NotRunningError as error:
        raise not_running(job.pid) from error
    if job.exit_code is not None:
        end = f" with exit code {job.exit_code}"
    else:
        end = f" by signal {job.signal}" if how == "graceful" and job.signal else ""
    return {
        "pid": job.pid,
        "status": how,
        "message": MESSAGES[how] + end,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "grace_period_used": grace,
    }


def _find_job(dela: Dela, pid: int) -> tuple[Jobs, Job]:
    """Return the process of a PID; raises `RefusedError` if it is unknown."""
    job = dela.jobs.find(pid) if dela.jobs is not None else None
    if dela.jobs is None or job is None:
        raise unknown_process_refusal(pid, looks=dela.sees("status"))
    return dela.jobs, job


def _jobs_of_task(dela: Dela, name: str) -> list[Job]:
    """Return the processes of a task, by its unique name or by an unambiguous one."""
    if dela.jobs is None:
        return []
    jobs = dela.jobs.all()
    found = [job for job in jobs if job.about["unique_name"] == name]
    if not found:
        task, _ = find_task(dela.tasks(dela.root)[0], name)
        meant = task.unique_name if task is not None else name
        found = [job for job in jobs if job.about["unique_name"] == meant]
    return found


def _timed(job: Job) -> dict[str, Any]:
    """Return a process as `status` shows it; `started_at` is its age, as in dela's own answers."""
    age = job.elapsed()
    return {"pid": job.pid, **job.about, "started_at": age, "elapsed_seconds": age}


def end_facts(job: Job) -> dict[str, Any]:
    """Return the state of a process and how it ended."""
    return {
        "state": job.state,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "error": job.error,
        "completed_at": job.completed_at,
    }


def _with_lines(answer: dict[str, Any], lines: list[str], tail: bool) -> dict[str, Any]:
    """Return the answer with as many of the lines as fit, and the offset of the next read.

    `tail` keeps the newest of them, else the oldest are kept.
    """
    whole = {**answer, "lines": lines}
    if size(whole) <= MAX_BYTES:
        return whole
    cut = {**answer, "truncated": True, "chunk_truncated": True, "max_chunk_size": MAX_BYTES}
    room = MAX_BYTES - size(cut)
    kept = newest(lines, room) if tail else oldest(lines, room)
    if "truncation_info" in cut:
        cut["truncation_info"] |= {"returned_lines": len(kept), "is_truncated": True}
    if tail:
        cut["offset"] += len(lines) - len(kept)
    elif len(kept) < len(lines):
        cut["next_offset"] = cut["offset"] + len(kept)
    return {**cut, "lines": kept}
