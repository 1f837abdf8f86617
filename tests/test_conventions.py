"""The rules of the house, held over every module: each names the trouble that it prevents."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from syntax_trees import (
    KIT_KEYS,
    MODULES,
    PACKAGE,
    ROOT,
    RUNTIME,
    SERVERS,
    absolute,
    forget,
    imported,
    name_of,
    nodes,
    parsed,
)

SHIPPED = sorted(path for folder in (RUNTIME, *SERVERS) for path in folder.rglob("*.py"))
LAZY = "TYPE_CHECKING"
CORE = "ralphgen.runtime."  # the runtime of every kit's server; emitted as `runtime.`
# The packages of the target layout, lowest first, and the packages and modules that they consist of
# today, in rows: a module may import its own entry and the rows above it. `kits.*` is each kit
# without its server.
LAYERS = {
    "runtime": (
        ("runtime.errors", "runtime.system"),
        ("runtime.loader",),
        ("runtime.deferred", "runtime.encoding"),
        ("runtime.values",),
        ("runtime.files",),
        ("runtime.processes",),
        ("runtime.engine",),
        ("runtime.statements",),
        ("runtime.engine.postgresql", "runtime.engine.sqlite"),
        ("runtime",),  # the public part: kits and emitted modules may import these modules
        ("runtime.tasks",),
        ("runtime.rows",),
        ("runtime.protocol",),
        ("runtime.http",),
        ("runtime.start",),
    ),
    "kits/*/server": (("kits.*.server",),),
    "errors": (("errors",),),
    "spelling": (("spelling",),),
    "files": (("files",),),
    "environment": (("environment",),),
    "terminal": (("terminal",),),
    "tools": (("tools",),),
    "project": (("project",),),
    "plan": (("planning",), ("authority",)),
    "ledger": (("ledger",),),
    "render": (("rendering",),),
    "kits": (("kits.*",), ("kits",), ("kits.*.commands",)),
    "emit": (("emit",),),
    "sessions": (("sessions",),),
    "exchange": (("exchange",),),
    "agents": (("agents",),),
    "loop": (("loop",),),
    "doctor": (("doctor",),),
    "board": (
        ("board.text",),
        ("board.live",),
        ("board.render",),
        ("board.charts", "board.diff", "board.disciplines", "board.matrix"),
        ("board.inbox",),
        ("board.actions",),
        ("board.review",),
        ("board.agents", "board.project", "board.tasks"),
        ("board.guard",),
        ("board.app",),
    ),
    "cli": (("cli",), ("__main__",)),
}
ROWS = tuple(row for rows in LAYERS.values() for row in rows)
# Imports that the target layout does not have. Remove a pair with its import, and add none.
UPWARD = {
    ("ledger.undo", "kits.ralph.rows"),
    ("ledger.undo", "kits.project"),
    ("runtime.http.command", "runtime.start"),
}
# Each module that a server loads costs milliseconds at every start; these are cheap or needed.
CHEAP = {
    "__future__",
    "_imp",
    "_json",
    "_sqlite3",
    "_frozen_importlib",
    "_frozen_importlib_external",
    "gc",
    "marshal",
    "io",
    "json",
    "os",
    "re",
    "signal",
    "sqlite3",
    "stat",
    "sys",
    "time",
    "_thread",
}
DIGESTS = {"_sha2", "_sha256", "hashlib"}  # whichever the interpreter has, the costly one last
ONCE = {"contextlib", "hashlib"}  # compiling takes longer
MORE = {
    "encoding.py": DIGESTS,
    "loader.py": ONCE,
    "driver.py": {"psycopg"},
    "revocations.py": {"contextlib", "errno"},  # for HTTP alone
}
HTTP = RUNTIME / "http"  # loaded only by `server.py --http`


# Statements on the tables that `runtime/tasks` writes, and those tables as values.
WRITE = re.compile(
    r"(?:INSERT INTO|UPDATE|DELETE FROM|REPLACE INTO) +"
    r"(?:\"?(?:tasks|task_comments|ralphgen_claims|ralphgen_evidence)\b"
    r"|\{[^}]*\b(?:tasks|comments|CLAIMS|EVIDENCE)\b[^}]*\})"
    r"|\b(?:tasks|comments)\.(?:insert|update)$"
)


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Keep no tree beyond these tests."""
    yield
    forget()


def dotted(path: Path) -> str:
    """Return the import name of a module or a folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def room(module: str) -> str:
    """The entry of `LAYERS` that a module belongs to: the longest that its name begins with."""
    inside = re.sub(r"^ralphgen\.?", "", module)
    found = [one for row in ROWS for one in row if re.match(_pattern(one), inside)]
    return max(found, key=lambda one: (one.count("."), len(one)), default="")


@cache
def layer(module: str) -> int:
    """The number of a module's row, lowest first; -1 for the package `ralphgen` itself."""
    return next((number for number, row in enumerate(ROWS) if room(module) in row), -1)


def _pattern(entry: str) -> str:
    kits = "|".join(KIT_KEYS)
    return entry.replace(".", r"\.").replace("*", f"(?:{kits})") + r"(?:\.|$)"


def arrows(*, for_checkers_too: bool = True) -> Iterator[tuple[str, str]]:
    """Every import of one module of ours by another, both by name."""
    names = {dotted(path) for path in MODULES}
    for path in MODULES:
        skipped = [node for node in parsed(path).body if for_checkers(node)]
        checked = {inner for node in skipped for inner in ast.walk(node)}
        for node in nodes(path):
            if isinstance(node, ast.Import | ast.ImportFrom) and (
                for_checkers_too or node not in checked
            ):
                yield from (
                    (dotted(path), there)
                    for there in _targets(path, node, names)
                    if there != dotted(path)
                )


def _targets(path: Path, node: ast.Import | ast.ImportFrom, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in names)
        return
    module = absolute(path, "." * node.level + (node.module or ""))
    for alias in node.names:
        inner = f"{module}.{alias.name}"  # a module of a package, or a name of a module
        yield from (name for name in ([inner] if inner in names else [module]) if name in names)


def circle(ahead: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other, each the next one."""
    try:
        list(TopologicalSorter(ahead).static_order())
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def all_imports(path: Path) -> set[str]:
    return {absolute(path, module) for module in imported(nodes(path))}


def for_checkers(node: ast.AST) -> bool:
    """Whether a statement is an `if TYPE_CHECKING`, which no server runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == LAZY


def at_import(path: Path) -> Iterator[str]:
    """Yield the modules that importing a file loads, without those that functions load."""
    for node in parsed(path).body:
        if not for_checkers(node) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from imported(ast.walk(node))


class TestImports:
    """Who may know whom: the arrows of the pipeline point one way."""

    def test_the_runtime_loads_only_cheap_modules_of_the_standard_library(self) -> None:
        found = {
            f"{name_of(path)}: {module}"
            for path in SHIPPED
            if HTTP not in path.parents
            for module in at_import(path)
            if not module.startswith((".", CORE))
            and module.partition(".")[0] not in CHEAP | MORE.get(path.name, set())
        }

        assert set() == found

    def test_only_the_client_of_doctor_imports_the_sdk(self) -> None:
        """It runs in a separate process: no command loads 50 MB for it."""
        found = {
            f"{name_of(path)}: {module}"
            for path in PACKAGE.rglob("*.py")
            for module in imported(nodes(path))
            if module.partition(".")[0] in {"mcp", "anyio"} or module.endswith("doctor.handshake")
        }

        assert {"ralphgen/doctor/handshake.py"} == {one.partition(":")[0] for one in found}

    def test_copied_modules_import_only_copied_modules(self) -> None:
        """The core by its whole name, which is shortened on the way; the kit's own by dots."""
        found = {
            f"{name_of(path)}: {module}"
            for folder in (RUNTIME, *SERVERS)
            for path in folder.rglob("*.py")
            for module in imported(nodes(path))
            if (module.startswith(".") and not absolute(path, module).startswith(dotted(folder)))
            or (module.startswith("ralphgen") and (folder == RUNTIME or CORE not in f"{module}."))
        }

        assert set() == found

    def test_imports_follow_the_layers_except_for_the_listed_ones(self) -> None:
        """An exception whose import is gone fails too."""
        upward = {
            (here.removeprefix("ralphgen."), there.removeprefix("ralphgen."))
            for here, there in arrows()
            if room(there) != room(here) and layer(there) >= layer(here)
        }

        assert UPWARD == upward

    def test_no_modules_import_each_other_in_a_circle(self) -> None:
        """Imports for type checkers are ignored: they do not run."""
        ahead: dict[str, set[str]] = {}
        for here, there in arrows(for_checkers_too=False):
            ahead.setdefault(here, set()).add(there)

        assert [] == circle(ahead)

    @pytest.mark.parametrize("key", KIT_KEYS)
    def test_kits_do_not_know_each_other(self, key: str) -> None:
        others = [other for other in KIT_KEYS if other != key]
        own = [PACKAGE / "kits" / key]
        found = {
            f"{name_of(path)}: {module}"
            for place in own
            for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
            for module in all_imports(path)
            for other in others
            if f"{module}.".startswith(f"ralphgen.kits.{other}.")
        }

        assert set() == found

    def test_the_core_names_no_kit(self) -> None:
        """One tuple lists them; every other import of a kit makes the next kit harder to add.

        The board shows tasks, `Project` reads them, sessions claim them, the loop proves them and
        an undo removes them. Tasks belong to the kit ralph, so these modules import that kit's
        `rows`. Specs belong to the kit specum, and `tools add` to the kit tables.
        """
        asked = {
            ("board", ".ralph.rows"),
            ("board", ".specum"),
            ("cli", ".tables"),
            ("kits", ".ralph.rows"),
            ("ledger", ".ralph.rows"),
            ("loop", ".ralph.gate"),
            ("sessions", ".ralph.rows"),
        }
        found = {
            f"{name_of(path)}: {module}"
            for path in MODULES
            if not is_of_a_kit(path) and path != PACKAGE / "kits" / "registry.py"
            for module in all_imports(path)
            for key in KIT_KEYS
            if f"{module}.".startswith(f"ralphgen.kits.{key}.")
            and not any(
                PACKAGE / room in path.parents and module.endswith(own) for room, own in asked
            )
        }

        assert set() == found

    def test_the_core_asks_no_value_whether_it_is_a_certain_kit(self) -> None:
        """A kit's key occurs in the core as a default only, never in a comparison."""
        found = {
            f"{name_of(path)}:{node.lineno}"
            for path in MODULES
            if not is_of_a_kit(path)
            for node in nodes(path)
            if isinstance(node, ast.Compare)
            for side in ast.walk(node)
            if isinstance(side, ast.Constant) and side.value in KIT_KEYS
        }

        assert set() == found


def is_of_a_kit(path: Path) -> bool:
    """Return whether a module belongs to one kit."""
    return any(PACKAGE / "kits" / key in path.parents for key in KIT_KEYS)


class TestDoors:
    """Each way to the outside leads through one place."""

    def test_only_inspection_opens_databases_for_reading(self) -> None:
        """Opened in any other way, a database is left with traces or read half."""
        opening = {
            name_of(path)
            for path in MODULES
            if re.search(r"sqlite3\.connect\(", path.read_text(encoding="utf-8"))
        }

        assert {
            "ralphgen/project/database.py",
            "ralphgen/runtime/engine/sqlite/database.py",  # the server's own
            "ralphgen/kits/rye/server/search_index.py",  # a temporary one, of no name
            "ralphgen/emit/recorded.py",  # one in memory, to compare with
            "ralphgen/project/queries/prepare_sqlite.py",  # one in memory, to ask for columns
            "ralphgen/emit/scaffold.py",  # creates one where there is none
            "ralphgen/ledger/backup.py",  # copies one whole
        } == opening

    def test_planning_and_rendering_touch_no_clock_environment_or_process(self) -> None:
        """The same state of a project gives the same bytes."""
        pure = [*(PACKAGE / "planning").rglob("*.py"), PACKAGE / "spelling.py"]
        pure += [path for path in (PACKAGE / "kits").rglob("*.py") if decides(path)]
        pure += [PACKAGE / "rendering.py", PACKAGE / "project" / "model.py"]
        unfit = {"os", "time", "datetime", "random", "uuid", "subprocess", "socket", "sqlite3"}
        unfit |= {"locale", "platform", "secrets", "tempfile", "urllib", "shutil"}
        found = {
            f"{name_of(path)}: {module}"
            for path in pure
            for module in imported(nodes(path))
            if module.partition(".")[0] in unfit
        }

        assert set() == found

    def test_layers_after_inspection_read_no_file_of_the_project(self) -> None:
        """`check` would miss a decision based on a file that was not inspected."""
        after = [*(PACKAGE / "planning").rglob("*.py"), PACKAGE / "spelling.py"]
        after.append(PACKAGE / "project" / "model.py")
        reads = {"open", "read_text", "read_bytes", "iterdir", "glob", "rglob", "exists", "stat"}
        found = {
            f"{name_of(path)}:{node.lineno}"
            for path in after
            for node in nodes(path)
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in reads
        }

        assert set() == found

    def test_every_writer_of_the_config_holds_its_lock(self) -> None:
        """Without it, the second of two concurrent writers would revert the first one's changes."""
        config = {("ralphgen.project.config", "FILE"), ("ralphgen.project.root", "CONFIG")}
        put = ("ralphgen.files", "put")
        lock = ("ralphgen.project.config", "config_lock")
        found = {
            name_of(path): {
                (node.module, alias.name)
                for node in nodes(path)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for path in MODULES
        }
        writers = {name for name, names in found.items() if put in names and config & names}

        assert writers
        assert set() == {name for name in writers if lock not in found[name]}

    def test_only_output_moves_removes_or_writes_files_of_the_server(self) -> None:
        """A file written elsewhere is not all or nothing."""
        changers = {
            name_of(path)
            for path in MODULES
            if path not in SHIPPED
            for node in nodes(path)
            if isinstance(node, ast.Call) and changes_files(node)
        }
        outside = changers - {"ralphgen/emit/write.py"}

        assert {
            "ralphgen/board/disciplines.py",  # takes back a config that it has made
            "ralphgen/agents/calls.py",  # a file for one call, in a folder of its own
            "ralphgen/ledger/undo.py",  # makes a file of lines that was removed
            "ralphgen/loop/record.py",  # removes its own files of loops long ago
            "ralphgen/sessions/store.py",  # its own locks and marks, and folders of old sessions
            "ralphgen/agents/adapters.py",  # a home of Gemini CLI for one session, in its folder
            "ralphgen/agents/sandbox.py",  # files for one session, in a temporary folder
            "ralphgen/cli/row_commands.py",  # removes what it gave an editor, once that is saved
            "ralphgen/environment/build.py",
            "ralphgen/ledger/backup.py",
            "ralphgen/emit/delegation.py",  # the user's record of signers, and a copy for git
            "ralphgen/emit/scaffold.py",
            "ralphgen/exchange/branch.py",  # texts for git, in a temporary folder
            "ralphgen/files.py",
            "ralphgen/project/git.py",  # a repository for one question, in a temporary folder
            "ralphgen/project/approvals.py",  # removes a link in the place of its mark
            "ralphgen/loop/trees.py",  # in work trees that it has made
        } >= outside

    def test_only_the_command_line_prints(self) -> None:
        """In a server standard output belongs to the protocol."""
        printing = {
            name_of(path)
            for path in MODULES
            for node in nodes(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        }

        rooms = re.compile(r"ralphgen/(cli|terminal)/|ralphgen/kits/\w+/commands\.py")

        assert [] == [path for path in printing if not rooms.match(path)]

    def test_only_the_guarded_streams_reach_a_terminal(self) -> None:
        """Any other writer could pass on a character that steers it."""
        found: dict[str, set[str]] = {}
        for path in MODULES:
            for node in nodes(path):
                if (way := writes_past_streams(node)) is not None:
                    found.setdefault(way, set()).add(name_of(path))

        assert {
            "buffer": {
                "ralphgen/kits/rye/server/python_shim.py",  # runs on pipes of the server
            },
            "stream": {
                "ralphgen/kits/rye/server/schema_check.py",  # so does this
                "ralphgen/agents/gate.py",  # JSON, in ASCII without DEL
                "ralphgen/doctor/handshake.py",  # JSON for its parent
                "ralphgen/runtime/errors.py",  # a log of lines of JSON
                "ralphgen/runtime/loader.py",  # what a server says before it refuses to start
                "ralphgen/runtime/start.py",
                "ralphgen/runtime/http/command.py",
                "ralphgen/runtime/http/metrics.py",
            },
        } == {
            way: {name for name in names if not name.startswith("ralphgen/cli/")} - STREAMS
            for way, names in found.items()
        }

    def test_programs_write_to_our_streams_only_if_they_may(self) -> None:
        """Our functions do not escape the output of a program on our streams."""
        inheriting = {
            f"{name_of(path)}: {', '.join(sorted(missing))}"
            for path in MODULES
            for node in nodes(path)
            if isinstance(node, ast.Call)
            and re.search(r"(?:^|\.)(?:Popen|run)$", ast.unparse(node.func))
            and (ast.unparse(node.func).startswith("subprocess.") or node_is_popen(node))
            and (missing := inherited_streams(node))
        }

        assert {
            "ralphgen/agents/calls.py: stderr",  # of the project's server, in lines of JSON
            "ralphgen/cli/row_commands.py: stderr, stdout",  # the user's editor
            "ralphgen/cli/serve.py: stderr, stdout",  # becomes the server
            "ralphgen/agents/launch.py: stderr, stdout",  # an agent in the terminal, a server
            "ralphgen/runtime/statements/calls.py: stderr",  # the log of its server
        } == inheriting

    def test_text_is_opened_with_its_encoding(self) -> None:
        """Without it, the machine's locale decides how a file is decoded."""
        found = {
            f"{name_of(path)}:{node.lineno}"
            for path in [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]
            if OPENING.search(path.read_text(encoding="utf-8"))
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Call) and opens_text(node) and not says_encoding(node)
        }

        assert set() == found


STREAMS = {"ralphgen/terminal/console.py"}


def writes_past_streams(node: ast.AST) -> str | None:
    """How a node reaches a standard stream, unless by `print`: "buffer", "Console" or "stream"."""
    if isinstance(node, ast.Attribute) and ast.unparse(node) in {
        *("sys.stdout.buffer", "sys.stderr.buffer", "sys.__stdout__", "sys.__stderr__")
    }:
        return "buffer"
    if not isinstance(node, ast.Call):
        return None
    called = ast.unparse(node.func)
    if called == "os.write" and ast.unparse(node.args[0]) in {"1", "2"}:
        return "file"
    if called.rpartition(".")[2] in {"echo", "secho"}:
        return "echo"
    if called == "Console":
        return "Console"
    return "stream" if re.match(r"sys\.std(?:out|err)\.write", called) else None


def node_is_popen(node: ast.Call) -> bool:
    return ast.unparse(node.func) == "Popen"


def inherited_streams(node: ast.Call) -> set[str]:
    """The streams of ours that a call which starts a program passes on to it."""
    given = {word.arg for word in node.keywords}
    return set() if "capture_output" in given else {"stdout", "stderr"} - given


def decides(path: Path) -> bool:
    """Whether a module of a kit takes part in generating: neither its server nor its commands."""
    outside = {"commands.py", "rows.py", "claims.py"}
    return path not in SHIPPED and path.name not in outside


def changes_files(node: ast.Call) -> bool:
    """Whether a call writes, moves or removes a file; that of a text has two arguments."""
    verb = ast.unparse(node.func).rpartition(".")[2]
    writes = {"write_text", "write_bytes", "unlink", "rmdir", "rename", "touch", "rmtree"}
    return verb in writes or (verb == "replace" and len(node.args) == 1 and not node.keywords)


OPENING = re.compile(r"\b(?:open|read_text|write_text|fdopen)\s*\(")  # what `opens_text` finds


def opens_text(node: ast.Call) -> bool:
    match node.func:
        case ast.Attribute(attr="open", value=value):
            return ast.unparse(value).endswith("Path")
        case ast.Attribute(attr=name):
            return name in {"read_text", "write_text", "fdopen"}
        case ast.Name(id=name):
            return name == "open"
    return False


def says_encoding(node: ast.Call) -> bool:
    """Whether a call names UTF-8, by keyword or not, or opens a file of bytes."""
    given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    binary = any(isinstance(value, str) and re.fullmatch("[rwax]b", value) for value in given)
    return binary or "utf-8" in given or any(word.arg == "encoding" for word in node.keywords)


class TestTemplates:
    """Templates hold the order of lines; whatever decides something is Python."""

    TEMPLATES = sorted((ROOT / "templates").rglob("*.jinja"))

    @pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
    def test_a_template_holds_no_program(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        words = {*re.findall(r"{%-?\s*(\w+)", text)}
        allowed = {"for", "endfor", "if", "elif", "else", "endif", "include"}
        if path.is_relative_to(ROOT / "templates" / "board"):
            allowed |= {"block", "endblock", "extends", "macro", "endmacro", "set"}

        assert words <= allowed

    def test_every_template_is_used(self) -> None:
        source = "".join(path.read_text(encoding="utf-8") for path in MODULES)

        source += "".join(path.read_text(encoding="utf-8") for path in self.TEMPLATES)
        named = re.compile(r'"(?:\w+/)?([\w.]+\.jinja)"')

        pages = {path.name for path in self.TEMPLATES if path.parent.name != "macros"}
        assert [] == sorted(pages - {*named.findall(source)})


class TestTasks:
    """One package keeps the rules on tasks."""

    def test_one_package_writes_tasks_claims_evidence_and_comments(self) -> None:
        """Its rules hold for every writer. Imports, undo and the ledger write rows of any table."""
        inside = {RUNTIME / "tasks", RUNTIME / "engine"}
        outside = [path for path in MODULES if inside.isdisjoint(path.parents)]

        assert [] == [
            f"{name_of(path)}: {write}" for path in outside for write in writes(nodes(path))
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "SQL = \"UPDATE tasks SET status = 'done'\"",
            "SQL = 'INSERT INTO ralphgen_claims (task_id) VALUES (?)'",
            "change(f'DELETE FROM {EVIDENCE} WHERE number = ?')",
            "change(f'UPDATE {tables.comments.quoted} SET body = ?')",
            "workspace.tables.tasks.update(database, 'id', task, {'status': 'done'})",
            "comments.insert(database, values)",
        ],
    )
    def test_each_kind_of_write_is_noticed(self, text: str) -> None:
        assert [*writes([*ast.walk(ast.parse(text))])]


def writes(tree: list[ast.AST]) -> Iterator[str]:
    """The writes of a module to tasks, claims, evidence or comments."""
    for node in tree:
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Attribute) and node.attr in ("insert", "update")
        ):
            text = ast.unparse(node)
        yield from (found[0] for found in WRITE.finditer(text))


class TestText:
    """The text of a file."""

    def test_modules_public_classes_and_functions_have_docstrings(self) -> None:
        """A module begins with the sentence of its one job."""
        first = {path: (ast.get_docstring(parsed(path)) or "").split("\n\n")[0] for path in MODULES}
        silent = [
            f"{name_of(path)}: {node.name}"
            for path in MODULES
            for node in documented(parsed(path))
            if ast.get_docstring(node) is None
        ]

        assert [] == silent
        assert [] == [name_of(path) for path in MODULES if not re.search(r"[.:]$", first[path])]

    def test_no_two_public_classes_share_a_name(self) -> None:
        found: dict[str, list[str]] = {}
        for path in MODULES:
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(name_of(path))

        # Of the rooms of two engines one is emitted, so that both go by the same names.
        engines = {
            name: {place.replace("/postgresql/", "/sqlite/") for place in places}
            for name, places in found.items()
        }
        assert {} == {
            name: places
            for name, places in found.items()
            if len(places) > 1 and (len(places) > 2 or len(engines[name]) > 1)
        }

    def test_no_module_has_a_meaningless_name(self) -> None:
        vague = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}

        assert [] == [name_of(path) for path in MODULES if path.stem in vague]

    def test_checkers_are_never_silenced_in_shipped_code(self) -> None:
        silence = re.compile(r"#\s*(noqa|type:\s*ignore)")

        assert [] == [
            name_of(path) for path in MODULES if silence.search(path.read_text(encoding="utf-8"))
        ]


def documented(tree: ast.Module) -> Iterator[Any]:
    """The public functions and classes of a module, and the public methods of those."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (
                inner
                for inner in node.body
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_")
            )
