"""Contains agents and the commands of their sessions: sockets to our servers, a proxy, a terminal.

Inside are the agent and every command that runs files of the work tree. Outside are the database,
the MCP servers and git. `runtime/processes/sandbox.py` has what is mounted.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import tty
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from select import select
from socket import (
    AF_UNIX,
    IPPROTO_TCP,
    SHUT_RDWR,
    SOCK_STREAM,
    create_connection,
    getaddrinfo,
    socket,
)
from typing import Any, Self
from urllib.parse import urlsplit

from ralphgen.agents.agent import Agent, AgentEnd
from ralphgen.agents.process import session_servers, start_command
from ralphgen.environment.location import user_folder
from ralphgen.errors import ProjectError, Say, harmless
from ralphgen.kits.project import Project
from ralphgen.project.approvals import approvals_place
from ralphgen.project.lookup import STRUCTURED
from ralphgen.project.root import database_path, is_on_server, project_home
from ralphgen.runtime.files import write_new
from ralphgen.runtime.files.checkout import discard
from ralphgen.runtime.files.main_tree import repository_of
from ralphgen.runtime.processes.sandbox import (
    CHUNK,
    SYSTEM,
    UncontainedError,
    contained,
    pump,
    python_command,
)
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import OURS_ALONE
from ralphgen.sessions.store import SYSTEM as SYSTEM_FILE

PROGRAM = "bwrap"
LONGEST_FOLDER, SHORT_FOLDER = 60, "/tmp"  # the path of a socket has at most 107 bytes
HTTPS = 443
LOOPBACK = ("127.0.0.1:", "localhost:")
MOST_HEAD = 1 << 16  # bytes of a request's head
MOST_REFUSED = 100  # hosts to name
GRACE = 5.0  # seconds for a server to end by itself
PROBE = 20.0  # seconds
NO_NAMESPACE = (
    "on Ubuntu 24.04: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0; "
    "other systems: see docs/containers.md"
)
# Waits until the process that started it has ended, however it ended, and removes its folder.
WATCHER = ("/bin/sh", "-c", 'read -r _; rm -rf -- "$0"')


@contextmanager
def open_sandbox(project: Project, say: Say, *, asked: bool) -> Iterator["Sandbox | None"]:
    """Yield what contains the agents of a project, None if they are not to be contained.

    They are if the user has `asked` for it, and by `[sandbox] use`. `say` gets a line for each host
    that the proxy refuses. Raises `ProjectError` if they cannot be contained on this machine.
    """
    if not (asked or project.settings.sandbox.use):
        yield None
        return
    with Sandbox(project, say) as sandbox:
        _open.append(sandbox)
        try:
            yield sandbox
        finally:
            _open.remove(sandbox)


_open: list["Sandbox"] = []  # of this process, which contains all agents and commands, or none


def current_sandbox() -> "Sandbox | None":
    """Return the sandbox of this process, None without one."""
    return _open[-1] if _open else None


def current_rules() -> Mapping[str, Any] | None:
    """Return the rules for commands that run files of a work tree; None without a sandbox."""
    return _open[-1].rules if _open else None


class Sandbox:
    """Contains the agents of one process, and the commands of their sessions.

    `rules` are those of `contained`, for the context of a session. Raises `ProjectError` if agents
    cannot be contained here.
    """

    def __init__(self, project: Project, say: Say) -> None:
        self._root, self._say = project.root, say
        self._settings = project.settings.sandbox
        self._proxies = ExitStack()
        self.path = os.environ.get("PATH", os.defpath)
        write = _expanded(self._settings.write)
        self._writable = [*_trees(project.root), *(Path(one).resolve() for one in write)]
        _refuse_visible_database(project)
        self.rules: Mapping[str, Any] = {
            "program": _program(self._outside_path()),
            "home": str(Path.home()),
            "inner": _inner(project.root),
            "read": _expanded(self._settings.read),
            "write": write,
            "kept": [*map(str, running_code())],
            "path": self.path,
            "env": list(self._settings.env),
            "network": "",
        }
        self._refuse_widening()
        self.run("true")
        where = tempfile.gettempdir()
        folder = where if len(where) <= LONGEST_FOLDER else SHORT_FOLDER
        self._folder = Path(tempfile.mkdtemp(prefix="ralphgen-", dir=folder))
        self._numbers = count()
        self._watcher = subprocess.Popen(
            (*WATCHER, str(self._folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        if self._settings.hosts:
            path = self._folder / "network.sock"
            self._proxies.enter_context(Proxy(path, allowed_hosts(self._settings.hosts), say))
            self.rules = {**self.rules, "network": str(path)}

    def __enter__(self) -> Self:
        """Look for programs and modules outside only where no agent can write."""
        self._modules = [*sys.path]
        os.environ["PATH"] = self._outside_path()
        sys.path[:] = [one for one in self._modules if not self._is_writable(one)]
        return self

    def __exit__(self, *_: object) -> None:
        os.environ["PATH"], sys.path[:] = self.path, self._modules
        self._proxies.close()
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()
        self._watcher.wait()

    def run(self, *words: str) -> str:
        """Return the output of a short command inside; raise `ProjectError` if it fails."""
        try:
            command, variables = contained(words, str(self._root), os.environ, self.rules)
            done = subprocess.run(
                command, env=variables, capture_output=True, timeout=PROBE, check=False
            )
        except UncontainedError as error:
            raise ProjectError(f"agents cannot be contained here: {error}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProjectError(f"agents cannot be contained here: {error}", NO_NAMESPACE) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            reason = harmless(said[-1]) if said else f"exit code {done.returncode}"
            raise ProjectError(f"agents cannot be contained here: {reason}", NO_NAMESPACE)
        return done.stdout.decode(errors="replace")

    def absent_programs(self, programs: Iterable[str]) -> list[tuple[str, str]]:
        """Return the programs that are missing inside, each with the line that adds it."""
        look = 'for name; do command -v "$name" >/dev/null || echo "$name"; done'
        names = list(dict.fromkeys(programs))
        found = self.run("sh", "-c", look, "sh", *names).splitlines() if names else []
        return [(name, self._adding(name)) for name in found]

    @contextmanager
    def entered(
        self, session: PreparedSession, agent: Agent, variables: Mapping[str, str]
    ) -> Iterator[tuple[PreparedSession, dict[str, Any]]]:
        """Yield the session as its agent sees it, and the rules for the agent.

        `variables` are those that the session's servers get, which run outside.
        """
        folder = self._folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        inside: dict[str, dict[str, Any]] = {}
        with ExitStack() as stack:
            ours = {served.kit for served in session.served}
            for number, (name, entry) in enumerate(session_servers(session).items()):
                if "command" not in entry:
                    inside[name] = dict(entry)
                    continue
                command = start_command(session, name)
                if name in ours:
                    more = [STRUCTURED] if agent.is_structured else []
                    command = [entry["command"], *entry["args"], *more]
                path = folder / f"{number}.sock"
                stack.enter_context(Servers(path, command, session.work_tree, variables))
                program, *words = python_command("relay", str(path))
                kept = {key: value for key, value in entry.items() if key != "env"}
                inside[name] = {**kept, "command": program, "args": words}
            config = json.dumps({"mcpServers": inside}).encode()
            write_new(str(folder / session.mcp_config.name), config, mode=OURS_ALONE)
            if session.system_file is not None:
                shutil.copy(session.system_file, folder / SYSTEM_FILE)
            network = folder / "network.sock"
            hosts = allowed_hosts((*self._settings.hosts, *agent.hosts))
            urls = [_host_of(url) for url in filter(None, map(os.environ.get, agent.base_urls))]
            hosts |= dict.fromkeys(urls, True)
            ports = [url.rpartition(":")[2] for url in urls if url.startswith(LOOPBACK)]
            hosts |= {f"127.0.0.1:{port}": True for port in ports}
            stack.enter_context(Proxy(network, hosts, self._say))
            mounts = ["--bind", str(folder), str(folder), *self._program_mounts(agent.program)]
            names = [*self.rules["env"], *agent.variables]
            rules = {
                **self.rules,
                "env": names,
                "network": str(network),
                "mounts": mounts,
                "ports": ports,
            }
            view = replace(
                session,
                folder=folder,
                mcp_config=folder / session.mcp_config.name,
                contained=True,
            )
            yield view, rules
        with suppress(OSError):  # the watcher removes the rest
            discard(str(folder))

    def search(self, program: str) -> str | None:
        """Return the path of a program on the user's `PATH`, None if it is not there."""
        return shutil.which(program, path=self.path)

    def _outside_path(self) -> str:
        """Return the user's `PATH` without the folders in which agents can write."""
        folders = self.path.split(os.pathsep)
        return os.pathsep.join(one for one in folders if not self._is_writable(one))

    def _is_writable(self, path: str) -> bool:
        """Return whether agents, or their merged work, can write in a folder."""
        real = Path(path).resolve()
        kept = [folder for folder in running_code() if _is_below(folder, self._writable)]
        return _is_below(real, self._writable) and not _is_below(real, kept)

    def _refuse_widening(self) -> None:
        """Raise `ProjectError` if the work tree or a shared path contains what must stay hidden."""
        home = project_home(self._root).resolve()
        # Environments and bytecode of servers, and approvals.
        private = (user_folder().resolve(), Path(approvals_place(self._root)[0]).resolve())
        for path in map(Path, (*self.rules["read"], *self.rules["write"])):
            real, code = path.resolve(), running_code() if str(path) in self.rules["write"] else ()
            if _is_below(home, [real]) or any(
                _is_below(real, [one]) or _is_below(one, [real])
                for one in (home / ".ralph", *private, *code)
            ):
                text = f'[sandbox] shares "{path}", where ralphgen keeps or runs files'
                raise ProjectError(text, "name the folders that the agents need")
        for folder in private:
            if _is_below(folder, self._writable):
                text = f'"{folder}" is in the work tree, where agents could change it'
                raise ProjectError(text, "set XDG_CACHE_HOME and XDG_CONFIG_HOME to other folders")

    def _adding(self, program: str) -> str:
        """Return the line of the settings that makes a program visible."""
        found = self.search(program)
        if found is None:
            return f'install "{program}": it is not on PATH'
        return f'[sandbox] read = ["{Path(found).resolve().parent.parent}"]'

    def _program_mounts(self, program: str) -> Iterator[str]:
        """Yield mounts that show the program of an agent, wherever it is installed."""
        found = self.search(program)
        if found is None:
            return
        link, real = Path(found), Path(found).resolve()
        packages = [folder for folder in real.parents if folder.name == "node_modules"]
        for folder in dict.fromkeys((link.parent, (packages or [real.parent])[-1])):
            shown = str(link if folder == Path.home() else folder)
            if not shown.startswith(SYSTEM):
                yield from ("--ro-bind", shown, shown)


class _Listener:
    """Answers connections to a Unix socket, each on its own thread; closes those above `most`."""

    most: int

    def __init__(self, path: Path) -> None:
        self._open: set[socket] = set()
        self._listener = socket(AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            if len(self._open) >= self.most:
                client.close()
                continue
            self._open.add(client)
            threading.Thread(target=self._answered, args=(client,), daemon=True).start()

    def _answered(self, client: socket) -> None:
        try:
            with client, suppress(OSError):
                self.answer(client)
        finally:
            self._open.discard(client)

    def answer(self, client: socket) -> None:
        """Answer one connection to its end."""
        raise NotImplementedError


class Servers(_Listener):
    """Starts a server of a session outside for each connection, which is its input and output."""

    most = 32

    def __init__(
        self, path: Path, command: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> None:
        self._command, self._folder, self._variables = command, folder, variables
        self._running: set[subprocess.Popen[bytes]] = set()
        super().__init__(path)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for server in list(self._running):
            try:
                server.wait(GRACE)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def answer(self, client: socket) -> None:
        """Run a server until it ends, which it does when the connection closes."""
        server = subprocess.Popen(
            self._command,
            stdin=client.fileno(),
            stdout=client.fileno(),
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=self._variables,
            start_new_session=True,
        )
        self._running.add(server)
        server.wait()
        self._running.discard(server)


class Proxy(_Listener):
    """An HTTP proxy that connects to listed hosts alone.

    `hosts` maps each `name:port` to whether it may have a private address. `say` gets a line for
    each refused host, once, and at most `MOST_REFUSED` lines.
    """

    most = 256

    def __init__(self, path: Path, hosts: Mapping[str, bool], say: Say) -> None:
        self._hosts, self._say = hosts, say
        self._refused: set[str] = set()
        super().__init__(path)

    def answer(self, client: socket) -> None:
        """Connect a client to the host of its first request, or refuse."""
        head = b""
        while b"\r\n\r\n" not in head:
            data = client.recv(CHUNK)
            if not data or len(head) > MOST_HEAD:
                return
            head += data
        method, target, _ = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2), "", ""][:3]
        name = target if method == "CONNECT" else _host_of(target)
        address = self._address(name)
        if address is None:
            self._refuse(client, name)
            return
        with create_connection(address) as server:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                server.sendall(head)
            back = threading.Thread(target=pump, args=(server, client), daemon=True)
            back.start()
            pump(client, server)
            back.join()

    def _address(self, name: str) -> tuple[str, int] | None:
        """Return the address of a listed host, or None; the name is resolved here, once."""
        if name.casefold() not in self._hosts:
            return None
        host, _, port = name.rpartition(":")
        try:
            found = getaddrinfo(host.strip("[]"), int(port), type=SOCK_STREAM, proto=IPPROTO_TCP)
        except (OSError, ValueError):
            return None
        address = (str(found[0][4][0]), int(port))
        if self._hosts[name.casefold()] or ip_address(address[0]).is_global:
            return address
        return None

    def _refuse(self, client: socket, name: str) -> None:
        if name not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(name)
            self._say(f'the sandbox refused a connection to "{harmless(name)[:200]}"')
        status = HTTPStatus.FORBIDDEN
        client.sendall(
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            "content-length: 0\r\nconnection: close\r\n\r\n".encode()
        )


def run_in_terminal(
    command: Sequence[str],
    folder: str,
    variables: Mapping[str, str],
    rules: Mapping[str, Any],
    terminal: int,
) -> AgentEnd:
    """Run an agent inside, in a terminal of its own that is joined to the user's.

    So it cannot type into the user's terminal. Returns its end. Raises `OSError`.
    """
    own, theirs = os.openpty()
    kept = termios.tcgetattr(terminal)
    resize = _resizing(terminal, own)
    resize(0, None)
    former = signal.signal(signal.SIGWINCH, resize)
    try:
        words, passed = contained(command, folder, variables, rules)
        with open(theirs, "wb", buffering=0, closefd=False) as inner:
            process = subprocess.Popen(
                words, stdin=inner, stdout=inner, stderr=inner, cwd=folder, env=passed
            )
        os.close(theirs)
        tty.setraw(terminal)
        _join(terminal, own)
        return AgentEnd(process.wait())
    finally:
        signal.signal(signal.SIGWINCH, former)
        termios.tcsetattr(terminal, termios.TCSADRAIN, kept)
        os.close(own)


def _resizing(terminal: int, own: int) -> Callable[[int, object], None]:
    def resize(_number: int, _frame: object) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(own, termios.TIOCSWINSZ, size)

    return resize


def _join(terminal: int, own: int) -> None:
    """Copy between two terminals until the inner one has no process left."""
    sources = {terminal: own, own: 1}
    while True:
        for source in select([*sources], [], [])[0]:
            try:
                data = os.read(source, CHUNK)
            except OSError:  # EIO: the last process has closed it
                data = b""
            if not data and source == own:
                return
            if not data:
                del sources[source]
            while data:
                data = data[os.write(sources[source], data) :]


def allowed_hosts(hosts: Iterable[str]) -> dict[str, bool]:
    """Return the hosts as `Proxy` takes them; port 443 unless one is given."""
    named = (host.casefold() for host in hosts)
    return {host if ":" in host else f"{host}:{HTTPS}": False for host in named}


def _host_of(url: str) -> str:
    """Return `name:port` of a URL."""
    parts = urlsplit(url)
    with suppress(ValueError):
        return f"{parts.hostname}:{parts.port or (HTTPS if parts.scheme == 'https' else 80)}"
    return ""


def _program(path: str) -> str:
    if sys.platform != "linux":
        text = f"agents cannot be contained on {sys.platform}: this was never tested"
        raise ProjectError(text, "see docs/containers.md")
    found = shutil.which(PROGRAM, path=path)
    if found is None:
        raise ProjectError(
            f'agents cannot be contained here: "{PROGRAM}" is not on PATH', "install bubblewrap"
        )
    return os.path.realpath(found)


def _inner(root: Path) -> str:
    tree = repository_of(str(root))
    if tree is None:
        raise ProjectError("agents can be contained in a git repository only", 'run "git init"')
    inner = os.path.relpath(os.path.realpath(root), tree.top)
    return "" if inner == os.curdir else inner


def _expanded(paths: Iterable[str]) -> list[str]:
    return [os.path.normpath(Path(path).expanduser()) for path in paths]


def _refuse_visible_database(project: Project) -> None:
    """Raise `ProjectError` for a database whose files an agent would see in its work tree."""
    if is_on_server(project.root):
        return
    path, home = database_path(project.root), project_home(project.root).resolve()
    tree, real = repository_of(str(home)), path.resolve()
    top = home if tree is None else Path(tree.top)
    if real.is_relative_to(top) and not real.is_relative_to(home / ".ralph" / "db"):
        text = f'"{path}" is in the work tree, where its files cannot be hidden'
        raise ProjectError(text, 'move it to ".ralph/db", and set [database] path')


def running_code() -> list[Path]:
    """Return the folders of ralphgen's installation, whose code runs outside of every sandbox."""
    package = Path(__file__).parents[1]
    return [Path(folder).resolve() for folder in (sys.prefix, sys.base_prefix, package)]


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _trees(root: Path) -> list[Path]:
    """Return the tops of the work trees of a project and of its home."""
    found = (repository_of(str(folder)) for folder in (root, project_home(root)))
    return [Path(tree.top) for tree in found if tree is not None]
