"""Commands as whole processes, and how they grow with a project's rows and columns."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from containing import CONTAINING
from driving import quiet
from figures import topic
from processes import Server, conversation
from projects import ours, project
from proved_projects import git

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.benchmark

RALPHGEN = str(Path(sys.executable).with_name("ralphgen"))
ROUNDS = 11


def process(command: list[str], environment: Mapping[str, str], folder: Path) -> float:
    """Milliseconds of a process that must end well."""
    begun = time.perf_counter()
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, **environment}, cwd=folder
    )
    return (time.perf_counter() - begun) * 1000


def start(server: Server) -> tuple[float, float]:
    """Return the milliseconds from spawn to `tools/list`, and the CPU time of the process."""
    with conversation(server) as talk:
        talk.shake_hands()
        talk.ask("tools/list")
        return talk.since(), talk.end()[1]


def claude(folder: Path) -> Path:
    """Return a folder with a stand-in for Claude Code: the launched program is not measured."""
    folder.mkdir()
    program = folder / "claude"
    program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


def test_commands_as_whole_processes(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    path = f"{claude(tmp_path / 'bin')}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {"RALPHGEN_HOME": str(tmp_path / "home"), "PATH": path}
    process([RALPHGEN, "regen", str(root)], environment, root)  # makes the environment
    commands = {
        "ralphgen --help": [RALPHGEN, "--help"],
        "ralphgen regen": [RALPHGEN, "regen", str(root)],
        "ralphgen check": [RALPHGEN, "check", str(root)],
        "ralphgen session create": [
            *(RALPHGEN, "session", "create", "task_execution", "--task", "1"),
        ],
        "ralphgen launch --dry-run": [
            *(RALPHGEN, "launch", "task_execution"),
            *("--task", "1", "--dry-run"),
        ],
        "ralphgen tools": [RALPHGEN, "tools", "--project", str(root)],
    }
    serve = Server("", (RALPHGEN, "serve"), folder=root, environment=environment)
    direct = ours(root)
    with topic("Whole processes") as table:
        for _ in range(ROUNDS):
            table.add("python -c pass", "ms", process([sys.executable, "-c", ""], {}, root))
            for name, server in (("server.py", direct), ("ralphgen serve", serve)):
                wall, used = start(server)
                table.add(f"{name} to tools/list", "ms", wall)
                table.add(f"{name} to tools/list", "CPU ms", used)
            for shown, command in commands.items():
                table.add(shown, "ms", process(command, environment, root))


def processor_time(command: list[str], environment: Mapping[str, str], folder: Path) -> float:
    """Milliseconds of processor time of a process that must end well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process(command, environment, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def test_processor_time_compared_with_the_import_of_typer(tmp_path: Path) -> None:
    root = project(tmp_path / "project")
    typed = {"_RALPHGEN_COMPLETE": "complete_bash", "COMP_WORDS": "ralphgen task list --status "}
    commands = {
        "python -c 'import typer'": ([sys.executable, "-c", "import typer"], {}),
        "ralphgen --version": ([RALPHGEN, "--version"], {}),
        "ralphgen": ([RALPHGEN], {}),
        "ralphgen task list": ([RALPHGEN, "task", "list"], {}),
        "completion": ([RALPHGEN], {**typed, "COMP_CWORD": "4"}),
    }
    process([RALPHGEN, "regen"], {}, root)  # makes the environment
    with topic("Processor time of commands") as table:
        for _ in range(ROUNDS):
            for shown, (command, environment) in commands.items():
                table.add(shown, "ms", processor_time(command, environment, root))


@CONTAINING
def test_contained_launches(tmp_path: Path) -> None:
    """The processor time of a session whose agent ends at once, contained and not, in pairs."""
    root = project(tmp_path / "project")
    git(root, "init", "-q")
    git(root, "add", "--all")
    git(root, "commit", "-qm", "x")
    programs = claude(tmp_path / "bin")
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    launch = f"{RALPHGEN} launch interactive --print hi"
    ways = {"not contained": launch, "contained": f"{launch} --sandbox"}
    with topic("A session whose agent ends at once") as table:
        for _ in range(ROUNDS):
            for shown, command in ways.items():
                words = ["sh", "-c", f"{command}; test $? = 6"]  # an agent that did nothing
                table.add(shown, "CPU ms", processor_time(words, environment, root))


def test_growth(tmp_path: Path) -> None:
    """How the start and `regen`, in this process, grow with rows, disciplines and columns."""
    variants = {
        "200 tasks, 8 disciplines": project(tmp_path / "plain"),
        "20,000 tasks": project(tmp_path / "tasks", tasks=20_000),
        "400 disciplines": project(tmp_path / "disciplines", disciplines=400),
        "50 columns more": project(tmp_path / "columns", columns=50),
    }
    servers = {name: ours(root) for name, root in variants.items()}
    with topic("Growth") as table:
        for _ in range(ROUNDS):
            for name, root in variants.items():
                table.add(name, "to tools/list ms", start(servers[name])[0])
                begun = time.perf_counter()
                regenerate(root, force=False, say=quiet)
                table.add(name, "regen, in process ms", (time.perf_counter() - begun) * 1000)
