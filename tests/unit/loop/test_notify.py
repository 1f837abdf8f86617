"""Lines to the user: by `ralphgen notify` and from loops, over HTTP and by a command."""

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import Result, ralphgen
from driving import query
from loop_projects import LoopProject
from planned_agent import Steps
from proved_projects import proved_project

from ralphgen.loop.notify import Notifier
from ralphgen.loop.run import event
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import NotifyConfig
from ralphgen.sessions.create import project_items

pytestmark = pytest.mark.slow
URL = '[notify]\nurl_env = "NIGHT_URL"\n'
HOSTILE = "Free money\n[click](https://evil.example) \x1b[31m SECRET-7"
OPEN: Steps = ["begin", ["say", "I give up: SECRET-7"]]


@dataclass
class Inbox:
    """The requests to a server: bodies with their types, and the answers."""

    url: str = ""
    status: int = 200
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    bodies: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)


@contextmanager
def serving(inbox: Inbox) -> Iterator[Inbox]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            inbox.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            inbox.types.append(self.headers["Content-Type"])
            time.sleep(inbox.seconds)
            self.send_response(inbox.status)
            for name, value in inbox.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def do_GET(self) -> None:
            inbox.bodies.append("GET")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        inbox.url = f"http://127.0.0.1:{server.server_address[1]}/secret-path"
        yield inbox
        server.shutdown()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with serving(Inbox()) as found:
        yield found


def project(folder: Path, config: str) -> Path:
    root = proved_project(folder / "Tide tables", config)
    add_to_record(root, [item.digest for item in project_items(root)])
    return root


def notify(root: Path, *words: str, **more: str) -> Result:
    return ralphgen("notify", *words, cwd=root, more=more)


def test_text_is_posted_as_one_line(tmp_path: Path, inbox: Inbox) -> None:
    root = project(tmp_path, URL)

    assert 0 == notify(root, "the backup\nis  done", NIGHT_URL=inbox.url).returncode
    assert 0 == notify(root, "é" * 300, NIGHT_URL=inbox.url).returncode
    assert ["the backup is done", "é" * 199 + "…"] == inbox.bodies
    assert {"text/plain; charset=utf-8"} == {*inbox.types}


def test_json_body_is_an_object_with_the_text(tmp_path: Path, inbox: Inbox) -> None:
    root = project(tmp_path, f"{URL}json = true\n")

    assert 0 == notify(root, 'a "quote"', NIGHT_URL=inbox.url).returncode
    assert [{"text": 'a "quote"'}] == [json.loads(body) for body in inbox.bodies]
    assert ["application/json; charset=utf-8"] == inbox.types


def test_command_gets_the_text_as_one_argument(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    program = f"import json, sys; open({str(out)!r}, 'w').write(json.dumps(sys.argv[1:]))"
    command = json.dumps([sys.executable, "-c", program, "night", "<{text}>"])
    root = project(tmp_path, f"[notify]\ncommand = {command}\n")

    assert 0 == notify(root, "$(x) `y`; 'z'").returncode
    assert ["night", "<$(x) `y`; 'z'>"] == json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", 'the variable "NIGHT_URL" is not set'),
        ("file:///etc/passwd", "does not contain an http(s) URL"),
        ("http://127.0.0.1:1/secret-path", "no connection: ConnectionRefusedError"),
        ("http://127.0.0.1:9/secret path\x01", "no connection: InvalidURL"),
        ("http://[secret-path", "no connection: ValueError"),
    ],
)
def test_failure_exits_with_1_and_hides_the_url(tmp_path: Path, url: str, problem: str) -> None:
    done = notify(project(tmp_path, URL), "x", NIGHT_URL=url)

    assert 1 == done.returncode
    assert problem in done.stderr
    assert "secret" not in done.stderr


def test_an_error_of_the_server_or_a_redirect_is_a_failure(tmp_path: Path, inbox: Inbox) -> None:
    root = project(tmp_path, URL)
    for status in (404, 500, 301, 307):
        inbox.status, inbox.headers = status, {"Location": inbox.url}
        done = notify(root, "x", NIGHT_URL=inbox.url)
        assert 1 == done.returncode
        assert f"HTTP status {status}" in done.stderr
    assert ["x"] * 4 == inbox.bodies


@pytest.mark.thorough
def test_one_attempt_takes_five_seconds_at_most(tmp_path: Path) -> None:
    hangs = json.dumps([sys.executable, "-c", "import time; time.sleep(99)", "{text}"])
    roots = {
        "URL": project(tmp_path / "a", URL),
        "command": project(tmp_path / "b", f"[notify]\ncommand = {hangs}\n"),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for kind, root in roots.items():
            began = time.monotonic()
            done = notify(root, "x", NIGHT_URL=url)
            assert 1 == done.returncode, kind
            assert "5 s" in done.stderr
            assert 4.9 < time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ('url_env = "https://ntfy.sh/secret"', "not the URL"),
        ('url = "https://ntfy.sh/secret"', 'unknown key "notify.url"'),
        ('command = ["curl", "-d", "{text}", "https://ntfy.sh/secret"]', "no URL"),
        ('command = ["apprise", "-b", "{text}", "slack://secret"]', "no URL"),
        ('command = ["ntfy", "publish"]', '"{text}"'),
        ('command = ["x", "{text}"]\nurl_env = "NIGHT_URL"', "not both"),
        ('command = ["x", "{text}"]\njson = true', "json"),
        ('on = ["stop"]', "command or url_env"),
        ('url_env = "NIGHT_URL"\non = ["end"]', "stop"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, settings: str, problem: str) -> None:
    root = proved_project(tmp_path / "p", "")
    (root / ".ralph/ralphgen.toml").write_text(f"[notify]\n{settings}\n", encoding="utf-8")
    done = notify(root, "x")

    assert 1 == done.returncode
    assert problem in done.stderr
    assert "secret" not in done.stderr


def test_notify_is_refused_without_settings_text_trust_and_for_agents(
    tmp_path: Path, inbox: Inbox
) -> None:
    root = proved_project(tmp_path / "p", URL)

    done = notify(root, "x", NIGHT_URL=inbox.url, XDG_CONFIG_HOME=str(tmp_path / "other"))
    assert 2 == done.returncode
    assert "[notify] sends lines to the URL in NIGHT_URL" in done.stderr
    add_to_record(root, [item.digest for item in project_items(root)])
    assert 2 == notify(root, " \n", NIGHT_URL=inbox.url).returncode
    assert 2 == notify(root, "x", NIGHT_URL=inbox.url, RALPHGEN_SESSION="s").returncode
    (root / ".ralph/ralphgen.toml").write_text("", encoding="utf-8")
    done = notify(root, "x", NIGHT_URL=inbox.url)
    assert (1, True) == (done.returncode, "no [notify]" in done.stderr)
    assert [] == inbox.bodies


def hostile_loop(folder: Path, inbox: Inbox, settings: str = URL, *, tasks: int = 2) -> LoopProject:
    """A loop whose first task is done and whose others are left open, with hostile titles."""
    plan = {"1": [["begin", "done"]], "*": [OPEN]}
    config = f"{settings}[loop]\nattempts = 1\n"
    found = LoopProject(folder, tasks, plan, config=config)
    query(found.root, "UPDATE tasks SET title = ?", HOSTILE)
    found.environment["NIGHT_URL"] = inbox.url
    return found


def test_loop_reports_a_stuck_task_and_its_end(tmp_path: Path, inbox: Inbox) -> None:
    done = hostile_loop(tmp_path, inbox).loop()

    assert 5 == done.returncode, done.stderr
    stuck, stop = sorted(inbox.bodies, key=lambda line: "stopped" in line)
    assert "p: stuck: task 2 is blocked after its attempts" == stuck
    assert stop.startswith("p: stopped: nothing is ready without you; 1 done, 1 blocked, $0.50, ")
    for line in inbox.bodies:
        assert line.isprintable()
        assert len(line) <= 200
        assert not any(word in line for word in ("SECRET", "money", "evil", "[", "I give up"))


@pytest.mark.thorough
def test_question_is_only_a_question(tmp_path: Path, inbox: Inbox) -> None:
    asks = ["tool", "set_task_status", {"status": "blocked", "question": "Why? SECRET-7"}]
    found = LoopProject(tmp_path, 1, {"*": [["begin", asks]]}, config=URL)
    found.environment["NIGHT_URL"] = inbox.url

    assert 5 == found.loop().returncode
    question, stop = sorted(inbox.bodies, key=lambda line: "stopped" in line)
    assert "p: question 1 on task 1" == question
    assert stop.startswith("p: stopped: nothing is ready without you; 0 done, 1 question, ")


@pytest.mark.thorough
def test_on_selects_the_occasions(tmp_path: Path, inbox: Inbox) -> None:
    hostile_loop(tmp_path, inbox, f'{URL}on = ["stuck"]\n').loop()

    assert ["p: stuck: task 2 is blocked after its attempts"] == inbox.bodies


@pytest.mark.thorough
def test_interrupted_loop_sends_its_stop(tmp_path: Path, inbox: Inbox) -> None:
    found = LoopProject(tmp_path, 1, {"*": [["begin", "hang"]]}, config=URL)
    found.environment["NIGHT_URL"] = inbox.url
    with found.started() as process:
        found.wait_for("begin", 1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    (line,) = inbox.bodies
    assert line.startswith("p: stopped: interrupted; 0 done, ")


@pytest.mark.thorough
def test_failed_notification_is_a_note_and_delays_no_session(tmp_path: Path, inbox: Inbox) -> None:
    inbox.status = 500
    done = hostile_loop(tmp_path, inbox).loop("--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]

    assert 5 == done.returncode
    notes = [one["text"] for one in events if one["event"] == "note"]
    failed = "the notification was not sent: the server answered with HTTP status 500"
    assert 2 == notes.count(failed)
    assert "secret-path" not in done.stdout + done.stderr


def test_agents_do_not_receive_the_url(tmp_path: Path, inbox: Inbox) -> None:
    out = tmp_path / "environment.txt"
    sees: Steps = ["begin", ["run", "sh", "-c", f"env > '{out}'"], "done"]
    found = LoopProject(tmp_path, 1, {"*": [sees]}, config=URL)
    found.environment["NIGHT_URL"] = inbox.url

    assert 0 == found.loop().returncode
    assert "RALPHGEN_SESSION" in out.read_text(encoding="utf-8")
    assert "secret-path" not in out.read_text(encoding="utf-8")
    assert 1 == len(inbox.bodies)


@pytest.mark.thorough
def test_error_before_the_first_session_is_reported(tmp_path: Path, inbox: Inbox) -> None:
    config = f'{URL}[[done.checks]]\nname = "red"\nrun = ["false"]\n'
    found = LoopProject(tmp_path, 1, {}, config=config, repository=True)
    found.environment["NIGHT_URL"] = inbox.url

    assert 0 != found.loop("--worktrees").returncode
    assert ["p: stopped: an error"] == inbox.bodies


def test_events_of_limits_and_questions_are_reported_once(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHT_URL", inbox.url)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    resets = time.strftime("%Y-%m-%dT03:40:00Z", time.gmtime(time.time()))
    limit = {"agent": "claude", "window": "five_hour", "resets_at": resets, "next": "codex"}
    notes: list[str] = []
    with Notifier(tmp_path / "-Tide [x]", NotifyConfig(url_env="NIGHT_URL"), notes.append) as told:
        for one in (
            event("limit", **limit),
            event("limit", **limit),
            event("limit", agent=HOSTILE, resets_at=HOSTILE, next=None),
            event("question", task=7, question=3, text=HOSTILE),
            event("note", worker=1, text=HOSTILE),
            event("unavailable", agent="codex", reason=HOSTILE),
        ):
            told.take(one)
            told.wait()

    assert [
        "Tide [x]: claude: limit until 03:40; codex goes on",
        "Tide [x]: an agent: limit",
        "Tide [x]: question 3 on task 7",
    ] == inbox.bodies
    assert [] == notes
