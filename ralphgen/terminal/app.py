"""Commands and groups of commands whose help and errors are plain text, and common options."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from ralphgen.errors import UsageError, either, plain
from ralphgen.runtime.values import nearest
from ralphgen.terminal.console import as_typed

Folder = Annotated[
    Path, typer.Argument(help="Project directory (default: search upwards for .ralph).")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Project = Annotated[
    Path,
    typer.Option(
        "--project",
        "-C",
        metavar="PATH",
        help="Project directory (default: search upwards for .ralph).",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
Sandboxed = Annotated[
    bool, typer.Option("--sandbox", help="Contain agents and checks with bubblewrap.")
]
TrustEdited = Annotated[
    bool, typer.Option("--trust-edited", help="Run a server with hand-edited files.")
]
Function = TypeVar("Function", bound=Callable[..., Any])
EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((\S+).*\)", re.DOTALL)
NUMBER = re.compile(r"[0-9]{1,18}")
Misuse: Any = typer.BadParameter.__base__
"""The base class of the errors that parsing a command line raises."""


class PlainHelp:
    """Help without the types of flags, and with an example that can be copied."""

    epilog: str | None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line without the help of pydantic if possible."""
        parent: Any = super()
        for parameter in parent.get_params(ctx):
            if hasattr(parameter, "get_runtime_param"):
                convert = QuickConversion(parameter.get_runtime_param)
                vars(parameter)["get_runtime_param"] = lambda convert=convert: convert
        try:
            rest: list[str] = parent.parse_args(ctx, args)
        except Misuse as error:
            error.ctx = error.ctx or ctx  # the parser leaves it out of some errors
            raise
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line behind the name of the command."""
        command = ctx.command
        arguments = [usage(one) for one in command.get_params(ctx) if is_argument(one)]
        if hasattr(command, "commands"):
            arguments.append("[COMMAND]" if command.invoke_without_command else "COMMAND")
        return ["[OPTIONS]", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and commands."""
        shown = [one for one in ctx.command.get_params(ctx) if not one.hidden]
        for title, wanted in (("Arguments", True), ("Options", False)):
            rows = [(label(one), about(one)) for one in shown if is_argument(one) is wanted]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if hasattr(ctx.command, "commands"):
            ctx.command.format_commands(ctx, formatter)

    def format_epilog(self, _ctx: Any, formatter: Any) -> None:
        """Put the example on one line, however long it is."""
        if self.epilog:
            formatter.buffer.append(as_typed(f"\nExample:\n  {self.epilog}\n"))


class ShellCommand(PlainHelp, TyperCommand):
    """A command of ralphgen."""


class QuickConversion:
    """Converts values that need no check itself: Typer imports pydantic for each of them."""

    def __init__(self, slow: Callable[[], Any]) -> None:
        """Take what returns Typer's own conversion."""
        self._slow = slow

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter as its command takes it."""
        descriptor = param.type_descriptor
        kind = descriptor.annotation
        if value is None or (kind in {str, int, Path} and isinstance(value, kind)):
            return () if value is None and (param.multiple or param.nargs == -1) else value
        if kind is Path and isinstance(value, str | Path):
            return Path(value)
        if kind is int and not descriptor.is_ranged and NUMBER.fullmatch(str(value)):
            return int(value)
        if kind == list[str] and isinstance(value, list | tuple):
            return [*value]
        return self._slow().coerce(value, param=param, ctx=ctx)


class CommandGroup(PlainHelp, TyperGroup):
    """A group of commands; without one it prints its help and succeeds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help if there is no argument and a command is needed."""
        if not (args or self.invoke_without_command or ctx.resilient_parsing):
            print(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first argument names.

        Raises `UsageError` if there is none, or if options of the group precede it.
        """
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            raise self.unknown(ctx, args[0], names)
        for one in self.params if self.invoke_without_command else ():
            source = ctx.get_parameter_source(one.name)
            if source is not None and source.name == "COMMANDLINE":
                path = f"{ctx.command_path} {args[0]}"
                raise UsageError(f"{label_of_error(one)} precedes the command", help_hint(path))
        return super().resolve_command(ctx, args)

    def unknown(self, ctx: Any, name: str, names: list[str]) -> UsageError:
        """Return the error for a command that does not exist."""
        group = ctx.command_path.partition(" ")[2]
        text = f'unknown command "{plain(f"{group} {name}".strip())}"'
        near = nearest(name, names)
        return UsageError(text, f'did you mean "{near}"?' if near else help_hint(ctx.command_path))


class App(typer.Typer):
    """The commands of a module; `add_typer` adds a group to them."""

    def __init__(self, **options: Any) -> None:
        """Take the options of `typer.Typer`."""
        plain_text = {"cls": CommandGroup, "rich_markup_mode": None, "add_completion": False}
        super().__init__(**{**plain_text, **options})

    def command(
        self, name: str | None = None, *, example: str = "", **options: Any
    ) -> Callable[[Function], Function]:
        """Return the decorator of a command; `example` is the end of its help."""
        given = {"cls": ShellCommand, "epilog": example or None, **options}
        return super().command(name, **given)


def is_argument(parameter: Any) -> bool:
    """Return whether a parameter is positional."""
    return bool(parameter.param_type_name == "argument")


def usage(argument: Any) -> str:
    """Return an argument for the usage line: in brackets unless it is required."""
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def label(parameter: Any) -> str:
    """Return the first column of a parameter in the help."""
    if is_argument(parameter):
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join(sorted(parameter.opts, key=len))
    takes_value = not (parameter.is_flag or parameter.name == "help")
    return f"{names} {parameter.metavar or parameter.name.upper()}" if takes_value else names


def about(parameter: Any) -> str:
    """Return the second column of a parameter in the help: its text, and its default."""
    value = getattr(parameter.default, "value", parameter.default)
    has_default = isinstance(value, str | int | float) and not isinstance(value, bool) and value
    default = f" [default: {value}]" if has_default and "default" not in parameter.help else ""
    required = " [required]" if parameter.required and not is_argument(parameter) else ""
    return f"{parameter.help or ''}{default}{required}"


def misuse(error: Any) -> UsageError:
    """Return the error of a wrong command line in the words of ralphgen."""
    path = error.ctx.command_path if getattr(error, "ctx", None) else "ralphgen"
    hint = help_hint(path)
    parameter = getattr(error, "param", None)
    name = "" if parameter is None else label_of_error(parameter)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        near = [one for one in error.possibilities or () if one.startswith("--")]
        if path == "ralphgen" and error.option_name in ("-C", "--project"):
            hint = f"write it after the command, such as: ralphgen status {error.option_name} PATH"
        hint = f'did you mean "{near[0]}"?' if near else hint
        return UsageError(f"unknown option {plain(error.option_name)}", hint)
    if kind == "MissingParameter":
        return UsageError(f"missing {name}", hint)
    if extra := EXTRA.fullmatch(str(error.message)):
        return UsageError(f'unexpected argument "{plain(extra[1])}"', hint)
    if checked := getattr(error.__cause__, "errors", None):
        (problem, *_) = checked()
        value = plain(str(problem["input"]))
        return UsageError(
            f'invalid {name.partition(" ")[2]} "{value}": '
            f"use {_accepted_values(problem, parameter)}",
            hint,
        )
    text = str(error.message).partition(", unable to")[0].rstrip(".").replace("'", '"')
    text = f"{text[:1].lower()}{text[1:]}"
    return UsageError(f"invalid {name}: {text}" if name else text, hint)


def _accepted_values(problem: dict[str, Any], parameter: Any) -> str:
    """Return the values that a check of pydantic accepts."""
    limits = problem.get("ctx", {})
    if choices := getattr(getattr(parameter, "type_descriptor", None), "choices", None):
        return either(str(getattr(one, "value", one)) for one in choices)
    if "ge" in limits or "le" in limits:
        return f"at least {limits['ge']}" if "ge" in limits else f"at most {limits['le']}"
    kinds = {"int_parsing": "a whole number", "float_parsing": "a number"}
    return kinds.get(
        problem["type"], str(problem["msg"]).partition("should be ")[2] or "another value"
    )


def help_hint(path: str) -> str:
    """Return the hint that names the help of a command."""
    return f'see "{path} --help"'


def label_of_error(parameter: Any) -> str:
    """Return a parameter as an error names it."""
    if is_argument(parameter):
        return f"argument {parameter.metavar or parameter.name.upper()}"
    return f"option {max(parameter.opts, key=len)}"


def project_path(path: Path, project: Path) -> Path:
    """Return the directory that PATH or --project names; raise `UsageError` if both do."""
    if path != Path() and project != Path():
        raise UsageError("PATH and --project both name a project", "give one of them")
    return project if path == Path() else path
