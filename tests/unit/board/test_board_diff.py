"""Diffs of the board, made by git in real repositories, and the HTML of their macro."""

import os
import re
from pathlib import Path
from threading import Event, Thread

import pytest
from proved_projects import git, write_files

from ralphgen.board.diff import (
    FILES,
    LARGEST_NEW,
    LINES,
    NAMES,
    ChangedFile,
    FileChanges,
    branch_diff,
    merge_diff,
    merged_files,
    tree_diff,
)
from ralphgen.board.render import environment

pytestmark = pytest.mark.slow

HOSTILE = (
    '<script>alert("1")</script>\n.py',
    "a\u202eyp.b",
    "it's \\n & \t.txt",
    "-x b/ä b",
    "é" * 30,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit of a few files."""
    root = tmp_path / "p"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    files = [("a.txt", "one\n"), ("tests/test_a.py", "assert 1\n"), ("b.txt", "1\n2\n3\n4\n5\n")]
    write_files(root, files)
    commit(root, "begin")
    return root


def commit(root: Path, message: str = "work") -> str:
    git(root, "add", "--all")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


def merged(root: Path) -> str:
    """Commit the changes on a branch, and return the commit that merges it into main."""
    git(root, "switch", "-q", "-c", "work")
    commit(root)
    git(root, "switch", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "work")
    return git(root, "rev-parse", "HEAD").strip()


def by_path(view: FileChanges) -> dict[str, ChangedFile]:
    assert not view.problem
    return {one.path: one for one in view.files}


def printed(view: FileChanges) -> str:
    text = environment().from_string("{{ diff.files(view) }}").render(view=view)
    text.encode("utf-8")
    return text


class TestKinds:
    """Lines, numbers and notes of a file."""

    def test_lines_of_a_merge_have_their_kinds(self, root: Path) -> None:
        (root / "a.txt").write_text("two\n--- a/x\n+++ b/x", encoding="utf-8")

        view = merge_diff(root, merged(root))

        assert (
            ("h", "@@ -1 +1,3 @@"),
            ("d", "-one"),
            ("a", "+two"),
            ("a", "+--- a/x"),
            ("a", "++++ b/x"),
            ("h", "\\ No newline at end of file"),
        ) == view.files[0].lines
        assert (3, 1, "") == (view.files[0].added, view.files[0].removed, view.files[0].note)

    def test_new_deleted_renamed_and_converted_files_have_notes(self, root: Path) -> None:
        (root / "a.txt").unlink()
        git(root, "mv", "b.txt", "c d.txt")
        (root / "c d.txt").write_text("1\n2\n3\n4\n6\n", encoding="utf-8")
        (root / "run").write_text("x\n", encoding="utf-8")
        (root / "run").chmod(0o755)
        (root / "tests/test_a.py").chmod(0o755)
        (root / "empty").touch()
        (root / "link").symlink_to("run")
        (root / "data").write_bytes(b"\0\1")

        view = by_path(merge_diff(root, merged(root)))

        assert {
            "a.txt": ("deleted", 0, 1),
            "c d.txt": ("renamed from b.txt", 1, 1),
            "data": ("new, binary", None, None),
            "empty": ("new", 0, 0),
            "link": ("new, symbolic link", 1, 0),
            "run": ("new, executable", 1, 0),
            "tests/test_a.py": ("mode 100644 to 100755", 0, 0),
        } == {path: (one.note, one.added, one.removed) for path, one in view.items()}

    def test_a_file_that_becomes_a_link_has_both_contents(self, root: Path) -> None:
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to("b.txt")

        view = merge_diff(root, merged(root))

        (one,) = view.files
        assert ("a.txt", "mode 100644 to 120000") == (one.path, one.note)
        assert [("d", "-one"), ("a", "+b.txt")] == [one for one in one.lines if one[0] != "h"]

    @pytest.mark.parametrize(
        ("path", "is_test"),
        [
            ("tests/data.json", True),
            ("pkg/tests/x.py", True),
            ("pkg/test_x.py", True),
            ("pkg/x_test.go", True),
            ("web/x.spec.ts", True),
            ("web/x.test.ts", True),
            ("web/__tests__/x.js", True),
            ("latest/x.py", False),
            ("pkg/test_data.json", False),
            ("contest.py", False),
            ("x_tester.py", False),
        ],
    )
    def test_tests_are_known_by_their_path(self, root: Path, path: str, is_test: bool) -> None:
        write_files(root, [(path, "x")])

        assert is_test is by_path(merge_diff(root, merged(root)))[path].test

    def test_a_test_that_is_moved_away_counts_as_a_test(self, root: Path) -> None:
        git(root, "mv", "tests/test_a.py", "old.py")

        assert by_path(merge_diff(root, merged(root)))["old.py"].test


class TestHostile:
    """Names, contents and settings that an agent can choose."""

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_name_is_shown_on_one_line(self, root: Path, name: str) -> None:
        (root / name.replace("/", "_")).write_text("x\n", encoding="utf-8")

        (one,) = merge_diff(root, merged(root)).files

        assert one.path.isprintable()
        assert (("h", "@@ -0,0 +1 @@"), ("a", "+x")) == one.lines
        assert "<script" not in printed(FileChanges("", files=(one,)))

    def test_a_name_that_is_not_utf8_is_shown(self, root: Path) -> None:
        Path(os.fsdecode(os.fsencode(root) + b"/\xff\n.py")).write_text("x\n", encoding="utf-8")

        view = merge_diff(root, merged(root))

        assert "\\udcff\\n.py" == view.files[0].path
        assert "\\udcff" in printed(view)

    def test_a_hostile_name_is_renamed(self, root: Path) -> None:
        git(root, "mv", "b.txt", 'x "y"\n.txt')

        (one,) = merge_diff(root, merged(root)).files

        assert ('x "y"\\n.txt', "renamed from b.txt") == (one.path, one.note)

    def test_contents_cannot_begin_a_file(self, root: Path) -> None:
        text = "x\rdiff --git a/z b/z\u2028diff --git a/y b/y\n\ndiff --git a/x b/x\n@@ -1 +1 @@\n"
        (root / "a.txt").write_text(text, encoding="utf-8", newline="")

        (one,) = merge_diff(root, merged(root)).files

        assert [
            "+x\\rdiff --git a/z b/z\\u2028diff --git a/y b/y",
            "+",
            "+diff --git a/x b/x",
            "+@@ -1 +1 @@",
        ] == [text for kind, text in one.lines if kind == "a"]

    def test_invisible_characters_are_escaped_and_markup_is_text(self, root: Path) -> None:
        """Text in another direction could hide code from a reviewer."""
        text = "\tif ok:\u202e\x1b[31m </code><script>\n"
        (root / "a.txt").write_bytes(text.encode() + b"\xff\n")

        view = merge_diff(root, merged(root))

        added = [text for kind, text in view.files[0].lines if kind == "a"]
        assert ["+\tif ok:\\u202e\\x1b[31m </code><script>", "+\\udcff"] == added
        assert "<script>" not in printed(view)
        assert "&lt;script&gt;" in printed(view)

    def test_no_attribute_of_the_tree_hides_a_change(self, root: Path) -> None:
        (root / ".gitattributes").write_text("*.txt binary\n", encoding="utf-8")
        (root / "a.txt").write_text("two\n", encoding="utf-8")

        in_tree = by_path(tree_diff(root, None, None))
        in_merge = by_path(merge_diff(root, merged(root)))

        assert (("h", "@@ -1 +1 @@"), ("d", "-one"), ("a", "+two")) == in_tree["a.txt"].lines
        assert in_tree["a.txt"] == in_merge["a.txt"]

    @pytest.mark.parametrize("kind", ["textconv", "command"])
    def test_no_driver_of_the_repository_is_started(
        self, root: Path, tmp_path: Path, kind: str
    ) -> None:
        (root / ".gitattributes").write_text("*.txt diff=x\n", encoding="utf-8")
        git(root, "config", f"diff.x.{kind}", f"touch {tmp_path}/started; cat")
        git(root, "config", "diff.external", f"touch {tmp_path}/started")
        (root / "a.txt").write_text("two\n", encoding="utf-8")

        found = by_path(tree_diff(root, None, None))
        found |= by_path(merge_diff(root, merged(root)))

        assert not (tmp_path / "started").exists()
        assert ("a", "+two") in found["a.txt"].lines

    def test_settings_of_the_user_do_not_change_the_form(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "a.txt").write_text("two\n", encoding="utf-8")
        git(root, "mv", "b.txt", "ä c.txt")
        merge = merged(root)
        plain = merge_diff(root, merge)
        (tmp_path / ".gitconfig").write_text(
            "[diff]\nnoprefix = true\nmnemonicPrefix = true\nexternal = false\nrenames = copies\n"
            "wordRegex = .\nsuppressBlankEmpty = true\nrelative = true\n"
            "[color]\nui = always\n[core]\nquotePath = false\npager = false\n",
            encoding="utf-8",
        )
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("XDG_CONFIG_HOME")

        assert plain == merge_diff(root, merge)
        assert ["a.txt", "ä c.txt"] == [one.path for one in plain.files]

    @pytest.mark.parametrize("text", ["", "HEAD", "--output=x", "0" * 39, "0" * 40, "a" * 40, "\0"])
    def test_another_text_than_a_commit_is_a_problem(self, root: Path, text: str) -> None:
        assert merge_diff(root, text).problem
        assert branch_diff(root, text).problem
        assert "No changes can be shown" in printed(merge_diff(root, text))
        assert not (root / "x").exists()


class TestSizes:
    """The files of many merges at once, for the inbox."""

    def test_names_cannot_hide_an_edited_file(self, root: Path) -> None:
        first = merged(root)
        for name in ("0\x01", f"1\n:{first}", "2\t2\t2"):
            (root / name).write_text("x\n", encoding="utf-8")
        (root / "b.txt").write_text("2\n3\n4\n5\n6\n7\n", encoding="utf-8")
        (root / "data").write_bytes(b"\0")
        git(root, "branch", "-d", "work")
        last = merged(root)

        found = merged_files(root, (first, last, "a" * 40))

        assert {first: [], last: [None, 1, 1, 1, 2]} == {
            commit: [one.added for one in sorted(files, key=lambda one: one.added or 0)]
            for commit, files in found.items()
        }
        assert ["b.txt"] == [one.path for one in found[last] if one.status != "A"]
        assert {} == merged_files(root, ())


class TestTrees:
    """Worktrees and branches."""

    def test_a_branch_has_its_own_changes_alone(self, root: Path) -> None:
        git(root, "switch", "-q", "-c", "ralph/task-7-1")
        (root / "a.txt").write_text("two\n", encoding="utf-8")
        commit(root)
        git(root, "switch", "-q", "main")
        (root / "b.txt").write_text("later\n", encoding="utf-8")
        commit(root)

        view = branch_diff(root, "ralph/task-7-1")

        assert ["a.txt"] == [one.path for one in view.files]
        assert git(root, "rev-parse", "HEAD^").startswith(view.base)

    def test_a_branch_of_another_history_is_a_problem(self, root: Path) -> None:
        git(root, "switch", "-q", "--orphan", "other")
        commit(root)
        git(root, "switch", "-q", "main")

        assert branch_diff(root, "other").problem

    def test_a_worktree_has_changes_and_new_files_but_no_ignored_ones(
        self, root: Path, tmp_path: Path
    ) -> None:
        git(root, "worktree", "add", "-q", str(tmp_path / "w"))
        base = git(root, "rev-parse", "HEAD").strip()
        write_files(tmp_path / "w", [("a.txt", "three\n"), ("new.py", "x\n\ny"), ("secret", "")])
        commit(tmp_path / "w")
        write_files(tmp_path / "w", [("b.txt", "later\n"), ("test_new.py", "x\n")])
        (tmp_path / "w/to").symlink_to("/etc/passwd")
        (root / ".git/info/exclude").write_text("hidden\n", encoding="utf-8")
        (tmp_path / "w/hidden").touch()
        (tmp_path / "w/data").write_bytes(b"\0")

        view = by_path(tree_diff(root, str(tmp_path / "w"), base))

        assert {
            "a.txt": ("", 1, 1),
            "b.txt": ("", 1, 5),
            "data": ("new, binary", None, None),
            "new.py": ("new", 3, 0),
            "secret": ("new", 0, 0),
            "test_new.py": ("new", 1, 0),
            "to": ("new, not a readable file", None, None),
        } == {path: (one.note, one.added, one.removed) for path, one in view.items()}
        assert view["test_new.py"].test

    def test_a_folder_of_another_repository_is_not_read(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        git(tmp_path / "other", "init", "-q")

        assert "worktree" in tree_diff(root, str(tmp_path / "other"), None).problem
        assert "worktree" in tree_diff(root, str(tmp_path / "gone"), None).problem

    def test_a_folder_without_a_repository_is_a_problem(self, tmp_path: Path) -> None:
        assert tree_diff(tmp_path, None, None).problem
        assert merge_diff(tmp_path, "a" * 40).problem
        assert branch_diff(tmp_path, "main").problem

    def test_an_unmerged_file_is_separate(self, root: Path) -> None:
        git(root, "switch", "-q", "-c", "work")
        write_files(root, [("a.txt", "work\n"), ("0.txt", "x\n")])
        commit(root)
        git(root, "switch", "-q", "main")
        write_files(root, [("a.txt", "main\n")])
        commit(root)
        with pytest.raises(AssertionError):
            git(root, "merge", "-q", "work")

        view = by_path(tree_diff(root, None, None))

        assert {"0.txt", "a.txt"} == {*view}
        assert not [text for one in view.values() for _, text in one.lines if "Unmerged" in text]

    def test_no_filter_of_a_repository_is_started(self, root: Path, tmp_path: Path) -> None:
        (root / ".gitattributes").write_text("*.txt filter=a\n", encoding="utf-8")
        (root / "a.txt").write_text("two\n", encoding="utf-8")
        git(root, "config", "filter.a.clean", f"touch {tmp_path}/started; cat")
        git(root, "config", "filter.a.process", f"touch {tmp_path}/started; cat")
        git(root, "config", "filter.a.required", "true")

        view = by_path(tree_diff(root, None, None))

        assert not (tmp_path / "started").exists()
        assert (("h", "@@ -1 +1 @@"), ("d", "-one"), ("a", "+two")) == view["a.txt"].lines

    def test_no_filter_is_started_that_is_named_meanwhile(self, root: Path, tmp_path: Path) -> None:
        """A running agent can rewrite the settings between any two reads."""
        (root / ".gitattributes").write_text("*.txt filter=a\n", encoding="utf-8")
        (root / "a.txt").write_text("two\n", encoding="utf-8")
        settings, over = root / ".git/config", Event()
        plain = settings.read_text(encoding="utf-8")
        named = f'{plain}[filter "a"]\n\tclean = touch {tmp_path}/started; cat\n'

        def write() -> None:
            while not over.wait(0.001):
                settings.write_text(plain, encoding="utf-8")
                over.wait(0.001)
                settings.write_text(named, encoding="utf-8")

        writer = Thread(target=write)
        writer.start()
        try:
            for _ in range(20):
                tree_diff(root, None, None)
        finally:
            over.set()
            writer.join()

        assert not (tmp_path / "started").exists()

    def test_no_filter_of_a_repository_within_is_started(self, root: Path, tmp_path: Path) -> None:
        inner = root / "inner"
        inner.mkdir()
        git(inner, "init", "-q")
        write_files(inner, [("b.txt", "one\n")])
        commit(inner)
        commit(root, "with another repository")
        write_files(inner, [(".gitattributes", "*.txt filter=a\n"), ("b.txt", "two\n")])
        git(inner, "config", "filter.a.clean", f"touch {tmp_path}/started; cat")
        (root / "a.txt").write_text("two\n", encoding="utf-8")

        view = by_path(tree_diff(root, None, None))

        assert not (tmp_path / "started").exists()
        assert ["a.txt"] == [*view]

    def test_a_new_commit_of_a_repository_within_is_shown(self, root: Path) -> None:
        inner = root / "inner"
        inner.mkdir()
        git(inner, "init", "-q")
        commit(inner)
        commit(root, "with another repository")
        commit(inner)

        (one,) = merge_diff(root, merged(root)).files

        assert ("inner", 1, 1) == (one.path, one.added, one.removed)


class TestLimits:
    """Big diffs have bounded views, and count the rest."""

    def test_a_long_line_is_cut(self, root: Path) -> None:
        (root / "a.txt").write_text("x" * 10_000, encoding="utf-8")

        texts = [text for _, text in merge_diff(root, merged(root)).files[0].lines]

        assert 501 == max(map(len, texts))
        assert f"+{'x' * 499}…" in texts

    def test_a_big_file_is_cut_and_its_numbers_are_whole(self, root: Path) -> None:
        write_files(root, [("a.txt", "x" * 99 + "\n"), ("z.txt", "last\n")])
        (root / "a.txt").write_text(f"{'x' * 99}\n" * 5_000, encoding="utf-8")

        view = merge_diff(root, merged(root))

        (big,) = view.files
        assert (True, 5_000, 1) == (big.cut, big.added, big.removed)
        assert 1_900 < len(big.lines) < 2_002
        assert [("z.txt", 1, 0, ())] == [
            (one.path, one.added, one.removed, one.lines) for one in view.more
        ]
        assert "1 more file<" in printed(view)
        assert "This file has more changes" in printed(view)

    def test_short_lines_are_bounded_too(self, root: Path) -> None:
        (root / "a.txt").write_text("\n" * 50_000, encoding="utf-8")
        (root / "b.txt").write_text("2\n", encoding="utf-8")

        view = merge_diff(root, merged(root))

        assert LINES == sum(len(one.lines) for one in view.files)
        assert (50_000, True) == (view.files[0].added, view.files[0].cut)
        assert ("b.txt", True, 4) == (view.files[1].path, view.files[1].cut, view.files[1].removed)
        assert len(printed(view)) < 400_000

    def test_many_files_are_named_then_counted(self, root: Path) -> None:
        write_files(
            root, [(f"f/{n:03}{HOSTILE[0][-4:]}", "x\n") for n in range(FILES + NAMES + 50)]
        )

        view = merge_diff(root, merged(root))

        assert (FILES, NAMES, 50) == (len(view.files), len(view.more), view.unnamed)
        assert all(one.added == 1 and not one.lines for one in view.more)
        assert "250 more files<" in printed(view)

    def test_files_beyond_the_limit_of_bytes_are_named(self, root: Path) -> None:
        git(root, "mv", "b.txt", "zz.txt")
        write_files(root, [(f"f/{n:02}.txt", f"{n}{'x' * 90}\n" * 300) for n in range(20)])

        view = merge_diff(root, merged(root))

        paths = [one.path for one in (*view.files, *view.more)]
        assert [*(f"f/{n:02}.txt" for n in range(20)), "zz.txt"] == paths
        assert [300] * 20 == [one.added for one in (*view.files, *view.more)][:20]
        assert len(view.files) < 9

    def test_of_very_many_files_at_least_the_names_are_listed(self, root: Path) -> None:
        write_files(root, [(f"f/{'x' * 200}{n:04}", "") for n in range(1_800)])

        view = merge_diff(root, merged(root))

        assert ((), NAMES) == (view.files, len(view.more))
        assert 1_000 < view.unnamed < 1_800
        assert printed(view)

    def test_big_new_files_of_a_worktree_are_cut(self, root: Path) -> None:
        write_files(root, [(f"{n:02}", "y" * 99 + "\n" * 1_000_000) for n in range(12)])

        view = tree_diff(root, None, None)

        assert {(True, None)} == {(one.cut, one.added) for one in view.files}
        assert 12 * LARGEST_NEW > sum(len(text) for one in view.files for _, text in one.lines)

    def test_nothing_changed_is_a_sentence(self, root: Path) -> None:
        view = tree_diff(root, None, None)

        assert ((), (), 0) == (view.files, view.more, view.unnamed)
        assert "No file has changed" in printed(view)


class TestMacro:
    """The HTML of a diff."""

    def test_the_first_two_files_are_open_and_regions_have_names(self, root: Path) -> None:
        write_files(root, [(name, "x\n") for name in ("1", "2", "3")])

        text = printed(merge_diff(root, merged(root)))

        assert [True, True, False] == [
            bool(one) for one in re.findall(r'<details class="file"( open)?>', text)
        ]
        assert 3 == text.count('tabindex="0" role="region" aria-label="Changes in ')
        assert '<span class="h">@@ -0,0 +1 @@</span><span class="a">+x</span>' in text
        assert '<span class="a">+1</span> <span class="d">\u22120</span>' in text

    def test_no_style_or_script_is_in_it(self, root: Path) -> None:
        write_files(root, [("tests/x.py", '<b style="x" onclick="y">\n')])

        text = printed(merge_diff(root, merged(root)))

        assert not re.search(r"<[^>]*\s(?:style|on\w+)=", text)
        assert '<span class="c-ask small">test file</span>' in text
