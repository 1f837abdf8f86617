"""A server runs the files of its manifest, as they were generated, and nothing else."""

import _sqlite3
import marshal
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from command_line import ran
from driving import accept, create_project, edit, query, server_command
from settled import settle, unkept_project
from wire import checked, refused, running

from ralphgen.runtime import loader, verification

HASHED = import_module("_frozen_importlib_external")
MARK = "import pathlib; pathlib.Path({mark!r}).write_text('ran', encoding='utf-8')\n"
# Modules of the standard library that a server imports, at the start or later.
SHADOWED = ("_json", "_signal", "_sqlite3", "gc", "hashlib", "json", "marshal", "os", "re", "site")


WARM = 3  # starts until the caches of later starts are complete


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of this test's records."""
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "servers"


@pytest.fixture
def own(tmp_path: Path, home: Path) -> Path:
    """A project without a record."""
    return unkept_project(tmp_path / "project", home)


@pytest.fixture(params=[0, WARM], ids=["cold", "warm"])
def either(own: Path, request: pytest.FixtureRequest) -> Path:
    """A project without a record, and one that has been started."""
    for _ in range(request.param):
        started(own)
    return own


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that foreign code would write."""
    return tmp_path / "mark"


def generated(root: Path, file: str) -> Path:
    return root / ".ralph" / "mcp" / file


def compiled(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules of the server that are compiled at the next start."""
    folder = str(generated(root, ""))
    files = []

    def compile_(*arguments: Any, **options: Any) -> Any:
        files.append(os.path.relpath(arguments[1], folder))
        return compile(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(verification, "compile", compile_, raising=False)
        verification.verified(folder)
    return files


def foreign(mark: Path) -> bytes:
    """The source of code that must not run."""
    return MARK.format(mark=str(mark)).encode()


def started(root: Path, *options: str) -> None:
    """The server must answer, and end cleanly."""
    command = [sys.executable, *options, *server_command(root)[2:]]
    about = '{"jsonrpc":"2.0","id":1,"method":"ping"}\nno frame\n'
    done = subprocess.run(command, input=about, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert '"id":1' in done.stdout


@pytest.mark.parametrize(
    ("file", "ways"),
    [
        ("runtime/start.py", (("-I",), ("-I", "-S"), ("-S",), ())),
        ("runtime/loader.py", ((),)),
        ("runtime/verification.py", ((),)),
        ("ralph/tasks.py", ((),)),
    ],
)
def test_bytecode_in_the_project_is_never_run(
    either: Path, mark: Path, file: str, ways: tuple[tuple[str, ...], ...]
) -> None:
    """Unchecked bytecode by hash is what an interpreter runs without a look at the source."""
    path = generated(either, file)
    code = compile(foreign(mark), str(path), "exec")
    cached = Path(cache_from_source(str(path)))
    cached.parent.mkdir()
    cached.write_bytes(HASHED._code_to_hash_pyc(code, bytes(8), False))  # noqa: SLF001
    path.with_suffix(".pyc").write_bytes(cached.read_bytes())
    for name in ("runtime", "ralph", "policy", "server", *SHADOWED):
        generated(either, f"{name}.pyc").write_bytes(cached.read_bytes())
    for options in ways:
        started(either, *options)

    assert not mark.exists()


def test_no_extension_module_of_the_project_is_loaded(either: Path) -> None:
    """An attempt to load one of these files fails with its name."""
    for name in ("policy", "ralph/tasks", "runtime/start", "server", *SHADOWED):
        for suffix in EXTENSION_SUFFIXES:
            generated(either, f"{name}{suffix}").write_bytes(b"no library")
    for options in (("-I",), ("-I", "-S"), ("-S",), ()):
        started(either, *options)


def test_no_module_of_the_project_replaces_a_standard_one(either: Path, mark: Path) -> None:
    for name in SHADOWED:
        generated(either, f"{name}.py").write_bytes(foreign(mark))
        generated(either, name).mkdir()
        generated(either, f"{name}/__init__.py").write_bytes(foreign(mark))
    for options in (("-I",), ("-I", "-S"), ("-S",), ()):
        started(either, *options)

    assert not mark.exists()


def test_a_listed_module_may_not_have_the_name_of_a_standard_one(either: Path) -> None:
    generated(either, "json.py").write_text("X = 1\n", encoding="utf-8")
    path = generated(either, "manifest.json")
    text = path.read_text(encoding="utf-8").replace('"files": {', '"files": {"json.py": "",')
    path.write_text(text, encoding="utf-8")
    accept(either)

    assert "'json.py' has the name of a standard library module" in refused(either)


def test_an_extension_module_of_an_earlier_start_is_loaded_only_from_the_search_path(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record contains the location of such modules, also if PYTHONPATH named the directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in Path(_sqlite3.__file__).parent.glob("*.so"):
        (elsewhere / file.name).symlink_to(file)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    for _ in range(WARM):
        started(own, "-S")
    for path in elsewhere.iterdir():
        path.unlink()
        path.write_bytes(b"no library")

    started(own, "-I", "-S")


def test_a_module_that_is_not_listed_is_not_found(either: Path, mark: Path) -> None:
    edit(either, "ralph/__init__.py", more="\nfrom runtime.ralph import beside\n")
    generated(either, "runtime/ralph/beside.py").write_bytes(foreign(mark))

    assert "cannot load the server's own module ralph (ImportError" in refused(either)
    assert not mark.exists()


@pytest.mark.parametrize("file", ["policy.py", "server.py", "runtime/protocol/background.py"])
def test_an_edited_module_is_refused_until_it_is_restored(either: Path, file: str) -> None:
    """This includes modules that are imported later, or that have run already."""
    path = generated(either, file)
    before = path.read_text(encoding="utf-8")
    for _ in range(2):
        path.write_text(f"{before}# mine\n", encoding="utf-8")
        line = refused(either)
        path.write_text(before, encoding="utf-8")
        checked(either)

        assert f'{file}" was changed after it was generated' in line
        assert 'restore it, or run "ralphgen regen --force"' in line


def test_an_edit_that_keeps_size_and_times_is_refused(either: Path) -> None:
    """Its change time differs from the verified file's, or its inode does."""
    path = generated(either, "policy.py")
    about, source = path.stat(), path.read_bytes()
    path.write_bytes(source.replace(b"list_tasks", b"lost_tasks"))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

    assert (about.st_size, about.st_mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert 'policy.py" was changed after it was generated' in refused(either)

    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    path.write_bytes(source)
    settle()
    checked(either)
    checked(either)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)

    assert 'policy.py" was changed after it was generated' in refused(either)


def test_a_missing_module_is_refused_by_its_name(either: Path) -> None:
    generated(either, "ralph/tasks.py").unlink()

    assert 'ralph/tasks.py" (No such file or directory): run "ralphgen regen' in refused(either)


def test_a_missing_module_is_refused_if_it_had_just_been_written(own: Path) -> None:
    """The record has no stamp of it, which is not the stamp of a missing file."""
    generated(own, "policy.py").touch()
    verification.keep(*verification.verified(str(generated(own, ""))))
    generated(own, "policy.py").unlink()

    assert 'policy.py" (No such file or directory): run "ralphgen regen' in refused(own)


def test_a_manifest_without_the_servers_modules_is_refused(either: Path) -> None:
    generated(either, "manifest.json").write_text('{"files": []}', encoding="utf-8")

    assert "cannot be used (it does not list the server's modules)" in refused(either)


@pytest.mark.parametrize("file", ["runtime/loader.py", "runtime/verification.py"])
def test_an_edited_loader_does_not_run_if_a_record_fits(own: Path, mark: Path, file: str) -> None:
    checked(own)
    path = generated(own, file)
    path.write_bytes(foreign(mark) + path.read_bytes())

    assert f'{file}" was changed after it was generated' in refused(own)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["loader", "verification"])
@pytest.mark.parametrize("text", [None, "", "<<<<<<< ours\n", "\0", "import nosuch\n"])
def test_a_server_without_a_whole_loader_is_refused(own: Path, name: str, text: str | None) -> None:
    path = generated(own, f"runtime/{name}.py")
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")

    line = refused(own)
    assert f"cannot load {str(path)!r} (" in line
    assert line.endswith('): run "ralphgen regen --force"')


def test_an_edit_during_a_start_does_not_run(own: Path, mark: Path) -> None:
    """The compiled bytes are the compared ones, even if the file changes a moment later."""
    path = generated(own, "runtime/start.py")
    source = path.read_bytes()
    edit_when_read = (
        "import sys; sys.addaudithook(lambda name, told: name == 'compile' and "
        f"str(told[1]) == {str(path)!r} and open({str(path)!r}, 'wb').write({foreign(mark)!r})); "
        "import runpy; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = server_command(own, "--check")
    for status in (0, 2):  # the second start compares the file again
        done = subprocess.run(
            [*command[:2], "-c", edit_when_read, *command[2:]], capture_output=True, check=False
        )
        assert (status, foreign(mark)) == (done.returncode, path.read_bytes()), done.stderr
    path.write_bytes(source)

    checked(own)
    assert not mark.exists()


def test_a_start_keeps_one_record_for_later_ones(own: Path, home: Path) -> None:
    """The third start is the last that adds to it; nothing is written into the project."""
    for _ in range(WARM):
        started(own)
    (record,) = home.iterdir()
    before = record.stat().st_mtime_ns
    started(own)

    assert (0o700, 0o600) == (home.stat().st_mode & 0o777, record.stat().st_mode & 0o777)
    assert [record] == [*home.iterdir()]
    assert before == record.stat().st_mtime_ns
    assert [] == [*generated(own, "").rglob("*.pyc")]


def test_the_modules_of_each_start_are_read_as_one(own: Path) -> None:
    """None of them is looked for; later imports are, as before."""
    command = server_command(own)
    about = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    found = []
    for _ in range(4):
        done = subprocess.run(
            [command[0], "-X", "importtime", *command[1:]],
            input=about,
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"id":1' in done.stdout
        names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        found.append(sorted(names & {"ralph.tasks", "runtime.protocol.connection"}))

    each = ["ralph.tasks", "runtime.protocol.connection"]
    assert [each, each, [], []] == found


def sources_opened(root: Path) -> set[str]:
    """Return the modules of the server whose source a start opens."""
    seen = (
        "import sys; seen = []; sys.addaudithook(lambda name, told: name == 'open' and "
        "str(told[0]).endswith('.py') and seen.append(told[0])); import atexit, runpy;"
        "atexit.register(lambda: print(*seen, sep='\\n')); sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = server_command(root, "--help")
    done = subprocess.run(
        [*command[:2], "-c", seen, *command[2:]], capture_output=True, text=True, check=True
    )
    folder = f"{generated(root, '')}/"
    return {path.removeprefix(folder) for path in done.stdout.splitlines() if folder in path}


def test_a_warm_start_opens_no_source_but_server_py(own: Path) -> None:
    assert "policy.py" in sources_opened(own)
    assert {"server.py"} == sources_opened(own)


@pytest.mark.parametrize("later", [-(10**6), 0, 10**6])
def test_the_first_start_uses_a_record_that_init_made(own: Path, later: int) -> None:
    """Modification times do not matter, because an archive may restore them."""
    path = generated(own, "policy.py")
    path.touch()
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + later))
    verification.keep_verified(str(generated(own, "")))

    assert {"server.py"} == sources_opened(own)


def test_the_first_start_uses_a_record_that_trust_made(own: Path) -> None:
    ran("trust", "-C", own, "--yes")

    assert {"server.py"} == sources_opened(own)


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        ("XDG_CACHE_HOME", "{home}", True),
        ("XDG_CACHE_HOME", "", True),
        ("XDG_CACHE_HOME", "own", False),
        ("HOME", "", False),
        ("RALPHGEN_HOME", "~/own", False),
        ("RALPHGEN_HOME", "own", False),
    ],
)
def test_records_are_kept_below_absolute_directories(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, is_kept: bool
) -> None:
    monkeypatch.delenv("RALPHGEN_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, value.format(home=tmp_path / "caches"))
    monkeypatch.chdir(tmp_path)
    checked(own)

    assert is_kept == ({"server.py"} == sources_opened(own))
    assert is_kept == bool([*tmp_path.rglob("servers")])


def test_a_record_in_the_directory_that_a_server_starts_in_is_not_run(
    own: Path, home: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may bring a directory of any name, such as `~`."""
    planted(own, mark)
    for place in ("~/own", "own"):
        shutil.copytree(home, tmp_path / place / "servers")
        monkeypatch.setenv("RALPHGEN_HOME", place)
        monkeypatch.chdir(tmp_path)
        checked(own)

    assert not mark.exists()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-1],
    "of another program": lambda _: b"\x7fELF" * 100,
    "with a bit turned at its beginning": lambda data: (
        data[:12] + bytes([data[12] ^ 1]) + data[13:]
    ),
    "with zeros in its middle": lambda data: data[:4000] + bytes(max(0, len(data) - 4000)),
    "with zeros at its end": lambda data: data[:-400] + bytes(400),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_replaced(
    own: Path, home: Path, damage: Callable[[bytes], bytes]
) -> None:
    for _ in range(WARM):
        started(own)
    (record,) = home.iterdir()
    record.write_bytes(damage(record.read_bytes()))
    for _ in range(WARM):
        started(own)

    assert {"server.py"} == sources_opened(own)


def test_a_damaged_record_takes_no_memory(own: Path, home: Path) -> None:
    """The size in it is read before its checksum is compared."""
    checked(own)
    (record,) = home.iterdir()
    record.write_bytes(b"\x7f" * 100)
    most = 500 << 20
    done = subprocess.run(
        server_command(own, "--check"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        input="",
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_a_record_that_cannot_be_read_is_made_again(own: Path, tmp_path: Path) -> None:
    """As one on a network, which another machine has replaced."""
    folder = str(own / ".ralph/mcp")
    facts, pieces = verification.verified(folder)
    with (tmp_path / "write-only").open("wb", buffering=0) as file:
        modules = loader.Modules(folder, facts[1], None, trusting=False)
        modules.file, modules.begin = file, 0
        modules.index = {name: (0, len(piece), b"") for name, piece in pieces.items()}
        modules.pieces = {}

        assert pieces["policy"] == modules.piece("policy")


def planted(own: Path, mark: Path) -> None:
    """Keep a record of the server with a foreign loader, as only its user can."""
    facts, pieces = verification.verified(str(generated(own, "")))
    code = compile(foreign(mark) + b"raise SystemExit(0)\n", "x", "exec")
    verification.keep(facts, {**pieces, "runtime.loader": marshal.dumps(code)})


def test_a_record_in_a_directory_that_others_can_write_is_not_run(
    own: Path, home: Path, mark: Path
) -> None:
    planted(own, mark)
    checked(own)

    assert mark.exists()  # from the user's own folder: this proves that the test can fail

    for mode in (0o770, 0o707, 0o777, 0o722):
        mark.unlink(missing_ok=True)
        home.chmod(0o700)
        planted(own, mark)
        home.chmod(mode)
        checked(own)

        assert not mark.exists(), oct(mode)


def test_a_record_that_others_can_write_is_not_run(own: Path, home: Path, mark: Path) -> None:
    planted(own, mark)
    for path in home.iterdir():
        path.chmod(0o666)
    checked(own)

    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_record_of_another_user_is_not_run(own: Path, home: Path, mark: Path) -> None:
    planted(own, mark)
    os.chown(home, 65534, 65534)
    checked(own)

    assert not mark.exists()


@pytest.mark.parametrize("place", ["file/below", "/proc/none", "link"])
def test_a_server_starts_without_a_writable_cache(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "there")
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / place))
    for _ in range(2):
        started(own)


def test_a_server_starts_on_a_full_disk(own: Path, home: Path) -> None:
    """And leaves no half of a file behind."""
    done = subprocess.run(
        server_command(own, "--check"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    left = [path.name for path in home.iterdir()]
    checked(own)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == left


def test_the_cache_does_not_grow_without_end(own: Path, home: Path) -> None:
    checked(own)
    (record,) = home.iterdir()
    for number in range(300):
        (home / f"{number}").write_bytes(b"")
        os.utime(home / f"{number}", (number, number))
    generated(own, "policy.py").touch()
    checked(own)

    assert verification.MOST == len([*home.iterdir()])
    assert record.stat().st_size


def test_a_traceback_names_the_file_and_shows_the_line(own: Path) -> None:
    edit(own, "ralph/project.py", more="\n\ndef broken(*_):\n    raise KeyError('mine')\n\n\n")
    edit(
        own, "ralph/project.py", more="for tool in TOOLS:\n    tool.run = 'ralph.project.broken'\n"
    )
    with running(own) as server:
        server.shake_hands()
        server.ask("tools/call", {"name": "get_project_info", "arguments": {}})
        server.leave()
        errors = server.errors()

    assert f'File \\"{generated(own, "ralph/project.py")}\\", line ' in errors
    assert "raise KeyError('mine')" in errors


def test_a_schema_is_compared_again_when_its_text_has_changed(own: Path) -> None:
    for _ in range(WARM):
        started(own)
    query(own, "ALTER TABLE tasks DROP COLUMN hints")

    assert 'column "tasks.hints" is gone' in refused(own)


def test_a_copied_project_has_its_own_record(own: Path, tmp_path: Path) -> None:
    """Stamps of one directory are not valid for another."""
    checked(own)
    checked(own)
    shutil.copytree(own, tmp_path / "copy")
    path = generated(tmp_path / "copy", "policy.py")
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")

    assert 'policy.py" was changed after it was generated' in refused(tmp_path / "copy")
    checked(own)


def test_copy_of_a_server_takes_its_bytecode_from_the_record_of_the_first(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(own)
    copy = shutil.copytree(own, tmp_path / "copy")

    assert [] == compiled(copy, monkeypatch)
    _, codes = verification.verified(str(generated(copy, "").resolve()))
    path = generated(copy, "runtime/start.py")
    assert f"{path}" == marshal.loads(codes["runtime.start"]).co_filename  # noqa: S302 - ours
    started(copy)


def test_server_of_another_project_compiles_only_modules_that_differ(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(own)
    other = create_project(tmp_path / "other")
    edit(other, "policy.py", more="\n")

    assert ["policy.py"] == compiled(other, monkeypatch)


def test_bytecode_is_not_taken_from_a_record_of_another_verification(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may compile the same source in another way."""
    started(own)
    other = create_project(tmp_path / "other")
    edit(other, "runtime/verification.py", more="\n")

    assert {"policy.py", "runtime/start.py"} < {*compiled(other, monkeypatch)}


def test_bytecode_of_a_record_that_others_can_write_is_not_taken(
    own: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(own)
    copy = shutil.copytree(own, tmp_path / "copy")
    for record in home.iterdir():
        record.chmod(0o666)

    def refuse(*_: object) -> None:
        raise AssertionError("bytecode of the record was taken")

    monkeypatch.setattr(verification, "_moved", refuse)
    verification.verified(str(generated(copy, "")))
