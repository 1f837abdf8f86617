"""The modules of this repository as syntax trees, and their imports."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ralphgen.kits.registry import KITS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ralphgen"
RUNTIME = PACKAGE / "runtime"
MODULES = sorted(PACKAGE.rglob("*.py"))
SERVERS = [PACKAGE / "kits" / kit.key / "server" for kit in KITS]
KIT_KEYS = [kit.key for kit in KITS]


def name_of(path: Path) -> str:
    """The path below the repository, for messages."""
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), name_of(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The whole tree of a module of ours, walked once."""
    return list(ast.walk(parsed(path)))


def imported(tree: Iterable[ast.AST]) -> Iterator[str]:
    """The names of imported modules; relative ones begin with dots."""
    for node in tree:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            if node.module is None:
                yield from ("." * node.level + alias.name for alias in node.names)


def absolute(path: Path, module: str) -> str:
    """Return the full name of an imported module, given the name in the import of `path`."""
    dots = len(module) - len(module.lstrip("."))
    if not dots:
        return module
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([*parts[: len(parts) - dots], module.lstrip(".")]).rstrip(".")


def forget() -> None:
    """Keep no tree any longer: a million nodes slow every look for garbage after them."""
    parsed.cache_clear()
    nodes.cache_clear()
