"""Files of named queries."""

from pathlib import Path


def write_queries(root: Path, *queries: str) -> None:
    """Write queries, each given as its kind and its SQL; their names are q0, q1 and so on."""
    folder = root / ".ralph" / "queries"
    folder.mkdir(parents=True, exist_ok=True)
    texts = []
    for at, query in enumerate(queries):
        kind, _, sql = query.partition(" ")
        texts.append(f"-- name: q{at} {kind}\n-- A.\n{sql}\n")
    (folder / "a.sql").write_text("".join(texts), encoding="utf-8")
