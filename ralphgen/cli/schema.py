"""`ralphgen schema`: JSON Schemas for editors."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.terminal.app import App, Project

app = App()


class SchemaName(StrEnum):
    """The files of a project that people write in TOML."""

    config = "config"
    recipe = "recipe"


@app.command(example="ralphgen schema recipe > recipe.schema.json")
def schema(
    name: Annotated[
        SchemaName, typer.Argument(help="Of .ralph/ralphgen.toml, or of .ralph/recipes/*.toml.")
    ] = SchemaName.config,
    _: Project = Path(),
) -> None:
    """Print the JSON Schema of a settings file."""
    from ralphgen.emit.editor_schemas import schema_text

    sys.stdout.write(schema_text(name.value))
