"""Where environments lie, and what the locks that they are built from hold."""

import hashlib
import re
import sys
from pathlib import Path

import pytest

from ralphgen.environment.location import environment_for, read_lock
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
    assert tmp_path / "given/environments" == environment_for("", Path("given")).folder.parent


def test_the_home_of_an_unknown_user_is_a_problem_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RALPHGEN_HOME", "~no-such-user/cache")
    with pytest.raises(ProjectError, match="~no-such-user"):
        environment_for("")


def test_each_lock_and_python_has_its_own_environment(tmp_path: Path) -> None:
    one, other = (environment_for(lock, tmp_path).folder.name for lock in ("one", "other"))
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"

    assert one != other
    assert hashlib.sha256(b"one").hexdigest()[:16] == one[:16]
    assert one[16:].startswith(f"-{version}")


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_every_locked_requirement_is_pinned_hashed_and_says_no_place(engine: str) -> None:
    """Places would be those of whoever made the lock; an unpinned or unhashed one is anything."""
    entries = read_lock(engine).replace(" \\\n", " ").splitlines()
    entry = re.compile(r"[a-z0-9-]+==[\w.]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")

    assert [] == [line[:60] for line in entries if not entry.fullmatch(line)]
    assert [] == [word for word in ("://", "index", "find-links") if word in read_lock(engine)]


def test_only_psycopg_and_what_it_needs_is_locked_besides_for_postgresql() -> None:
    pinned, more = (
        {line.split(" ")[0] for line in read_lock(engine).splitlines() if "==" in line}
        for engine in ("sqlite", "postgresql")
    )

    assert pinned < more
    names = sorted(entry.partition("==")[0] for entry in more - pinned)
    assert ["psycopg", "psycopg-binary", "tzdata"] == names


@pytest.mark.parametrize("package", ["pydantic-core", "rpds-py", "cffi", "cryptography", "pyyaml"])
def test_compiled_packages_are_locked_for_every_system_and_python(package: str) -> None:
    entries = read_lock().replace(" \\\n", " ").splitlines()
    hashes = [line.count("--hash=") for line in entries if line.startswith(f"{package}==")]

    assert hashes
    assert min(hashes) > 40
