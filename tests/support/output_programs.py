"""Programs that write a generated folder and are killed, starved or rivalled meanwhile."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path

from ralphgen.emit.write import finish_interrupted, write
from ralphgen.errors import ProjectError
from ralphgen.files import Files, interrupted, seal

OLD = seal(
    {
        "server.py": "same\n",
        "ralph/tasks.py": "old tasks\n",
        "dela/deep/tools.py": "leaves with its folders\n",
        "gone/deep/tools.py": "leaves with its folders\n",
        "swap": "a file that becomes a folder\n",
        "back/one.py": "a folder that becomes a file\n",
        "back/two.py": "a folder that becomes a file\n",
        "Case.py": "gets a small letter\n",
    },
    {"plan": "old"},
)
NEW = seal(
    {
        "server.py": "same\n",
        "ralph/tasks.py": "new tasks\n",
        "acm/deep/tools.py": "comes with its folders\n",
        "swap/one.py": "a file that became a folder\n",
        "swap/two.py": "a file that became a folder\n",
        "back": "a folder that became a file\n",
        "case.py": "gets a small letter\n",
    },
    {"plan": "new"},
)
BIG = seal({"server.py": "new\n", "runtime/big.py": "#\n" * 200_000}, {"plan": "big"})
OWN = {"sessions/s1/context.json": "{}\n", "dela/own.txt": "mine\n", "context.json": "{}\n"}
CHANGING = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir"})


def lay(folder: Path) -> Path:
    """Return a folder that holds `OLD`, the user's own files, and bytecode."""
    write(folder, OLD)
    for path, text in OWN.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for path in ("dela/deep/__pycache__/tools.cpython-311.pyc", "back/__pycache__/x.311.pyc"):
        (folder / path).parent.mkdir()
        (folder / path).write_bytes(b"")
    return folder


def tree(folder: Path) -> Files:
    """Return the text of every file by path, without lock, bytecode and staged files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix != ".pyc"
        and path.relative_to(folder).parts[0] not in {".lock", ".new", ".commit"}
    }


def kill_at(step: int) -> None:
    """From now on, die just before the given change to the file system."""
    left = step

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        flags = arguments[2] if event == "open" else 0
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in CHANGING or writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)


def killed(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a new process that is killed at a step; return whether it got there."""
    child = os.fork()
    if child == 0:
        kill_at(step)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"the work failed at step {step}")
    return False


def kill_everywhere(place: Path, stride: str) -> None:
    """Write once for every step there is, killed at that step: folders `write-001` and so on.

    The first write that was killed after its point of no return is then finished once for every
    step: folders `finish-001` and so on. A stride of 2 takes every second step only.
    """
    for step in count(1, int(stride)):
        folder = lay(place / f"write-{step:03}")
        if not killed(step, partial(write, folder, NEW)):
            break
    halves = [folder for folder in sorted(place.glob("write-*")) if interrupted(folder)]
    for step in count(1, int(stride)):
        folder = place / f"finish-{step:03}"
        shutil.copytree(halves[0], folder)
        if not killed(step, partial(finish_interrupted, folder)):
            break


def list_unflushed(folder: Path) -> None:
    """Print the files that are staged but not flushed at the commit point."""
    flushed: set[int] = set()
    flush = os.fsync

    def flush_and_note(descriptor: int) -> None:
        flush(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and str(arguments[1]).endswith(".commit"):
            staged = [folder / ".new", *(folder / ".new").rglob("*")]
            missed = [path.name for path in staged if path.stat().st_ino not in flushed]
            sys.stdout.write(json.dumps({"staged": len(staged), "missed": missed}))

    noted: Callable[..., None] = flush_and_note
    os.fsync = noted
    sys.addaudithook(on_event)
    write(folder, NEW)


def write_or_say(folder: Path, files: Files) -> int:
    """Write, and print an error to stderr."""
    try:
        write(folder, files)
    except ProjectError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def write_without_rights(folder: Path) -> int:
    """Write as a user whom no right of root helps."""
    import_module("filelock")  # the interpreter may be out of this user's reach
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    return write_or_say(folder, NEW)


def write_with_small_files(folder: Path) -> int:
    """Write while no file may grow beyond 64 KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    return write_or_say(folder, BIG)


def die_in_the_middle_of_a_file(folder: Path) -> int:
    """Write, and be killed by the kernel when a file reaches 64 KiB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    return write_with_small_files(folder)


def write_to_a_full_disk(folder: Path) -> int:
    """Write to a disk of 256 KiB, mounted for this process alone."""
    mount = shutil.which("mount") or "mount"
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
    lay(folder / "mcp")
    code = write_or_say(folder / "mcp", BIG)
    sys.stdout.write(json.dumps(tree(folder / "mcp")))
    return code


def write_as_rival(folder: Path, name: str) -> int:
    """Write three different trees, one after the other."""
    return max(write_or_say(folder, rival(name, turn)) for turn in range(3))


def rival(name: str, turn: int) -> Files:
    """Return a tree that shares some paths with every rival's and has unique ones."""
    text = f"{name} {turn}\n"
    texts = {"server.py": text, f"{name}/tools.py": text, "ralph/tasks.py": text}
    return seal(texts, {"plan": text})


PROGRAMS: dict[str, Callable[..., int | None]] = {
    program.__name__: program
    for program in (
        kill_everywhere,
        list_unflushed,
        write_without_rights,
        write_with_small_files,
        write_to_a_full_disk,
        die_in_the_middle_of_a_file,
        write_as_rival,
    )
}


if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
