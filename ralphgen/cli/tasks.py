"""The commands on tasks, features and disciplines; the rules are those of the tools of agents."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.agents.calls import Record, RefusalError, RowTools
from ralphgen.cli.completion import (
    STATES,
    complete_disciplines,
    complete_features,
    complete_priorities,
    complete_states,
    complete_statuses,
    complete_tasks,
)
from ralphgen.cli.row_commands import (
    Clear,
    Given,
    Limit,
    RowCommand,
    add_named_rows,
    arguments_of,
    field,
    limit_rows,
    matching,
    row_command,
    task_view,
)
from ralphgen.errors import Problem, UsageError, counted, harmless, plain
from ralphgen.project.root import project_place
from ralphgen.project.schema import open_rows
from ralphgen.runtime.engine.ledger import MET
from ralphgen.terminal.app import App, Yes
from ralphgen.terminal.console import print_json, print_result, refuse_agents, say

RUN_CHECKS = "run_checks"
app = App()
tasks = App(name="task", help="Add, list, edit and close tasks.")
app.add_typer(tasks)
NOTHING_READY = 8
PENDING = "pending"
CHOICES = 4  # names that a usage error lists
READY = 10  # ids of tasks that are named after a change
Id = Annotated[
    int, typer.Argument(metavar="N", help="Id of the task.", autocompletion=complete_tasks)
]
Feature = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of the feature.", autocompletion=complete_features),
]
Discipline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Name of the agent role.", autocompletion=complete_disciplines
    ),
]
Status = Annotated[
    str | None,
    typer.Option(
        metavar="STATUS",
        help="draft or pending (default: draft).",
        autocompletion=complete_statuses,
    ),
]
Priority = Annotated[
    str | None,
    typer.Option(
        metavar="PRIORITY",
        help="low, medium, high or critical (default: medium).",
        autocompletion=complete_priorities,
    ),
]
TASK_FIELDS = {
    "depends_on": field(
        "Id of a task to finish first. Repeatable.", "N", many=True, complete=complete_tasks
    ),
    "description": field("Description, in Markdown."),
    "acceptance_criteria": field("A criterion the result must meet. Repeatable.", many=True),
    "tags": field("A tag. Repeatable.", "TAG", many=True),
    "context_files": field("A file the agent reads first. Repeatable.", "PATH", many=True),
    "hints": field("Advice for the agent."),
}
OF_NEW = {
    "feature": Feature,
    "discipline": Discipline,
    "priority": Priority,
    "status": Status,
    **TASK_FIELDS,
}
OF_OLD = {
    "title": field("Title of the task."),
    "priority": Priority,
    **TASK_FIELDS,
    "clear": Clear,
}


@row_command(
    tasks,
    fields=OF_NEW,
    example="ralphgen task add 'Log in' --feature auth --discipline backend --ready",
)
def add(
    at: RowCommand,
    title: Annotated[str, typer.Argument(help="Title of the task.")],
    ready: Annotated[bool, typer.Option("--ready", help="Short for --status pending.")] = False,
) -> None:
    """Create a task."""
    if ready and at.given.get("status", [PENDING]) != [PENDING]:
        raise UsageError('"--ready" and "--status" are both given', "leave one out")
    if not title.strip():
        raise UsageError('"TITLE" must not be blank')
    given = {"title": [title], **at.given, **({"status": [PENDING]} if ready else {})}
    with at.tools("create_task", positional={"title": "TITLE"}) as tools:
        fields = _completed(tools, given)
        answer = tools.ask("create_task", **arguments_of(fields, tools.properties("create_task")))
        task = answer["id"]
        state = answer["status"] if at.as_json else _state(tools, task, answer["status"])
    at.show_change(answer, f"created task {task} ({state})")
    if state == "draft" and not at.as_json:
        print_result(f"agents skip drafts; to make it ready: ralphgen task status {task} pending")


@row_command(tasks, "list", example="ralphgen task list --ready")
def list_(
    at: RowCommand,
    ready: Annotated[bool, typer.Option("--ready", help="Only ready tasks, next one first.")] = (
        False
    ),
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help="Stored status, or ready, waiting, claimed or stale.",
            autocompletion=complete_states,
        ),
    ] = None,
    feature: Feature = None,
    discipline: Discipline = None,
    search: Annotated[
        str, typer.Option(metavar="TEXT", help="Only titles that contain this text.")
    ] = "",
    questions: Annotated[
        bool, typer.Option("--questions", help="The open questions of agents instead.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """List tasks by id; with --ready, the next one first."""
    if questions:
        if ready or status or feature or discipline or search:
            raise UsageError('"--questions" cannot be combined with filters', "leave them out")
        _list_questions(at, limit)
        return
    state = "" if status is None else status
    wanted = {
        "filter_status": None if state in STATES else status,
        "filter_feature": feature,
        "filter_discipline": discipline,
        "filter_ready": ready or None,
    }
    filters = {name: value for name, value in wanted.items() if value is not None}
    with at.tools("list_tasks") as tools:
        if search or state in STATES:

            def matches(task: Record) -> bool:
                is_found = search.casefold() in str(task.get("title", "")).casefold()
                return is_found and (state not in STATES or task_view(task)["status"] == state)

            answer = matching(tools, matches, limit, filters)
        else:
            answer = _filter_tasks(tools, limit, filters)

    def none() -> str:
        if ready and not (search or status):
            return _why(at.project, feature, discipline)
        return "no matching tasks" if filters or search or status else "no tasks yet"

    at.show_rows(answer, "tasks", none=none)


@row_command(tasks, "next", example="ralphgen task next --json | jq .id")
def next_(
    at: RowCommand,
    feature: Feature = None,
    discipline: Discipline = None,
    claim: Annotated[
        bool,
        typer.Option("--claim", help="Claim the task, like session create task_execution --next."),
    ] = False,
) -> None:
    """Show the next ready task. Exits with 8 if there is none."""
    if claim:
        from ralphgen.cli.sessions import CLAIMING, make_session
        from ralphgen.sessions.decide import Request

        refuse_agents("task next --claim")
        request = Request(CLAIMING, feature=feature or "", discipline=discipline or "", next=True)
        place = project_place(at.project)
        make_session(place, request, as_json=at.as_json, tell=say, trust_edited=at.trust_edited)
        return
    wanted = {"filter_feature": feature, "filter_discipline": discipline}
    filters = {name: value for name, value in wanted.items() if value is not None}
    found = at.ask("list_tasks", filter_ready=True, limit=1, **filters)["tasks"]
    if at.as_json:
        print_json(found[0] if found else None)
    else:
        answer = {"tasks": found, "total": len(found)}
        at.show_rows(answer, "tasks", none=lambda: _why(at.project, feature, discipline))
        if found:
            say(f"next: ralphgen launch --task {found[0]['id']}")
    raise typer.Exit(0 if found else NOTHING_READY)


@row_command(tasks, example="ralphgen task show 7")
def show(at: RowCommand, task: Id) -> None:
    """Show a task, its dependencies and its comments."""
    from ralphgen.ledger.record import last_verdict

    root = project_place(at.project).root
    record = at.ask("get_task", id=task)
    if verdict := last_verdict(root, task):
        name, author, time = verdict
        record[name.replace(" ", "_")] = f"{author}, {time}"
    if not at.as_json:
        for name in ("dependencies", "dependents"):
            if name in record:
                record[name] = [_summary(one) for one in record[name]]
    at.show_record(record, f"task {record['id']}: {record['title']}", hide={"id", "title"})
    with open_rows(root) as rows:
        for number, title in rows.formerly(task):
            say(plain(f'task {number} "{title}" was task {task} before a sync'))


@row_command(
    tasks,
    fields=OF_OLD,
    example="ralphgen task edit 7 --priority high --depends-on 3",
)
def edit(
    at: RowCommand,
    task: Id,
) -> None:
    """Edit a task. Without options, it opens in $EDITOR."""
    if new := at.given.get("status"):
        command = shlex.join(["ralphgen", "task", "status", str(task), new[-1]])
        raise UsageError('unknown option "--status"', command)
    at.change("task", id=task)


@row_command(tasks, example="ralphgen task status 7 done --summary 'It works'")
def status(
    at: RowCommand,
    task: Id,
    new: Annotated[
        str,
        typer.Argument(metavar="STATUS", help="New status.", autocompletion=complete_statuses),
    ],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why the task is blocked (required for blocked).")
    ] = "",
    summary: Annotated[
        str, typer.Option(metavar="TEXT", help="Summary of the work, stored as a comment.")
    ] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Take the task from the session that claimed it."),
    ] = False,
    because: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Close without passing checks, for this reason (needs --force)."
        ),
    ] = "",
) -> None:
    """Change the status of a task, by the rules for agents."""
    if force or because:
        refuse_agents("task status --force")
    words = {"reason": reason, "summary": summary, "because": because}
    with at.tools("set_task_status", positional={"status": "STATUS"}) as tools:
        answer = tools.set_status(task, new, words, force=force)
        is_told = answer["new"] == PENDING and not at.as_json
        state, command = _state_and_next(tools, task) if is_told else ("", "")
    now = f" ({state})" if state else ""
    if answer["old"] == answer["new"]:
        at.show_change(answer, f"task {task} is already {new}{now}")
    else:
        free = [str(one) for one in answer.get("unblocked", ())]
        more = f", and {len(free) - READY} more" if len(free) > READY else ""
        after = f"; now ready: {', '.join(free[:READY])}{more}" if free else ""
        at.show_change(answer, f"task {task}: {answer['old']} → {answer['new']}{now}{after}")
    if command:
        print_result(f"next: {command}")


@row_command(tasks, example="ralphgen task comment 7 'Use the new API'")
def comment(
    at: RowCommand,
    task: Id,
    text: Annotated[str, typer.Argument(help='Text of the comment ("-" reads stdin).')],
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Author of the comment (default: you).")
    ] = "",
    priority: Priority = None,
) -> None:
    """Add a comment to a task."""
    body = typer.get_text_stream("stdin").read() if text == "-" else text
    with at.tools("add_task_comment", positional={"body": "TEXT"}) as tools:
        answer = tools.comment(task, body, author=author, priority=priority or "")
    at.show_change(answer, f"comment {answer.get('id', '')} on task {task}")


@row_command(tasks, example="ralphgen task answer 7 UTC")
def answer(
    at: RowCommand,
    task: Id,
    text: Annotated[str, typer.Argument(help='Text of the answer ("-" reads stdin).')],
) -> None:
    """Answer the open question of a task, which makes it pending."""
    from ralphgen.sessions.questions import answer_question

    refuse_agents("task answer")
    given = typer.get_text_stream("stdin").read() if text == "-" else text
    number = answer_question(project_place(at.project).root, task, given.strip())
    at.show_change(
        {"task": task, "question": number, "status": PENDING},
        f"answered question {number}; task {task}: blocked → {PENDING}",
    )


@row_command(tasks, example="ralphgen task accept 7 8")
def accept(
    at: RowCommand,
    ids: Annotated[
        list[int],
        typer.Argument(metavar="N…", help="Ids of done tasks.", autocompletion=complete_tasks),
    ],
) -> None:
    """Accept the finished work on tasks."""
    from ralphgen.sessions.reviews import accept as accept_work

    refuse_agents("task accept")
    session, new = accept_work(project_place(at.project).root, ids)
    named = f"task{'s' * (len(ids) != 1)} {', '.join(map(str, ids))}"
    at.show_change({"tasks": new, "session": session}, f"accepted {named}")


@row_command(tasks, "send-back", example="ralphgen task send-back 7 'Keep the old API'")
def send_back(
    at: RowCommand,
    task: Id,
    note: Annotated[str, typer.Argument(help='Requested changes ("-" reads stdin).')],
) -> None:
    """Send finished work back; its task is next."""
    from ralphgen.sessions.reviews import send_back as send_work_back

    refuse_agents("task send-back")
    given = typer.get_text_stream("stdin").read() if note == "-" else note
    session = send_work_back(project_place(at.project).root, task, given.strip())
    at.show_change(
        {"task": task, "status": PENDING, "session": session},
        f"sent back task {task}: done → {PENDING}",
    )


@row_command(tasks, example="ralphgen task move 7 1")
def move(
    at: RowCommand,
    task: Id,
    place: Annotated[
        int | None,
        typer.Argument(metavar="[PLACE]", min=1, help="Place among the ready tasks, from 1."),
    ] = None,
    by_priority: Annotated[
        bool, typer.Option("--by-priority", help="Give up the place of the task.")
    ] = False,
) -> None:
    """Change the order in which agents take tasks."""
    from ralphgen.sessions.reviews import move_task

    refuse_agents("task move")
    if by_priority == (place is not None):
        raise UsageError("give either a place or --by-priority", f"ralphgen task move {task} 1")
    ready = move_task(project_place(at.project).root, task, place)
    first = ", ".join(map(str, ready[:READY])) or "none"
    at.show_change({"task": task, "ready": ready}, f"moved task {task}; now ready: {first}")


@row_command(tasks, example="ralphgen task delete 7")
def delete(
    at: RowCommand,
    task: Id,
    yes: Yes = False,
) -> None:
    """Delete a task and its comments, if no task depends on it."""
    with at.tools("delete_task") as tools:
        title = "" if yes else tools.ask("get_task", id=task)["title"]
        at.confirm(f'delete task {task} "{plain(title)}"?', yes=yes)
        answer = tools.ask("delete_task", id=task)
    named = answer.get("still_named_by", ())
    also = f"; still named by {counted(len(named), 'other')}" if named else ""
    at.show_change(answer, f"deleted task {task}{also}")


def _list_questions(at: RowCommand, limit: int) -> None:
    """Print the oldest open questions, each with the command that answers it."""
    from ralphgen.sessions.claims import task_states
    from ralphgen.sessions.questions import asked_elsewhere, open_questions

    root = project_place(at.project).root
    found = open_questions(root)
    shown = found[:limit]
    if at.as_json:
        print_json({"questions": [one.as_json() for one in shown], "total": len(found)})
        return
    if not found:
        say("no open questions")
    if elsewhere := sorted(asked_elsewhere(root, task_states(root))):
        say(f"asked in another clone: {', '.join(f'task {task}' for task in elsewhere)}")
    for one in shown:
        print(plain(f"question {one.number}, task {one.task}, {one.title} ({one.asked})"))
        for line in harmless(one.question).splitlines():
            print(f"    {line}")
        if one.options:
            print(plain(f"    options: {', '.join(one.options)}"))
        say(f"next: ralphgen task answer {one.task} TEXT")
    if len(found) > len(shown):
        say(f"{len(found) - len(shown)} more: --limit {len(found)}")


def _filter_tasks(tools: RowTools, limit: int, filters: Record) -> Record:
    """Return the tasks of a filter; the refusal of a status names the computed states too."""
    try:
        return limit_rows(tools, "list_tasks", "tasks", limit, **filters)
    except RefusalError as error:
        for one in error.problems:
            if '"filter_status" is ' in one.text and not one.hint:
                error.problems = (Problem(one.text, f"--status also accepts {', '.join(STATES)}"),)
        raise


def _completed(tools: RowTools, fields: Given) -> Given:
    """Return the fields of a new task with the only feature, if none is given.

    Raises `UsageError` if required options are missing: it names the rows to choose from.
    """
    schema = tools.tools().get("create_task", {})
    required = schema.get("required", ())
    if not fields.keys() <= schema.get("properties", {}).keys():  # the tool refuses the field
        return fields
    names = {
        name: [one["name"] for one in tools.ask(f"list_{name}s", limit=CHOICES + 1)[f"{name}s"]]
        for name in ("feature", "discipline")
        if name in required and name not in fields
    }
    if len(names.get("feature", ())) == 1:
        fields = {**fields, "feature": names.pop("feature")}
    if not names:
        return fields
    options = ", ".join(f"--{name}" for name in names)
    choices = [
        f"{name}s: {', '.join([*found[:CHOICES], *['…'] * (len(found) > CHOICES)]) or 'none'}"
        for name, found in names.items()
    ]
    words = [fields["title"][0]]
    for name in ("feature", "discipline"):
        words += [f"--{name}", (fields.get(name) or names.get(name) or ["NAME"])[0]]
    raise UsageError(
        f"missing {'option' if len(names) == 1 else 'options'} {options}",
        f"ralphgen task add {shlex.join(words)}",
        plain("    ".join(choices)),
    )


def _state(tools: RowTools, task: int, stored: str) -> str:
    """Return the computed state of a task, or its stored status if the session has no tool."""
    if "get_task" not in tools.tools():
        return stored
    return str(task_view(tools.ask("get_task", id=task))["status"])


def _state_and_next(tools: RowTools, task: int) -> tuple[str, str]:
    """Return the computed state of a pending task, and the next command unless it is ready."""
    if "get_task" not in tools.tools():
        return PENDING, ""
    shown = task_view(tools.ask("get_task", id=task))
    state, needed = str(shown["status"]), shown.get("dependencies", ())
    if state == "ready":
        return state, ""
    for one in needed if state == "waiting" else ():
        status = "missing" if one.get("missing") else str(one["status"])
        if status == "missing":
            command = f"ralphgen task edit {task} --clear depends_on"
        elif one.get("unmerged"):
            status, command = f"{status}, not merged", "ralphgen merges"
        elif status in MET:
            continue
        else:
            is_draft = status == "draft"
            command = f"ralphgen task {'status' if is_draft else 'show'} {one['id']}"
            command += f" {PENDING}" * is_draft
        return f"{state} for task {one['id']}: {status}", command
    return state, f"ralphgen task show {task}"


def _why(project: Path, feature: str | None, discipline: str | None) -> str:
    """Return why no task is ready."""
    from ralphgen.sessions.claims import why_none_is_ready

    place = project_place(project)
    return str(why_none_is_ready(place.root, feature or "", discipline or ""))


def _summary(task: Record) -> str:
    """Return another task in one line, with its last comment."""
    if task.get("missing"):
        return f"task {task['id']}: missing"
    status = f"{task['status']}, not merged" if task.get("unmerged") else task["status"]
    last = task.get("last_comment", {}).get("body", "")
    return f"task {task['id']} ({status}): {task['title']}{last and f' ({last})'}"


@row_command(tasks, example="ralphgen task check 7")
def check(
    at: RowCommand,
    task: Id,
) -> None:
    """Run the checks of a task. Exits with 1 if one fails.

    Passed checks prove the task while the files stay unchanged.
    """
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import require_trust, run_check_items
    from ralphgen.errors import ProjectError
    from ralphgen.kits.registry import read_settings
    from ralphgen.project.root import project_place

    place = project_place(at.project)
    done = read_settings(place.root).done
    if not done.checks:
        hint = 'add [[done.checks]] to .ralph/ralphgen.toml, then run "ralphgen regen"'
        raise ProjectError("no checks are configured", hint)
    require_trust(place.root, run_check_items(done, place.work_tree), confirm_trust)
    answer = at.ask(RUN_CHECKS, task=task)
    if at.as_json:
        print_json(answer)
    else:
        _show_checks(task, answer)
    raise typer.Exit(0 if answer["passed"] else 1)


def _show_checks(task: int, answer: Record) -> None:
    for one in answer["checks"]:
        code = one["exit_code"]
        end = "passed" if code == 0 else "was stopped" if code is None else "failed"
        exit_code = f" (exit code {code})" if code else ""
        print(f"{plain(one['name'])} {end} in {one['seconds']} s{exit_code}")
        if code != 0:
            for line in harmless(one["tail"]).splitlines():
                print(f"    {line}")
    for key in ("not_proved", "watched", "note"):
        if key in answer:
            print(plain(answer[key]))
    if answer["passed"]:
        print(f"task {task} can be closed while the files stay unchanged")
    else:
        print(f"task {task} cannot be closed yet: not every check passed")


features = App(name="feature", help="Add, list and edit features.")
app.add_typer(features)
FEATURE_FIELDS = {
    "display_name": field("Display name."),
    "acronym": field("Four capital letters or digits."),
    "description": field("Description, in Markdown."),
    "architecture": field("Architecture, in Markdown."),
    "boundaries": field("Limits of the feature, in Markdown."),
}

add_named_rows(
    features,
    "feature",
    about="Show a feature, with the number of tasks by status.",
    fields=FEATURE_FIELDS,
    new_fields={},
    complete=complete_features,
    examples={
        "add": "auth --display-name Accounts",
        "show": "auth",
        "edit": "auth --boundaries 'no billing'",
        "delete": "auth",
    },
)


disciplines = App(name="discipline", help="List and edit agent roles.")
app.add_typer(disciplines)
DISCIPLINE_FIELDS = {
    "display_name": field("Display name."),
    "description": field("Description, in Markdown."),
    "system_prompt": field("System prompt of the agent."),
    "skills": field("A skill of the agent. Repeatable.", many=True),
    "conventions": field("Conventions that the agent follows."),
}
add_named_rows(
    disciplines,
    "discipline",
    about="Show a discipline, its skills and its conventions.",
    fields=DISCIPLINE_FIELDS,
    new_fields={
        "icon": field("Icon on the board."),
        "color": field("Color on the board.", "#RRGGBB"),
    },
    complete=complete_disciplines,
    examples={
        "add": "data --description 'Keeps the data.'",
        "show": "backend",
        "edit": "backend --conventions 'No ORM.'",
        "delete": "data",
    },
)
