"""The fields of a task as a form has them: a stored value as text, and a typed text as a value."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ralphgen.agents.calls import stored_column, typed
from ralphgen.board.requests import Form
from ralphgen.runtime.tasks.rows import decode_integers, decode_strings, plain

WAS, MORE = "was.", ".more"
"""What stands before a field's name where a form says what was read, and after, what to add."""
NEVER = ("id", "task_id", "clear", "status")
"""Arguments that are no fields to edit: a status has a form of its own."""
ONE_LINE = ("title", "author")
_UNSPEAKABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of a form: `text` is what stands in it, and `was` what is stored.

    `kind` is line, text, list, ids, number, choice or flag; `choices` are the values of a choice,
    `needed` says that it may not be empty.
    """

    name: str
    kind: str
    text: str = ""
    was: str = ""
    choices: tuple[str, ...] = ()
    needed: bool = False

    @property
    def label(self) -> str:
        """Return the name as people say it."""
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that somebody else has changed: as it was read, as it is now, and as it was typed."""

    label: str
    read: str
    now: str
    typed: str

    @property
    def both(self) -> bool:
        """Return whether whoever typed has changed it too, so that one of the two has to go."""
        return self.typed != self.read


def fields_for(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form | None = None
) -> tuple[EditField, ...]:
    """Return the fields that a tool can set, with what a row holds, or a form says.

    `schema` is the input schema of the tool.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    needed = schema.get("required", ())
    found = []
    for name, rule in properties.items():
        if name in NEVER:
            continue
        stored = spelled(row.get(stored_column(name, rule)), rule)
        field = EditField(name, _kind(name, rule, stored), stored, stored, needed=name in needed)
        field = replace(field, choices=tuple(map(str, rule.get("enum", ()))))
        found.append(field if given is None else _as_typed(field, given))
    return tuple(found)


def _as_typed(field: EditField, given: Form) -> EditField:
    """Return a field as a form says it; what nobody has typed there is what is stored by now."""
    read = _said(given, f"{WAS}{field.name}", field.was)
    text = _said(given, field.name, read)
    return replace(field, text=field.was if text == read else text)


def conflicts(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> tuple[FieldConflict, ...]:
    """Return the fields of a form that somebody else has changed since they were read.

    Those that both have changed come first.
    """
    found = (
        FieldConflict(
            field.label, _said(given, f"{WAS}{field.name}", field.was), field.was, typed_text
        )
        for field in fields_for(schema, row)
        for typed_text in [_said(given, field.name, field.was)]
    )
    changed = (one for one in found if one.now not in (one.read, one.typed))
    return tuple(sorted(changed, key=lambda one: not one.both))


def columns_read(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> dict[str, object]:
    """Return what a row holds in the columns of a form's fields, as `RowAsRead` has it."""
    names = {name.removeprefix(WAS) for name in given.names}.difference(NEVER)
    properties: Mapping[str, Any] = schema.get("properties", {})
    columns = (stored_column(name, properties[name]) for name in properties if name in names)
    return {column: plain(row[column]) for column in columns if column in row}


def fingerprint(fields: Sequence[EditField]) -> str:
    """Return what differs when something else is stored in one of the fields."""
    return sha256(repr([(field.name, field.was) for field in fields]).encode()).hexdigest()[:16]


def said(given: Form | None) -> Mapping[str, str]:
    """Return what was sent in each field, by its name; nothing where no form was."""
    return {} if given is None else {name: given.texts(name)[-1] for name in given.names}


def with_more(given: Form) -> Form:
    """Return a form in which what is to be added to a field stands in that field."""
    pairs = [(name, text) for name in given.names for text in given.texts(name)]
    more = {name: _said(given, f"{name}{MORE}", "") for name in given.names}
    return Form(
        tuple((name, f"{text}, {more[name]}" if more[name] else text) for name, text in pairs)
    )


def _said(given: Form, name: str, other: str) -> str:
    """Return what a form says in a field, or else the other text."""
    return (*given.texts(name)[-1:], other)[0]


def _kind(name: str, rule: Mapping[str, Any], stored: str) -> str:
    if rule.get("enum"):
        return "choice"
    kind = rule.get("type")
    if kind == "array":
        return "ids" if rule.get("items", {}).get("type") == "integer" else "list"
    if kind in ("integer", "number"):
        return "number"
    if kind == "boolean":
        return "flag"
    return "line" if name in ONE_LINE and "\n" not in stored else "text"


def spelled(value: object, rule: Mapping[str, Any]) -> str:
    """Return a stored value as a form has it; a list that cannot be read is as it is stored.

    A list has an item on each line, or is JSON where an item could be taken for something else.
    """
    text = "" if value is None else str(plain(value))
    if rule.get("type") == "array":
        of_ids = rule.get("items", {}).get("type") == "integer"
        found = decode_integers(value) if of_ids else decode_strings(value)
        if found.readable:
            items = list(map(str, found.values))
            fits = all(item == item.strip() and item and "\n" not in item for item in items)
            text = (", " if of_ids else "\n").join(items)
            if not of_ids and (not fits or text.startswith("[")):
                text = json.dumps(items, ensure_ascii=False) if items else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_UNSPEAKABLE)


def value_of(text: str, rule: Mapping[str, Any]) -> object:
    """Return the value of a typed text; where it is none of its type, the tool says so."""
    if rule.get("type") != "array" or text.lstrip().startswith("["):
        return typed({"": text}, {"": rule})[""]
    items: Mapping[str, Any] = rule.get("items", {})
    of_ids = items.get("type") == "integer"
    parts = re.split(r"[\s,;#]+", text) if of_ids else text.split("\n")
    return [typed({"": part.strip()}, {"": items})[""] for part in parts if part.strip()]


def changes_of_form(
    schema: Mapping[str, Any], row: Mapping[str, object], given: Form
) -> dict[str, Any]:
    """Return the arguments that make a row what a form says: only what differs from the row."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    changes: dict[str, Any] = {}
    emptied: list[str] = []
    for field in fields_for(schema, row):
        texts = given.texts(field.name)
        if not texts or texts[-1] == field.text:
            continue
        text = texts[-1]
        if not text.strip() and "clear" in properties and field.name != "title":
            emptied.append(field.name)
        else:
            changes[field.name] = value_of(text, properties[field.name])
    return {**changes, "clear": emptied} if emptied else changes


def given_values(schema: Mapping[str, Any], given: Form) -> dict[str, Any]:
    """Return the arguments that a form fills in; an empty field is left out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    texts = {name: given.texts(name)[-1] for name in properties if given.texts(name)}
    return {name: value_of(text, properties[name]) for name, text in texts.items() if text.strip()}
