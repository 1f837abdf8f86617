"""What the commands on rows share: fields as options, and asking the server of the rows."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ralphgen.agents.calls import KIT, Record, RefusalError, RowTools, typed
from ralphgen.cli.completion import Offer
from ralphgen.emit.outdated import warn_if_outdated
from ralphgen.errors import Problem, UsageError, plain
from ralphgen.project.root import project_place
from ralphgen.runtime.policy import FULL
from ralphgen.suggestion import either
from ralphgen.terminal.app import App, Json, Project, ShellCommand, TrustEdited, Yes
from ralphgen.terminal.console import print_json, print_result, say
from ralphgen.terminal.person import agrees

if TYPE_CHECKING:
    from ralphgen.sessions.decide import RowAsRead


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


PAGE = 200  # rows of a page, the most that a tool gives
DEFAULTS = {"icon": "Wrench", "color": "#6b7280"}  # of a new discipline
VERBS = {"create": "add", "update": "edit"}
WRONG = re.compile(r'argument "([^"]+)" is (.*?): expected (.*)')
MISSING = re.compile(r'argument "([^"]+)" is missing')
UNKNOWN = re.compile(r'unknown argument "([^"]+)"(?:: did you mean "([^"]+)")?')
POSITIONAL = {"id": "N", "task_id": "N", "name": "NAME"}
# Arguments that a refusal of a rule names.
NAMED = re.compile(
    r'"(because|clear|depends_on|force|reason|summary)"'
    r'|"([a-z_]+)"(?= is both set and named in | must not be blank)'
)
Complete = Callable[[typer.Context, str], list[Offer]]
Clear = Annotated[
    list[str] | None,
    typer.Option("--clear", metavar="FIELD", help="Name of a field to empty. Repeatable."),
]


@contextmanager
def row_tools(
    project: Path,
    tool: str,
    as_read: "RowAsRead | None" = None,
    *,
    trust_edited: bool = False,
    positional: Mapping[str, str] | None = None,
) -> Iterator[RowTools]:
    """The tools of the project around a folder; they write nothing where a row is not `as_read`.

    Refusals name options; `positional` has the command's other arguments, as of `in_options`.
    Raises `UsageError` where the project has no such `tool`.
    """
    from ralphgen.agents.calls import open_server
    from ralphgen.sessions.decide import Request

    place, named = project_place(project), {**POSITIONAL, **(positional or {})}
    request = Request(FULL, as_read=as_read) if as_read is not None else None
    warn_if_outdated(place.root, say)
    with open_server(place, KIT, tool, request, trust_edited=trust_edited, say=say) as server:
        try:
            yield RowTools(server)
        except RefusalError as error:
            if any(MISSING.match(one.text) or UNKNOWN.match(one.text) for one in error.problems):
                error.exit_code = UsageError.exit_code
            problems = [in_options(one, tool, named) for one in error.problems]
            unknown = [one for one in problems if one.text.startswith("unknown option ")]
            error.problems = tuple(unknown or problems)  # it may stand for a missing one
            raise


def in_options(problem: Problem, tool: str, positional: Mapping[str, str]) -> Problem:
    """Return a tool's refusal with the options of a command for the arguments of the tool.

    `positional` has the names, as in the help, of those that are arguments of the command too.
    """

    def option(argument: str) -> str:
        name = re.sub(r"^filter_|[.\[].*", "", argument)
        return positional.get(name) or f"--{name.replace('_', '-')}"

    text, hint = problem.text, problem.hint
    if found := MISSING.match(text):
        name = option(found[1])
        text = f"missing {'option' if name[:2] == '--' else 'argument'} {name}"
    elif found := WRONG.fullmatch(text):
        name = option(found[1]).lower()
        word = name.removeprefix("--")
        field = name if "-" in word or word == "clear" else word
        text = f"invalid {field} {found[2]}: {_wanted(found[3])}"
    elif found := UNKNOWN.match(text):
        verb, _, noun = tool.partition("_")
        page = f"ralphgen {noun.removesuffix('s')} {VERBS.get(verb, verb)} --help"
        about = f'options are the columns of "{noun.removesuffix("s")}s": see "{page}"'
        text = f"unknown option {option(found[1])}"
        hint = f'did you mean "{option(found[2])}"?' if found[2] else about
    else:
        text = NAMED.sub(lambda one: f'"{option(one[1] or one[2])}"', text)
    return Problem(text, hint, problem.output)


def _wanted(expected: str) -> str:
    """Return what a tool expected as advice: "one of" and names become "use a, b or c"."""
    listed, is_meant, meant = expected.partition("; did you mean ")
    if not listed.startswith("one of "):
        return f"use {expected.replace('an integer', 'a whole number')}"
    names = re.findall(r'"([\w.-]+)"(?:, |$)|(.+?)(?:, |$)', listed.removeprefix("one of "))
    choice = either(plain_name or other for plain_name, other in names)
    return f"use {choice}{is_meant}{meant}"


def listed(tools: RowTools, tool: str, rows: str, limit: int, **arguments: object) -> Record:
    """Return the first rows of a list as one answer of its tool, `limit` at most."""
    whole: Record = {rows: []}
    for answer in tools.pages(tool, limit=min(limit, PAGE), **arguments):
        kept = [*whole[rows], *answer[rows]]
        names = whole.get("display_names", {})
        for column, called in answer.get("display_names", {}).items():
            names = {**names, column: {**names.get(column, {}), **called}}
        whole = {**answer, rows: kept, **({"display_names": names} if names else {})}
        if len(kept) >= limit:
            break
    if len(whole[rows]) > limit:  # the last page went beyond it, and so does its cursor
        whole.pop("next_cursor", None)
        whole[rows] = whole[rows][:limit]
    return whole


def show_change(answer: Record, words: str, *, as_json: bool) -> None:
    """Print what a tool that writes has answered: for programs as it is, else in words."""
    if as_json:
        print_json(answer)
        return
    for warning in answer.get("warnings", ()):
        say(f"warning: {warning}")
    print_result(words)


def change_row(
    project: Path, kind: str, key: Record, given: Given, *, trust_edited: bool, as_json: bool
) -> None:
    """Change the given fields of the row that `key` names, or let the person edit them."""
    tool = f"update_{kind}"
    opened = partial(row_tools, project, tool, trust_edited=trust_edited)
    with opened() as tools:
        schemas = tools.properties(tool)
        if given or not schemas:  # without the tool, the server says why
            answer = tools.ask(tool, **key, **arguments_of(given, schemas))
        else:
            from ralphgen.agents.edits import EditedRow
            from ralphgen.cli.row_editor import edit_row

            row = EditedRow(tools, opened, project_place(project).root, kind, key)
            answer = edit_row(row)
    changed = ", ".join(answer.get("changed", ())) or "nothing"
    (name,) = key.values()
    show_change(answer, f"{kind} {name}: changed {changed}", as_json=as_json)


def add_readers(app: App, kind: str, *, about: str, example: str, complete: Complete) -> None:
    """Add the commands that list features or disciplines, as `kind` says, and show one of them."""
    rows = f"{kind}s"
    of_rows, of_row = f"list_{rows}", f"get_{kind}"
    argument = typer.Argument(metavar="NAME", help=f"Name of the {kind}.", autocompletion=complete)

    @app.command(name="list", help=f"List {rows}.", example=f"ralphgen {kind} list")
    def list_(
        limit: Annotated[
            int, typer.Option(metavar="N", min=1, help="Maximum number of rows.")
        ] = 50,
        trust_edited: TrustEdited = False,
        project: Project = Path(),
        as_json: Json = False,
    ) -> None:
        with row_tools(project, of_rows, trust_edited=trust_edited) as tools:
            answer = listed(tools, of_rows, rows, limit)
        if as_json:
            print_json(answer)
            return
        from ralphgen.cli.row_tables import NAMED_COLUMNS, show_rows

        if not answer[rows]:
            say(f"there are no {rows} yet")
            return
        show_rows(answer[rows], NAMED_COLUMNS, answer["total"])

    @app.command(help=about, example=f"ralphgen {kind} show {example}")
    def show(
        name: Annotated[str, argument],
        trust_edited: TrustEdited = False,
        project: Project = Path(),
        as_json: Json = False,
    ) -> None:
        with row_tools(project, of_row, trust_edited=trust_edited) as tools:
            record = tools.ask(of_row, name=name)
        if as_json:
            print_json(record)
            return
        from ralphgen.cli.row_tables import show_record

        show_record({key: one for key, one in record.items() if key != "name"}, f"{kind} {name}")


def add_creator(app: App, kind: str, fields: Mapping[str, Any], *, example: str) -> None:
    """Add the command that creates a feature or a discipline, as of `takes_fields`.

    Fields that its tool requires and that are not given take values from `DEFAULTS`.
    """

    @app.command(
        cls=FieldCommand,
        help=f"Create a {kind}.",
        example=f"ralphgen {kind} add {example}",
    )
    @takes_fields(fields)
    def add(
        given: Given,
        name: Annotated[str, typer.Argument(metavar="NAME", help=f"Name of the {kind}.")],
        trust_edited: TrustEdited = False,
        project: Project = Path(),
        as_json: Json = False,
    ) -> None:
        tool = f"create_{kind}"
        if not name.strip():
            raise UsageError('"NAME" must not be blank')
        with row_tools(project, tool, trust_edited=trust_edited) as tools:
            schema = tools.tools().get(tool, {})
            defaults = {"display_name": name, **DEFAULTS}
            needed = {
                field: [defaults[field]]
                for field in schema.get("required", ())
                if field in defaults
            }
            filled = {"name": [name], **needed, **given}
            answer = tools.ask(tool, **arguments_of(filled, schema.get("properties", {})))
        show_change(answer, f"{kind} {name}", as_json=as_json)


def add_deleter(app: App, kind: str, *, example: str, complete: Complete) -> None:
    """Add the command that deletes a feature or a discipline without tasks."""
    argument = typer.Argument(metavar="NAME", help=f"Name of the {kind}.", autocompletion=complete)

    @app.command(
        help=f"Delete a {kind} that has no tasks.",
        example=f"ralphgen {kind} delete {example}",
    )
    def delete(
        name: Annotated[str, argument],
        yes: Yes = False,
        trust_edited: TrustEdited = False,
        project: Project = Path(),
        as_json: Json = False,
    ) -> None:
        with row_tools(project, f"delete_{kind}", trust_edited=trust_edited) as tools:
            if not yes:
                tools.ask(f"get_{kind}", name=name)  # refuses an unknown name before the question
            if not agrees(f'delete the {kind} "{plain(name)}"?', yes=yes):
                say("nothing was deleted")
                raise typer.Exit(1)
            answer = tools.ask(f"delete_{kind}", name=name)
        named = "; ".join(map(plain, answer.get("still_named_by", ())))
        also = f"; still named by {named}" if named else ""
        show_change(answer, f"deleted {kind} {name}{also}", as_json=as_json)


def add_editor(
    app: App, kind: str, fields: Mapping[str, Any], *, example: str, complete: Complete
) -> None:
    """Add the command that changes fields of a feature or a discipline, as of `takes_fields`."""
    argument = typer.Argument(metavar="NAME", help=f"Name of the {kind}.", autocompletion=complete)

    @app.command(
        cls=FieldCommand,
        help=f"Edit a {kind}. Without options, it opens in $EDITOR.",
        example=f"ralphgen {kind} edit {example}",
    )
    @takes_fields({**fields, "clear": Clear})
    def edit(
        given: Given,
        name: Annotated[str, argument],
        trust_edited: TrustEdited = False,
        project: Project = Path(),
        as_json: Json = False,
    ) -> None:
        key = {"name": name}
        change_row(project, kind, key, given, trust_edited=trust_edited, as_json=as_json)


def matching(
    tools: RowTools, matches: Callable[[Record], bool], limit: int, filters: Mapping[str, object]
) -> Record:
    """Return the tasks that a condition holds for, as one answer of their tool."""
    found = [
        task
        for answer in tools.pages("list_tasks", limit=PAGE, **filters)
        for task in answer["tasks"]
        if matches(task)
    ]
    return {"tasks": found[:limit], "total": len(found)}
