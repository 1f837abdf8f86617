"""Patterns of files in the settings: their syntax, and the files that they match."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

from ralphgen.errors import Problem
from ralphgen.project.config import Config
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.files.protection import pattern_of

_SET = re.compile(r"\[[!^]?(\]?[^\]/]*)\]")
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_SPECIAL = re.compile(r"[*?[]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|[^{}]+\.\.[^{}]+)\}")
# Syntax of other programs, outside of sets, and another way to write it.
_FOREIGN = (
    (r"\A!", 'list the files without exceptions; for a name with "!" write "?"'),
    (r"\A:[(!^]", "write the path alone, and a pattern for each path"),
    (r"\A~/", "write a path below the project: no other file can match"),
    (r"[@!?*+]\([^()]*\)", 'write a pattern for each name; for a name with "(" write "[(]"'),
    (r"\[", 'close it, as in "[qr]"; for a name with "[" write "[[]"'),
)
# Directories with copies of the project, or with files that no pattern is for.
_OWN = (".ralph/backups", ".ralph/db", ".ralph/mcp", ".ralph/sessions", ".ralph/worktrees")


def pattern_problems(config: TomlFile[Config]) -> list[Problem]:
    """Return the patterns with a syntax of other programs, each with another way to write it.

    Without this, such a pattern would match no file and protect nothing.
    """
    problems = []
    for key, at, glob in _patterns(config):
        if found := unsupported(glob):
            part, hint = found
            text = f"unsupported {_quoted(part)} in the pattern {_quoted(glob)}"
            problems.append(Problem(f"{config.place(*key, at)}: {text}", hint))
    return problems


def unsupported(glob: str) -> tuple[str, str] | None:
    """Return the unsupported part of a pattern and a hint, None if it has none."""
    outside = _SET.sub(lambda found: "x" * len(found[0]), glob)
    for foreign, hint in _FOREIGN:
        if found := re.search(foreign, outside):
            return found[0], hint
    if braces := _BRACES.search(outside):
        start, end = braces.span()
        names = glob[start + 1 : end - 1].split(",")
        each = ", ".join(_quoted(f"{glob[:start]}{name}{glob[end:]}") for name in names)
        hint = f"write {each}" if len(names) > 1 else "write a pattern for each name"
        return glob[start:end], f'{hint}; for a name with "{{" write "[{{]"'
    for found in _SET.finditer(glob):
        if not found[1] or found[1].startswith(("[:", "[.", "[=")):
            return found[0], 'name the characters, as in "[a-z]"; for a name with "[" write "[[]"'
        if any(first > last for first, last in _RANGE.findall(found[1])):
            return found[0], 'write the first character of a range first, as in "[a-z]"'
    return None


def pattern_notes(root: Path, config: TomlFile[Config]) -> Iterator[str]:
    """Yield a sentence for each pattern that matches no file, or a link but not its target."""
    everything = cache(lambda: [*_files(root, "")])
    patterns = [(*one, pattern_of(one[2], str(root))) for one in _patterns(config)]
    for key, at, glob, pattern in patterns:
        where = f"{config.place(*key, at)}: {_quoted(glob)}"
        start = "/".join(takewhile(lambda part: not _SPECIAL.search(part), glob.split("/")))
        files = [*_files(root, start)] if start else everything()
        matches = [path for path in files if pattern.match(path)]
        above = [path.as_posix() for path in Path(start).parents][-2::-1]
        same = [one for other, _, _, one in patterns if other == key]
        for path in (*above, *matches) if key[0] == "done" else ():
            target = (
                None
                if not (root / path).is_symlink()
                else os.path.relpath(os.path.realpath(root / path), os.path.realpath(root))
            )
            if target and not any(one.match(target) for one in same):
                yield f"{where} matches the link {_quoted(path)}, not its target {_quoted(target)}"
                break
        else:
            if not matches:
                yield f"{where} matches no file{_other_case(glob, everything())}"


def _patterns(config: TomlFile[Config]) -> Iterator[tuple[tuple[str, str], int, str]]:
    """Yield the key of each list of patterns, the position of the pattern there, and its text."""
    done, loop = config.values.done, config.values.loop
    for key, globs in (
        (("done", "protect"), done.protect),
        (("done", "watch"), done.watch or ()),
        (("loop", "copy"), loop.copy_files),
        (("loop", "setup_when"), loop.setup_when),
    ):
        for at, glob in enumerate(globs):
            yield key, at, glob


def _files(root: Path, start: str) -> Iterator[str]:
    """Yield the files and links below a directory, or the file itself; no link is followed."""
    if not (root / start).is_dir() or (root / start).is_symlink():
        if os.path.lexists(root / start):
            yield start
        return
    for place, folders, files in os.walk(root / start):
        at = os.path.relpath(place, root)
        paths = {name: name if at == "." else f"{at}/{name}" for name in (*folders, *files)}
        links = {name for name in folders if Path(place, name).is_symlink()}
        yield from (paths[name] for name in (*files, *links))
        entered = (name for name in folders if name != ".git" and paths[name] not in _OWN)
        folders[:] = sorted({*entered} - links)


def _other_case(glob: str, paths: Iterable[str]) -> str:
    """Return the file that a pattern would match in another case, as the end of a sentence."""
    pattern = pattern_of(glob.casefold())
    near = next((path for path in paths if pattern.match(path.casefold())), None)
    return f"; the case of {_quoted(near)} differs" if near is not None else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
