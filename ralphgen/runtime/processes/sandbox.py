"""Runs commands inside bubblewrap, where they see a work tree and the programs of the machine.

Everything that could widen the next session stays outside: the database, other sessions, the home
folder, sockets and processes. As a program, this runs inside: it leads from the loopback to our
proxy, or from standard input and output to a server. It is alone with the interpreter then.
"""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

OPTIONS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
    *("--new-session", "--die-with-parent"),
)
SYSTEM = ("/usr", "/opt")
LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # to /usr on most systems
ETC = (
    *("alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "pki", "ssl"),
)
SHOWN = (".gitignore", "acm", "rye", "schemas", "specum")  # in `.ralph`, besides what is protected
HIDDEN = ("gate", "sessions")  # in `.ralph/mcp`
INNER = "/run/ralphgen/sandbox.py"  # this file, inside
SOCKET = "/run/ralphgen/network.sock"
PORT = 3128
TMP_SIZE = str(1 << 30)  # bytes
CARRIED = re.compile(
    r"PATH|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CI"
    r"|RALPHGEN_(?:SESSION|TASK)"
)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
CHUNK = 1 << 16
EXEC = 'exec "$0" "$@"'  # in a shell, which ends with 126 or 127 if the program cannot run
JOIN_SESSION_KEYRING = 1
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}


class UncontainedError(OSError):
    """A command cannot be contained; nothing was started."""


def contained(
    argv: Sequence[str], cwd: str, environment: Mapping[str, str], rules: Mapping[str, Any]
) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the variables that run a command inside, in the folder `cwd`.

    `rules` are those of a session: `program` (the path of bubblewrap), `home` (the user's folder),
    `inner` (the path of the project below the top of its repository), `read`, `write` and `kept`
    (paths; those of `kept` are read-only in the work tree), `path` (`PATH` inside, in place of the
    caller's), `env` (names of variables, where "*" matches any end) and `network` (the socket of a
    proxy, or empty). An agent's have `mounts` as well, which are further arguments of bubblewrap,
    and `ports` of the loopback that lead to those outside, if the proxy allows them.

    The result has the variables with these names, and those with a value of the caller's: no
    command may choose them, because bubblewrap itself, which runs outside, gets them. The calling
    thread gets a new session keyring, and has to outlive the command. Raises `UncontainedError`.
    """
    leave_keyring()
    home, network = rules["home"], rules["network"]
    variables = {
        name: value
        for name, value in environment.items()
        if os.environ.get(name) != value or _is_carried(name, rules["env"])
    } | {"HOME": home, "TMPDIR": "/tmp", "GIT_OPTIONAL_LOCKS": "0"}
    if outside := os.environ.get("PATH"):
        variables["PATH"] = variables.get("PATH", outside).replace(outside, rules["path"])
    words = [rules["program"], *OPTIONS, *_system(), *_home(home, rules["read"])]
    words += [*_tree(cwd, rules["inner"], rules["kept"]), *_shared("--bind-try", rules["write"])]
    words += rules.get("mounts", ())
    argv = ("/bin/sh", "-c", EXEC, *argv)
    if network:
        words += ["--ro-bind", os.path.abspath(__file__), INNER, "--ro-bind", network, SOCKET]
        variables |= dict.fromkeys(PROXIES, f"http://127.0.0.1:{PORT}")
        variables |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        argv = (*python_command("network", ",".join(rules.get("ports", ()))), *argv)
    return [*words, "--chdir", cwd, "--", *argv], variables


def python_command(*words: str) -> list[str]:
    """Return the command that runs this file inside, with these arguments."""
    return [os.path.realpath(sys.executable), "-I", "-S", INNER, *words]


def leave_keyring() -> None:
    """Give the calling thread a new session keyring: a command started here has no key of ours.

    Raises `UncontainedError` on a machine whose number of the system call is unknown.
    """
    import ctypes

    number = KEYCTL.get(os.uname().machine)
    if number is None:
        raise UncontainedError(f"keyrings of {os.uname().machine} are unknown")
    # Where a container forbids the call, it forbids it inside as well.
    ctypes.CDLL(None).syscall(number, JOIN_SESSION_KEYRING, None)


def _is_carried(name: str, names: Sequence[str]) -> bool:
    return CARRIED.fullmatch(name) is not None or any(
        name.startswith(one[:-1]) if one.endswith("*") else name == one for one in names
    )


def _system() -> Iterator[str]:
    """Yield the mounts that every command sees."""
    for path in SYSTEM:
        if os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in LINKED:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", TMP_SIZE, "--tmpfs", "/tmp")
    yield from ("--tmpfs", "/run")


def _home(home: str, read: Sequence[str]) -> Iterator[str]:
    """Yield an empty home, and what is visible in it and elsewhere."""
    if home == "/":
        raise UncontainedError('the home folder is "/", which cannot be hidden')
    yield from ("--tmpfs", home)
    if not sys.base_prefix.startswith(SYSTEM):  # the interpreter that runs this file inside
        yield from ("--ro-bind", sys.base_prefix, sys.base_prefix)
    yield from _shared("--ro-bind-try", read)


def _shared(option: str, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        yield from (option, path, path)


def _tree(cwd: str, inner: str, kept: Sequence[str]) -> Iterator[str]:
    """Yield the mounts of the work tree of a folder: writable, without the parts that are ours.

    A folder that is mounted cannot be moved. So each folder above these parts is mounted, too.
    """
    from ..files.main_tree import MARK, PROJECT, repository_of

    tree = repository_of(cwd)
    if tree is None:
        raise UncontainedError(f'"{cwd}" is not in a git repository')
    ralph = os.path.join(tree.top, inner, PROJECT)
    below = [path for path in kept if path.startswith(tree.top + os.sep) and os.path.isdir(path)]
    above = {tree.top}
    for path in (ralph, *below):
        while (path := os.path.dirname(path)) not in above:
            above.add(path)
    yield from _shared("--bind", sorted(above))
    yield from _shared("--ro-bind", below)
    mark = os.path.join(tree.top, MARK)
    for path in dict.fromkeys((tree.common, mark)):
        _refuse_link(path)
        yield from ("--ro-bind", path, path)
    _refuse_link(ralph)
    if os.path.isdir(ralph):
        yield from _ours(ralph)


def _ours(ralph: str) -> Iterator[str]:
    """Yield mounts of `.ralph`, read-only, without data and sessions."""
    from ..files.main_tree import PROTECTED

    server = os.path.join(ralph, "mcp")
    yield from ("--tmpfs", ralph)
    for name in (*PROTECTED, *SHOWN):
        path = os.path.join(ralph, name)
        if os.path.lexists(path):
            _refuse_link(path)
            yield from ("--ro-bind", path, path)
    for path in (os.path.join(server, name) for name in HIDDEN):
        if os.path.isdir(path):
            yield from ("--tmpfs", path, "--remount-ro", path)
    yield from ("--remount-ro", ralph)


def _refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise UncontainedError(f'"{path}" is a link')


def main(mode: str, *words: str) -> None:
    """Become the command with a network, or relay to the server of a socket."""
    if mode == "relay":
        _relay(words[0])
    else:
        _serve_network([*filter(None, words[0].split(","))], words[1:])


def _serve_network(ports: Sequence[str], words: Sequence[str]) -> None:
    """Become a command, and lead ports of the loopback to the proxy as long as it runs."""
    import socket
    from threading import Thread

    asked = {int(port): f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode() for port in ports}
    listeners = {
        socket.create_server(("127.0.0.1", port)): head
        for port, head in {PORT: b"", **asked}.items()
    }
    if os.fork():  # the process that our caller waits for is the command
        for listener in listeners:
            listener.close()
        os.execvp(words[0], list(words))
    os.setsid()
    serving = [Thread(target=_lead, args=(listener, head)) for listener, head in listeners.items()]
    for thread in serving:
        thread.start()


def _lead(listener: socket.socket, head: bytes) -> None:
    """Lead each connection to the proxy; with a `head`, as a tunnel that this asks for."""
    import socket
    from threading import Thread

    while True:
        client = listener.accept()[0]
        proxy = socket.socket(socket.AF_UNIX)
        try:
            proxy.connect(SOCKET)
            proxy.sendall(head)
            if head and proxy.recv(CHUNK).split()[1:2] != [b"200"]:
                client.close()
                continue
        except OSError:
            client.close()
            continue
        for one, other in ((client, proxy), (proxy, client)):
            Thread(target=pump, args=(one, other), daemon=True).start()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what a socket reads to another, up to its end."""
    from contextlib import suppress
    from socket import SHUT_WR

    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(SHUT_WR)


def _relay(path: str) -> None:
    """Join standard input and output to a socket, until the server ends."""
    import socket
    from select import select

    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    own = server.fileno()
    targets = {0: own, own: 1}
    while targets:
        for source in select([*targets], [], [])[0]:
            data = os.read(source, CHUNK)
            if not data and source == own:
                return
            if not data:
                server.shutdown(socket.SHUT_WR)
                del targets[source]
            while data:
                data = data[os.write(targets[source], data) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
