"""How values become Python text: the only doors through which a template writes what varies."""

from ralphgen.spelling.literals import (
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

__all__ = [
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
]
