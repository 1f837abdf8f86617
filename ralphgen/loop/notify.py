"""Sends lines to the user: on events of a loop, and for `ralphgen notify`.

A line has the project's name, numbers and fixed words, never text of agents or rows: a stranger may
read it on a phone's lock screen, and its reader trusts it.
"""

import json
import os
import re
import signal
import subprocess
import time
from calendar import timegm
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ralphgen.errors import ProjectError
from ralphgen.loop.cost import Costs
from ralphgen.loop.run import MOMENT, Cause, Event, duration, event
from ralphgen.project.config import AGENT_NAME, TEXT, NotifyConfig, Occasion
from ralphgen.project.root import FOLDER
from ralphgen.runtime.processes.secrets import passed_on

SECONDS = 5.0  # for one attempt
LONGEST = 200  # characters of a line
DAY = 86_400  # seconds
LONGEST_NAME = 40  # characters of the project's name in it
_CAUSES: Mapping[Cause, str] = {
    "nothing_ready": "nothing is ready",
    "needs_user": "nothing is ready without you",
    "no_progress": "no progress",
    "max_tasks": "--max-tasks reached",
    "max_cost": "--max-cost reached",
    "max_time": "--max-time reached",
    "until": "--until reached",
    "usage_limit": "usage limit",
    "unavailable": "no agent is available",
    "interrupted": "interrupted",
}
_COUNTED = ("done", "skipped", "blocked", "not merged", "merge pending")  # outcomes


def one_line(text: str) -> str:
    """Return a text as one printable line of at most `LONGEST` characters."""
    words = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def address(config: NotifyConfig) -> str:
    """Remove the URL from the environment and return it, empty if there is none.

    Agents, checks and commands of the loop do not need it.
    """
    return os.environ.pop(config.url_env or "", "").strip()


def send(root: Path, config: NotifyConfig, url: str, text: str) -> None:
    """Send a line in one attempt, by the command of `[notify]` or to the URL.

    Raises `ProjectError` if that fails; its message has no URL and no output of the command.
    """
    failures: list[str] = []

    def attempt() -> None:
        failures.append(_run(root, config, text) if config.command else _post(config, url, text))

    # A timeout of a socket starts again with each byte, and a name server has none.
    thread = Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(SECONDS + 1 if config.command else SECONDS)
    failure = failures[0] if failures else f"no answer within {SECONDS:.0f} s"
    if failure:
        raise ProjectError(f"the notification was not sent: {failure}")


def _run(root: Path, config: NotifyConfig, text: str) -> str:
    """Run the command; return why that failed, or an empty string."""
    words = [word.replace(TEXT, text) for word in config.command or ()]
    try:
        with subprocess.Popen(
            words,
            cwd=root,
            env=passed_on(str(root / FOLDER)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                _kill(process)
                return f"the command took longer than {SECONDS:.0f} s"
    except (OSError, ValueError) as error:
        return f"the command did not start: {getattr(error, 'strerror', None) or 'invalid'}"
    return f"the command ended with exit code {code}" if code else ""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its group."""
    with suppress(OSError, AttributeError):  # Windows has no groups
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: the text would get lost, or go to a host that the user did not choose."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, which makes the redirect an error."""


def _post(config: NotifyConfig, url: str, text: str) -> str:
    """Send the text to the URL; return why that failed, or an empty string."""
    if not re.match(r"(?i)https?://.", url):
        problem = "does not contain an http(s) URL" if url else "is not set"
        return f'the variable "{config.url_env}" {problem}'
    kind, body = "text/plain", text
    if config.as_json:
        kind, body = "application/json", json.dumps({"text": text})
    headers = {"Content-Type": f"{kind}; charset=utf-8", "User-Agent": "ralphgen"}
    try:
        request = Request(url, body.encode(), headers, method="POST")
        with build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return ""
    except HTTPError as error:
        error.close()
        return f"the server answered with HTTP status {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)  # its text may contain the URL or its host
        if isinstance(reason, TimeoutError):
            return f"no answer within {SECONDS:.0f} s"
        return f"no connection: {type(reason).__name__}"


class Notifier:
    """Decides for each event of a loop whether the user gets a line, and sends it.

    Each line has its own thread, so that no server delays the loop; `note` receives each failure.
    As a context manager, it also sends a line for an error that ends the loop.
    """

    def __init__(self, root: Path, config: NotifyConfig, note: Callable[[str], None]) -> None:
        self._root = root
        self._config = config
        self._note = note
        self._threads: list[Thread] = []
        self._limits: set[tuple[object, object]] = set()
        self._costs = Costs()
        self._blocked = self._questions = 0
        self._stopped = False
        name = re.sub(r"^\W+", "", root.name)  # a command could read "-x" or "@x" as an option
        self._name = one_line(name)[:LONGEST_NAME].rstrip() or "project"
        self._url = address(config)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Send a line for an error, and wait until it was sent."""
        if error is not None and not self._stopped:
            is_interrupt = isinstance(error, KeyboardInterrupt)
            self.take(event("stop", cause="interrupted" if is_interrupt else "error"))
        self.wait()

    def take(self, told: Event) -> None:
        """Send a line if the event is an occasion for one."""
        if not self._config.is_set:
            return
        occasions, text = self._line(told)
        if text and not occasions.isdisjoint(self._config.on):
            thread = Thread(target=self._send_message, args=(one_line(f"{self._name}: {text}"),))
            thread.daemon = True
            thread.start()
            self._threads.append(thread)

    def wait(self) -> None:
        """Wait until every line was sent or has failed, for a few seconds at most."""
        end = time.monotonic() + SECONDS + 2
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0))

    def _send_message(self, text: str) -> None:
        try:
            send(self._root, self._config, self._url, text)
        except ProjectError as error:
            self._note(str(error))

    def _line(self, told: Event) -> tuple[set[Occasion], str]:
        """Return the occasions of an event and what to say of it, empty if it is none."""
        match told:
            case {"event": "end"}:
                self._costs.take(told)
            case {"event": "question", "task": task, "question": number}:
                self._questions += 1
                return {"question"}, f"question {_number(number)} on task {_number(task)}"
            case {"event": "note", "blocked": task}:
                self._blocked += 1
                return {"stuck"}, f"stuck: task {_number(task)} is blocked after its attempts"
            case {"event": "limit", "agent": agent}:
                key = (agent, told.get("resets_at"))
                if key not in self._limits:
                    self._limits.add(key)
                    return {"limit"}, _limit_words(told)
            case {"event": "stop"}:
                self._stopped = True
                stuck: set[Occasion] = {"stuck"} if told.get("cause") == "no_progress" else set()
                return {"stop", *stuck}, self._stop_words(told)
        return set(), ""

    def _stop_words(self, told: Event) -> str:
        reason = f"stopped: {_CAUSES.get(told.get('cause', 'error'), 'an error')}"
        if "outcomes" not in told:
            return reason
        counts = {one: told["outcomes"].get(one, 0) for one in _COUNTED}
        counts["blocked"] += self._blocked
        facts = [f"{number} {one}" for one, number in counts.items() if number or one == "done"]
        if self._questions:
            facts.append(f"{self._questions} question{'s' * (self._questions != 1)}")
        facts += filter(None, [str(self._costs)])
        return f"{reason}; {', '.join([*facts, duration(told['seconds'])])}"


def _number(value: object) -> str:
    return str(value) if isinstance(value, int) else "?"


def _agent(name: object) -> str:
    return str(name) if AGENT_NAME.fullmatch(str(name)) else "an agent"


def _limit_words(told: Event) -> str:
    """Return an agent's limit with its reset in local time, if known, and the next agent."""
    text = f"{_agent(told['agent'])}: limit"
    with suppress(TypeError, ValueError, OverflowError):
        reset = timegm(time.strptime(told.get("resets_at") or "", MOMENT))
        form = "%H:%M" if reset - time.time() < DAY else "%Y-%m-%d %H:%M"
        text += f" until {time.strftime(form, time.localtime(reset))}"
    return f"{text}; {_agent(told['next'])} goes on" if told.get("next") else text
