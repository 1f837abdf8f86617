"""Searches without a server around them, and how far words are apart."""

import re
from pathlib import Path
from typing import Any
from unicodedata import normalize

from rye_projects import knowledge
from rye_workspaces import Workspace

from ralphgen.kits.rye.server.searching import search


def answer(workspace: Workspace, query: str = "", **given: Any) -> dict[str, Any]:
    """Return the answer to a search, by default over the project's items of all types."""
    place = {"project_path": str(workspace.root), "item_type": "all", "source": "project"}
    return search(workspace.rye, {"query": query, "limit": 100, **place, **given})


def search_ids(workspace: Workspace, query: str = "", **given: Any) -> list[str]:
    """The ids that a search finds, in order."""
    told = answer(workspace, query, **given)
    return [result["id"] for result in told["results"]]


def put(workspace: Workspace, item_id: str, body: str, **values: Any) -> Path:
    """Write an entry of knowledge; return its file."""
    return workspace.put("knowledge", item_id, knowledge(item_id, body, **values))


def scored(workspace: Workspace, query: str, **given: Any) -> dict[str, float]:
    """The ids of the project's knowledge that a search finds, with their scores."""
    place = {"project_path": str(workspace.root), "item_type": "knowledge", "source": "project"}
    answer = search(workspace.rye, {"query": query, "limit": 100, **place, **given})
    return {result["id"]: result["score"] for result in answer["results"]}


def words_of(text: str) -> list[str]:
    """The plain words of a text: small letters and digits without accents."""
    return re.findall("[a-z0-9]+", re.sub("[\u0300-\u036f]", "", normalize("NFD", text)).lower())


def distance(one: str, other: str) -> int:
    """Return the number of added, removed, replaced or swapped letters, by definition."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return distance(one[1:], other[1:])
    nearer = [(one[1:], other), (one, other[1:]), (one[1:], other[1:])]
    if one[:2] == other[1::-1] and one[1:]:
        nearer.append((one[2:], other[2:]))
    return 1 + min(distance(*pair) for pair in nearer)
