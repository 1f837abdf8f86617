"""What the signature of a Python function says of a tool, from its syntax tree alone."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
KINDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
VALUES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
LISTS = {"list", "List", "Sequence"}
OBJECTS = {"dict", "Dict", "Mapping"}
PLAIN: Mapping[str, Schema] = {
    **{name: {"type": kind} for name, kind in KINDS.items()},
    **{name: {"type": "array"} for name in LISTS},
    **{name: {"type": "object"} for name in OBJECTS},
    "Any": {},
}
"""The schemas of annotations that are a name."""
TELLABLE = "str, int, float, bool, Literal, list, dict[str, …], or any of these or None"


class UntoldError(Exception):
    """A part of a signature does not say what a tool takes; `line` is where it stands."""

    def __init__(self, node: ast.AST, text: str) -> None:
        super().__init__(text)
        self.line: int = getattr(node, "lineno", 1)


@dataclass(frozen=True, slots=True)
class OwnParameter:
    """An argument of a function: its JSON Schema as JSON text, and whether it must be given."""

    name: str
    schema: str
    required: bool


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[OwnParameter]:
    """Return the arguments that callers give, without the first one, which is the project.

    Raises `UntoldError` for what cannot be said as a JSON Schema.
    """
    named = function.args
    for extra in (named.vararg, named.kwarg):
        if extra is not None:
            raise UntoldError(extra, f'"{extra.arg}" accepts any arguments: declare each one')
    places = [*named.posonlyargs, *named.args]
    if not places or not _is_project(places[0].annotation):
        raise UntoldError(function, 'the first parameter is not "project: Project"')
    for one in named.posonlyargs[1:]:
        raise UntoldError(one, f'"{one.arg}" is positional-only: remove the "/"')
    defaults: list[ast.expr | None] = [None] * (len(places) - len(named.defaults))
    pairs = [*zip(places, [*defaults, *named.defaults], strict=True)][1:]
    pairs += zip(named.kwonlyargs, named.kw_defaults, strict=True)
    return [_parameter(argument, default) for argument, default in pairs]


def answer_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Schema:
    """Return the schema of what a function returns, empty for any value, which None is one of.

    Raises `UntoldError` where it has no annotation, or one that says nothing.
    """
    if function.returns is None:
        raise UntoldError(function, "the return type is not annotated")
    if isinstance(function.returns, ast.Constant) and function.returns.value is None:
        return {}
    schema, may_be_none = _schema(function.returns)
    return {} if may_be_none else schema


def _is_project(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2] == "Project"
    return annotation is not None and _name(annotation) == "Project"


def _parameter(argument: ast.arg, default: ast.expr | None) -> OwnParameter:
    """Return one argument; raises `UntoldError`."""
    if argument.annotation is None:
        raise UntoldError(argument, f'"{argument.arg}" has no annotation')
    schema, may_be_none = _schema(argument.annotation)
    if default is not None:
        value = _default(argument, default)
        if value is None and schema and not may_be_none:
            text = f'"{argument.arg}" is None by default, which its annotation does not allow'
            raise UntoldError(default, text)
        if value is not None:
            _refuse_unlike(argument, default, value, schema)
            schema = {**schema, "default": value}
    is_required = default is None and not may_be_none
    return OwnParameter(argument.arg, json.dumps(schema), is_required)


def _default(argument: ast.arg, default: ast.expr) -> Any:
    try:
        value = ast.literal_eval(default)
        json.dumps(value, allow_nan=False).encode()
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        text = f'the default of "{argument.arg}" is not a JSON value'
        raise UntoldError(default, text) from error
    return value


def _refuse_unlike(argument: ast.arg, node: ast.expr, value: object, schema: Schema) -> None:
    """Raise `UntoldError` for a default that the argument itself could not have."""
    kind = schema.get("type")
    fits = kind is None or type(value) in VALUES[kind]
    if not fits or value not in schema.get("enum", [value]):
        text = f'the default of "{argument.arg}" is {value!r}, which its annotation does not allow'
        raise UntoldError(node, text)


def _name(node: ast.expr) -> str:
    """Return the last part of a name such as `typing.Literal`; empty for all else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _schema(node: ast.expr) -> tuple[Schema, bool]:
    """Return the schema of an annotation, and whether it may be None; raises `UntoldError`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _schema(_parsed(node, node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either(node, [node.left, node.right])
    name = _name(node)
    if name in PLAIN:
        return dict(PLAIN[name]), False
    if isinstance(node, ast.Subscript):
        return _subscripted(node)
    raise UntoldError(node, f"unsupported type {ast.unparse(node)}: expected {TELLABLE}")


def _parsed(node: ast.Constant, text: str) -> ast.expr:
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UntoldError(node, f"{text!r} is not a valid annotation") from error
    for inner in ast.walk(found):
        if hasattr(inner, "lineno"):
            inner.lineno = node.lineno
    return found


def _either(node: ast.expr, parts: list[ast.expr]) -> tuple[Schema, bool]:
    """Return what one type or None comes to; raises `UntoldError` for more types than one."""
    others = [one for one in parts if not (isinstance(one, ast.Constant) and one.value is None)]
    if len(others) != 1:
        text = f"{ast.unparse(node)} is more than one type: expected {TELLABLE}"
        raise UntoldError(node, text)
    return _schema(others[0])[0], len(parts) > 1


def _subscripted(node: ast.Subscript) -> tuple[Schema, bool]:
    """Return the schema of `name[inner]`; raises `UntoldError`."""
    name = _name(node.value)
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        return _literal(node, inner)
    if name == "Optional" and len(inner) == 1:
        return _schema(inner[0])[0], True
    if name == "Union":
        return _either(node, inner)
    if name in LISTS and len(inner) == 1:
        items = _held(inner[0])
        return {"type": "array", **({"items": items} if items else {})}, False
    if name in OBJECTS and len(inner) == len(("key", "value")) and _name(inner[0]) == "str":
        values = _held(inner[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}, False
    raise UntoldError(node, f"unsupported type {ast.unparse(node)}: expected {TELLABLE}")


def _held(node: ast.expr) -> Schema:
    """Return the schema of what a list or an object holds: empty where that may be None."""
    schema, may_be_none = _schema(node)
    return {} if may_be_none else schema


def _literal(node: ast.Subscript, inner: list[ast.expr]) -> tuple[Schema, bool]:
    """Return the schema of the values of a `Literal`, which are of one kind; or None."""
    try:
        found = [ast.literal_eval(one) for one in inner]
    except (ValueError, TypeError) as error:
        raise UntoldError(node, f"{ast.unparse(node)} must contain only literals") from error
    values = [*dict.fromkeys(value for value in found if value is not None)]
    for kind in ("string", "integer"):
        if values and all(type(value) in VALUES[kind] for value in values):
            return {"type": kind, "enum": values}, None in found
    raise UntoldError(node, f"{ast.unparse(node)} must contain only strings or only integers")
