"""The listed shell scripts of a directory, and how they are started."""

import subprocess
from pathlib import Path

import pytest

from ralphgen.kits.dela.server.formats.scripts import shell_script_tasks
from ralphgen.kits.dela.server.task import Folder, Task


def script(root: Path, name: str, text: str | bytes = "#!/bin/sh\n", mode: int = 0o644) -> Path:
    path = root / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def found(root: Path) -> list[Task]:
    return list(shell_script_tasks(Folder(str(root), str(root))))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "mode", "argv"), [("echo ran", 0o755, ("sh", "./x y.sh"))])
def test_a_script_is_started_in_a_way_that_works(
    tmp_path: Path, text: str, mode: int, argv: tuple[str, ...]
) -> None:
    """The system itself starts only executable files that name their interpreter."""
    path = script(tmp_path, "x y.sh", text, mode)

    (task,) = found(tmp_path)

    assert ("x y", "x y.sh", "sh", argv) == (task.name, task.source_name, task.runner, task.argv)
    assert str(path.resolve()) == task.path
    ran = subprocess.run(task.argv, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert ("ran" if text else "") == ran.stdout.strip()


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Builds it.\n", "Builds it."),
        ("#!/bin/sh\r\n# Builds it.\r\n", "Builds it."),
        ("#!/bin/bash\n# shellcheck disable=SC1091\n# Builds it.", "Builds it."),
        ("#!/bin/sh\n# -*- coding: utf-8 -*-\n# vim: ts=2\n# Builds it.", "Builds it."),
        ("#!/bin/sh\n# SPDX-License-Identifier: MIT\n# coding: utf-8\n# Builds it.", "Builds it."),
        ("#!/bin/sh\necho '# no comment'", None),
    ],
)
def test_the_first_comment_ahead_of_the_commands_describes_a_script(
    tmp_path: Path, text: str | bytes, description: str | None
) -> None:
    script(tmp_path, "x.sh", text)

    assert [description] == [task.description for task in found(tmp_path)]


def test_what_cannot_be_read_as_text_can_be_run(tmp_path: Path) -> None:
    """Self-unpacking installers are scripts too, and no fault of the project."""
    script(tmp_path, "x.sh", b"#!/bin/sh\nexit 0\n\xff\xfe", 0o755)
    root = Folder(str(tmp_path), str(tmp_path))

    assert [("./x.sh",)] == [task.argv for task in shell_script_tasks(root)]
    assert [] == root.problems


def test_only_plain_files_of_the_folder_itself_count(tmp_path: Path) -> None:
    (tmp_path / "folder.sh").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "broken.sh").symlink_to("nowhere")
    target = script(tmp_path / "sub", "real.sh")
    (tmp_path / "link.sh").symlink_to(target)
    for name in (".hidden.sh", ".sh", " .sh", "a\nb.sh", "x.bash", "y.SH", "b.tar.sh", "-a.sh"):
        script(tmp_path, name)

    assert [
        ("-a", ("sh", "./-a.sh"), str((tmp_path / "-a.sh").resolve())),
        ("b.tar", ("sh", "./b.tar.sh"), str((tmp_path / "b.tar.sh").resolve())),
        ("link", ("sh", "./link.sh"), str(target.resolve())),
    ] == [(task.name, task.argv, task.path) for task in found(tmp_path)]
