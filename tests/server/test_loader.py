"""A server runs what its manifest lists, as it was generated, and nothing else of its folder."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from driving import accept, create_project, edit, query, server_command
from settled import unkept_project
from wire import checked, refused, running

from ralphgen.runtime import bytecode, loader

HASHED = import_module("_frozen_importlib_external")
MARK = "import pathlib; pathlib.Path({mark!r}).write_text('ran', encoding='utf-8')\n"
# Modules of the standard library that a server imports, at the start or later.
SHADOWED = ("_json", "_signal", "_sqlite3", "gc", "hashlib", "json", "marshal", "os", "re", "site")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's bytecode, of this test alone."""
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "bytecode"


@pytest.fixture
def own(tmp_path: Path, home: Path) -> Path:
    return unkept_project(tmp_path / "project", home)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What foreign code would write."""
    return tmp_path / "mark"


def generated(root: Path, file: str) -> Path:
    return root / ".ralph" / "mcp" / file


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
        ("ralph/tasks.py", ((),)),
    ],
)
def test_bytecode_in_the_project_is_never_run(
    own: Path, mark: Path, file: str, ways: tuple[tuple[str, ...], ...]
) -> None:
    """Unchecked bytecode by hash is what an interpreter runs without a look at the source."""
    path = generated(own, file)
    code = compile(foreign(mark), str(path), "exec")
    cached = Path(cache_from_source(str(path)))
    cached.parent.mkdir()
    cached.write_bytes(HASHED._code_to_hash_pyc(code, bytes(8), False))  # noqa: SLF001
    path.with_suffix(".pyc").write_bytes(cached.read_bytes())
    for name in ("runtime", "ralph", "policy", "server", *SHADOWED):
        generated(own, f"{name}.pyc").write_bytes(cached.read_bytes())
    for options in ways:
        started(own, *options)

    assert not mark.exists()


def test_no_module_of_the_folder_takes_the_place_of_a_standard_one(own: Path, mark: Path) -> None:
    for name in SHADOWED:
        generated(own, f"{name}.py").write_bytes(foreign(mark))
        generated(own, name).mkdir()
        generated(own, f"{name}/__init__.py").write_bytes(foreign(mark))
    for options in (("-I",), ("-I", "-S"), ("-S",), ()):
        started(own, *options)

    assert not mark.exists()


def test_a_listed_module_may_not_have_the_name_of_a_standard_one(own: Path) -> None:
    generated(own, "json.py").write_text("X = 1\n", encoding="utf-8")
    path = generated(own, "manifest.json")
    text = path.read_text(encoding="utf-8").replace('"files": {', '"files": {"json.py": "",')
    path.write_text(text, encoding="utf-8")
    accept(own)

    assert "'json.py' has the name of a standard library module" in refused(own)


def test_a_module_that_is_not_listed_is_not_found(own: Path, mark: Path) -> None:
    edit(own, "ralph/__init__.py", more="\nfrom runtime.ralph import beside\n")
    generated(own, "runtime/ralph/beside.py").write_bytes(foreign(mark))

    assert "cannot load the server's own module ralph (ImportError" in refused(own)
    assert not mark.exists()


@pytest.mark.parametrize("file", ["policy.py", "server.py", "runtime/protocol/long_calls.py"])
def test_a_module_that_was_edited_is_refused_until_it_is_put_back(own: Path, file: str) -> None:
    """Also one that would be imported later, and by a server that has been started before."""
    path = generated(own, file)
    before = path.read_text(encoding="utf-8")
    for _ in range(2):
        path.write_text(f"{before}# mine\n", encoding="utf-8")
        line = refused(own)
        path.write_text(before, encoding="utf-8")
        checked(own)

        assert f'{file}" was changed after it was generated' in line
        assert 'restore it, or run "ralphgen regen --force"' in line


def test_an_edit_of_the_same_size_and_time_is_seen(own: Path) -> None:
    path = generated(own, "policy.py")
    checked(own)
    checked(own)
    about = path.stat()
    path.write_bytes(path.read_bytes().replace(b"list_tasks", b"lost_tasks"))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

    assert (about.st_size, about.st_mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert 'policy.py" was changed after it was generated' in refused(own)


def test_a_missing_module_is_refused_by_its_name(own: Path) -> None:
    checked(own)
    generated(own, "ralph/tasks.py").unlink()

    assert 'ralph/tasks.py" (No such file or directory): run "ralphgen regen' in refused(own)


def test_a_start_keeps_its_bytecode_for_the_next_one(own: Path, home: Path, tmp_path: Path) -> None:
    """What projects share is kept once; nothing is written into the project."""
    checked(own)
    kept = {path.name: path.stat().st_mtime_ns for path in home.iterdir()}
    generated(own, "runtime/bytecode.py").touch()  # is compared again, and found to be the same
    for _ in range(2):
        checked(own)
    create_project(tmp_path / "other")
    checked(tmp_path / "other")
    now = {path.name: path.stat().st_mtime_ns for path in home.iterdir()}
    shared = [name for name in kept if not name.startswith("project-")]

    assert 0o700 == home.stat().st_mode & 0o777
    assert ["project", "runtime", "runtime", "schema"] == sorted(
        name.partition("-")[0] for name in kept
    )
    assert {name: kept[name] for name in shared} == {name: now[name] for name in shared}
    assert 1 == len({*now} - {*kept})
    assert [] == [*generated(own, "").rglob("*.pyc")]


def test_the_modules_of_each_start_are_read_as_one(own: Path) -> None:
    """From the third start on none of them is looked for; what comes later is, as before."""
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
    started(own)

    each = ["ralph.tasks", "runtime.protocol.connection"]
    assert [each, each, [], []] == found


def sources(root: Path, event: str, place: int) -> set[str]:
    """Return the modules that a start names in events, at this place among what each tells."""
    seen = (
        f"import sys; seen = []; sys.addaudithook(lambda name, told: name == {event!r} and "
        f"str(told[{place}]).endswith('.py') and seen.append(told[{place}])); import atexit, runpy;"
        "atexit.register(lambda: print(*seen, sep='\\n')); sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = server_command(root, "--help")
    done = subprocess.run(
        [*command[:2], "-c", seen, *command[2:]], capture_output=True, text=True, check=True
    )
    folder = f"{generated(root, '')}/"
    paths = {path.removeprefix(folder) for path in done.stdout.splitlines()}
    return {path for path in paths if generated(root, path).exists() and path[:1] != "/"}


def sources_opened(root: Path) -> set[str]:
    """Return the modules of which a start opens the source."""
    return sources(root, "open", 0)


def test_no_module_is_compiled_for_a_project_that_was_for_another(
    own: Path, tmp_path: Path
) -> None:
    """But for those that run before there is a finder, which knows what was kept."""
    checked(own)
    compiled = sources(create_project(tmp_path / "other"), "compile", 1)
    shared = {path for path in compiled if path.startswith("runtime/")}

    assert {f"runtime/{name}.py" for name in ("bytecode", "kept", "modules")} == shared
    assert "policy.py" in compiled


def test_a_server_needs_its_sources_for_nothing_once_they_were_compared(own: Path) -> None:
    """Its second start opens none but the two that run before bytecode is found."""
    for _ in range(2):
        checked(own)

    assert {"runtime/loader.py", "server.py"} == sources_opened(own)


@pytest.mark.parametrize(
    ("name", "value", "more"),
    [
        ("XDG_CACHE_HOME", "{home}", set()),
        ("XDG_CACHE_HOME", "", set()),
        ("XDG_CACHE_HOME", " {home}", {"runtime/kept.py"}),
        ("RALPHGEN_HOME", "~/own", {"runtime/kept.py"}),
        ("RALPHGEN_HOME", "own", {"runtime/kept.py"}),
    ],
)
def test_bytecode_is_found_wherever_it_is_kept(
    own: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    more: set[str],
) -> None:
    """Places that are spelled in other ways cost one more source."""
    monkeypatch.delenv("RALPHGEN_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, value.format(home=tmp_path / "caches"))
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        checked(own)

    assert {"runtime/loader.py", "server.py"} | more == sources_opened(own)


def test_bytecode_of_the_folder_that_a_server_starts_in_is_not_run(
    own: Path, home: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may bring a folder of the name `~`, which is nobody's home."""
    planted(own, mark)
    shutil.copytree(home, tmp_path / "~" / "own" / "bytecode")
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("RALPHGEN_HOME", "~/own")
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
def test_damaged_bytecode_is_made_anew(
    own: Path, home: Path, damage: Callable[[bytes], bytes]
) -> None:
    checked(own)
    whole = {path: path.read_bytes() for path in home.iterdir()}
    for path, data in whole.items():
        path.write_bytes(damage(data))
    started(own)
    checked(own)
    checked(own)

    assert [*whole] == [path for path in whole if path.exists()]


def planted(own: Path, mark: Path) -> None:
    """Keep foreign bytecode as that of the server, as only who may write there can."""
    folder, manifest = str(generated(own, "")), generated(own, "manifest.json").read_bytes()
    parts, _ = bytecode.verified(folder, manifest)
    code = compile(foreign(mark) + b"raise SystemExit(0)\n", "x", "exec")
    name = loader.name_of(folder, manifest)
    bytecode.keep(name, (folder, manifest, parts, code))


def test_bytecode_that_others_may_write_is_not_run(own: Path, home: Path, mark: Path) -> None:
    planted(own, mark)
    checked(own)

    assert mark.exists()  # from a folder of the user's own: the test could fail

    for mode in (0o770, 0o707, 0o777, 0o722):
        mark.unlink(missing_ok=True)
        home.chmod(0o700)
        planted(own, mark)
        home.chmod(mode)
        checked(own)

        assert not mark.exists(), oct(mode)


def test_a_file_of_bytecode_that_others_may_write_is_not_run(
    own: Path, home: Path, mark: Path
) -> None:
    planted(own, mark)
    for path in home.iterdir():
        path.chmod(0o666)
    checked(own)

    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_bytecode_of_another_user_is_not_run(own: Path, home: Path, mark: Path) -> None:
    planted(own, mark)
    os.chown(home, 65534, 65534)
    checked(own)

    assert not mark.exists()


@pytest.mark.parametrize("place", ["file/below", "/proc/none", "link"])
def test_a_server_starts_where_nothing_can_be_kept(
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
    left = [path.name for path in home.iterdir() if not path.name.startswith("schema-")]
    checked(own)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == left


def test_the_cache_does_not_grow_without_end(own: Path, home: Path) -> None:
    checked(own)
    for number in range(300):
        (home / f"project-{number}").write_bytes(b"")
        os.utime(home / f"project-{number}", (number, number))
    generated(own, "policy.py").touch()
    checked(own)

    assert bytecode.MOST["project-"] == len([*home.glob("project-*")])


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
    checked(own)
    checked(own)
    query(own, "ALTER TABLE tasks DROP COLUMN hints")

    assert 'column "tasks.hints" is gone' in refused(own)


def test_a_copied_project_has_bytecode_of_its_own(own: Path, tmp_path: Path) -> None:
    """A record of the files of one folder says nothing of those of another."""
    checked(own)
    checked(own)
    shutil.copytree(own, tmp_path / "copy")
    path = generated(tmp_path / "copy", "policy.py")
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")

    assert 'policy.py" was changed after it was generated' in refused(tmp_path / "copy")
    checked(own)
