"""A variable or schema of PostgreSQL that a project chose is opened once the user accepts it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen
from lanes import shortened
from postgresql import database, needs_postgresql
from proved_projects import git
from trusting import COMMANDS, FROM_FACTS, REFUSED, at_terminal, configure

pytestmark = pytest.mark.slow

HERE = '\n[database]\nengine = "postgresql"\n'
VARIABLE = f'{HERE}dsn_env = "PROD_DSN"\n'
SCHEMA = f'{HERE}schema = "payroll"\n'
NOWHERE = "postgresql://u@127.0.0.1:1/prod"  # a connection would be refused
OPENING = [one for one in COMMANDS if one not in FROM_FACTS]


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's variables; the first one is for other programs."""
    monkeypatch.setenv("PROD_DSN", NOWHERE)
    monkeypatch.setenv("RALPH_DSN", NOWHERE)


@pytest.mark.parametrize("settings", [VARIABLE, SCHEMA], ids=["variable", "schema"])
@pytest.mark.parametrize("command", shortened(OPENING, OPENING[0], OPENING[-1]), ids=" ".join)
def test_no_command_opens_it_without_a_record(
    clone: Path, command: tuple[str, ...], settings: str
) -> None:
    configure(clone, settings)

    done = ralphgen(*command, cwd=clone)

    assert 0 != done.returncode
    assert REFUSED in done.stdout + done.stderr
    assert "cannot connect to the database in" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", FROM_FACTS, ids=" ".join)
def test_commands_that_need_no_record_take_the_committed_facts(
    clone: Path, command: tuple[str, ...]
) -> None:
    configure(clone, VARIABLE)

    done = ralphgen(*command, cwd=clone)

    assert f'{REFUSED}: the schema "public" of PROD_DSN' in done.stderr
    assert "using the schema recorded in .ralph/mcp/project.json" in done.stderr
    assert "cannot connect to the database in" not in done.stdout + done.stderr


def test_it_is_refused_for_the_login_that_may_make_roles(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(clone, SCHEMA)
    monkeypatch.delenv("RALPH_DSN")
    monkeypatch.setenv("RALPH_ADMIN_DSN", NOWHERE)

    done = ralphgen("session", "revoke", "abc", cwd=clone)

    assert 2 == done.returncode
    assert REFUSED in done.stderr


@pytest.mark.parametrize(
    "settings", [HERE, f'{HERE}dsn_env = "RALPH_DSN"\nschema = "public"\n'], ids=["unset", "set"]
)
def test_the_variable_of_projects_needs_no_record(clone: Path, settings: str) -> None:
    configure(clone, settings)

    done = ralphgen("inspect", cwd=clone)

    assert "cannot connect to the database in RALPH_DSN" in done.stderr


def test_the_schema_that_the_users_dsn_names_needs_no_record(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(clone, SCHEMA)
    monkeypatch.setenv("RALPH_DSN", f"{NOWHERE}?schema=payroll")

    done = ralphgen("inspect", cwd=clone)

    assert "cannot connect to the database in RALPH_DSN" in done.stderr


@pytest.mark.parametrize("change", ["PROD_DSN", "payroll"])
def test_a_choice_that_changes_is_asked_about_again(clone: Path, change: str) -> None:
    settings = f'{HERE}dsn_env = "PROD_DSN"\nschema = "payroll"\n'
    configure(clone, settings)
    ralphgen("trust", "-C", clone, "--yes")
    assert REFUSED not in ralphgen("task", "list", cwd=clone).stderr
    path = clone / ".ralph/ralphgen.toml"
    path.write_text(path.read_text(encoding="utf-8").replace(change, "PATH"), encoding="utf-8")

    assert REFUSED in ralphgen("task", "list", cwd=clone).stderr


def test_a_choice_that_git_has_is_not_recorded_by_regen(own: Path) -> None:
    git(own, "init", "-q")
    configure(own, VARIABLE)
    git(own, "add", "--all", "--force")
    git(own, "commit", "-qm", "a stranger's")

    done = ralphgen("regen", own, "--no-install", "--force", "--allow-removals")

    assert 0 == done.returncode, done.stderr
    assert REFUSED in ralphgen("task", "list", cwd=own).stderr


@needs_postgresql
class TestOnPostgresql:
    """The same with rows in a database that answers."""

    @pytest.fixture
    def theirs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """A foreign project, created with another variable that the user has too."""
        with database() as dsn:
            monkeypatch.setenv("RALPH_DSN", dsn)
            root = tmp_path / "made"
            made = ralphgen("init", root, "--engine", "postgresql", "--no-install")
            assert 0 == made.returncode, made.stderr
            monkeypatch.setenv("PROD_DSN", dsn)
            yield root

    @pytest.mark.thorough
    def test_a_plain_clone_answers_without_a_question(self, theirs: Path, tmp_path: Path) -> None:
        clone = shutil.copytree(theirs, tmp_path / "elsewhere" / "clone")

        listed = ralphgen("task", "list", cwd=clone)

        assert 0 == listed.returncode, listed.stderr

    @pytest.mark.thorough
    def test_another_variable_opens_after_the_users_yes(self, theirs: Path, tmp_path: Path) -> None:
        choose(theirs)
        assert 0 == ralphgen("regen", theirs, "--no-install").returncode  # typed by its owner
        assert 0 == ralphgen("task", "list", cwd=theirs).returncode
        clone = shutil.copytree(theirs, tmp_path / "elsewhere" / "clone")

        refused = ralphgen("task", "list", cwd=clone)
        checked = ralphgen("check", clone)
        trusted = ralphgen("trust", "-C", clone, "--yes")
        listed = ralphgen("task", "list", cwd=clone)

        assert (2, 0) == (refused.returncode, checked.returncode)
        assert f'{REFUSED}: the schema "public" of PROD_DSN' in trusted.stderr
        assert 0 == listed.returncode, listed.stderr

    @pytest.mark.parametrize(
        ("answer", "code"), [("y", 0), pytest.param("n", 2, marks=pytest.mark.thorough)]
    )
    def test_at_a_terminal_regen_asks_once(
        self, theirs: Path, tmp_path: Path, answer: str, code: int
    ) -> None:
        choose(theirs)
        clone = shutil.copytree(theirs, tmp_path / "elsewhere" / "clone")

        said, returned = at_terminal(answer, "regen", clone, "--no-install")

        assert code == returned, said
        assert 1 == said.count("approve them?")
        assert code == ralphgen("task", "list", cwd=clone).returncode


def choose(root: Path) -> None:
    """Name another variable in the settings."""
    path = root / ".ralph/ralphgen.toml"
    text = path.read_text(encoding="utf-8")
    assert '"RALPH_DSN"' in text
    path.write_text(text.replace('"RALPH_DSN"', '"PROD_DSN"'), encoding="utf-8")
