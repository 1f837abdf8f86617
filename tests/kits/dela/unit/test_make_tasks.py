"""The targets of a Makefile, as GNU make defines them, without running any command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.formats.make import Makefile, RecipePrefix, Variables, make_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAKE = shutil.which("make")


def folder_of(path: Path) -> Folder:
    real = os.path.realpath(path)
    return Folder(real, real)


def listed(folder: Folder) -> list[tuple[str, str | None]]:
    """Return names and descriptions; fails if other fields vary."""
    tasks = list(make_tasks(folder))
    assert all(
        ("make", ("make", task.name), task.name, ())
        == (task.runner, task.argv, task.source_name, task.before_arguments)
        for task in tasks
    )
    return [(task.name, task.description) for task in tasks]


def written(tmp_path: Path, **files: str) -> Folder:
    """Write the files to a directory; "__" in a name is a dot."""
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8", newline="\n")
    return folder_of(tmp_path)


NAMES = {
    "all targets of a rule": ("a b  c: d\n", ["a", "b", "c"]),
    "no prerequisites, no recipe": ("a:\n", ["a"]),
    "file targets": ("out/x.bin: y\n/opt/x: y\n", ["out/x.bin", "/opt/x"]),
    "order-only prerequisites": ("a: b | c\n", ["a"]),
    "a recipe in the same line": ("a b: ; echo c: d\n", ["a", "b"]),
    "double colons": ("a:: b\na:: c\nd::e\n", ["a", "d"]),
    "grouped targets": ("a b&: c ; true\nd e &: f\n\ttrue\n", ["a", "b", "d", "e"]),
    "a static pattern": ("a.o b.o: %.o: %.c\n", ["a.o", "b.o"]),
    "a static pattern with a reference": ("a $(B:.c=.o): %.o: %.c\n", ["a"]),
    "patterns are none": ("%.o: %.c\nx%: z\ny:\n", ["y"]),
    "dots and underscores": (".PHONY: _a\n.a:\n_b:\n../c:\nd:\n", ["d"]),
    "phony targets without a rule": (
        "T = a b\n.PHONY: $(T) c | ./d e%\na:\nifdef NO\n.PHONY: f\nendif\n.PHONY .x:: g # h\n",
        ["a", "b", "c", "d", "g"],
    ),
    "what make takes off the front": ("./a .//b c/./d:\n", ["a", "b", "c/./d"]),
    "references": ("$(A) ${B} $C x$(D)y $$E f:\n$(call g,h: i)\n", ["xy", "f"]),
    "references within each other": ("$(foreach a,$(b) (c),$(d:e) ${f}) g: h\n", ["g"]),
    "an unfinished reference": ("$(a b: c\nd:\n", ["d"]),
    "wildcards": ("*.a b? [c] d: e\n", ["d"]),
    "members of an archive": ("lib.a(b.o c.o): d\n", []),
    "names that make would take for something else": ("-n --eval=x ~a q=r s: t\n", ["s"]),
    "names of other scripts": ("prüfen 测试:\n", ["prüfen", "测试"]),
    "names that would spoil a line": ("a\u202eb c\x1bd e:\n", ["e"]),
    "escapes": ("a\\ b c\\:d e\\#f g\\h:\n", ["a b", "c:d", "e#f", "g\\h"]),
    "an escaped backslash": ("a\\\\ b: c\n", ["b"]),
    "assignments": (
        "a = b: c\nd := e\nf ::= g\nh::=i\nj ?= k:\nl += m: n\no != p: q\nr=s:t\n$(u)_v = w: x\n",
        [],
    ),
    "assignments of a later make": ("a :::= b: c\nd:::=e\n", []),
    "assignments with words before them": (
        "export a = b: c\noverride d := e: f\nprivate override export g=h:\nunexport = i: j\n",
        [],
    ),
    "variables of a target": (
        "a: b = c\na: d := e: f\na: g += h\na: private i = j\na: export k ?= l\na:: m = n\n",
        [],
    ),
    "words of make": ("export a\nunexport b: c\nvpath %.c d:e\nundefine f\n", []),
    "objects to load": ("load a:b\n-load c:d\n", []),
    "variables with those names": ("ifdef = a\nelse := b\ndefine = c:\ninclude = d:\ne:\n", ["e"]),
    "targets with those names": (
        "export: a\ndefine: b\ninclude: c\nifdef: d\nelse: e\n",
        ["export", "define", "include", "ifdef", "else"],
    ),
    "definitions": ("define a\nb: c\n define d =\ne:\n endef # x\nf:\n\tendef\nendef\ni:\n", ["i"]),
    "definitions with words before them": (
        "override define a :=\nb:\nendef\nexport define c\nd:\nendef\ne:\n",
        ["e"],
    ),
    "both sides of a condition that only make knows": (
        "ifeq ($(shell a),b)\nc:\n\techo\nelse ifdef d\ne:\nelse\nf:\nendif\n",
        ["c", "f"],
    ),
    "indented conditions": ("  ifneq 'a' 'b'\n  c:\n  endif\n", ["c"]),
    "a condition within a recipe": ("a:\nifdef b\n\techo c: d\nelse\n\techo e: f\nendif\n", ["a"]),
    "recipes": ("a:\n\tb: c\n\n# d\n\te: f\n\tg = h\ni:\n", ["a", "i"]),
    "recipes of no target": (": a\n\tb: c\n$(d): e\n\tf: g\n", []),
    "lines that go on": ("a \\\n  b\\\n  c: \\\n d | e\n", ["a", "b", "c"]),
    "recipes that go on": ("a:\n\techo \\\nb: c\nd:\n", ["a", "d"]),
    "comments": ("# a: b\n  # c: d\ne: # f: g\n", ["e"]),
    "comments that go on": ("# a \\\nb: c\nd: # e \\\nf:\ng:\n", ["d", "g"]),
    "an even number of backslashes ends a line": ("# a \\\\\nb:\n", ["b"]),
    "another prefix": (".RECIPEPREFIX = >\na:\n>b: c\n.RECIPEPREFIX =\nd:\n\te: f\n", ["a", "d"]),
    "no prefix but a comment": (".RECIPEPREFIX = # a\nb:\n\tc: d\n", ["b"]),
    "a blank as the prefix": (".RECIPEPREFIX := $() $()\na:\n b: c\nd:\n", ["a", "d"]),
    "a prefix that only make knows": (".RECIPEPREFIX = $(a)\nb:\n\tc: d\n", ["b"]),
    "the first rule says where it stands": ("a:\nb:\na: c\n", ["a", "b"]),
    "ends of lines, and none at the end": ("\ufeffa: b\r\n\techo c: d\r\ne: f", ["a", "e"]),
    "a file that ends in a backslash": ("a: b\\", ["a"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "expected"), NAMES.values(), ids=NAMES.keys())
def test_targets_of_every_kind_of_line_are_listed_as_make_knows_them(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    folder = written(tmp_path, Makefile=text)

    assert expected == [name for name, _ in listed(folder)]
    assert not folder.problems


DESCRIPTIONS = {
    "help before all": ('# b\na: c ## d  e\n\t@echo "f"\n', "d e"),
    "help of a line that goes on": ("a: c \\\n  d ## e \\\n  f\n", "e f"),
    "help behind another comment": ("a: c # d ## e\n", "e"),
    "a comment before a message": ('# b\na: c\n\t@echo "d"\n', "b"),
    "a comment of help": ("## b\na:\n", "b"),
    "the last line of a comment": ("# b\n# c\na:\n", "c"),
    "a plain comment behind the target": ("a: b # c\n", None),
    "an empty line between": ("# b\n\na:\n", None),
    "another line between": ("# b\nc = d\na:\n", None),
    "a recipe between": ("c:\n# b\n\techo\na:\n", None),
    "a declaration between": ("# b\n.PHONY: a\na:\n", "b"),
    "a ruler": ("# -----\na:\n", None),
    "a heading of the help": ("##@ b\na:\n", None),
    "the line of an interpreter": ("#!/usr/bin/make -f\na:\n", None),
    "an empty comment": ("#\na: ##\n", None),
    "a message": ("a:\n\t@echo b  c\n", "b c"),
    "a message in quotes": ('a:\n\t@echo "b: \\"c\\" # d"\n', 'b: \\"c\\" # d'),
    "a message in single quotes": ("a:\n\t@echo 'b'\n", "b"),
    "two texts": ('a:\n\t@echo "b" c\n', 'b" c'),
    "an empty message": ('a:\n\t@echo ""\n', None),
    "no message": ("a:\n\t@echo\n", None),
    "a message and more": ('a:\n\t@echo "b"; c && \\\n\td\n', "b"),
    "a message to the other stream": ("a:\n\t@echo b >&2; exit 3\n", "b"),
    "a message that goes on": ('a:\n\t@echo "b \\\n\tc"\n', "b c"),
    "a message with a reference": ("a:\n\t@echo b $(c;d) $e\n", "b <…> <e>"),
    "options": ('a:\n\t@echo -n -e "b"\n', "b"),
    "an echo that is not the first word": ('a:\n\t-@echo "b"\n', "b"),
    "an echo that is echoed itself": ('a:\n\techo "b"\n', None),
    "another program": ("a:\n\t@echoes b\n", None),
    "a message in the second line": ("a:\n\ttrue\n\t@echo b\n", None),
    "lines without anything before the first": ("a:\n\t\n\t  \n\t@echo b\n", "b"),
    "in the line of the target": ('a: ; @echo "b"\n', "b"),
    "in the first line after an empty one": ("a: ;\n\t@echo b\n", "b"),
    "in a condition": ("a:\nifdef b\n\t@echo c\nelse\n\t@echo d\nendif\n", "d"),
    "after a variable of the target": ("a: b = c\na:\n\t@echo d\n", "d"),
    "of a later rule": ("a: b\na:\n\t@echo c\n", "c"),
    "of the first rule": ("a: ## b\na: ## c\n", "b"),
    "another prefix that goes on": (".RECIPEPREFIX = >\na:\n>@echo b \\\n>c\n", "b c"),
    "another prefix": (".RECIPEPREFIX = >\na:\n>@echo b\n", "b"),
}


@pytest.mark.parametrize(("text", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_target_is_described_by_help_then_a_comment_then_its_message(
    tmp_path: Path, text: str, expected: str | None
) -> None:
    assert expected == dict(listed(written(tmp_path, Makefile=text)))["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: ## Ship $(NAME) to ${HOST}", "Ship <NAME> to <HOST>"),
        ('a:\n\t@echo "Building $@ of $(notdir $(X)), $$HOME"', "Building a of <…>, <HOME>"),
        ("a: ## costs 5$, or $5", "costs 5$, or $5"),
    ],
)
def test_variable_in_a_description_is_shown_by_name(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "Makefile").write_text(text + "\n", encoding="utf-8")
    (task,) = make_tasks(Folder(str(tmp_path), str(tmp_path)))

    assert expected == task.description


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (("GNUmakefile", "makefile", "Makefile"), "GNUmakefile"),
        (("makefile", "Makefile"), "makefile"),
        (("Makefile", "MAKEFILE", "Makefile.am"), "Makefile"),
        (("MakeFile", "gnumakefile"), None),
    ],
)
def test_makefile_is_chosen_in_the_order_of_make(
    tmp_path: Path, there: Sequence[str], expected: str | None
) -> None:
    for name in there:
        (tmp_path / name).write_text(f"{name}:\n", encoding="utf-8")
    tasks = list(make_tasks(folder_of(tmp_path)))

    assert ([expected] if expected else []) == [task.name for task in tasks]
    assert all(os.path.realpath(tmp_path / task.name) == task.path for task in tasks)


def test_included_files_are_read_and_define_their_own_tasks(tmp_path: Path) -> None:
    """Paths are relative to where make runs; the Makefile's own names win and come first."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.mk").write_text(
        "include sub/two.mk # not two.mk\none: ## its own\nroot: ## from one\n", encoding="utf-8"
    )
    (tmp_path / "sub" / "two.mk").write_text("two:\none: ## from two\n", encoding="utf-8")
    (tmp_path / "a b.mk").write_text("three:\n", encoding="utf-8")
    folder = written(tmp_path, Makefile="include \\\n sub/one.mk a\\ b.mk\nroot:\n")
    tasks = list(make_tasks(folder))

    assert [
        ("root", "from one", "Makefile"),
        ("two", None, "sub/two.mk"),
        ("one", "from two", "sub/two.mk"),
        ("three", None, "a b.mk"),
    ] == [(task.name, task.description, os.path.relpath(task.path, folder.path)) for task in tasks]
    assert not folder.problems


def test_files_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "link.mk").symlink_to("Makefile")
    folder = written(tmp_path, Makefile="a:\ninclude b.mk\n-include link.mk\n")
    written(tmp_path, b__mk="include Makefile\nsinclude ./b.mk\nb:\n")

    assert [("a", None), ("b", None)] == listed(folder)
    assert not folder.problems


@pytest.mark.thorough
@pytest.mark.slow
def test_long_chain_of_includes_is_followed(tmp_path: Path) -> None:
    count = 1500
    for number in range(count):
        (tmp_path / f"{number}.mk").write_text(
            f"include {number + 1}.mk\nt{number}:\n", encoding="utf-8"
        )
    (tmp_path / f"{count}.mk").write_text("last:\n", encoding="utf-8")
    folder = written(tmp_path, Makefile="include 0.mk\n")

    assert count + 1 == len(listed(folder))
    assert not folder.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\ninclude no.mk\n", ["line 2: includes 'no.mk', which does not exist"]),
        ("a:\n-include no.mk\nsinclude no.mk\n", []),
        ("a:\ninclude $(shell no).mk *.none no?.mk [x].mk ~/no.mk\n", []),
        ("a:\ninclude $(no).mk\n", ["line 2: includes '.mk', which does not exist"]),
        ("a:\nifdef b\ninclude no.mk\nendif\n", []),
        ("a:\ninclude made.mk\nmade.mk: ; touch $@\n", []),
        ("a:\ninclude ./out/x.d\nout/%.d: %.c\n\ttouch $@\n", []),
        ("a:\ninclude .\n", ["line 2: includes '.', which does not exist"]),
        ("a:\n    echo b\n", ["line 2: is not a rule, assignment or recipe"]),
        ("\techo b\na:\nc\n", ["line 1: is not a rule, assignment or recipe"]),
        ("a:\nifdef b\n.if c\nendif\n", []),
        ("a:\n$(call b)\n", []),
        ("a:\ndefine b\nc:\n", ["line 2: has a 'define' without an 'endef'"]),
        ("a:\nifdef b\nc = d\n", ["has a condition without an 'endif'"]),
        ("a:\nendif\nb\n", ["line 3: is not a rule, assignment or recipe"]),
        ("a:\nb \\\n c\n", ["line 2: is not a rule, assignment or recipe"]),
        ("a:\nb = c\n\techo\n", ["line 3: is not a rule, assignment or recipe"]),
        ("a:\nb\nc\nifdef d\n", ["line 2: is not a rule, assignment or recipe"]),
    ],
)
def test_faults_of_a_makefile_are_reported_and_the_rest_is_listed(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    folder = written(tmp_path, Makefile=text)

    assert "a" in dict(listed(folder))
    assert [(str(Path(folder.path, "Makefile")), why) for why in expected] == folder.problems


def test_unreadable_include_does_not_hide_the_rest(tmp_path: Path) -> None:
    (tmp_path / "bad.mk").write_bytes(b"x:\n\xff:\n")
    folder = written(tmp_path, Makefile="a:\n-include bad.mk\ninclude good.mk\n")
    written(tmp_path, good__mk="b:\n<<<<<<< HEAD\n")

    assert [("a", None), ("b", None)] == listed(folder)
    assert [
        (str(Path(folder.path, "bad.mk")), "line 2 is not UTF-8"),
        (str(Path(folder.path, "good.mk")), "line 2: is not a rule, assignment or recipe"),
    ] == folder.problems


def test_include_outside_of_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.mk").write_text("secret:\n", encoding="utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.mk").symlink_to("../secret.mk")
    folder = written(inner, Makefile=f"a:\ninclude ../secret.mk {tmp_path}/secret.mk link.mk\n")

    assert [("a", None)] == listed(folder)
    assert [
        f"line 2: includes '{name}', which is outside the project"
        for name in ("../secret.mk", f"{tmp_path}/secret.mk", "link.mk")
    ] == [why for _, why in folder.problems]


def test_makefile_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_bytes(b"a:\n\xff")

    with pytest.raises(UnreadableError, match="line 2 is not UTF-8"):
        list(make_tasks(folder_of(tmp_path)))


def test_every_file_that_was_read_or_looked_for_is_remembered(tmp_path: Path) -> None:
    folder = written(tmp_path, Makefile="include one.mk\n-include two.mk\n", one__mk="a:\n")
    list(make_tasks(folder))

    assert {folder.place(name) for name in ("", "Makefile", "one.mk", "two.mk")} <= set(
        folder.stamps
    )


def test_listing_runs_nothing_of_a_makefile(tmp_path: Path) -> None:
    text = "A := $(shell touch ran)\n$(shell touch ran):\nB != touch ran\na: $(A)\n\ttouch ran\n"
    folder = written(tmp_path, Makefile=text)

    assert [("a", None)] == listed(folder)
    assert ["Makefile"] == [path.name for path in tmp_path.iterdir()]


@given(st.text(alphabet="ab:;=#$(){}\\\t\n &%.,>\x00é", max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    for statement in Makefile(text, RecipePrefix(), Variables(Folder("/", "/"), {})).statements():
        assert statement is not None


@pytest.mark.slow
@pytest.mark.skipif(MAKE is None, reason="the machine has no make")
@pytest.mark.parametrize("text", [text for text, _ in NAMES.values()], ids=NAMES.keys())
def test_make_itself_knows_each_target_that_is_listed(tmp_path: Path, text: str) -> None:
    """A rule before the text satisfies any other requirements of the targets.

    Texts that this version of make refuses, or whose conditions hide targets, prove nothing.
    """
    folder = written(tmp_path, Makefile=text)
    if make(tmp_path, "--question", "--eval=.ralphgen: ;", ".ralphgen").returncode:
        pytest.skip("refused by this make")
    names = [name for name, _ in listed(folder)]
    unknown = [name for name in names if not is_target(tmp_path, name)]

    assert (["c"] if "$(shell a)" in text else []) == unknown


VARIABLES = {
    "plain words": ("T := test-a test-b\n$(T):\n", ["test-a", "test-b"]),
    "braces and one letter": ("T = a b\nU = c\n${T} $U:\n", ["a", "b", "c"]),
    "expanded late": ("T = $(U)\nU = a b\n$(T):\n", ["a", "b"]),
    "expanded at once": ("T := $(U)\nU = a b\nc $(T):\n", ["c"]),
    "two colons": ("T ::= a b\n$(T):\n", ["a", "b"]),
    "added": ("T = a\nT += b\nU := c\nU += $(V)\nV = d\n$(T) $(U):\n", ["a", "b", "c"]),
    "added to none": ("T += a\nT += b\n$(T):\n", ["a", "b"]),
    "only if there is none": ("T = a\nT ?= b\nU ?= c\n$(T) $(U):\n", ["a", "c"]),
    "assigned again": ("T = a\n$(T):\nT = b\n$(T):\n", ["a", "b"]),
    "modifiers": ("export T = a\noverride U := b\n$(T) $(U):\n", ["a", "b"]),
    "lines that go on": ("T := a \\\n   b \\\n   c\n$(T):\n", ["a", "b", "c"]),
    "a comment": ("T := a b # c d\n$(T):\n", ["a", "b"]),
    "part of a word": (
        "P := test\nT = $(P)-a x-$(P)\n$(P)-b $(T):\n",
        ["test-b", "test-a", "x-test"],
    ),
    "a name that is computed": ("A = b\nT_b = c d\n$(T_$(A)):\n", ["c", "d"]),
    "another ending": ("S := a.c b.c\n$(S:.c=.o) $(S:%.c=x-%):\n", ["a.o", "b.o", "x-a", "x-b"]),
    "prefixes": (
        "D := a b\n$(addprefix t-,$(D)) $(addsuffix -t,$D):\n",
        ["t-a", "t-b", "a-t", "b-t"],
    ),
    "patterns": (
        "D := a.c b.h\n$(patsubst %.c,%.o,$(D)) $(filter %.h,$(D)) $(filter-out %.h,$(D)):\n",
        ["a.o", "b.h", "a.c"],
    ),
    "words": (
        "D := b a b\n$(firstword $(D))1 $(lastword $(D))2 $(sort $(D)) $(strip  c ):\n",
        ["b1", "b2", "a", "b", "c"],
    ),
    "for each": (
        "D := a b\n$(foreach d,$(D),run-$(d) stop-$(d)):\n",
        ["run-a", "stop-a", "run-b", "stop-b"],
    ),
    "paths": (
        "D := x/a.c y/b.c\n$(notdir $(D)) $(basename $(D)) $(subst /,-,$(D)):\n",
        ["a.c", "b.c", "x/a", "y/b", "x-a.c", "y-b.c"],
    ),
    "files": (
        "$(wildcard more/*.mk) $(patsubst more/%.mk,%,$(wildcard more/*.mk)):\n",
        ["more/one.mk", "more/two.mk", "one", "two"],
    ),
    "a static pattern": ("T = a b\n$(T): %: %.c\na.c b.c:\n", ["a", "b", "a.c", "b.c"]),
    "a rule in a variable": ("R = a b: c\n$(R)\nc:\n", ["a", "b", "c"]),
    "an included file": ("F = more/one.mk\ninclude $(F)\n$(T):\n", ["from-one", "one-a", "one-b"]),
    "included files": ("include more/*.mk\n", ["from-one", "from-two"]),
    "files that are looked for": ("-include $(wildcard more/t*.mk) $(NO)\n", ["from-two"]),
    "a file beside this one": (
        "HERE := $(dir $(lastword $(MAKEFILE_LIST)))\ninclude $(HERE)more/two.mk\n",
        ["from-two"],
    ),
    "an absolute path": (
        "include $(CURDIR)/more/two.mk $(abspath more/one.mk)\n",
        ["from-two", "from-one"],
    ),
    "undefined": ("a$(NO_SUCH)b $(NO_SUCH):\n", ["ab"]),
    "a condition": ("ifeq ($(X),y)\na:\nelse\nb:\nendif\nc:\n", ["b", "c"]),
    "conditions behind else": (
        "X = y\nifeq ($(X),a)\na:\nelse ifeq '$(X)' \"y\"\nb:\nelse ifdef X\nc:\nelse\nd:\nendif\n",
        ["b"],
    ),
    "conditions within each other": (
        "X=\nifdef X\nifdef Y\na:\nelse\nb:\nendif\nelse\nifndef Y\nc:\nelse\nd:\nendif\nendif\n",
        ["c"],
    ),
    "an assignment under a condition": (
        "X = y\nifneq (,$(findstring y,y))\nendif\nifdef X\nT = a\nelse\nT = b\nendif\n$(T):\n",
        ["a"],
    ),
    "an include under a condition": ("ifdef NO\ninclude more/one.mk\nendif\na:\n", ["a"]),
    "a recipe under a condition": (
        "a:\nifdef NO\n\techo x: y\nelse\n\techo\nendif\n\techo z: w\nb:\n",
        ["a", "b"],
    ),
    "text that is not read": ("ifdef NO\n<<<<\ndefine x\nb:\nendef\nendif\na:\n", ["a"]),
    "a definition": ("define T\na b\nendef\n$(T):\nundefine T\nx$(T):\n", ["a", "b", "x"]),
    "a variable with arguments": (
        "f = $(foreach x,$(1),$(x)-$(2))\n$(call f,a b,c) $(call addprefix,d-,e):\n",
        ["a-c", "b-c", "d-e"],
    ),
    "a choice": (
        "X = y\n$(if $(X),a,b) $(if $(NO),c,d) $(or $(NO),e) $(and $(X),f) $(if $(NO),g):\n",
        ["a", "d", "e", "f"],
    ),
    "some words": (
        "T = a b c d\n$(word 2,$(T))1 $(wordlist 3,4,$(T)) $(words $(T)) $(join x y,1 2):\n",
        ["b1", "c", "d", "4", "x1", "y2"],
    ),
    "an unexpanded value": ("T = a b\n$(value T) $(findstring c,bcd):\n", ["a", "b", "c"]),
    "a message of make": ("$(info hello)\na$(warning no):\n", ["a"]),
    "a rule that is made": (
        (
            "define R\nrun-$(1): ## Run $(1)\n\techo b: c\nall: run-$(1)\nendef\n"
            "$(foreach m,x y,$(eval $(call R,$(m))))\n"
        ),
        ["run-x", "run-y", "all"],
    ),
    "a variable and an include that are made": (
        "$(eval T := a b)\n$(eval include more/two.mk)\n$(T):\n",
        ["a", "b", "from-two"],
    ),
    "a variable of one target": ("a: T = x\na b:\n$(T)c:\n", ["a", "b", "c"]),
}
MORE = {"more/one.mk": "T = one-a one-b\nfrom-one:\n", "more/two.mk": "from-two:\n"}


def with_more(tmp_path: Path, text: str) -> Folder:
    (tmp_path / "more").mkdir()
    for name, more in MORE.items():
        (tmp_path / name).write_text(more, encoding="utf-8")
    return written(tmp_path, Makefile=text)


@pytest.mark.parametrize(("text", "expected"), VARIABLES.values(), ids=VARIABLES.keys())
def test_targets_that_variables_name_are_listed(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    folder = with_more(tmp_path, text)

    assert sorted(expected) == sorted(name for name, _ in listed(folder))
    assert not folder.problems


@pytest.mark.slow
@pytest.mark.skipif(MAKE is None, reason="the machine has no make")
@pytest.mark.parametrize("text", [text for text, _ in VARIABLES.values()], ids=VARIABLES.keys())
def test_make_itself_has_exactly_the_listed_targets(tmp_path: Path, text: str) -> None:
    folder = with_more(tmp_path, text)
    database = make(tmp_path, "-pRrq", ":").stdout.partition("\n# Files\n")[2]
    files = re.split(r"\n\n", database)
    targets = {
        found[1]
        for entry in files
        if (found := re.search(r"^([^#.\s%:][^:=%]*):", entry, re.MULTILINE))
    } - {":", "Makefile", *MORE, *(str(tmp_path / name) for name in MORE)}
    names = {name for name, _ in listed(folder)}

    assert targets | (names & set(MORE)) == names


@pytest.mark.parametrize(
    "text",
    [
        "T := $(shell echo b)\na $(T):\n",
        "T != echo b\na $(T):\n",
        "define T\nb\nc\nendef\na $(T):\n",
        "a $(if $(shell echo x),b):\n",
        "a x$(CC)y $(MAKE) $@:\n",
        "define R\n$(eval $(R))\nb:\nendef\n$(R)\na:\n",
        "T = $(T)\na $(T):\n",
        "A = $(B)$(B)\nB = $(C)$(C)\nC = $(D)$(D)\nD = " + "x" * 60_000 + "\na $(A):\n",
    ],
)
def test_target_that_only_make_can_name_is_left_out(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path, Makefile=text)

    assert [("a", None)] == listed(folder)
    assert not folder.problems


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ifdef SWITCH\nT = a\nelse\nT = b\nendif\n$(T):\n", ["a", "b"]),
        ("T = a\nifdef SWITCH\nT += b\nendif\n$(T) x$(T):\n", ["a", "b"]),
        ("T = a\nifdef SWITCH\nT = b\nendif\nifeq ($(T),a)\nc:\nelse\nd:\nendif\n", ["c", "d"]),
        ("ifdef SWITCH\na:\nelse ifdef NO\nb:\nelse\nc:\nendif\n", ["a", "c"]),
    ],
)
def test_both_sides_of_an_unknown_condition_are_listed(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    folder = written(tmp_path, Makefile=f"SWITCH := $(shell true)\n{text}")

    assert names == [name for name, _ in listed(folder)]


def test_environment_variables_count_as_in_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGE", "dev")
    folder = written(tmp_path, Makefile="STAGE ?= prod\ndeploy-$(STAGE):\nSTAGE = own\n$(STAGE):\n")

    assert [("deploy-dev", None), ("own", None)] == listed(folder)


def test_makefiles_of_the_environment_are_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFILES", "one.mk no.mk two.mk")
    folder = written(tmp_path, one__mk="NAME = x\none:\n", two__mk="two:\n", Makefile="$(NAME):\n")

    assert ["x", "one", "two"] == [name for name, _ in listed(folder)]
    (tmp_path / "Makefile").unlink()
    assert ["one", "two"] == [name for name, _ in listed(folder_of(tmp_path))]
    assert not folder.problems


def test_include_patterns_stay_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "secret.mk").write_text("secret:\n", encoding="utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link").symlink_to("..")
    folder = written(inner, Makefile="a:\n-include ../*.mk link/*.mk $(wildcard ../*.mk)\n")

    assert [("a", None)] == listed(folder)


COMPARED = {
    "phony": ".PHONY: x y $(T) ./z | w\nT = late\ny:\nifdef NO\n.PHONY: v\nendif\n",
    "level": "ifeq ($(MAKELEVEL),0)\na: ;\nelse\nb: ;\nendif\n",
    "macros": """
define R
ifeq ($(1),a)
$(1)-only: ;
endif
$(1)-x $(1)-y: $(1)-z ;
endef
$(foreach n,a b,$(eval $(call R,$(n))))
""",
    "variables of targets": "a: X := 1\nb: private Y = 2\na: ;\nd: override W += 4\nd: ;\n",
    "texts": "S = src/a.c src/b.c\n$(S:.c=.o) $(S:src/%.c=%): ;\n$(basename $(notdir $(S)))-z: ;\n",
    "values at their time": "A = $(B)\nB = b\n$(A): ;\nB = c\n$(A) $(or ,d) $(and 1,e): ;\n",
}


@pytest.mark.slow
@pytest.mark.skipif(MAKE is None, reason="the machine has no make")
@pytest.mark.parametrize("case", COMPARED)
def test_list_equals_the_database_of_make(case: str, tmp_path: Path) -> None:
    folder = written(tmp_path, Makefile=COMPARED[case])
    lines = make(tmp_path, "-pqR").stdout.partition("\n# Files\n")[2].split("\n")
    pairs = zip(["", *lines], lines, strict=False)
    rules = [line for before, line in pairs if ":" in line and before != "# Not a target:"]
    rules = [rule for rule in rules if rule[0].isalpha() and "=" not in rule]
    targets = {rule.partition(":")[0] for rule in rules} - {"Makefile"}

    assert targets == {name for name, _ in listed(folder)}


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Return make's output, without variables of a make around the tests."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    return subprocess.run(
        [str(MAKE), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def is_target(folder: Path, name: str) -> bool:
    """Return whether make has a rule for the name, regardless of its prerequisites."""
    answer = make(folder, "-n", name).stderr
    return f"No rule to make target '{name}'.  Stop." not in answer
