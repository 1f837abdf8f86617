"""Editing a row in an editor while others change it: nothing that anybody has typed is lost."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import RALPHGEN, Result, ralphgen, started_beside
from engines import ENGINES, EngineProject, on_engine
from making_sessions import session_json
from other_writers import servers_of, waits_for_lock, writer_on

pytestmark = pytest.mark.slow

EDITOR = """
import subprocess, sys
from pathlib import Path

old, new, *other, path = sys.argv[1:]
text = Path(path).read_text(encoding="utf-8")
assert old in text, text
Path(path).write_text(text.replace(old, new), encoding="utf-8")
subprocess.run(other, check=True, stdout=subprocess.DEVNULL) if other else None
"""
# By kind: its name, its displayed fields, and the column that both change.
ROWS = {
    "task": ("1", 'title = "Log in"', "title", "id = 1"),
    "feature": ("auth", 'display_name = "Auth"', "display_name", "name = 'auth'"),
    "discipline": ("backend", 'display_name = "Backend"', "display_name", "name = 'backend'"),
}


@pytest.fixture(params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineProject]:
    with on_engine(request.param, tmp_path / "p") as found:
        (tmp_path / "editor.py").write_text(EDITOR, encoding="utf-8")
        yield found


def editor(project: EngineProject, old: str, new: str, *other: str) -> dict[str, str]:
    """Return the variable of an editor whose user types while another change is made."""
    program = project.root.parent / "editor.py"
    return {"VISUAL": shlex.join([sys.executable, "-IS", str(program), old, new, *other])}


def edited(project: EngineProject, kind: str, new: str, *theirs: str) -> Result:
    """Return the result of typing another name of a row during another change."""
    name, shown, column, _ = ROWS[kind]
    other = [str(RALPHGEN), kind, "edit", name, *theirs]
    more = editor(project, shown, f'{column} = "{new}"', *other)
    return ralphgen(kind, "edit", name, cwd=project.root, more=more)


def stored(project: EngineProject, kind: str, *columns: str) -> tuple[object, ...]:
    where = ROWS[kind][3]
    row: tuple[object, ...] = project.query(
        f"SELECT {', '.join(columns)} FROM {kind}s WHERE {where}"
    )[0]
    return row


def saved_file(said: str) -> Path:
    """Return the file with the typed text that a message names."""
    return Path(said.partition('your text is in "')[2].partition('"')[0])


@pytest.mark.parametrize("kind", ROWS)
def test_a_field_changed_only_by_another_writer_is_unchanged(
    project: EngineProject, kind: str
) -> None:
    done = edited(project, kind, "Mine", "--description", "Theirs")

    assert (0, "") == (done.returncode, done.stderr)
    assert ("Mine", "Theirs") == stored(project, kind, ROWS[kind][2], "description")


@pytest.mark.parametrize("kind", ROWS)
def test_a_field_that_both_have_changed_is_refused_with_both_versions(
    project: EngineProject, kind: str
) -> None:
    _, shown, column, _ = ROWS[kind]
    before = shown.partition(" = ")[2]
    done = edited(project, kind, "Mine", f"--{column.replace('_', '-')}", "Theirs")
    file = saved_file(done.stderr)
    text = file.read_text(encoding="utf-8")
    file.unlink()

    assert (1, "") == (done.returncode, done.stdout)
    assert f'"{column}" has changed in the meantime; nothing was written' in done.stderr
    assert f'it was {before}, is now "Theirs", and you typed "Mine"' in done.stderr
    assert ("Theirs",) == stored(project, kind, column)
    assert f'\n{column} = "Mine"\n' in text
    assert f'\n# {column} = "Theirs"\n' in text


def test_the_same_change_by_both_is_none(project: EngineProject) -> None:
    done = edited(project, "task", "Same", "--title", "Same")

    assert (0, "task 1: changed nothing\n") == (done.returncode, done.stdout), done.stderr
    assert ("Same",) == stored(project, "task", "title")


def test_lists_and_emptied_fields_are_compared_too(project: EngineProject) -> None:
    project.run(
        "UPDATE tasks SET tags = '[\"a\", \"b\"]', description = 'Long', hints = 'h' WHERE id = 1"
    )
    more = editor(
        project,
        'description = "Long"',
        "",
        *(str(RALPHGEN), "task", "edit", "1", "--description", "Longer\n", "--clear", "tags"),
        *("--hints", "theirs"),
    )
    done = ralphgen("task", "edit", "1", cwd=project.root, more=more)
    file = saved_file(done.stderr)
    text = file.read_text(encoding="utf-8")
    file.unlink()

    assert 'it was "Long", is now "Longer\\n", and you emptied it' in done.stderr
    assert "hints" not in done.stderr
    assert "tags" not in done.stderr
    assert '\n# description = """\n# Longer\n# """\n' in text
    assert ("Longer\n", "[]", "theirs") == stored(project, "task", "description", "tags", "hints")


def test_a_commit_between_reading_and_writing_is_not_overwritten(
    project: EngineProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    for name, text in editor(project, "Log in", "Mine").items():
        monkeypatch.setenv(name, text)
    with writer_on(project) as other:
        other.write("UPDATE tasks SET title = 'Theirs' WHERE id = 1")
        with started_beside("task", "edit", "1") as command:
            servers_of(command.pid, 2)
            waits_for_lock(project)
            other.commit()
            _, said = command.communicate()
    saved_file(said).unlink()

    assert (1, ("Theirs",)) == (command.returncode, stored(project, "task", "title"))
    assert 'it was "Log in", is now "Theirs", and you typed "Mine"' in said


def test_a_field_that_there_is_not_is_refused_by_its_name(project: EngineProject) -> None:
    shown = 'title = "Log in"'
    more = editor(project, shown, f'{shown}\ncolour = "red"')
    done = ralphgen("task", "edit", "1", cwd=project.root, more=more)
    saved_file(done.stderr).unlink()

    assert "unknown option --colour" in done.stderr


def test_a_deleted_row_leaves_the_typed_text(project: EngineProject) -> None:
    more = editor(project, "Show the form", "Mine", str(RALPHGEN), "task", "delete", "2", "--yes")
    done = ralphgen("task", "edit", "2", cwd=project.root, more=more)
    file = saved_file(done.stderr)

    assert (1, "") == (done.returncode, done.stdout)
    assert "there is no task 2" in done.stderr
    assert 'title = "Mine"' in file.read_text(encoding="utf-8")
    file.unlink()


def test_an_agent_overwrites_nothing_either(project: EngineProject) -> None:
    own = session_json(project.root, "yap")
    more = editor(
        project,
        "Log in",
        "Mine",
        *("env", "-u", "RALPHGEN_SESSION", str(RALPHGEN), "task", "edit", "1", "--title", "Theirs"),
    )
    more |= {"RALPHGEN_SESSION": own["session_id"]}
    done = ralphgen("task", "edit", "1", cwd=project.root, more=more)
    saved_file(done.stderr).unlink()

    assert 'is now "Theirs", and you typed "Mine"' in done.stderr
    assert ("Theirs",) == stored(project, "task", "title")
