"""The check of a project's structure: existing and missing files, and none from outside."""

from pathlib import Path

import pytest
from acm_projects import PROJECT, TYPES_SPEC, Library

ITEMS = (
    *(".claude/CLAUDE.md", ".claude/rules/", "docs/", "docs/intent.md", "docs/brief.md"),
    *("docs/inbox/", "_archive/", "README.md"),
)


def structure(library: Library, project: Path) -> list[str]:
    """Return the lines of a check without the title."""
    lines = library.says("check_project_structure", project_path=str(project)).split("\n")
    assert f"Project Structure Check: {project.resolve()}" == lines[0]
    return lines[1:]


class TestStructure:
    """Eight folders and files."""

    @pytest.mark.parametrize("item", ITEMS)
    def test_missing_parts_are_named(self, library: Library, item: str) -> None:
        inside = {name: text for name, text in PROJECT.items() if not name.startswith(item)}
        files = {name: inside.get(name) for name in PROJECT}
        lines = structure(library, library.project_of("other", files))
        missing = [name for name in ITEMS if name.startswith(item)]

        assert [name for name in ITEMS if f"✗ {name} — missing" in lines] == missing
        assert f"Result: {8 - len(missing)}/8 passed. Missing: {', '.join(missing)}" == lines[-1]

    def test_a_file_is_not_a_folder_and_a_folder_not_a_file(self, library: Library) -> None:
        project = library.project_of(
            "other", {"README.md": None, "_archive/.keep": None, "_archive": "x"}
        )
        (project / "README.md").mkdir()
        lines = structure(library, project)

        assert "✗ README.md — not a file" in lines
        assert "✗ _archive/ — not a directory" in lines

    def test_a_link_that_leaves_the_project_is_a_sandbox_error(self, library: Library) -> None:
        project = library.project(README_md=None)
        (project / "README.md").symlink_to(library.documents / TYPES_SPEC)
        within = library.project("within", README_md=None)
        (within / "README.md").symlink_to("docs/brief.md")

        assert "✗ README.md — sandbox error" in structure(library, project)
        assert "Result: 7/8 passed. Missing: README.md" == structure(library, project)[-1]
        assert "Result: 8/8 passed." == structure(library, within)[-1]

    def test_a_linked_project_is_a_project(self, library: Library) -> None:
        project = library.project()
        (library.projects / "link").symlink_to(project)

        assert "Result: 8/8 passed." == structure(library, library.projects / "link")[-1]

    def test_the_default_is_this_project(self, library: Library) -> None:
        text = library.says("check_project_structure")

        assert text.startswith(f"Project Structure Check: {library.root.resolve()}\n")
        assert text == library.says("check_project_structure", project_path="")

    @pytest.mark.parametrize("tool", ["check_project_structure", "check_project_health"])
    @pytest.mark.parametrize("path", ["nowhere", "README", "~nobody-of-that-name", "x" * 5000])
    def test_a_project_must_be_a_directory(self, library: Library, tool: str, path: str) -> None:
        text = library.refuses(tool, project_path=path)

        assert text.startswith('argument "project_path" is "')
        assert "which is not a directory" in text
        assert text.endswith("or omit it for the whole project")

    @pytest.mark.parametrize("tool", ["check_project_structure", "check_project_health"])
    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../beside",
            "../nowhere",
            "../beside/README.md",
            "/",
            "~",
            "~/mine",
            "projects/link",
        ],
    )
    def test_outside_files_are_not_mentioned(self, library: Library, tool: str, path: str) -> None:
        """Neither the files nor the existence of a directory."""
        (library.folder / "home/mine").mkdir(parents=True, exist_ok=True)
        beside = library.folder / "beside"
        beside.mkdir(exist_ok=True)
        (beside / "README.md").write_text("# Beside\n", encoding="utf-8")
        library.projects.mkdir()
        (library.projects / "link").symlink_to(beside)

        assert library.refuses(tool, project_path=path) == (
            f'argument "project_path" is "{path}", which is outside the project of this server: '
            "use a directory in the project, or omit it for the whole project"
        )
