"""Fills templates: what varies goes through the spelling filters, the only doors into text."""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.spelling import (
    Lines,
    Value,
    assignment,
    comment,
    docstring,
    import_from,
    keyword,
    literal,
    markdown_cell,
    sql_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = Path(__file__).parents[1]


def template_folder() -> Path:
    """Return the templates' directory: inside an installed package, next to it in a clone."""
    folder = PACKAGE / "templates"
    return folder if folder.is_dir() else PACKAGE.parent / "templates"


@cache
def templates() -> "Environment":
    """Return the environment that reads, compiles and keeps the templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template_folder(), encoding="utf-8"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        literal=literal,
        argument=_argument,
        comment=comment,
        cell=markdown_cell,
        quoted=json.dumps,
        sql_text=sql_text,
    )
    environment.globals.update(
        assignment=assignment,
        docstring=docstring,
        import_from=import_from,
        keyword=keyword,
        lines=Lines,
    )
    return environment


def _argument(value: Value, indent: int) -> str:
    """Return a positional argument as a separate line, with its comma."""
    return f"{literal(value, indent, suffix=',')},"


def rendered(template: str, **values: object) -> str:
    """Return a template filled with values; an undefined variable is an error."""
    return templates().get_template(template).render(values)
