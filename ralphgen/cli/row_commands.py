"""Commands on rows: their options, the tools that they call, and how answers are printed."""

import os
import re
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ralphgen.agents.calls import KIT, Record, RefusalError, RowTools, typed
from ralphgen.cli.completion import Offer
from ralphgen.emit import warn_if_outdated
from ralphgen.errors import Problem, ProjectError, RalphgenError, UsageError, either, plain
from ralphgen.project.root import project_place
from ralphgen.runtime.policy import FULL
from ralphgen.spelling import toml_key, toml_value
from ralphgen.terminal.app import App, Json, Project, ShellCommand, TrustEdited, Yes
from ralphgen.terminal.console import agrees, confirmed, print_json, print_result, say

if TYPE_CHECKING:
    from ralphgen.agents.edits import EditedProject, EditedRow, FieldClash
    from ralphgen.sessions.decide import RowAsRead


FIELDS = "ralphgen.fields"  # key of the options of a command that are columns

Given = dict[str, list[str]]
"""What was given for each column, as text, as often as it was given."""
Register = Callable[[Callable[..., None]], Callable[..., None]]
"""The decorator of a command."""


class FieldCommand(ShellCommand):
    """A command that takes an option for each column of a table, declared or not.

    Undeclared ones are in `context.meta[FIELDS]`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remove the undeclared options."""
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


def field(what: str, metavar: str = "TEXT", *, many: bool = False, complete: Any = None) -> Any:
    """Return the type of an option for a column, which is repeatable for `many` items."""
    option = typer.Option(metavar=metavar, help=what, autocompletion=complete)
    return Annotated[list[str] | None if many else str | None, option]


@dataclass(frozen=True, slots=True)
class RowCommand:
    """One run of a command on rows: its calls of tools, and the output of the answers."""

    project: Path
    trust_edited: bool = False
    as_json: bool = False
    given: Given = dataclass_field(default_factory=dict)

    def tools(
        self,
        tool: str,
        as_read: "RowAsRead | None" = None,
        *,
        positional: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[RowTools]:
        """Open the tools of the project, as `row_tools`."""
        return row_tools(
            self.project, tool, as_read, trust_edited=self.trust_edited, positional=positional
        )

    def ask(self, tool: str, **arguments: object) -> Record:
        """Return the answer of one tool; raises as `row_tools`."""
        with self.tools(tool) as tools:
            return tools.ask(tool, **arguments)

    def change(self, kind: str, **key: object) -> None:
        """Change the given fields of the row with a `key`, or let the user edit them."""
        tool = f"update_{kind}"
        with self.tools(tool) as tools:
            schemas = tools.properties(tool)
            if self.given or not schemas:  # without the tool, the server says why
                answer = tools.ask(tool, **key, **arguments_of(self.given, schemas))
            else:
                from ralphgen.agents.edits import EditedRow

                opened, root = partial(self.tools, tool), project_place(self.project).root
                answer = edit_row(EditedRow(tools, opened, root, kind, key))
        self.show_change(answer, f"{kind} {next(iter(key.values()))}: {changed(answer)}")

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before rows are deleted; exit with 1 if the user declines."""
        if not agrees(question, yes=yes):
            say("nothing was deleted")
            raise typer.Exit(1)

    def show_change(self, answer: Record, words: str) -> None:
        """Print the answer of a tool that writes: as JSON, or in words."""
        if self.as_json:
            print_json(answer)
            return
        for warning in answer.get("warnings", ()):
            say(f"warning: {warning}")
        print_result(words)

    def show_record(self, record: Record, title: str, *, hide: Collection[str]) -> None:
        """Print a row below a title that has the values of the hidden columns."""
        if self.as_json:
            print_json(record)
            return
        from ralphgen.cli.row_tables import show_record

        show_record({name: one for name, one in record.items() if name not in hide}, title)

    def show_rows(self, answer: Record, rows: str, *, none: Callable[[], str]) -> None:
        """Print the rows of a list, or `none` if it is empty."""
        if self.as_json:
            print_json(answer)
            return
        from ralphgen.cli.row_tables import COLUMNS, show_rows

        if not answer[rows]:
            say(none())
            return
        shown = answer[rows] if rows != "tasks" else [task_view(one) for one in answer[rows]]
        show_rows(shown, COLUMNS[rows], answer["total"])


# The last options of every command on rows.
COMMON = (
    Parameter("trust_edited", Parameter.KEYWORD_ONLY, default=False, annotation=TrustEdited),
    Parameter("project", Parameter.KEYWORD_ONLY, default=Path(), annotation=Project),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Json),
)


def row_command(
    app: App, name: str | None = None, *, fields: Mapping[str, Any] | None = None, **options: Any
) -> Register:
    """Return the decorator of a command on rows, which takes a `RowCommand` and its own arguments.

    `fields` are the columns with a declared option, each with its type; other columns are options
    too. The other arguments are those of `App.command`.
    """
    if fields is not None:
        options["cls"] = FieldCommand

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = signature(command).parameters.values()
        first = next((at for at, one in enumerate(own) if one.default is not one.empty), len(own))
        columns = [
            Parameter(column, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for column, kind in (fields or {}).items()
        ]
        context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
        taken = [context, *own[:first], *columns, *own[first:], *COMMON]

        @wraps(command)
        def call(
            context: typer.Context, project: Path, trust_edited: bool, as_json: bool, **values: Any
        ) -> None:
            named = {column: values.pop(column) for column in fields or ()}
            given = {
                column: [value] if isinstance(value, str) else [*value]
                for column, value in named.items()
                if value is not None and value != []
            }
            given |= context.meta.get(FIELDS, {})
            command(RowCommand(project, trust_edited, as_json, given), **values)

        vars(call)["__signature__"] = Signature(
            [one.replace(kind=Parameter.KEYWORD_ONLY) for one in taken]
        )
        call.__annotations__ = {one.name: one.annotation for one in taken}
        return app.command(name, **options)(call)

    return decorated


def arguments_of(given: Given, properties: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments of a tool whose input schema has these properties.

    A list is given item by item, or as JSON. Raises `UsageError` for another field that is given
    twice; the tool refuses all other errors.
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
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of rows.")]
# The computed states of tasks in the status column, by their names in answers.
INFERRED = {"waiting_on_deps": "waiting", "held": "claimed", "ready": "ready", "stale": "stale"}
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
    """Open the tools of a project; they write no row that differs from `as_read`.

    Refusals name options; `positional` has the command's other arguments, as of `in_options`.
    Raises `UsageError` if the project has no such `tool`.
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

    `positional` has the names, as in the help, of the positional ones.
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
        text = f"invalid {field} {found[2]}: {_expected_value_text(found[3])}"
    elif found := UNKNOWN.match(text):
        verb, _, noun = tool.partition("_")
        page = f"ralphgen {noun.removesuffix('s')} {VERBS.get(verb, verb)} --help"
        about = f'options are the columns of "{noun.removesuffix("s")}s": see "{page}"'
        text = f"unknown option {option(found[1])}"
        hint = f'did you mean "{option(found[2])}"?' if found[2] else about
    else:
        text = NAMED.sub(lambda one: f'"{option(one[1] or one[2])}"', text)
    return Problem(text, hint, problem.output)


def _expected_value_text(expected: str) -> str:
    """Return the expected value of a tool as advice: "one of" and names become "use a, b or c"."""
    listed, is_meant, meant = expected.partition("; did you mean ")
    if not listed.startswith("one of "):
        return f"use {expected.replace('an integer', 'a whole number')}"
    names = re.findall(r'"([\w.-]+)"(?:, |$)|(.+?)(?:, |$)', listed.removeprefix("one of "))
    choice = either(plain_name or other for plain_name, other in names)
    return f"use {choice}{is_meant}{meant}"


def limit_rows(tools: RowTools, tool: str, rows: str, limit: int, **arguments: object) -> Record:
    """Return the first rows of a list as one answer of its tool, at most `limit`."""
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


def changed(answer: Record) -> str:
    """Return the names of the changed fields in an answer, in words."""
    return f"changed {', '.join(answer.get('changed', ())) or 'nothing'}"


def task_view(task: Record) -> Record:
    """Return a task with its computed state instead of its status."""
    return {**task, "status": INFERRED.get(task.get("inferred", ""), task.get("status"))}


def add_named_rows(
    app: App,
    kind: str,
    *,
    about: str,
    fields: Mapping[str, Any],
    new_fields: Mapping[str, Any],
    complete: Complete,
    examples: Mapping[str, str],
) -> None:
    """Add the commands on features or disciplines, according to `kind`.

    `about` is the help of `show`. `fields` are the options for columns, and `new_fields` further
    ones for a new row. Missing required fields have values from `DEFAULTS`.
    """
    rows = f"{kind}s"
    argument = typer.Argument(metavar="NAME", help=f"Name of the {kind}.", autocompletion=complete)

    def command(verb: str, words: str, columns: Mapping[str, Any] | None = None) -> Register:
        example = f"ralphgen {kind} {verb} {examples.get(verb, '')}".rstrip()
        return row_command(app, verb, fields=columns, help=words, example=example)

    @command("add", f"Create a {kind}.", {**fields, **new_fields})
    def add(
        at: RowCommand,
        name: Annotated[str, typer.Argument(metavar="NAME", help=f"Name of the {kind}.")],
    ) -> None:
        tool = f"create_{kind}"
        if not name.strip():
            raise UsageError('"NAME" must not be blank')
        with at.tools(tool) as tools:
            schema = tools.tools().get(tool, {})
            defaults = {"display_name": name, **DEFAULTS}
            needed = {
                column: [defaults[column]]
                for column in schema.get("required", ())
                if column in defaults
            }
            filled = {"name": [name], **needed, **at.given}
            answer = tools.ask(tool, **arguments_of(filled, schema.get("properties", {})))
        at.show_change(answer, f"{kind} {name}")

    @command("list", f"List {rows}.")
    def list_(at: RowCommand, limit: Limit = 50) -> None:
        tool = f"list_{rows}"
        with at.tools(tool) as tools:
            answer = limit_rows(tools, tool, rows, limit)
        at.show_rows(answer, rows, none=lambda: f"there are no {rows} yet")

    @command("show", about)
    def show(at: RowCommand, name: Annotated[str, argument]) -> None:
        at.show_record(at.ask(f"get_{kind}", name=name), f"{kind} {name}", hide={"name"})

    @command(
        "edit",
        f"Edit a {kind}. Without options, it opens in $EDITOR.",
        {**fields, "clear": Clear},
    )
    def edit(at: RowCommand, name: Annotated[str, argument]) -> None:
        at.change(kind, name=name)

    @command("delete", f"Delete a {kind} that has no tasks.")
    def delete(at: RowCommand, name: Annotated[str, argument], yes: Yes = False) -> None:
        with at.tools(f"delete_{kind}") as tools:
            if not yes:
                tools.ask(f"get_{kind}", name=name)  # refuses an unknown name before the question
            at.confirm(f'delete the {kind} "{plain(name)}"?', yes=yes)
            answer = tools.ask(f"delete_{kind}", name=name)
        named = "; ".join(map(plain, answer.get("still_named_by", ())))
        also = f"; still named by {named}" if named else ""
        at.show_change(answer, f"deleted {kind} {name}{also}")


def matching(
    tools: RowTools, matches: Callable[[Record], bool], limit: int, filters: Mapping[str, object]
) -> Record:
    """Return the tasks that meet a condition, as one answer of their tool."""
    found = [
        task
        for answer in tools.pages("list_tasks", limit=PAGE, **filters)
        for task in answer["tasks"]
        if matches(task)
    ]
    return {"tasks": found[:limit], "total": len(found)}


Schemas = Mapping[str, Mapping[str, Any]]
EMPTY: Mapping[str, Any] = {
    "array": [],
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
}


def edit_row(row: "EditedRow | EditedProject") -> Record:
    """Let the user edit the fields of a row; return the answer of the tool that writes them.

    Raises `RefusalError` if the tool refuses a value, or if a field has changed meanwhile. The last
    line of the error then names a file with the text of the user.
    """
    from ralphgen.agents.edits import ClashError

    (key,) = row.key.values()
    name = "-".join(["ralphgen", row.kind, "".join(filter(str.isalnum, str(key)))])
    descriptor, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".toml")
    untouched = as_toml(row.record, row.fields, f"{row.kind} {key}")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(untouched)
    file_path, refused = Path(path), ""
    while True:
        try:
            _open_editor(file_path, row.kind)
            text = file_path.read_text(encoding="utf-8")
            if text == refused:
                raise ProjectError("nothing was written: the file is as it was")
            answer = row.write(changed_fields(text, row.record, row.fields))
        except (RalphgenError, ValueError, OSError) as error:
            if isinstance(error, ClashError):
                refused = _with_other_versions(file_path, error.clashes)
            if _again(error):
                continue
            if _is_text(file_path, untouched):  # nothing was typed
                file_path.unlink()
                raise
            kept = f'your text is in "{file_path}"'
            raise RefusalError(plain(_problem_lines(error)), kept) from error
        file_path.unlink()
        return answer


def _with_other_versions(path: Path, clashes: "Sequence[FieldClash]") -> str:
    """Add what others have written to the end of a file that was typed; return its text then."""
    lines = [
        "",
        "# This row has changed meanwhile. Merge both versions above, or remove these lines",
        "# to write your version.",
    ]
    for clash in clashes:
        now = f"{toml_key(clash.name)} = {_toml_value(clash.now)}" if _fits(clash.now) else ""
        said = now or f"{toml_key(clash.name)} is empty"
        lines += [f"# {line}".rstrip() for line in said.split("\n")]
    with path.open("a", encoding="utf-8") as file:  # and cuts nothing off where the disk is full
        file.write("\n".join(lines) + "\n")
    return path.read_text(encoding="utf-8")


def _problem_lines(error: Exception) -> str:
    """Return the problems of an error, without hints."""
    if isinstance(error, RalphgenError):
        return "; ".join(problem.text for problem in error.problems)
    return str(error)


def _is_text(path: Path, text: str) -> bool:
    """Return whether a file holds a text."""
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def as_toml(record: Record, schemas: Schemas, title: str) -> str:
    """Return the fields of a row as TOML; empty ones are comments, ready to be filled in."""
    partial = _partial(record)
    lines = [
        f"# {plain(title)}: save and leave to write it. Without a change nothing is written.",
        "# A field that you remove, or make a comment of, is emptied.",
        "",
    ]
    for name, rule in schemas.items():
        key = toml_key(name)
        if name in partial:
            lines.append(f"# {key} is too long or has another form; it is unchanged")
        elif name in record and _fits(record[name]):
            lines.append(f"{key} = {_toml_value(record[name])}")
        else:
            lines.append(f"# {key} = {_toml_value(EMPTY.get(str(rule.get('type')), ''))}")
    return "\n".join(lines) + "\n"


def changed_fields(text: str, record: Record, schemas: Schemas) -> Record:
    """Return the fields that a text changes, with None for emptied ones.

    Raises `ValueError` for invalid TOML.
    """
    found = tomllib.loads(text)
    partial = _partial(record)
    shown = {name for name in schemas if name in record and name not in partial}
    changed = {name: value for name, value in found.items() if value != record.get(name)}
    emptied = {name: None for name in sorted(shown) if found.get(name, "") in ("", [])}
    return {**changed, **emptied}


def _partial(record: Record) -> set[str]:
    """Return the fields that an answer cuts or cannot represent."""
    return {str(name).partition(".")[0] for name in record.get("cut", ())} | {
        *record.get("unreadable", ())
    }


def _fits(value: object) -> bool:
    """Return whether TOML can hold a value: it has no null."""
    if isinstance(value, list):
        return all(map(_fits, value))
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return value is not None


def _toml_value(value: object) -> str:
    """Return a value as TOML: a text of several lines as a block, other values on one line."""
    if isinstance(value, str) and "\n" in value:
        block = f'"""\n{value.replace(chr(92), chr(92) * 2)}"""'
        if '"""' not in value and not value.endswith('"') and _means(block, value):
            return block
    return toml_value(value)


def _means(block: str, value: str) -> bool:
    try:
        return bool(tomllib.loads(f"value = {block}")["value"] == value)
    except ValueError:
        return False


def _open_editor(path: Path, kind: str) -> None:
    """Wait until the user leaves the editor; raise `ProjectError` if it fails."""
    from ralphgen.terminal.console import at_terminal

    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not at_terminal():
        raise UsageError(
            "no option was given, and there is no terminal for an editor",
            f'pass fields as options: see "ralphgen {kind} edit --help"',
        )
    command = [*shlex.split(named or "vi"), str(path)]
    try:
        done = subprocess.run(command, check=False)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'the editor "{command[0]}" cannot be started: {reason}') from error
    if done.returncode:
        raise ProjectError(f'the editor "{command[0]}" ended with exit code {done.returncode}')


def _again(error: Exception) -> bool:
    """Print the problem, and return whether the user wants to open the file again."""
    from ralphgen.terminal.console import at_terminal

    if not at_terminal() or isinstance(error, (UsageError, ProjectError)):
        return False
    say(f"error: {plain(str(error))}")
    return confirmed("open it again?")
