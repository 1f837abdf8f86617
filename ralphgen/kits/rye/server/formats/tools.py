"""Parses tools and knowledge, and checks items; Python tools are parsed without running them.

The metadata of a Python tool is a JSON object with `version`, `tool_type`, `executor_id`,
`category`, `tags`, `config`, `config_schema` and `env_config`, from literals assigned at the top
level to `__version__`, `CONFIG` and so on. `description` is `__tool_description__` or the first
line of the docstring. `entry` is the function to call: "execute", "main" or None.
"""

from __future__ import annotations

import json
import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.loader import add_packages

from ..spaces import BUILT_IN, DIRECTIVE, KNOWLEDGE, PRIMITIVES, SYSTEM, TOOL
from ..trust import split
from ..values import PARSING_ERROR, VALIDATION_FAILED, preview
from . import MOST_PROBLEMS, Parsed, place, read_yaml, tags_of, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..spaces import Item

_OBJECTS = ("config", "config_schema", "env_config")
LARGEST = 1 << 18  # characters; more take seconds to parse
MOST_FIELDS = 5000  # braces in files with f-strings, which parse in quadratic time
DEEPEST = 100  # nested values
TOO_DEEP = "is nested too deeply"
MOST_BITS = 64  # bits of an integer
FIELDS = {
    "__version__": "version",
    "__tool_type__": "tool_type",
    "__executor_id__": "executor_id",
    "__category__": "category",
    "__tool_description__": "description",
    "__tags__": "tags",
    "CONFIG": "config",
    "CONFIG_SCHEMA": "config_schema",
    "ENV_CONFIG": "env_config",
}
ENTRIES = ("execute", "main")  # the first one defined is called
NO_ENTRY = "no function to call: expected execute(params, project_path) or main(…)"
_CODING = re.compile(r"[ \t\f]*+#.*?coding[:=][ \t]*+([-\w.]++)")
_FORMATTED = re.compile(r"""[fF][rR]?["']""")


def _parsed(text: str, name: str, metadata: dict[str, Any], problems: list[str]) -> Parsed:
    """Return a tool with this metadata; adds problems that prevent running it."""
    problems += [
        f'"{key}" must be an object, found {preview(metadata[key])}'
        for key in _OBJECTS
        if not isinstance(metadata.get(key, {}), dict)
    ]
    executor = metadata.get("executor_id")
    if executor is not None and not isinstance(executor, str):
        problems.append(f'"executor_id" must be a string or null, found {preview(executor)}')
    return Parsed(
        metadata,
        text,
        title=name,
        description=text_of(metadata, "description"),
        tags=tags_of(metadata),
        problems=tuple(problems[:MOST_PROBLEMS]),
    )


def schema_of(parameters: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON Schema for a list of parameters, and the problems of the list."""
    properties: dict[str, Any] = {}
    problems: list[str] = []
    needed: list[str] = []
    for entry in parameters if isinstance(parameters, list) else [None]:
        further = dict(entry) if isinstance(entry, dict) else {}
        name = further.pop("name", None)
        required = further.pop("required", False)
        if not isinstance(name, str) or not name:
            return {}, ['"parameters" must be a list of objects with a "name"']
        if name in properties:
            problems.append(f"duplicate parameter {preview(name)}")
        if not isinstance(required, bool):
            problems.append(
                f'"required" of the parameter {preview(name)} must be true or false, '
                f"found {preview(required)}"
            )
        if required is True:
            needed.append(name)
        properties[name] = {"type": "string", **further}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": needed} if needed else {}), problems


def parse_yaml_tool(text: str, name: str) -> Parsed:
    """Parse a YAML tool from text with line feeds; `name` is its title."""
    metadata, problems = read_yaml(text)
    if not isinstance(metadata, dict):
        why = problems or ["must be a YAML mapping"]
        return Parsed({}, text, title=name, problems=tuple(why))
    if "parameters" in metadata:
        if "config_schema" in metadata:
            problems.append('has both "config_schema" and "parameters": remove one')
        else:
            metadata["config_schema"], wrong = schema_of(metadata["parameters"])
            problems += wrong
    return _parsed(text, name, metadata, problems)


class RefusedPythonError(Exception):
    """Text that is not accepted as Python, or a value outside JSON."""


def parse_python_tool(text: str, name: str) -> Parsed:
    """Parse a Python tool from text with line feeds; `name` is its title."""
    try:
        tree = _tree(text)
    except RefusedPythonError as error:
        return Parsed({}, text, title=name, problems=(str(error),))
    metadata, problems, defined = _assigned(tree, text)
    if "description" not in metadata:
        import ast

        docstring = (ast.get_docstring(tree, clean=False) or "").strip()
        line = docstring.partition("\n")[0].rstrip()
        metadata["description"] = line.encode("utf-8", "replace").decode()
    metadata["entry"] = next((entry for entry in ENTRIES if entry in defined), None)
    return _parsed(text, name, metadata, problems)


def imported_names(text: str) -> set[str]:
    """Return the top-level names of all modules that a Python text imports.

    Raises `RefusedPythonError`.
    """
    import ast

    names: set[str] = set()
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _assigned(tree: ast.Module, text: str) -> tuple[dict[str, Any], list[str], set[str]]:
    """Return the fields, their problems, and all names defined at the top level."""
    metadata: dict[str, Any] = {}
    problems: list[str] = []
    defined: set[str] = set()
    for statement in tree.body:
        for name, value in _definitions(statement):
            defined.add(name)
            if name in FIELDS and len(problems) < MOST_PROBLEMS:
                try:
                    metadata[FIELDS[name]] = _literal(value)
                except RefusedPythonError as error:
                    problems.append(f"{place(text, statement.lineno)}: {preview(name)} {error}")
    return metadata, problems, defined


def _tree(text: str) -> ast.Module:
    """Return the syntax tree of a module; raises `RefusedPythonError`."""
    import ast
    import warnings

    if len(text) > LARGEST:
        raise RefusedPythonError(f"has more than {LARGEST} characters of Python")
    if text.count("{") > MOST_FIELDS and _FORMATTED.search(text):
        raise RefusedPythonError(f'has f-strings and more than {MOST_FIELDS} "{{"')
    for line in text.split("\n", 2)[:2]:
        coding = _CODING.match(line)
        if coding and coding[1].lower().replace("_", "-") not in {"utf-8", "utf8"}:
            raise RefusedPythonError(f"must be UTF-8, found the encoding {preview(coding[1])}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        where = f"{place(text, error.lineno)}: " if error.lineno else ""
        raise RefusedPythonError(f"{where}is not valid Python: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise RefusedPythonError(TOO_DEEP) from error
    except ValueError as error:
        raise RefusedPythonError(f"is not valid Python: {error}") from error


def _definitions(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement binds with their values; None for partial values."""
    import ast

    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name, None
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
            else:
                yield from _changed(target)
    elif isinstance(statement, ast.AnnAssign):
        if isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value
    elif isinstance(statement, ast.AugAssign):
        yield from _changed(statement.target)


def _changed(target: ast.expr) -> Iterator[tuple[str, None]]:
    """Yield the fields that a target modifies or unpacks into."""
    import ast

    pending = [target]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id in FIELDS:
            yield node.id, None
        elif isinstance(node, ast.Tuple | ast.List):
            pending += node.elts
        elif isinstance(node, ast.Starred | ast.Subscript | ast.Attribute):
            pending.append(node.value)


def _literal(node: ast.expr | None, depth: int = 0) -> Any:
    """Return the JSON value of a literal; raises `RefusedPythonError`."""
    import ast

    if depth > DEEPEST:
        raise RefusedPythonError(TOO_DEEP)
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(each, depth + 1) for each in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_key(key) for key in node.keys]
        return dict(zip(keys, [_literal(each, depth + 1) for each in node.values], strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _literal(node.operand, depth + 1)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number
    raise RefusedPythonError("must be a literal, because the tool is not run to read it")


def _key(node: ast.expr | None) -> str:
    """Return the key of a dictionary; raises `RefusedPythonError`."""
    import ast

    key = _constant(node.value) if isinstance(node, ast.Constant) else None
    if not isinstance(key, str):
        raise RefusedPythonError("must be a literal with string keys only")
    return key


def _constant(value: object) -> Any:
    """Return a JSON value; raises `RefusedPythonError`."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
            raise RefusedPythonError("contains an unpaired surrogate")
    elif isinstance(value, bool) or value is None:
        return value
    elif isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise RefusedPythonError(f"contains a number of more than {MOST_BITS} bits")
    elif not isinstance(value, float) or value - value != 0:
        raise RefusedPythonError("contains a value that JSON cannot represent")
    return value


_BLOCK = re.compile(r"((?:#[^\n]*+\n|[ \t]*+\n)*+)```ya?ml[ \t]*+\n")
_OPENING = re.compile(r"\n*+---[ \t]*+\n")
_END = re.compile(r"^---[ \t]*+$", re.MULTILINE)
_BLOCK_END = re.compile(r"^```[ \t]*+$", re.MULTILINE)
LARGEST_SCHEMA = 40_000  # characters, which take a second or two to check
_TEXTS = {
    DIRECTIVE: ("name", "version", "description", "author"),
    TOOL: ("version", "tool_type", "description"),
}
_OF_KNOWLEDGE = ("title", "version")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def parse(item: Item, text: str, bare: str | None = None) -> Parsed:
    """Parse an item from the text of its file.

    `bare` is the text without the signature line, computed if omitted. Raises nothing: the result
    lists the problems with their line numbers in the file.
    """
    bare = split(text, item.extension)[1] if bare is None else bare
    lines_before = text.count("\n") - bare.count("\n")
    text = "\n" * lines_before + bare.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if item.type == DIRECTIVE:
        from .directives import parse_directive

        return parse_directive(text, item.name)
    if item.type == KNOWLEDGE:
        return parse_knowledge(text, item.name)

    if item.extension == ".py":
        return parse_python_tool(text, item.name)
    return parse_yaml_tool(text, item.name)


def require(item: Item, text: str) -> Parsed:
    """Parse an item from the text of its file.

    Raises `CodedError` for any problem that would prevent signing.
    """
    parsed = parse(item, text)
    if parsed.problems:
        raise CodedError(
            PARSING_ERROR,
            f'cannot parse the {item.type} "{item.id}": {parsed.problems[0]}',
            item_id=item.id,
            problems=list(parsed.problems),
        )
    issues, _ = issues_of(item, parsed)
    if issues:
        further = f" (and {len(issues) - 1} more)" if issues[1:] else ""
        raise CodedError(
            VALIDATION_FAILED,
            f'the {item.type} "{item.id}" is not valid: {issues[0]}{further}; fix its file first',
            item_id=item.id,
            issues=issues,
        )
    return parsed


def parse_knowledge(text: str, name: str) -> Parsed:
    """Parse knowledge from text with line feeds; `name` is the default title.

    Its metadata is YAML between two lines `---` at the top, or in a fenced YAML block after at
    most headings. The metadata is returned unchanged, with dates as ISO strings.
    """
    if opening := _OPENING.match(text):
        before, end = "", _END.search(text, opening.end())
    elif opening := _BLOCK.match(text):
        before, end = opening[1], _BLOCK_END.search(text, opening.end())
    else:
        why = 'no metadata: expected YAML between two lines "---" at the top'
        return Parsed({}, text, title=name, problems=(why,))
    if end is None:
        return Parsed(
            {}, text, title=name, problems=('the metadata block is not closed: add a line "---"',)
        )
    lines = text.count("\n", 0, opening.end())
    metadata, problems = read_yaml(text[opening.end() : end.start()], lines)
    if not isinstance(metadata, dict):
        problems = problems or ["the metadata must be key-value pairs"]
        metadata = {}
    return Parsed(
        metadata,
        "\n\n".join(filter(None, (before.strip("\n"), text[end.end() :].strip("\n")))),
        title=text_of(metadata, "title") or name,
        description=text_of(metadata, "description"),
        tags=tags_of(metadata),
        problems=tuple(problems),
    )


def issues_of(item: Item, parsed: Parsed) -> tuple[list[str], list[str]]:
    """Return the issues that prevent signing an item, and the warnings for its author.

    See sections 1 and 6.2 of the reference.
    """
    if parsed.problems:
        return list(parsed.problems), []
    found = parsed.metadata
    issues = [*_common_issues(item, found)]
    warnings: list[str] = []
    if item.type == DIRECTIVE:
        from .directives import input_issues

        issues += input_issues(parsed)
        named = ("model", "permissions")
        warnings += [f"no {preview(key)}" for key in named if not found.get(key)]
    elif item.type == TOOL:
        if "executor_id" not in found:
            issues.append(_missing_field_message(item, "executor_id"))
        elif not (found["executor_id"] or (item.source == SYSTEM and item.id in PRIMITIVES)):
            issues.append('"executor_id" must name the tool that runs this one')
        issues += _schema_issues(found)
        issues += _placeholder_issues(found)
        if item.extension == ".py" and not found.get("entry"):
            warnings.append(f"{NO_ENTRY}, so only tools in its directory can use it, by import")
        properties = found.get("config_schema", {}).get("properties")
        warnings += [
            f"the parameter {preview(name)} is ignored: the server sets a value of that name"
            for name in (properties if isinstance(properties, dict) else ())
            if name in BUILT_IN
        ]
    elif (kind := found.get("entry_type", "")) in ("", None):
        warnings.append('no "entry_type"')
    elif not isinstance(kind, str):
        issues.append(f'"entry_type" must be a string, found {preview(kind)}: put it in quotes')
    return issues, warnings


def _common_issues(item: Item, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the string fields, the name and the category."""
    named = "id" if item.type not in _TEXTS and "id" in found else "name"
    for key in _TEXTS.get(item.type, (named, *_OF_KNOWLEDGE)):
        value = found.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            yield _missing_field_message(item, key)
        elif key == "version":
            if not isinstance(value, str) or not _VERSION.fullmatch(value):
                yield f'"version" must be X.Y.Z, found {preview(value)}'
        elif not isinstance(value, str):
            yield f"{preview(key)} must be a string, found {preview(value)}: put it in quotes"
        elif key == named and value != item.name:
            yield (
                f"{preview(key)} must be {preview(item.name)} to match the file name, found "
                f"{preview(value)}"
            )
    if "category" not in found:
        if item.type in _TEXTS:
            yield _missing_field_message(item, "category")
    elif (category := found["category"] or "") != item.category:
        expected = "must be empty, because the file is at the top level"
        if item.category:
            expected = f"must be {preview(item.category)} to match the directory"
        yield f'"category" {expected}, found {preview(category)}'


def _missing_field_message(item: Item, key: str) -> str:
    """Return the message for a missing field; for a Python tool, with the fix."""
    text = f"missing required field {preview(key)}"
    if item.extension != ".py":
        return text

    (name,) = (name for name, field in FIELDS.items() if field == key)
    text += f": set {name} at the top level of the file"
    if key == "description":
        text += ", or add a module docstring"
    return text


def _placeholder_issues(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of config placeholders without a parameter or built-in value."""
    from ..values import declared, placeholders, unfilled

    known = {*BUILT_IN, *declared(found.get("config_schema"))}
    texts = [found.get("config"), found.get("env_config", {}).get("env")]
    for name in dict.fromkeys(placeholders(texts)):
        if name not in known:
            yield unfilled(name, known)


def _schema_issues(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the parameter schema (JSON Schema, Draft 2020-12)."""
    if "config_schema" not in found:
        return
    add_packages()
    from jsonschema import Draft202012Validator, SchemaError

    schema = found["config_schema"]
    if schema.get("type") != "object":
        yield f'"config_schema" must have the type "object", found {preview(schema.get("type"))}'
        return
    if (written := len(json.dumps(schema))) > LARGEST_SCHEMA:
        yield (
            f'"config_schema" has {written:,} characters: shorten it to at most {LARGEST_SCHEMA:,}'
        )
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in ("config_schema", *error.absolute_path))
        yield f"{preview(where)} is not a valid JSON Schema: {error.message[:200]}"
    except RecursionError:
        yield '"config_schema" is nested too deeply'
