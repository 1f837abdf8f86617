"""A database without tasks, features and disciplines is served by the kit `tables`."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, refused, snapshot
from driving import made_here, quiet

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.kits.tables import add_tables
from ralphgen.project.inspect import inspect_project

SCHEMA = """
CREATE TABLE artists (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE albums (
    album_id INTEGER PRIMARY KEY, title TEXT NOT NULL,
    artist_id INTEGER NOT NULL REFERENCES artists ON DELETE CASCADE
);
CREATE TABLE tasks (word TEXT PRIMARY KEY, "count" INTEGER);  -- another meaning of the word
CREATE TABLE others (a TEXT);
INSERT INTO artists VALUES (1, 'First');
"""
TASKS = """[tables.tasks]
noun = "task"
"""
CONFIG = f"""
kits = ["tables"]
[database]
path = "app.db"
[tables.artists]
noun = "artist"
[tables.albums]
noun = "album"
{TASKS}"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("alone") / "p"
    (root / ".ralph").mkdir(parents=True)
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.executescript(SCHEMA)
    (root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return made_here(root)


@pytest.fixture
def project(model: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(model, tmp_path / "p"))


def rows(root: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(root / "app.db")) as connection:
        return connection.execute(sql).fetchall()


def called(root: Path, tool: str, **arguments: object) -> dict[str, object]:
    done = ralphgen("call", f"tables:{tool}", "--json", json.dumps(arguments), cwd=root)
    assert 0 == done.returncode, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_the_only_tools_are_the_tools_of_the_tables(model: Path) -> None:
    files = Project(model).files
    (kit,) = Project(model).plan.kits

    assert 15 == len(kit.tools)
    assert {"tables/albums.py", "tables/artists.py", "tables/tasks.py"} < {*files}
    assert [] == [path for path in files if path.startswith(("ralph/", "runtime/ralph/"))]
    assert "others" not in json.loads(files["project.json"])["schema"]


def test_rows_are_written_and_read_from_the_command_line(project: Path) -> None:
    assert {"artist_id": 2} == called(project, "create_artist", name="Second")
    assert {"word": "go"} == called(project, "create_task", word="go", count=3)
    assert 2 == called(project, "list_artists")["total"]
    assert [("go", 3)] == rows(project, "SELECT * FROM tasks")


def test_writes_of_a_session_are_undone_with_their_cascades(project: Path) -> None:
    ralphgen("db", "ledger", "on", "--yes", cwd=project)
    called(project, "create_album", title="One", artist_id=1)
    called(project, "delete_artist", artist_id=1)
    deleting = ralphgen("log", "--json", cwd=project)
    session = json.loads(deleting.stdout)[-1]["session"]
    assert [] == rows(project, "SELECT * FROM albums")
    undone = ralphgen("undo", session, "--yes", cwd=project)

    assert 0 == undone.returncode, undone.stderr
    assert [(1, "One", 1)] == rows(project, "SELECT * FROM albums")


def test_a_session_of_a_custom_recipe_has_its_tools(project: Path) -> None:
    folder = project / ".ralph/recipes"
    folder.mkdir()
    text = 'base = "manual"\n[allow]\ntables = ["list_albums", "create_album"]\n'
    (folder / "cataloguing.toml").write_text(text, encoding="utf-8")
    regenerate(project, force=False, say=quiet)
    made = ralphgen("session", "create", "cataloguing", "--quiet", cwd=project)

    assert 0 == made.returncode, made.stderr
    context = json.loads(
        Path(made.stdout.strip()).with_name("context.json").read_text(encoding="utf-8")
    )
    assert {"tables": ["list_albums", "create_album"]} == context["enabled_tools"]


def test_a_column_that_goes_stops_the_call_and_the_next_start(project: Path) -> None:
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.execute('ALTER TABLE tasks DROP COLUMN "count"')
    done = ralphgen("call", "tables:list_tasks", cwd=project)

    assert 0 != done.returncode
    assert 'column "tasks.count" is gone' in done.stderr


def test_a_database_without_the_ledger_of_the_server_is_refused_by_name(project: Path) -> None:
    """A colleague, or CI, builds the database from the schema of the app."""
    without = (project / "app.db").read_bytes()
    ran("db", "ledger", "on", "--yes", cwd=project)
    (project / "app.db").write_bytes(without)
    text = (
        "app.db has no ledger, but .ralph/mcp was generated with one\n"
        'hint: run "ralphgen db ledger on"\n'
    )

    assert 0 == ralphgen("check", cwd=project).returncode
    assert [text, text] == [refused(command, cwd=project) for command in ("regen", "init")]
    assert 'fix: run "ralphgen db ledger on"' in ralphgen("doctor", cwd=project).stdout
    said = ralphgen("call", "tables:list_tasks", cwd=project).stderr
    assert 'server.py: the database has no ledger: run "ralphgen db ledger on"\n' in said

    ran("db", "ledger", "on", "--yes", cwd=project)
    assert {"tasks": [], "total": 0} == called(project, "list_tasks")
    assert 0 == ralphgen("check", cwd=project).returncode


def test_a_tool_that_a_hidden_column_makes_impossible_is_noted_once(project: Path) -> None:
    config = CONFIG.replace('noun = "album"', 'noun = "album"\nhide = ["title"]')
    (project / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    note = (
        'note: tables:create_album is not offered: "albums.title" requires a value that no '
        "argument can provide"
    )

    assert note in ralphgen("regen", cwd=project).stderr.splitlines()
    assert "note:" not in ralphgen("regen", cwd=project).stderr


def test_a_table_removed_from_the_settings_needs_no_consent(project: Path) -> None:
    (project / ".ralph/ralphgen.toml").write_text(CONFIG.replace(TASKS, ""), encoding="utf-8")
    checked = ralphgen("check", cwd=project)

    assert 1 == checked.returncode
    assert "the database is out of date" not in checked.stderr
    assert 'hint: run "ralphgen regen" and commit the result\n' in checked.stderr
    assert 0 == ralphgen("regen", cwd=project).returncode


def test_with_the_kit_of_the_tasks_it_is_refused(project: Path) -> None:
    config = project / ".ralph/ralphgen.toml"
    both = CONFIG.replace('["tables"]', '["ralph", "tables"]').partition("[tables.tasks]")[0]
    config.write_text(both, encoding="utf-8")
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.executescript(
            "DROP TABLE tasks; CREATE TABLE tasks (id, feature, discipline, title, status);"
            "CREATE TABLE features (name); CREATE TABLE disciplines (name);"
        )
    with pytest.raises(ProjectError, match="another kit already has its tools"):
        _ = Project(project).plan


def test_the_first_steps_name_a_table_of_the_database(project: Path) -> None:
    """A project without tools, as after the first `init`."""
    (project / ".ralph/ralphgen.toml").write_text(CONFIG.partition("[tables")[0], encoding="utf-8")
    shutil.rmtree(project / ".ralph/mcp")
    steps = ralphgen("init", cwd=project).stderr.partition("\nNext:\n")[2].splitlines()

    assert "ralphgen tools add albums" == steps[0].partition("  # ")[0].strip()
    assert ["ralphgen regen", "ralphgen connect claude"] == [
        step.partition("  # ")[0].strip() for step in steps[1:3]
    ]
    for command in (["call", "tables:list_albums"], ["session", "create", "manual"]):
        assert 'with "ralphgen tools add albums"' in refused(*command, code=2, cwd=project)
    assert "recipe" not in ran("tools", cwd=project)


NAMED = """
CREATE TABLE "Bestände" (id INTEGER PRIMARY KEY, "Artikel-Größe" TEXT, "名" TEXT);
CREATE TABLE "Bestande" (id INTEGER PRIMARY KEY);
CREATE TABLE order_ (id INTEGER PRIMARY KEY, "Room No." TEXT, "a b" TEXT, a_b TEXT);
CREATE TABLE people (id INTEGER PRIMARY KEY);
CREATE TABLE statuses (id INTEGER PRIMARY KEY);
CREATE TABLE tasks (id INTEGER PRIMARY KEY);
CREATE TABLE units (id INTEGER PRIMARY KEY);
"""
NOUNS = {
    "Bestände": 'noun = "stock"',
    "Bestande": "",
    "order_": 'noun = "order"',
    "people": 'noun = "person"',
    "statuses": "",
    "tasks": 'noun = "todo"',
    "units": 'noun = "equipment"\nplural = "equipment"',
}


def test_names_of_tools_and_arguments_are_readable(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.executescript(NAMED)
    text = "".join(f'[tables."{name}"]\n{noun}\n' for name, noun in NOUNS.items())
    config = 'kits = ["tables"]\n[database]\npath = "app.db"\n'
    (tmp_path / ".ralph/ralphgen.toml").write_text(f"{config}{text}", encoding="utf-8")
    (kit,) = Project(tmp_path).plan.kits
    tools = {tool.name: tool for tool in kit.tools}
    pairs = [name.partition("_")[2] for name in tools if name.startswith(("list_", "get_"))]

    assert [
        *("bestande", "bestande", "stocks", "stock", "order", "order", "people", "person"),
        *("statuses", "statuses", "todos", "todo", "equipment", "equipment"),
    ] == pairs
    assert ("id", "artikel_grosse", "x..540d.") == tools["create_stock"].argument_names
    assert {"id", "room_no", "a_b", "x.a.20.b"} == {*tools["create_order"].argument_names}
    assert "Get a row of statuses." == tools["get_statuses"].description
    assert "Get a stock." == tools["get_stock"].description


@pytest.mark.parametrize(
    ("table", "noun"),
    [("Bestände", "bestande"), ("appointment_diagnoses", "appointment_diagnosis")],
)
def test_an_added_table_gets_a_readable_noun(project: Path, table: str, noun: str) -> None:
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.execute(f'CREATE TABLE "{table}" (id INTEGER PRIMARY KEY)')

    ((_, added, _),) = add_tables(project, [table])
    assert noun == added


def test_without_a_table_it_says_how_to_get_one(project: Path) -> None:
    (project / ".ralph/ralphgen.toml").write_text(
        CONFIG.split("[tables.", maxsplit=1)[0], encoding="utf-8"
    )

    assert ['no tools are generated: add tables with "ralphgen tools add NAME"'] == [
        *Project(project).plan.warnings
    ]


def test_init_creates_no_tables_for_the_kit(tmp_path: Path) -> None:
    said = refused("init", tmp_path / "p", "--kit", "tables", "--no-install")

    assert "no database at .ralph/db/ralph.db" in said
    assert 'kits = ["tables"]' in said
    assert not (tmp_path / "p").exists()


def test_regen_names_recipes_with_long_tool_lists(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    names = [f"table_{number}" for number in range(40)]
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, text TEXT)")
    settings = tmp_path / ".ralph/ralphgen.toml"
    said: list[str] = []
    for count in (1, 40):
        tables = "".join(f"[tables.{name}]\n" for name in names[:count])
        settings.write_text(f'kits = ["tables"]\n[database]\npath = "app.db"\n{tables}', "utf-8")
        said.clear()
        regenerate(tmp_path, force=False, say=said.append)
        warned = [line for line in said if line.startswith("warning: the tools of server")]
        assert (count > 1) == bool(warned), said

    assert len(warned) == 1
    assert 'the tools of server "tables" take more than 25,000 bytes in manual (' in warned[0]
    assert "braindump" not in warned[0]


def test_a_table_of_a_long_name_is_added_by_a_name_that_the_config_takes(project: Path) -> None:
    name = "n" * 60
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
    ran("tools", "add", name, cwd=project)
    assert "n" * 50 in {one.noun for one in inspect_project(project, KITS).tables}


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_adding_a_table_keeps_the_bytes_of_the_config(project: Path, mark: str) -> None:
    config = project / ".ralph/ralphgen.toml"
    before = (mark + CONFIG + "# the end\n").replace("\n", "\r\n").encode()
    config.write_bytes(before)
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.execute("CREATE TABLE labels (id INTEGER PRIMARY KEY, name TEXT)")

    add_tables(project, ["labels"])

    added = b'\r\n[tables.labels]\r\nnoun = "label"\r\n'
    assert before == config.read_bytes().replace(added, b"")


def test_rows_are_exported_imported_and_undone(project: Path, tmp_path: Path) -> None:
    other = shutil.copytree(project, tmp_path / "other")
    assert 0 == ralphgen("db", "ledger", "on", "--yes", cwd=project).returncode
    called(other, "create_artist", name="Other")
    called(other, "create_album", title="One", artist_id=2)
    ralphgen("export", "rows.jsonl", cwd=project)
    ralphgen("export", "../rows.jsonl", cwd=other)
    done = ralphgen("import", "../rows.jsonl", cwd=project)
    imported = rows(project, "SELECT title, artist_id FROM albums")
    session = done.stderr.partition("undo: ralphgen undo ")[2].partition("\n")[0]
    log = ralphgen("log", cwd=project).stdout
    undone = ralphgen("undo", session, "--yes", cwd=project)

    assert 0 == done.returncode, done.stderr
    assert [("One", 2)] == imported
    assert "albums 1" in log
    assert 0 == undone.returncode, undone.stderr
    assert [] == rows(project, "SELECT title FROM albums")


def test_a_missing_database_is_refused_with_the_nearest_and_nothing_changes(project: Path) -> None:
    config = project / ".ralph/ralphgen.toml"
    config.write_text(config.read_text("utf-8").replace("app.db", "ap.db"), encoding="utf-8")
    before = snapshot(project)
    error = "no database at ap.db"
    hint = 'set path = "app.db" below [database] in .ralph/ralphgen.toml'
    for command in (
        ("regen", "--no-install", "--allow-removals"),
        ("regen", "--dry-run"),
        ("check",),
        ("inspect",),
        ("init", "--no-install", "--yes"),
    ):
        done = ralphgen(*command, cwd=project)
        told = (done.returncode, done.stdout, done.stderr)
        assert (1, "", f"error: {error}\nhint: {hint}\n") == told
    doctor = ralphgen("doctor", cwd=project).stdout

    assert f"error database     {error}\n{'':<19}fix: {hint}\n" in doctor
    assert "\n1 error, " in doctor
    assert before == snapshot(project)


def test_another_missing_database_than_the_recorded_one_is_refused(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")
    (root / ".ralph/ralphgen.toml").write_text('[database]\npath = "ralp.db"\n', encoding="utf-8")
    before = snapshot(root)

    said = refused("regen", root, "--no-install")

    assert said.startswith("no database at ralp.db\n")
    assert 'hint: set path = ".ralph/db/ralph.db" below [database]' in said
    assert before == snapshot(root)


def test_the_kit_is_not_set_up_without_a_database(tmp_path: Path) -> None:
    said = refused("init", tmp_path, "--kit", "tables")
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        connection.executescript(SCHEMA)
    named = refused("init", tmp_path, "--kit", "tables")

    assert "hint: create your database first; write these lines to .ralph/ralphgen.toml" in said
    assert [tmp_path / "shop.sqlite"] == [*tmp_path.iterdir()]
    words, _, lines = named.partition(":\n  kits")
    assert words.endswith(
        'hint: write these lines to .ralph/ralphgen.toml, then run "ralphgen init"'
    )
    (tmp_path / ".ralph").mkdir()
    (tmp_path / ".ralph/ralphgen.toml").write_text(f"kits{lines}", encoding="utf-8")
    assert 0 == ralphgen("init", tmp_path, "--no-install").returncode


def test_settings_that_cannot_be_read_hide_no_table(project: Path) -> None:
    config = project / ".ralph/ralphgen.toml"
    config.write_text(config.read_text("utf-8") + 'name = "x"\n', encoding="utf-8")

    said = refused("check", project)

    assert 'unknown key "tables.tasks.name"' in said
    assert 1 == said.count("hint:")


@pytest.mark.parametrize(
    "command", ["session create yap", "session create yap --default", "connect claude --recipe yap"]
)
def test_a_recipe_without_tools_is_refused_with_the_usable_ones(
    project: Path, command: str
) -> None:
    said = refused(*command.split(), code=2, cwd=project)

    assert 'the recipe "yap" has no tools of the kit "tables"\n' in said
    assert "hint: recipes that have tools there: interactive, manual\n" in said
    assert [] == [*project.glob(".ralph/mcp/sessions/*"), *project.glob(".mcp.json")]


@pytest.mark.parametrize(
    "command",
    [
        "launch --next --dry-run",
        "launch --task 3 --dry-run",
        "loop",
        "task list",
        "project show",
        "call ralph:x",
    ],
)
def test_a_project_without_tasks_is_refused(project: Path, command: str) -> None:
    said = refused(*command.split(), code=2, cwd=project)

    assert 'this project has no tasks: it has no kit "ralph"\n' in said
    assert 'hint: set kits = ["ralph"] in .ralph/ralphgen.toml, then run "ralphgen init"\n' in said


def test_tasks_are_added_as_the_refusal_explains(project: Path) -> None:
    with closing(sqlite3.connect(project / "app.db")) as connection:
        connection.execute("DROP TABLE tasks")
    text = CONFIG.replace('["tables"]', '["ralph"]').partition("[tables.tasks]")[0]
    (project / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")

    done = ralphgen("init", "--yes", "--no-install", cwd=project)
    added = ralphgen("regen", "--allow-removals", "--no-install", cwd=project)

    assert "internal error" not in done.stderr
    assert 0 == added.returncode, added.stderr
    assert "no tasks yet" in ralphgen("task", "next", cwd=project).stderr
