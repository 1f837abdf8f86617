"""Code above the engines uses the interface: each module that asks for the engine is listed."""

import ast
from collections.abc import Iterator
from pathlib import Path

from syntax_trees import MODULES, PACKAGE, RUNTIME, absolute, imported, nodes

ENGINE = RUNTIME / "engine"
NAMES = {"sqlite", "postgresql"}
DRIVERS = {"sqlite3", "_sqlite3", "psycopg"}
FLAGS = {"TYPED", "KEEPS_ENTRIES"}
PLACES = {"DatabasePlace", "database_place", "engine_of", "is_on_server"}
INTERFACE = {
    "database.py",
    "journal.py",
    "queries.py",
    "revocations.py",
    "schema.py",
    "state_files.py",
    "stored_rows.py",
}
SETTINGS = {"database", "plan", "project"}  # variables with the attributes `place` and `engine`

# By reason, the modules that ask, and for what: the engine's name or place, a class or another part
# of its package, a flag of its interface, or its driver.
ASKING = {
    "the settings name the engine": {
        "cli/project.py": "name place",  # also `--watch`, which watches a file
        "emit/scaffold.py": "class driver place",  # also makes the file of a new project
        "emit/initialize.py": "class name place",
        "planning/__init__.py": "name",
        "planning/additions.py": "name",
        "planning/server.py": "name",
        "project/inspect.py": "flag name place",
        "project/model.py": "name place",
        "project/root.py": "class name place",
        "project/config.py": "name place",
        "rendering.py": "name",  # the emitted package
    },
    "opens the database": {"project/database.py": "class driver place"},
    "looks at a file, or copies it": {
        "board/live.py": "driver place",
        "doctor/__init__.py": "driver place",
        "exchange/rows.py": "driver flag",  # another project's file; its rows have no types
        "ledger/backup.py": "driver place",
        "sessions/snapshot.py": "place",
        "emit/trust.py": "place",
        "agents/sandbox.py": "place",  # the file has to stay hidden
        "cli/trust.py": "place",
    },
    "makes a file from definitions, which only a file has": {
        "emit/recorded.py": "class driver",
        "project/schema.py": "class driver flag",
    },
    "moves rows from a file to a server": {
        "cli/exchange.py": "name place",
        "exchange/transfer.py": "class driver",
    },
    "a server's logins, rights, variable or connection, which a file does not have": {
        "board/review.py": "name place",  # several users share a server
        "cli/sessions.py": "place",
        "kits/access.py": "class place",
        "kits/ralph/columns.py": "place",
        "kits/ralph/__init__.py": "place",
        "agents/adapters.py": "place",
        "runtime/processes/secrets.py": "name",
        "sessions/credentials.py": "class driver place",
    },
    "the compiler and the catalog of one engine, found by its name": {
        "project/queries/prepare_postgresql.py": "class driver place",
        "project/queries/prepare_sqlite.py": "class driver",
    },
    "values and names depend on whether columns have types": {
        "board/disciplines.py": "flag",
        "exchange/branch.py": "flag place",
        "exchange/move.py": "class flag",  # also the time limit, which a long import ends
        "ledger/record.py": "flag",
        "planning/access.py": "place",
        "runtime/rows/__init__.py": "flag",
    },
    "entries of state files are rows or lines": {
        "ledger/undo.py": "flag",  # also the types of values
        "ledger/tables.py": "flag",
    },
    "an index in memory, whatever the engine": {"kits/rye/server/search_index.py": "driver"},
}


def requirements_of(path: Path) -> Iterator[str]:
    """Yield the requirements of a module."""
    tree = nodes(path)
    for module in (absolute(path, one) for one in imported(tree)):
        if module.partition(".")[0] in DRIVERS:
            yield "driver"
        if {*module.split(".")} & NAMES and module.startswith("ralphgen.runtime.engine."):
            yield "class"
    for node in tree:
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        owner = getattr(node, "value", None)
        of = getattr(owner, "id", None) or getattr(owner, "attr", None)
        if name in PLACES or (name == "place" and of in SETTINGS):
            yield "place"
        elif name in FLAGS and isinstance(node, ast.Attribute):
            yield "flag"
        elif (name == "engine" and of in SETTINGS) or getattr(node, "value", None) in NAMES:
            yield "name"


def test_every_module_that_asks_for_the_engine_is_listed_with_its_reason() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): " ".join(sorted({*requirements_of(path)}))
        for path in MODULES
        if ENGINE not in path.parents
    }
    listed = {module: what for modules in ASKING.values() for module, what in modules.items()}

    assert listed == {module: what for module, what in found.items() if what}


def test_engines_have_the_same_modules_of_the_interface() -> None:
    """A third engine is one more package with these."""
    for engine in NAMES:
        assert INTERFACE <= {path.name for path in (ENGINE / engine).glob("*.py")}
