"""The recipes of a justfile, as `just` lists them, with and without `just` installed."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.formats import recipes as just
from ralphgen.kits.dela.server.formats.recipes import JustRecipe, read_statements
from ralphgen.kits.dela.server.task import Folder, Task, UnreadableError

SYSTEM = "macos" if sys.platform == "darwin" else "linux"

Summary = list[tuple[str, str | None]]


@pytest.fixture(params=["with just", "without just"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Install or hide `just`; return whether it is available."""
    asked: bool = request.param == "with just"
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("just", path=places)
    if asked and program is None:
        pytest.skip("just is not installed")
    monkeypatch.setenv("PATH", str(Path(program or "").parent) if asked else os.devnull)
    return asked


def write(path: Path, files: Mapping[str, str]) -> Folder:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8", newline="")
    return Folder(os.path.realpath(path), os.path.realpath(path))


def listed(folder: Folder) -> list[Task]:
    return list(just.just_tasks(folder))


def summary(path: Path, files: Mapping[str, str]) -> Summary:
    return [(task.name, task.description) for task in listed(write(path, files))]


RECIPES: dict[str, tuple[str, Summary]] = {
    "empty": ("", []),
    "no end of line": ("a:", [("a", None)]),
    "parameters": (
        r"""
a x:
b x='1' y="2:3":
c *x:
d +x:
e $x:
f $x='1' *$y=`echo`:
g x=('a' + ':' + "b"):
""",
        [(name, None) for name in "abcdefg"],
    ),
    "dependencies": (
        r"""
a:
b x: a
c: a && (b 'x:y')
d: (b ("a" + 'b:c')) a # words
@e: a \
  d
""",
        [(name, None) for name in "abcde"],
    ),
    "names that are words of the language": (
        "import:\nmod:\nset:\nalias:\nexport:\nif:\n",
        [(name, None) for name in ("import", "mod", "set", "alias", "export", "if")],
    ),
    "signs in names": ("a-b_c1:\nA:\n", [("a-b_c1", None), ("A", None)]),
    "what is private": (
        r"""
[private]
a:
_b:
[no-cd, private]
c:
[private]
[no-cd]
d:
e: a _b c d
""",
        [("e", None)],
    ),
    "what is no recipe": (
        r"""
set shell := ['sh', '-c']
set quiet
set dotenv-load := false
x := 'a:'
export Y := x + ':'
alias b := a
unexport Z
a:
""",
        [("a", None)],
    ),
    "texts of many lines": (
        r"""
v := '
a:
'
w := "\"
b:
"
x := '''
c:
'd: '
'''
y := `echo
e:
`
z := ```
`f:`
g:
```
last:
""",
        [("last", None)],
    ),
    "texts in three quotes": ('x := """\n"a:"\n\\"""\nb:\n"""\nlast:\n', [("last", None)]),
    "brackets of many lines": (
        r"""
x := (
'a'
)
y := if x == 'a' {
'b' } else {
'c' }
a z=(
'b'
):
b:
""",
        [("a", None), ("b", None)],
    ),
    "bodies": (
        r"""
a:
  #!/bin/sh
  b: '

  c: "
d:
  echo {{ 'x
e: }}
y' }} '
f:
  echo {{{{ '
g:
	echo {{ if 'a' == 'b' { 'c' } else { "}}" } }}}}
h:
""",
        [(name, None) for name in "adfgh"],
    ),
    "comments": (
        r"""
# one
# two
a:
# apart

b:
#
c: # behind
#   wide   words
d:
  # within
e:
##  more
f:
# of an alias
alias g := a
h:
# no end \
i:
""",
        [
            ("a", "two"),
            ("b", None),
            ("c", None),
            ("d", "wide words"),
            ("e", None),
            ("f", "# more"),
            ("h", None),
            ("i", "no end \\"),
        ],
    ),
    "a shebang": ("#!/usr/bin/env just\na:\n#!b\nb:\n", [("a", None), ("b", "!b")]),
    "a first comment": ("# a\na:\n", [("a", "a")]),
    "what [doc] says": (
        r"""
# no
[doc('a, [b]: c')]
a:
# no
[doc]
b:
[doc: "x \u{e9}\t\"y\""]
c:
[group('g'), doc('d'),
no-cd]
d:
[doc('''
  e
  f
''')]
e:
[no-cd]
[doc('')]
f:
""",
        [("a", "a, [b]: c"), ("b", None), ("c", 'x é "y"'), ("d", "d"), ("e", "e f"), ("f", None)],
    ),
    "systems": (
        f"""
[{SYSTEM}]
a:
[unix]
b:
[windows]
c:
[windows]
[{SYSTEM}]
d:
[windows]
e:
[unix]
e:
""",
        [("a", None), ("b", None), ("d", None), ("e", None)],
    ),
    "ends of lines of Windows": ("# x\r\na:\r\n  echo\r\n\r\nb:\r\n", [("a", "x"), ("b", None)]),
    "byte order mark": ("\ufeff# x\na:\n", [("a", "x")]),
    "a recipe defined anew": (
        "set allow-duplicate-recipes\n# one\na:\nb:\n# two\na:\n",
        [("a", "two"), ("b", None)],
    ),
}

FILES: dict[str, tuple[dict[str, str], Summary]] = {
    "imports": (
        {
            "justfile": r"""
a:
import 'x/y.just' # words
import "z\u{31}.just"
import? 'none.just'
b:
import '''
  w.just'''
import x'${RALPHGEN_NOT_SET:-x}/v.just'
""",
            "x/y.just": "# c\nc:\nimport '../d.just'\n",
            "d.just": "d:\n",
            "z1.just": "e:\nimport 'd.just'\n",
            "w.just": "f:\n",
            "x/v.just": "g:\n",
        },
        [("a", None), ("c", "c"), *((name, None) for name in "debfg")],
    ),
    "what is nearer, then earlier, wins": (
        {
            "justfile": r"""
set allow-duplicate-recipes
import 'x.just'
import 'y.just'
# top
a:
""",
            "x.just": "import 'z.just'\n# x\nb:\n# x\nc:\n",
            "y.just": "# y\na:\n# y\nb:\n# y\nd:\n",
            "z.just": "# z\nc:\n# z\nd:\n# z\ne:\n",
        },
        [("c", "x"), ("d", "y"), ("e", "z"), ("b", "x"), ("a", "top")],
    ),
    "modules": (
        {
            "justfile": r"""
mod a
mod b
mod c 'x/y'
mod d 'file'
# said of it
mod e
z:
""",
            "a.just": "mod deep\n# one\none:\n_two:\n",
            "deep.just": "three:\n",
            "b/mod.just": "four:\nimport 'more.just'\n",
            "b/more.just": "five:\n",
            "x/y/.JustFile": "six:\n",
            "file": "seven:\n",
            "e/justfile": "eight:\n",
        },
        [
            ("a::deep::three", None),
            ("a::one", "one"),
            ("b::four", None),
            ("b::five", None),
            ("c::six", None),
            ("d::seven", None),
            ("e::eight", None),
            ("z", None),
        ],
    ),
    "modules that are not shown, not there or of another system": (
        {
            "justfile": r"""
[private]
mod a
mod? none
[windows]
mod b
[unix]
mod c
mod? d 'd1.just'
mod? d 'd2.just'
mod _e
""",
            **dict.fromkeys(("a.just", "b.just", "c.just", "d2.just", "_e.just"), "x:\n"),
        },
        [("c::x", None), ("d::x", None), ("_e::x", None)],
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("case", RECIPES)
def test_the_recipes_of_one_file(case: str, tmp_path: Path) -> None:
    text, expected = RECIPES[case]
    folder = write(tmp_path, {"justfile": text})

    assert expected == [(task.name, task.description) for task in listed(folder)]
    assert [] == folder.problems


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("case", FILES)
def test_the_recipes_of_several_files(case: str, tmp_path: Path) -> None:
    files, expected = FILES[case]
    folder = write(tmp_path, files)

    assert expected == [(task.name, task.description) for task in listed(folder)]
    assert [] == folder.problems


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_a_task_is_run_by_its_path_of_modules_and_defined_by_the_file_that_has_it(
    tmp_path: Path,
) -> None:
    (task,) = listed(write(tmp_path, {"justfile": "mod m", "m.just": "a:\n"}))

    assert "just" == task.runner
    assert ("just", "m::a") == task.argv
    assert () == task.before_arguments
    assert os.path.realpath(tmp_path / "m.just") == task.path


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("name", ["justfile", "Justfile", ".justfile", "JUSTFILE", ".JustFile"])
def test_just_takes_its_file_in_any_capitals(name: str, tmp_path: Path) -> None:
    assert [("a", None)] == summary(tmp_path, {name: "a:\n"})


@pytest.mark.usefixtures("runner")
def test_no_justfile_is_no_task(tmp_path: Path) -> None:
    (tmp_path / "justfile").mkdir()

    assert [] == summary(tmp_path, {"justfile.bak": "a:\n"})


def test_two_justfiles_are_a_problem_as_they_are_to_just(tmp_path: Path) -> None:
    folder = write(tmp_path, {".justfile": "a:\n", "justfile": "b:\n"})
    with pytest.raises(UnreadableError, match='conflicts with "justfile"') as caught:
        listed(folder)

    assert folder.place(".justfile") == caught.value.path


@pytest.mark.slow
def test_what_only_just_can_tell_is_taken_from_it(runner: bool, tmp_path: Path) -> None:
    files = {"justfile": "x := 'made '\n[doc(x + 'of parts')]\na:\n"}

    assert [("a", "made of parts" if runner else None)] == summary(tmp_path, files)


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("quote", ["'", '"', "`", "'''", '"""', "```"])
def test_nothing_is_listed_behind_a_text_without_an_end(quote: str, tmp_path: Path) -> None:
    assert [("a", None)] == summary(tmp_path, {"justfile": f"a:\nx := {quote}b\nc:\n"})


@pytest.mark.slow
def test_what_just_refuses_is_reported_and_listed_as_far_as_it_goes(
    runner: bool, tmp_path: Path
) -> None:
    folder = write(tmp_path, {"justfile": "a:\nb: nothing\nc:\n"})

    assert ["a", "b", "c"] == [task.name for task in listed(folder)]
    why = "just rejects it at justfile:2:4: recipe `b` has unknown dependency `nothing`"
    assert ([(folder.place("justfile"), why)] if runner else []) == folder.problems


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize(
    ("files", "expected", "problems"),
    [
        (
            {"justfile": "import 'x'\na:\n"},
            ["a"],
            [("justfile", 'names "x", which does not exist')],
        ),
        ({"justfile": "mod x\na:\n"}, ["a"], [("justfile", 'names "x", which does not exist')]),
        (
            {"justfile": "import? '../x'\nmod? y '/y'\na:\n"},
            ["a"],
            [
                ("justfile", 'names "../x", which is outside the project'),
                ("justfile", 'names "/y", which is outside the project'),
            ],
        ),
        (
            {"justfile": "mod x\na:\n", "x.just": "b:\n", "x/mod.just": "c:\n"},
            ["x::b", "a"],
            [("justfile", 'names "x", which matches 2 files')],
        ),
    ],
)
def test_a_source_that_cannot_be_used_is_reported_and_the_rest_listed(
    files: dict[str, str], expected: list[str], problems: list[tuple[str, str]], tmp_path: Path
) -> None:
    folder = write(tmp_path, files)

    assert expected == [task.name for task in listed(folder)]
    assert [(folder.place(path), why) for path, why in problems] == folder.problems
    assert all(path.startswith(folder.root) for path in folder.stamps)


@pytest.mark.usefixtures("runner")
def test_files_that_name_each_other_come_to_an_end(tmp_path: Path) -> None:
    files = {
        "justfile": "import 'x.just'\nmod m 'x.just'\na:\n",
        "x.just": "import 'justfile'\nmod n 'x.just'\nb:\n",
    }
    folder = write(tmp_path, files)

    assert ["b", "m::b", "a"] == [task.name for task in listed(folder)]
    assert 2 == len(folder.problems)
    assert all("includes it again" in why for _, why in folder.problems)


def test_too_many_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(just, "MOST_FILES", 3)
    sources = "".join(f"mod m{at}\n" for at in range(5))
    modules = {f"m{at}.just": "a:\n" for at in range(5)}
    folder = write(tmp_path, {"justfile": sources, **modules})

    assert ["m0::a", "m1::a", "m2::a"] == [task.name for task in listed(folder)]
    assert ["m3.just", "m4.just"] == [Path(path).name for path, _ in folder.problems]


@pytest.mark.usefixtures("runner")
def test_an_unreadable_import_is_reported_and_an_unreadable_justfile_raised(tmp_path: Path) -> None:
    folder = write(tmp_path, {"justfile": "import 'x'\na:\n"})
    (tmp_path / "x").write_bytes(b"b:\n\xff")

    assert ["a"] == [task.name for task in listed(folder)]
    assert [(folder.place("x"), "line 2 is not UTF-8")] == folder.problems
    (tmp_path / "justfile").write_bytes(b"\xff")
    with pytest.raises(UnreadableError):
        listed(Folder(folder.path, folder.root))


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_listing_runs_nothing_that_the_files_hold(tmp_path: Path) -> None:
    text = """
set dotenv-command := 'touch ran1'
set unstable
x := `touch ran2`
y := shell('touch ran3')
z := f'a {{`touch ran4`}}'
export W := `touch ran5`
[script]
[cache(extra = `touch ran6`)]
a b=`touch ran7`: (c `touch ran8`)
    touch ran9 {{`touch ran10`}}
[confirm('touch ran11')]
c d:
    touch ran12
"""

    assert [("a", None), ("c", None)] == summary(tmp_path, {"justfile": text})
    assert [tmp_path / "justfile"] == list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.usefixtures("runner")
def test_every_file_that_counts_is_watched(tmp_path: Path) -> None:
    files = {"justfile": "import 'x.just'\nimport? 'none.just'\nmod? m\n", "x.just": "a:\n"}
    folder = write(tmp_path, files)
    listed(folder)
    looked = ("justfile", "x.just", "none.just", "m.just", "m", "")

    assert {folder.place(name) for name in looked} <= folder.stamps.keys()


PIECES = (
    *"'\"`#:@[](){}\\|\n \t$*+?=ax",
    *("'''", '"""', "```", "{{", "}}", ":=", "::", "import ", "mod ", "[doc(", "[private]\n"),
)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ['"""' + '"\\' * 200_000, "x: " + "b::" * 100_000, "[" + "a," * 100_000 + "]\nx:\n"]
)
def test_a_long_file_is_read_in_a_moment(text: str) -> None:
    """Repeated searches for the end of a text, or copies of a path, would take minutes."""
    assert len(list(read_statements(text))) in {0, 1}


LETTERS = st.one_of(st.sampled_from(PIECES), st.characters(codec="utf-8"))


@given(st.lists(LETTERS, max_size=25).map("".join))
def test_any_text_has_recipes_whose_names_just_could_have(text: str) -> None:
    names = [found.name for found in read_statements(text) if isinstance(found, JustRecipe)]

    assert all(name.isascii() and name.replace("-", "_").isidentifier() for name in names)
