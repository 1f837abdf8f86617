"""The environment of emitted servers: built once, by one process, completely or not at all."""

import base64
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

import ralphgen
from ralphgen.environment.build import check_environment, explain_failure
from ralphgen.environment.location import Environment, environment_for, is_complete
from ralphgen.environment.program import ensure_environment
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow

ENSURE = """
import sys
from ralphgen.environment.program import ensure_environment
environment = ensure_environment(sys.argv[1], say=lambda line: print(line, flush=True))
print(environment.folder)
"""
BASE = """
from ralphgen.environment import base_interpreter
print(base_interpreter()[0])
"""


def write_wheel(folder: Path, version: str = "0.17.3", module: str = "") -> str:
    """A wheel called json5, so that checks import it, and a module besides; returns its sha256."""
    info = f"json5-{version}.dist-info"
    files = {
        "json5.py": f"VERSION = {version!r}\n",
        "never_imported.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: json5\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_record_digest(text)},{len(text)}\n" for name, text in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"])
    folder.mkdir(exist_ok=True)
    wheel = folder / f"json5-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # of one date: the same bytes each time
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def _record_digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def write_constraint(folder: Path) -> Path:
    """A file of constraints that contradicts every lock here."""
    path = folder / "constraints.txt"
    path.write_text("json5==0.0.1\n", encoding="utf-8")
    return path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels as the only source of packages, and a new home."""
    folder = tmp_path / "wheels"
    settings = {
        "RALPHGEN_HOME": f"{tmp_path / 'home'}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{folder}",
    }
    for name, text in settings.items():
        monkeypatch.setenv(name, text)
    return folder


@pytest.fixture
def lock(wheels: Path) -> str:
    """A lock of one tiny package."""
    return f"json5==0.17.3 \\\n    --hash=sha256:{write_wheel(wheels)}\n"


@pytest.fixture
def environment(
    lock: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Environment:
    """The environment of the lock, copied from one that is built once for all tests."""
    shared = tmp_path_factory.getbasetemp() / "shared home"
    with monkeypatch.context() as patched:
        patched.setenv("RALPHGEN_HOME", f"{shared}")
        ensure_environment(lock, say=lambda _: None)
    shutil.copytree(shared, tmp_path / "home", symlinks=True)
    return environment_for(lock)


@pytest.fixture
def ensure(lock: str) -> Callable[[], tuple[Environment, list[str]]]:
    """Return a function that builds the environment and returns it with its messages."""

    def make() -> tuple[Environment, list[str]]:
        said: list[str] = []
        return ensure_environment(lock, say=said.append), said

    return make


Ensure = Callable[[], tuple[Environment, list[str]]]


def start_ensuring(lock: str) -> subprocess.Popen[str]:
    """Start another ralphgen that needs the same environment, in a new process group."""
    return subprocess.Popen(
        [sys.executable, "-c", ENSURE, lock],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )


def version_in(environment: Environment) -> str:
    command = (environment.python, "-I", "-c", "import json5; print(json5.VERSION)")
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout.strip()


def is_compiled(environment: Environment) -> bool:
    return any(environment.folder.rglob("site-packages/__pycache__/never_imported.*.pyc"))


def only_entry(environment: Environment) -> list[str]:
    """Return the entries next to the lock file: incomplete ones must not remain."""
    names = (path.name for path in environment.folder.parent.iterdir())
    return [name for name in names if not name.endswith(".lock")]


def test_settings_and_variables_of_pip_lead_no_package_astray(
    ensure: Ensure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--user`, a target or the same package on PYTHONPATH lead pip astray if it is let."""
    settings = tmp_path / "pip.conf"
    text = f"[install]\nuser = true\ntarget = {tmp_path / 'astray'}\ncompile = false\n"
    settings.write_text(text, encoding="utf-8")
    (tmp_path / "path").mkdir()
    shutil.unpack_archive(next((tmp_path / "wheels").iterdir()), tmp_path / "path", "zip")
    monkeypatch.setenv("PIP_CONFIG_FILE", f"{settings}")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_CONSTRAINT", f"{write_constraint(tmp_path)}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'path'}")
    environment, said = ensure()

    assert "0.17.3" == version_in(environment)
    assert is_compiled(environment)
    assert is_complete(environment)
    assert [] == check_environment(environment)
    assert f"building the server's environment with {environment.base}" == said[0]
    assert "ready" in said[-1]


def test_an_existing_environment_is_not_rebuilt(environment: Environment, ensure: Ensure) -> None:
    marker = environment.folder / "marker"
    marker.touch()

    assert (environment, []) == ensure()
    assert marker.exists()


def test_it_is_built_again_when_its_base_interpreter_vanished(
    environment: Environment, ensure: Ensure
) -> None:
    (environment.folder / "complete").write_text("/no/such/python3.11\n", encoding="utf-8")

    assert not is_complete(environment)
    assert "ready" in ensure()[1][-1]
    assert is_complete(environment)


def test_it_is_built_again_when_its_own_interpreter_leads_nowhere(
    environment: Environment, ensure: Ensure
) -> None:
    environment.python.unlink()
    environment.python.symlink_to("/no/such/python3.11")

    assert not is_complete(environment)
    assert "ready" in ensure()[1][-1]
    assert "0.17.3" == version_in(environment)


def test_a_killed_build_counts_for_nothing_and_the_next_one_succeeds(
    ensure: Ensure, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package index accepts the connection and stays silent, so the build hangs there."""
    with socket.create_server(("127.0.0.1", 0)) as index, monkeypatch.context() as patched:
        patched.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{index.getsockname()[1]}/simple")
        patched.setenv("NO_PROXY", "127.0.0.1")
        for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
            patched.delenv(name)
        with start_ensuring(lock) as child, index.accept()[0]:
            os.killpg(child.pid, signal.SIGKILL)
    environment = environment_for(lock)

    assert environment.python.exists()
    assert not is_complete(environment)
    assert 1 == len(check_environment(environment))
    assert "ready" in ensure()[1][-1]
    assert [] == check_environment(environment)
    assert [environment.folder.name] == only_entry(environment)


def test_a_package_with_another_hash_is_refused_and_nothing_is_kept(lock: str) -> None:
    tampered = re.sub(r"sha256:\w{8}", "sha256:00000000", lock)
    with pytest.raises(ProjectError, match="hash differs") as caught:
        ensure_environment(tampered, say=lambda _: None)
    environment = environment_for(tampered)

    assert not is_complete(environment)
    assert [] == only_entry(environment)
    assert caught.value.problems[0].output.startswith("  ")
    assert 'then run "ralphgen regen"' in caught.value.problems[0].hint


def test_a_lock_without_hashes_is_refused(lock: str) -> None:
    unhashed = lock.split(maxsplit=1)[0] + "\n"
    with pytest.raises(ProjectError, match="hash"):
        ensure_environment(unhashed, say=lambda _: None)

    assert not is_complete(environment_for(unhashed))


def test_an_unavailable_package_is_reported_with_a_hint(lock: str, wheels: Path) -> None:
    next(wheels.iterdir()).unlink()
    with pytest.raises(ProjectError, match="index cannot be reached") as caught:
        ensure_environment(lock, say=lambda _: None)

    assert 'then run "ralphgen regen"' in caught.value.problems[0].hint


def test_a_read_only_home_is_reported_with_a_hint(
    lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RALPHGEN_HOME", f"{tmp_path / 'file' / 'home'}")
    with pytest.raises(ProjectError, match="cannot make") as caught:
        ensure_environment(lock, say=lambda _: None)

    assert "set RALPHGEN_HOME to" in caught.value.problems[0].hint


def test_the_second_of_two_processes_waits_and_finds_the_environment(lock: str) -> None:
    """Held here, the lock makes both wait; let go, one of them builds."""
    environment = environment_for(lock)
    environment.folder.parent.mkdir(parents=True)
    held = FileLock(environment.folder.with_name(f"{environment.folder.name}.lock"))
    with held:
        children = [start_ensuring(lock), start_ensuring(lock)]
        first_lines = [child.stdout.readline() for child in children if child.stdout]
    said = [child.communicate()[0] for child in children]

    assert ["another ralphgen is building"] * 2 == [line[:28] for line in first_lines]
    assert [0, 0] == [child.returncode for child in children]
    assert 1 == sum("is ready" in text for text in said)
    assert [str(environment.folder)] * 2 == [text.splitlines()[-1] for text in said]


def test_a_home_with_spaces_and_beyond_ascii_works(
    lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "my home 🐘 ü"
    monkeypatch.setenv("RALPHGEN_HOME", f"{home}")
    environment = ensure_environment(lock, say=lambda _: None)

    assert home in environment.folder.parents
    assert [] == check_environment(environment)


def test_the_base_is_an_interpreter_that_outlives_virtual_environments(tmp_path: Path) -> None:
    """Asked from a virtual environment within one, through a link to its folder."""
    outer, inner, link = tmp_path / "outer", tmp_path / "inner", tmp_path / "link"
    for python, folder in ((sys.executable, outer), (outer / "bin/python", inner)):
        subprocess.run([python, "-I", "-m", "venv", "--without-pip", folder], check=True)
    link.symlink_to(inner)
    places = [str(Path(ralphgen.__file__).parents[1]), *(path for path in sys.path if path)]
    found = subprocess.run(
        [link / "bin/python", "-c", BASE],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert Path(sys.base_prefix) in Path(found).parents
    assert re.search(r"python3\.\d+\w*$", found), "a name such as python3 may move on"
    assert Path(sys.executable).resolve() == Path(found).resolve()


def test_the_check_names_a_wrong_version_and_a_failing_import(environment: Environment) -> None:
    module = next(environment.folder.rglob("site-packages/json5.py"))
    module.write_text("import no_such_module\n", encoding="utf-8")
    info = next(environment.folder.rglob("json5-0.17.3.dist-info"))
    metadata = (info / "METADATA").read_text(encoding="utf-8")
    (info / "METADATA").write_text(metadata.replace("0.17.3", "0.17.2"), encoding="utf-8")
    version, imported = check_environment(environment)

    assert '"json5" is 0.17.2, the lock asks for 0.17.3' == version
    assert imported.startswith('"json5" cannot be imported (ModuleNotFoundError')


def test_an_environment_whose_bytecode_did_not_fit_on_the_disk_is_removed(wheels: Path) -> None:
    """Python keeps half of the file without an error; here no file may have more than 4 MB."""
    digest = write_wheel(wheels, module=f"X = ({'lambda:0,' * 60_000})\n")
    lock = f"json5==0.17.3 --hash=sha256:{digest}\n"
    limited = ("sh", "-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "sh")
    done = subprocess.run(
        [*limited, sys.executable, "-c", ENSURE, lock],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert "no disk space left" in done.stderr
    assert [] == only_entry(environment_for(lock))


def test_the_check_names_incomplete_bytecode(environment: Environment) -> None:
    """An import of that module fails, and no import of ours reaches it."""
    bytecode = next(environment.folder.rglob("site-packages/__pycache__/never_imported.*.pyc"))
    bytecode.write_bytes(bytecode.read_bytes()[:-9])
    [problem] = check_environment(environment)

    assert f'the bytecode "{bytecode.name}" is not whole: was the disk full?' == problem


def test_the_check_names_an_interpreter_that_does_not_run(environment: Environment) -> None:
    environment.python.unlink()
    environment.python.write_text("#!/bin/sh\necho broken; exit 3\n", encoding="utf-8")
    environment.python.chmod(0o755)
    [problem] = check_environment(environment)

    assert problem.endswith("failed with exit code 3 (broken)")


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("OSError: [Errno 28] No space left on device", "disk space"),
        ("created successfully because ensurepip is not available.", "virtual environments"),
        ("/usr/bin/python3: No module named venv", "virtual environments"),
        ("connection broken by 'NewConnectionError('<pip", "cannot be reached"),
    ],
)
def test_messages_of_tools_become_a_sentence_with_a_hint(output: str, text: str) -> None:
    problem = explain_failure(output)

    assert problem is not None
    assert text in problem.text
    assert 'then run "ralphgen regen"' in problem.hint


def test_a_failure_of_no_known_kind_has_no_explanation() -> None:
    assert explain_failure("something else") is None
