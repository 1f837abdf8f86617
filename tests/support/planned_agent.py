"""An agent that follows a plan: a JSON file with its actions by task and attempt.

It is a separate program, and a client of its session's real server. A plan is `{"tasks": {"7":
[[step, …], …], "*": …}, "cost": 0.25}`: the steps of the first attempt, then those of the second;
the last ones are used for all further attempts, and `*` for tasks and sessions that are not named.
A step is a word or a list of a word and its arguments, which match the methods of `Worker`;
`{task}` in them is the task's id. Each begin and end is a line in `<plan>.log`.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from scripted_agent import Agent

Steps = list[Any]
WORKS: Steps = ["begin", ["comment", "looked at {task}"], "done"]
PROVES: Steps = ["begin", ["write", "task-{task}.txt", "done"], "check", "done"]
LIMIT = "API Error: 429 {'type': 'error', 'error': {'type': 'rate_limit_error'}}"


def write_plan(
    path: Path, tasks: Mapping[str, Sequence[Steps]], *, cost: float | None = 0.25
) -> Path:
    """Write a plan: the steps of each attempt, by task."""
    path.write_text(json.dumps({"tasks": tasks, "cost": cost}), encoding="utf-8")
    return path


def claude_program(folder: Path, plan: Path) -> Path:
    """Write a program `claude` into a folder that follows the plan."""
    path = folder / "claude"
    command = shlex.join([sys.executable, __file__, str(plan)])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def agent_command(plan: Path) -> list[str]:
    """The command of `[loop.agents.<name>]` for an agent that follows the plan."""
    own = [sys.executable, __file__, str(plan), "--plain"]
    return [*own, "--mcp-config", "{config}", "{system_file}", "{prompt_file}"]


def log_of(plan: Path) -> list[dict[str, Any]]:
    """Return the complete log lines of a plan's agents, in order."""
    try:
        text = plan.with_suffix(".log").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Worker:
    """One session of the agent: each method is a step."""

    def __init__(self, plan: Path, argv: list[str]) -> None:
        """Start the session's server."""
        config = Path(argv[argv.index("--mcp-config") + 1])
        context = json.loads(config.with_name("context.json").read_bytes())
        self.plain = "--plain" in argv  # a program other than Claude Code
        self.argv = argv
        self.plan = plan
        self.task = context.get("task_id")
        self.session = context["session_id"]
        self.recipe = context["recipe"]
        self.settled = json.loads(plan.read_bytes())
        before = [one for one in log_of(plan) if one["task"] == self.task]
        self.attempt = sum(one["event"] == "begin" for one in before)
        self.log("begin")
        self.agent = Agent(argv)

    def run(self) -> None:
        """Follow the plan to its end."""
        for step in self.steps():
            word, *values = [step] if isinstance(step, str) else step
            getattr(self, f"do_{word}")(*map(self.filled, values))
        self.end()

    def steps(self) -> Steps:
        """Return the steps of this attempt."""
        tasks = self.settled["tasks"]
        key = self.recipe if self.task is None else str(self.task)
        attempts = tasks.get(key, tasks.get("*", [WORKS]) if self.task is not None else [[]])
        found: Steps = attempts[min(self.attempt, len(attempts) - 1)]
        return found

    def filled(self, value: Any) -> Any:
        """A value with the task's id in it."""
        return value.replace("{task}", str(self.task)) if isinstance(value, str) else value

    def do_begin(self) -> None:
        self.agent.call("set_task_status", status="in_progress")

    def do_done(self) -> None:
        self.log("said", self.agent.call("set_task_status", status="done", summary="it works"))

    def do_blocked(self, reason: str = "no key") -> None:
        self.agent.call("set_task_status", status="blocked", reason=reason)

    def do_comment(self, text: str) -> None:
        self.agent.call("add_task_comment", body=text)

    def do_read(self) -> None:
        self.agent.call("get_task")

    def do_check(self) -> None:
        self.log("said", self.agent.call("run_checks"))

    def do_tool(self, name: str, arguments: dict[str, Any]) -> None:
        self.log("said", self.agent.call(name, **arguments))

    def do_prompt(self) -> None:
        given = Path(self.argv[-1])  # of another program than Claude Code
        self.log("prompt", given.read_text(encoding="utf-8") if self.plain else sys.stdin.read())

    def do_say(self, text: str) -> None:
        self.agent.says(text)

    def do_write(self, path: str, text: str) -> None:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def do_run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.log("ran", f"{done.returncode} {done.stdout}{done.stderr}")

    def do_loose(self) -> None:
        """Start a process that cuts itself loose, and lives for minutes."""
        started = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.log("loose", str(started.pid))

    def do_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def do_wait(self, path: str) -> None:
        """Continue when a file exists."""
        while not Path(path).exists():
            time.sleep(0.01)

    def do_meet(self, number: int) -> None:
        """Continue when `number` agents are here."""
        if self.attempt == 0:
            self.log("here")
            while sum(line["event"] == "here" for line in log_of(self.plan)) < number:
                time.sleep(0.01)

    def do_hang(self) -> None:
        time.sleep(600)

    def do_loop(self) -> None:
        """Call the same tool for ever."""
        while True:
            self.agent.call("get_task")

    def do_crash(self) -> None:
        os.abort()

    def do_exit(self, code: int) -> None:
        self.log("end")
        sys.exit(code)

    def do_limited(self, seconds: float | None = None) -> None:
        """Report too many requests, as the model does, maybe with a reset."""
        self.log("end")
        resets_at = None if seconds is None else int(time.time() + seconds)
        if self.plain:
            if resets_at is not None:
                sys.stdout.write(f"{json.dumps({'resets_at': resets_at})}\n")
            sys.exit(os.EX_TEMPFAIL)
        if resets_at is not None:
            info = {"status": "rejected", "resetsAt": resets_at, "rateLimitType": "five_hour"}
            self.agent.write(type="rate_limit_event", rate_limit_info=info)
        more = {"result": LIMIT, "api_error_status": 429}
        self.agent.ends(is_error=True, cost=self.settled["cost"], more=more)
        sys.exit(1)

    def do_refused(self, error: str) -> None:
        """Be told by the model that it takes no requests of this account."""
        self.log("end")
        self.agent.write(type="assistant", error=error, message={"content": []})
        self.agent.ends(is_error=True, cost=0.0)
        sys.exit(1)

    def end(self) -> None:
        """Report the usage, and end successfully."""
        cost = self.settled["cost"]
        self.agent.close()
        self.log("end")
        if not self.plain:
            self.agent.ends(cost=cost)
        elif cost is not None:
            used = {"turns": 3, "cost_usd": cost, "input_tokens": 1_200, "output_tokens": 34}
            sys.stdout.write(f"{json.dumps(used)}\n")

    def log(self, event: str, text: str = "") -> None:
        """Add a line to the log of the plan."""
        line = {
            "event": event,
            "task": self.task,
            "session": self.session,
            "recipe": self.recipe,
            "pid": os.getpid(),
            "time": time.monotonic(),
            "folder": str(Path.cwd()),
            "text": text,
            "argv": self.argv if event == "begin" else [],
        }
        with self.plan.with_suffix(".log").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    Worker(Path(sys.argv[1]), sys.argv[2:]).run()
