"""Stored paths are relative, in one form, and stay inside the project."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.runtime.tasks import LONGEST_PATH, is_noise, normalise, path_problem

PATHS = st.lists(
    st.sampled_from(["a", "..", ".", "", "a..b", "~", "C:", "x y"]) | st.text(max_size=5),
    max_size=5,
).map("/".join)


@pytest.mark.parametrize(
    "path",
    [
        "src/a.ts",
        "a..b.ts",
        "..a/b..",
        "src/[id]/page.tsx",
        "docs/größe.md",
        "a b/c",
        "docs/",
        "./src//a.ts",
        "notes/~draft.md",
        "ab:c",
        "...",
        "a" * LONGEST_PATH,
    ],
)
def test_an_ordinary_path_may_be_stored(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "a path must not be blank"),
        (" \t", "a path must not be blank"),
        ("a" * 1001, "a path of 1001 characters is too long: 1000 is the most"),
        ("/etc/x", 'the path "/etc/x" is absolute: give it relative to the project'),
        ("//h/x", 'the path "//h/x" is absolute: give it relative to the project'),
        ("a\\b", r'the path "a\\b" holds "\": write "/" between its parts'),
        ("\\\\h\\x", r'the path "\\\\h\\x" holds "\": write "/" between its parts'),
        ("C:/x", 'the path "C:/x" begins with a drive: give it relative to the project'),
        ("c:x", 'the path "c:x" begins with a drive: give it relative to the project'),
        ("c:\\x", r'the path "c:\\x" begins with a drive: give it relative to the project'),
        ("~/x", 'the path "~/x" begins with "~": give it relative to the project'),
        ("~u/x", 'the path "~u/x" begins with "~": give it relative to the project'),
        ("./~/x", 'the path "./~/x" begins with "~": give it relative to the project'),
        (".//C:/x", 'the path ".//C:/x" begins with a drive: give it relative to the project'),
        ("..", 'the path ".." has ".." as a part: it must stay inside the project'),
        ("a/../b", 'the path "a/../b" has ".." as a part: it must stay inside the project'),
        ("a/..", 'the path "a/.." has ".." as a part: it must stay inside the project'),
        ("./.", 'the path "./." is the project itself: name a file in it'),
        (" a", 'the path " a" begins or ends with a space'),
        ("a\0b", r'the path "a\u0000b" holds a control character'),
        ("a\nb", r'the path "a\nb" holds a control character'),
        ("é\x9b", r'the path "\u00e9\u009b" holds a control character'),
        ("a\ud800", r'the path "a\ud800" holds a control character'),
        ("https://x/y", 'the path "https://x/y" is a URL: give the path of a file in the project'),
    ],
)
def test_a_refusal_names_the_path_and_its_problem(path: str, problem: str) -> None:
    assert problem == path_problem(path)


@pytest.mark.parametrize(
    "path", ["src/a.ts", "./src/a.ts", "src//a.ts", "src/./a.ts/", "././src/a.ts"]
)
def test_a_path_has_one_form(path: str) -> None:
    assert "src/a.ts" == normalise(path)


@given(PATHS)
def test_a_stored_path_is_in_the_project_in_both_forms(path: str) -> None:
    if path_problem(path) is None:
        form = normalise(path)

        assert path_problem(form) is None
        assert form == normalise(form) == posixpath.normpath(path)
        assert posixpath.normpath(posixpath.join("/p", path)).startswith("/p/")


@given(PATHS)
def test_every_path_that_leaves_the_project_is_refused(path: str) -> None:
    leaves = not posixpath.normpath(posixpath.join("/p/q", path)).startswith("/p/q")

    assert not leaves or path_problem(path) is not None


@pytest.mark.parametrize(
    "path",
    [
        "package-lock.json",
        "web/yarn.lock",
        "Cargo.lock",
        "uv.lock",
        "pnpm-lock.yaml",
        "go.sum",
        "node_modules/x/index.js",
        "a/node_modules",
        "dist/app.js",
        "packages/ui/build/x.css",
        "target/debug/x",
        "web/.next/a.js",
        "src/__pycache__/a.py",
        "static/app.min.js",
        "static/app.js.map",
    ],
)
def test_lock_files_and_build_output_are_noise(path: str) -> None:
    assert is_noise(path)


@pytest.mark.parametrize(
    "path",
    ["src/a.ts", "src/distance.py", "package.json", "docs/build.md", "lock.py", "src/outbox/a.go"],
)
def test_ordinary_text_is_not_noise(path: str) -> None:
    assert not is_noise(path)
