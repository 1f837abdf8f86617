"""`ralphgen init`: a new project in one command, and nothing that is there already is lost."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from shutil import which

import pytest
from command_line import RALPHGEN, initialized, ralphgen, refused, run_sql, snapshot, texts
from driving import SCHEMAS, create_database, query

pytestmark = pytest.mark.slow

HOSTILE = "He said \"hi\" \\ {{ x }}\nand 'left' 🎉\u2028"


def test_a_new_folder_becomes_a_project_and_init_reports_its_steps(tmp_path: Path) -> None:
    done = ralphgen("init", "new/shop", "--no-install", cwd=tmp_path)

    assert (0, "") == (done.returncode, done.stdout)
    lines = done.stderr.splitlines()
    assert 'created .ralph/db/ralph.db (8 disciplines, stack "generic")' == lines[0]
    assert lines[1].startswith("created .ralph/mcp (MCP server, ")
    assert ["", "Next:", "  cd new/shop"] == lines[2:5]
    assert "  ralphgen feature add start" in lines
    assert "  ralphgen launch --next" == lines[-1].partition("  #")[0].rstrip()
    assert [("shop",)] == query(tmp_path / "new/shop", "SELECT project_title FROM metadata")
    assert 0 == ralphgen("check", tmp_path / "new/shop").returncode


def test_the_database_is_in_wal_mode_and_leaves_no_sidecar(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")

    assert ["ralph.db"] == [path.name for path in (root / ".ralph/db").iterdir()]
    assert [("wal",)] == query(root, "PRAGMA journal_mode")


@pytest.mark.thorough
@pytest.mark.parametrize("stack", ["generic", "desktop", "saas", "mobile", "empty"])
def test_every_stack_gives_its_disciplines(tmp_path: Path, stack: str) -> None:
    root = initialized(tmp_path / "p", "--stack", stack)

    ((count,),) = query(root, "SELECT count(*) FROM disciplines")
    assert (stack == "empty") == (count == 0)


def test_any_title_is_kept_and_stays_out_of_the_generated_files(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p", "--title", HOSTILE)

    assert [(HOSTILE,)] == query(root, "SELECT project_title FROM metadata")
    assert not [path for path, text in texts(root / ".ralph/mcp").items() if b"He said" in text]


def test_a_database_of_the_app_is_named_with_the_way_to_use_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    (tmp_path / "notes.db").write_text("no database", encoding="utf-8")
    done = ralphgen("init", "--no-install", cwd=tmp_path)

    assert "note: found app.db; ralphgen keeps tasks in .ralph/db/ralph.db\n" in done.stderr
    assert 'hint: to use app.db, set path = "app.db" below [database]' in done.stderr
    assert "notes.db" not in done.stderr
    assert "found app.db" not in ralphgen("init", "--no-install", cwd=tmp_path).stderr


def test_commands_are_printed_as_the_program_was_typed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    typed = tmp_path / "bin/ralphgen"
    typed.symlink_to(RALPHGEN)
    path = {**os.environ, "PATH": "/usr/bin:/bin"}
    done, shown = (
        subprocess.run(
            [typed, *words], cwd=tmp_path, env=path, capture_output=True, text=True, check=True
        )
        for words in (["init", "--no-install"], [])
    )

    assert f"\n  {typed} feature add start\n" in done.stderr
    assert "  ralphgen " not in done.stderr
    assert f"Try: {typed} init\n" in shown.stdout
    assert shown.stdout.startswith("ralphgen generates an MCP server")


def test_program_name_in_a_sentence_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    typed = tmp_path / "bin/ralphgen"
    typed.symlink_to(RALPHGEN)
    path = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [typed, "status"], cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )

    assert done.stderr.startswith("error: not a ralphgen project: no .ralph in ")
    assert f'hint: run "{typed} init"' in done.stderr


def test_the_working_directory_is_the_default_and_a_strange_name_is_a_title(tmp_path: Path) -> None:
    folder = tmp_path / 'my "shop"\n{{ x }} 🎉'
    folder.mkdir()
    done = ralphgen("init", "--no-install", cwd=folder)

    assert 0 == done.returncode
    assert "\n  ralphgen session create yap --default  " in done.stderr
    assert done.stderr.endswith("# let an agent do it\n")
    assert [(folder.name,)] == query(folder, "SELECT project_title FROM metadata")


def test_a_second_init_keeps_database_config_and_context_and_regenerates(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    config = '# mine\nkits = [ "ralph", ]  # all\n\n[schema]\nhide = ["tasks.hints"]\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    context = root / ".ralph/mcp/context.json"
    context.write_text(
        context.read_text("utf-8").replace('"interactive"', '"yap"'), encoding="utf-8"
    )
    kept = [root / ".ralph/db/ralph.db", root / ".ralph/ralphgen.toml", context]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in kept]
    done = ralphgen("init", root, "--no-install", "--title", "Other")

    assert 0 == done.returncode, done.stderr
    assert (
        "kept .ralph/db/ralph.db unchanged; --title applies only to a new one, change this one with"
        in done.stderr
    )
    assert before == [(path.read_bytes(), path.stat().st_mtime_ns) for path in kept]
    assert '"hints"' not in (root / ".ralph/mcp/ralph/tasks.py").read_text("utf-8")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_an_existing_database_is_not_touched(tmp_path: Path, mode: str) -> None:
    schema = (SCHEMAS / "a8.sql").read_text("utf-8")
    path = create_database(tmp_path, f"PRAGMA journal_mode = {mode};\n{schema}")
    before = snapshot(tmp_path / ".ralph/db")
    initialized(tmp_path)

    assert before == snapshot(tmp_path / ".ralph/db")
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        assert (mode,) == connection.execute("PRAGMA journal_mode").fetchone()


def test_the_sidecars_of_a_running_app_are_not_touched(tmp_path: Path) -> None:
    schema = (SCHEMAS / "a8.sql").read_text("utf-8")
    path = create_database(tmp_path, f"PRAGMA journal_mode = wal;\n{schema}")
    with closing(sqlite3.connect(path)) as app:
        app.execute("ALTER TABLE tasks ADD COLUMN risk TEXT")
        app.commit()
        before = snapshot(tmp_path / ".ralph/db")
        initialized(tmp_path)

        assert {"ralph.db", "ralph.db-shm", "ralph.db-wal"} == before.keys()
        assert before == snapshot(tmp_path / ".ralph/db")
    assert '"risk"' in (tmp_path / ".ralph/mcp/ralph/tasks.py").read_text("utf-8")


def test_the_default_context_lists_the_reading_tools_that_there_are(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    context = json.loads((root / ".ralph/mcp/context.json").read_text("utf-8"))
    listed = json.loads(ralphgen("tools", "--project", root, "--json").stdout)["ralph"]

    assert "interactive" == context["recipe"]
    reading = listed["recipes"]["interactive"]["tools"]
    assert reading == context["enabled_tools"]["ralph"]
    assert "run_checks" in listed["absent"]


def test_git_is_offered_only_generated_files(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    git = which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", root], check=True)
    ls = [git, "-C", str(root), "ls-files", "--others", "--exclude-standard", ".ralph/mcp"]
    offered = subprocess.run(ls, check=True, capture_output=True, encoding="utf-8").stdout
    manifest = json.loads((root / ".ralph/mcp/manifest.json").read_text("utf-8"))

    expected = {f".ralph/mcp/{path}" for path in (*manifest["files"], "manifest.json")}
    assert expected == set(offered.split())


@pytest.mark.parametrize("command", ["init", "regen"])
def test_an_unusable_interpreter_is_refused_before_anything_is_written(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    if command == "regen":
        config = initialized(root) / ".ralph/ralphgen.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace('["ralph"]', '["ralph", "specum"]'), encoding="utf-8")
    before = snapshot(root) if root.exists() else None
    monkeypatch.setenv("RALPHGEN_PYTHON", "python3")

    assert "not an absolute path" in refused(command, root)
    assert before == (snapshot(root) if root.exists() else None)


def test_a_schema_without_the_core_is_refused_with_its_missing_tables(tmp_path: Path) -> None:
    create_database(tmp_path, (SCHEMAS / "c1.sql").read_text("utf-8"))
    before = snapshot(tmp_path / ".ralph/db")
    done = ralphgen("init", tmp_path, "--no-install")

    assert 1 == done.returncode
    assert 'column "tasks.feature" is missing, found "tasks.feature_id"' in done.stderr
    assert before == snapshot(tmp_path / ".ralph/db")
    assert not (tmp_path / ".ralph/mcp/server.py").exists()


def test_init_stores_the_description_and_names_the_command_for_a_later_one(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p", "--title", "Shop", "--description", "Sells shoes.")
    done = ralphgen("init", root, "--no-install", "--description", "x")

    assert [("Shop", "Sells shoes.")] == query(
        root, "SELECT project_title, project_description FROM metadata"
    )
    assert "--description applies only to a new one, change" in done.stderr


def test_quiet_prints_only_problems(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p", "-q")
    run_sql(root, 'ALTER TABLE tasks ADD COLUMN "limit" TEXT')

    assert "" == ralphgen("regen", root, "-q", "--no-install").stderr


def test_a_config_that_cannot_be_read_is_refused_before_anything_is_created(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ralph").mkdir()
    (tmp_path / ".ralph" / "ralphgen.toml").write_text("kits = [\n", encoding="utf-8")
    done = ralphgen("init", "--no-install", str(tmp_path))

    assert 1 == done.returncode
    assert 1 == done.stderr.count(".ralph/ralphgen.toml")
    assert ["ralphgen.toml"] == sorted(path.name for path in (tmp_path / ".ralph").iterdir())


def test_a_project_inside_another_is_reported(tmp_path: Path) -> None:
    ralphgen("init", "--no-install", str(tmp_path))
    done = ralphgen("init", "--no-install", str(tmp_path / "inner"))

    assert 0 == done.returncode
    assert "is inside the project" in done.stderr
