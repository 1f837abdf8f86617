"""Lists the files of a project that can start a program or instruct an agent, in two kinds.

Authority decides what a session may do: settings, everything below `.ralph` but its state, and the
settings of clients. Content is what agents read or run in the course of their work.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ralphgen.runtime.files.protection import (
    CLIENT_FILES,
    CLIENT_FOLDERS,
    EDITOR,
    RALPH,
    is_client_setting,
)

# Below `.ralph`: what ralphgen writes there while work is done.
STATE = frozenset(
    {"backups", "db", "learnings.txt", "progress.txt", "sessions", "specum", "trust", "worktrees"}
)
CLAUDE, LOCKS = ".claude", ".lock"
INSTRUCTIONS = frozenset(
    {
        *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"),
        *(".cursorrules", ".windsurfrules"),
    }
)
TASKS = frozenset(
    {
        *("gnumakefile", "makefile", "cmakelists.txt", "justfile", ".justfile"),
        *("package.json", "turbo.json", "pyproject.toml", "pom.xml", "mvnw", "gradlew"),
        *("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        *("taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml"),
        *("compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"),
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
    named = name in INSTRUCTIONS or name in TASKS or name.endswith(SCRIPT)
    around = f"/{'/'.join(folders)}/"
    return named or ITEMS in folders or any(f"/{one}/" in around for one in SKILL_FOLDERS)


def client_files(tree: Path) -> list[str]:
    """Return the files from which clients take settings in a work tree, sorted."""
    tops = [EDITOR, *CLIENT_FOLDERS]
    found = [path for top in tops for path in _below(tree, top) if is_authority(path)]
    names = [name for name in _names(tree) if name.casefold() in CLIENT_FILES]
    return sorted(
        path for path in {*found, *names} if not path.endswith(LOCKS) and (tree / path).is_file()
    )


def content_files(tree: Path) -> list[str]:
    """Return the files that agents read or run in a work tree: at its top, skills and `.ai`."""
    found = [path for top in (*SKILL_FOLDERS, ITEMS) for path in _below(tree, top)]
    inner = [f"{CLAUDE}/{name}" for name in _names(tree / CLAUDE)]
    names = [path for path in (*_names(tree), *inner) if is_content(path)]
    return sorted(path for path in {*found, *names} if (tree / path).is_file())


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
