"""Projects whose rows contain everything that a brief can show, and their briefs."""

import json
import re
from pathlib import Path
from typing import Any

from command_line import ralphgen
from driving import create_project, made_here, query

FULL = {
    "metadata": {"project_title": "Shop of T", "project_description": "Sells what it has"},
    "disciplines": {
        "system_prompt": "You build pages",
        "skills": '["html", "css"]',
        "conventions": "Tabs, never spaces",
    },
    "features": {
        "description": "Who may come in",
        "architecture": "A hexagon",
        "boundaries": "No payment here",
        "learnings": '[{"text": "cookies expire", "source": "human", "reason": "seen in May"}]',
        "context_files": '["docs/auth.md"]',
    },
}
TASK = {
    "description": "A form with two fields",
    "acceptance_criteria": '["it has a label", "it can be sent"]',
    "pseudocode": "draw(form)",
    "hints": "look at the old one",
    "context_files": '["src/form.py", "src/gone.py"]',
}


def full_project(root: Path) -> Path:
    """Return a project whose rows contain everything that a brief can show."""
    create_project(root)
    fill(root)
    return root


def fill(root: Path) -> None:
    """Fill the rows of a project with everything that a brief can show."""
    for table, values in FULL.items():
        assign(root, table, values)
    assign(root, "tasks", TASK, "WHERE id = 2")
    (root / "src").mkdir()
    (root / "src/form.py").write_text("", encoding="utf-8")
    for task, body in ((1, "older"), (1, "Cookies hold the session"), (2, "Mind the gap")):
        sql = "INSERT INTO task_comments (task_id, author, body, created) VALUES (?, ?, ?, ?)"
        query(root, sql, task, "human", body, "2026-01-02T03:04:05Z")


def assign(root: Path, table: str, values: dict[str, str], where: str = "") -> None:
    settings = ", ".join(f"{column} = ?" for column in values)
    query(root, f"UPDATE {table} SET {settings} {where}", *values.values())


def say(root: Path, name: str, text: str) -> Path:
    """Write a file with the project's own instructions."""
    path = root / ".ralph/prompts" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    made_here(root)
    return path


def brief(root: Path, recipe: str, **rows: Any) -> dict[str, Any]:
    """Return the output of `ralphgen session brief --json`."""
    options = [f"--{kind}={row}" for kind, row in rows.items()]
    done = ralphgen("session", "brief", recipe, *options, "--json", "--project", root)
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sections(text: str) -> dict[str, str]:
    """Return the quoted text below each heading, and the unquoted text as ""."""
    found: dict[str, str] = {}
    title, fence = "", ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
            found[title] += f"{line}\n" if fence else ""
        elif line.startswith("## "):
            title = line.removeprefix("## ")
        elif opening := re.fullmatch("(`{3,})text", line):
            fence, found[title] = opening[1], ""
        else:
            found[""] = found.get("", "") + f"{line}\n"
    assert not fence
    return found
