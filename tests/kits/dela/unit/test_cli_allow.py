"""`ralphgen dela allow` and `deny`: the user at a terminal decides what agents may run."""

import json
import os
import pty
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import RALPHGEN, Result, ralphgen, started_beside
from screens import read_screen

from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.dela.commands import (
    all_tasks,
    find_places,
    path_entries,
    plan_change,
    reached,
    task_entries,
    task_permissions,
    tasks_by_name,
    write,
)
from ralphgen.kits.dela.server.allowlist import Rule, read_rules
from ralphgen.runtime.system import SESSION_VARIABLE

PATIENCE = 60.0
QUESTION = b"write it? y/N "
MAKEFILE = "build:\n\tcc x.c\ntest: build\n\t./x\ndeploy:\n\tscp x host:\n"
PACKAGE = {"scripts": {"test": "node t.js", "lint": "eslint"}}
LIST = ".config/dela/allowlist.toml"
UNMARKED = f'env -u {SESSION_VARIABLE} "$0" "$@"; exit $?'
AWAY = f'env -u {SESSION_VARIABLE} script -qec "$0 $*" /dev/null; exit $?'
"""Ways to run a command without the mark of its session, the second at a new terminal."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a Makefile and npm scripts, which both define "test"."""
    root = tmp_path / "project"
    (root / ".ralph").mkdir(parents=True)
    (root / "sub").mkdir()
    (root / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (root / "package.json").write_text(json.dumps(PACKAGE), encoding="utf-8")
    (root / "sub/Makefile").write_text("build:\n\tcc y.c\ndocs:\n", encoding="utf-8")
    return root


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}


def without_terminal(*arguments: str, cwd: Path, home: Path) -> Result:
    """Run a command as a script or an agent's shell does."""
    return ralphgen(*arguments, cwd=cwd, more={"HOME": str(home)}, stdin="y\n")


def at_terminal(
    *arguments: str,
    cwd: Path,
    home: Path,
    answer: bytes = b"y\n",
    early: bytes = b"",
    away: Sequence[int] = (),
    agent: Sequence[str] = (),
) -> tuple[int, str]:
    """Run a command at a terminal: return its exit code, and the screen.

    The answer is typed at the question, `early` before. The streams `away` are pipes. `agent` is a
    command that runs this one, in a session that `launch` has started.
    """
    mark = {SESSION_VARIABLE: "s-1"} if agent else {}
    screen, terminal = pty.openpty()
    streams = [subprocess.PIPE if stream in away else terminal for stream in range(3)]
    os.write(screen, early)
    given: dict[str, Any] = {
        "cwd": cwd,
        "env": environment(home) | mark | {"COLUMNS": "1000"},
        **dict(zip(("stdin", "stdout", "stderr"), streams, strict=True)),
    }
    with (
        subprocess.Popen([*agent, RALPHGEN, *arguments], **given)
        if agent
        else started_beside(*arguments, encoding=None, **given)
    ) as process:
        os.close(terminal)
        seen = read_screen(screen, QUESTION, patience=PATIENCE)
        if QUESTION in seen:
            os.write(screen, answer)
            seen += read_screen(screen, patience=PATIENCE)
        os.close(screen)  # ends a process that still waits for an answer
        rest = process.communicate(timeout=PATIENCE)
    text = seen + b"".join(part for part in rest if part)
    return process.returncode, text.decode().replace("\r\n", "\n")


def entries(home: Path) -> list[dict[str, Any]]:
    """Return the entries of the user's allowlist."""
    values = tomllib.loads((home / LIST).read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = values["entries"]
    return found


@pytest.mark.slow
class TestPerson:
    """Nothing is written unless the user at a terminal agrees."""

    @pytest.mark.parametrize("command", ["allow", "deny"])
    def test_without_a_terminal_it_is_refused(
        self, project: Path, home: Path, command: str
    ) -> None:
        """A script could allow itself (R30)."""
        done = without_terminal("dela", command, "build", cwd=project, home=home)

        assert (2, "") == (done.returncode, done.stdout)
        assert done.stderr.startswith("error: tasks can be allowed or denied only at a terminal")
        assert [] == [*home.iterdir()]

    @pytest.mark.parametrize("away", [0, 1, 2])
    def test_a_terminal_on_some_of_the_streams_is_none(
        self, project: Path, home: Path, away: int
    ) -> None:
        code, seen = at_terminal("dela", "allow", "build", cwd=project, home=home, away=[away])

        assert 2 == code
        assert "only at a terminal" in seen
        assert [] == [*home.iterdir()]

    @pytest.mark.parametrize("command", ["allow", "deny"])
    @pytest.mark.parametrize("agent", [["env"], ["sh", "-c", UNMARKED], ["sh", "-c", AWAY]])
    def test_an_agent_cannot_say_yes_at_a_terminal_of_its_own(
        self, project: Path, home: Path, command: str, agent: list[str]
    ) -> None:
        """`script -qec 'ralphgen dela allow build'` wrote the allowlist."""
        if agent[1:] and not sys.platform.startswith("linux"):
            pytest.skip("only Linux tells what is in the environment of another process")
        if AWAY in agent and not shutil.which("script"):
            pytest.skip("script is not installed")
        code, seen = at_terminal("dela", command, "build", cwd=project, home=home, agent=agent)

        assert 2 == code, seen
        assert f'"ralphgen dela {command}" is not for agents' in seen
        assert [] == [*home.iterdir()]

    def test_an_agent_may_see_what_is_allowed(self, project: Path, home: Path) -> None:
        assert 0 == at_terminal("dela", "list", cwd=project, home=home, agent=["env"])[0]

    def test_a_yes_writes_what_was_shown_for_nobody_else_to_read(
        self, project: Path, home: Path
    ) -> None:
        code, seen = at_terminal("dela", "allow", "build", "test-m", cwd=project, home=home)
        makefile, path = project / "Makefile", home / LIST

        assert 0 == code, seen
        assert (
            f'[[entries]]\npath = "{makefile}"\nscope = "Task"\ntasks = ["build", "test"]\n'
        ) == path.read_text(encoding="utf-8")
        assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
        assert [
            f'the allowlist "{path}" is created:',
            "  +[[entries]]",
            f'  +path = "{makefile}"',
            '  +scope = "Task"',
            '  +tasks = ["build", "test"]',
            "this allows:",
            "  build: make build (Makefile)",
            "  test-m: make test (Makefile)",
            "write it? y/N y",
            f'wrote "{path}"',
        ] == seen.splitlines()

    @pytest.mark.parametrize(
        "answer",
        [b"\n", *(pytest.param(one, marks=pytest.mark.soak) for one in (b"yes please\n", b"\x04"))],
    )
    def test_any_other_answer_writes_nothing(
        self, project: Path, home: Path, answer: bytes
    ) -> None:
        code, seen = at_terminal("dela", "allow", "build", cwd=project, home=home, answer=answer)

        assert 1 == code
        assert "nothing was written" in seen
        assert [] == [*home.iterdir()]

    def test_what_was_typed_before_the_question_is_no_answer(
        self, project: Path, home: Path
    ) -> None:
        code, _ = at_terminal(
            "dela", "allow", "build", cwd=project, home=home, early=b"y\ny\n", answer=b"\x04"
        )

        assert 1 == code
        assert [] == [*home.iterdir()]

    def test_a_deny_that_stands_is_named_and_stays(self, project: Path, home: Path) -> None:
        denied, seen = at_terminal("dela", "deny", "--file", "Makefile", cwd=project, home=home)
        allowed, more = at_terminal("dela", "allow", "build", cwd=project, home=home)

        assert (0, 0) == (denied, allowed)
        assert f'and every other task of "{project}/Makefile", now and in future' in seen
        assert (
            f'"build" is still denied by entry 1 of "{home / LIST}", a Deny on "{project}' in more
        )
        assert [("Deny", None), ("Task", ["build"])] == [
            (entry["scope"], entry.get("tasks")) for entry in entries(home)
        ]
        assert not read_rules(str(home / LIST)).allows("build", "build", f"{project}/Makefile")

    def test_what_is_written_already_is_not_asked(self, project: Path, home: Path) -> None:
        path = home / LIST
        path.parent.mkdir(parents=True)
        path.write_text(f'entries = [{{path="{project}", scope="Directory"}}]', encoding="utf-8")
        code, seen = at_terminal("dela", "allow", "test-n", cwd=project, home=home)

        assert (0, f'nothing to write: "{path}" already has these entries\n') == (code, seen)

    def test_a_list_that_is_not_understood_is_not_written_over(
        self, project: Path, home: Path
    ) -> None:
        path = home / ".dela/allowlist.toml"
        path.parent.mkdir()
        path.write_text('[[entries]]\npath = "/"\nscope = "deny"\n', encoding="utf-8")
        code, seen = at_terminal("dela", "allow", "build", cwd=project, home=home)

        assert 1 == code
        assert seen.startswith(
            f'error: the allowlist "{path}" entry 1: "scope" must be one of Once, '
        )
        assert [".dela"] == [found.name for found in home.iterdir()]
        assert "deny" in path.read_text(encoding="utf-8")


@pytest.mark.slow
class TestList:
    """Everybody may see what is allowed."""

    def test_each_task_is_shown_with_what_becomes_of_it(self, project: Path, home: Path) -> None:
        self.decide(project, home / LIST)
        done = without_terminal("dela", "list", cwd=project, home=home)

        assert (0, "") == (done.returncode, done.stderr)
        assert [
            "allowed      build   make build  (Makefile)",
            "not allowed  test-m  make test  (Makefile)",
            "denied       deploy  make deploy  (Makefile)",
            "allowed      test-n  npm run test  (package.json)",
            "allowed      lint    npm run lint  (package.json)",
        ] == done.stdout.splitlines()

    def test_json_names_the_entry_that_decides(self, project: Path, home: Path) -> None:
        own = home / LIST
        self.decide(project, own)
        found = json.loads(
            without_terminal("dela", "list", "--json", cwd=project, home=home).stdout
        )
        (folder,) = found["folders"]
        decided = {
            task["unique_name"]: (task["allowlisted"], task["entry"] and task["entry"]["number"])
            for task in folder["tasks"]
        }

        assert {"path": str(own), "exists": True, "problems": []} == found["allowlist"]
        assert str(project) == folder["folder"]
        assert {
            "build": (True, 1),
            "test-m": (False, None),
            "deploy": (False, 3),
            "test-n": (True, 2),
            "lint": (True, 2),
        } == decided

    def test_a_project_cannot_write_on_the_terminal(self, tmp_path: Path, home: Path) -> None:
        root = tmp_path / "p\x1b[2J"
        (root / ".ralph").mkdir(parents=True)
        (root / "sub").mkdir()
        (root / "Makefile").write_text("a:\n", encoding="utf-8")
        (root / "package.json").write_text("{", encoding="utf-8")
        done = without_terminal("dela", "list", "--project", str(root / "sub"), cwd=home, home=home)

        assert 0 == done.returncode
        assert "a  make a" in done.stdout
        assert "warning: " in done.stderr
        assert "\x1b" not in done.stdout + done.stderr

    @staticmethod
    def decide(project: Path, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rules = [
            Rule(0, f"{project}/Makefile", "Task", ["build"]),
            Rule(0, f"{project}/package.json", "File"),
            Rule(0, str(project), "Deny", ["deploy"]),
        ]
        write(plan_change(str(path), rules))


class TestNames:
    """A name means one task, or its possible meanings are reported."""

    def test_every_wrong_name_is_told_with_the_ones_that_are_near(self, project: Path) -> None:
        places = find_places(project, project, {})
        with pytest.raises(UsageError) as refused:
            tasks_by_name(places, ["biuld", "test", "build", "a\x1b"])

        assert [
            'ambiguous task name "test": 2 tasks match',
            "hint: use one of test-m, test-n",
            'no task "a\\x1b"',
            "hint: the tasks are build, test-m, deploy, test-n, lint",
            'no task "biuld"',
            'hint: did you mean "build"?',
        ] == str(refused.value).splitlines()

    def test_a_folder_inside_goes_before_the_projects(self, project: Path) -> None:
        places = find_places(project, project / "sub", {})
        tasks = tasks_by_name(places, ["build", "docs", "deploy", "build"])

        assert [("build", "sub/Makefile"), ("docs", "sub/Makefile"), ("deploy", "Makefile")] == [
            (task.name, str(Path(task.path).relative_to(project))) for task in tasks
        ]
        assert 7 == len(all_tasks(places))

    def test_the_folder_of_tasks_may_be_another(self, project: Path) -> None:
        (place,) = find_places(project, project, {"root": "sub"})

        assert (str(project / "sub"), ["build", "docs"]) == (
            place.folder,
            [task.name for task in place.found.tasks],
        )
        with pytest.raises(ProjectError, match='the task directory "gone" does not exist'):
            find_places(project, project, {"root": "gone"})

    @pytest.mark.parametrize(
        ("scope", "path", "reach"),
        [
            ("Task", "Makefile", ["build"]),
            ("File", "Makefile", ["build", "test-m", "deploy"]),
            ("Directory", "", ["build", "test-m", "deploy", "test-n", "lint"]),
            ("Deny", "Makefile", ["build"]),
        ],
    )
    def test_an_entry_reaches_as_far_as_was_asked(
        self, project: Path, scope: str, path: str, reach: list[str]
    ) -> None:
        places = find_places(project, project, {})
        (entry,) = task_entries(tasks_by_name(places, ["build"]), scope)

        assert str(project / path) == entry.path
        assert (("build",) if scope in {"Task", "Deny"} else ()) == entry.tasks
        assert reach == [task.unique_name for task in reached([entry], all_tasks(places))]

    def test_a_name_that_two_tasks_of_a_file_bear_reaches_both_and_says_so(
        self, project: Path
    ) -> None:
        """The file contains only the plain name."""
        (project / "pyproject.toml").write_text(
            '[project.scripts]\nrun = "a:b"\n[tool.poe.tasks]\nrun = "a"\n', encoding="utf-8"
        )
        places = find_places(project, project, {})
        entries_ = task_entries(tasks_by_name(places, ["run-p"]), "Task")
        tasks = reached(entries_, all_tasks(places))

        assert ["run-u", "run-p"] == [task.unique_name for task in tasks]

    def test_files_to_deny_are_followed_and_must_be_there(self, project: Path) -> None:
        (project / "link").symlink_to("Makefile")
        found = path_entries([str(project / "link"), str(project / "Makefile"), str(project)])

        assert [str(project / "Makefile"), str(project)] == [rule.path for rule in found]
        with pytest.raises(UsageError, match='no file "gone"'):
            path_entries(["gone"])

    def test_what_stands_in_no_entry_is_not_allowed(self, project: Path, tmp_path: Path) -> None:
        (place,) = find_places(project, project, {})
        rows = task_permissions(read_rules(str(tmp_path / "none.toml")), place)

        assert {(False, None)} == {(row["allowlisted"], row["entry"]) for row in rows}
