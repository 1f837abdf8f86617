"""Documents, capabilities and projects, and a user's session of the kit acm on them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driving import Driver, context_for, create_project, on_context, server_command, started
from text_answers import TextAnswers

KITS = 'kits = ["acm"]\n'
MOST = 40_000  # characters of an answer
# Server internals that no answer may show.
INTERNALS = ("Traceback", "Errno", "errno", "Error:", ".py", "line 1 column", "scanning", "while ")
STAGES = {
    "discover": "ACM-DISCOVER-SPEC.md",
    "design": "ACM-DESIGN-SPEC.md",
    "develop": "ACM-DEVELOP-SPEC.md",
}
REVIEWS = {
    ("discover", "internal"): "prompts/ralph-review-prompt.md",
    ("discover", "external"): "prompts/external-review-prompt.md",
    ("design", "internal"): "prompts/design-ralph-review-prompt.md",
    ("design", "external"): "prompts/design-external-review-prompt.md",
    ("develop", "internal"): "prompts/develop-ralph-review-prompt.md",
    ("develop", "external"): "prompts/develop-external-review-prompt.md",
}
TRANSITIONS = {
    "discover_to_design": "prompts/start-design-prompt.md",
    "design_to_develop": "prompts/start-develop-prompt.md",
}
SPECS = {
    "brief": "ACM-BRIEF-SPEC.md",
    "intent": "ACM-INTENT-SPEC.md",
    "status": "ACM-STATUS-SPEC.md",
    "readme": "ACM-README-SPEC.md",
    "context": "ACM-CONTEXT-ARTIFACT-SPEC.md",
    "rules": "ACM-RULES-SPEC.md",
    "design": "ACM-DESIGN-SPEC.md",
    "backlog": "ACM-BACKLOG-SPEC.md",
    "folder_structure": "ACM-FOLDER-STRUCTURE-SPEC.md",
    "project_types": "ACM-PROJECT-TYPES-SPEC.md",
    "stages": "ACM-STAGES-SPEC.md",
    "review": "ACM-REVIEW-SPEC.md",
}
LEVELS = {"global": "ACM-GLOBAL-CLAUDE-MD-SPEC.md", "project": "ACM-PROJECT-CLAUDE-MD-SPEC.md"}
STUBS = {
    "brief": "stubs/brief.md",
    "intent": "stubs/intent.md",
    "status": "stubs/status.md",
    "rules_constraints": "stubs/rules-constraints.md",
}
CLAUDE_STUBS = {kind: f"stubs/claude-md/{kind}.md" for kind in ("app", "workflow", "artifact")}
TYPES_SPEC = SPECS["project_types"]
NAMES = sorted(
    {
        *STAGES.values(),
        *REVIEWS.values(),
        *TRANSITIONS.values(),
        *SPECS.values(),
        *LEVELS.values(),
        *STUBS.values(),
        *CLAUDE_STUBS.values(),
    }
)
DOCUMENT = """\
---
type: specification
version: "1.0"
---

# {name}

The one sentence that only {name} holds: grüße.
"""
TYPES = """\
---
type: specification
---

# Project types

What all types share.

## Primary Types

### 1. Artifact

An artifact is a document.

### 2. App

An app is software.

#### Sub-variations

A script is a small app.

### 3. Workflow

A workflow connects systems.

## Modifiers

### Scale

| Scale | Meaning |
|-------|---------|
| `personal` | For one person |
| `commercial` | For customers |

### Scope

| Scope | Meaning |
|:--|:-:|
| `mvp` | The least that works |
| `full-build` | Everything |

## Type Implications

| Aspect | Artifact | App | Workflow |
|---|---|---|---|
| Output | a text | a program | a chain |
| Review | wording | tests | runs |

## Hybrids

An app that makes documents.
"""
ENTRIES = {
    "README.md": "# About\n\nTornado: not an entry.\n",
    "Zebra.md": "---\ntitle: Stripes\ntags: [a]\n---\n\nWhat zebras teach us on review loops.\n",
    "broken.md": "---\ntitle: [\n---\n\nReview loops end.\n",
    "plain.md": "# Plain\n\nNo front matter here, but a tornado.\n",
    "tornado-by-name.md": "# Nothing\n\nOf that in the text.\n",
}
CAPABILITIES: list[dict[str, Any]] = [
    {
        "name": "review-helper",
        "type": "skill",
        "description": "Helps to review a\nchange",
        "status": "active",
        "tags": ["review", "development"],
        "path": "capabilities/skills/review-helper",
    },
    {
        "name": "pdf-maker",
        "type": "tool",
        "description": "Makes documents",
        "status": "staging",
        "tags": ["documents", "Development"],
        "install_level": "project",
        "path": "capabilities/tools/pdf-maker",
    },
    {
        "name": "planner",
        "type": "agent",
        "description": "Plans work",
        "status": "active",
        "tags": [],
        "path": "capabilities/agents/planner",
    },
    {
        "name": "planner",
        "type": "plugin",
        "description": "Plans in the editor",
        "status": "active",
        "tags": ["development"],
        "path": "capabilities/plugins/planner",
    },
]
YAML = """\
name: {name}
type: {kind}
description: >-
  A long
  text
install_level: user  # at once
"""
INTENT = "---\ntype: intent\n---\n# Intent\n\n## Problem\n\n## Outcome\n\n## Why It Matters\n"
BRIEF = """\
---
type: brief
status: Approved
---
# Brief

## Summary

## Scope

## Success Criteria

## Constraints

## Decisions
"""
STATUS = (
    "---\nstage: Discover\nphase: review\nupdated: 2026-02-01\n---\n# Status\n\n## Current State\n"
)
CLAUDE = "---\ntype: context\n---\n# Project\n\n## Context Map\n"
PROJECT = {
    ".claude/CLAUDE.md": CLAUDE,
    ".claude/rules/constraints.md": "# Rules\n",
    "docs/intent.md": INTENT,
    "docs/brief.md": BRIEF,
    "docs/inbox/.keep": "",
    "_archive/.keep": "",
    "README.md": "# Project\n",
    "status.md": STATUS,
}
DOCUMENTS: Mapping[str, str] = {
    **{name: TYPES if name == TYPES_SPEC else DOCUMENT.format(name=name) for name in NAMES},
    **{f"kb/{name}": text for name, text in ENTRIES.items()},
    "kb/deeper/hidden.md": "A tornado that nobody finds.\n",
    "kb/notes.txt": "A tornado in another format.\n",
}
REGISTRY: Mapping[str, str] = {
    "inventory.json": json.dumps({"version": "1.0", "capabilities": CAPABILITIES}),
    **{
        f"{entry['path']}/capability.yaml": YAML.format(name=entry["name"], kind=entry["type"])
        for entry in CAPABILITIES
    },
    "capabilities/flat/capability.yaml": "name: flat\n",
    "capabilities/skills/unlisted/capability.yaml": "name: unlisted\r\n",
}


class Library(TextAnswers):
    """A session on a project, with documents and capabilities next to it."""

    def __init__(self, folder: Path, root: Path, driver: Driver) -> None:
        """Calls the tools through `driver`; `folder` holds everything, `root` is the project."""
        self.folder = folder
        self.root = root
        self.driver = driver
        self.documents = folder / "documents"
        self.registry = folder / "registry"
        self.projects = root / "projects"

    def ask(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Return whether a call failed, and its text, which must be presentable to users."""
        failed, text = self.driver.ask(tool, arguments)
        check_presentable(text, self.documents, self.registry, failed=failed)
        return failed, text

    def write(self, name: str, text: str | bytes) -> Path:
        """Give a document this text."""
        return put(self.documents / name, text)

    def project(self, name: str = "other", **files: str | bytes | None) -> Path:
        """A complete project, with files (`docs__brief_md`) replaced, or left out for None."""
        return self.project_of(name, expand_names(files))

    def project_of(self, name: str, files: Mapping[str, str | bytes | None]) -> Path:
        """The same, with the files by path."""
        return lay_project(self.projects / name, {**PROJECT, **files})

    def clear(self) -> None:
        """Restore the documents and capabilities, and delete the projects."""
        if self.projects.exists():
            shutil.rmtree(self.projects)
        for place, files in ((self.documents, DOCUMENTS), (self.registry, REGISTRY)):
            if _is_as(place, files):
                continue
            if place.is_symlink():
                place.unlink()
            shutil.rmtree(place, ignore_errors=True)
            lay_project(place, files)


def _is_as(folder: Path, files: Mapping[str, str]) -> bool:
    """Return whether a folder holds exactly these files, all of them regular files."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    found = {path.relative_to(folder).as_posix(): path for path in paths}
    return (
        not folder.is_symlink()
        and found.keys() == files.keys()
        and not any(path.is_symlink() or not path.is_file() for path in paths)
        and all(found[name].read_bytes() == text.encode() for name, text in files.items())
    )


def expand_names(files: Mapping[str, str | bytes | None]) -> dict[str, str | bytes | None]:
    """Files by path, of names with `__` for a slash and `_md` for `.md` at their end."""
    return {
        name.replace("__", "/").removesuffix("_md") + ".md": text for name, text in files.items()
    }


def put(path: Path, text: str | bytes) -> Path:
    """Write a file unchanged; create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def lay_documents(folder: Path) -> Path:
    """Write every supported document, each with a unique sentence, and a knowledge base."""
    return lay_project(folder, DOCUMENTS)


def lay_registry(folder: Path) -> Path:
    """Write capabilities of all types, a folder for each, and one that the inventory lacks."""
    return lay_project(folder, REGISTRY)


def lay_project(folder: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """A project of these files, by path; None leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        if text is not None:
            put(folder / name, text)
    return folder


def check_presentable(text: str, *private: Path, failed: bool) -> None:
    """Assert that an answer is within the size limit and does not show the documents' location.

    A refusal must not show server internals either.
    """
    assert len(text) <= MOST
    hidden = [str(path) for path in private] + [str(path.resolve()) for path in private]
    words = [*hidden, *(INTERNALS if failed else ())]
    assert [] == [word for word in words if word in text], text


def variables(folder: Path, **more: str) -> dict[str, str]:
    """An environment that names the documents and the registry in a folder."""
    named = {"ACM_ROOT": str(folder / "documents"), "ACM_REGISTRY_ROOT": str(folder / "registry")}
    return {"HOME": str(folder / "home"), **named, **more}


@contextmanager
def on_server(
    root: Path, environment: Mapping[str, str], recipe: str = "manual", **facts: object
) -> Iterator[Driver]:
    """A client on the project's server of the kit, with these variables in its environment."""
    command = server_command(root, "acm", *on_context(context_for(root, recipe, **facts)))
    with started(command, root, environment, mode="auto") as driver:
        yield driver


@contextmanager
def reading(folder: Path, recipe: str = "manual") -> Iterator[Library]:
    """A user's session in a folder, with documents and capabilities next to the project."""
    root = create_project(folder / "project", config=KITS)
    with on_server(root, variables(folder), recipe) as driver:
        library = Library(folder, root, driver)
        library.clear()
        yield library
