"""Saves what a person wants of a discipline, into the database or the config, and regenerates."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ralphgen.board.edit.edits import Edit, problems_of
from ralphgen.board.edit.orders import planned, secrets_of
from ralphgen.board.edit.store import PATIENCE, stored
from ralphgen.board.outcomes import FieldProblem
from ralphgen.board.views.discipline_facts import Facts, read_facts
from ralphgen.board.views.disciplines import Persona, persona
from ralphgen.board.views.drift import regenerate
from ralphgen.errors import Problem, ProjectError, RalphgenError, Say
from ralphgen.output.stage import explained
from ralphgen.output.write import exclusive
from ralphgen.project.config import FILE
from ralphgen.project.inspect import DATABASE
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import one_line

State = Literal["saved", "stale", "refused"]
SHORTEST_SECRET = 4
"""Characters; shorter values are in many a word."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What came of an edit: it is all there (`saved`), or nothing of it is.

    `stale` is one that was made from what is no longer there. `persona` is what is there now, None
    where that cannot be told. `fields` are what is wrong with a refused edit, `problems` what else
    is in the way; with `saved`, they are what kept the server from being written anew.
    """

    state: State
    sentence: str
    persona: Persona | None = None
    fields: tuple[FieldProblem, ...] = ()
    problems: tuple[Problem, ...] = ()


def save(root: Path, edit: Edit, say: Say, patience: float = PATIENCE) -> Saved:
    """Save an edit of a discipline of the project in `root`, then regenerate.

    Columns that are there and can be written are changed in one transaction, which waits up to
    `patience` seconds for other writers; what has no column goes into the config. Where both do,
    the config is put in place last before the commit, and taken back should that fail. A column
    that the config hides is a column all the same: sessions heed it.
    """
    try:
        with explained(root / FOLDER, "written"), exclusive(root / FOLDER):
            saved = _saved(root, edit, patience)
    except RalphgenError as error:
        return Saved("refused", "nothing was saved", problems=error.problems)
    if saved.state != "saved":
        return saved
    problems = regenerate(root, say)
    if not problems:
        return saved
    sentence = f"{saved.sentence}, but the server was not written anew"
    return replace(saved, sentence=sentence, problems=problems)


def _saved(root: Path, edit: Edit, patience: float) -> Saved:
    facts = read_facts(root)
    if facts.problems:
        raise ProjectError.of(facts.problems)
    shown = one_line(edit.discipline)
    if edit.discipline not in facts.rows:
        raise ProjectError(f'there is no discipline "{shown}" any more', "load the page again")
    before = persona(facts, facts.rows[edit.discipline])
    if before.fingerprint != edit.fingerprint:
        return _stale(before)
    fields = problems_of(edit, before)
    if fields:
        return Saved("refused", "nothing was saved", before, fields)
    order = planned(root, facts, edit)
    if not order.values and order.after is None:
        return Saved("saved", f'"{shown}" is like that already', before)
    done = stored(order, patience)
    now = _now(root, edit.discipline)
    if done.state == "changed":
        return _stale(now)
    if done.state == "refused":
        problems = tuple(_without_secrets(problem, facts, edit) for problem in done.problems)
        return Saved("refused", "nothing was saved", now, problems=problems)
    places = [DATABASE] * bool(order.values) + [FILE] * (order.after is not None)
    return Saved("saved", f'saved "{shown}" in {" and ".join(places)}', now)


def _stale(now: Persona | None) -> Saved:
    hint = "look at what is there now, and edit that"
    problem = Problem("the discipline was changed by somebody else since the page was loaded", hint)
    return Saved("stale", "nothing was saved", now, problems=(problem,))


def _now(root: Path, discipline: str) -> Persona | None:
    """The discipline as it is now."""
    facts = read_facts(root)
    row = facts.rows.get(discipline)
    return None if row is None else persona(facts, row)


def _without_secrets(problem: Problem, facts: Facts, edit: Edit) -> Problem:
    """The problem, or less of it where a trigger's sentence repeats what it was given."""
    for secret in secrets_of(facts, edit):
        spelled = (secret, one_line(secret), json.dumps(secret)[1:-1])
        if len(secret) >= SHORTEST_SECRET and any(one in problem.text for one in spelled):
            return Problem("the database refuses this: what it says is a secret")
    return Problem(one_line(problem.text), problem.hint)
