"""What an agent with a shell cannot do from inside a sandbox, as root and as an ordinary user."""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import pytest
from command_line import RALPHGEN, ralphgen, ran
from containing import CONTAINING
from dela_projects import allow, entry
from driving import query
from lifelines import until

from ralphgen.agents.sandbox import MOST_REFUSED, Proxy, Sandbox, allowed_hosts
from ralphgen.environment.location import environment_for
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.loop.trees import refused_files
from ralphgen.runtime.processes.sandbox import contained, python_command

pytestmark = [pytest.mark.slow, CONTAINING]
NOBODY = 65_534
ADD_KEY, READ, SESSION_KEYRING = 248, 11, -3
KEYCTL = 250
HIDDEN = "of-the-user"
SYSTEM_PYTHON = "/usr/bin/python3"
OPEN = gettempdir()  # folders that another user may enter


@dataclass
class Shell:
    """Runs scripts inside, and has the files outside that they must not reach."""

    root: Path
    home: Path
    rules: dict[str, Any]
    user: int

    def __call__(
        self, script: str, *, python: bool = False, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of the shell, or of Python, in the work tree."""
        words = [python_command()[0], "-c", script] if python else ["bash", "-c", script]
        environment = {**os.environ, **(variables or {})}
        argv, passed = contained(words, str(self.root), environment, self.rules)
        return subprocess.run(
            argv,
            env=passed,
            user=self.user,
            group=self.user,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module", params=["root", pytest.param("user", marks=pytest.mark.thorough)])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    """A project that the attacks share: none of them can change it."""
    if request.param == "user" and os.geteuid():
        pytest.skip("the tests run as an ordinary user")
    if request.param == "user" and not Path(SYSTEM_PYTHON).exists():
        pytest.skip("there is no Python that another user may run")
    with TemporaryDirectory(dir=OPEN) as folder, pytest.MonkeyPatch.context() as patched:
        top = Path(folder)
        top.chmod(0o755)
        home, root = top / "home", top / "work" / "p"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "id_ed25519").write_text(HIDDEN, encoding="utf-8")
        ran("init", root, "--quiet")
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "first")
        user = os.geteuid() if request.param == "root" else NOBODY
        become(patched, home, user)
        with Sandbox(Project(root), print) as sandbox:
            patched.undo()
            if user == NOBODY:
                for path in (home, top / "work", *top.rglob("*")):
                    os.lchown(path, NOBODY, NOBODY)
            yield Shell(root, home, dict(sandbox.rules), user)


def become(patched: pytest.MonkeyPatch, home: Path, user: int) -> None:
    """Set the variables of a user, who as an ordinary one may not read where Python is."""
    patched.setenv("HOME", str(home))
    patched.setenv("RALPH_DSN", HIDDEN)
    if user == NOBODY:
        patched.setattr(sys, "base_prefix", "/usr")
        patched.setattr(sys, "executable", SYSTEM_PYTHON)


@pytest.fixture
def inside(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    become(monkeypatch, shell.home, shell.user)
    return replace(shell, rules={**shell.rules})


def git(folder: Path, *words: str) -> None:
    config = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(
        [str(shutil.which("git")), *config, *words], cwd=folder, check=True, capture_output=True
    )


def test_files_outside_the_work_tree_are_not_there(inside: Shell) -> None:
    sessions = inside.root / ".ralph" / "mcp" / "sessions" / "another"
    sessions.mkdir(parents=True)
    (sessions / "context.json").write_text(HIDDEN, encoding="utf-8")
    hidden = (
        inside.home / ".ssh" / "id_ed25519",
        inside.root / ".ralph" / "db" / "ralph.db",
        sessions / "context.json",
        Path("/etc/shadow"),
        Path("/var/run/docker.sock"),
        Path("/var/lib"),
        Path("/root/.bashrc"),
    )
    listed = inside("; ".join(f"ls -d {path}" for path in hidden))
    assert "" == listed.stdout
    found = inside(f"grep -r -l -s {HIDDEN} ~ .. /etc /tmp /run /dev/shm")
    assert "" == found.stdout


def test_the_work_tree_is_written_and_the_home_is_empty(inside: Shell) -> None:
    done = inside("echo a > new && mkdir -p src && cat new && ls -A ~ && touch ~/x /tmp/y")
    assert (0, "a\n") == (done.returncode, done.stdout), done.stderr
    assert "a\n" == (inside.root / "new").read_text(encoding="utf-8")
    assert [".ssh"] == [path.name for path in inside.home.iterdir()]


ATTACKS = [
    "echo x >> .ralph/ralphgen.toml",
    "mkdir .ralph/recipes; touch .ralph/recipes/x.toml",
    "touch .ralph/mcp/server.py",
    "mv .ralph old",
    "rm -rf .ralph",
    "ln -sfn /tmp .ralph",
    "touch .git/hooks/pre-commit",
    "echo x >> .git/config",
    "mv .git old",
    "git commit --allow-empty -m x",
    "umount .ralph",
    "umount -l .git",
    "mount -o remount,rw .ralph",
    "mount --bind /tmp .git",
    "cd .. && mv p q",
    "chmod 777 .ralph/mcp",
]


@pytest.mark.thorough
def test_rules_and_hooks_cannot_be_changed(inside: Shell) -> None:
    before = _contents(inside.root)
    for attack in ATTACKS:
        inside(attack)
        assert before == _contents(inside.root), attack


def _contents(root: Path) -> dict[str, bytes]:
    found = (
        path for name in (".git", ".ralph") for path in (root / name).rglob("*") if path.is_file()
    )
    return {str(path): path.read_bytes() for path in found}


def test_the_folders_above_an_inner_project_cannot_be_moved(tmp_path: Path) -> None:
    root = tmp_path / "top" / "apps" / "shop"
    ran("init", root, "--quiet")
    git(tmp_path / "top", "init", "--quiet")
    with Sandbox(Project(root), print) as sandbox:
        assert "apps/shop" == sandbox.rules["inner"]
        for attack in ("cd ..; mv shop x", "cd ../..; mv apps x", "rm -rf ../../apps"):
            argv, passed = contained(["sh", "-c", attack], str(root), os.environ, sandbox.rules)
            assert subprocess.run(argv, env=passed, capture_output=True, check=False).returncode
            assert (root / ".ralph" / "ralphgen.toml").exists()


def test_no_socket_outside_is_reached(inside: Shell) -> None:
    paths = (inside.home / "a.sock", Path(OPEN) / f"ralphgen-test-{os.getpid()}.sock")
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    names = [*map(str, paths), f"\0ralphgen-{os.getpid()}"]
    tcp = socket.create_server(("127.0.0.1", 0))
    port = tcp.getsockname()[1]
    try:
        for listener, name in zip(listeners, names, strict=True):
            listener.bind(name)
            listener.listen()
        attack = (
            f"import socket\nfor name in {names!r}:\n"
            "    try: socket.socket(socket.AF_UNIX).connect(name); print('reached', name)\n"
            "    except OSError: pass\n"
            f"try: socket.create_connection(('127.0.0.1', {port}), 3); print('tcp')\n"
            "except OSError: pass\n"
            "try: socket.create_connection(('10.0.0.1', 80), 3); print('network')\n"
            "except OSError: pass\n"
        )
        done = inside(attack, python=True)
        assert (0, "") == (done.returncode, done.stdout), done.stderr
    finally:
        for one in (*listeners, tcp):
            one.close()
        for path in paths:
            path.unlink(missing_ok=True)


def test_no_process_outside_is_seen_or_signalled(inside: Shell) -> None:
    victim = subprocess.Popen(
        [str(shutil.which("sleep")), "60"], user=inside.user, group=inside.user, extra_groups=[]
    )
    try:
        done = inside(f"kill -9 {victim.pid}; kill -9 -1; true")
        seen = inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "pytest" not in seen.stdout, done.stderr
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.thorough
def test_a_process_that_leaves_its_session_ends_with_it(inside: Shell) -> None:
    inside("setsid nohup sh -c 'sleep 2; touch survived' >/dev/null 2>&1 & disown; exit 0")
    time.sleep(3)
    assert not (inside.root / "survived").exists()


def test_there_are_no_capabilities_and_no_new_namespaces(inside: Shell) -> None:
    shown = inside("cd /proc/self; grep ^Cap status | cut -f 2 | sort -u; grep NoNewPrivs status")
    assert ["0000000000000000", "NoNewPrivs:\t1"] == shown.stdout.splitlines()
    for attack in ("unshare -Ur true", "unshare -m true", "mount -t tmpfs x /mnt", "chroot /usr"):
        assert inside(attack).returncode, attack
    assert inside("mknod /tmp/sda b 8 0 && cat /tmp/sda").returncode


def test_no_variable_of_ours_is_seen_in_any_process(inside: Shell) -> None:
    done = inside("cat /proc/*/environ | tr '\\0' '\\n' | sort -u", variables={"MINE": "given"})
    assert HIDDEN not in done.stdout
    assert "MINE=given" in done.stdout
    assert "PYTEST" not in done.stdout


def test_keys_of_our_keyring_are_not_read(inside: Shell) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    key = library.syscall(
        ADD_KEY, b"user", b"ralphgen", HIDDEN.encode(), len(HIDDEN), SESSION_KEYRING
    )
    if key < 0:
        pytest.skip("this container has no keyrings")
    attack = (
        "import ctypes\nlibrary = ctypes.CDLL(None)\nroom = ctypes.create_string_buffer(99)\n"
        f"for key in ({key}, -3, -4, -5):\n"
        f"    if library.syscall({KEYCTL}, {READ}, key, room, 99) > 0: print(room.raw)\n"
        f"print(library.syscall({KEYCTL}, 10, -3, b'user', b'ralphgen', 0))"
    )
    done = inside(attack, python=True)
    assert "-1\n" == done.stdout, done.stderr


def test_a_terminal_of_ours_takes_no_typing(inside: Shell) -> None:
    own, theirs = os.openpty()
    attack = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')"
    argv, passed = contained(
        [python_command()[0], "-c", attack], str(inside.root), os.environ, inside.rules
    )
    done = subprocess.run(
        argv,
        env=passed,
        stdin=theirs,
        stderr=subprocess.PIPE,
        text=True,
        user=inside.user,
        group=inside.user,
        extra_groups=[],
        check=False,
    )
    os.close(own)
    os.close(theirs)
    assert 1 == done.returncode
    assert "PermissionError" in done.stderr or "Errno 5" in done.stderr or "Errno 6" in done.stderr


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_proxy_connects_to_listed_hosts_only(inside: Shell, site: int) -> None:
    said: list[str] = []
    path = inside.home / "n.sock"
    hosts = {**allowed_hosts(["localhost:1", f"localhost:{site}"]), f"127.0.0.1:{site}": True}
    ask = (
        "import os, urllib.request, urllib.error\nos.environ['no_proxy'] = ''\nfor url in {!r}:\n"
        "    try: print(urllib.request.urlopen(url, timeout=5).read().decode())\n"
        "    except urllib.error.URLError as error: print(error)\n"
    )
    with Proxy(path, hosts, said.append):
        path.chmod(0o777)
        inside.rules["network"] = str(path)
        urls = [f"http://127.0.0.1:{site}/", f"http://localhost:{site}/", "http://example.org/"]
        done = inside(ask.format(urls), python=True)
    lines = done.stdout.splitlines()
    assert ["ok", "HTTP Error 403: Forbidden", "HTTP Error 403: Forbidden"] == lines, done.stderr
    assert [
        f'the sandbox refused a connection to "localhost:{site}"',  # it has a private address
        'the sandbox refused a connection to "example.org:80"',
    ] == said


def test_many_connections_and_hosts_neither_start_threads_nor_fill_the_terminal(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    path = tmp_path / "n.sock"
    request = "CONNECT {}.example.org:443 HTTP/1.1\r\n\r\n"
    with Proxy(path, {}, said.append):
        for number in range(MOST_REFUSED + 20):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(request.format(number).encode())
                assert b"403" in client.recv(1024)
        until(lambda: threading.active_count() < Proxy.most)
        held = []
        for _ in range(Proxy.most + 20):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(str(path))
        assert b"" == held[-1].recv(1)
        assert threading.active_count() < Proxy.most + 20
        for client in held:
            client.close()

    assert MOST_REFUSED == len(said)


def test_what_would_show_hidden_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "cache" / "ralphgen"))
    ran("init", root, "--quiet")
    settings = root / ".ralph" / "ralphgen.toml"
    for text, why in (
        ("", "in a git repository only"),
        (f'[sandbox]\nread = ["{tmp_path}"]\n', "where ralphgen keeps or runs files"),
        (f'[sandbox]\nwrite = ["{root}/.ralph/db"]\n', "where ralphgen keeps or runs files"),
        (f'[sandbox]\nwrite = ["{tmp_path}/cache"]\n', "where ralphgen keeps or runs files"),
        (f'[sandbox]\nread = ["{tmp_path}/cache"]\n', "where ralphgen keeps or runs files"),
        (f'[sandbox]\nwrite = ["{sys.prefix}"]\n', "where ralphgen keeps or runs files"),
        ('[database]\npath = "data.db"\n', "is in the work tree"),
    ):
        settings.write_text(text, encoding="utf-8")
        with pytest.raises(ProjectError, match=why), Sandbox(Project(root), print):
            pass
        if not text:
            git(root, "init", "--quiet")


def test_approvals_in_the_work_tree_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    ran("init", root, "--quiet")
    git(root, "init", "--quiet")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    with pytest.raises(ProjectError, match="where agents could change it"):
        Sandbox(Project(root), print)


def test_without_bubblewrap_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "p"
    ran("init", root, "--quiet")
    git(root, "init", "--quiet")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(ProjectError, match='"bwrap" is not on PATH'), Sandbox(Project(root), print):
        pass
    refusing = "#!/bin/sh\necho bwrap: No permissions >&2; exit 1\n"
    (programs / "bwrap").write_text(refusing, encoding="utf-8")
    (programs / "bwrap").chmod(0o755)
    done = ralphgen(
        "launch", "braindump", "--sandbox", "hello", cwd=root, more={"PATH": str(programs)}
    )
    assert (1, "") == (done.returncode, done.stdout)


ATTACK = """
import json, os, subprocess, sys
config = json.load(open(sys.argv[1]))["mcpServers"]["ralph"]
server = subprocess.Popen(
    [config["command"], *config["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
def ask(number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(message), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())
client = {"name": "probe", "version": "1"}
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
home = os.listdir(os.path.expanduser("~"))
print(json.dumps({"database": os.path.exists(".ralph/db"), "home": home}))
locked = os.path.join(os.path.dirname(sys.argv[1]), "locked")
os.mkdir(locked)
open(os.path.join(locked, "file"), "w").close()
os.chmod(locked, 0)
answer = ask(2, "tools/call", name="run_checks", arguments={"task": 1})
print(answer["result"]["content"][0]["text"])
closing = {"id": 1, "status": "done"}
print(json.dumps(ask(3, "tools/call", name="set_task_status", arguments=closing)))
"""
PLANT = """
import os, sys
bait = "#!/bin/sh\\ntouch " + os.path.abspath("planted") + "\\nexec /usr/bin/git \\"$@\\"\\n"
for folder in ("bin", "tools/venv/bin"):
    try:
        os.makedirs(folder, exist_ok=True)
        with open(folder + "/git", "w") as file:
            os.chmod(file.fileno(), 0o755)
            file.write(bait)
        packages = "/../lib/python%d.%d/site-packages" % sys.version_info[:2]
        with open(folder + packages + "/evil.pth", "w"):
            pass
    except OSError as error:
        print(folder, os.strerror(error.errno))
try:
    os.rename("tools", "moved")
except OSError as error:
    print("tools", os.strerror(error.errno))
"""
PLANT_PACKAGE = """
os.remove(".gitignore")
folder = "tools/venv/lib/python%d.%d/site-packages" % sys.version_info[:2]
os.makedirs(folder)
open(folder + "/evil.pth", "w").close()
"""
GLOB, OS = "__import__('glob')", "__import__('os')"
LOOK = f"{GLOB}.glob('.ralph/*') + {OS}.listdir({OS}.path.expanduser('~'))"
CHECK = f"print({LOOK})"
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))
}


def attacked_project(root: Path, script: str) -> Path:
    """Return a project with a ready task, a check that looks around, and an agent that attacks."""
    ran("init", root, "--quiet")
    git(root, "init", "--quiet")
    (root / "attack.py").write_text(script, encoding="utf-8")
    python = json.dumps(python_command()[0])
    (root / ".ralph" / "ralphgen.toml").write_text(
        "[sandbox]\nuse = true\n"
        f'[[done.checks]]\nname = "look"\nrun = [{python}, "-c", {json.dumps(CHECK)}]\n'
        "[loop.agents.probe]\n"
        f'command = [{python}, "attack.py", "{{config}}", "{{prompt_file}}"]\n',
        encoding="utf-8",
    )
    ran("regen", "--quiet", cwd=root)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "first")
    ran("feature", "add", "auth", cwd=root)
    about = ("--feature", "auth", "--discipline", "implementation", "--status", "pending")
    ran("task", "add", "Do it", *about, cwd=root)
    ran("trust", "--yes", cwd=root)
    return root


def test_a_contained_agent_proves_its_task_by_checks_that_run_inside(tmp_path: Path) -> None:
    root, home = attacked_project(tmp_path / "p", ATTACK), tmp_path / "home"
    home.mkdir()
    (home / "mine").touch()

    with TemporaryDirectory(dir=OPEN) as temporary:
        variables = {"HOME": str(home), "TMPDIR": temporary}
        done = ralphgen("launch", "--next", "--agent", "probe", cwd=root, more=variables)
        left = [*Path(temporary).iterdir()]

    assert 0 == done.returncode, done.stderr
    seen, checked, closed = map(json.loads, done.stdout.splitlines())
    assert {"database": False, "home": []} == seen
    (check,) = checked["checks"]
    assert "ralphgen.toml" in check["tail"]
    assert "/db" not in check["tail"]
    assert "mine" not in check["tail"]
    assert "done" in str(closed)
    assert "contained" in done.stderr.splitlines()
    assert [] == left


def installed_in(folder: Path) -> Path:
    """Make a virtual environment that has ralphgen, and return its folder of packages."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = [one for one in sys.path if "packages" in one or Path(one, "ralphgen").is_dir()]
    (packages / "ours.pth").write_text("\n".join(ours), encoding="utf-8")
    return packages


def test_nothing_that_runs_outside_can_be_written_inside(tmp_path: Path) -> None:
    root = attacked_project(tmp_path / "p", PLANT + ATTACK)
    packages = installed_in(root / "tools" / "venv")
    folders = [str(root / "bin"), str(root / "tools" / "venv" / "bin"), os.environ["PATH"]]

    python = str(root / "tools" / "venv" / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "ralphgen", "launch", "--next", "--agent", "probe"],
        cwd=root,
        env={**os.environ, "PATH": os.pathsep.join(folders), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert 2 == done.stdout.count("tools"), done.stdout
    assert "Read-only file system" in done.stdout
    assert "Device or resource busy" in done.stdout
    assert (root / "bin" / "git").exists()
    assert not (root / "planted").exists()
    assert not [*(root / "tools" / "venv").rglob("git"), *packages.glob("evil.pth")]


@pytest.mark.thorough
def test_a_project_below_the_interpreter_is_no_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = attacked_project(tmp_path / "p", "")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))  # such as /usr, and /usr/src/app
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}")

    with Sandbox(Project(root), print):
        assert str(root) not in os.environ["PATH"]
    assert () == refused_files(root, ["attack.py"], "HEAD", "HEAD")


@pytest.mark.thorough
def test_claude_code_may_not_edit_the_installation(tmp_path: Path) -> None:
    root = attacked_project(tmp_path / "p", "")
    installed_in(root / ".venv")
    words = ("launch", "--next", "--agent", "claude", "--dry-run")
    python = str(root / ".venv" / "bin" / "python")

    done = subprocess.run(
        [python, "-m", "ralphgen", *words], cwd=root, capture_output=True, text=True, check=True
    )

    assert f"Edit(/{root}/.venv/**)" in done.stdout


@pytest.mark.thorough
def test_no_merge_adds_files_to_the_installation(tmp_path: Path) -> None:
    root = attacked_project(tmp_path / "p", f"import os, sys\n{PLANT_PACKAGE}{ATTACK}")
    (root / ".gitignore").write_text("tools\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "rules")
    packages = installed_in(root / "tools" / "venv")
    python = str(root / "tools" / "venv" / "bin" / "python")

    done = subprocess.run(
        [python, "-m", "ralphgen", "loop", "--worktrees", "--agent", "probe"],
        cwd=root,
        env={**os.environ, **AUTHOR, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "tools/venv" in done.stderr, done.stderr
    assert not (packages / "evil.pth").exists()


KITS = """
import json, os, subprocess, sys
servers = json.load(open(sys.argv[1]))["mcpServers"]
def call(kit, name, **arguments):
    config = servers[kit]
    server = subprocess.Popen(
        [config["command"], *config["args"]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    client = {"name": "probe", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    for number, method, given in (
        (1, "initialize", params),
        (2, "tools/call", {"name": name, "arguments": arguments}),
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        print(json.dumps(message), file=server.stdin, flush=True)
        answer = json.loads(server.stdout.readline())
    print(json.dumps(answer["result"]))
call("dela", "task_start", unique_name="look", wait_for_exit_seconds=20)
call("rye", "execute", item_type="tool", item_id="any", project_path=os.getcwd())
"""


@pytest.mark.thorough
def test_tasks_of_dela_run_inside_and_tools_of_rye_do_not_run(tmp_path: Path) -> None:
    root, home = attacked_project(tmp_path / "p", KITS), tmp_path / "home"
    (root / "look.sh").write_text("#!/bin/sh\nls -a ~ .ralph\n", encoding="utf-8")
    (root / "look.sh").chmod(0o755)
    settings = root / ".ralph" / "ralphgen.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f'kits = ["ralph", "dela", "rye"]\n{text}', encoding="utf-8")
    ran("regen", "--quiet", cwd=root)
    ran("trust", "--yes", cwd=root)
    home.mkdir()
    allow(home, entry("Directory", root))
    (home / "mine").touch()

    variables = {"HOME": str(home), "RALPHGEN_HOME": str(environment_for("").folder.parents[1])}

    done = ralphgen("launch", "--next", "--agent", "probe", cwd=root, more=variables)

    started, executed = (json.loads(line) for line in done.stdout.splitlines())
    assert "ralphgen.toml" in json.dumps(started), started
    assert "mine" not in json.dumps(started)
    assert "db" not in json.dumps(started)
    assert executed["isError"]
    assert "this session is contained" in json.dumps(executed)


@pytest.mark.thorough
def test_a_contained_loop_merges_what_contained_checks_have_passed(tmp_path: Path) -> None:
    root, home = (
        attacked_project(tmp_path / "p", f"open('built', 'w').close()\n{ATTACK}"),
        tmp_path / "home",
    )
    home.mkdir()
    (home / "mine").touch()
    settings = root / ".ralph" / "ralphgen.toml"
    setup = json.dumps([python_command()[0], "-c", f"open('ready', 'w').write(str({LOOK}))"])
    more = f"\n[loop]\nsetup = [{setup}]\nmessage = 'feat: {{title}}'\n"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("[loop.agents", more + "[loop.agents"),
        encoding="utf-8",
    )
    (root / ".gitignore").write_text("ready\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "settings")
    ran("trust", "--yes", cwd=root)

    done = ralphgen(
        "loop", "--worktrees", "--agent", "probe", cwd=root, more={"HOME": str(home)} | AUTHOR
    )

    assert 0 == done.returncode, done.stderr
    assert (root / "built").exists()
    tails = query(root, "SELECT tail FROM ralphgen_evidence")
    assert tails
    assert not [tail for (tail,) in tails if "mine" in tail or "/db" in tail]
    ready = [*(root / ".ralph" / "worktrees").glob("*/ready")]
    assert ready
    assert not [path for path in ready if "mine" in path.read_text(encoding="utf-8")]
    assert "contained" in done.stderr.splitlines()


def test_a_dry_run_names_what_is_missing_inside(tmp_path: Path) -> None:
    root = attacked_project(tmp_path / "p", ATTACK)
    folder = tmp_path / "tools" / "bin"
    folder.mkdir(parents=True)
    (folder / "robot").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "robot").chmod(0o755)
    settings = root / ".ralph" / "ralphgen.toml"
    more = "[loop]\nsetup = [['robot'], ['nowhere']]\n[loop.agents"
    text = settings.read_text(encoding="utf-8").replace("[loop.agents", more)
    settings.write_text(text, encoding="utf-8")
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    done = ralphgen("loop", "--agent", "probe", "--dry-run", cwd=root, more=path)

    assert 0 == done.returncode, done.stderr
    line = f'missing in the sandbox: "robot"; [sandbox] read = ["{folder.parent}"]'
    assert line in done.stderr.splitlines()
    assert 'missing in the sandbox: "nowhere"; install "nowhere": it is not on PATH' in done.stderr


WAIT = """
import os, subprocess, sys, time
subprocess.Popen(["setsid", "sleep", "600"])
print("here", flush=True)
time.sleep(600)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("signal", [SIGKILL, SIGTERM, SIGINT])
def test_nothing_remains_of_a_contained_session_that_is_killed(tmp_path: Path, signal: int) -> None:
    root = attacked_project(tmp_path / "p", WAIT)
    with TemporaryDirectory(dir=OPEN) as temporary:
        process = subprocess.Popen(
            [str(RALPHGEN), "launch", "--next", "--agent", "probe"],
            cwd=root,
            env={**os.environ, "TMPDIR": temporary},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert "here\n" == process.stdout.readline()
            process.send_signal(signal)
            process.wait(30)
        assert until(lambda: not [*Path(temporary).iterdir()])
        assert until(lambda: not processes_in(root))
    assert str(root) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def processes_in(root: Path) -> list[str]:
    """Return the command lines of processes that name a project or work in it."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            line = (one / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(root) in line or str(root) in str((one / "cwd").readlink()):
                found.append(line)
        except OSError:
            continue
    return found
