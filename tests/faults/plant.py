"""Plants faults in a copy of this repository, one at a time, and reports those the tests miss.

    python tests/faults/plant.py [WORD...] [--tree FOLDER] [--list]

Each fault of `faults.toml` is a text of `ralphgen/` or `templates/`, its replacement, and the tests
of which one must fail. WORDs choose faults by area or name. `--tree` is another checkout; its tests
are found by their file names, in any directory. Exit code: 0 if all faults were noticed, 1 if one
was not, 2 if one cannot be planted.
"""

import argparse
import ast
import os
import shutil
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import hypothesis  # noqa: F401  # what every run of the tests would import again
import mcp  # noqa: F401
import pytest
import typer  # noqa: F401

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "build", "dist")
PATIENCE = 1200.0  # seconds for the tests of one fault
NOTICED, UNNOTICED, UNPLANTED = "noticed", "UNNOTICED", "CANNOT BE PLANTED"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `old` occurs once in the sources; `tests` are files below `tests/`."""

    name: str
    area: str
    old: str
    new: str
    tests: Sequence[str]
    words: str = ""  # an expression for `-k`, if a few tests of the files suffice


class UnplantedError(Exception):
    """A fault that the tree has no place for, or no test."""


def read_faults(words: Sequence[str] = ()) -> list[Fault]:
    """Return the faults whose area or name holds one of the words; all of them without a word."""
    areas = tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))
    faults = [
        Fault(name, area, **facts) for area, named in areas.items() for name, facts in named.items()
    ]
    return [
        fault
        for fault in faults
        if not words
        or any(word in (fault.area, fault.name) or word in fault.name for word in words)
    ]


def place_of(fault: Fault, tree: Path) -> Path:
    """Return the one source file that holds the fault's text, once."""
    sources = [*(tree / "ralphgen").rglob("*.py"), *(tree / "templates").rglob("*.jinja")]
    counts = {path: path.read_text(encoding="utf-8").count(fault.old) for path in sorted(sources)}
    holders = [path for path, count in counts.items() if count]
    if sum(counts.values()) != 1:
        names = ", ".join(str(path.relative_to(tree)) for path in holders)
        raise UnplantedError(f"its text stands {sum(counts.values())} times ({names})")
    return holders[0]


def tests_of(fault: Fault, tree: Path) -> list[Path]:
    """Return the test files that the tree has, by their places or else by their names."""
    found: list[Path] = []
    for test in fault.tests:
        path = tree / "tests" / test
        found += [path] if path.exists() else sorted((tree / "tests").rglob(path.name))
    if not found:
        raise UnplantedError(f"there is no {' or '.join(fault.tests)}")
    return found


def try_fault(fault: Fault, tree: Path, moment: int) -> tuple[str, str]:
    """Return whether the tests notice the fault, and the first failing one or the problem.

    `moment` is the modification time of the changed file, so that no other bytecode matches it.
    """
    try:
        place, tests = place_of(fault, tree), tests_of(fault, tree)
        text = place.read_text(encoding="utf-8")
        faulty = text.replace(fault.old, fault.new)
        if place.suffix == ".py":
            ast.parse(faulty)
    except (UnplantedError, SyntaxError) as error:
        return UNPLANTED, str(error)
    try:
        write(place, faulty, moment)
        return outcome(fault, tree, tests)
    finally:
        write(place, text, moment + 2)


def write(place: Path, text: str, moment: int) -> None:
    """Write a source file as of a moment, in seconds."""
    place.write_text(text, encoding="utf-8")
    os.utime(place, (moment, moment))


def outcome(fault: Fault, tree: Path, tests: Sequence[Path]) -> tuple[str, str]:
    """Return the result of the tests on the current tree."""
    arguments = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "without_shrinking"]
    arguments += ["--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    arguments += ["-m", "not (benchmark or soak or interop or browser)"]
    arguments += [*map(str, tests), *(["-k", fault.words] if fault.words else [])]
    with TemporaryFile() as output:
        code = tested(tree, arguments, output.fileno())
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines() or [""]
    if code is None:
        return NOTICED, "the tests hang"
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if code == 1 and failed:
        return NOTICED, failed[0].partition(" - ")[0].rpartition("::")[2]
    return (UNNOTICED if code == 0 else UNPLANTED), (failed or lines)[-1]


def tested(tree: Path, arguments: list[str], output: int) -> int | None:
    """Return pytest's exit code, or None on a timeout; it runs in a fork, with a warm start.

    Nothing of the tree is imported in this process.
    """
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        sys.path[:0] = [str(tree), str(HERE)]
        sys.argv[:] = ["pytest", *arguments]
        os.environ["PYTHONPATH"] = f"{tree}{os.pathsep}{HERE}"
        code = 1
        try:
            code = pytest.main(arguments)
        finally:  # a fork must never clean up resources of its parent
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main() -> int:
    """Plant the faults that the command line names, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--list", action="store_true", help="only look whether each can be planted")
    asked = parser.parse_args()
    faults = read_faults(asked.words)
    results: Counter[str] = Counter()
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory(prefix="faults-") as name:
        tree = Path(name) / "tree"
        shutil.copytree(asked.tree, tree, ignore=LEFT_OUT, symlinks=True)
        moment = int(time.time())
        for number, fault in enumerate(faults):
            if asked.list:
                result, why = locate(fault, tree)
            else:
                result, why = try_fault(fault, tree, moment + 10 * number)
            results[result] += 1
            print(f"{result}\t{fault.area}\t{fault.name}\t{why}", flush=True)  # noqa: T201
    print(", ".join(f"{count} {result}" for result, count in results.items()))  # noqa: T201
    return 2 if results[UNPLANTED] else int(bool(results[UNNOTICED]))


def locate(fault: Fault, tree: Path) -> tuple[str, str]:
    """Return the location of a fault, without planting it."""
    try:
        tests_of(fault, tree)
        return "at", str(place_of(fault, tree).relative_to(tree))
    except UnplantedError as error:
        return UNPLANTED, str(error)


if __name__ == "__main__":
    sys.exit(main())
