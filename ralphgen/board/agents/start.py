"""What can be started from the board: what config and machine name, and nothing that is sent.

These are recipes that run without a person, agents whose programs are there, and the options of the
commands. Nothing that a browser sends is a command.
"""

from dataclasses import dataclass
from pathlib import Path

from ralphgen.agents.agent import prints
from ralphgen.agents.calls import read_policy
from ralphgen.agents.registry import agents_here
from ralphgen.board.agents.options import in_words_of_page
from ralphgen.board.requests import ActionResult, FieldProblem, fieldless
from ralphgen.board.views.task_record import titles_of
from ralphgen.errors import RalphgenError
from ralphgen.kits.ralph.rows import project_rows
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.project.database import open_database
from ralphgen.project.inspect import read_schema
from ralphgen.project.model import Names
from ralphgen.project.rows import open_rows
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.sessions.claims import next_tasks

READY = 20  # tasks that are named where an agent is to be started


@dataclass(frozen=True, slots=True)
class StartChoices:
    """What a person can choose from where an agent is to be started.

    `recipes` are those that go without a person; of a task those that are about one.
    """

    recipes: Names
    disciplines: Names
    agents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """What came of a start: `begun` is the id of the session or loop, "" where there is none.

    `outcome` says what a person is told.
    """

    begun: str
    outcome: ActionResult


def start_choices(root: Path, task: str) -> StartChoices:
    """Return what can be started in the project in `root`; about a task, where one is named.

    Raises `ProjectError` where the project cannot be read.
    """
    policy = read_policy(root, trust_edited=True)
    recipes = [name for name in policy.recipes if prints(policy.profile(name))]
    if task:
        recipes = [name for name in recipes if "task" in policy.targets(name)]
    with open_rows(root) as rows:
        disciplines = tuple(rows.names("disciplines"))
    agents = tuple((one.name, one.title) for one in agents_here(read_settings(root)))
    return StartChoices(tuple(recipes), disciplines, agents)


def ready_tasks(root: Path) -> tuple[tuple[int, str], ...]:
    """Return the first tasks that can be begun, each with its title; none without a ledger.

    Raises `ProjectError` where the project cannot be read.
    """
    with open_database(root) as connection:
        schema = read_schema(connection, root, KITS)
    if schema.table(MARKER) is None:
        return ()
    first = next_tasks(root, schema)[:READY]
    with project_rows(root, KITS) as (rows, _):
        titles = titles_of(rows, first)
    return tuple((task, titles.get(task, "")) for task in first)


def refused_choice(given: str, known: Names, what: str) -> StartedAgent | None:
    """Return the refusal of what nobody can choose; None of what is known."""
    if given in known:
        return None
    problem = FieldProblem(what, f"there is no {what} with this name", "choose another")
    return StartedAgent("", ActionResult(False, "nothing was started", (), (problem,)))


def refused_agent(given: str, choices: StartChoices) -> StartedAgent | None:
    """Return the refusal of an agent that nobody can choose; None of one that is there."""
    return refused_choice(given, tuple(name for name, _ in choices.agents), "agent")


def not_started(error: RalphgenError) -> StartedAgent:
    """Return that an error keeps everything from being started."""
    return StartedAgent(
        "",
        ActionResult(False, "nothing was started", (), in_words_of_page(fieldless(error.problems))),
    )
