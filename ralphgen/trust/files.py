"""Lists the files of a project that can start a program or instruct an agent, in two kinds.

Authority decides what a session may do: settings, everything below `.ralph` but its state, and the
settings of clients. Content is what agents read or run in the course of their work.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralphgen.runtime.files.main_tree import tree_top
from ralphgen.runtime.files.protection import (
    CLIENT_FILES,
    CLIENT_FOLDERS,
    CLIENT_PARTS,
    RALPH,
    is_client_setting,
)

# Below `.ralph`: what ralphgen writes there while work is done.
STATE = frozenset(
    {
        *("backups", "db", "last-export.jsonl", "learnings.txt", "progress.txt", "sessions"),
        *("trust", "worktrees"),
    }
)
# Below `.ralph`: what ralphgen compares itself, what is an item of another kind, and what no
# session reads.
COVERED = re.compile(
    r"\.ralph/(?:ralphgen\.toml|(?:mcp|schemas)(?:/.*)?|recipes/[^/]+\.toml|prompts/[^/]+\.md"
    r"|tools/[^/_.][^/]*\.py|(?:.*/)?(?:\.lock|\.gitignore|\.gitattributes|__pycache__(?:/.*)?))",
    re.DOTALL,
)
ENVIRONMENT = ".env"  # some clients and runners load it, and what its name begins
PRUNED = frozenset({".git", RALPH, "node_modules"})
LOCKS = ".lock"
CLIENT_INNER = (".claude/", ".github/")  # above a project, instructions are in these too
INSTRUCTIONS = frozenset(
    {
        *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"),
        *("agent.md", "crush.md", "iflow.md", "qwen.md", "copilot-instructions.md"),
        *(".clinerules", ".cursorrules", ".goosehints", ".roorules", ".rules", ".windsurfrules"),
    }
)
TASKS = frozenset(
    {
        *("gnumakefile", "makefile", "cmakelists.txt", "justfile", ".justfile"),
        *("package.json", "turbo.json", "pyproject.toml", "pom.xml", "mvnw", "gradlew"),
        *("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        *("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
        *("compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"),
        *("compose.override.yml", "compose.override.yaml"),
        *("docker-compose.override.yml", "docker-compose.override.yaml"),
    }
)
SCRIPT = ".sh"
ITEMS = ".ai"
SKILL_FOLDERS = (".claude/skills", ".agents/skills")


def is_authority(path: str) -> bool:
    """Return whether a path, with `/` between its parts, is a file of authority at any depth."""
    parts = path.casefold().split("/")
    for at, part in enumerate(parts):
        below = parts[at + 1 :]
        is_state = below[:1] and (below[0] in STATE or below[:2] == ["mcp", "sessions"])
        if part == ".git" or (part == RALPH and not is_state):
            return True
    return is_client_setting(path)


def is_content(path: str) -> bool:
    """Return whether a path is a file of content at any depth, and not of authority."""
    *folders, name = path.casefold().split("/")
    if is_authority(path):
        return False
    is_environment = name == ENVIRONMENT or name.startswith(f"{ENVIRONMENT}.")
    named = name in INSTRUCTIONS or name in TASKS or name.endswith(SCRIPT) or is_environment
    return named or _has_items(folders)


def _has_items(folders: Sequence[str]) -> bool:
    """Return whether every file in a folder counts, given the parts of its path."""
    around = f"/{'/'.join(folders)}/"
    return ITEMS in folders or any(f"/{one}/" in around for one in SKILL_FOLDERS)


def authority_files(root: Path) -> list[str]:
    """Return the files below `.ralph` that are no state and that no other item covers, sorted."""
    found = []
    for folder, folders, names in os.walk(root / RALPH):
        place = os.path.relpath(folder, root).replace(os.sep, "/")
        folders[:] = [one for one in folders if _is_uncovered(f"{place}/{one}")]
        found += [path for name in names if _is_uncovered(path := f"{place}/{name}")]
    return sorted(path for path in found if (root / path).is_file())


def _is_uncovered(path: str) -> bool:
    return is_authority(path) and not COVERED.fullmatch(path)


def client_files(tree: Path) -> list[str]:
    """Return the files from which clients take settings in a work tree, sorted.

    Some clients take settings from the folders above too, up to the top of the repository.
    """
    tops, found = (*CLIENT_PARTS, *CLIENT_FOLDERS), set[str]()
    for place, way in (tree, ""), *_above(tree):
        inner = [path for top in tops for path in _below(place, top) if is_authority(path)]
        names = [name for name in _names(place) if name.casefold() in CLIENT_FILES]
        found |= {f"{way}{path}" for path in (*inner, *names) if not path.endswith(LOCKS)}
    return sorted(path for path in found if (tree / path).is_file())


def content_files(tree: Path) -> list[str]:
    """Return the files that agents read or run in a work tree.

    Build files and scripts count at its top, instructions, skills and `.ai` everywhere below, and
    instructions also in the folders above, up to the top of the repository.
    """
    found = [path for top in (*SKILL_FOLDERS, ITEMS) for path in _below(tree, top)]
    names = [path for path in _names(tree) if is_content(path)]
    return sorted(
        path
        for path in {*found, *names, *_instructions_below(tree), *_instructions_above(tree)}
        if (tree / path).is_file()
    )


def _instructions_below(tree: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(tree):
        folders[:] = [one for one in folders if one.casefold() not in PRUNED]
        inner = os.path.relpath(folder, tree).replace(os.sep, "/")
        parts = [] if inner == "." else inner.casefold().split("/")
        every = _has_items(parts)
        for name in names:
            if every or name.casefold() in INSTRUCTIONS:
                yield f"{inner}/{name}" if parts else name


def _instructions_above(tree: Path) -> Iterator[str]:
    for place, way in _above(tree):
        for inner in ("", *CLIENT_INNER):
            for name in _names(place / inner):
                if name.casefold() in INSTRUCTIONS:
                    yield f"{way}{inner}{name}"


def _above(tree: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders above a work tree up to the top of its repository, and the way there."""
    top, place, way = tree_top(str(tree)), tree, ""
    while top is not None and str(place) != top and place != place.parent:
        place, way = place.parent, f"../{way}"
        yield place, way


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _below(tree: Path, top: str) -> Iterator[str]:
    """Yield the paths of files below a folder of a work tree, however its name is spelled."""
    first, _, rest = top.partition("/")
    for name in _names(tree):
        if name.casefold() != first:
            continue
        for folder, _, files in os.walk(tree / name / rest, followlinks=False):
            inner = os.path.relpath(folder, tree).replace(os.sep, "/")
            yield from (f"{inner}/{file}" for file in files)
