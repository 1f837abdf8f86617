"""Patterns of files in the settings: each unsupported one is refused, each useless one named."""

from pathlib import Path

import pytest
from proved_projects import check
from test_done import problems, project_of

from ralphgen.emit.workflows import checked, regenerate
from ralphgen.project.inspect import loosened
from ralphgen.project.model import Check, DoneRules, done_facts

NO_FILE = "matches no file"
TESTS = Check("t", ("true",), "", 600, ())


def notes(root: Path, *lines: str, config: str = check("t", "true")) -> list[str]:
    """The notes of `regen`, which `check` repeats, without the path and the line."""
    if not (root / ".ralph").exists():
        project_of(root, "")
    (root / ".ralph/ralphgen.toml").write_text("\n".join((config, *lines)), encoding="utf-8")
    said: list[str] = []
    regenerate(root, force=False, allow_removals=True, say=said.append)
    found = tuple(line.removeprefix("note: ") for line in said if line.startswith("note: "))
    report = checked(root, say=lambda _: None)
    assert found == report.notes == tuple(report.as_json()["notes"])  # type: ignore[arg-type]
    assert not report.drift
    return [line.split(": ", 1)[1] for line in found]


def write_config(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "part", "hint"),
    [
        ("!src/**", "!", "without exceptions"),
        (":(exclude)src", ":(", "write the path alone"),
        ("~/src/*", "~/", "below the project"),
        ("tests/{run,all}.sh", "{run,all}", 'write "tests/run.sh", "tests/all.sh"'),
        ("a/{1..3}", "{1..3}", "write a pattern for each name"),
        ("a/@(b|c)", "@(b|c)", "write a pattern for each name"),
        ("tests/[qr", "[", 'close it, as in "[qr]"'),
        ("a[]b", "[]", "name the characters"),
        ("[[:alpha:]]", "[[:alpha:]", "name the characters"),
        ("[z-a]", "[z-a]", "first character of a range first"),
    ],
)
@pytest.mark.parametrize("place", ["[done]\nprotect", "[loop]\nsetup_when"])
def test_unsupported_syntax_is_refused(
    tmp_path: Path, place: str, pattern: str, part: str, hint: str
) -> None:
    (problem,) = problems(tmp_path, f"{check('t', 'true')}{place} = ['a', '{pattern}']\n")

    assert f'5: unsupported "{part}" in the pattern "{pattern}"\nhint: ' in problem
    assert hint in problem


@pytest.mark.parametrize("pattern", ["/a", ".", "./", "a/../b", "a\\b", "", "a\0b"])
def test_a_pattern_outside_of_the_project_is_refused(tmp_path: Path, pattern: str) -> None:
    spelled = pattern.replace("\\", "\\\\").replace("\0", "\\u0000")
    (problem,) = problems(tmp_path, f'[done]\nprotect = ["{spelled}"]\n')

    assert "expected a path below the project" in problem


def test_each_pattern_without_a_file_is_a_note(tmp_path: Path) -> None:
    write_config(tmp_path, "tests/run.sh", ".env", "app/[id]/page.ts", "a/{{x}}/b")
    found = notes(
        tmp_path,
        "[done]",
        'protect = ["./tests/**", "tests//[qr]*", "tests/", "**/conftest.py", "app/[id]/*"]',
        'watch = ["x/y", "**/x", "a/{{x}}/*"]',
        "[loop]",
        'copy = [".env", ".env.local"]',
        'setup_when = ["package-lock.json", "Tests/*"]',
    )

    assert [
        f'"**/conftest.py" {NO_FILE}',
        f'"x/y" {NO_FILE}',
        f'"**/x" {NO_FILE}',
        f'".env.local" {NO_FILE}',
        f'"package-lock.json" {NO_FILE}',
        f'"Tests/*" {NO_FILE}; the case of "tests/run.sh" differs',
    ] == found


def test_a_leading_point_protects_the_same_files(tmp_path: Path) -> None:
    write_config(tmp_path, "tests/run.sh")
    assert [] == notes(tmp_path, "[done]", 'protect = ["./tests/**"]')

    assert '"tests/**"' in (tmp_path / ".ralph/mcp/project.json").read_text(encoding="utf-8")


def test_a_link_is_named_with_its_target(tmp_path: Path) -> None:
    write_config(tmp_path, "scripts/run.sh", "real/a/b")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/run.sh").symlink_to("../scripts/run.sh")
    (tmp_path / "linked").symlink_to("real")

    assert [
        '"tests/**" matches the link "tests/run.sh", not its target "scripts/run.sh"',
        '"linked/a/*" matches the link "linked", not its target "real"',
    ] == notes(tmp_path, "[done]", 'protect = ["tests/**", "linked/a/*"]')
    covered = 'protect = ["tests/**", "linked/a/*", "scripts/*", "real/**"]'
    assert [] == notes(tmp_path, "[done]", covered)


def test_a_pattern_that_protected_nothing_can_be_removed() -> None:
    before = done_facts(DoneRules((TESTS,), ("./a", "tests/{b,c}", "d"), ()))
    after = DoneRules((TESTS,), ("a", "tests/b", "tests/c"), ())

    assert ['"d" would no longer be protected'] == loosened(before, after)
