"""Specs are read, written and deleted in place, and nothing else is ever touched."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import chdir, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from scripts import script_output

from ralphgen.kits.specum.server.store import LARGEST, SHOWN, Specs
from ralphgen.kits.specum.server.workflow import ensure_ignored
from ralphgen.runtime.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534
HIDDEN = "what nobody may see"
BAD_NAMES = ["", ".", "..", "../x", "a/b", "/nowhere", "a\0b", "A", "x" * 65, "-", "auth\n"]
BAD_FILES = [".", "..", "../x.md", "a/b.md", "/nowhere/a.md", "a\0b"]

# Drops root privileges, which allow all access. Imports must come first.
UNPRIVILEGED = """
import encodings.utf_8_sig, encodings.utf_16_le, os, sys
from ralphgen.runtime.errors import ToolError
from ralphgen.kits.specum.server.workflow import ensure_ignored
from ralphgen.kits.specum.server.store import Specs
if not os.getuid():
    os.setgid(65534)
    os.setuid(65534)
try:
    specs = Specs(sys.argv[1], sys.argv[1])
    print(eval(sys.argv[2], {"specs": specs, "ensure_ignored": ensure_ignored}))
except ToolError as error:
    print(error)
"""
FULL = """
import resource, sys
from ralphgen.runtime.errors import ToolError
from ralphgen.kits.specum.server.store import Specs
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    Specs(sys.argv[1], sys.argv[1]).write("auth", "research.md", "x" * 100)
except ToolError as error:
    print(error)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with the spec "auth", and a file next to the project."""
    root = tmp_path / "project"
    (root / "specs/auth").mkdir(parents=True)
    (tmp_path / "secret.md").write_text(HIDDEN, encoding="utf-8")
    return root


@pytest.fixture
def auth(root: Path) -> Path:
    return root / "specs/auth"


@pytest.fixture
def specs(root: Path) -> Specs:
    return Specs(str(root), str(root))


@pytest.fixture
def open_root() -> Iterator[Path]:
    """Yield a project of an unprivileged user with the spec "auth" and a folder in it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "specs/auth/notes").mkdir(parents=True)
        (root / "specs/auth/notes/a.md").write_text("a", encoding="utf-8")
        (root / "specs/auth/tasks.md").write_text("t", encoding="utf-8")
        if not os.getuid():
            for path in [root, *root.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        yield root


def snapshot(folder: Path) -> dict[str, bytes | str | None]:
    """Return the content of every path below a directory; links are not followed."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


class TestListing:
    """A spec is a folder with a fitting name, and nothing else is."""

    def test_specs_are_sorted_and_other_files_left_out(self, root: Path, specs: Specs) -> None:
        for name in ("zoo", "b-2", ".hidden", "Upper", "with space", "---"):
            (root / "specs" / name).mkdir()
        (root / "specs/file").write_text("", encoding="utf-8")
        (root / "specs/link").symlink_to("auth")

        assert ["auth", "b-2", "zoo"] == specs.names()

    def test_a_file_in_place_of_the_folder_holds_no_specs(self, tmp_path: Path) -> None:
        (tmp_path / "specs").write_text("", encoding="utf-8")

        assert [] == Specs(str(tmp_path), str(tmp_path)).names()
        with pytest.raises(ToolError, match='cannot create the directory "specs/auth": not a dir'):
            Specs(str(tmp_path), str(tmp_path)).create("auth")

    def test_only_folders_with_fitting_names_exist(self, root: Path, specs: Specs) -> None:
        (root / "specs/file").write_text("", encoding="utf-8")
        (root / "specs/link").symlink_to("auth")
        (root / "specs/Upper").mkdir()

        assert specs.exists("auth")
        assert not any(map(specs.exists, ["file", "link", "Upper", "gone", *BAD_NAMES]))

    def test_no_new_spec_can_have_the_name_of_anything_there(
        self, root: Path, specs: Specs
    ) -> None:
        (root / "specs/Upper").mkdir()
        (root / "specs/link").symlink_to("nowhere")

        assert {"auth", "upper", "link"} == specs.reserved_names()

    @pytest.mark.slow
    def test_a_folder_that_cannot_be_listed_is_an_error(self, open_root: Path) -> None:
        (open_root / "specs").chmod(0)

        assert 'cannot read "specs": permission denied' == script_output(
            UNPRIVILEGED, str(open_root), "specs.names()"
        )


class TestCurrent:
    """The pointer contains a name; the caller decides how to use it."""

    @pytest.mark.parametrize(
        ("content", "name"),
        [
            (b"auth", "auth"),
            (b"auth\n", "auth"),
            (b" \r\n\tauth \r\n", "auth"),
            (b"\xef\xbb\xbfauth", "auth"),
            (b"gone", "gone"),
            (b"../x", "../x"),
            (b"\xff", "\ufffd"),
            (b"", None),
            (b" \n ", None),
        ],
    )
    def test_it_is_read_without_white_space(
        self, root: Path, specs: Specs, content: bytes, name: str | None
    ) -> None:
        (root / "specs/.current-spec").write_bytes(content)

        assert name == specs.current()

    def test_it_is_set_over_and_over_and_removed(self, root: Path, specs: Specs) -> None:
        specs.set_current("auth")
        specs.set_current("zoo")

        assert b"zoo\n" == (root / "specs/.current-spec").read_bytes()

        specs.set_current(None)
        specs.set_current(None)

        assert ["auth"] == [path.name for path in (root / "specs").iterdir()]

    def test_setting_it_makes_the_folder(self, tmp_path: Path) -> None:
        Specs(str(tmp_path), str(tmp_path)).set_current("auth")

        assert "auth" == Specs(str(tmp_path), str(tmp_path)).current()

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_a_name_that_does_not_fit_is_never_current(
        self, root: Path, specs: Specs, name: str
    ) -> None:
        with pytest.raises(ToolError, match="spec name"):
            specs.set_current(name)

        assert not (root / "specs/.current-spec").exists()

    @pytest.mark.parametrize("target", ["../../secret.md", "auth/tasks.md", "nowhere", "."])
    def test_a_pointer_that_is_a_link_is_replaced_and_not_written_through(
        self, root: Path, specs: Specs, target: str
    ) -> None:
        (root / "specs/.current-spec").symlink_to(target)
        before = (root.parent / "secret.md").read_bytes()

        specs.set_current("auth")

        assert not (root / "specs/.current-spec").is_symlink()
        assert "auth" == specs.current()
        assert before == (root.parent / "secret.md").read_bytes()
        assert not (root / "specs/auth/tasks.md").exists()
        assert not (root / "specs/nowhere").exists()

    def test_a_new_spec_is_there_whole_or_not_at_all(self, root: Path, specs: Specs) -> None:
        (root / "specs/file").write_text("x", encoding="utf-8")
        before = {path.name for path in (root / "specs").iterdir()}

        assert specs.begin("pay", {"a.md": "a", "b.md": "b"})
        assert not specs.begin("pay", {"a.md": "other"})
        assert not specs.begin("file", {"a.md": "other"})

        assert "a" == specs.read("pay", "a.md")
        assert {*before, "pay"} == {path.name for path in (root / "specs").iterdir()}

    def test_a_pointer_to_the_outside_is_not_followed(self, root: Path, specs: Specs) -> None:
        (root / "specs/.current-spec").symlink_to("../../secret.md")

        with pytest.raises(ToolError, match=r'"specs/\.current-spec" is a symbolic link to a'):
            specs.current()
        specs.set_current("auth")

        assert HIDDEN == (root.parent / "secret.md").read_text(encoding="utf-8")


class TestReading:
    """Contents that users and other tools write never stop the server."""

    def test_a_long_file_is_cut_after_a_line_with_a_note(self, auth: Path, specs: Specs) -> None:
        (auth / "research.md").write_bytes(("ü" * 49 + "\n").encode() * 12_000)

        text = specs.read("auth", "research.md")

        assert text is not None
        shown, _, note = text.partition("\n\n")
        assert "[cut here: the file has 1,188,000 bytes, more than 1,048,576]\n" == note
        assert {"ü" * 49} == set(shown.split("\n"))
        assert SHOWN - 99 <= len(shown.encode()) <= SHOWN

    @pytest.mark.parametrize("target", ["../../../secret.md", "../auth-2/a.md", "../.current-spec"])
    def test_a_link_out_of_the_spec_is_refused(self, auth: Path, specs: Specs, target: str) -> None:
        (auth / "research.md").symlink_to(target)
        expected = '"specs/auth/research.md" is a symbolic link to a path outside "specs/auth"'

        with pytest.raises(ToolError, match=expected):
            specs.read("auth", "research.md")
        with pytest.raises(ToolError, match=expected):
            specs.read_bytes("auth", "research.md")
        with pytest.raises(ToolError, match=expected):
            specs.write("auth", "research.md", "")
        with pytest.raises(ToolError, match=expected):
            specs.edit("auth", "research.md", str.upper)

        assert HIDDEN == (auth / "../../../secret.md").read_text(encoding="utf-8")

    def test_a_link_within_the_spec_is_followed(self, auth: Path, specs: Specs) -> None:
        (auth / "plan.md").write_text("plan", encoding="utf-8")
        (auth / "tasks.md").symlink_to("plan.md")

        assert "plan" == specs.read("auth", "tasks.md")

        specs.write("auth", "tasks.md", "new")

        assert (auth / "tasks.md").is_symlink()
        assert "new" == (auth / "plan.md").read_text(encoding="utf-8")

    def test_a_spec_that_is_a_link_is_refused(self, root: Path, specs: Specs) -> None:
        (root / "other").mkdir()
        (root / "specs/link").symlink_to("../other")

        with pytest.raises(
            ToolError, match='"specs/link" is a symbolic link: a spec must be a directory'
        ):
            specs.read("link", "research.md")
        with pytest.raises(ToolError, match="is a symbolic link"):
            specs.write("link", "research.md", "")
        with pytest.raises(ToolError, match="is a symbolic link"):
            specs.create("link")

        assert [] == list((root / "other").iterdir())

    def test_a_pipe_does_not_block_the_server(self, auth: Path, specs: Specs) -> None:
        os.mkfifo(auth / "pipe.md")
        (auth / "folder.md").mkdir()

        for name in ("pipe.md", "folder.md"):
            with pytest.raises(ToolError, match=rf'cannot read "specs/auth/{name}": (not|is)'):
                specs.read("auth", name)
            with pytest.raises(ToolError, match=r"(not a regular file|is a directory)\)$"):
                specs.write("auth", name, "")

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_that_do_not_fit_are_refused_everywhere(self, specs: Specs, name: str) -> None:
        for call in (
            lambda: specs.path(name),
            lambda: specs.create(name),
            lambda: specs.read(name, "a.md"),
            lambda: specs.write(name, "a.md", ""),
            lambda: specs.remove(name, "a.md"),
            lambda: specs.delete(name),
        ):
            with pytest.raises(ToolError, match="spec name"):
                call()

    @pytest.mark.parametrize("file", BAD_FILES)
    def test_a_file_must_be_in_the_spec_itself(self, specs: Specs, file: str) -> None:
        for call in (
            lambda: specs.path("auth", file),
            lambda: specs.read("auth", file),
            lambda: specs.write("auth", file, ""),
            lambda: specs.remove("auth", file),
        ):
            with pytest.raises(ToolError, match="for a file of a spec"):
                call()

    def test_specs_may_be_a_link_to_another_folder_of_the_project(self, tmp_path: Path) -> None:
        (tmp_path / "shared").mkdir()
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/specs").symlink_to("../shared")
        specs = Specs(str(tmp_path / "docs"), str(tmp_path))
        specs.create("auth")
        specs.write("auth", "a.md", "text")
        specs.set_current("auth")

        assert (["auth"], "auth") == (specs.names(), specs.current())
        assert "text" == specs.read("auth", "a.md")

    @pytest.mark.parametrize("link", ["specs", "docs"])
    def test_nothing_is_done_through_a_link_out_of_the_project(
        self, tmp_path: Path, link: str
    ) -> None:
        outside = tmp_path / "outside"
        for place in (outside / "auth", outside / "specs/auth"):
            place.mkdir(parents=True)
            (place / "a.md").write_text("secret", encoding="utf-8")
        project = tmp_path / "project"
        (project / "docs").mkdir(parents=True)
        (project / link).rmdir() if link == "docs" else None
        (project / link).symlink_to(outside)
        specs = Specs(str(project / "docs" if link == "docs" else project), str(project))
        before = snapshot(outside)

        for call in (
            specs.names,
            specs.reserved_names,
            specs.current,
            lambda: specs.exists("auth"),
            lambda: specs.read("auth", "a.md"),
            lambda: specs.create("new"),
            lambda: specs.begin("new", {"a.md": "x"}),
            lambda: specs.write("auth", "a.md", "x"),
            lambda: specs.edit("auth", "a.md", str.upper),
            lambda: specs.remove("auth", "a.md"),
            lambda: specs.delete("auth"),
            lambda: specs.set_current("auth"),
            lambda: specs.set_current(None),
        ):
            with pytest.raises(ToolError, match="outside the project"):
                call()
        assert before == snapshot(outside)


class TestWriting:
    """A file is always the old or the new one."""

    def test_text_is_written_as_utf_8_with_its_own_line_ends(
        self, auth: Path, specs: Specs
    ) -> None:
        specs.write("auth", "research.md", "old and longer")
        specs.write("auth", "research.md", "Füße\r\n日本\n")

        assert "Füße\r\n日本\n".encode() == (auth / "research.md").read_bytes()
        assert ["research.md"] == [path.name for path in auth.iterdir()]

    def test_half_a_surrogate_pair_is_written_as_a_replacement(
        self, auth: Path, specs: Specs
    ) -> None:
        specs.write("auth", "research.md", "a\ud800\udc80b\U0001f600")

        written = (auth / "research.md").read_text(encoding="utf-8")

        assert "b\U0001f600" == written[-2:]

    @pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
    def test_a_file_keeps_its_mode(self, auth: Path, specs: Specs, mode: int) -> None:
        (auth / "a.md").write_text("old", encoding="utf-8")
        (auth / "a.md").chmod(mode)
        specs.write("auth", "a.md", "new")

        assert mode == (auth / "a.md").stat().st_mode & 0o777

    def test_a_spec_that_is_not_there_is_not_written_to(self, root: Path, specs: Specs) -> None:
        with pytest.raises(ToolError) as caught:
            specs.write("gone", "research.md", "")

        assert (
            "Failed to write research.md. Check file permissions. "
            '("specs/gone/research.md": no such file or directory)' == str(caught.value)
        )
        assert not (root / "specs/gone").exists()

    @pytest.mark.slow
    def test_a_full_disk_leaves_only_the_old_file(self, auth: Path) -> None:
        (auth / "research.md").write_text("old", encoding="utf-8")

        message = script_output(FULL, str(auth.parents[1]))

        assert (
            "Failed to write research.md. Check file permissions. "
            '("specs/auth/research.md": file too large)' == message
        )
        assert {"research.md": b"old"} == snapshot(auth)

    @pytest.mark.slow
    @pytest.mark.parametrize("locked", ["specs/auth", "specs/auth/tasks.md"])
    def test_protected_files_are_left_alone(self, open_root: Path, locked: str) -> None:
        (open_root / locked).chmod(0o555)

        message = script_output(
            UNPRIVILEGED, str(open_root), 'specs.write("auth", "tasks.md", "new")'
        )

        assert (
            "Failed to write tasks.md. Check file permissions. "
            '("specs/auth/tasks.md": permission denied)' == message
        )
        assert b"t" == (open_root / "specs/auth/tasks.md").read_bytes()
        assert {"notes", "tasks.md"} == {path.name for path in (open_root / "specs/auth").iterdir()}

    @pytest.mark.slow
    def test_unreadable_files_are_an_error(self, open_root: Path) -> None:
        (open_root / "specs/auth/tasks.md").chmod(0)

        assert 'cannot read "specs/auth/tasks.md": permission denied' == script_output(
            UNPRIVILEGED, str(open_root), 'specs.read("auth", "tasks.md")'
        )

    def test_an_edit_keeps_every_other_byte(self, auth: Path, specs: Specs) -> None:
        (auth / "a.md").write_bytes(b"\xef\xbb\xbfone\r\n\xff\xfe two\n")

        assert specs.edit("auth", "a.md", lambda text: text.replace("two", "2"))
        assert b"\xef\xbb\xbfone\r\n\xff\xfe 2\n" == (auth / "a.md").read_bytes()

    def test_an_edit_of_nothing_writes_nothing(self, auth: Path, specs: Specs) -> None:
        (auth / "a.md").write_text("a", encoding="utf-8")
        before = (auth / "a.md").stat()

        assert specs.edit("auth", "a.md", str.lower)
        assert not specs.edit("auth", "gone.md", str.upper)
        assert before.st_ino == (auth / "a.md").stat().st_ino
        assert {"a.md": b"a"} == snapshot(auth)

    def test_a_file_too_long_to_hold_is_not_edited(self, auth: Path, specs: Specs) -> None:
        with (auth / "a.md").open("wb") as file:
            file.truncate(LARGEST + 1)

        with pytest.raises(
            ToolError, match=r"has 16,777,217 bytes: shorten it to at most 16,777,216"
        ):
            specs.edit("auth", "a.md", str.upper)

    def test_a_file_is_removed_once_and_of_a_link_the_link(self, auth: Path, specs: Specs) -> None:
        (auth / "a.md").symlink_to("../../../secret.md")

        assert specs.remove("auth", "a.md")
        assert not specs.remove("auth", "a.md")
        assert not specs.remove("gone", "a.md")
        assert HIDDEN == (auth / "../../../secret.md").read_text(encoding="utf-8")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "call", ['specs.create("refused")', 'specs.set_current("a")', "ensure_ignored(specs)"]
    )
    def test_the_root_of_the_disk_is_not_a_project(self, call: str) -> None:
        assert (
            'cannot write specs to "/": start the server in a project directory'
            == script_output(UNPRIVILEGED, "/", call)
        )


class TestDeleting:
    """A spec is deleted whole, or not at all, and never more than the spec."""

    def test_all_of_a_spec_is_deleted_and_of_links_only_the_links(
        self, root: Path, auth: Path, specs: Specs
    ) -> None:
        (root / "kept").mkdir()
        (root / "kept/a.md").write_text("kept", encoding="utf-8")
        (root / "specs/zoo").mkdir()
        before = snapshot(root.parent)
        (auth / "deep/er").mkdir(parents=True)
        (auth / "deep/er/.hidden").write_text("x", encoding="utf-8")
        (auth / "deep/folder").symlink_to(root / "kept")
        (auth / "file").symlink_to(root / "kept/a.md")
        (auth / "dangling").symlink_to("nowhere")
        (auth / "loop").symlink_to(auth)
        os.mkfifo(auth / "pipe")
        with socket.socket(socket.AF_UNIX) as listening, chdir(auth):  # a short path
            listening.bind("socket")

        specs.delete("auth")

        assert {key: before[key] for key in before if key != "project/specs/auth"} == snapshot(
            root.parent
        )

    def test_a_spec_that_is_not_there_cannot_be_deleted(self, root: Path, specs: Specs) -> None:
        (root / "specs/file").write_text("", encoding="utf-8")

        for name in ("gone", "file"):
            with pytest.raises(ToolError, match=f'no directory "specs/{name}"'):
                specs.delete(name)

        assert (root / "specs/file").exists()

    def test_a_link_to_a_folder_is_not_a_spec_to_delete(self, root: Path, specs: Specs) -> None:
        (root / "specs/link").symlink_to("auth")

        with pytest.raises(
            ToolError, match='"specs/link" is a symbolic link: a spec must be a directory'
        ):
            specs.delete("link")

        assert (root / "specs/link").is_symlink()
        assert (root / "specs/auth").is_dir()

    def test_nothing_is_deleted_through_a_link_in_place_of_specs(self, tmp_path: Path) -> None:
        (tmp_path / "shared/auth").mkdir(parents=True)
        (tmp_path / "project").mkdir()
        (tmp_path / "project/specs").symlink_to("../shared")

        with pytest.raises(ToolError, match='"specs" is a symbolic link, and files behind it'):
            Specs(str(tmp_path / "project"), str(tmp_path)).delete("auth")

        assert (tmp_path / "shared/auth").is_dir()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("locked", "named"),
        [
            ("specs/auth/notes", "specs/auth/notes"),
            ("specs/auth", "specs/auth"),
            ("specs", "specs"),
        ],
    )
    def test_a_part_that_cannot_be_emptied_stops_the_deletion(
        self, open_root: Path, locked: str, named: str
    ) -> None:
        before = snapshot(open_root)
        (open_root / locked).chmod(0o555)

        message = script_output(UNPRIVILEGED, str(open_root), 'specs.delete("auth")')

        assert (
            f'cannot delete "specs/auth": permission denied at "{named}"; nothing was changed. '
            "Fix that path and call again, or delete the directory by hand" == message
        )
        assert before == snapshot(open_root)

    @pytest.mark.slow
    def test_a_folder_that_cannot_be_listed_stops_the_deletion(self, open_root: Path) -> None:
        before = snapshot(open_root)
        (open_root / "specs/auth/notes").chmod(0o333)

        message = script_output(UNPRIVILEGED, str(open_root), 'specs.delete("auth")')

        (open_root / "specs/auth/notes").chmod(0o755)
        assert 'permission denied at "specs/auth/notes"' in message
        assert before == snapshot(open_root)

    @pytest.mark.slow
    @pytest.mark.skipif(os.getuid() != 0, reason="only root can own what others cannot delete")
    def test_a_failed_deletion_reports_the_remaining_files(self, open_root: Path) -> None:
        """In a sticky folder of someone else, only one's own files can be deleted."""
        notes = open_root / "specs/auth/notes"
        os.chown(notes, 0, 0)
        os.chown(notes / "a.md", 0, 0)
        notes.chmod(0o1777)

        message = script_output(UNPRIVILEGED, str(open_root), 'specs.delete("auth")')

        assert (
            'only part of "specs/auth" was deleted: operation not permitted; delete the rest by '
            'hand: "specs/auth/notes/a.md", "specs/auth/notes", "specs/auth"' == message
        )
        assert {"notes": None, "notes/a.md": b"a"} == snapshot(open_root / "specs/auth")


class TestIgnoring:
    """Files that change with every step are ignored by git; the rest of the file is unchanged."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (None, b"specs/.current-spec\n**/.progress.md\n"),
            (b"", b"specs/.current-spec\n**/.progress.md\n"),
            (b"*.pyc\n", b"*.pyc\nspecs/.current-spec\n**/.progress.md\n"),
            (b"*.pyc", b"*.pyc\nspecs/.current-spec\n**/.progress.md\n"),
            (b"*.pyc\r\na", b"*.pyc\r\na\r\nspecs/.current-spec\r\n**/.progress.md\r\n"),
            (b"\xff\n**/.progress.md", b"\xff\n**/.progress.md\nspecs/.current-spec\n"),
            (b"# specs/.current-spec\n", None),
            (
                b"**/.progress.md \r\nspecs/.current-spec",
                b"**/.progress.md \r\nspecs/.current-spec",
            ),
            (
                b"\xef\xbb\xbfspecs/.current-spec\n",
                b"\xef\xbb\xbfspecs/.current-spec\n**/.progress.md\n",
            ),
        ],
    )
    def test_each_missing_line_is_added_once(
        self, root: Path, specs: Specs, before: bytes | None, after: bytes | None
    ) -> None:
        if before is not None:
            (root / ".gitignore").write_bytes(before)
        expected = after or (before or b"") + b"specs/.current-spec\n**/.progress.md\n"

        ensure_ignored(specs)

        assert expected == (root / ".gitignore").read_bytes()
        assert () == ensure_ignored(specs)
        assert expected == (root / ".gitignore").read_bytes()

    def test_the_lines_that_were_added_are_returned(self, root: Path, specs: Specs) -> None:
        (root / ".gitignore").write_text("specs/.current-spec\n", encoding="utf-8")

        assert ("**/.progress.md",) == ensure_ignored(specs)
        assert () == ensure_ignored(specs)

    @pytest.mark.parametrize(
        ("kind", "why"), [("link", "it is a symbolic link"), ("folder", "is a directory")]
    )
    def test_special_files_are_left_alone(
        self, root: Path, specs: Specs, kind: str, why: str
    ) -> None:
        if kind == "link":
            (root / ".gitignore").symlink_to("../secret.md")
        else:
            (root / ".gitignore").mkdir()
        before = snapshot(root.parent)

        with pytest.raises(ToolError) as caught:
            ensure_ignored(specs)

        assert (
            f'cannot update ".gitignore": {why}; add these lines: "specs/.current-spec", '
            '"**/.progress.md"' == str(caught.value)
        )
        assert before == snapshot(root.parent)


PIECES = st.sampled_from(
    ["..", ".", "/", "auth", "link", "out", "secret.md", "tasks.md", "\0", "~", "//", "\n", "-"]
)
PATHS = st.text(max_size=12) | st.lists(PIECES, max_size=5).map("".join)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a deeply nested project and unreadable files around it."""
    place = tmp_path_factory.mktemp("place")
    specs = place / "a/b/c/project/specs"
    (specs / "auth").mkdir(parents=True)
    for folder in [place, *(path for path in place.rglob("*") if path.is_dir())]:
        if folder.name not in {"specs", "auth"}:
            (folder / "secret.md").write_text(HIDDEN, encoding="utf-8")
    (specs / "link").symlink_to("../../../b")
    (specs / "out").symlink_to("..")
    return place


class TestAnyName:
    """With any name, files outside `specs/` are unchanged and unread."""

    @settings(max_examples=examples(150), deadline=None)
    @given(name=PATHS, file=PATHS)
    def test_nothing_outside_is_read_written_or_deleted(
        self, place: Path, name: str, file: str
    ) -> None:
        root = place / "a/b/c/project"
        specs = Specs(str(root), str(root))
        self.lay_out(root / "specs/auth")
        before = self.outside(place)

        for each in (name, "auth"):
            self.try_all(specs, place, each, file)

        assert before == self.outside(place)

    @staticmethod
    def lay_out(spec: Path) -> None:
        """Create a spec with a link to a file outside of it."""
        spec.mkdir(exist_ok=True)
        if not os.path.lexists(spec / "secret.md"):
            (spec / "secret.md").symlink_to("../../secret.md")

    @staticmethod
    def try_all(specs: Specs, place: Path, name: str, file: str) -> None:
        """Call everything, unless a fault could do harm beyond the folder of this test."""
        aims = [Path(specs.root, "specs", *parts) for parts in ((name,), (name, file))]
        if not all(os.path.normpath(aim).startswith(f"{place.resolve()}/") for aim in aims):
            with pytest.raises(ToolError):
                specs.path(name, file)
            return
        for call in (
            lambda: specs.read(name, file),
            lambda: specs.write(name, file, "written"),
            lambda: specs.edit(name, file, str.upper),
            lambda: specs.remove(name, file),
            lambda: specs.create(name),
            lambda: specs.set_current(name),
            lambda: specs.delete(name),
        ):
            with suppress(ToolError):
                assert HIDDEN not in str(call())

    @staticmethod
    def outside(place: Path) -> dict[str, bytes | str | None]:
        inner = "a/b/c/project/specs/"
        return {key: kept for key, kept in snapshot(place).items() if not key.startswith(inner)}
