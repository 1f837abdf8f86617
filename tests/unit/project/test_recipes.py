"""Recipes and prompts of a project."""

from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.config import LONGEST, Words, prompt_names, read_words
from ralphgen.project.inspect import read_recipes
from ralphgen.project.root import RECIPES as FOLDER


def recipe(root: Path, name: str, text: str) -> None:
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    (root / FOLDER / name).write_text(text, encoding="utf-8")


def test_recipes_are_read_sorted_by_name_with_their_places(tmp_path: Path) -> None:
    recipe(tmp_path, "b.toml", 'base = "yap"\n')
    recipe(tmp_path, "b a.toml", '\nbase = "yap"\n[allow]\nralph = ["z", "a",\n"z"]\n')
    first, second = read_recipes(tmp_path)

    assert ("b", "b a") == (first.name, second.name) or ("b a", "b") == (first.name, second.name)
    odd = first if first.name == "b a" else second
    assert (("ralph", ("a", "z")),) == odd.allow
    assert f"{FOLDER}/b a.toml:2" == odd.place("base")
    assert f"{FOLDER}/b a.toml:4" == odd.place("ralph:a")
    assert f"{FOLDER}/b a.toml" == odd.place("unheard of")


def test_missing_folders_and_other_files_are_not_recipes(tmp_path: Path) -> None:
    assert () == read_recipes(tmp_path)
    recipe(tmp_path, "notes.md", "#")
    recipe(tmp_path, ".#draft.toml", "not toml")
    assert () == read_recipes(tmp_path)


@pytest.mark.parametrize("name", ['"quoted"', "new\nline", "{{ x }}", "\u2028", "🎉", "class"])
def test_a_name_may_hold_any_character(tmp_path: Path, name: str) -> None:
    recipe(tmp_path, f"{name}.toml", 'base = "yap"\n')

    assert [name] == [found.name for found in read_recipes(tmp_path)]


def test_every_mistake_of_every_file_is_found(tmp_path: Path) -> None:
    recipe(tmp_path, "a.toml", 'base = "yap"\nalow = {}\n')
    recipe(tmp_path, "b.toml", '[allow]\nralph = "all"\n')
    recipe(tmp_path, "c.toml", "base = \n")
    with pytest.raises(ProjectError) as caught:
        read_recipes(tmp_path)

    assert [
        f'{FOLDER}/a.toml:2: unknown key "alow"\nhint: did you mean "allow"?',
        f'{FOLDER}/b.toml:1: "base" is missing',
        f'{FOLDER}/b.toml:2: "allow.ralph" is "all", expected a list',
        f"{FOLDER}/c.toml:1: invalid TOML: Invalid value (column 8)\nhint: fix the file by hand",
    ] == [str(problem) for problem in caught.value.problems]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    (tmp_path / FOLDER).write_text("x", encoding="utf-8")
    with pytest.raises(ProjectError, match="cannot be read: not a directory"):
        read_recipes(tmp_path)


def test_the_text_of_a_recipe_is_kept_unchanged(tmp_path: Path) -> None:
    lines = ["base = 'yap'", "description = 'Sort it.'", "prompt = '{x}\\n'", "model = 'haiku'"]
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "triage.toml").write_text("\n".join(lines), encoding="utf-8")
    (found,) = read_recipes(tmp_path)

    assert ("Sort it.", "{x}\\n", "haiku") == (found.description, found.prompt, found.model)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('description = "a\\nb"', "one line of at most 200 characters"),
        (f'description = "{"x" * 201}"', "one line of at most 200 characters"),
        ('description = " "', "one line of at most 200 characters"),
        ('prompt = ""', "a non-blank string of at most 40,000 characters"),
        (f'prompt = "{"x" * 40_001}"', "a non-blank string of at most 40,000 characters"),
        ('model = "--dangerously"', 'a model name without spaces or a leading "-"'),
        ('model = ""', 'a model name without spaces or a leading "-"'),
        ("model = 4", "a string in quotes"),
    ],
)
def test_invalid_recipes_are_refused(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "x.toml").write_text(f'base = "yap"\n{line}\n', encoding="utf-8")
    with pytest.raises(ProjectError) as caught:
        read_recipes(tmp_path)

    key = line.partition(" ")[0]
    assert str(caught.value).startswith(f'{FOLDER}/x.toml:2: "{key}" is ')
    assert str(caught.value).endswith(f"expected {expected}")


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
