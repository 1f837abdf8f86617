"""Reads the project's own tools: their files, and the signatures of their functions."""

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError, suggestion
from ralphgen.files import MARK, collected, decoded, files_by_suffix, linkless_bytes
from ralphgen.project.config import LONGEST_SENTENCE, Config
from ralphgen.project.model import OwnTool
from ralphgen.project.toml import TomlFile

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
    """A part of a signature does not describe the tool's input; `line` is its location."""

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
    """Return the arguments that callers pass, without the first one, which is the project.

    Raises `UntoldError` for an argument that JSON Schema cannot express.
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
    """Return the schema of a function's result; empty for any value, including None.

    Raises `UntoldError` if the annotation is missing or too vague.
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
            kind = schema.get("type")
            fits = kind is None or type(value) in VALUES[kind]
            if not fits or value not in schema.get("enum", [value]):
                text = f'the default of "{argument.arg}" is {value!r}, which its annotation'
                raise UntoldError(default, f"{text} does not allow")
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


def _name(node: ast.expr) -> str:
    """Return the last part of a name such as `typing.Literal`; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _schema(node: ast.expr) -> tuple[Schema, bool]:
    """Return the schema of an annotation, and whether it may be None; raises `UntoldError`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            found = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UntoldError(node, f"{node.value!r} is not a valid annotation") from error
        for inner in ast.walk(found):
            if hasattr(inner, "lineno"):
                inner.lineno = node.lineno
        return _schema(found)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either(node, [node.left, node.right])
    name = _name(node)
    if name in PLAIN:
        return dict(PLAIN[name]), False
    if isinstance(node, ast.Subscript):
        return _subscripted(node)
    raise UntoldError(node, f"unsupported type {ast.unparse(node)}: expected {TELLABLE}")


def _either(node: ast.expr, parts: list[ast.expr]) -> tuple[Schema, bool]:
    """Return the schema of one type or None; raises `UntoldError` for several types."""
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
        items = _item_schema(inner[0])
        return {"type": "array", **({"items": items} if items else {})}, False
    if name in OBJECTS and len(inner) == len(("key", "value")) and _name(inner[0]) == "str":
        values = _item_schema(inner[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}, False
    raise UntoldError(node, f"unsupported type {ast.unparse(node)}: expected {TELLABLE}")


def _item_schema(node: ast.expr) -> Schema:
    """Return the schema of the items of a list or an object: empty if they may be None."""
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


FOLDER = ".ralph/tools"
SUFFIX = ".py"
LONGEST = 200_000  # bytes of a file
MOST = 200  # tools, which is far more than any model heeds
MOST_PARAMETERS = 50
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
TAKEN = "clear"  # an argument that means something to every tool
ABOUT = re.compile(r"(\w+)\s*:\s+(\S.*)")
ROW_KEYS = {"task": "integer", "feature": "string", "discipline": "string"}
READS, WRITES, ANYTHING = "READ_ONLY", "NON_DESTRUCTIVE", "OPEN_WORLD"
WORDS = {
    "adds": WRITES,
    "idempotent": "IDEMPOTENT",
    "destructive": "DESTRUCTIVE",
    "open_world": ANYTHING,
}
"""The arguments of `@writes("…")`, and the resulting hints for clients."""

NO_TOOLS: tuple[OwnTool, ...] = ()

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class ToolFile:
    """One file of tools: its path from the project's folder, its text, its sha256."""

    path: str
    text: str
    sha256: str


def tool_files(root: Path) -> tuple[ToolFile, ...]:
    """Return the project's tool files, sorted; empty if the folder does not exist.

    A file whose name begins with "." or "_" is skipped. Raises `ProjectError` with every file that
    cannot be read, is a link, is too long or not UTF-8.
    """
    files: list[ToolFile] = []
    problems: list[Problem] = []
    for name in files_by_suffix(root, FOLDER, SUFFIX):
        if not name.startswith("_"):
            with collected(problems):
                shown = f"{FOLDER}/{name}"
                data = linkless_bytes(root, shown, LONGEST, "split it")
                files.append(
                    ToolFile(
                        shown, decoded(data, shown).removeprefix(MARK), sha256(data).hexdigest()
                    )
                )
    if problems:
        raise ProjectError.of(problems)
    return tuple(files)


def read_own_tools(root: Path, config: TomlFile[Config]) -> tuple[OwnTool, ...]:
    """Return the tools of the project's files, in their order there.

    Raises `ProjectError` with a problem for each tool that cannot be described to clients, and for
    each table of the config without a tool.
    """
    tools: dict[str, OwnTool] = {}
    known: dict[str, str] = {}  # the location of each name; letter case does not distinguish tools
    problems: list[Problem] = []
    for file in tool_files(root):
        try:
            found = _functions(file)
        except ProjectError as error:
            problems.extend(error.problems)
            continue
        for function in found:
            where = f"{file.path}:{function.lineno}"
            if place := known.get(function.name.lower()):
                text = f'{where}: duplicate tool "{function.name}"'
                problems.append(Problem(text, f"it is also defined at {place}"))
                continue
            known[function.name.lower()] = where
            try:
                tools[function.name] = _tool(file, function)
            except UntoldError as error:
                text = f'{file.path}:{error.line}: "{function.name}": {error}'
                hint = 'if it is not a tool, start its name with "_"'
                problems.append(Problem(text, hint))
    if len(tools) > MOST:
        text = f"{FOLDER}: contains {len(tools):,} tools, expected at most {MOST}"
        problems.append(Problem(text, "combine several tools into one"))
    for name in config.values.own_tools:
        if name not in tools and not problems:
            text = f'{config.place("own_tools", name)}: there is no tool "{name}" in {FOLDER}'
            problems.append(Problem(text, suggestion(name, tools, "the tools")))
    settled = [_settled(tool, config) for tool in tools.values()]
    problems += [problem for tool in settled for problem in _misfits(tool)]
    if problems:
        raise ProjectError.of(problems)
    return tuple(settled)


def _settled(tool: OwnTool, config: TomlFile[Config]) -> OwnTool:
    """Return a tool with its settings from the config."""
    settings = config.values.own_tools.get(tool.name)
    if settings is None:
        return tool
    return replace(
        tool,
        place=config.place("own_tools", tool.name),
        recipes=tuple(dict.fromkeys(settings.recipes)),
        interactive=settings.interactive,
        seconds=settings.seconds,
        bind=tuple(settings.bind.items()),
    )


def _misfits(tool: OwnTool) -> Iterator[Problem]:
    """Yield the settings of a tool that its function cannot support."""
    if tool.recipes and not tool.decorated:
        text = f'{tool.place}: "{tool.name}" has no @reads or @writes, which recipes require'
        yield Problem(text, f"decorate the function at {tool.origin}")
    kinds = {name: json.loads(schema).get("type") for name, schema, _ in tool.parameters}
    for name, row in tool.bind:
        if name not in kinds:
            text = f'{tool.place}: "{tool.name}" has no argument "{name}" to bind'
            yield Problem(text, suggestion(name, kinds, "the arguments"))
        elif kinds[name] != ROW_KEYS[row]:
            text = f'{tool.place}: "{name}" of "{tool.name}" cannot be bound to a {row}'
            yield Problem(text, f"give it the type {ROW_KEYS[row]} at {tool.origin}")


def _functions(file: ToolFile) -> list[Function]:
    """Return the functions at the top of a file whose names do not begin with "_"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.text)
            compile(tree, file.path, "exec", dont_inherit=True)  # finds more errors
    except SyntaxError as error:
        text = f"{file.path}:{error.lineno or 1}: invalid Python: {error.msg}"
        raise ProjectError(text, "fix the file by hand") from error
    except (ValueError, RecursionError, MemoryError) as error:
        text = f"{file.path}:1: invalid Python: {error or 'it is nested too deeply'}"
        raise ProjectError(text, "fix the file by hand") from error
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
    ]


def _tool(file: ToolFile, function: Function) -> OwnTool:
    """Return the tool that a function declares; raises `UntoldError`."""
    if not NAME.fullmatch(function.name):
        text = "invalid tool name: use at most 64 ASCII letters, digits and _"
        raise UntoldError(function, text)
    parameters = parameters_of(function)
    if len(parameters) > MOST_PARAMETERS:
        text = f"it has {len(parameters)} arguments, expected at most {MOST_PARAMETERS}"
        raise UntoldError(function, text)
    for one in parameters:
        if not NAME.fullmatch(one.name) or one.name == TAKEN:
            raise UntoldError(function, f'invalid argument name "{one.name}"')
    sentence, about = _docstring_parts(function, parameters)
    return OwnTool(
        name=function.name,
        file=file.path.removeprefix(f"{FOLDER}/"),
        sha256=file.sha256,
        sentence=sentence,
        parameters=tuple((one.name, one.schema, one.required) for one in parameters),
        about=tuple(about.items()),
        returns=json.dumps(answer_of(function)),
        hints=_hints(function),
        decorated=bool(function.decorator_list),
        origin=f"{file.path}:{function.lineno}",
    )


def _docstring_parts(
    function: Function, parameters: list[OwnParameter]
) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and the description of each argument.

    An argument's entry is its name, a colon and words. It continues on the following lines until
    the next entry or a blank line.
    """
    text = ast.get_docstring(function)
    if not text or not text.strip():
        raise UntoldError(function, "it has no docstring")
    first, _, rest = text.strip().partition("\n\n")
    names = {one.name for one in parameters}
    about: dict[str, str] = {}
    current = ""
    for line in rest.splitlines():
        found = ABOUT.fullmatch(line.strip())
        if found and found[1] in names:
            current = found[1]
            about[current] = found[2]
        elif current and line.strip():
            about[current] += f" {line.strip()}"
        else:
            current = ""
    told = {name: " ".join(words.split()) for name, words in about.items()}
    sentence = " ".join(first.split())
    for words in (sentence, *told.values()):
        if not words.isprintable():
            raise UntoldError(function, "its docstring contains unprintable characters")
        if len(words.encode()) > LONGEST_SENTENCE:
            size = f"{len(words.encode()):,} bytes, expected at most {LONGEST_SENTENCE:,}"
            raise UntoldError(function, f"a sentence of its docstring has {size}")
    return sentence, told


def _hints(function: Function) -> str:
    """Return the declared effects of a tool, from its decorator; raises `UntoldError`."""
    if not function.decorator_list:
        return ANYTHING
    if len(function.decorator_list) > 1:
        raise UntoldError(function.decorator_list[1], "it has more than one decorator")
    (one,) = function.decorator_list
    called = one if isinstance(one, ast.Call) else None
    named = called.func if called else one
    name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
    if name == "reads" and called is None:
        return READS
    if name == "writes" and called is None:
        return WRITES
    arguments = [*called.args, *called.keywords] if called and name == "writes" else []
    if len(arguments) == 1 and isinstance(arguments[0], ast.Constant):
        word = str(arguments[0].value)
        if word in WORDS:
            return WORDS[word]
    expected = ", ".join(f'@writes("{word}")' for word in WORDS)
    text = f"invalid decorator {ast.unparse(one)}: expected @reads, @writes or {expected}"
    raise UntoldError(one, text)
