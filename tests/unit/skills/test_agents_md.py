"""The section of AGENTS.md: short, kept between its marks, and nothing else is touched."""

from pathlib import Path

import pytest
from driving import create_project

from ralphgen.emit.skills import BEGIN, END, render_section, with_section
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project

OLD = "<!-- ralphgen: what an earlier version had as its first mark -->"


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = create_project(tmp_path_factory.mktemp("words") / "p")
    return render_section(Project(root).plan, ["te`st", "lint"])


def test_it_names_kits_skills_commands_and_checks_and_is_short(section: str) -> None:
    assert section.startswith(f"{BEGIN}\n## ")
    assert section.endswith(f"\n{END}\n")
    for words in (
        "- `ralph`: Works",
        "`ralphgen connect claude --skills --print`",
        "`ralphgen regen`",
    ):
        assert words in section
    assert 'pass: "te\\`st", `lint`. The tool `run_checks`' in section
    assert len(section) < 2_000


def test_a_project_without_checks_mentions_none(tmp_path: Path) -> None:
    assert "run_checks" not in render_section(Project(create_project(tmp_path / "p")).plan, [])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "S"),
        ("# Ours\n", "# Ours\n\nS"),
        ("# Ours", "# Ours\n\nS"),
        (f"a\n{BEGIN}\nold\n{END}\nb", "a\nSb"),
        (f"a\n  {BEGIN}  \n{END}", "a\nS"),
        (f"a\n{OLD}\nold\n{END}\nb", "a\nSb"),
        (f"a\r\n{BEGIN}\r\nold\r\n{END}\r\nb\r\n", "a\r\nSb\r\n"),
        ("\ufeffé \u2028\x0c\n", "\ufeffé \u2028\x0c\n\nS"),
    ],
)
def test_everything_else_is_unchanged_to_the_byte(section: str, before: str, expected: str) -> None:
    wanted = expected.replace("S", section.replace("\n", "\r\n") if "\r" in before else section)

    assert wanted == with_section(section, before)
    assert wanted == with_section(section, wanted)


@pytest.mark.parametrize(
    "before",
    [
        f"{BEGIN}\nmine\n",
        f"mine\n{END}\n",
        f"{END}\nmine\n{BEGIN}\n",
        f"{BEGIN}\n{END}\nmine\n{BEGIN}\n{END}\n",
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_refused(section: str, before: str) -> None:
    with pytest.raises(ProjectError, match=r"AGENTS\.md"):
        with_section(section, before)
