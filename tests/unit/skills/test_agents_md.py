"""The section of AGENTS.md: short, kept between its marks, and nothing else is touched."""

from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project

from ralphgen.errors import ProjectError
from ralphgen.generate.workflows import generate
from ralphgen.skills.agents_md import BEGIN, END, render_section, section_diff, write_section


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = create_project(tmp_path_factory.mktemp("words") / "p")
    return render_section(generate(root).plan, ["te`st", "lint"])


def test_it_names_kits_skills_commands_and_checks_and_is_short(section: str) -> None:
    assert section.startswith(f"{BEGIN}\n## ")
    assert section.endswith(f"\n{END}\n")
    for words in (
        "- `ralph`: Works",
        "`ralphgen skill ralph-project`",
        "`ralphgen regen`",
    ):
        assert words in section
    assert 'pass: "te\\`st", `lint`. The tool `run_checks`' in section
    assert len(section) < 2_000


def test_a_project_without_checks_is_told_of_none(tmp_path: Path) -> None:
    assert "run_checks" not in render_section(generate(create_project(tmp_path / "p")).plan, [])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "S"),
        ("# Ours\n", "# Ours\n\nS"),
        ("# Ours", "# Ours\n\nS"),
        (f"a\n{BEGIN}\nold\n{END}\nb", "a\nSb"),
        (f"a\n  {BEGIN}  \n{END}", "a\nS"),
        (f"a\r\n{BEGIN}\r\nold\r\n{END}\r\nb\r\n", "a\r\nSb\r\n"),
        ("\ufeffé \u2028\x0c\n", "\ufeffé \u2028\x0c\n\nS"),
    ],
)
def test_all_else_stays_to_the_byte(
    tmp_path: Path, section: str, before: str, expected: str
) -> None:
    path = tmp_path / "AGENTS.md"
    if before:
        path.write_bytes(before.encode())
    wanted = expected.replace("S", section.replace("\n", "\r\n") if "\r" in before else section)

    assert section_diff(tmp_path, section)
    assert write_section(tmp_path, section)
    assert wanted.encode() == path.read_bytes()
    assert not write_section(tmp_path, section)
    assert "" == section_diff(tmp_path, section)


@pytest.mark.parametrize(
    "before",
    [
        f"{BEGIN}\nmine\n",
        f"mine\n{END}\n",
        f"{END}\nmine\n{BEGIN}\n",
        f"{BEGIN}\n{END}\nmine\n{BEGIN}\n{END}\n",
        b"\xe9",
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_refused(
    tmp_path: Path, section: str, before: str | bytes
) -> None:
    path = tmp_path / "AGENTS.md"
    content = before.encode() if isinstance(before, str) else before
    path.write_bytes(content)
    with pytest.raises(ProjectError, match=r"AGENTS\.md"):
        write_section(tmp_path, section)

    assert content == path.read_bytes()


@pytest.mark.thorough
@pytest.mark.slow
def test_the_command_shows_writes_and_checks_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    command = ("skill", "--agents-md", "--project", root)
    shown = ralphgen(*command)
    missing = ralphgen(*command, "--check")
    written = ralphgen(*command, "--write")

    assert (0, 1, 0) == (shown.returncode, missing.returncode, written.returncode)
    assert shown.stdout == (root / "AGENTS.md").read_text(encoding="utf-8")
    assert "ralphgen skill --agents-md --write" in missing.stderr
    assert "wrote the section of AGENTS.md\n" == written.stderr
    assert 0 == ralphgen(*command, "--check").returncode
    kits = 'kits = ["ralph", "rye"]\n'
    (root / ".ralph/ralphgen.toml").write_text(kits, encoding="utf-8")
    behind = ralphgen(*command, "--check")

    assert 1 == behind.returncode
    assert "+- `rye`: " in behind.stdout
    assert 2 == ralphgen(*command, "--force", "--write").returncode
