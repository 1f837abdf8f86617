"""The kit `tables`: tools on any table or view of the project's database.

It also lists tables without tools, and writes their settings for `ralphgen tools add`.
"""

import keyword
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, UsageError, counted, invalid_toml, suggestion
from ralphgen.files import put, whole_text
from ralphgen.planning import (
    INTERACTIVE,
    OBJECTS,
    RECIPES,
    TEXT,
    Argument,
    Constant,
    HttpUse,
    JsonObject,
    KitPlan,
    Names,
    PlannedTool,
    SkillPlan,
    ToolData,
    Values,
    answer_of,
    typed,
)
from ralphgen.planning.access import OWN, Command, Use
from ralphgen.planning.policy import about, unknown_recipe
from ralphgen.planning.server import Addition, KitDefinition
from ralphgen.project.config import config_lock
from ralphgen.project.database import nearest_database, open_database
from ralphgen.project.inspect import INTERNAL, KEY, possible
from ralphgen.project.model import Column, Finding, ProjectFacts, Schema, ServedTable, Table
from ralphgen.project.root import CONFIG, database_name, project_home
from ralphgen.project.schema import relation_names, schema_from_facts, table_names
from ralphgen.runtime.encoding import DIGITS, JSON
from ralphgen.runtime.engine import TABLES, fold
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.kit import (
    CURSOR,
    DESTRUCTIVE,
    IDEMPOTENT,
    INTEGER,
    INTEGERS,
    LIMIT,
    NON_DESTRUCTIVE,
    NUMBER,
    READ_ONLY,
    STRING,
    STRINGS,
)
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.values import nearest
from ralphgen.spelling import (
    Construction,
    Lines,
    Value,
    argument_name,
    constant,
    readable_name,
    sql_name,
)

# By the type of a column, the schema of its argument; a blob is none.
SCHEMAS: Mapping[str, JsonObject | None] = {
    "TEXT": STRING,
    "INTEGER": INTEGER,
    "REAL": NUMBER,
    "NUMERIC": STRING,  # a date, or whatever else the column takes as text
    "DECIMAL": {"type": "string", "format": DIGITS},
    "BOOLEAN": {"type": "boolean"},
    "JSON": {"type": "string", "format": JSON},
    "ANY": {"format": DIGITS},
    "OPAQUE": {"format": DIGITS},  # a type without equality, such as point
    "BLOB": None,
    "TEXT[]": STRINGS,  # arrays
    "INTEGER[]": INTEGERS,
    "REAL[]": {"type": "array", "items": {"type": "number"}},
    "NUMERIC[]": STRINGS,
    "DECIMAL[]": {"type": "array", "items": {"type": "string", "format": DIGITS}},
    "ANY[]": STRINGS,
    "BOOLEAN[]": {"type": "array", "items": {"type": "boolean"}},
    "JSON[]": {"type": "array", "items": {"type": "string", "format": JSON}},
    "BLOB[]": None,
}
ARRAY = "[]"  # the end of their types
TYPES = {"TEXT": "string", "NUMERIC": "string", "INTEGER": "integer", "REAL": "number"}
# Names of arguments and of answer fields that cannot be columns.
TAKEN = ("changed", "clear", "cut", "key", "unreadable")
_LEGAL = re.compile("[a-z][a-z0-9_]{0,49}")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s.-]+")


def snake(name: str) -> str:
    """Return the form of a table's name for the names of tools and modules."""
    plain = readable_name(_WORDS.sub("_", name))
    return plain if _LEGAL.fullmatch(plain) else constant(name).lower()


@dataclass(frozen=True, slots=True)
class ToolTable:
    """A table with its settings, and its visible columns in the schema's order.

    `snake` is its name within tool names, `module` and `data` are the names of the emitted module
    and of the constant in it. `fields` are the names of columns in arguments and answers.
    `unusable` are columns without a form in JSON, and `constants` the names of the constants for
    lists of values, by column. No two tables share one of these names.
    """

    served: ServedTable
    snake: str
    module: str
    data: str
    columns: Mapping[str, Column]
    fields: Mapping[str, str]
    unusable: tuple[Column, ...]
    constants: Mapping[str, str]

    @property
    def noun(self) -> str:
        """The name of one row in the names of its tools, except the listing tool."""
        return self.served.noun or self.snake

    @property
    def plural(self) -> str:
        """The name of many rows in the name of the listing tool.

        It is the table's name unless the noun is another word.
        """
        named = snake(self.served.name)
        if self.served.plural or self.noun in (self.snake, named, _noun(named)):
            return self.served.plural or self.snake
        return _with_last_word(self.noun, _regular_plural)

    def kind(self, column: str) -> str:
        """Return the kind of a column's values, in the terms of `runtime.rows`."""
        kind = self.columns[column].type
        if kind.endswith(ARRAY):
            return "blobs" if kind == "BLOB[]" else "list"
        return kind.lower()

    def writable_columns(self) -> Names:
        """Return the columns that can be written."""
        return tuple(
            name
            for name, column in self.columns.items()
            if SCHEMAS[column.type] is not None and not column.generated
        )

    def unfillable(self) -> Names:
        """Return the columns that a new row needs a value for and that no argument gives one."""
        blobs = [one for one in self.columns.values() if SCHEMAS[one.type] is None]
        return tuple(column.name for column in (*self.unusable, *blobs) if needed(column))

    def values(self, column: str) -> Values:
        """Return the values that a CHECK allows in a column; empty if it allows any."""
        declared = self.columns[column]
        kind = declared.type.removesuffix(ARRAY)
        if declared.values is None or kind not in TYPES or kind == "REAL":
            return ()
        if kind == "INTEGER":
            return tuple(int(value) for value in declared.values)
        return declared.values

    def field(self, column: str) -> str:
        """Return the name of a column in arguments and answers."""
        return self.fields[column]

    def argument(self, column: str, *, prefix: str = "", required: bool = False) -> Argument:
        """Return the argument that names a value of a column."""
        kind = self.columns[column].type
        schema = SCHEMAS[kind] or {}
        said: JsonObject = {}
        if self.values(column):
            values = Constant(self.constants[column], self.values(column))
            said = {"type": TYPES[kind.removesuffix(ARRAY)], "enum": values}
            said = {"type": "array", "items": said} if kind.endswith(ARRAY) else said
        meant = dict(self.served.describe).get(column, "")
        if self.field(column) != column:
            meant = f'{meant} (column "{column[:100]}")'.strip()
        if kind == "JSON" and not meant:
            meant = "any JSON value"
        if meant:
            said |= {"description": meant}
        if said and "type" not in said:
            said = {**({"type": TYPES[kind]} if kind in TYPES else schema), **said}
        return Argument(f"{prefix}{self.field(column)}", said or schema, required=required)

    def keys(self) -> tuple[Argument, ...]:
        """Return the argument that names a row: its key column, or an object of several."""
        columns = [self.argument(column, required=True) for column in self.served.key]
        if len(columns) == 1:
            return tuple(columns)
        schema: JsonObject = {
            "type": "object",
            "properties": {one.name: one.schema for one in columns},
            "required": [one.name for one in columns],
            "additionalProperties": False,
        }
        return (Argument("key", schema, required=True),)


def needed(column: Column) -> bool:
    """Return whether a new row must be given a value for a column."""
    return column.not_null and column.default is None and not column.generated


def offered(
    served: Iterable[ServedTable], schema: Schema, modules: Iterable[str], constants: Iterable[str]
) -> tuple[tuple[ToolTable, ...], Names]:
    """Return the tables, and a warning for each omitted column.

    `modules` and `constants` are names that are already in use.
    """
    found: list[ToolTable] = []
    warnings: list[str] = []
    words: set[str] = set()
    taken_modules, taken_constants = {*modules, *keyword.kwlist}, {*constants}
    for one in served:
        table = schema.table(one.name)
        if table is None:
            continue
        shown = [column for column in table.columns if not schema.hidden(one.name, column.name)]
        shown.sort(key=lambda column: column.name not in one.key)  # key columns first
        usable = {column.name: column for column in shown if column.type in SCHEMAS}
        rest = tuple(column for column in table.columns if column.name not in usable)
        warnings += [
            f'the column "{one.name}.{column.name}" is omitted from all tools: JSON cannot '
            "represent its type"
            for column in rest
            if column in shown
        ]
        called = snake(one.name)
        called = _free(constant(one.name).lower() if called in words else called, words)
        fields = _fields(usable)
        module = f"table_{called}" if called in taken_modules else called
        offering = ToolTable(
            one,
            called,
            module=_free(module, taken_modules),
            data=_free(called.upper(), taken_constants),
            columns=usable,
            fields=fields,
            unusable=rest,
            constants={
                column: _free(f"{called}_{constant(fields[column])}".upper(), taken_constants)
                for column, declared in usable.items()
                if declared.values is not None
            },
        )
        found.append(offering)
    return tuple(found), tuple(warnings)


def _fields(columns: Iterable[str]) -> dict[str, str]:
    """Return the names of columns in arguments and answers.

    A name that is not legal becomes a readable one, or is encoded if two columns would share it.
    """
    coded = {one: argument_name(f"x.{one}" if one in TAKEN else one) for one in columns}
    readable = {one: one if coded[one] == one else readable_name(one) for one in coded}
    uses = Counter(map(str.lower, readable.values()))
    return {
        column: name
        if name not in ("", *TAKEN) and uses[name.lower()] == 1 and argument_name(name) == name
        else coded[column]
        for column, name in readable.items()
    }


def _free(name: str, taken: set[str]) -> str:
    """Return a free name, and mark it as taken."""
    found = name
    number = 2
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    taken.add(found)
    return found


LONGEST = 50  # characters of a noun
# Ends of plural table names and their singulars: the first match counts. An ending without a
# singular is in doubt: movies, statuses and cases, caches and branches.
_ENDINGS = (
    *(
        (f"{stem}ies", f"{stem}y")
        for stem in ("bb", "og", "eg", "it", "quer", "nc", "lic", "tor", "gor", "ntr")
    ),
    *((f"{stem}ies", f"{stem}y") for stem in ("an", "str", "rt", "ar", "il", "ver", "liv")),
    *(("gnoses", "gnosis"), ("lyses", "lysis"), ("theses", "thesis"), ("crises", "crisis")),
    *(("sses", "ss"), ("shes", "sh"), ("tches", "tch"), ("oxes", "ox"), ("exes", "ex")),
    *(("ixes", "ix"), ("rses", "rse"), ("ouses", "ouse"), ("auses", "ause")),
    *((ending, "") for ending in ("ies", "ses", "xes", "zes", "hes", "oes", "ves", "ics")),
    *((ending, "") for ending in ("ss", "us", "is", "as", "os")),
    ("s", ""),
)
_VOWELS = frozenset("aeiouy")
_SINGULAR = frozenset(  # words without another form
    {
        *("aws", "biceps", "chaps", "corps", "diabetes", "dns", "gallows", "goods", "headquarters"),
        *("jeans", "lens", "means", "news", "scissors", "series", "species", "staff", "summons"),
        *("thanks", "triceps", "trousers"),
    }
)
# Plurals that no rule gives, and the rules: the first match counts.
_IRREGULAR = {
    "axis": "axes",
    "child": "children",
    "criterion": "criteria",
    "datum": "data",
    "hero": "heroes",
    "leaf": "leaves",
    "lens": "lenses",
    "life": "lives",
    "man": "men",
    "matrix": "matrices",
    "person": "people",
    "quiz": "quizzes",
    "vertex": "vertices",
    "woman": "women",
}
_PLURALS = (
    *((f"{vowel}y", f"{vowel}ys") for vowel in "aeou"),
    *(("y", "ies"), ("sis", "ses"), ("s", "ses"), ("x", "xes"), ("z", "zes")),
    *(("ch", "ches"), ("sh", "shes"), ("", "s")),
)
HOST = "ralph"  # already has tools on the usual tables


def find_tables(root: Path, kit: str) -> Finding:
    """Return the tables that the kit could serve; empty if the kit is disabled."""
    config = _config(root)
    if kit not in config.get("kits", [HOST]):
        return Finding("", {})
    try:
        found = unserved(root, config)
        with open_database(root) as connection:
            tables = table_names(connection)
    except ProjectError:  # there is no database here, and its facts come from elsewhere
        return Finding("", {})
    rows: list[Mapping[str, Any]] = [
        {
            "table": table.name,
            "kind": "table" if table.name in tables else "view",
            "tools": ", ".join(possible(table)),
        }
        for table in found
    ]
    if not rows:
        return Finding("", {"tables": rows})
    hint = f"add tools to one or more, such as: {_adding(found[0].name)}"
    return Finding(f"{counted(len(rows), 'table')} without tools", {"tables": rows}, hint=hint)


def command_to_add(root: Path) -> str:
    """Return a command that adds tools to a table of the project, if possible an existing one."""
    with suppress(ProjectError):
        return _adding(*(table.name for table in unserved(root, _config(root))[:1]))
    return _adding()


def _adding(name: str = "NAME") -> str:
    return f"ralphgen tools add {shlex.quote(name)}"


def unserved(root: Path, config: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables and views of the database that no tool works on, sorted by name."""
    served = {fold(name) for name in config.get(KEY, {})}
    with open_database(root) as connection:
        names = [
            name
            for name in relation_names(connection)
            if not fold(name).startswith(INTERNAL) and fold(name) not in served
        ]
        own: Sequence[str] = ()
        if HOST in config.get("kits", [HOST]):
            own = TABLES
            names = [name for name in names if fold(name) not in TABLES]
        facts = connection.tables(names, own=own)
    return tuple(table for table in schema_from_facts(facts).tables if table.name in names)


def add_tables(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Add tables to the config; return each with its noun and its tools.

    Raises `UsageError` for a table that does not exist or already has tools, and `ProjectError` if
    the config cannot be changed.
    """
    with config_lock(root):
        return _added(root, names)


def _added(root: Path, names: Sequence[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Add the tables; the caller holds the lock of the config."""
    from ralphgen.project.toml_edit import edited

    config, used = _config(root), database_name(root)
    known = {fold(table.name): table for table in unserved(root, config)}
    own = TABLES if HOST in config.get("kits", [HOST]) else ()
    for name in names:
        if fold(name) in map(fold, config.get(KEY, {})):
            raise UsageError(f'"{name}" already has tools', f"see [{KEY}] in {CONFIG}")
        if fold(name) in own:
            raise UsageError(f'"{name}" already has tools', 'list them with "ralphgen tools"')
        if fold(name) not in known:
            listed = [table.name for table in known.values()]
            served = [*config.get(KEY, {}), *own]
            if (near := nearest(name, [*listed, *served])) in served:
                text = f'{used} has no table "{name}"'
                raise UsageError(text, f'did you mean "{near}"? It already has tools')
            hint = suggestion(name, listed, "the usable tables", "ralphgen inspect")
            if not listed:
                near = nearest_database(project_home(root), "app.db")
                named = "" if near in ("", used) else f' to that of your app, such as "{near}"'
                hint = f"create the table there, or set [database] path in {CONFIG}{named}"
            text = f'{used} has no table "{name}" that can get tools'
            raise UsageError(text, hint)
    added = [known[fold(name)] for name in dict.fromkeys(names)]
    changes = [((KEY, table.name, "noun"), noun_of(table)) for table in added]
    path = root / CONFIG
    text = whole_text(path, CONFIG, missing="")
    try:
        put(path, edited(text, changes))
    except ValueError as error:
        raise ProjectError(f"cannot change {CONFIG}: {error}", "edit the file by hand") from error
    return [(table.name, noun_of(table), possible(table)) for table in added]


def noun_of(table: Table) -> str:
    """Return the name of one row of a table: its singular, or the table's name if in doubt."""
    return _noun(snake(table.name))


def _noun(name: str) -> str:
    return _with_last_word(name, _singular)


def _with_last_word(name: str, change: Callable[[str], str]) -> str:
    """Return a name with its last word changed."""
    before, separator, word = name.rpartition("_")
    return f"{before}{separator}{change(word)}"[:LONGEST]


def _regular_plural(word: str) -> str:
    """Return the plural of a word by the rules of English; "news" and the like are unchanged."""
    if word in _IRREGULAR or word in _SINGULAR:
        return _IRREGULAR.get(word, word)
    ending, plural = next(pair for pair in _PLURALS if word.endswith(pair[0]))
    return f"{word.removesuffix(ending)}{plural}"


def _singular(word: str) -> str:
    """Return the singular of a regular plural, and any other word unchanged."""
    ending, singular = next((pair for pair in _ENDINGS if word.endswith(pair[0])), ("", ""))
    stem = word.removesuffix(ending)
    is_certain = ending == "s" or bool(singular)
    if not is_certain or word in _SINGULAR or not _VOWELS & {*stem, *singular}:
        return word
    return f"{stem}{singular}"


def _config(root: Path) -> dict[str, Any]:
    """Return the raw config; `read_config` reports its problems."""
    text = ""
    try:
        text = (root / CONFIG).read_text(encoding="utf-8-sig")
        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise invalid_toml(CONFIG, text, error) from error
    except (OSError, ValueError) as error:
        raise ProjectError(f"cannot read {CONFIG}: {error}", "fix the file") from error


SKILL = SkillPlan(
    name="project-tables",
    title="The project's tables",
    description=(
        "Reads and changes rows of the project's database with the tools of its MCP server. Use "
        "it when the user asks about project data, or to add, change or delete rows."
    ),
    overview={
        "How it works": (
            "Each table has its own tools: one lists rows in pages, one reads a row by its key, "
            "and others change rows if this session has them. An error names the problem and the "
            "valid values."
        ),
    },
    workflows=(),
)


SERVER = KitPlan(
    key="tables",
    server_name="project-tables",
    title="The project's tables.",
    nouns={},
    tools=(),
    server="ralphgen.kits.tables.server",
    has_database=True,
    about="The project's tables.",
    connected=True,
    http=HttpUse(),
    skill=SKILL,
)


def plan_server_of_tables(project: ProjectFacts) -> KitPlan:
    """Return the server; the project's own tools are added later."""
    place = project.database_location
    ledger = project.schema.table(MARKER) is not None
    warnings: tuple[str, ...] = ()
    if not project.tables:
        warnings = ('no tools are generated: add tables with "ralphgen tools add NAME"',)
    settings = Lines({"database": place, "ledger": ledger})
    return replace(SERVER, settings=settings, warnings=warnings)


TABLES_KIT = KitDefinition(SERVER, plan_server_of_tables, any_schema=True)


TABLE, FUNCTIONS = "runtime.rows", "runtime.rows.tools"
HINTS: Mapping[str, Mapping[str, bool]] = {
    "list": READ_ONLY,
    "get": READ_ONLY,
    "create": NON_DESTRUCTIVE,
    "update": IDEMPOTENT,
    "delete": DESTRUCTIVE,
}
RUNS = {
    "list": "listing",
    "get": "getting",
    "create": "creating",
    "update": "updating",
    "delete": "deleting",
}
# Names of other modules, and of constants that the modules of tables import.
MODULES = ("answers", "own_tools", "queries", "settings", "tables")
CONSTANTS = (
    *("CURSOR", "DESTRUCTIVE", "IDEMPOTENT", "INTEGER", "INTEGERS", "LIMIT"),
    *("NON_DESTRUCTIVE", "NUMBER", "READ_ONLY", "STRING", "STRINGS", "TOOLS"),
)
# Kinds that a URI can represent.
SPELLED = {"boolean", "decimal", "integer", "numeric", "real", "text"}
OWN_ROW, ANY_ROW = "own {}", "any {}"
NAMED = 8  # tables in the description of a skill
ABOUT = (
    "For each of these tables, one tool lists rows in pages, another reads a row by its key, and "
    "others add, change and delete rows if the session has them. Read a row before you change "
    "it. An update leaves omitted fields unchanged. A row that others reference cannot be "
    "deleted. An error names the valid values. A session for one row can read the rows of others "
    "but change only its own. Rows that a session can get are also resources: "
    "`{kit}://tables/NAME/KEY`."
)


def plan_tables(project: ProjectFacts, server: KitPlan) -> Addition:
    """Return the tools on the project's own tables, for the server that has them.

    Raises `ProjectError` for unknown recipes.
    """
    problems = [*_recipe_problems(project, server)]
    if problems:
        raise ProjectError.of(problems)
    tables, warnings = offered(
        project.tables,
        project.schema,
        (*MODULES, *server.nouns),
        (*CONSTANTS, *(name for tool in server.tools for name in tool.constants)),
    )
    tools = [tool for table in tables for tool in _tools(table)]
    return Addition(
        nouns={table.module: f"Tools for {_plural(table)}." for table in tables},
        tools=tuple(tools),
        overview={"The project's tables": ABOUT.format(kit=server.key)} if tables else {},
        used_for=_used_for(tables),
        row_resources=tuple((one.module, one.data) for one in tables if _is_spelled(one)),
        absent={name: why for table in tables for name, why in _absent(table).items()},
        warnings=warnings,
        origins={
            tool_name(table, verb): table.served.origin
            for table in tables
            for verb in table.served.tools
        },
    )


def _recipe_problems(project: ProjectFacts, server: KitPlan) -> Iterator[Problem]:
    """Yield the problems of tables that already have tools, and of recipes for tables."""
    for table in project.tables:
        if server.tools and fold(table.name) in TABLES:
            text = f'{table.origin}: the server "{server.key}" already has tools for this table'
            yield Problem(text, "remove the table from the config")
        for recipe, verbs in table.recipes:
            if recipe not in RECIPES:
                yield unknown_recipe(table.origin, recipe, project)
                continue
            writing = [verb for verb in verbs if HINTS[verb] != READ_ONLY]
            for kind in dict.fromkeys(dict(table.bind).values()) if writing else ():
                if kind not in about(recipe, server):
                    text = f'{table.origin}: "bind" requires a {kind} for "{writing[0]}"'
                    yield Problem(
                        f'{text}, but sessions of "{recipe}" have none',
                        f'remove "{writing[0]}" from the recipe, or "bind" from the table',
                    )


def _is_spelled(table: ToolTable) -> bool:
    """Return whether there are rows that a tool gets and whose key a URI can spell."""
    kinds = {table.kind(column) for column in table.served.key}
    return "get" in table.served.tools and kinds <= SPELLED


def _tools(table: ToolTable) -> list[PlannedTool]:
    absent = _absent(table)
    data = ToolData(table.data, TABLE, _call(table))
    return [
        _tool(table, verb, data)
        for verb in table.served.tools
        if tool_name(table, verb) not in absent
    ]


def _tool(table: ToolTable, verb: str, data: ToolData) -> PlannedTool:
    described, purpose, answer = _descriptions(table, verb)
    arguments = _arguments(table, verb)
    kind = {table.field(column): kind for column, kind in table.served.bind}
    reach = ANY_ROW if verb == "get" else OWN_ROW
    names = {argument.name for argument in arguments}
    bound = {name: reach.format(row) for name, row in kind.items() if name in names}
    return PlannedTool(
        tool_name(table, verb),
        module=table.module,
        hints=HINTS[verb],
        description=described,
        arguments=arguments,
        returns=_returns(table, verb),
        run=f"{FUNCTIONS}.{RUNS[verb]}",
        data=data,
        recipes=tuple(
            recipe for recipe in RECIPES if verb in dict(table.served.recipes).get(recipe, ())
        ),
        interactive=table.served.interactive,
        bound=bound,
        granted_by=() if HINTS[verb] == READ_ONLY else tuple(dict.fromkeys(kind.values())),
        instruction=f"{_plural(table)}: {{tools}}",
        purpose=purpose,
        answer=answer,
    )


def tool_name(table: ToolTable, verb: str) -> str:
    """Return the name of the tool that does this with a table."""
    return f"list_{table.plural}" if verb == "list" else f"{verb}_{table.noun}"


def _used_for(tables: tuple[ToolTable, ...]) -> str:
    """Return the addition to the description of the skill."""
    if not tables:
        return ""
    named = [_plural(table)[:50] for table in tables[:NAMED]]
    more = " and more" if len(tables) > NAMED else ""
    return f"Also use it for rows of these tables: {', '.join(named)}{more}."


def _plural(table: ToolTable) -> str:
    return table.plural.replace("_", " ")


def _descriptions(table: ToolTable, verb: str) -> tuple[str, str, str]:
    """Return a tool's description, its purpose and its answer."""
    row = table.noun.replace("_", " ")
    rows = _plural(table)
    a_row = f"{'an' if row[0] in 'aeiou' else 'a'} {row}"
    if row == rows and row.endswith("s"):
        a_row = f"a row of {rows}"
    return {
        "list": (f"List {rows}.", f"find {rows}", "a page of rows, and the total"),
        "get": (f"Get {a_row}.", f"read {a_row}", "all fields with a value"),
        "create": (f"Create {a_row}.", f"add {a_row}", "its key"),
        "update": (
            f"Update the given fields of {a_row}.",
            f"change {a_row}; omitted fields are unchanged",
            "the names of the changed fields",
        ),
        "delete": (
            f"Delete {a_row} that no other row needs.",
            f"remove {a_row}",
            "the key of the deleted row, or why it cannot be deleted",
        ),
    }[verb]


def _arguments(table: ToolTable, verb: str) -> tuple[Argument, ...]:
    served = table.served
    if verb == "list":
        arguments = [table.argument(column, prefix="filter_") for column in served.filter]
        if served.search:
            held = ", ".join(table.field(column) for column in served.search)
            arguments.append(typed("search", "string", f"text in {held}"))
        return (*arguments, Argument("limit", LIMIT), Argument("cursor", CURSOR))
    if verb == "create":
        return tuple(
            table.argument(column, required=needed(table.columns[column]))
            for column in table.writable_columns()
        )
    if verb != "update":
        return table.keys()
    fields = [column for column in table.writable_columns() if column not in served.key]
    clearable = [table.field(column) for column in fields if _clearable(table, column)]
    arguments = [table.argument(column) for column in fields]
    if clearable:
        items = {"type": "string", "enum": clearable}
        clear = {"type": "array", "description": "fields to clear", "items": items}
        arguments.append(Argument("clear", clear))
    return (*table.keys(), *arguments)


def _clearable(table: ToolTable, column: str) -> bool:
    return not table.columns[column].not_null and column not in dict(table.served.bind)


def _absent(table: ToolTable) -> dict[str, str]:
    """Return the tools that are impossible for the table, each with the reason."""
    found: dict[str, str] = {}
    lacking = table.unfillable()
    if "create" in table.served.tools and lacking:
        column = f"{table.served.name}.{lacking[0]}"
        found[tool_name(table, "create")] = (
            f'"{column}" requires a value that no argument can provide'
        )
    if "update" in table.served.tools and not {*table.writable_columns()} - {*table.served.key}:
        found[tool_name(table, "update")] = f'no column of "{table.served.name}" can be changed'
    return found


def _call(table: ToolTable) -> Construction:
    """Return the emitted table: the facts that its tools need."""
    renamed = {
        column: table.field(column) for column in table.columns if table.field(column) != column
    }
    said: dict[str, Value] = {
        "noun": table.noun,
        "listed": tool_name(table, "list"),
        "columns": Lines({column: table.kind(column) for column in table.columns}),
        "key": list(table.served.key),
        "search": list(table.served.search),
        "arguments": Lines(renamed) if renamed else None,
        "bound": dict(table.served.bind),
    }
    kept = {name: value for name, value in said.items() if value}
    return Construction("RowTable", (table.served.name,), kept)


def _returns(table: ToolTable, verb: str) -> dict[str, Value]:
    """Return the JSON Schema of a list or a row; empty for the answer to a change."""
    if verb == "list":
        rows = {tool_name(table, "list").removeprefix("list_"): OBJECTS}
        return answer_of(**rows, total=INTEGER, next_cursor=TEXT)
    if verb == "get":
        return answer_of(**{table.field(column): TEXT for column in table.columns})
    return {}


_REFERENCE = re.compile(r"([^.]+)\(([^)]+)\)")  # a column of a table in the same schema


def table_uses(project: ProjectFacts, kit: KitPlan, policy: Policy) -> Iterator[Use]:
    """Yield the uses of the tools on own tables in the sessions of each recipe that has them.

    This includes preliminary look-ups: rows that a row references, and rows that reference it.
    """
    tables, _ = offered(project.tables, project.schema, (), ())
    planned = {tool.name: tool for tool in kit.tools}
    for table in tables:
        for verb in table.served.tools:
            name = tool_name(table, verb)
            for recipe, plan in policy.recipes.items():
                if name in plan.tools.get(kit.key, ()):
                    every = planned[name].argument_names
                    left = plan.narrowed_arguments.get(f"{kit.key}:{name}", every)
                    rows = _own_rows(table, recipe, plan)
                    for command, where, columns in _needs(table, verb, left, project.schema):
                        own = "" if command == "SELECT" else rows
                        yield Use(recipe, name, command, where, columns, own)


def _needs(
    table: ToolTable, verb: str, left: Sequence[str], schema: Schema
) -> Iterator[tuple[Command, str, Names]]:
    """Yield each command that a tool runs, with its table and columns.

    `left` are the arguments that the sessions have.
    """
    name, key, bound = table.served.name, table.served.key, (*dict(table.served.bind),)
    if verb in ("list", "get"):
        yield "SELECT", name, (*table.columns,)
        return
    given = tuple(column for column in table.writable_columns() if table.field(column) in left)
    if verb == "create":
        written = tuple(dict.fromkeys((*given, *bound)))
        yield "INSERT", name, written
        yield "SELECT", name, key
        yield from _parents(table, written, schema)
    elif verb == "update":
        written = tuple(column for column in given if column not in key)
        yield "UPDATE", name, written
        yield "SELECT", name, tuple(dict.fromkeys((*key, *bound, *written)))
        yield from _parents(table, written, schema)
    else:
        yield "DELETE", name, ()
        yield "SELECT", name, tuple(dict.fromkeys((*key, *bound)))
        # The deleted row must not be referenced: these columns are read to check that.
        for other in schema.tables:
            for column in other.columns:
                found = _REFERENCE.fullmatch(column.references or "")
                if found and found[1] == table.served.name:
                    for name, one in ((other.name, column.name), (found[1], found[2])):
                        if not schema.hidden(name, one):
                            yield "SELECT", name, (one,)


def _parents(
    table: ToolTable, columns: Iterable[str], schema: Schema
) -> Iterator[tuple[Command, str, Names]]:
    """Yield the reads that check whether the referenced rows exist."""
    for column in columns:
        found = _REFERENCE.fullmatch(table.columns[column].references or "")
        if found and not schema.hidden(found[1], found[2]):
            yield "SELECT", found[1], (found[2],)


def _own_rows(table: ToolTable, recipe: str, plan: Recipe) -> str:
    """Return the condition that a row is the session's; the user's session may have no row.

    The comparison uses text for columns of any type, as `runtime.rows.tools` does.
    """
    found: list[str] = []
    for column, kind in table.served.bind:
        name = f"{sql_name(table.served.name)}.{sql_name(column)}"
        condition = f"{name}::text = {OWN[kind]}::text"
        if (plan.base or recipe) in (INTERACTIVE, FULL):
            condition = f"({OWN[kind]} IS NULL OR {condition})"
        found.append(f" AND {condition}")
    return "".join(found)
