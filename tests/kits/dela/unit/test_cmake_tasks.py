"""The listed custom targets of a CMakeLists.txt."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ralphgen.kits.dela.server.formats.cmake import cmake_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

AWKWARD = """
cmake_minimum_required(VERSION 3.5)
project(awkward NONE)
# add_custom_target(commented)
#[[ add_custom_target(in_brackets)
]]
add_custom_target(after_brackets)
#[==[ ]] add_custom_target(deeper) ]==]
set(text "add_custom_target(in_text)
  # no comment" [[add_custom_target(in_verbatim)]])
ADD_CUSTOM_TARGET (upper ALL
  COMMAND ${CMAKE_COMMAND} -E echo "a ) b" # )
  COMMENT "Say \\"hello\\"\\n and \\
go")
add_custom_target(
  "quoted" COMMENT [=[from ] brackets]=])
Add_Custom_Target(plain)
set(name computed)
add_custom_target(${name} COMMENT "its name is in a variable")
if(TRUE)
  add_custom_target(docs-1.0 COMMAND echo $(MAKE) "COMMENTS" COMMENT word)
endif()
function(unused)
  my_add_custom_target(other)
endfunction()
"""
TARGETS = ["after_brackets", "upper", "quoted", "plain", "computed", "docs-1.0"]
HELP = ["--target", "help"]
OF_CMAKE = {"all", "clean", "depend", "edit_cache", "rebuild_cache"}


def folder(root: Path, text: str) -> Folder:
    (root / "CMakeLists.txt").write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


def test_targets_are_found_where_cmake_would_find_them(tmp_path: Path) -> None:
    tasks = list(cmake_tasks(folder(tmp_path, AWKWARD)))

    assert [
        ("after_brackets", None),
        ("upper", 'Say "hello" and go'),
        ("quoted", "from ] brackets"),
        ("plain", None),
        ("computed", "its name is in a variable"),
        ("docs-1.0", "word"),
    ] == [(task.name, task.description) for task in tasks]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("make"), reason="needs CMake")
def test_cmake_itself_knows_the_same_targets(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(AWKWARD, encoding="utf-8")
    for words in (["-S", ".", "-B", "build", "-G", "Unix Makefiles"], ["--build", "build", *HELP]):
        command = ["cmake", *words]
        ran = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    shown = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("... ")}

    assert set(TARGETS) == shown - OF_CMAKE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add_custom_target(a) add_custom_target(a COMMENT b)", [("a", None)]),
        ('add_custom_target(a "(" COMMENT b)\nadd_custom_target(c)', [("a", "b"), ("c", None)]),
        ("add_custom_target(a COMMENT)", [("a", None)]),
        ('add_custom_target(a COMMENT "to ${X} $<IF:x>")', [("a", "to <X> <…>")]),
        ("add_custom_target(a COMMENT b COMMENT c)", [("a", "b")]),
        ("add_custom_target(a (b COMMENT c) d)\nadd_custom_target(e)", [("a", "c"), ("e", None)]),
        ("add_custom_target()\nadd_custom_target(-a)\nadd_custom_target(a/b)", []),
        ("add_custom_target\nadd_custom_target(unclosed", []),
        (") ) add_custom_target(a)", [("a", None)]),
        ('add_custom_target("a b") add_custom_target("")', []),
        ("set(a add_custom_target) (b)", []),
        ('set("unclosed add_custom_target(a)', []),
        ("#[[ unclosed\nadd_custom_target(a)", []),
        ("set([[ unclosed\nadd_custom_target(a)", []),
        ("\\", []),
    ],
)
def test_odd_calls(tmp_path: Path, text: str, expected: list[tuple[str, str | None]]) -> None:
    found = [(task.name, task.description) for task in cmake_tasks(folder(tmp_path, text))]

    assert expected == found


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_bytes(b"# \xe9t\xe9\n")

    with pytest.raises(UnreadableError, match="line 1 is not UTF-8"):
        list(cmake_tasks(Folder(str(tmp_path), str(tmp_path))))


def test_a_folder_without_the_file_has_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "cmakelists.txt").write_text("add_custom_target(a)", encoding="utf-8")

    assert [] == list(cmake_tasks(Folder(str(tmp_path), str(tmp_path))))


SEVERAL = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.5)
        project(several NONE)
        include(cmake/tools.cmake)
        include("${CMAKE_CURRENT_LIST_DIR}/cmake/more.cmake")
        include(none.cmake OPTIONAL)
        include(CTest)
        add_custom_target(own)
        add_subdirectory(app)
        """,
    "cmake/tools.cmake": "add_custom_target(tool COMMENT tools)\ninclude(cmake/again.cmake)\n",
    "cmake/again.cmake": "add_custom_target(again)\ninclude(cmake/again.cmake OPTIONAL)\n",
    "cmake/more.cmake": "add_custom_target(more)\n",
    "app/CMakeLists.txt": """
        add_custom_target(app)
        add_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/lib)
        include(${CMAKE_SOURCE_DIR}/cmake/last.cmake)
        """,
    "app/lib/CMakeLists.txt": "add_custom_target(lib)\n",
    "cmake/last.cmake": "add_custom_target(last)\n",
}
OWNERS = {
    "own": "CMakeLists.txt",
    "tool": "cmake/tools.cmake",
    "more": "cmake/more.cmake",
    "app": "app/CMakeLists.txt",
    "again": "cmake/again.cmake",
    "lib": "app/lib/CMakeLists.txt",
    "last": "cmake/last.cmake",
}


def several(root: Path) -> Folder:
    for name, text in SEVERAL.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


def test_targets_of_included_files_and_added_folders_are_listed(tmp_path: Path) -> None:
    place = several(tmp_path)
    tasks = list(cmake_tasks(place))

    assert [] == place.problems
    assert {name: str((tmp_path / file).resolve()) for name, file in OWNERS.items()} == {
        task.name: task.path for task in tasks
    }
    assert "tools" == next(task.description for task in tasks if task.name == "tool")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_itself_has_the_targets_of_all_files(tmp_path: Path) -> None:
    root = tmp_path / "source"
    (tmp_path / "build").mkdir()
    several(root)
    text = SEVERAL["cmake/again.cmake"].partition("\n")[0]
    (root / "cmake/again.cmake").write_text(text, encoding="utf-8")
    words = ["cmake", "-S", str(root), "-B", str(tmp_path / "build")]
    subprocess.run(words, capture_output=True, check=True)
    command = ["cmake", "--build", str(tmp_path / "build"), *HELP]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert set(OWNERS) <= {line.removeprefix("... ").split()[0] for line in listed.splitlines()}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("include(../out.cmake)", 'include names "../out.cmake", which is outside the project'),
        ("include(link.cmake)", 'include names "link.cmake", which is outside the project'),
        ("add_subdirectory(..)", 'add_subdirectory names "..", which is outside the project'),
        ("add_subdirectory(none)", 'add_subdirectory names "none", which does not exist'),
        ("include(none.cmake)", 'include names "none.cmake", which does not exist'),
        ("include(bad.cmake)", "line 1 is not UTF-8"),
    ],
)
def test_a_file_that_cmake_names_and_is_not_read_is_reported(
    tmp_path: Path, command: str, why: str
) -> None:
    (tmp_path / "out.cmake").write_text("add_custom_target(stolen)\n", encoding="utf-8")
    root = tmp_path / "project"
    root.mkdir()
    (root / "bad.cmake").write_bytes(b"\xff")
    (root / "link.cmake").symlink_to("../out.cmake")
    place = folder(root, f"{command}\nadd_custom_target(own)\n")

    assert ["own"] == [task.name for task in cmake_tasks(place)]
    assert [why] == [why for _, why in place.problems]


COMPUTED = {
    "name of the project": ("add_custom_target(${PROJECT_NAME}-docs)", ["kit-docs"]),
    "variable": ("set(A x)\nset(B ${A}-y)\nadd_custom_target(run-${B})", ["run-x-y"]),
    "variable of a variable": ("set(N A)\nset(A x)\nadd_custom_target(${${N}})", ["x"]),
    "cached": ('set(A x CACHE STRING "b")\nadd_custom_target("${A}")', ["x"]),
    "loop": ("foreach(n a b)\nadd_custom_target(t-${n})\nendforeach()", ["t-a", "t-b"]),
    "loop over lists": (
        (
            "set(L a b)\nlist(APPEND L c)\nforeach(n IN LISTS L ITEMS d)\n"
            "add_custom_target(t-${n})\nendforeach()\nforeach(n ${L})\n"
            "foreach(m RANGE 1)\nadd_custom_target(${n}${m})\nendforeach()\nendforeach()"
        ),
        ["t-a", "t-b", "t-c", "t-d", "a0", "a1", "b0", "b1", "c0", "c1"],
    ),
    "function": (
        (
            "function(Add name)\nadd_custom_target(${name} COMMAND ${ARGN})\n"
            "set(L no)\nendfunction()\n"
            "set(L yes)\nadd(x true)\nADD(y true)\nadd_custom_target(${L})"
        ),
        ["x", "y", "yes"],
    ),
    "macro": (
        (
            "macro(add name)\nadd_custom_target(${name}-${ARGV1})\nset(L yes)\nendmacro()\n"
            "add(x true)\nadd_custom_target(${L})"
        ),
        ["x-true", "yes"],
    ),
    "letters": ("string(TOUPPER a A)\nadd_custom_target(x${A})", ["xA"]),
    "brackets": ("set(A x)\nadd_custom_target([[${A}]])\nadd_custom_target(y)", ["y"]),
    "several words": ("set(A x ALL)\nadd_custom_target(${A})", ["x"]),
    "of a folder": ("set(A x)\nadd_subdirectory(sub)\nadd_custom_target(${A}2)", ["x-sub", "x2"]),
}


def computed(root: Path, text: str) -> Folder:
    (root / "sub").mkdir(parents=True)
    text_of_sub = "add_custom_target(${A}-sub)\nset(A no)\n"
    (root / "sub/CMakeLists.txt").write_text(text_of_sub, encoding="utf-8")
    head = "cmake_minimum_required(VERSION 3.5)\nproject(kit NONE)\n"
    return folder(root, f"{head}{text}\n")


@pytest.mark.parametrize("case", COMPUTED)
def test_names_that_plain_text_makes_are_listed(tmp_path: Path, case: str) -> None:
    text, names = COMPUTED[case]
    place = computed(tmp_path / "source", text)

    assert names == [task.name for task in cmake_tasks(place)]
    assert [] == place.problems


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("make"), reason="needs CMake")
@pytest.mark.parametrize("case", [case for case in COMPUTED if case != "brackets"])
def test_cmake_itself_computes_the_same_names(tmp_path: Path, case: str) -> None:
    text, names = COMPUTED[case]
    computed(tmp_path / "source", text)
    for words in (
        ["-S", "source", "-B", "build", "-G", "Unix Makefiles"],
        ["--build", "build", *HELP],
    ):
        command = ["cmake", *words]
        ran = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    shown = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("... ")}

    assert set(names) == shown - OF_CMAKE


FACTS = """
set(A a)
set(B)
set(N 5)
set(V v)
set(v 1)
set(NUMBER 1.9.1)
set(L a b c)
set(E "")
set(NONE X-NOTFOUND)
add_custom_target(first)
function(own)
  set(OUT 1 PARENT_SCOPE)
  set(LOCAL 1)
endfunction()
set(LOCAL 0)
own()
macro(change)
  set(CHANGED 1)
endmacro()
change()
option(ON_BY_DEFAULT "x" ON)
option(OFF_BY_DEFAULT "x")
set(CACHED c CACHE STRING "d")
find_program(FOUND no_such_program_of_any_machine)
include(CTest)
set(BRANCHED 0)
if(NOT TARGET second AND FALSE)
elseif(A)
  if(B)
    set(BRANCHED 2)
  else()
    set(BRANCHED 1)
  endif()
else()
  set(BRANCHED 3)
endif()
set(DOUBTFUL 0)
if(NOT_SAID_ANYWHERE)
  set(DOUBTFUL 1)
  return()
endif()
set(REPLACED abc)
string(REGEX REPLACE "b" "" REPLACED "${REPLACED}")
list(LENGTH L LENGTH)
"""
HOLD = [
    *("TRUE", "1", "ON", '"ON"', "2", "-1", "y", "NOT TRUE OR A", "NOT B", "A", "V", "${V}"),
    *("L", 'A STREQUAL a AND "${A}" STREQUAL "a"', "A MATCHES ^a", "N EQUAL 5", "N LESS 6"),
    *("5 GREATER_EQUAL N", "NUMBER VERSION_LESS 1.10", '"1.2" VERSION_EQUAL "1.2.0"'),
    *('"a" IN_LIST L AND A', "TRUE OR FALSE", "B OR B OR A", "(A AND B) OR V", "NOT (A AND B)"),
    *("DEFINED A", "TARGET first", "COMMAND own", "PROJECT_NAME STREQUAL kit", "CHANGED"),
    *("CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR", "CMAKE_PROJECT_NAME STREQUAL kit"),
    *("EXISTS ${CMAKE_SOURCE_DIR}/sub", "ON_BY_DEFAULT", "BUILD_TESTING", 'CACHED STREQUAL "c"'),
    *("PROJECT_IS_TOP_LEVEL", "BRANCHED EQUAL 1", "A STRLESS b", 'E STREQUAL ""'),
]
FAIL = [
    *("FALSE", "0", "off", '"x"', '""', "NOT 1", "B", "NOT A", '"${A}"', 'A STREQUAL "b"'),
    *("A MATCHES ^b.*$", "N GREATER 6", '"1.2.3" VERSION_LESS 1.2', "A AND B"),
    *("TRUE OR TRUE AND FALSE", "NOT DEFINED A", "NOT TARGET first", "0.0", "X-NOTFOUND", "NONE"),
    *(
        "EXISTS ${CMAKE_SOURCE_DIR}/gone",
        "OFF_BY_DEFAULT",
        "LOCAL",
        "E",
        "Ignore",
        "N",
        '"z" IN_LIST L',
    ),
]
DOUBTFUL = [
    *("NOT_SAID_ANYWHERE", "DEFINED FOO", "FOUND", "OUT", "DOUBTFUL", "LENGTH EQUAL 3"),
    *("TARGET later", "POLICY CMP0054", "CMAKE_VERSION VERSION_LESS 3.0", "REPLACED STREQUAL ac"),
    *("CMAKE_BUILD_TYPE STREQUAL Debug", "A STREQUAL a AND FOO", "NOT DOUBTFUL"),
]


def branches(conditions: list[str]) -> str:
    """Return two targets for each condition, which chooses one of them."""
    parts = (
        f"if({condition})\nadd_custom_target(yes-{at})\nelse()\nadd_custom_target(no-{at})\nendif()"
        for at, condition in enumerate(conditions)
    )
    return "\n".join((FACTS, *parts))


def test_a_condition_that_plain_text_decides_is_followed(tmp_path: Path) -> None:
    conditions = [*HOLD, *FAIL, *DOUBTFUL]
    names = {task.name for task in cmake_tasks(computed(tmp_path / "p", branches(conditions)))}
    found = [(f"yes-{at}" in names, f"no-{at}" in names) for at in range(len(conditions))]

    expected = dict.fromkeys(HOLD, (True, False)) | dict.fromkeys(FAIL, (False, True))

    assert expected | dict.fromkeys(DOUBTFUL, (True, True)) == dict(
        zip(conditions, found, strict=True)
    )


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_the_system_is_the_one_that_cmake_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    names = ("UNIX", "WIN32", "APPLE")
    text = "\n".join(f"if({name})\nadd_custom_target({name})\nendif()" for name in names)
    expected = {"linux": ["UNIX"], "darwin": ["UNIX", "APPLE"], "win32": ["WIN32"]}[system]

    assert expected == [task.name for task in cmake_tasks(folder(tmp_path, text))]


def test_the_cache_of_the_build_decides(tmp_path: Path) -> None:
    text = "option(DOCS x OFF)\nset(T a CACHE STRING b)\nif(DOCS)\nadd_custom_target(${T})\nendif()"
    (tmp_path / "build").mkdir()
    cache = "# c\nDOCS:BOOL=ON\n//d\nT:STRING=e-f\nCMAKE_HOME_DIRECTORY:INTERNAL={}\n"
    found = []
    for home in (tmp_path, tmp_path / "other"):
        text_of_cache = cache.format(home)
        (tmp_path / "build/CMakeCache.txt").write_text(text_of_cache, encoding="utf-8")
        found.append([task.name for task in cmake_tasks(folder(tmp_path, text))])

    assert [["e-f"], []] == found


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("make"), reason="needs CMake")
@pytest.mark.parametrize("options", [[], ["-DOFF_BY_DEFAULT=ON", "-DCACHED=q", "-DFOO=1"]])
def test_cmake_itself_decides_the_same(tmp_path: Path, options: list[str]) -> None:
    root = tmp_path / "source"
    computed(root, branches([*HOLD, *FAIL, *DOUBTFUL]))
    for words in (
        ["-S", ".", "-B", "build", "-G", "Unix Makefiles", *options],
        ["--build", "build", *HELP],
    ):
        command = ["cmake", *words]
        ran = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    shown = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("... ")}
    own = {name for name in shown if name.startswith(("yes-", "no-"))}
    ours = {task.name for task in cmake_tasks(Folder(str(root), str(root)))} - {"first"}
    decided = {
        name
        for name in ours
        if not {f"yes-{name.split('-')[1]}", f"no-{name.split('-')[1]}"} <= ours
    }

    assert own <= ours
    assert len(decided) >= len([*HOLD, *FAIL])
    assert decided <= own


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "add_custom_target(${UNKNOWN})",
        "function(f)\nf()\nendfunction()\nf()",
        "set(A ${A}${A}${A})\n" * 50 + "add_custom_target(${A})",
        "foreach(a RANGE 99999)\nforeach(b RANGE 99999)\nset(c d)\nendforeach()\nendforeach()",
        "foreach(a b)\nadd_custom_target(",
    ],
)
def test_what_cannot_be_computed_soon_is_left_out(tmp_path: Path, text: str) -> None:
    assert [] == [task.name for task in cmake_tasks(folder(tmp_path, text))]
