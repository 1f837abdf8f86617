"""The project's own instructions are read completely from separate files, or refused by name."""

from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.config import LONGEST, Words, prompt_names, read_words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / ".ralph/prompts"
    path.mkdir(parents=True)
    return path


def problems(root: Path, *names: str) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        read_words(root, names)
    return [str(problem) for problem in caught.value.problems]


def test_a_project_without_the_folder_has_no_words(tmp_path: Path) -> None:
    assert () == prompt_names(tmp_path)
    assert () == read_words(tmp_path, ["all"])


def test_words_are_unchanged_in_the_order_of_their_names(tmp_path: Path, folder: Path) -> None:
    for name in ("all", "yap", "Früh", "blank", ".hidden"):
        text = " \n" if name == "blank" else f"\ufeff{name}\r\n{{x}}"
        (folder / f"{name}.md").write_bytes(text.encode())
    (folder / "notes.txt").write_text("x", encoding="utf-8")

    assert ("Früh", "all", "blank", "yap") == tuple(sorted(prompt_names(tmp_path)))
    assert (
        Words(".ralph/prompts/yap.md", "yap\r\n{x}"),
        Words(".ralph/prompts/Früh.md", "Früh\r\n{x}"),
    ) == read_words(tmp_path, ["yap", "../../etc/passwd", "Früh", "blank", "yap", "a/../all"])


def test_every_file_that_cannot_be_used_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "secret.md").symlink_to("/etc/passwd")
    (folder / "long.md").write_text("x" * (LONGEST + 1), encoding="utf-8")
    (folder / "latin.md").write_bytes(b"a\n\xe4\n")
    (folder / "folder.md").mkdir()
    said = problems(tmp_path, "secret", "long", "latin", "folder", "none")

    assert 4 == len(said)
    folder_said, latin, long, secret = said
    assert "folder.md: cannot be read: " in folder_said
    assert f"long.md: has {LONGEST + 1:,} bytes, expected at most {LONGEST:,}" in long
    assert "latin.md:2: is not UTF-8" in latin
    assert ".ralph/prompts/secret.md: is a link, expected a regular file" in secret
    assert all("\nhint: " in one for one in said)


def test_a_folder_that_is_a_link_is_none(tmp_path: Path, folder: Path) -> None:
    (folder / "all.md").write_text("x", encoding="utf-8")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")

    assert "is a link" in problems(tmp_path, "all")[0]
