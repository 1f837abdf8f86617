"""A clone's instructions to agents are refused until they are trusted, like its programs."""

import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, made_here, quiet
from proved_projects import git

from ralphgen.emit.workflows import regenerate

pytestmark = pytest.mark.slow

PROMPT = ".ralph/prompts/all.md"
RECIPE = ".ralph/recipes/triage.toml"
TRIAGE = 'base = "yap"\nprompt = "Sort it."\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A foreign project with instructions, without a record here."""
    root = create_project(tmp_path / "model")
    write(root, PROMPT, "Be kind.")
    write(root, RECIPE, TRIAGE)
    regenerate(root, force=False, say=quiet)
    return shutil.copytree(root, tmp_path / "clone")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A project that was made here, all of it committed before it had any words."""
    root = create_project(tmp_path / "own")
    git(root, "init", "-q")
    write(root, "README", "x")
    commit(root, "README")
    return made_here(root)


def write(root: Path, file: str, text: str) -> None:
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(text, encoding="utf-8")


def commit(root: Path, file: str) -> None:
    git(root, "add", "-f", file)
    git(root, "commit", "-qm", "x")


def session(root: Path, recipe: str = "yap") -> tuple[int, str]:
    done = ralphgen("session", "create", recipe, "--project", root)
    return done.returncode, done.stderr


def test_a_clones_words_need_a_record(clone: Path) -> None:
    code, said = session(clone)

    assert 2 == code
    assert f"  agents follow {PROMPT}" in said
    assert "triage" not in said  # a session of yap does not see its content
    assert 2 == ralphgen("session", "brief", "yap", "--project", clone).returncode
    code, said = session(clone, "triage")
    assert (2, True) == (code, f'agents follow "prompt" of {RECIPE}' in said)

    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    assert (0, 0) == (session(clone)[0], session(clone, "triage")[0])

    write(clone, PROMPT, "Be cruel.")
    assert 2 == session(clone)[0]


def test_a_recipe_without_words_needs_none(clone: Path) -> None:
    (clone / PROMPT).unlink()
    write(clone, RECIPE, 'base = "yap"\nmodel = "haiku"\n')
    regenerate(clone, force=False, say=quiet)

    assert 0 == session(clone, "triage")[0]


def test_the_first_regen_of_a_clone_with_words_does_not_make_it_ones_own(clone: Path) -> None:
    shutil.rmtree(clone / ".ralph/mcp")
    assert 0 == ralphgen("regen", clone).returncode

    assert 2 == session(clone)[0]


@pytest.mark.parametrize(
    ("file", "text", "other"),
    [(PROMPT, "Be kind.", "Be kinder."), (RECIPE, TRIAGE, TRIAGE.replace("Sort", "Keep"))],
)
def test_ones_own_words_need_no_question_and_pulled_ones_do(
    own: Path, file: str, text: str, other: str
) -> None:
    write(own, file, text)
    regenerate(own, force=False, say=quiet)
    recipe = "triage" if file == RECIPE else "yap"
    assert 0 == session(own, recipe)[0]
    commit(own, file)  # on record by then
    assert 0 == session(own, recipe)[0]

    write(own, file, other)
    commit(own, file)  # like a pull
    regenerate(own, force=False, say=quiet)
    assert 2 == session(own, recipe)[0]
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode

    write(own, file, f"{other}\n# one's own edit" if file == PROMPT else text)
    regenerate(own, force=False, say=quiet)
    assert 0 == session(own, recipe)[0]
