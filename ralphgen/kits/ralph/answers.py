"""The shapes of the answers, as JSON Schemas, for projects that ask for structured output."""

from collections.abc import Mapping

from ralphgen.kits.ralph.columns import Table
from ralphgen.planning.model import JsonObject
from ralphgen.spelling import argument_name

STRING: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
OBJECT: JsonObject = {"type": "object"}
STRINGS: JsonObject = {"type": "array", "items": STRING}
OBJECTS: JsonObject = {"type": "array", "items": OBJECT}
KINDS: Mapping[str, JsonObject] = {
    "TEXT": STRING,
    "DISCIPLINE": STRING,
    "STRINGS": STRINGS,
    "PATHS": STRINGS,
    "INTEGERS": {"type": "array", "items": INTEGER},
    "OBJECTS": {"type": "array"},
}
LISTS = {
    "tasks": ("tasks", ("id", "title", "status", "priority", "feature", "discipline")),
    "features": ("features", ("name", "display_name", "acronym", "description")),
    "disciplines": ("disciplines", ("name", "display_name", "acronym", "description")),
}
RECORDS = {"task": "tasks", "feature": "features", "discipline": "disciplines"}
MORE: Mapping[str, Mapping[str, JsonObject]] = {
    "task": {
        "inferred": STRING,
        "dependencies": OBJECTS,
        "dependents": OBJECTS,
        "comments": OBJECTS,
        "comments_total": INTEGER,
    },
    "feature": {"learnings_total": INTEGER, "missing_files": STRINGS, "tasks": OBJECT},
    "discipline": {},
}
FIXED: Mapping[str, Mapping[str, JsonObject]] = {
    "change": {"warnings": STRINGS},
    "info": {"title": STRING, "description": STRING, "created": STRING},
    "progress": {
        "total": INTEGER,
        "actionable": INTEGER,
        "done": INTEGER,
        "percent": INTEGER,
        "by_status": OBJECT,
        "by_feature": OBJECT,
    },
    "written": {"bytes_written": INTEGER},
    "text": {"text": STRING, "entries": INTEGER, "total": INTEGER, "next_cursor": STRING},
}


def answer_schema(shape: str, tables: Mapping[str, Table]) -> JsonObject:
    """The JSON Schema of an answer; empty fields are left out of answers, so few are required."""
    if shape in LISTS:
        name, columns = LISTS[shape]
        rows = {"type": "array", "items": _record(tables[name], columns)}
        properties = {shape: rows, "total": INTEGER, "next_cursor": STRING}
        return {"type": "object", "properties": properties, "required": [shape, "total"]}
    if shape in RECORDS:
        table = tables[RECORDS[shape]]
        record = _record(table, table.shown())
        properties = {**record["properties"], **MORE[shape], "unreadable": OBJECT, "cut": STRINGS}
        return {"type": "object", "properties": properties}
    return {"type": "object", "properties": FIXED[shape]}


def _record(table: Table, columns: tuple[str, ...]) -> JsonObject:
    """A row; numbers are not promised, since old tables may hold text in any column."""
    wanted = (*(column for column in columns if column in table.columns), *table.added())
    properties = {
        argument_name(column): KINDS.get(table.known(column).kind, {})
        for column in dict.fromkeys(wanted)
    }
    return {"type": "object", "properties": properties}
