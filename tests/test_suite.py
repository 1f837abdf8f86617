"""The suite itself: readable failures, optional packages, and the workflow that runs the tests."""

import importlib.util
import os
import site
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import goldens
import pytest
import yaml
from absent import OPTIONAL
from command_line import PATIENCE, WarmProcess, initialized
from goldens import Goldens, golden
from syntax_trees import ROOT

SUPPORT = sorted(ROOT.glob("tests/support/*.py"))
WORKFLOW = ROOT / ".github/workflows/tests.yml"
ABSENT = (*OPTIONAL, "_hypothesis", "_pytest_xdist", "pixeltable", "pytest_xdist", "ruff", "xdist")
LEAN = """
import sys
sys.path += sys.argv[1:3]
import pytest
sys.exit(pytest.main(["-q", "-rs", "-p", "no:cacheprovider", *sys.argv[3:]]))
"""


LONG = "".join(
    f"line {number}, and a text of which each line has the same\n" for number in range(40)
)
BASE = {
    "long.py": LONG,
    "empty.py": "",
    "short.py": "x = 1\n",
    "twice.md": "# a\n\nb\n\n# a\n\nb\n",
}
TEXTS: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "nothing": ({}, ["expected.diff"]),
    "a line more": ({"long.py": f"{LONG}y = 2\n"}, ["expected.diff"]),
    "the first line": ({"long.py": f"y = 2\n{LONG}"}, ["expected.diff"]),
    "no line at the end": ({"long.py": LONG.removesuffix("\n")}, ["expected.diff"]),
    "many lines less": ({"long.py": LONG[:900] + LONG[1900:]}, ["expected.diff"]),
    "a paragraph of two": ({"twice.md": "# a\n\nb\n\n# a\n\nc\n"}, ["expected.diff"]),
    "a blank line": ({"twice.md": "# a\n\nb\n\n\n# a\n\nb\n"}, ["expected.diff"]),
    "other line ends": ({"long.py": f"{LONG}a\rb\x0cc\u2028d…\n@@\n=== e\n"}, ["expected.diff"]),
    "a file less": ({"short.py": None, "empty.py": None}, ["expected.diff"]),
    "a file more": ({"sub/new.py": "z = 3\n"}, ["expected.diff", "expected/sub/new.py"]),
    "another file": ({"short.py": "import y\n"}, ["expected.diff", "expected/short.py"]),
    "all other": (
        {"long.py": None, "empty.py": None, "twice.md": None, "short.py": "a\n"},
        ["expected/short.py"],
    ),
}


class TestGoldens:
    """The comparison of output with fixtures."""

    @pytest.mark.parametrize(
        ("place", "output", "expected"),
        [
            ("a0/stderr.txt", {".": "other\n"}, ["only", "+other", "fixtures/a0/stderr.txt"]),
            ("full/expected", {"policy.py": "X = 1\n"}, ["+X = 1", "only expected: server.py"]),
            ("a8/missing", {"new.py": "X = 1"}, ["+X = 1", "only found: new.py"]),
            ("../docs/ralphgen.1", {".": ".TH\n"}, ["+.TH", "\ndocs/ralphgen.1 differs"]),
        ],
    )
    def test_a_failure_shows_the_diff_the_fixture_and_the_command(
        self, place: str, output: dict[str, str], expected: list[str]
    ) -> None:
        with pytest.raises(pytest.fail.Exception) as failure:
            Goldens(update=False).check(place, output)

        text = str(failure.value)
        assert [] == [part for part in expected if part not in text]
        assert text.endswith("-m pytest tests/test_suite.py --update-goldens")
        assert not failure.value.pytrace

    def test_equal_texts_pass(self) -> None:
        text = (ROOT / "fixtures/README.md").read_text(encoding="utf-8")

        Goldens(update=False).check("README.md", {".": text})

    @pytest.mark.parametrize(("changed", "files"), TEXTS.values(), ids=TEXTS)
    def test_a_fixture_is_read_as_it_was_written(
        self,
        changed: dict[str, str | None],
        files: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(goldens, "FIXTURES", tmp_path)
        goldens.write("a8/expected", BASE)
        output = {path: text for path, text in (BASE | changed).items() if text is not None}
        goldens.write("a0/expected", output)

        assert output == golden("a0/expected")
        found = [path for path in (tmp_path / "a0").rglob("*") if path.is_file()]
        assert files == sorted(path.relative_to(tmp_path / "a0").as_posix() for path in found)

    def test_a_change_that_fixtures_share_leaves_their_differences_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(goldens, "FIXTURES", tmp_path)
        before = {"a8": BASE["long.py"], "a0": f"first = 0\n{BASE['long.py']}"}
        for case, text in before.items():
            goldens.write(f"{case}/expected", {"long.py": text})
        differences = (tmp_path / "a0/expected.diff").read_text(encoding="utf-8")
        for case, text in before.items():
            goldens.write(f"{case}/expected", {"long.py": text.replace("line 7", "line VII")})

        assert differences == (tmp_path / "a0/expected.diff").read_text(encoding="utf-8")
        assert "line VII" in golden("a0/expected")["long.py"]


@pytest.mark.parametrize("path", SUPPORT, ids=lambda path: path.stem)
def test_pytest_explains_failed_asserts_of_a_support_module(path: Path) -> None:
    spec = importlib.util.find_spec(path.stem)

    assert spec is not None
    assert "AssertionRewritingHook" == type(spec.loader).__name__


@pytest.mark.thorough
def test_an_installation_without_optional_packages_skips_only_what_needs_them(
    tmp_path: Path,
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(site.getsitepackages()[0]).iterdir():
        if not path.name.startswith(ABSENT):
            (packages / path.name).symlink_to(path)
    modules = (
        "tests/golden/test_goldens.py::test_rendered_files_equal_the_golden[a8]",
        "tests/unit/board/test_board_edits.py",  # some of its tests need Hypothesis
        "tests/unit/cli/test_postgresql_checks.py",  # all of its tests need psycopg
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LEAN, str(packages), str(ROOT), *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "test_postgresql_checks.py:1: psycopg is not installed" in done.stdout
    assert "hypothesis is not installed" in done.stdout
    assert "passed" in done.stdout


class TestWorkflow:
    """The jobs for pull requests."""

    def test_pull_requests_run_the_readme_command_on_each_python(self) -> None:
        workflow: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
        job = workflow["jobs"]["tests"]

        assert "pull_request" in workflow[True]  # YAML 1.1 reads "on" as a boolean
        assert ["3.11", "3.12", "3.13", "3.14"] == job["strategy"]["matrix"]["python"]
        (run,) = [step["run"] for step in job["steps"] if "pytest" in step.get("run", "")]
        command = run.removeprefix('bash -euxc "$(').removesuffix(')"')
        found = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, check=True)  # noqa: S602
        assert found.stdout.decode().rstrip().endswith(".venv/bin/python -m pytest")

    def test_each_step_names_a_program_of_the_repository(self) -> None:
        text = WORKFLOW.read_text(encoding="utf-8")

        assert ".ci/examples" in text
        assert (ROOT / ".ci/examples").stat().st_mode & 0o111


@pytest.mark.thorough
def test_each_example_is_up_to_date_after_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")

    done = subprocess.run([ROOT / ".ci/examples"], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    names = [path.parent.name for path in sorted(ROOT.glob("examples/*/README.md"))]
    assert [f"== {name}" for name in names] == done.stdout.splitlines()


@pytest.mark.thorough
def test_a_command_that_hangs_ends_and_the_next_one_runs(tmp_path: Path) -> None:
    project = initialized(tmp_path / "p")
    with closing(WarmProcess(patience=3.0)) as process:
        with pytest.raises(TimeoutError):
            process.run(["ralphgen", "board", "--no-open"], project, os.environ, "")
        process.patience = PATIENCE
        done = process.run(["ralphgen", "--version"], project, os.environ, "")

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.thorough
def test_each_fault_can_be_planted() -> None:
    """Its text occurs once in the sources, and its tests exist."""
    areas = tomllib.loads((ROOT / "tests/faults/faults.toml").read_text(encoding="utf-8"))
    faults = {name: fault for named in areas.values() for name, fault in named.items()}
    files = [*ROOT.glob("ralphgen/**/*.py"), *ROOT.glob("templates/**/*.jinja")]
    sources = "\0".join(path.read_text(encoding="utf-8") for path in files)
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}

    assert [] == [name for name, fault in faults.items() if 1 != sources.count(fault["old"])]
    named = {(name, Path(test).name) for name, fault in faults.items() for test in fault["tests"]}
    assert [] == sorted(fault for fault, test in named if test not in tests)
