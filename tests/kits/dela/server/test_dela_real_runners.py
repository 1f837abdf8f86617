"""Real task runners follow each request: every word, the folder, the exit code."""

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

WHOLE = 60  # seconds to wait for short tasks
LOUD = '#!/bin/sh\nprintf \'%s|\' "${0##*/}" "$@"\n'
"""A program that prints its name and its arguments, each followed by "|"."""
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
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLACES)
        with serving(root, tmp_path_factory.mktemp("home")) as driver:
            yield driver


def run(dela: Driver, name: str, *words: str, **given: Any) -> tuple[int, str]:
    """Return exit code and output of a short task."""
    arguments = {"unique_name": name, "wait_for_exit_seconds": WHOLE, **given}
    if words:
        arguments["args"] = [*words]
    answer = dela.call("task_start", **arguments)
    assert "exited" == answer["state"]
    return answer["exit_code"], answer["initial_output"]


WORDS = ["a b", "it's", "$HOME", "--list", "*", '"', "--", "X=1"]
RUNS: list[tuple[str, str, list[str], str, int, str]] = [
    # programs, task, arguments, directory, exit code, output (a part of it after "…")
    ("make", "show", ["X=a,b"], ".", 0, "X=a,b\n{root}\n"),
    ("make", "with space", [], ".", 0, "made with space\n"),
    ("make", "included", [], ".", 0, "included\n"),
    ("make", "fail", [], ".", 2, "…Error 3"),
    ("make", "show", [], "below", 0, "below\n{root}/below\n"),
    (
        "npm node",
        "words",
        ["a b", "--", "-v", "$HOME", ""],
        ".",
        0,
        '…["a b","--","-v","$HOME",""]',
    ),
    ("npm node", "-x", ["--flag", "'"], ".", 0, '…["--flag","\'"]'),
    ("npm node", "build prod", [], ".", 0, "…\nbuilt for production\n"),
    ("npm node", "four", [], ".", 4, "…exit 4"),
    ("npm node", "folder", [], "below/deep", 0, "…\n{root}\n"),
    ("task", "say", WORDS, ".", 0, "".join(f"<{word}>" for word in WORDS)),
    ("task", "say", [], ".", 0, "<>"),
    ("task", "say it", [], ".", 0, "said\n"),
    ("task", "say it", [], "below/deep", 0, "said\n"),
    ("task", "docs:site", [], ".", 0, "site\n"),
    ("task", "five", [], ".", 201, "…exit status 5"),
    ("just", "greet", ["Ann"], ".", 0, "hello, Ann; \n"),
    ("just", "greet", ["Ann", "hi", "--list", "b,c"], ".", 0, "hi, Ann; --list b,c\n"),
    ("just", "greet", [], ".", 1, "…just greet name [greeting]"),
    ("just", "six", [], ".", 6, "…"),
    ("just", "where", [], "wrapped", 0, "{root}\n{root}\n"),
    ("mvn", "validate", ["-o", "-B", "-Dmaven.repo.local=empty one"], ".", 0, "…BUILD SUCCESS"),
    ("sh", "compile", ["-Da=b c"], "wrapped", 0, "mvnw|compile|-Da=b c|{root}/wrapped\n"),
    ("sh", "hello", ["--info"], "wrapped", 0, "gradlew|hello|--info|{root}/wrapped\n"),
    ("sh", "run all", ["a b", "", "-x"], ".", 0, "run all.sh|a b||-x|{root}\n"),
    ("sh", "run all", [], "below/deep", 0, "run all.sh|{root}/below/deep\n"),
    ("sh", "plain", ["a b", "c"], ".", 0, "plain 2\n{root}\n"),
    ("sh", "plain", [], "below/deep", 0, "plain 0\n{root}/below/deep\n"),
]


@pytest.mark.parametrize(
    ("name", "words", "folder", "code", "said"),
    [pytest.param(*row, marks=needs(*programs.split())) for programs, *row in RUNS],
)
def test_a_runner_gets_every_word_and_the_folder_and_its_exit_code_is_told(
    dela: Driver, root: Path, name: str, words: list[str], folder: str, code: int, said: str
) -> None:
    expected = said.replace("{root}", str(root))
    found, output = run(dela, name, *words, cwd=folder)

    assert code == found
    assert expected.removeprefix("…") in output if expected.startswith("…") else expected == output


@needs("task")
class TestTask:
    """Commands contain task's values as plain words."""

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


@needs("just")
@pytest.mark.parametrize("word", ['"; touch ran; "', "`touch ran`", "a\ntouch ran"])
def test_what_just_writes_into_a_recipe_is_plain_words(dela: Driver, root: Path, word: str) -> None:
    by_argument = refusal(dela, "task_start", unique_name="greet", args=[word])
    by_variable = refusal(dela, "task_start", unique_name="six", env={"X": word})

    assert (-32602, -32602) == (by_argument.code, by_variable.code)
    assert not (root / "ran").exists()


@pytest.mark.skipif(bool(shutil.which("gradle", path=PLACES)), reason="Gradle is installed")
def test_a_wrapper_that_cannot_be_run_is_none(dela: Driver) -> None:
    code, message, _ = refusal(dela, "task_start", unique_name="hello", cwd="unwrapped")

    assert (-32011, "Runner 'gradle' is not available for task 'hello'") == (code, message)


class TestListedOnly:
    """Tasks that cannot be run here are refused with a remedy, with any installed programs."""

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
    """Yield a server with a fake program in PATH for every runner, which prints its arguments."""
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
