"""Features of a project: a new one, and its stored values."""

from pathlib import Path
from typing import Any

from driving import Driver, query


def stored(project: Path, name: str, column: str) -> Any:
    ((value,),) = query(project, f"SELECT {column} FROM features WHERE name = ?", name)
    return value


def feature(server: Driver, name: str, **fields: Any) -> dict[str, Any]:
    return server.call("create_feature", name=name, display_name=name.title(), **fields)
