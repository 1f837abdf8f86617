"""How values become text of Python and of SQL: the only doors for what varies in a template."""

from ralphgen.spelling.literals import (
    Construction,
    Lines,
    Name,
    Value,
    assignment,
    entry,
    import_from,
    keyword,
    literal,
)
from ralphgen.spelling.names import argument_name, constant
from ralphgen.spelling.prose import comment, docstring, markdown_cell
from ralphgen.spelling.sql import sql_name, sql_text

__all__ = [
    "Construction",
    "Lines",
    "Name",
    "Value",
    "argument_name",
    "assignment",
    "comment",
    "constant",
    "docstring",
    "entry",
    "import_from",
    "keyword",
    "literal",
    "markdown_cell",
    "sql_name",
    "sql_text",
]
