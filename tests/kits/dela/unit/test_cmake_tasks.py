"""The listed custom targets of a CMakeLists.txt."""

import shutil
import subprocess
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
OF_CMAKE = {"all", "clean", "depend", "edit_cache", "rebuild_cache"}


def folder(root: Path, text: str, **others: str) -> Folder:
    """Write a CMakeLists.txt and other files, by path; return their directory."""
    for name, content in {"CMakeLists.txt": text, **others}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    return Folder(str(root), str(root))


def known_to_cmake(root: Path) -> set[str]:
    """Return the targets that CMake itself has for a project."""
    for words in (["-S", ".", "-B", "build", "-G", "Unix Makefiles"], ["--build", "build"]):
        command = ["cmake", *words, *(["--target", "help"] if words[0] == "--build" else [])]
        ran = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    shown = {line.split()[1] for line in ran.stdout.splitlines() if line.startswith("... ")}
    return shown - OF_CMAKE


def test_targets_and_their_comments_are_read_as_cmake_reads_them(tmp_path: Path) -> None:
    tasks = list(cmake_tasks(folder(tmp_path, AWKWARD)))

    assert [
        ("after_brackets", None),
        ("upper", 'Say "hello" and go'),
        ("quoted", "from ] brackets"),
        ("plain", None),
        ("computed", "its name is in a variable"),
        ("docs-1.0", "word"),
    ] == [(task.name, task.description) for task in tasks]


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
def test_unusual_calls_are_read_as_cmake_reads_them(
    tmp_path: Path, text: str, expected: list[tuple[str, str | None]]
) -> None:
    found = [(task.name, task.description) for task in cmake_tasks(folder(tmp_path, text))]

    assert expected == found


def test_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_bytes(b"# \xe9t\xe9\n")

    with pytest.raises(UnreadableError, match="line 1 is not UTF-8"):
        list(cmake_tasks(Folder(str(tmp_path), str(tmp_path))))


def test_directory_without_the_file_has_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "cmakelists.txt").write_text("add_custom_target(a)", encoding="utf-8")

    assert [] == list(cmake_tasks(Folder(str(tmp_path), str(tmp_path))))


SEVERAL = {
    "text": """
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


def test_targets_of_included_files_and_added_directories_are_listed(tmp_path: Path) -> None:
    place = folder(tmp_path, **SEVERAL)
    tasks = list(cmake_tasks(place))

    assert [] == place.problems
    assert {name: str((tmp_path / file).resolve()) for name, file in OWNERS.items()} == {
        task.name: task.path for task in tasks
    }
    assert "tools" == next(task.description for task in tasks if task.name == "tool")


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
def test_unusable_named_file_is_reported(tmp_path: Path, command: str, why: str) -> None:
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
    "end of a file": ("include(cmake/end.cmake)\nadd_custom_target(a)", ["x", "a"]),
}
FILES = {
    "sub/CMakeLists.txt": "add_custom_target(${A}-sub)\nset(A no)\n",
    "cmake/end.cmake": "add_custom_target(x)\nreturn()\nadd_custom_target(y)\n",
}
HEAD = "cmake_minimum_required(VERSION 3.5)\nproject(kit NONE)\n"


@pytest.mark.parametrize("case", COMPUTED)
def test_names_from_variables_and_loops_are_listed(tmp_path: Path, case: str) -> None:
    text, names = COMPUTED[case]
    place = folder(tmp_path, HEAD + text, **FILES)

    assert names == [task.name for task in cmake_tasks(place)]
    assert [] == place.problems


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("make"), reason="needs CMake")
@pytest.mark.parametrize("case", ["awkward", "several", *sorted(set(COMPUTED) - {"brackets"})])
def test_cmake_itself_has_the_same_targets(tmp_path: Path, case: str) -> None:
    if case == "several":  # without an endless include, and the targets of CTest
        again = {"cmake/again.cmake": "add_custom_target(again)"}
        own = {"text": SEVERAL["text"].replace("include(CTest)", "")}
        place = folder(tmp_path, **SEVERAL | again | own)
    else:
        text = AWKWARD if case == "awkward" else HEAD + COMPUTED[case][0]
        place = folder(tmp_path, text, **FILES)

    assert known_to_cmake(tmp_path) == {task.name for task in cmake_tasks(place)}


def test_every_branch_of_a_condition_counts(tmp_path: Path) -> None:
    text = """
if(WIN32 AND ("a" STREQUAL ${B}))
  return()
elseif(FALSE)
  add_custom_target(one)
  while(X)
    add_custom_target(two)
  endwhile()
else()
  set(NAME three)
endif()
add_custom_target(${NAME})
return()
add_custom_target(four)
"""

    assert ["one", "two", "three"] == [task.name for task in cmake_tasks(folder(tmp_path, text))]


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
def test_expensive_names_are_left_out(tmp_path: Path, text: str) -> None:
    assert [] == [task.name for task in cmake_tasks(folder(tmp_path, text))]
