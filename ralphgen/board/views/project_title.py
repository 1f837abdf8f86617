"""What the project calls itself."""

from pathlib import Path

from ralphgen.board.views.stored_text import line
from ralphgen.project.model import Schema
from ralphgen.project.rows import open_rows


def project_title(root: Path, schema: Schema) -> str:
    """The project's own title: the name of its folder may differ from clone to clone.

    Raises `ProjectError` where the database cannot be read.
    """
    with open_rows(root, schema) as rows:
        title, _ = rows.identity()
    return line(title or "Project")
