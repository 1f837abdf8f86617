"""Fields of a row on a command line: the options that a command knows, and any column besides."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from ralphgen.agents.calls import typed
from ralphgen.errors import UsageError, plain
from ralphgen.terminal.app import ShellCommand

FIELDS = "ralphgen.fields"  # where a command finds the options that are columns

Given = dict[str, list[str]]
"""What was given for each column, as text, as often as it was given."""


class FieldCommand(ShellCommand):
    """A command that takes an option for each column of a table, also for those it does not know.

    What it does not know stands in `context.meta[FIELDS]`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out the options that are none of the command's own."""
        known = {name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
        kept: list[str] = []
        given: Given = ctx.meta.setdefault(FIELDS, {})
        left = list(args)
        while left:
            word = left.pop(0)
            name, sign, value = word.partition("=")
            if word == "--":
                kept += [word, *left]
                break
            if not word.startswith("--") or name in known:
                kept.append(word)
                if name in known and not sign and left and _takes_value(self, ctx, name):
                    kept.append(left.pop(0))
                continue
            if not sign and not left:
                raise UsageError(f'the option "{plain(word)}" needs a value')
            given.setdefault(_column(name), []).append(value if sign else left.pop(0))
        return super().parse_args(ctx, kept)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Mention the options that this command does not list."""
        super().format_options(ctx, formatter)
        formatter.buffer.append("\nEvery other column is an option, too, such as --my-column.\n")


def text_field(what: str, metavar: str = "TEXT", *, complete: Any = None) -> Any:
    """Return the type of an option for a column that holds a text."""
    option = typer.Option(metavar=metavar, help=what, autocompletion=complete)
    return Annotated[str | None, option]


def list_field(what: str, metavar: str = "TEXT", *, complete: Any = None) -> Any:
    """Return the type of an option for a column that holds a list: it is given item by item."""
    option = typer.Option(metavar=metavar, help=what, autocompletion=complete)
    return Annotated[list[str] | None, option]


def takes_fields(fields: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator of a command that is `given` the fields of a row.

    `fields` are the columns that it has an option for, each with the type of that.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = [one for one in signature(command).parameters.values() if one.name != "given"]
        first = next(at for at, one in enumerate(own) if one.default is not one.empty)
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        options = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in fields.items()
        ]
        taken = [context, *own[:first], *options, *own[first:]]

        @wraps(command)
        def call(context: typer.Context, **values: Any) -> None:
            named = {name: values.pop(name) for name in fields}
            given = {
                name: [value] if isinstance(value, str) else [*value]
                for name, value in named.items()
                if value is not None and value != []
            }
            command(given={**given, **context.meta.get(FIELDS, {})}, **values)

        vars(call)["__signature__"] = Signature(
            [one.replace(kind=Parameter.KEYWORD_ONLY) for one in taken]
        )
        call.__annotations__ = {one.name: one.annotation for one in taken}
        return call

    return decorated


def arguments_of(given: Given, properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments of a tool whose input schema has these properties.

    A list is given item by item, or as JSON. Raises `UsageError` for another field that is given
    twice; whatever else is wrong, the tool refuses.
    """
    arguments: dict[str, Any] = {}
    for name, texts in given.items():
        rule = properties.get(name, {"type": "string"})
        if rule.get("type") == "array" and not texts[0].lstrip().startswith("["):
            item = {name: rule.get("items", {})}
            arguments[name] = [typed({name: text}, item)[name] for text in texts]
        elif len(texts) > 1:
            raise UsageError(f'"--{name.replace("_", "-")}" is given {len(texts)} times')
        else:
            arguments |= typed({name: texts[0]}, {name: rule})
    return arguments


def _takes_value(command: ShellCommand, ctx: Any, name: str) -> bool:
    return any(
        name in one.opts and not getattr(one, "is_flag", False) for one in command.get_params(ctx)
    )


def _column(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
