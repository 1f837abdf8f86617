"""The output of tasks: a bounded buffer, and the answers made of it."""

from __future__ import annotations

import _thread
import json

from ralphgen.runtime.errors import INTERNAL_ERROR, INVALID_PARAMS, RefusedError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable, Sequence
    from typing import Any

OPEN = 1 << 12  # characters at the end of an unfinished line that may contain part of a secret
LONGEST_CHARACTER = 4  # bytes
OVERHEAD = 48  # additional bytes of memory of a line
CONTINUING = range(0x80, 0xC0)  # the bytes of a character after its first


class OutputPage:
    r"""Some neighbouring lines, and the state of the buffer when they were read.

    `lines` are complete and end in "\n", except for an unfinished last line; joined, they are the
    text. `offset` is the number of the first of them. Lines are numbered from 0 since the start,
    including dropped ones. `first` is the number of the oldest kept line, which equals the number
    of dropped lines. `total` is the number of all lines since the start, and `received` the number
    of bytes. `begun` means that the last of these lines may still grow. `next` is the offset for
    the next read, which repeats an unfinished line. `has_lost` is true once lines, or the beginning
    of one, did not fit.
    """

    __slots__ = ("begun", "first", "has_lost", "lines", "next", "offset", "received", "total")

    def __init__(
        self,
        lines: list[str],
        *,
        offset: int,
        first: int,
        total: int,
        received: int,
        begun: bool,
        has_lost: bool,
    ) -> None:
        self.lines = lines
        self.offset = offset
        self.first = first
        self.total = total
        self.received = received
        self.begun = begun
        self.has_lost = has_lost
        self.next = offset + len(lines) - begun


class OutputBuffer:
    r"""The output of a process, line by line; one thread adds to it while others read.

    The buffer keeps the newest lines: at most `lines` lines and at most `size` bytes (of UTF-8,
    including "\n"). A single line of more than `size` bytes keeps only its end. Invalid UTF-8 is
    replaced by U+FFFD, and "\r\n" by "\n". An unfinished line counts as a line. Secrets of the
    environment are masked.
    """

    __slots__ = (
        "_begun",
        "_decoder",
        "_has_cut",
        "_kept",
        "_lines",
        "_lock",
        "_masker",
        "_open",
        "_received",
        "_size",
        "_used",
        "_whole",
    )

    def __init__(self, lines: int, size: int) -> None:
        from codecs import getincrementaldecoder
        from collections import deque

        from ralphgen.runtime.processes.secrets import Masker

        self._masker = Masker()
        self._lines = max(lines, 1)
        self._size = max(size, LONGEST_CHARACTER + 1)
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._kept: deque[bytes] = deque()
        self._used = 0  # bytes of the kept lines
        self._whole = 0  # lines since the start, without the unfinished one
        self._begun = bytearray()  # the unfinished line, without its end
        self._open = ""  # the end of the unfinished line
        self._has_cut = False  # the beginning of a line is gone
        self._received = 0
        self._lock = _thread.allocate_lock()

    def add(self, data: bytes) -> None:
        """Take the next bytes that were written."""
        with self._lock:
            self._received += len(data)
            self._take(self._decoder.decode(data))
            self._trim()

    def end(self) -> None:
        """Store the unfinished line, because no more output follows."""
        with self._lock:
            self._take(self._decoder.decode(b"", final=True))
            if self._open:
                self._keep(self._unfinished())
                self._begun.clear()
                self._open = ""
            self._trim()

    @property
    def weight(self) -> int:
        """Approximate bytes of memory that the buffer uses."""
        return self._used + len(self._begun) + len(self._open) + OVERHEAD * len(self._kept)

    def drop(self) -> None:
        """Drop all lines, including an unfinished one; they still count in `total`."""
        with self._lock:
            self._whole += bool(self._open)
            self._begun.clear()
            self._open = ""
            self._kept.clear()
            self._used = 0

    def read(self, start: int, count: int) -> OutputPage:
        """Return at most `count` lines from the line numbered `start`, or from the oldest kept."""
        with self._lock:
            return self._page(start, count)

    def tail(self, count: int) -> OutputPage:
        """Return the newest `count` lines."""
        with self._lock:
            return self._page(self._whole + bool(self._open) - count, count)

    def _page(self, start: int, count: int) -> OutputPage:
        from itertools import islice

        first = self._whole - len(self._kept)
        total = self._whole + bool(self._open)
        offset = min(max(start, first), total)
        stop = min(offset + max(count, 0), total)
        lines = list(islice(self._kept, offset - first, stop - first))
        begun = bool(self._open) and offset < stop == total
        if begun:
            lines.append(self._unfinished())
        return OutputPage(
            [line.decode() for line in lines],
            offset=offset,
            first=first,
            total=total,
            received=self._received,
            begun=begun,
            has_lost=first > 0 or self._has_cut,
        )

    def _unfinished(self) -> bytes:
        return bytes(self._begun) + self._open.encode()

    def _take(self, text: str) -> None:
        """Store the complete lines; the rest is the unfinished line.

        Lines are not processed one by one, because a process may write millions of them.
        """
        text = self._masker.text(self._open + text)
        whole, newline, rest = text.rpartition("\n")
        if newline:
            first, newline, others = f"{whole}\n".partition("\n")
            self._keep(bytes(self._begun) + f"{first}\n".replace("\r\n", "\n").encode())
            self._begun.clear()
            run = others.replace("\r\n", "\n").encode()
            self._whole += run.count(b"\n")
            newest = run[:-1].rsplit(b"\n", self._lines)[-self._lines :] if run else []
            self._kept.extend([line + b"\n" for line in newest])
            self._used += sum(map(len, newest)) + len(newest)
        self._begun += rest[:-OPEN].encode()
        self._open = rest[-OPEN:]

    def _keep(self, line: bytes) -> None:
        self._whole += 1
        self._kept.append(line)
        self._used += len(line)

    def _trim(self) -> None:
        """Drop the oldest lines until the rest, with the unfinished line, is within the limits."""
        begun = len(self._begun) + len(self._open.encode())
        lines = self._lines - bool(begun)
        size = self._size - begun
        kept = self._kept
        while len(kept) > lines or (self._used > size and len(kept) > (not begun)):
            self._used -= len(kept.popleft())
        if self._used > self._size:
            kept[0] = kept[0][_start_of_end(kept[0], self._size) :]
            self._used, self._has_cut = len(kept[0]), True
        if begun > self._size:
            end = self._open.encode()[-self._size :]
            self._open = end.decode(errors="ignore")
            del self._begun[: _start_of_end(self._begun, self._size - len(end))]
            self._has_cut = True


def _start_of_end(line: bytes | bytearray, size: int) -> int:
    """Return the start of the last bytes of a line, at the beginning of a character."""
    start = max(len(line) - size, 0)
    while start < len(line) and line[start] in CONTINUING:
        start += 1
    return start


def weight_of(lines: int, size: int) -> int:
    """Return about how many bytes of memory an output within these limits costs at most."""
    return size + OVERHEAD * min(lines, size)


MAX_BYTES = 8192  # maximum bytes of JSON in an answer that carries output
MARK = "... [truncated]"
NOT_ALLOWLISTED = -32010
RUNNER_UNAVAILABLE = -32011
TASK_NOT_FOUND = -32012
MOST = 20  # names of tasks in an answer
LONGEST = 100  # characters of a client's text in a message


def client_text(text: str) -> str:
    """Return a client's text on one line, shortened if necessary."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return one_line(cut)


def not_allowlisted(unique_name: str, *, below: str, denied: bool, fault: str) -> RefusedError:
    """Return the refusal of a task that is not allowed, or denied; `below` is its folder.

    The folder is relative to the root, and empty for the root itself. `fault` names an allowlist
    that cannot be used, and the reason.
    """
    from shlex import quote

    place = f" --project {quote(below)}" if below else ""
    command = f"ralphgen dela allow {quote(unique_name)}{place}"
    data = f"Ask a human to grant MCP access to this task: {command}"
    if fault:
        data = f"Ask a human to fix the allowlist {fault}"
    if denied:
        data = "A human has denied this task: work without it, or ask them"
    return RefusedError(
        NOT_ALLOWLISTED,
        f"Task '{client_text(unique_name)}' is not allowlisted for MCP execution",
        data,
    )


def runner_unavailable(runner: str, unique_name: str, hint: str) -> RefusedError:
    """Return the refusal of a task whose runner cannot be run here."""
    message = f"Runner '{runner}' is not available for task '{client_text(unique_name)}'"
    return RefusedError(RUNNER_UNAVAILABLE, message, hint)


def unknown_task_refusal(name: str, candidates: list[str], *, lists: bool) -> RefusedError:
    """Return the refusal of an unknown name, or of an ambiguous one with its `candidates`.

    `lists` is true if the session has the tool that lists all tasks.
    """
    data = "Use 'list_tasks' to see available tasks" if lists else "Ask a human for its name"
    if candidates:
        named = ", ".join(map(client_text, candidates[:MOST]))
        data = f"The name matches several tasks: {named}. {data}"
    return RefusedError(TASK_NOT_FOUND, f"Task '{client_text(name)}' not found", data)


def unknown_process_refusal(pid: int, *, looks: bool) -> RefusedError:
    """Return the refusal of an unknown process: not started by this server, or dropped.

    `looks` is true if the session has the tool that lists running tasks.
    """
    data = "Use 'status' to see running tasks and their PIDs"
    return RefusedError(
        TASK_NOT_FOUND, f"Job with PID {pid} not found", data if looks else "Start the task again"
    )


def not_running(pid: int) -> RefusedError:
    """Return the refusal of a process that has ended."""
    return RefusedError(
        INTERNAL_ERROR, f"Job with PID {pid} is not running", "Job is already finished"
    )


def too_many(most: int, *, stops: bool) -> RefusedError:
    """Return the refusal of one task too many; `stops` is true if the session can stop one."""
    message = f"Maximum number of concurrent jobs ({most}) reached"
    data = "Wait for a running task to end" + (", or stop one with 'task_stop'" if stops else "")
    return RefusedError(INTERNAL_ERROR, message, data)


def not_started(why: str) -> RefusedError:
    """Return the refusal of a process that the system would not start."""
    return RefusedError(
        INTERNAL_ERROR,
        f"Failed to start process: {why}",
        "Check if the command and arguments are valid",
    )


def bad_folder(cwd: str, why: str) -> RefusedError:
    """Return the refusal of a working folder that cannot be one."""
    return RefusedError(
        INTERNAL_ERROR,
        f"Requested cwd '{client_text(cwd)}' {why}",
        "Use a directory inside the project, relative to its root, or omit cwd",
    )


def bad_arguments(why: str, hint: str) -> RefusedError:
    """Return the refusal of arguments that have the right shape and must not be passed on."""
    return RefusedError(INVALID_PARAMS, f"Invalid arguments: {why}", hint)


def unknown_runner(name: str, runners: Iterable[str]) -> RefusedError:
    """Return the refusal of an unknown runner; `runners` belong to the listed tasks."""
    from .runners import HINTS

    nearest = next((runner for runner in HINTS if runner == name.strip().lower()), "")
    known = ", ".join(dict.fromkeys(runners)) or "none, because no tasks were found"
    hint = f"Use '{nearest}'. " if nearest else ""
    return bad_arguments(
        f"unknown runner '{client_text(name)}'", f"{hint}Runners of the tasks found: {known}"
    )


def size(value: object) -> int:
    """Return the bytes of a value as the JSON of an answer."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def with_text(answer: dict[str, Any], name: str, text: str) -> tuple[dict[str, Any], bool]:
    """Return the answer with as much of the end of a text as fits, and whether it is complete."""
    count = _fits(text, MAX_BYTES - size({**answer, name: ""}), from_end=True)
    kept = text[len(text) - count :]
    head, newline, tail = kept.partition("\n")
    if count < len(text):
        kept = tail if newline and tail else head  # whole lines, if there are any
    return {**answer, name: kept}, kept == text


def newest(lines: Sequence[str], room: int) -> list[str]:
    """Return the last lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    return oldest(lines[::-1], room)[::-1]


def oldest(lines: Sequence[str], room: int) -> list[str]:
    """Return the first lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    kept: list[str] = []
    left = room
    for line in lines:
        left -= size(line) + 1
        if left < 0:
            break
        kept.append(line)
    if lines and not kept:
        kept = [lines[0][: _fits(lines[0], room - size(MARK), from_end=False)] + MARK]
    return kept


def _fits(text: str, room: int, *, from_end: bool) -> int:
    """Return how many characters at one end of a text fit into `room` bytes of JSON."""
    low, high = 0, min(len(text), max(room, 0))  # each character is at least a byte
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if from_end else text[:middle]
        low, high = (middle, high) if size(part) - 2 <= room else (low, middle - 1)
    return low
