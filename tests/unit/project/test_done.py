"""A config's requirements for closing a task, their problems, and changes that loosen them."""

from pathlib import Path

import pytest
from driving import ROWS, create_database, query
from proved_projects import INIT_SCHEMA, LEDGER, MARKER, TESTS, check

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.project.inspect import WATCHED, inspect_project, loosened
from ralphgen.project.model import Check, DoneRules, done_facts

NAMED = '[[done.checks]]\nname = "a"\n'


def project_of(root: Path, config: str, *, ledger: bool = True) -> Path:
    """A project with a database and a config, and no server."""
    schema = INIT_SCHEMA.read_text(encoding="utf-8")
    more = (LEDGER.read_text(encoding="utf-8"), MARKER) if ledger else ()
    create_database(root, schema, *more, ROWS)
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    return root


def problems(root: Path, config: str, *, ledger: bool = True) -> list[str]:
    """Return the problems as users read them, without the path of the config."""
    project_of(root, config, ledger=ledger)
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=False, say=lambda _: None)
    found = [str(problem) for problem in caught.value.problems]
    return [text.removeprefix(".ralph/ralphgen.toml:").strip() for text in found]


def test_checks_are_read_with_their_defaults(tmp_path: Path) -> None:
    config = check("tests", "npm", "test") + check(
        "looks", "true", timeout=5, disciplines=["frontend"]
    )
    config += '[done]\nprotect = ["tests/golden/**"]\n'
    found = inspect_project(project_of(tmp_path, config), KITS).done

    expected = (
        Check("tests", ("npm", "test"), "", 600, ()),
        Check("looks", ("true",), "", 5, ("frontend",)),
    )
    assert DoneRules(expected, ("tests/golden/**",), WATCHED) == found


def test_without_a_check_nothing_has_to_be_proved(tmp_path: Path) -> None:
    config = '[done]\nprotect = ["a"]\n'
    found = inspect_project(project_of(tmp_path, config), KITS)

    assert found.done is None
    (warning,) = found.warnings
    assert "[done] has no effect without [[done.checks]]" in warning


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            f'{NAMED}run = ["x"]\n{NAMED}run = ["y"]\n',
            '4: check "a" is defined twice\nhint: give each check a unique name',
        ),
        (NAMED, '1: check "a" has neither "run" nor "dela"\nhint: '),
        (f'{NAMED}run = ["x"]\ndela = "y"\n', '1: check "a" has both "run" and "dela"'),
        (f"{NAMED}run = []\n", '1: check "a" has an empty "run"'),
        (f'{NAMED}run = [" "]\n', '1: check "a" has an empty "run"'),
        (f'{NAMED}run = "npm test"\n', '3: "done.checks[0].run" is "npm test", expected a list'),
        (f'{NAMED}run = ["x"]\ntimeout = 0\n', '4: "done.checks[0].timeout" is 0, expected'),
        (f'{NAMED}run = ["x"]\ntime = 1\n', '4: unknown key "done.checks[0].time"'),
        ('[[done.checks]]\nname = "a\\nb"\nrun = ["x"]\n', "a one-line name"),
        ('[done]\nprotect = ["../x"]\n', "expected a path below the project"),
        ('[done]\nprotect = ["/x"]\n', "expected a path below the project"),
        (f'{NAMED}dela = "x"\n', 'names a task of the kit "dela", which is off'),
        (f'kits = ["acm"]\n{NAMED}run = ["x"]\n', "no enabled kit has tasks"),
    ],
)
def test_problems_are_named_with_their_line(tmp_path: Path, config: str, expected: str) -> None:
    assert expected in problems(tmp_path, config)[0]


def test_checks_need_a_place_for_their_evidence(tmp_path: Path) -> None:
    expected = (
        '1: checks need the ledger, which stores their evidence\nhint: run "ralphgen db ledger on"'
    )

    assert [expected] == problems(tmp_path, TESTS, ledger=False)


def test_a_discipline_that_there_is_not_is_a_warning(tmp_path: Path) -> None:
    config = check("tests", "true", disciplines=["backnd"])
    (warning,) = inspect_project(project_of(tmp_path, config), KITS).warnings

    assert 'names the unknown discipline "backnd"; did you mean "backend"?' in warning


def rules(
    *checks: Check, protect: tuple[str, ...] = ("a",), watch: tuple[str, ...] = ("w",)
) -> DoneRules:
    return DoneRules(checks, protect, watch)


ONE = Check("tests", ("npm", "test"), "", 600, ())
FRONT = Check("tests", ("npm", "test"), "", 600, ("frontend",))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (rules(ONE), rules(ONE), []),
        (rules(ONE), None, ['check "tests" would be removed', '"a" would no longer be protected']),
        (rules(ONE), rules(ONE, protect=("a", "b")), []),
        (rules(ONE), rules(ONE, watch=()), []),
        (rules(ONE), rules(ONE, protect=()), ['"a" would no longer be protected']),
        (rules(ONE), rules(FRONT), ['check "tests" would apply to fewer disciplines']),
        (rules(FRONT), rules(ONE), []),
        (rules(ONE), rules(Check("tests", ("true",), "", 600, ())), ['check "tests" would change']),
        (rules(ONE), rules(Check("tests", ("npm", "test"), "", 5, ())), []),
    ],
)
def test_less_proof_is_distinguished_from_more(
    before: DoneRules, after: DoneRules | None, lost: list[str]
) -> None:
    assert lost == loosened(done_facts(before), after)


def test_facts_that_cannot_be_read_asked_for_nothing() -> None:
    assert [] == loosened({"checks": 1}, None)


def test_a_server_is_not_loosened_in_passing(tmp_path: Path) -> None:
    root = project_of(tmp_path, TESTS)
    regenerate(root, force=False, say=lambda _: None)
    (root / ".ralph/ralphgen.toml").write_text("", encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=True, say=lambda _: None)
    assert (root / ".ralph/mcp/ralph/done.py").exists()
    regenerate(root, force=False, say=lambda _: None, allow_removals=True)

    text = str(caught.value)
    assert 'check "tests" would be removed; this can weaken' in text
    assert 'apply it with "ralphgen regen --allow-removals"' in text
    assert not (root / ".ralph/mcp/ralph/done.py").exists()


def test_a_change_of_one_check_is_a_small_diff(tmp_path: Path) -> None:
    root = project_of(tmp_path, TESTS)
    regenerate(root, force=False, say=lambda _: None)
    path = root / ".ralph/mcp/ralph/done.py"
    before = path.read_text(encoding="utf-8").splitlines()
    config = TESTS + 'timeout = 60\ndisciplines = ["backend"]\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    regenerate(root, force=False, say=lambda _: None, allow_removals=True)
    after = path.read_text(encoding="utf-8").splitlines()

    assert ['            "timeout": 600,'] == [line for line in before if line not in after]
    assert 2 == len([line for line in after if line not in before])


def test_rules_are_in_no_file_of_a_project_without_checks(tmp_path: Path) -> None:
    root = project_of(tmp_path, "")
    regenerate(root, force=False, say=lambda _: None)

    assert not (root / ".ralph/mcp/ralph/done.py").exists()
    assert "done" not in (root / ".ralph/mcp/project.json").read_text(encoding="utf-8").split('"')
    assert [] == query(root, "SELECT 1 FROM ralphgen_evidence")
