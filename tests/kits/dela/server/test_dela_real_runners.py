"""The programs that run tasks do what was asked of them: every word, the folder, the exit code."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dela_projects import allow, entry, project_with, refusal, serving
from driving import Driver
from real_runners import PLACES, needs

WHOLE = 60  # seconds to wait for the end of what ends soon
LOUD = '#!/bin/sh\nprintf \'%s|\' "${0##*/}" "$@"\n'
"""A program that prints its name and its arguments, with a line behind each."""
FILES = {
    "Makefile": """\
        include rules/more.mk
        show: ; @echo "X=$(X)"; pwd
        fail: ; @echo oops >&2; exit 3
        with\\ space: ; @echo "made $@"
        """,
    "rules/more.mk": "included: ; @echo included\n",
    "package.json": json.dumps(
        {
            "scripts": {
                "words": "node words.js",
                "build prod": "echo built for production",
                "-x": "node words.js",
                "folder": "pwd",
                "four": "exit 4",
            }
        }
    ),
    "package-lock.json": "{}",
    "words.js": "console.log(JSON.stringify(process.argv.slice(2)))\n",
    "Taskfile.yml": """\
        version: "3"
        silent: true
        includes:
          docs: ./docs.yml
        tasks:
          say: "printf '<%s>' {{.CLI_ARGS}}"
          say it: echo said
          template: echo for {{.WHO}}
          five: exit 5
          release:*: echo releasing {{index .MATCH 0}}
        """,
    "docs.yml": 'version: "3"\ntasks:\n  site: echo site\n',
    "justfile": """\
        set quiet
        greet name greeting="hello" *others:
            echo "{{ greeting }}, {{ name }}; {{ others }}"
        six:
            exit 6
        where:
            pwd; echo {{ invocation_directory() }}
        """,
    "pom.xml": """\
        <project xmlns="http://maven.apache.org/POM/4.0.0">
          <modelVersion>4.0.0</modelVersion><packaging>pom</packaging>
          <groupId>com.example</groupId><artifactId>example</artifactId><version>1</version>
        </project>
        """,
    "compose.yaml": "services:\n  web:\n    image: example/web\n",
    ".travis.yml": "jobs:\n  check:\n    script: ./check\n",
    "CMakeLists.txt": "project(example NONE)\nadd_custom_target(image)\n",
    "run all.sh": LOUD + "pwd\n",
    "plain.sh": "echo plain $#; pwd\n",
    "below/Makefile": "show: ; @echo below; pwd\n",
    "below/justfile": "own:\n    @echo own\n",
    "below/deep/.keep": "",
    "wrapped/gradlew": LOUD + "pwd\n",
    "wrapped/build.gradle": "task hello {}\n",
    "wrapped/mvnw": LOUD + "pwd\n",
    "wrapped/pom.xml": "<project/>\n",
    "unwrapped/gradlew": "echo never\n",
    "unwrapped/build.gradle": "task hello {}\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("runners"), FILES)


@pytest.fixture(scope="module")
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLACES)
        with serving(root, tmp_path_factory.mktemp("home")) as driver:
            yield driver


def run(dela: Driver, name: str, *words: str, **given: Any) -> tuple[int, str]:
    """Exit code and output of a task that ends soon."""
    arguments = {"unique_name": name, "wait_for_exit_seconds": WHOLE, **given}
    if words:
        arguments["args"] = [*words]
    answer = dela.call("task_start", **arguments)
    assert "exited" == answer["state"]
    return answer["exit_code"], answer["initial_output"]


@needs("make")
class TestMake:
    """Variables, odd targets and includes, and how make fails."""

    def test_variables_reach_the_recipe(self, dela: Driver, root: Path) -> None:
        assert (0, f"X=a,b\n{root}\n") == run(dela, "show", "X=a,b")

    def test_a_target_with_a_space_in_its_name_is_made(self, dela: Driver) -> None:
        assert (0, "made with space\n") == run(dela, "with space")

    def test_a_target_of_an_included_file_is_made(self, dela: Driver) -> None:
        assert (0, "included\n") == run(dela, "included")

    def test_a_failure_has_the_code_of_make_and_what_both_have_said(self, dela: Driver) -> None:
        code, output = run(dela, "fail")

        assert (2, "oops") == (code, output.split("\n")[0])
        assert "Error 3" in output


@needs("npm", "node")
class TestNpm:
    """Arguments are for the script, behind the dashes that npm wants."""

    @pytest.mark.parametrize("name", ["words", "-x"])
    def test_every_argument_is_the_scripts(self, dela: Driver, name: str) -> None:
        words = ["a b", "--flag", "--", "-v", "$HOME", "'", ""]
        code, output = run(dela, name, *words)
        (printed,) = (json.loads(line) for line in output.split("\n") if line.startswith("["))

        assert (0, words) == (code, printed)

    def test_a_script_with_a_space_in_its_name_is_run(self, dela: Driver) -> None:
        code, output = run(dela, "build prod")

        assert (0, True) == (code, "built for production" in output.split("\n"))

    def test_the_exit_code_is_the_scripts(self, dela: Driver) -> None:
        assert 4 == run(dela, "four")[0]


@needs("task")
class TestTask:
    """Arguments are in CLI_ARGS, and only there."""

    def test_every_argument_stays_a_word_of_its_own(self, dela: Driver) -> None:
        words = ["a b", "it's", "$HOME", "--list", "*", '"', "--", "X=1"]

        assert (0, "".join(f"<{word}>" for word in words)) == run(dela, "say", *words)

    def test_what_task_writes_into_a_command_is_plain_words(self, dela: Driver, root: Path) -> None:
        """Every variable of the environment is one of a template."""
        given = {"WHO": "a; touch ran"}

        assert -32602 == refusal(dela, "task_start", unique_name="template", env=given).code
        assert (0, "for Ann\n") == run(dela, "template", env={"WHO": "Ann"})
        assert not (root / "ran").exists()

    def test_a_pattern_is_listed_and_started_by_a_name_that_fits(self, dela: Driver) -> None:
        tasks = {task["unique_name"]: task for task in dela.call("list_tasks")["tasks"]}

        assert "task 'release:*'" == tasks["release:*"]["command"]
        assert (0, "releasing 1.2\n") == run(dela, "release:1.2")
        assert (0, "releasing 1.2\n") == run(dela, "release:1.2", cwd="below/deep")

    @pytest.mark.parametrize("word", ["*", "1; touch ran", "`touch ran`", "a=b", "$HOME"])
    def test_what_stands_for_a_star_is_plain_words(
        self, dela: Driver, root: Path, word: str
    ) -> None:
        assert -32602 == refusal(dela, "task_start", unique_name=f"release:{word}").code
        assert not (root / "ran").exists()

    def test_a_pattern_is_allowed_by_its_name_and_a_name_that_fits_may_be_denied(
        self, dela: Driver, root: Path
    ) -> None:
        home = Path(os.environ["HOME"])
        file = root / "Taskfile.yml"
        allow(home, entry("Task", file, "release:*"), entry("Deny", file, "release:2"))
        codes = [
            refusal(dela, "task_start", unique_name=name).code for name in ("release:2", "say")
        ]
        done = run(dela, "release:1")
        allow(home, entry("Directory", root))

        assert ([-32010, -32010], (0, "releasing 1\n")) == (codes, done)

    def test_without_arguments_there_are_none(self, dela: Driver) -> None:
        assert (0, "<>") == run(dela, "say")

    def test_a_task_with_a_space_in_its_name_is_run(self, dela: Driver) -> None:
        assert (0, "said\n") == run(dela, "say it")

    def test_a_task_of_an_included_file_is_run(self, dela: Driver) -> None:
        assert (0, "site\n") == run(dela, "docs:site")

    def test_a_failure_tells_the_exit_code_of_the_command(self, dela: Driver) -> None:
        code, output = run(dela, "five")

        assert 0 != code
        assert "exit status 5" in output


@needs("just")
class TestJust:
    """Arguments are parameters."""

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["Ann"], "hello, Ann; "),
            (["Ann", "good-day"], "good-day, Ann; "),
            (["Ann", "hi", "--list", "b,c"], "hi, Ann; --list b,c"),
        ],
    )
    def test_arguments_are_the_recipes_parameters(
        self, dela: Driver, words: list[str], said: str
    ) -> None:
        assert (0, f"{said}\n") == run(dela, "greet", *words)

    @pytest.mark.parametrize("word", ['"; touch ran; "', "`touch ran`", "a\ntouch ran"])
    def test_what_just_writes_into_a_recipe_is_plain_words(
        self, dela: Driver, root: Path, word: str
    ) -> None:
        by_argument = refusal(dela, "task_start", unique_name="greet", args=[word])
        by_variable = refusal(dela, "task_start", unique_name="six", env={"X": word})

        assert (-32602, -32602) == (by_argument.code, by_variable.code)
        assert not (root / "ran").exists()

    def test_a_parameter_that_is_missing_is_told_by_just(self, dela: Driver) -> None:
        code, output = run(dela, "greet")

        assert 1 == code
        assert "just greet name [greeting]" in output

    def test_the_exit_code_is_the_recipes(self, dela: Driver) -> None:
        assert 6 == run(dela, "six")[0]


class TestMaven:
    """The program of the machine, or that of the project."""

    @needs("mvn")
    def test_a_phase_is_run_with_the_options_that_are_given(
        self, dela: Driver, tmp_path: Path
    ) -> None:
        """Off line and with an empty repository: this phase needs no plugin."""
        code, output = run(dela, "validate", "-o", "-B", f"-Dmaven.repo.local={tmp_path}/empty one")

        assert (0, True) == (code, "BUILD SUCCESS" in output)

    def test_the_projects_own_maven_goes_first(self, dela: Driver, root: Path) -> None:
        found = run(dela, "compile", "-Da=b c", cwd="wrapped")

        assert (0, f"mvnw|compile|-Da=b c|{root}/wrapped\n") == found


class TestGradle:
    """The wrapper of a project, where it can be run."""

    def test_the_projects_own_gradle_goes_first(self, dela: Driver, root: Path) -> None:
        found = run(dela, "hello", "--info", "-Pa=b c", cwd="wrapped")

        assert (0, f"gradlew|hello|--info|-Pa=b c|{root}/wrapped\n") == found

    @pytest.mark.skipif(bool(shutil.which("gradle", path=PLACES)), reason="Gradle is installed")
    def test_a_wrapper_that_cannot_be_run_is_none(self, dela: Driver) -> None:
        code, message, data = refusal(dela, "task_start", unique_name="hello", cwd="unwrapped")

        assert (-32011, "Runner 'gradle' is not available for task 'hello'") == (code, message)
        assert "gradle" in data


class TestScripts:
    """Started by themselves, or by sh."""

    def test_a_script_with_a_space_in_its_name_gets_its_arguments(
        self, dela: Driver, root: Path
    ) -> None:
        assert (0, f"run all.sh|a b||-x|{root}\n") == run(dela, "run all", "a b", "", "-x")

    def test_a_script_that_is_not_executable_is_run_by_sh(self, dela: Driver, root: Path) -> None:
        assert (0, f"plain 2\n{root}\n") == run(dela, "plain", "a b", "c")


class TestListedOnly:
    """What cannot be run here is refused with what would help, whatever is installed."""

    @needs("docker")
    @pytest.mark.parametrize("name", ["up", "down", "web"])
    def test_docker_without_its_plugin(self, dela: Driver, name: str) -> None:
        docker = [str(shutil.which("docker", path=PLACES)), "compose", "version"]
        if not subprocess.run(docker, capture_output=True, check=False).returncode:
            pytest.skip("Docker has its compose plugin here")
        (task,) = (task for task in dela.call("list_tasks")["tasks"] if task["unique_name"] == name)
        code, message, data = refusal(dela, "task_start", unique_name=name)

        assert not task["runner_available"]
        assert (-32011, f"Runner 'docker compose' is not available for task '{name}'") == (
            code,
            message,
        )
        assert "compose plugin" in data

    @pytest.mark.parametrize(
        ("name", "runner", "hint"),
        [("image", "cmake", "a script or a make target"), ("check", "travis", "remotely")],
    )
    def test_no_program_runs_it(self, dela: Driver, name: str, runner: str, hint: str) -> None:
        code, message, data = refusal(dela, "task_start", unique_name=name)

        assert (-32011, f"Runner '{runner}' is not available for task '{name}'") == (code, message)
        assert hint in data


class TestFolders:
    """`cwd` decides which files count, and where what the root alone has is run."""

    @needs("make")
    def test_a_folder_of_the_workspace_has_tasks_of_its_own(self, dela: Driver, root: Path) -> None:
        assert (0, f"below\n{root}/below\n") == run(dela, "show", cwd="below")
        assert (0, f"X=\n{root}\n") == run(dela, "show")

    def test_a_script_of_the_root_runs_in_the_folder(self, dela: Driver, root: Path) -> None:
        there = root / "below" / "deep"

        assert (0, f"run all.sh|{there}\n") == run(dela, "run all", cwd="below/deep")

    def test_so_does_one_that_is_not_executable(self, dela: Driver, root: Path) -> None:
        there = root / "below" / "deep"

        assert (0, f"plain 0\n{there}\n") == run(dela, "plain", cwd="below/deep")

    @needs("npm", "node")
    def test_npm_goes_to_its_package_by_itself(self, dela: Driver, root: Path) -> None:
        code, output = run(dela, "folder", cwd="below/deep")

        assert (0, True) == (code, str(root) in output.split("\n"))

    @needs("task")
    def test_so_does_task(self, dela: Driver) -> None:
        assert (0, "said\n") == run(dela, "say it", cwd="below/deep")

    @needs("just")
    def test_just_is_run_where_its_recipe_was_found(self, dela: Driver, root: Path) -> None:
        assert (0, f"{root}\n{root}\n") == run(dela, "where", cwd="wrapped")


SPOKEN = {
    "pyproject.toml": """\
        [project.scripts]
        serve = "example:serve"
        [tool.poetry.scripts]
        report = "example:report"
        [tool.poe.tasks]
        lint = "ruff check ."
        """,
    "turbo.json": '{"tasks": {"dev": {}}}',
    ".github/workflows/nightly run.yml": "jobs:\n  one: {}\n",
    "docker-compose.other.yml": "services:\n  web:\n    image: example/web\n",
    "build.gradle": "task hello {}\n",
    "pom.xml": "<project/>\n",
    "yarn/package.json": '{"scripts": {"lint it": "eslint ."}}',
    "yarn/yarn.lock": "",
    "pnpm/package.json": '{"scripts": {"lint it": "eslint ."}}',
    "pnpm/pnpm-lock.yaml": "",
    "bun/package.json": '{"scripts": {"lint it": "eslint ."}}',
    "bun/bun.lock": "",
}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A server on whose PATH every runner is a program that prints what it is given."""
    programs = tmp_path_factory.mktemp("programs")
    names = ("uv", "poetry", "poe", "turbo", "act", "docker", "gradle", "mvn")
    for name in (*names, "yarn", "pnpm", "bun"):
        (programs / name).write_text(LOUD, encoding="utf-8")
        (programs / name).chmod(0o755)
    root = project_with(tmp_path_factory.mktemp("spoken"), SPOKEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        with serving(root, tmp_path_factory.mktemp("home")) as driver:
            yield driver


@pytest.mark.parametrize(
    ("name", "folder", "said"),
    [
        ("serve", ".", "uv|run|serve|"),
        ("report", ".", "poetry|run|report|"),
        ("lint", ".", "poe|lint|"),
        ("dev", ".", "turbo|run|dev|--|"),
        ("nightly run", ".", "act|-W|.github/workflows/nightly run.yml|"),
        ("web", ".", "docker|compose|-f|docker-compose.other.yml|run|web|"),
        ("hello", ".", "gradle|hello|"),
        ("verify", ".", "mvn|verify|"),
        ("lint it", "yarn", "yarn|run|lint it|"),
        ("lint it", "pnpm", "pnpm|run|lint it|"),
        ("lint it", "bun", "bun|run|lint it|"),
    ],
)
def test_a_runner_is_given_its_own_words_and_then_the_arguments(
    spoken: Driver, name: str, folder: str, said: str
) -> None:
    words = ["-a b", "--flag", "-"]

    assert (0, said.removesuffix("--|")) == run(spoken, name, cwd=folder)
    assert (0, f"{said}-a b|--flag|-|") == run(spoken, name, *words, cwd=folder)
