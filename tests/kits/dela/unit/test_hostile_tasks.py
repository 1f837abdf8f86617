"""Listing tasks gives authors of project files no access and cannot block the server."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ralphgen.kits.dela.server import task as folders
from ralphgen.kits.dela.server.formats import Discovered, discover
from ralphgen.kits.dela.server.formats import services as compose
from ralphgen.kits.dela.server.runners import Runners, program_outside, project_around, query
from ralphgen.kits.dela.server.task import OUTSIDE, SPENT, Folder, read_json5

ROOT = Path(__file__).parents[4]
TOO_DEEP = "too deep"
DEEP_LEVELS = "more than 100 levels deep"
TOO_LARGE = "is larger than 262,144 bytes"
# Finds the tasks of a folder in a separate process, which a crash would end.
FIND = """
import json, sys
from ralphgen.kits.dela.server.formats import discover
found = discover(sys.argv[1], sys.argv[1])
print(json.dumps([[task.name for task in found.tasks], found.problems]))
"""
SECONDS = 20  # once minutes, now at most one second


def write(place: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return os.path.realpath(place)


def found_in(place: Path) -> Discovered:
    path = os.path.realpath(place)
    return discover(path, path)


def listed(count: int, text: str) -> str:
    return "".join(text.format(i=number) for number in range(count))


HOSTILE: dict[str, tuple[Mapping[str, str], str]] = {
    "brackets": ({"compose.yml": f"a: {'[' * 25_000}"}, DEEP_LEVELS),
    "dashes": ({".travis.yml": "- " * 100_000}, DEEP_LEVELS),
    "questions": ({"Taskfile.yml": "? " * 100_000}, DEEP_LEVELS),
    "directives": (
        {"compose.yml": listed(15_000, "%TAG !a{i}! b\n") + "--- a"},
        'contains "%TAG" more than 100 times',
    ),
    "JSON": ({"package.json": "[" * 1_000_000}, TOO_DEEP),
    "JSON5": ({"turbo.json": "{a:" * 8_000}, TOO_DEEP),
    "tables": ({"pyproject.toml": f"a={'[' * 200_000}"}, TOO_DEEP),
    "XML": ({"pom.xml": "<a>" * 130_000 + "</a>" * 130_000}, "its root element is 'a'"),
    "long keys": ({"pyproject.toml": f"a{'.a' * 120_000}=1"}, "line 1: has a key of more than"),
    "spaced keys": ({"pyproject.toml": "\na" + " . 'a'" * 30_000 + "=1"}, "line 2: has a key"),
    "too large": ({"pyproject.toml": "#" * 262_145}, TOO_LARGE),
    "quotes": ({"turbo.json": "\\'" * 130_000}, "is not valid JSON"),
    "comments": ({"turbo.json": "/*" * 130_000}, "is not valid JSON"),
    "one comma": (
        {"turbo.json": '{"tasks": {' + listed(13_000, '"a{i}": {{}},') + "}}"},
        "is not valid JSON",
    ),
    "included": (
        {
            "Taskfile.yml": "includes:\n" + listed(500, " i{i}: b.yml\n"),
            "b.yml": "tasks:\n" + listed(20_000, " a{i}: b\n"),
        },
        "there are more than 10,000 tasks",
    ),
    "included, large": (
        {
            "Taskfile.yml": "includes:\n" + listed(500, " i{i}: b.yml\n"),
            "b.yml": "tasks:\n" + listed(80_000, " a{i}: b\n"),
        },
        TOO_LARGE,
    ),
    "many includes": (
        {"Taskfile.yml": "includes:\n" + listed(6000, " i{i}: {{taskfile: n{i}, optional: y}}\n")},
        "too many files",
    ),
    "merged": (
        {
            "Taskfile.yml": f"x: &x {{{listed(10_000, 'a{i}: b, ')}}}\ntasks:\n"
            + listed(12_000, " a{i}: *x\n")
        },
        "there are more than 10,000 tasks",
    ),
    "make": (
        {"Makefile": listed(35_000, "include a{i}\n") + listed(40_000, "%{i}:\n")},
        "includes more than 2,000 files",
    ),
    "just": (
        {"justfile": listed(8000, "mod? m{i}\n") + listed(8000, "r{i}: m{i}::a\n")},
        "names more than 500 files",
    ),
    "modules": ({"justfile": listed(500, "mod m{i} 'b'\n"), "b": listed(20_000, "a{i}:\n")}, SPENT),
    "workflows": (
        {f".github/workflows/{i}.yml": "[" + "[]," * 80_000 + "]" for i in range(9)},
        SPENT,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_no_file_crashes_the_server_or_keeps_it_busy(case: str, tmp_path: Path) -> None:
    files, why = HOSTILE[case]
    place = write(tmp_path, {**files, "good.sh": "#!/bin/sh\n"})
    found = subprocess.run(
        (sys.executable, "-c", FIND, place),
        cwd=ROOT,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=SECONDS,
    )
    names, problems = json.loads(found.stdout)

    assert any(why in sentence for _, sentence in problems)
    assert len(names) == 10_000 or names[-1] == "good"


def test_packages_are_looked_for_once_however_many_one_extends(tmp_path: Path) -> None:
    names = ",".join(f'"p{number}"' for number in range(20_000))
    place = write(
        tmp_path,
        {
            "turbo.json": '{"tasks": {}}',
            "web/turbo.json": f'{{"extends": ["//", {names}], "tasks": {{"own": {{}}}}}}',
            "p7/package.json": '{"name": "p7"}',
            "p7/turbo.json": '{"extends": ["//"], "tasks": {"of-p7": {}}}',
            **{f"folders/{number}/package.json": "{}" for number in range(300)},
        },
    )
    found = discover(place, f"{place}/web")

    assert ["own", "of-p7"] == [task.name for task in found.tasks]


class TestLinks:
    """Links out of the project are not read, and reported once."""

    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        path = tmp_path / "outside" / "secret"
        write(tmp_path, {"outside/secret": "# hunter2\nhunter2: # hunter2\n"})
        return path

    @pytest.mark.parametrize(
        "name",
        [
            *("s.sh", "Makefile", "justfile", "CMakeLists.txt", "compose.yaml", "Taskfile.yml"),
            *("turbo.json", "package.json", "pyproject.toml", "pom.xml", "build.gradle"),
            *(".travis.yml", ".github/workflows/x.yml"),
        ],
    )
    def test_a_file_that_leads_out_is_none(self, name: str, secret: Path, tmp_path: Path) -> None:
        link = tmp_path / "project" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(secret)
        found = found_in(tmp_path / "project")

        assert [] == [*found.tasks]
        assert [(os.path.realpath(tmp_path / "project") + f"/{name}", OUTSIDE)] == found.problems

    def test_its_text_is_not_read_either(self, secret: Path, tmp_path: Path) -> None:
        write(tmp_path, {"project/x": ""})
        link = tmp_path / "project" / "link"
        link.symlink_to(secret)
        top = os.path.realpath(tmp_path / "project")

        with pytest.raises(folders.UnreadableError, match="is outside the project"):
            folders.Folder(top, top).text(f"{top}/link")

    def test_a_folder_that_leads_out_is_empty(self, secret: Path, tmp_path: Path) -> None:
        write(tmp_path, {"outside/hidden.yml": "jobs: {}", "project/.github/x": ""})
        link = tmp_path / "project/.github/workflows"
        link.symlink_to(secret.parent)
        found = found_in(tmp_path / "project")

        assert [(os.path.realpath(link.parent) + "/workflows", OUTSIDE)] == found.problems

    def test_a_link_within_the_project_is_followed(self, tmp_path: Path) -> None:
        write(tmp_path, {"make/file": "a:\n"})
        (tmp_path / "Makefile").symlink_to("make/file")
        found = found_in(tmp_path)

        assert ["a"] == [task.name for task in found.tasks]
        assert [] == found.problems

    def test_whether_there_is_something_outside_is_not_told(self, tmp_path: Path) -> None:
        write(tmp_path, {"project/Makefile": "include link\ninclude ../none\na:\n", "one": ""})
        link = tmp_path / "project" / "link"
        said = []
        for target in ("one", "none"):
            link.unlink(missing_ok=True)
            link.symlink_to(tmp_path / target)
            said.append(found_in(tmp_path / "project").problems)

        assert said[0] == said[1]
        assert ["line 1: includes 'link'", "line 2: includes '../none'"] == [
            why.partition(",")[0] for _, why in said[0]
        ]


class TestPrograms:
    """A listing runs no program of the project."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        write(
            tmp_path,
            {
                "project/.ralph/x": "",
                "project/sub/compose.yaml": "services: {}",
                "project/.venv/bin/docker": f"#!/bin/sh\necho > {tmp_path}/ran\n",
            },
        )
        (tmp_path / "project/.venv/bin/docker").chmod(0o755)
        return tmp_path / "project"

    @pytest.mark.parametrize("way", ["itself", "a link out", "a linked folder"])
    def test_one_that_lies_in_the_project_is_not(
        self, way: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """This includes tasks of a folder of the project."""
        place = project / ".venv/bin"
        if way == "a link out":
            (place / "docker").rename(tmp_path / "other")
            (place / "docker").symlink_to(tmp_path / "other")
        elif way == "a linked folder":
            (tmp_path / "bin").symlink_to(place)
            place = tmp_path / "bin"
        monkeypatch.setenv("PATH", f"{place}{os.pathsep}/usr/bin{os.pathsep}/bin")
        root = os.path.realpath(project / "sub")
        folder = Folder(root, root)
        (up, *_) = compose.compose_tasks(folder)

        assert not Runners().available(up, root, again=True)
        assert None is query(folder, "docker", "compose", "version")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.slow
    def test_one_that_lies_elsewhere_is(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / ".venv/bin").rename(tmp_path / "bin")
        monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}/usr/bin{os.pathsep}/bin")
        root = os.path.realpath(project / "sub")
        (up, *_) = compose.compose_tasks(Folder(root, root))

        assert Runners().available(up, root)
        assert (tmp_path / "ran").exists()
        assert f"{tmp_path}/bin/docker" == program_outside("docker", root)

    def test_the_project_is_the_outermost_folder_that_ralphgen_knows(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path, {"project/sub/.ralph/x": "", ".ralph/x": "", "bare/x": ""})
        monkeypatch.setenv("HOME", os.path.realpath(tmp_path))

        assert os.path.realpath(project) == project_around(str(project / "sub"))
        assert os.path.realpath(tmp_path) == project_around(str(tmp_path / "bare"))
        monkeypatch.setenv("HOME", "/")
        assert os.path.realpath(tmp_path) == project_around(str(project / "sub"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "!!binary ZG90ZW52: ['{{.X}}']\n",
        "vars: {A: !!str x}\n",
        "vars: !a {}\n",
        "vars: {A: ! x}\n",
        "DotEnv: ['{{.X}}']\n",
        "unknown: x\n",
        "x-a: &a {dotenv: ['{{.X}}']}\n<<: *a\n",
    ],
)
@pytest.mark.parametrize("included", [False, True])
def test_task_is_asked_only_about_what_is_plain(
    text: str, *, included: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`!!binary ZG90ZW52` is `dotenv` to it, and makes it run the variables of a Taskfile."""
    program = tmp_path / "bin/task"
    write(tmp_path, {"bin/task": f"#!/bin/sh\necho > {tmp_path}/asked\n"})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    plain = "version: '3'\nx-a: b\ntasks: {a: echo}\nincludes: {i: other.yml}\n"
    odd = f"version: '3'\nvars: {{X: {{sh: touch ran}}}}\n{text}tasks: {{a: echo}}\n"
    odd = odd.replace("vars: {X: {sh: touch ran}}\nvars", "vars")
    files = {"Taskfile.yml": plain if included else odd, "other.yml": odd}
    place = write(tmp_path / "project", files)
    found = discover(place, place)

    assert "a" == found.tasks[0].name
    assert not (tmp_path / "asked").exists()
    write(tmp_path / "project", {"Taskfile.yml": plain, "other.yml": "version: '3'\n"})
    discover(place, place)
    assert (tmp_path / "asked").exists()


class TestProblems:
    """Messages about files are short."""

    def test_a_problem_is_told_once_and_cut(self, tmp_path: Path) -> None:
        folder = Folder(str(tmp_path), str(tmp_path))
        for _ in range(3):
            folder.report("p" * 1000, "w" * 1000)

        assert [("p" * 299 + "…", "w" * 299 + "…")] == folder.problems

    def test_there_are_fifty_at_most_and_the_last_says_so(self, tmp_path: Path) -> None:
        place = write(tmp_path, {f".github/workflows/{at:03}.yml": "[" for at in range(80)})
        problems = discover(place, place).problems

        assert 50 == len(problems)
        assert (place, "has more problems, not shown") == problems[-1]

    def test_once_enough_is_read_no_more_is_and_scripts_are_still_listed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(folders.MOST, "files", 2)
        place = write(tmp_path, {f"{name}.sh": f"# {name}\n" for name in "abcd"})
        found = discover(place, place)

        assert ["a", "b", None, None] == [task.description for task in found.tasks]
        assert [(place, SPENT)] == found.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: 'b', /* c */ \"d\": [1, 2,], // e\n}", {"a": "b", "d": [1, 2]}),
        (
            r"""{'a"': 'it\'s', "//": "/* , ] */", $b: ',]'}""",
            {'a"': "it's", "//": "/* , ] */", "$b": ",]"},
        ),
        ("[true, 'null', null /*,*/ , ]", [True, "null", None]),
        ("{a : {b\n:1,} , }", {"a": {"b": 1}}),
    ],
)
def test_json_for_people_is_read(text: str, expected: object, tmp_path: Path) -> None:
    place = write(tmp_path, {"x.json": text})

    assert expected == read_json5(Folder(place, place), f"{place}/x.json")


@pytest.mark.parametrize(
    "name",
    [
        "GNUmakefile",
        "makefile",
        "Makefile",
        "package.json",
        "pyproject.toml",
        "Taskfile.yml",
        "taskfile.dist.yaml",
        "turbo.json",
        "pom.xml",
        "build.gradle",
        "settings.gradle.kts",
        ".github/workflows/ci.yml",
        ".github/workflow.yaml",
        "compose.yaml",
        "docker-compose.yml",
        ".travis.yml",
        "CMakeLists.txt",
        "Justfile",
        ".justfile",
    ],
)
def test_name_of_a_task_file_that_is_not_a_file_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path.resolve() / name
    path.mkdir(parents=True)
    as_folder = found_in(tmp_path)
    path.rmdir()
    os.mkfifo(path)
    as_pipe = found_in(tmp_path)
    path.unlink()
    path.symlink_to("nowhere")
    as_link = found_in(tmp_path)

    assert [(str(path), "is not a file")] == as_folder.problems == as_pipe.problems
    assert [(str(path), "is a broken link")] == as_link.problems
    assert [] == [*as_folder.tasks, *as_pipe.tasks, *as_link.tasks]
