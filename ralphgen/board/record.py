"""The record of a task: its sessions, runs of checks, and activity."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ralphgen.agents.adapters import KNOWN
from ralphgen.board.text import line, moment, paragraph
from ralphgen.kits.ralph.rows import Rows
from ralphgen.ledger.record import CheckRecord, JournalEntry, SessionRecord, changes_of
from ralphgen.loop.cost import cost_words
from ralphgen.runtime.engine.ledger import DONE
from ralphgen.runtime.tasks.rows import decode_strings
from ralphgen.runtime.tasks.status import IMPORTED, OVERRULED, RESTORED
from ralphgen.sessions.questions import OpenQuestion

Hidden = Callable[[str, str], bool]
"""Returns whether the config hides a column of a table."""
Row = Mapping[str, Any]
HIDDEN = "(hidden)"
FILES, TAIL = 20, 4_000  # file names of a check, and characters of its output
LONGEST, LONGEST_VALUE = 50_000, 300  # characters of a text, and of a changed value
SHORT = 7  # digits of a commit
LONGEST_ID = 200  # characters of a session in a link
SILENT = frozenset({"status", "updated", "completed", "blocked_by"})
"""Columns that a change of the status sets too."""
SIGNED = ("answer", "send-back")  # tools whose comments repeat an answer or a review
WITHOUT_CHECK = {
    OVERRULED: "closed by the user without proof",
    IMPORTED: "imported as done",
    RESTORED: "restored as done by an undo",
}
VERDICTS = {
    "accepted": "accepted the work",
    "sent back": "sent the work back",
    "undone": "undid the work",
}
_QUESTIONS = (
    "SELECT number, session, asked, question, options, answered, answer, by "
    "FROM ralphgen_questions WHERE task_id = ? ORDER BY number DESC LIMIT ?"
)
_REVIEWS = (
    "SELECT number, verdict, author, time, note, reverts, by FROM ralphgen_reviews "
    "WHERE task_id = ? ORDER BY number DESC LIMIT ?"
)
_MERGES = (
    "SELECT number, state, target, ended, merged, reason, tail FROM ralphgen_merges "
    "WHERE task_id = ? ORDER BY number DESC LIMIT ?"
)
_NAMES = "SELECT id, agent, recipe FROM ralphgen_sessions WHERE {among}"


@dataclass(frozen=True, slots=True)
class WorkSession:
    """A session on the task; unknown texts are empty, and an unknown duration is None.

    `merged` is the commit that brought its work into the base branch, if any.
    """

    id: str
    agent: str
    discipline: str
    started: str
    ended: str
    seconds: float | None
    outcome: str
    turns: int | None
    cost: str
    merged: str
    in_worktree: bool


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A run of a check; `verdict` is its result, and `ok` whether it is a proof.

    `files` are the changed protected and watched files.
    """

    number: int
    check: str
    ok: bool
    verdict: str
    session: str
    started: str
    seconds: float
    files: tuple[str, ...]
    tail: str


@dataclass(frozen=True, slots=True)
class Activity:
    """An entry of the activity: `who` did `what` at a `time`, which may be unreadable.

    `text` is Markdown, `tail` the end of an output, and `session` a session to link to.
    `columns` are name, value before and value after.
    """

    key: str
    time: str
    who: str
    what: str
    text: str = ""
    tail: str = ""
    session: str = ""
    columns: tuple[tuple[str, ...], ...] = ()


def work_session(record: SessionRecord) -> WorkSession:
    """Return a session in its displayed form."""
    started, ended = moment(record.started), moment(record.ended)
    known = KNOWN.get(record.agent or "")
    is_over = record.agent is not None and record.ended is not None
    is_unknown = is_over and record.cost_usd is None and record.estimated_usd is None
    return WorkSession(
        id=record.session_id[:LONGEST_ID],
        agent=known.title if known else line(record.agent or record.recipe),
        discipline=line(record.discipline),
        started=line(record.started),
        ended=line(record.ended),
        seconds=max(0.0, (ended - started).total_seconds()) if started and ended else None,
        outcome=line(record.outcome),
        turns=record.turns,
        cost=cost_words(record.cost_usd, record.estimated_usd, int(is_unknown)),
        merged=line(record.merged),
        in_worktree=bool(record.worktree),
    )


def shown_check(run: CheckRecord) -> ShownCheck:
    """Return a run of a check in its displayed form."""
    protected, watched = _files(run.protected), _files(run.watched)
    verdict = "passed" if run.exit_code == 0 else f"exit code {run.exit_code}"
    if run.exit_code is None:
        verdict = WITHOUT_CHECK.get(run.check, "stopped")
    return ShownCheck(
        number=run.number,
        check="" if run.check in WITHOUT_CHECK else line(run.check),
        ok=run.exit_code == 0 and not protected,
        verdict=verdict,
        session=run.session or "",
        started=line(run.started),
        seconds=run.seconds,
        files=tuple(dict.fromkeys([*protected, *watched])),
        tail=paragraph(run.tail, TAIL),
    )


def _files(stored: str) -> list[str]:
    """Return the names of files in a JSON list, the first of many."""
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = [stored]
    listed = found if isinstance(found, list) else [found]
    more = [f"{len(listed) - FILES} more"] if listed[FILES:] else []
    return [*map(line, listed[:FILES]), *more]


def newest_checks(runs: Iterable[ShownCheck]) -> tuple[ShownCheck, ...]:
    """Return the newest run of each check, by name; `runs` are newest first."""
    newest: dict[str, ShownCheck] = {}
    for run in runs:
        newest.setdefault(run.check or run.verdict, run)
    return tuple(newest[name] for name in sorted(newest))


class TaskRecord:
    """The newest entries on a task in the database, at most so many of each kind."""

    def __init__(
        self,
        rows: Rows,
        is_hidden: Hidden,
        task: int,
        most: int,
        sessions: Sequence[WorkSession],
        *,
        recorded: bool,
    ) -> None:
        self._is_hidden, self._task, self._sessions = is_hidden, task, sessions
        self._comments = _comments(rows, task, most)
        said = [one["id"] for one in self._comments if isinstance(one["id"], int)]
        self._changes = changes_of(rows, task, said, most) if recorded else []
        read = rows.execute if recorded else lambda *_: list[Any]()
        self._questions = read(_QUESTIONS, task, most)
        self._reviews, self._merges = read(_REVIEWS, task, most), read(_MERGES, task, most)
        self._made = {
            change.key: change
            for change in self._changes
            if change.before is None and change.table.lower() == "task_comments"
        }
        ids = {one.session for one in self._changes} | {by for *_, by in self._questions}
        named = json.dumps(sorted(filter(None, ids)))
        sql = _NAMES.replace("{among}", rows.connection.sql.among("id", "text"))
        names = rows.execute(sql, named) if recorded and len(named) > len("[]") else []
        self._names = {
            session: "The user" if agent is None and recipe == "manual" else line(agent or recipe)
            for session, agent, recipe in names
        }
        self._names |= {one.id: one.agent for one in sessions}
        self._names |= {by: line(author) for _, _, author, *_, by in self._reviews}

    def open_question(self) -> OpenQuestion | None:
        """Return the open question, or None."""
        for number, session, asked, text, options, answered, *_ in self._questions:
            if answered is None:
                return OpenQuestion(
                    number, self._task, "", session, line(asked), _text(text), shown_items(options)
                )
        return None

    def last_words(self, work: WorkSession | None, status: str) -> Row | None:
        """Return the last comment of the session that finished the task, or None.

        Without a record of who wrote what, it is the last one until its end.
        """
        if DONE not in ((status,) if work is None else (work.outcome,)):
            return None
        for one in self._comments:
            made = self._made.get(str(one["id"]))
            is_last = work is None or (made is not None and made.session == work.id)
            if made is None and work is not None:
                is_last = work.started <= line(one.get("created")) <= work.ended
            if is_last:
                return one
        return None

    def entries(self, runs: Iterable[ShownCheck], ending: Row | None) -> Iterator[Activity]:
        """Yield sessions, changes, checks and comments but the `ending`, each oldest first."""
        for own in reversed(self._sessions):
            role = f" as {own.discipline}" if own.discipline else ""
            yield Activity(
                _key("begin", own.id), own.started, own.agent, f"started{role}", session=own.id
            )
        made = {one.number for one in self._made.values()}
        yield from (self._change(one) for one in reversed(self._changes) if one.number not in made)
        for run in reversed([*runs]):
            who = "Checks" if run.check else self._names.get(run.session, "The user")
            what = f"{run.check}: {run.verdict}" if run.check else run.verdict
            what += f", after changes of {', '.join(run.files)}" if run.files else ""
            yield Activity(f"run-{run.number}", run.started, who, what, tail=run.tail)
        for one in reversed(self._comments):
            change = self._made.get(str(one["id"]))
            if one is ending or (change is not None and change.tool in SIGNED):
                continue
            time = line(one.get("created")) or (line(change.time) if change else "")
            who = line(one.get("author")) or self._who(change.session if change else None)
            facts = [line(one.get(name)) for name in ("discipline", "priority")]
            more = ", ".join(fact for fact in facts if fact and fact != who)
            what = f"commented ({more})" if more else "commented"
            yield Activity(_key("comment", one["id"]), time, who, what, _text(one["body"]))

    def decisions(self) -> Iterator[Activity]:
        """Yield questions with their answers, ends of sessions, merges and reviews."""
        for number, session, asked, text, _, answered, answer, by in reversed(self._questions):
            who = self._names.get(session, "An agent")
            yield Activity(f"question-{number}", line(asked), who, "asked", _text(text))
            if answered is not None:
                what = "answered" if answer is not None else "withdrew the question"
                key, who = f"answer-{number}", self._who(by)
                yield Activity(key, line(answered), who, what, _text(answer))
        for own in reversed(self._sessions):
            what = f"ended: {own.outcome or 'unknown'}"
            if own.merged and not self._merges:
                what += f", merged as {own.merged[:SHORT]}"
            what += f" ({own.cost})" if own.cost else ""
            if own.ended:
                yield Activity(_key("end", own.id), own.ended, own.agent, what)
        for number, state, target, ended, merged, reason, tail in reversed(self._merges):
            what = f"merged it into {line(target)} as {line(merged)[:SHORT]}"
            if not merged:
                what = f"{line(state)} the work"
            key, end = f"merge-{number}", paragraph(tail, TAIL)
            if ended:
                yield Activity(key, line(ended), "The merge queue", what, _text(reason), end)
        for number, verdict, author, time, note, reverts, _ in reversed(self._reviews):
            what = VERDICTS.get(verdict, line(verdict))
            what += f", by the commit {line(reverts)[:SHORT]}" if reverts else ""
            yield Activity(f"review-{number}", line(time), line(author), what, _text(note))

    def _change(self, change: JournalEntry) -> Activity:
        sides = [
            {
                name: HIDDEN if self._is_hidden(change.table, name) else value
                for name, value in _columns(side).items()
            }
            for side in (change.before, change.after)
        ]
        before, after = sides
        is_task, is_edit = (
            change.table.lower() == "tasks",
            None not in (change.before, change.after),
        )
        names = [name for name in {**before, **after} if not (is_task and name in SILENT)]
        columns = tuple((line(name), *(_value(one.get(name)) for one in sides)) for name in names)
        what = f"changed {', '.join(name.replace('_', ' ') for name, *_ in columns)}"
        if is_edit and is_task and "status" in after:
            more = f", and {what}" if columns else ""
            what = f"set the status to {line(after['status']).replace('_', ' ')}{more}"
        elif not is_edit or not is_task:
            verb = "edited" if is_edit else "deleted" if change.after is None else "created"
            what = f"{verb} {'the task' if is_task else 'a comment'}"
        reason = after.get("blocked_by") if is_task and is_edit else ""
        if reason in {text for _, _, _, text, *_ in self._questions}:
            reason = ""
        key, time = f"change-{change.number}", line(change.time)
        return Activity(key, time, self._who(change.session), what, _text(reason), columns=columns)

    def _who(self, session: str | None) -> str:
        return self._names.get(session or "", "Another program")


def _key(kind: str, identity: object) -> str:
    """Return the id of an element for a row that any text identifies."""
    return f"{kind}-{sha256(str(identity).encode(errors='replace')).hexdigest()[:12]}"


def _text(value: object) -> str:
    return paragraph(value, LONGEST)


def shown_items(value: object) -> tuple[str, ...]:
    """Return the texts of a stored list; an unreadable one is a single text."""
    decoded = decode_strings(value)
    items = decoded.values if decoded.readable else [value]
    return tuple(paragraph(one, LONGEST) for one in items)


def _comments(rows: Rows, task: int, most: int) -> list[dict[str, Any]]:
    """Return the last comments on a task, the newest first; none without such a table."""
    if rows.lacks("task_comments", "id", "task_id", "body"):
        return []
    optional = rows.chosen("task_comments", "author", "discipline", "priority", "created")
    columns = ["id", "body", *optional]
    rest = "WHERE task_id = ? ORDER BY id DESC LIMIT ?"
    read = rows.read("task_comments", columns, rest, task, most)
    return [dict(zip(columns, row, strict=True)) for row in read]


def _columns(stored: str | None) -> dict[str, object]:
    """Return the columns of one side of a change; other text is shown literally."""
    if stored is None:
        return {}
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"": stored}


def _value(value: object) -> str:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    return paragraph(text, LONGEST_VALUE)
