"""The interpreter and the environments of servers, and the contents of their locks."""

import hashlib
import re
import sys
from pathlib import Path

import pytest

from ralphgen.environment import base_interpreter
from ralphgen.environment.location import LOCKS, environment_for, merged_lock
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow


def test_the_home_is_absolute_and_its_tilde_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", f"{tmp_path / 'me'}")
    monkeypatch.setenv("RALPHGEN_HOME", "relative")
    relative = environment_for("").folder
    monkeypatch.setenv("RALPHGEN_HOME", "~/cache")
    in_home = environment_for("").folder
    monkeypatch.setenv("RALPHGEN_HOME", "")

    assert tmp_path / "relative/environments" == relative.parent
    assert tmp_path / "me/cache/environments" == in_home.parent
    assert environment_for("").folder.is_absolute()


def test_the_home_of_an_unknown_user_is_a_problem_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RALPHGEN_HOME", "~no-such-user/cache")
    with pytest.raises(ProjectError, match="~no-such-user"):
        environment_for("")


def test_each_lock_and_python_has_its_own_environment() -> None:
    one, other = (environment_for(lock).folder.name for lock in ("one", "other"))
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"

    assert one != other
    assert hashlib.sha256(b"one").hexdigest()[:16] == one[:16]
    assert one[16:].startswith(f"-{version}")


ENTRY = re.compile(r"([a-z0-9-]+)==[\w.]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")
SETS = sorted(path.stem for path in LOCKS.glob("*.lock"))


def entries_of(*sets: str) -> list[str]:
    return merged_lock(sets).replace(" \\\n", " ").splitlines()


def test_every_locked_requirement_is_pinned_and_hashed_without_a_place() -> None:
    """Places would be those of the lock's author; an unpinned or unhashed one could be anything."""
    entries = entries_of(*SETS)

    assert ["dela", "http", "postgresql", "rye"] == SETS
    assert [] == [line[:60] for line in entries if not ENTRY.fullmatch(line)]
    assert [] == [word for word in ("://", "index", "find-links") if word in "".join(entries)]


def test_all_locks_have_the_same_entries_for_a_package() -> None:
    by_name: dict[str, set[tuple[str, ...]]] = {}
    for one in SETS:
        entries = entries_of(one)
        for name in {line.partition("==")[0] for line in entries}:
            same = tuple(line for line in entries if line.startswith(f"{name}=="))
            by_name.setdefault(name, set()).add(same)

    assert [] == [name for name, found in by_name.items() if len(found) > 1]


def test_a_lock_has_the_packages_of_all_its_sets_once_in_order() -> None:
    entries = entries_of("ralph", "rye", "http", "sqlite")

    assert sorted({*entries_of("rye"), *entries_of("http")}) == entries
    assert "" == merged_lock(["ralph", "specum", "acm", "tables", "sqlite", ""])


@pytest.mark.parametrize(
    "package", ["cffi", "cryptography", "httptools", "psycopg-binary", "pyyaml", "rpds-py"]
)
def test_compiled_packages_are_locked_for_every_system_and_python(package: str) -> None:
    entries = [line for line in entries_of(*SETS) if line.startswith(f"{package}==")]
    hashes = [line.count("--hash=") for line in entries]

    assert hashes
    assert min(hashes) > 40


def test_the_variable_chooses_the_interpreter_of_servers_and_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own, environment = base_interpreter(), environment_for("")
    monkeypatch.setenv("RALPHGEN_PYTHON", sys.executable)

    assert (sys.executable, own[1]) == base_interpreter()
    assert environment.folder == environment_for("").folder
    other = stand_in(tmp_path, "3 14 cp314-linux-x86_64")
    monkeypatch.setenv("RALPHGEN_PYTHON", f"{other}")

    assert (f"{other}", "cp314-linux-x86_64") == base_interpreter()
    assert "-cp314-linux-x86_64" in environment_for("").folder.name
    assert other == environment_for("").base


@pytest.mark.parametrize(
    ("printed", "message"),
    [("3 10 cp310-linux-x86_64", "is Python 3.10, too old"), ("nothing", "not a working Python")],
)
def test_an_unusable_interpreter_is_refused_with_the_way_to_another(
    printed: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RALPHGEN_PYTHON", f"{stand_in(tmp_path, printed)}")
    with pytest.raises(ProjectError, match=message) as caught:
        base_interpreter()

    assert "set RALPHGEN_PYTHON to the absolute path" in caught.value.problems[0].hint
    for name, why in (("python3", "not an absolute path"), ("/no/python", "not a working Python")):
        monkeypatch.setenv("RALPHGEN_PYTHON", name)
        with pytest.raises(ProjectError, match=why):
            base_interpreter()


def stand_in(folder: Path, printed: str) -> Path:
    """A program that answers as an interpreter would."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\necho {printed}\n", encoding="utf-8")
    program.chmod(0o755)
    return program
