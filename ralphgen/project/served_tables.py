"""`[tables.<name>]`: tables and views that tools are made of, held against the database."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.project.config import Config
from ralphgen.project.database import part_for
from ralphgen.project.model import Column, Names, Schema, ServedTable, Table
from ralphgen.project.queries.files import SECRETS, is_secret
from ralphgen.project.settings import VERBS, TableSettings
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.engine.entries import PREFIX
from ralphgen.runtime.engine.schema import fold

if TYPE_CHECKING:
    from ralphgen.project.database import Snapshot

Reads = Callable[[str], Iterable[tuple[str, str]]]  # by view: tables and columns
KEY = "tables"  # of the config
READING = VERBS[:2]
TEXTS = ("TEXT", "NUMERIC", "ANY", "OPAQUE")  # types that a text search supports
# Types that an argument can have.
GIVEN = (*TEXTS, "BOOLEAN", "DECIMAL", "INTEGER", "JSON", "REAL")
INTERNAL = ("sqlite_", PREFIX)
UNSHOWN = "hide it, or make a view without it"
_KINDS = "SELECT name, type FROM pragma_table_list WHERE schema = 'main'"


def names_of(config: TomlFile[Config]) -> tuple[str, ...]:
    """Return the names of the tables and views, as the config spells them."""
    return tuple(config.values.tables)


def hidden_columns(config: Config) -> tuple[str, ...]:
    """Return the hidden columns in the tables' settings, as `"table.column"`."""
    named = config.tables.items()
    return tuple(f"{table}.{column}" for table, one in named for column in one.hide)


def served_tables(
    config: TomlFile[Config], schema: Schema, connection: "Snapshot | None" = None
) -> tuple[ServedTable, ...]:
    """Return the tables and views by the names that the database has for them and their columns.

    Raises `ProjectError` for each unknown name, and for each setting that a table does not support.
    Without a `connection`, the reason for a missing table is unknown.
    """
    problems: list[Problem] = []
    found: list[ServedTable] = []
    named: dict[str, str] = {}
    kinds = (
        {}
        if connection is None or connection.sql.TYPED
        else {fold(name): kind for name, kind in connection.rows(_KINDS)}
    )
    secrets = _secrets(connection, schema)
    for name, settings in sorted(config.values.tables.items()):
        where = config.place(KEY, name)
        table = _found(schema, name)
        reason = _unusable(schema.folded(name), kinds, table)
        if reason:
            problems.append(Problem(f"{where}: {reason[0]}", reason[1]))
        elif table is not None and table.name in named:
            text = f'{where}: "{table.name}" is configured twice, also as "{named[table.name]}"'
            problems.append(Problem(text, "merge both entries"))
        elif table is not None:
            named[table.name] = name
            wrong = [*_problems(config, name, settings, table, schema)]
            wrong += [
                Problem(f'{where}: "{name}" reads "{secret}", which is hidden', UNSHOWN)
                for secret in secrets(table)
            ]
            problems += wrong
            if not wrong:
                found.append(_served(where, settings, table, schema))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(found, key=lambda one: one.name))


def _found(schema: Schema, name: str) -> Table | None:
    """Return a table by its name, as the database compares names."""
    named = {schema.folded(table.name): table for table in schema.tables}
    return schema.table(name) or named.get(schema.folded(name))


def _secrets(connection: "Snapshot | None", schema: Schema) -> Callable[[Table], Iterable[str]]:
    """Return a function that yields the columns of a table or view that tools may not show."""
    views: list[Reads] = []  # made for the first table

    def found(table: Table) -> Iterator[str]:
        for column in table.columns:
            is_one = (fold(table.name), fold(column.name)) in SECRETS
            if is_one and not schema.hidden(table.name, column.name):
                yield f"{table.name}.{column.name}"
        if connection is not None:
            if not views:
                part = part_for(connection, "ralphgen.project.queries.prepare")
                views.append(part.view_reads(connection.connection, schema.hidden, schema.hide))
            yield from _secrets_in_view(views[0], schema, table.name)

    return found


def _secrets_in_view(reads: Reads, schema: Schema, name: str) -> Iterator[str]:
    """Yield, as "table.column", the columns a view reads that tools may not show.

    Raises the errors of `reads`. The names of the view's own columns do not count: they are hidden
    like those of a table.
    """
    for table, column in sorted(reads(name)):
        own = schema.folded(table) == schema.folded(name)
        if not own and is_secret(table, column, schema.hidden):
            yield f"{table}.{column}" if column else table


def _unusable(name: str, kinds: Mapping[str, str], table: Table | None) -> tuple[str, str] | None:
    """Return why a table cannot be served, with a hint."""
    kind = kinds.get(name, "")
    if name.startswith(INTERNAL):
        return f'"{name}" is an internal table of the database or ralphgen', "remove it"
    if kind in ("virtual", "shadow"):
        what = "a virtual table" if kind == "virtual" else "the storage of a virtual table"
        return (
            f'"{name}" is {what}, which cannot be served',
            "create a view of it, and serve the view",
        )
    if table is None and kind == "view":
        return f'the view "{name}" reads a missing table or column', "recreate the view"
    if table is None:
        usable = [one for one, sort in kinds.items() if sort in ("table", "view")]
        known = [one for one in usable if not one.startswith(INTERNAL)]
        hint = f"if it is new, migrate this database first; {suggestion(name, known, 'the tables')}"
        return f'the database has no table "{name}"', hint
    return None


def key_of(table: Table) -> Names:
    """Return the columns of the primary key in its order, empty without one."""
    columns = sorted((one.primary_key, one.name) for one in table.columns if one.primary_key)
    return tuple(name for _, name in columns)


def possible(table: Table, key: Collection[str] = ()) -> Names:
    """Return the tools that a table supports; `key` identifies the rows of one without a key."""
    if key_of(table):
        can_be_given = all(one.type in GIVEN for one in table.columns if one.primary_key)
        return VERBS if can_be_given else VERBS[:1]
    return READING if key else VERBS[:1]


def _problems(
    config: TomlFile[Config], name: str, settings: TableSettings, table: Table, schema: Schema
) -> Iterator[Problem]:
    """Yield the problems with the settings of an existing table."""
    stated = {schema.folded(column) for column in settings.hide}
    unseen = (one.name for one in table.columns if schema.hidden(table.name, one.name))
    hidden = stated | {schema.folded(column) for column in unseen}
    columns = {schema.folded(column.name): column for column in table.columns}
    for keys, column in settings.columns:
        where, found = config.place(KEY, name, *keys), columns.get(schema.folded(column))
        if found is None:
            hint = suggestion(column, (one.name for one in table.columns), "the columns")
            yield Problem(f'{where}: "{table.name}" has no column "{column}"', hint)
        elif keys[0] != "hide" and schema.folded(column) in hidden:
            yield Problem(f'{where}: "{column}" is hidden', "remove it here or from hide")
        elif reason := _unfit(str(keys[0]), found):
            yield Problem(f'{where}: "{column}" {reason}', f"remove it from {keys[0]}")
    where = config.place(KEY, name)
    for column in key_of(table):
        if schema.folded(column) in hidden - stated:
            text = f'{where}: "{column}" identifies the rows, but is hidden'
            yield Problem(text, "remove it from [schema] hide")
    if settings.key and key_of(table):
        where = config.place(KEY, name, "key")
        yield Problem(f'{where}: "{table.name}" has a primary key', 'remove "key"')
    yield from _verb_problems(config, name, settings, table)


def _unfit(setting: str, column: Column) -> str:
    """Return why a setting does not support a column; empty if it does."""
    if setting == "search" and column.type not in TEXTS:
        return "does not contain text"
    if setting == "hide" and column.primary_key:
        return "identifies the rows"
    if setting in ("filter", "key", "bind") and column.type not in GIVEN:
        return "has a type that arguments do not support"
    return ""


def _verb_problems(
    config: TomlFile[Config], name: str, settings: TableSettings, table: Table
) -> Iterator[Problem]:
    """Yield a problem for each tool that there cannot be."""
    can = possible(table, settings.key)
    lacks = "a primary key of an unsupported type" if key_of(table) else "no primary key"
    for setting, verbs in (("tools", settings.tools or ()), *settings.recipes.items()):
        keys = (setting,) if setting == "tools" else ("recipes", setting)
        for at, verb in enumerate(verbs):
            if verb not in can:
                where = config.place(KEY, name, *keys, at)
                text = f'{where}: "{table.name}" has {lacks}, so "{verb}" is not possible'
                yield Problem(text, f"possible: {', '.join(can)}")


def _served(where: str, settings: TableSettings, table: Table, schema: Schema) -> ServedTable:
    named = {schema.folded(column.name): column.name for column in table.columns}

    def spelled(columns: Iterable[str]) -> Names:
        return tuple(dict.fromkeys(named[schema.folded(column)] for column in columns))

    can = possible(table, settings.key)
    return ServedTable(
        name=table.name,
        origin=where,
        noun=settings.noun or "",
        tools=tuple(verb for verb in can if verb in (settings.tools or can)),
        filter=spelled(settings.filter),
        search=spelled(settings.search),
        key=key_of(table) or spelled(settings.key),
        interactive=settings.interactive,
        recipes=tuple((name, tuple(verbs)) for name, verbs in sorted(settings.recipes.items())),
        bind=tuple((spelled([one])[0], kind) for one, kind in sorted(settings.bind.items())),
        describe=tuple(
            (spelled([one])[0], text) for one, text in sorted(settings.describe.items())
        ),
    )
