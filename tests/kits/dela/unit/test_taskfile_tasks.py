"""The tasks of a Taskfile, as `task` lists them, with and without `task` installed."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.formats import recipes as taskfile
from ralphgen.kits.dela.server.task import Folder, Task, UnreadableError, merged

SYSTEM = "darwin" if sys.platform == "darwin" else "linux"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

Summary = list[tuple[str, str | None]]
Files = Mapping[str, str]


@pytest.fixture(params=["with task", "without task"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Install or hide `task`; return whether it is available."""
    asked: bool = request.param == "with task"
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("task", path=places)
    if asked and program is None:
        pytest.skip("task is not installed")
    monkeypatch.setenv("PATH", str(Path(program or "").parent) if asked else os.devnull)
    return asked


@pytest.fixture
def impostor(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake `task` that only writes the file "asked"; return their directory."""
    place = tmp_path_factory.mktemp("programs")
    program = place / "task"
    program.write_text(f"#!/bin/sh\necho > {place}/asked\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return place


def write(path: Path, files: Files) -> Folder:
    """Write the YAML files with a version and return their directory."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(f"version: '3'\n{text}", encoding="utf-8", newline="")
    return Folder(os.path.realpath(path), os.path.realpath(path))


def listed(folder: Folder) -> list[Task]:
    return list(taskfile.taskfile_tasks(folder))


def summary(path: Path, files: Files) -> Summary:
    return [(task.name, task.description) for task in listed(write(path, files))]


TASKS: dict[str, tuple[str, Summary]] = {
    "no tasks": ("", []),
    "tasks of nothing": ("tasks:\n", []),
    "short forms": (
        """
tasks:
  text: go build
  list: [go build, task: text]
  one: [go test ./...]
  wrapped: [task: text]
  number: 3
  lines: |

    first
    second
""",
        [
            ("text", "command: go build"),
            ("list", "multiple commands: 2"),
            ("one", "command: go test ./..."),
            ("wrapped", "complex command"),
            ("number", "command: 3"),
            ("lines", "command: first"),
        ],
    ),
    "descriptions": (
        """
tasks:
  desc: {desc: ' Says  it ', summary: no, cmds: [no]}
  lines: {desc: "one\\ntwo\\n"}
  summary: {summary: "\\n first\\n second", cmds: [no]}
  cmd: {cmd: echo}
  cmds: {cmds: [echo, echo, cmd: echo]}
  deps: {deps: [cmd]}
  nothing:
  null: ~
  empty: {desc: '', summary: '', cmds: []}
""",
        [
            ("desc", "Says it"),
            ("lines", "one two"),
            ("summary", "first"),
            ("cmd", "command: echo"),
            ("cmds", "multiple commands: 3"),
            ("deps", None),
            ("nothing", None),
            ("null", None),
            ("empty", None),
        ],
    ),
    "internal": (
        """
tasks:
  a: {internal: true, cmds: [echo]}
  b: {internal: false, cmds: [echo]}
  c: {internal: yes}
  d: {internal: no}
  e: {internal: on}
""",
        [("b", "command: echo"), ("d", None)],
    ),
    "names that are no names": (
        """
tasks:
  'watch-*': echo
  '*': echo
  'a=b': echo
  '-x': echo
  '--list': echo
  ' ': echo
  "a\\nb": echo
  "a\\x1b[1m": echo
  default: echo
""",
        [("watch-*", "command: echo"), ("*", "command: echo"), ("default", "command: echo")],
    ),
    "names that are": (
        """
tasks:
  a b: echo
  a:b:c: echo
  a/b.c-d_e: echo
  é: echo
  yes: echo
  3: echo
  1.0: echo
""",
        [(name, "command: echo") for name in ("a b", "a:b:c", "a/b.c-d_e", "é", "yes", "3", "1.0")],
    ),
    "what is said besides": (
        """
env: {A: 1}
vars: {B: {sh: echo}}
set: [pipefail]
x-own: &own {internal: true}
tasks:
  a:
    aliases: [b, c]
    label: called otherwise
    platforms: [windows]
    requires: {vars: [X]}
    vars: {L: [1, 2]}
    cmds:
      - for: {var: L}
        cmd: echo {{.ITEM}}
  d: {<<: *own, desc: hidden}
  e: {<<: [*own], internal: false, desc: shown}
  f: *own
""",
        [("a", "complex command"), ("e", "shown")],
    ),
    "ends of lines of Windows": ("tasks:\r\n  a:\r\n    desc: x\r\n", [("a", "x")]),
}

INCLUDED = {"i.yml": "tasks: {default: echo, one: {desc: 1}, _two: {internal: true}}\n"}
INCLUDES: dict[str, tuple[Files, list[str]]] = {
    "by path, by mapping, of a folder, twice, none": (
        {
            **INCLUDED,
            "Taskfile.yml": """
includes:
  a: i.yml
  b: {taskfile: ./i.yml, dir: elsewhere, aliases: [z], vars: {A: 1}}
  c: ./d
  d: d/
  e: {taskfile: none.yml, optional: true}
  f: {taskfile: no-folder, optional: true}
tasks: {own: echo}
""",
            "d/taskfile.dist.yaml": "tasks: {three: echo}\n",
        },
        ["own", "a:default", "a:one", "b:default", "b:one", "c:three", "d:three"],
    ),
    "internal, excluding and flat": (
        {
            **INCLUDED,
            "Taskfile.yml": """
x: &x {internal: true}
includes:
  a: {taskfile: i.yml, internal: true}
  b: {taskfile: i.yml, excludes: [default, 'b:one']}
  c: {taskfile: d/c.yml, flatten: true, excludes: ['deep:one', four]}
  d: {taskfile: i.yml, <<: *x}
""",
            "d/c.yml": """
includes:
  deep: ../i.yml
  flat: {taskfile: f.yml, flatten: yes}
  hidden: {taskfile: f.yml, flatten: false, internal: yes}
tasks: {four: echo, five: echo}
""",
            "d/f.yml": "tasks: {six: echo}\n",
        },
        ["b:one", "five", "deep:default", "six"],
    ),
    "of this system and machine": (
        {
            "Taskfile.yml": "includes: {a: './{{OS}}.yml', b: 'x/{{ ARCH }}/{{OS}}.yml'}\n",
            f"{SYSTEM}.yml": "tasks: {one: echo}\n",
            f"x/{MACHINE}/{SYSTEM}.yml": "tasks: {two: echo}\n",
        },
        ["a:one", "b:two"],
    ),
    "named by variables of plain text": (
        {
            "Taskfile.yml": """
vars: {D: d, E: e.yml, F: {sh: "touch ran; echo d/e.yml"}}
includes: {a: './{{.D}}/{{ .E }}', b: {taskfile: '{{.D}}/f.yml', optional: true}}
tasks: {one: echo}
""",
            "d/e.yml": "tasks: {two: echo}\n",
        },
        ["one", "a:two"],
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("case", TASKS)
def test_the_tasks_of_one_file(case: str, tmp_path: Path) -> None:
    text, expected = TASKS[case]
    folder = write(tmp_path, {"Taskfile.yml": text})

    assert expected == [(task.name, task.description) for task in listed(folder)]
    assert [] == folder.problems


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("case", INCLUDES)
def test_the_tasks_of_included_files(case: str, tmp_path: Path) -> None:
    files, expected = INCLUDES[case]
    folder = write(tmp_path, files)

    assert expected == [task.name for task in listed(folder)]
    assert [] == folder.problems
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_a_task_is_run_by_its_whole_name_and_defined_by_the_file_that_has_it(
    tmp_path: Path,
) -> None:
    files = {"Taskfile.yml": "includes: {a b: i.yml}\n", "i.yml": "tasks: {c: echo}\n"}
    (task,) = listed(write(tmp_path, files))

    assert "task" == task.runner
    assert ("task", "a b:c") == task.argv
    assert ("--",) == task.before_arguments
    assert os.path.realpath(tmp_path / "i.yml") == task.path


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_the_first_of_the_eight_names_counts(tmp_path: Path) -> None:
    """In the order of `task`; the test deletes each file after it was used."""
    names = [
        "Taskfile.yml",
        "taskfile.yml",
        "Taskfile.yaml",
        "taskfile.yaml",
        "Taskfile.dist.yml",
        "taskfile.dist.yml",
        "Taskfile.dist.yaml",
        "taskfile.dist.yaml",
    ]
    write(tmp_path, {name: f"tasks: {{{name}: echo}}\n" for name in names})
    for name in names:
        assert [name] == [task.name for task in listed(write(tmp_path, {}))]
        (tmp_path / name).unlink()
    assert [] == listed(write(tmp_path, {}))


@pytest.mark.slow
def test_what_only_task_can_tell_is_taken_from_it(runner: bool, tmp_path: Path) -> None:
    text = "vars: {A: made}\ntasks:\n  a: {desc: '{{.A}} of parts'}\n"
    expected = "made of parts" if runner else "<A> of parts"

    assert [("a", expected)] == summary(tmp_path, {"Taskfile.yml": text})


@pytest.mark.slow
def test_what_task_refuses_is_reported_and_listed_as_far_as_it_goes(
    runner: bool, tmp_path: Path
) -> None:
    folder = write(tmp_path, {"Taskfile.yml": "tasks:\n  a: echo\n  b: {cmds: echo}\n"})

    assert ["a", "b"] == [task.name for task in listed(folder)]
    why = "task rejects it: line 4: cannot unmarshal !!str `echo` into []*ast.Cmd"
    assert ([(folder.place("Taskfile.yml"), why)] if runner else []) == folder.problems


@pytest.mark.slow
@pytest.mark.parametrize("said", ["", "[]", "{}", '{"tasks": null}', '{"tasks": [{"name": "b"}]}'])
def test_another_program_called_task_changes_nothing(
    said: str, impostor: Path, tmp_path: Path
) -> None:
    """Taskwarrior is also called `task`, and old versions of Task print less."""
    with (impostor / "task").open("a", encoding="utf-8") as program:
        program.write(f"echo '{said}'\n")

    assert [("a", "command: echo")] == summary(tmp_path, {"Taskfile.yml": "tasks: {a: echo}\n"})
    assert (impostor / "asked").exists()


MISSED: list[tuple[str, list[str], list[tuple[str, str]]]] = [
    ("{i: none.yml}", ["a"], [("Taskfile.yml", 'include "i" does not exist: "none.yml"')]),
    ("{i: d, j: x.yml}", ["a", "j:b"], [("Taskfile.yml", 'include "i" does not exist: "d"')]),
    ("{i: broken.yml}", ["a"], [("broken.yml", "line 3: is not valid YAML")]),
    (
        "{i: ../x.yml, j: {taskfile: /, optional: true}}",
        ["a"],
        [
            ("Taskfile.yml", 'include "i" is outside the project: "../x.yml"'),
            ("Taskfile.yml", 'include "j" is outside the project: "/"'),
        ],
    ),
    (
        "{i: Taskfile.yml, j: y.yml}",
        ["a"],
        [
            ("Taskfile.yml", 'include "i" includes itself or too many files'),
            ("y.yml", 'include "y" includes itself or too many files'),
        ],
    ),
    (
        "{i: {taskfile: x.yml, flatten: true}, j: {taskfile: z.yml, flatten: true}}",
        ["a", "b"],
        [("z.yml", 'task "b" is skipped: "{x.yml}" has it too')],
    ),
    *(
        (
            f"{{i: {given}}}",
            ["a"],
            [("Taskfile.yml", 'include "i" was not read: its taskfile is not a plain path')],
        )
        for given in (
            "'https://example.org/Taskfile.yml'",
            "{taskfile: 'git@example.org:x/y.git//Taskfile.yml', optional: true}",
            "'{{.NAME}}.yml'",
            "'./{{OS}}/{{.NAME}}.yml'",
            "'$NAME.yml'",
            "'$(touch ran).yml'",
            "'`touch ran`.yml'",
            "'~/x.yml'",
            "{dir: x}",
            "[]",
            "",
        )
    ),
]


@pytest.mark.parametrize(("includes", "expected", "problems"), MISSED)
def test_an_include_that_cannot_be_used_is_reported_and_the_rest_listed(
    includes: str,
    expected: list[str],
    problems: list[tuple[str, str]],
    tmp_path: Path,
    impostor: Path,
) -> None:
    """`task` is not run either: it would refuse the file or download the include."""
    files = {
        "Taskfile.yml": f"includes: {includes}\ntasks: {{a: echo}}\n",
        "x.yml": "tasks: {b: echo}\n",
        "y.yml": "includes: {y: Taskfile.yml}\n",
        "z.yml": "tasks: {b: echo}\n",
        "broken.yml": "tasks: [\n",
        "d/other.yml": "",
    }
    folder = write(tmp_path, files)

    assert expected == [task.name for task in listed(folder)]
    assert [path for path, _ in problems] == [
        os.path.relpath(path, folder.path) for path, _ in folder.problems
    ]
    for (_, expected_why), (_, why) in zip(problems, folder.problems, strict=True):
        assert why.startswith(expected_why.replace("{x.yml}", folder.place("x.yml")))
    assert all(path.startswith(folder.root) for path in folder.stamps)
    assert not (impostor / "asked").exists()


def test_task_is_not_asked_where_it_would_run_commands_to_answer(
    tmp_path: Path, impostor: Path
) -> None:
    """To find the files of `dotenv`, `task --list-all` runs all `sh:` variables."""
    text = "dotenv: ['{{.A}}']\nvars: {A: {sh: touch ran}}\ntasks: {a: echo}\n"

    assert [("a", "command: echo")] == summary(tmp_path, {"Taskfile.yml": text})
    assert not (impostor / "asked").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("first", ["", "dotenv: [.env]"])
def test_listing_runs_nothing_that_the_files_hold(first: str, tmp_path: Path) -> None:
    text = f"""
{first}
env: {{A: {{sh: touch ran1}}}}
vars: {{B: {{sh: touch ran2}}, C: {{ref: .B}}}}
includes:
  i: {{taskfile: i.yml, dir: '{{{{.B}}}}', vars: {{D: {{sh: touch ran3}}}}}}
tasks:
  a:
    dir: '{{{{.B}}}}'
    env: {{E: {{sh: touch ran4}}}}
    vars: {{F: {{sh: touch ran5}}}}
    dotenv: ['{{{{.B}}}}']
    if: touch ran6
    status: [touch ran7]
    preconditions: [touch ran8]
    sources: ['{{{{.B}}}}']
    prompt: '{{{{.B}}}}'
    cmds: [touch ran9, '{{{{.B}}}}']
"""
    files = {"Taskfile.yml": text, "i.yml": "vars: {G: {sh: touch ran0}}\ntasks: {b: echo}\n"}

    assert ["a", "i:b"] == [task.name for task in listed(write(tmp_path, files))]
    assert {"Taskfile.yml", "i.yml"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_every_file_that_counts_is_watched(tmp_path: Path) -> None:
    files = {
        "Taskfile.yml": """
includes:
  a: i.yml
  b: {taskfile: none.yml, optional: true}
  c: d
""",
        "i.yml": "",
        "d/Taskfile.yml": "",
    }
    folder = write(tmp_path, files)
    listed(folder)
    looked = ("", "Taskfile.yml", "i.yml", "none.yml", "d", "d/Taskfile.yml")

    assert {folder.place(name) for name in looked} <= folder.stamps.keys()


def test_too_many_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskfile, "MOST_FILES", 2)
    files = {"Taskfile.yml": "includes: {a: i.yml, b: i.yml, c: i.yml}\n"}
    folder = write(tmp_path, {**files, "i.yml": "tasks: {a: echo}\n"})

    assert ["a:a", "b:a"] == [task.name for task in listed(folder)]
    why = 'include "c" includes itself or too many files'
    assert [(folder.place("Taskfile.yml"), why)] == folder.problems


def test_no_taskfile_is_no_task_and_a_broken_one_is_a_problem(tmp_path: Path) -> None:
    folder = write(tmp_path, {"Taskfile.txt": "tasks: {a: echo}\n"})

    assert [] == listed(folder)
    (tmp_path / "Taskfile.yml").write_text("tasks:\n  a: [\n", encoding="utf-8")
    with pytest.raises(UnreadableError, match="line 3: is not valid YAML"):
        listed(Folder(folder.path, folder.root))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just("i.yml")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(["tasks", "includes", "cmds", "cmd", "desc", "<<", "taskfile"]),
                st.integers(),
                st.text(max_size=5),
            ),
            inner,
            max_size=4,
        ),
    ),
)


@pytest.mark.thorough
@given(VALUES, VALUES, VALUES)
def test_no_value_is_too_odd(
    tmp_path_factory: pytest.TempPathFactory, tasks: object, includes: object, all_: object
) -> None:
    path = tmp_path_factory.mktemp("odd")
    for name, value in (("Taskfile.yml", {"tasks": tasks, "includes": includes}), ("i.yml", all_)):
        (path / name).write_text(yaml.safe_dump(value), encoding="utf-8")
    folder = Folder(os.path.realpath(path), os.path.realpath(path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.devnull)
        assert all(task.name.isprintable() for task in listed(folder))


def test_mappings_that_take_from_each_other_many_times_over_are_read_at_once(
    tmp_path: Path,
) -> None:
    """Written out, the last would have two to the power of 45 members."""
    levels = "".join(f"x{at}: &x{at} {{<<: [*x{at - 1}, *x{at - 1}]}}\n" for at in range(1, 46))
    text = f"x0: &x0 {{desc: x}}\n{levels}tasks:\n  a: {{<<: *x45}}\n"
    (tmp_path / "Taskfile.yml").write_text(text, encoding="utf-8")

    (task,) = taskfile.TaskfileSources(write(tmp_path, {})).read(str(tmp_path / "Taskfile.yml"))
    assert {"desc": "x"} == merged(task.written)


def test_a_mapping_that_holds_itself_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="more than 100 levels deep"):
        summary(tmp_path, {"Taskfile.yml": "tasks:\n  a: &a {desc: x, <<: *a}\n"})
