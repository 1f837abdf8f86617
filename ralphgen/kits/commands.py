"""The modules in which kits have commands of their own; loading one loads no kit."""

COMMANDS = ("ralphgen.kits.dela.commands", "ralphgen.kits.tables.commands")
"""Each has an `app`, a `typer.Typer` without a name, whose commands join those of `ralphgen`."""
