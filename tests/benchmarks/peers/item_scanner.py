"""A search for items that reads every file at each call, on the official Python SDK.

Such a server without an index works like this: regular expressions extract the titles and match the
query, and a word matches anywhere in a text.
"""

import re
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

FOLDERS = {"directive": "directives", "tool": "tools", "knowledge": "knowledge"}
TITLE = re.compile(
    r"^title: (.*)$|<description>(.*)</description>|description__ = (.*)$", re.MULTILINE
)
VERSION = re.compile(r"version(?:__)?\s*[=:]\s*[\"']?([\d.]+)")
WEIGHTS = {"id": 3.0, "title": 3.0, "category": 1.5, "text": 1.0}


def search(
    query: str, project_path: str, item_type: str = "all", limit: int = 10
) -> dict[str, Any]:
    """Find items."""
    words = query.lower().split()
    results = [
        result
        for kind, folder in FOLDERS.items()
        if item_type in (kind, "all")
        for path in (Path(project_path) / ".ai" / folder).rglob("*")
        if path.is_file() and not path.name.startswith("_")
        for result in [match_facts(path, kind, words, Path(project_path) / ".ai" / folder)]
        if result["score"]
    ]
    results.sort(key=lambda result: (-result["score"], result["id"]))
    return {"results": results[:limit], "total": len(results), "query": query}


def match_facts(path: Path, kind: str, words: list[str], top: Path) -> dict[str, Any]:
    """Return the facts of a file; its score is 0 if it does not match."""
    text = path.read_text(encoding="utf-8", errors="replace")
    title, version = TITLE.search(text), VERSION.search(text)
    place = path.relative_to(top).with_suffix("")
    told = {
        "id": place.as_posix(),
        "title": next(filter(None, title.groups()), "") if title else "",
        "category": place.parent.as_posix(),
        "text": text,
    }
    scores = [
        sum(WEIGHTS[name] for name, value in told.items() if word in value.lower())
        for word in words
    ]
    return {
        **told,
        "text": text[:200],
        "type": kind,
        "path": str(path),
        "version": version[1] if version else "",
        "score": sum(scores) if all(scores) else 0.0,
    }


def main() -> None:
    """Serve until the client leaves."""
    server = MCPServer("peer")
    server.tool(name="search", description="Find items.")(search)
    server.run()


if __name__ == "__main__":
    main()
