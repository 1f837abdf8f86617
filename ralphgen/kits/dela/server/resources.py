"""The processes of tasks as resources: their state and their output.

The URIs are dela's own design: `job://<pid>`, and `joblog://<pid>?from=<line>`, page by page. A
session has the resources whose equivalent tools it has.
"""

from __future__ import annotations

import json
import re

from ralphgen.runtime.errors import NotThereError, RefusedError
from ralphgen.runtime.values import shortened

from .jobs import end_facts, task_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralphgen.runtime.engine import WriteNotices
    from ralphgen.runtime.processes import Job

    from .workspace import Dela

    Entry = dict[str, str]

JSON = "application/json"
PAGE = 50  # processes of a list
LINES = 8192  # lines of a page of output: an answer has no space for more
# By scheme, the tool with the same answer.
TOOLS = {"job": "task_status", "joblog": "task_output"}
_URI = r"(job|joblog)://([1-9][0-9]{0,18})(?:\?from=(0|[1-9][0-9]{0,18}))?"
_CURSOR = "[1-9][0-9]{0,8}"


def _template(uri: str, name: str, title: str, description: str) -> Entry:
    about = {"title": title, "description": description, "mimeType": JSON}
    return {"uriTemplate": uri, "name": name, **about}


TEMPLATES = {
    "job": _template(
        "job://{pid}", "job", "Process of a task", "State of a process, as reported by task_status."
    ),
    "joblog": _template(
        "joblog://{pid}{?from}",
        "job log",
        "Output of a task",
        "Lines from number `from`, or the last lines; `next` continues.",
    ),
}


class JobResources:
    """Resources for the processes that this server has started."""

    __slots__ = ()

    def templates(self, dela: Dela) -> Sequence[Mapping[str, str]]:
        """Return the entries of `resources/templates/list`."""
        return [TEMPLATES[scheme] for scheme in _resource_kinds(dela)]

    def list_page(self, dela: Dela, cursor: str | None) -> tuple[list[Entry], str]:
        """Return a page of the processes, the newest first, and the next one's cursor.

        Raises `NotThereError` for a cursor that is none.
        """
        if cursor is not None and not re.fullmatch(_CURSOR, cursor):
            raise NotThereError(f"invalid cursor {shortened(cursor)}")
        first = int(cursor or 0)
        jobs, schemes = _jobs(dela), _resource_kinds(dela)
        if not schemes:
            return [], ""
        entries = [
            {
                "uri": f"{scheme}://{job.pid}",
                "name": f"{TEMPLATES[scheme]['name']} {job.pid}",
                "title": f"{TEMPLATES[scheme]['title']} {job.about['unique_name']}",
                "mimeType": JSON,
            }
            for job in jobs[first : first + PAGE]
            for scheme in schemes
        ]
        return entries, str(first + PAGE) if jobs[first + PAGE :] else ""

    def read(self, dela: Dela, uri: str) -> tuple[str, str]:
        """Return the media type and the text of a process or of a page of its output.

        Raises `NotThereError` if the URI does not exist, or not for this session.
        """
        found = re.fullmatch(_URI, uri)
        scheme, pid, start = found.groups() if found is not None else ("", "0", None)
        job = dela.jobs.find(int(pid)) if dela.jobs is not None else None
        if (
            scheme not in _resource_kinds(dela)
            or job is None
            or (scheme == "job" and start is not None)
        ):
            raise NotThereError(f"no resource {shortened(uri)}")
        facts = {"pid": job.pid, **job.about, **end_facts(job)}
        if scheme == "joblog":
            facts = _page(dela, job, start)
        return JSON, json.dumps(facts, ensure_ascii=False, separators=(",", ":"))

    def completed(self, dela: Dela, template: str | None, argument: str, value: str) -> list[str]:
        """Return the pids that begin like `value`."""
        known = {TEMPLATES[scheme]["uriTemplate"] for scheme in _resource_kinds(dela)}
        if template not in known or argument not in ("pid", "from"):
            where = f"no variable {shortened(argument)} in {shortened(template)}"
            raise NotThereError(f"{where}")
        pids = [str(job.pid) for job in _jobs(dela)] if argument == "pid" else []
        return [pid for pid in dict.fromkeys(pids) if pid.startswith(value)]

    def watched(self, _folder: str, dela: Dela) -> Dela:
        """Return the same workspace, because its processes are safe to read from many threads."""
        return dela

    def moved(self, dela: Dela) -> object:
        """Return a value that changes once a process has started, printed or ended."""
        return [(job.pid, job.state, job.output.tail(0).received) for job in _jobs(dela)]

    def notices(self, _dela: Dela) -> WriteNotices | None:
        """Return None: a look costs little."""
        return None


RESOURCES = JobResources()


def _resource_kinds(dela: Dela) -> list[str]:
    """Return the kinds of resources that the session has."""
    return [scheme for scheme, tool in TOOLS.items() if dela.sees(tool)]


def _jobs(dela: Dela) -> list[Job]:
    return [] if dela.jobs is None else dela.jobs.all()


def _page(dela: Dela, job: Job, start: str | None) -> dict[str, object]:
    """Return lines of output as task_output does, and the URI of the next lines."""
    is_over = job.state != "running"
    asked = {"pid": job.pid, "lines": LINES}
    if start is not None:
        asked["offset"] = int(start)
    try:
        page = task_output(dela, asked)
    except RefusedError as error:
        raise NotThereError(error.message) from error
    if not is_over or page["next_offset"] < page["total_lines"]:
        page["next"] = f"joblog://{job.pid}?from={page['next_offset']}"
    return page
