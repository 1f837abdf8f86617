"""Every error of a project: a sentence, a hint, the right exit code, and no loss."""

import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from command_line import (
    RALPHGEN,
    idle_claude,
    initialized,
    open_folder,
    ralphgen,
    refused,
    run_sql,
    snapshot,
    texts,
)
from driving import connected

pytestmark = pytest.mark.slow

DATABASE = ".ralph/db/ralph.db"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialized(tmp_path_factory.mktemp("bad") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return shutil.copytree(project, tmp_path / "p")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_text(path: Path) -> None:
    path.write_text("dear database\n" * 100, encoding="utf-8")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xa5" * 3996
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (emptied, "is empty (0 bytes)"),
        (made_a_folder, "is a directory, expected a file"),
        (made_text, "is not an SQLite database"),
        (cut, "is corrupt"),
        (overwritten, "is corrupt"),
    ],
)
def test_an_invalid_database_is_named_and_remains(
    root: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(root / DATABASE)
    before = snapshot(root)
    for command in (("check",), ("regen", "--no-install"), ("init", "--no-install")):
        done = ralphgen(command[0], root, *command[1:])

        assert (1, "") == (done.returncode, done.stdout)
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
    assert before == snapshot(root)


def test_a_locked_database_is_named_and_the_server_remains(root: Path) -> None:
    run_sql(root, "PRAGMA journal_mode = delete")
    before = texts(root / ".ralph/mcp")
    with closing(sqlite3.connect(root / DATABASE)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        said = refused("regen", root, "--no-install")

    assert "is locked by another process\nhint: close the program" in said
    assert before == texts(root / ".ralph/mcp")
    assert 0 == ralphgen("check", root).returncode


def test_all_problems_are_reported_at_once_with_their_lines(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text(
        '\ntitel = "x"\nkits = [\n  "ralph",\n  7,\n]\n[disciplines."a.b"]\ndisable = "all"\n',
        encoding="utf-8",
    )
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    (recipes / "one.toml").write_text('base = "yap"\nallow = 3\n', encoding="utf-8")
    (recipes / "two.toml").write_text("base = \n", encoding="utf-8")
    run_sql(root, "UPDATE disciplines SET mcp_tool_overrides = '{bad' WHERE rowid = 1")
    before = snapshot(root)
    said = refused("check", root)

    expected = (
        '.ralph/ralphgen.toml:2: unknown key "titel"',
        '.ralph/ralphgen.toml:5: "kits[1]" is 7, expected a string in quotes',
        '.ralph/ralphgen.toml:8: "disciplines.\'a.b\'.disable" is "all", expected a list',
        '.ralph/recipes/one.toml:2: "allow" is 3, expected a table',
        ".ralph/recipes/two.toml:1: invalid TOML: ",
        '" has an invalid mcp_tool_overrides\nhint: expected {"additional_disabled": ["tool", ',
    )
    assert not [line for line in expected if line not in said], said
    assert before == snapshot(root)


def test_all_unknown_names_are_reported_at_once_with_the_nearest(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text(
        '[disciplines.frontend]\ndisable = [\n"get_taks"]\n', encoding="utf-8"
    )
    recipes = root / ".ralph/recipes"
    recipes.mkdir()
    odd = 'base = "yap"\n[allow]\nrlph = ["x"]\n'
    odd += 'ralph = [\n"get_task",\n"list_taks",\n"delete_task"]\n'
    (recipes / 'odd "one\'s".toml').write_text(odd, encoding="utf-8")
    (recipes / "far.toml").write_text('\nbase = "braindmp"\n', encoding="utf-8")
    override = "UPDATE disciplines SET mcp_tool_overrides = "
    override += """'{"additional_disabled": ["get_feture"]}'"""
    run_sql(root, f"{override} WHERE rowid = 1")
    said = refused("regen", root, "--no-install")

    where = '.ralph/recipes/odd "one\'s".toml'
    expected = (
        '.ralph/ralphgen.toml:2: disable of the discipline "frontend": no kit has',
        'no kit has a tool "get_taks"\nhint: did you mean "get_task"?',
        f'{where}:3: there is no kit "rlph"\n',
        f'{where}:6: no kit has a tool "ralph:list_taks"\nhint: did you mean "list_tasks"?',
        f'{where}:7: the base "yap" does not have "delete_task"',
        '.ralph/recipes/far.toml:2: there is no base "braindmp"\nhint: did you mean',
        '": no kit has a tool "get_feture"\nhint: did you mean "get_feature"?',
    )
    assert not [line for line in expected if line not in said], said


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_missing_rights_are_named(project: Path) -> None:
    if project.stat().st_uid != 0:
        pytest.skip("only root can become somebody without rights")
    with open_folder() as folder:
        root = shutil.copytree(project, folder / "p")
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        before = texts(root)
        write = ralphgen("regen", root, "--no-install", "--force", without_rights=True)
        run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
        changed = ralphgen("regen", root, "--no-install", without_rights=True)
        (root / ".ralph/mcp/context.json").unlink()
        new = ralphgen("init", folder / "new", "--no-install", without_rights=True)
        (root / DATABASE).chmod(0o600)
        read = ralphgen("check", root, without_rights=True)
        (root / ".ralph/db").chmod(0o700)
        closed = ralphgen("check", root, without_rights=True)

        assert [1] * 5 == [done.returncode for done in (write, changed, new, read, closed)]
        for done in (write, changed):
            assert "permission denied" in done.stderr
            assert "hint: check the permissions" in done.stderr
        assert "cannot contain a project: permission denied" in new.stderr
        for done in (read, closed):
            assert "cannot be read: permission denied\nhint: check the permissions" in done.stderr
        assert "Traceback" not in "".join(
            done.stderr for done in (write, changed, new, read, closed)
        )
        changed_files = {DATABASE, ".ralph/mcp/context.json"}
        now = texts(root)
        assert not [path for path in before.keys() - changed_files if now[path] != before[path]]


def run_with_small_files(*arguments: str | Path, size: int) -> subprocess.CompletedProcess[str]:
    """Run a command while no file may grow beyond `size`, like on a full disk."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(
        [RALPHGEN, *arguments], preexec_fn=limit, capture_output=True, encoding="utf-8", check=False
    )


def test_a_full_disk_leaves_the_old_server_at_work(root: Path) -> None:
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    max((root / ".ralph/mcp").rglob("*.py"), key=lambda path: path.stat().st_size).unlink()
    before = texts(root)
    done = run_with_small_files("regen", root, "--no-install", size=20_000)

    assert (1, "") == (done.returncode, done.stdout)
    assert "cannot be written: file too large" in done.stderr
    assert "hint: free disk space, then run the command again; nothing" in done.stderr
    assert before == texts(root)
    assert 0 == ralphgen("regen", root, "--no-install").returncode
    with connected(root) as driver:
        assert driver.call("create_feature", name="x", display_name="X")


@pytest.mark.parametrize("size", [0, 600, 40_000])
def test_a_full_disk_at_init_leaves_nothing_half_made(tmp_path: Path, size: int) -> None:
    done = run_with_small_files("init", tmp_path / "p", "--no-install", size=size)

    assert 1 == done.returncode
    assert "Traceback" not in done.stderr
    assert "hint: " in done.stderr
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert not [name for name in left if name not in {"ralph.db", "ralphgen.toml"}]
    assert 0 == ralphgen("init", tmp_path / "p", "--no-install").returncode


def test_a_full_disk_keeps_the_config_that_was_there(tmp_path: Path) -> None:
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom ralphgen.errors import ProjectError\n"
        "from ralphgen.emit.scaffold import switch_on\nimport ralphgen.emit.scaffold as setup\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "try:\n    switch_on(Path(sys.argv[1]), [])\n"
        "except ProjectError as error:\n    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)

    assert 'ralphgen.toml" cannot be written: file too large\nhint: ' in done.stderr
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert [] == [name for name in left if name != ".lock"]


@pytest.mark.parametrize(
    "words",
    [
        *(("loop",), ("loop", "--dry-run"), ("launch", "--next"), ("task", "list"), ("status",)),
        *(("undo",), ("log",), ("db", "backup"), ("db", "ledger", "status"), ("export",)),
        *(("worker", "list"), ("worker", "revoke", "x")),
        *(("session", "create", "yap"), ("session", "revoke", "x"), ("project", "show")),
    ],
)
def test_a_missing_database_has_one_error_and_one_hint(
    root: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", idle_claude(root)["PATH"])
    (root / DATABASE).unlink()
    text, _, hint = refused(*words, cwd=root).rstrip("\n").partition("\nhint: ")

    assert "no database at" in text
    assert text.endswith(('.ralph/db/ralph.db"', ".ralph/db/ralph.db"))
    assert 'create it with "ralphgen init", then review "ralphgen trust"' == hint


@pytest.mark.parametrize("folder", [".ralph/recipes", ".ralph/ralphgen.toml"])
def test_a_file_in_place_of_a_folder_and_the_other_way_round(root: Path, folder: str) -> None:
    path = root / folder
    if path.is_file():
        path.unlink()
        path.mkdir()
    else:
        path.write_text("x", encoding="utf-8")

    assert refused("check", root).startswith(folder)
