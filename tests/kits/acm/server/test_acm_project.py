"""Guidance for a type of project, and the checks of a project's structure and health."""

from pathlib import Path
from typing import Any

import pytest
from acm_projects import BRIEF, CLAUDE, INTENT, PROJECT, TYPES, TYPES_SPEC, Library

ITEMS = (
    *(".claude/CLAUDE.md", ".claude/rules/", "docs/", "docs/intent.md", "docs/brief.md"),
    *("docs/inbox/", "_archive/", "README.md"),
)
APP = """\
## Project Type Guidance: app · personal · full

### 2. App

An app is software.

#### Sub-variations

A script is a small app.

### Scale: personal

| Scale | Meaning |
|---|---|
| `personal` | For one person |

### Scope: full

| Scope | Meaning |
|---|---|
| `full-build` | Everything |

### Type Implications: app

| Aspect | App |
|---|---|
| Output | a program |
| Review | tests |
"""
HEALTHY = """\
### File Presence

✓ .claude/CLAUDE.md
✓ .claude/rules/
✓ docs/
✓ docs/intent.md
✓ docs/brief.md
✓ docs/inbox/
✓ _archive/
✓ README.md

### Frontmatter Validation

✓ docs/intent.md — valid
✓ docs/brief.md — valid
✓ status.md — valid
✓ .claude/CLAUDE.md — valid

### Required Sections

✓ docs/brief.md: Summary
✓ docs/brief.md: Scope
✓ docs/brief.md: Success Criteria
✓ docs/brief.md: Constraints
✓ docs/brief.md: Decisions
✓ docs/intent.md: Problem
✓ docs/intent.md: Outcome
✓ docs/intent.md: Why It Matters
✓ status.md: Current State
✓ .claude/CLAUDE.md: Context Map or Orientation

---
File presence: 8/8
Frontmatter: 4/4
Sections: 10/10
Overall: healthy (22/22 checks passed)"""


def structure(library: Library, project: Path) -> list[str]:
    """The lines of a check, behind the title."""
    lines = library.says("check_project_structure", project_path=str(project)).split("\n")
    assert f"Project Structure Check: {project.resolve()}" == lines[0]
    return lines[1:]


def health(library: Library, project: Path) -> str:
    """The text of a check, behind the title."""
    text = library.says("check_project_health", project_path=str(project))
    title, _, rest = text.partition("\n\n")
    assert f"Project Health Check: {project.resolve()}" == title
    return rest


class TestGuidance:
    """What is picked from the spec of project types."""

    def test_it_is_the_section_the_rows_and_the_column_of_what_was_asked_for(
        self, library: Library
    ) -> None:
        assert APP == library.says(
            "get_project_type_guidance", type="app", scale="personal", scope="full"
        )

    @pytest.mark.parametrize("kind", ["app", "workflow", "artifact"])
    def test_each_type_has_its_own_and_no_others(self, library: Library, kind: str) -> None:
        sentences = {
            "app": "An app is software.",
            "workflow": "A workflow connects systems.",
            "artifact": "An artifact is a document.",
        }
        text = library.says("get_project_type_guidance", type=kind)

        assert text.startswith(f"## Project Type Guidance: {kind}\n\n### ")
        assert [sentences[kind]] == [words for words in sentences.values() if words in text]
        assert "Scale:" not in text
        assert "Hybrids" not in text

    def test_a_heading_in_a_block_of_code_ends_nothing(self, library: Library) -> None:
        fenced = "An app is software.\n\n```sh\n# a remark\n```\n\nAfter the block.\n"
        library.write(TYPES_SPEC, TYPES.replace("An app is software.\n", fenced))

        assert "After the block." in library.says("get_project_type_guidance", type="app")

    def test_line_ends_do_not_matter(self, library: Library) -> None:
        library.write(TYPES_SPEC, b"\xef\xbb\xbf" + TYPES.replace("\n", "\r\n").encode())

        assert APP == library.says(
            "get_project_type_guidance", type="app", scale="personal", scope="full"
        )

    def test_a_spec_without_the_section_is_handed_out_whole(self, library: Library) -> None:
        text = TYPES.replace("### 2. App\n", "### 2. Application\n")
        library.write(TYPES_SPEC, text)

        expected = (
            "## Project Type Guidance: app · mvp\n\nThe spec has no section on "
            f'"app": here is the whole of it.\n\n{text}'
        )
        assert expected == library.says("get_project_type_guidance", type="app", scope="mvp")

    def test_a_row_that_is_missing_is_pointed_out(self, library: Library) -> None:
        library.write(TYPES_SPEC, TYPES.replace("`mvp`", "`tiny`").replace("### Scale", "### Size"))
        text = library.says("get_project_type_guidance", type="app", scope="mvp", scale="personal")

        assert 'The spec has no scope "mvp".' in text
        assert 'The spec has no scale "personal".' in text

    @pytest.mark.parametrize("spec", ["", "## App", "## App\n|", "## Type Implications\n## App\n"])
    def test_a_spec_of_any_shape_is_no_failure(self, library: Library, spec: str) -> None:
        library.write(TYPES_SPEC, spec)

        assert "## Project Type Guidance: app" in library.says(
            "get_project_type_guidance", type="app", scale="personal"
        )

    def test_a_missing_spec_is_named(self, library: Library) -> None:
        (library.documents / TYPES_SPEC).unlink()

        assert f'"{TYPES_SPEC}" is not there' in library.refuses(
            "get_project_type_guidance", type="app"
        )

    @pytest.mark.parametrize(
        "arguments", [{}, {"type": "library"}, {"type": "app", "scale": "community"}]
    )
    def test_wrong_arguments_are_named(self, library: Library, arguments: dict[str, Any]) -> None:
        (wrong,) = {"type", "scale"} & ({*arguments} - {"type"} or {"type"})

        assert f'argument "{wrong}"' in library.refuses("get_project_type_guidance", **arguments)


class TestStructure:
    """Eight folders and files."""

    def test_a_complete_project_passes(self, library: Library) -> None:
        lines = [*(f"✓ {item}" for item in ITEMS), "", "Result: 8/8 passed."]

        assert lines == structure(library, library.project())

    @pytest.mark.parametrize("item", ITEMS)
    def test_what_is_missing_is_named(self, library: Library, item: str) -> None:
        inside = {name: text for name, text in PROJECT.items() if not name.startswith(item)}
        files = {name: inside.get(name) for name in PROJECT}
        lines = structure(library, library.project_of("other", files))
        missing = [name for name in ITEMS if name.startswith(item)]

        assert [name for name in ITEMS if f"✗ {name} — missing" in lines] == missing
        assert f"Result: {8 - len(missing)}/8 passed. Missing: {', '.join(missing)}" == lines[-1]

    def test_an_empty_project_has_nothing(self, library: Library) -> None:
        library.projects.mkdir()

        assert structure(library, library.projects)[-1].startswith("Result: 0/8 passed. Missing: .")

    def test_a_file_is_no_folder_and_a_folder_no_file(self, library: Library) -> None:
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

    def test_this_project_is_meant_where_none_is_named(self, library: Library) -> None:
        text = library.says("check_project_structure")

        assert text.startswith(f"Project Structure Check: {library.root.resolve()}\n")
        assert text == library.says("check_project_structure", project_path="")

    @pytest.mark.parametrize("tool", ["check_project_structure", "check_project_health"])
    @pytest.mark.parametrize("path", ["nowhere", "README", "~nobody-of-that-name", "x" * 5000])
    def test_what_is_no_directory_is_no_project(
        self, library: Library, tool: str, path: str
    ) -> None:
        text = library.refuses(tool, project_path=path)

        assert text.startswith('argument "project_path" is "')
        assert "which is not a directory" in text
        assert text.endswith("or leave it out for the whole of it")

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
    def test_of_what_is_outside_nothing_is_told(
        self, library: Library, tool: str, path: str
    ) -> None:
        """Neither which files are there, nor whether there is a folder at all."""
        (library.folder / "home/mine").mkdir(parents=True, exist_ok=True)
        beside = library.folder / "beside"
        beside.mkdir(exist_ok=True)
        (beside / "README.md").write_text("# Beside\n", encoding="utf-8")
        library.projects.mkdir()
        (library.projects / "link").symlink_to(beside)

        assert library.refuses(tool, project_path=path) == (
            f'argument "project_path" is "{path}", which is outside of the project that this '
            "server belongs to: give a folder in the project, or leave it out for the whole of it"
        )


class TestHealth:
    """Files, front matter and sections."""

    def test_a_complete_project_is_healthy(self, library: Library) -> None:
        assert HEALTHY == health(library, library.project())

    def test_an_empty_project_is_no_failure(self, library: Library) -> None:
        library.projects.mkdir()
        text = health(library, library.projects)

        for name in ("docs/intent.md", "docs/brief.md", "status.md", ".claude/CLAUDE.md"):
            assert 2 == text.count(f"✗ {name} — file missing\n")
        assert text.endswith("Overall: needs attention (0/22 checks passed)")

    @pytest.mark.parametrize(
        ("text", "state"),
        [
            ("# No block\n", "no frontmatter"),
            ("", "no frontmatter"),
            ("---\n---\n", "no frontmatter"),
            ("---\n# a remark\n---\n", "no frontmatter"),
            ("---\n{}\n---\n", "no frontmatter"),
            (" ---\na: 1\n---\n", "no frontmatter"),
            ("----\na: 1\n----\n", "no frontmatter"),
            ("---\na: 1\n", "invalid frontmatter"),
            ("---\na: [\n---\n", "invalid frontmatter"),
            ("---\n- a\n---\n", "invalid frontmatter"),
            ("---\njust text\n---\n", "invalid frontmatter"),
            ("---\na: \x07\n---\n", "invalid frontmatter"),
            ("---\n? [a]\n: b\n---\n", "invalid frontmatter"),
            ("---\na: " + "[" * 60_000 + "\n---\n", "invalid frontmatter"),
            ("---\n" + "- " * 9_000 + "\n---\n", "invalid frontmatter"),
            ("---\na: !!python/object:os.system x\n---\n", "valid"),
            ("---\nyes: no\ndate: 2026-99-99\n---\n", "valid"),
            ("---  \na: 1\n---\t\n", "valid"),
            ("\ufeff---\r\na: 1\r\n---\r\n", "valid"),
        ],
    )
    def test_front_matter_is_a_block_with_at_least_one_key(
        self, library: Library, text: str, state: str
    ) -> None:
        project = library.project(docs__intent_md=text)
        mark = "✓" if state == "valid" else "✗"

        assert f"{mark} docs/intent.md — {state}\n" in health(library, project)
        assert f"{mark} docs/intent.md — {state}\n" in health(library, project)

    @pytest.mark.parametrize(
        "heading",
        [
            *("## Decisions", "# decisions log", "###### DECISIONS", "##\tDecisions ##"),
            *("## Decision Log", "##   Decisions/Choices"),
        ],
    )
    def test_a_heading_counts_on_any_level_in_any_case_with_words_behind_it(
        self, library: Library, heading: str
    ) -> None:
        project = library.project(docs__brief_md=BRIEF.replace("## Decisions", heading))

        assert "✓ docs/brief.md: Decisions\n" in health(library, project)

    @pytest.mark.parametrize(
        "heading",
        [
            *("##Decisions", "## Undecided Decisions", "Decisions", "## Decisionsmaking"),
            *("##\nDecisions", " ## Decisions", "```\n## Decisions\n```", "~~~~\n~~~\n# Decisions"),
            "####### Decisions",
        ],
    )
    def test_what_only_looks_like_a_heading_does_not(self, library: Library, heading: str) -> None:
        project = library.project(docs__brief_md=BRIEF.replace("## Decisions", heading))

        assert "✗ docs/brief.md: Decisions — missing\n" in health(library, project)
        assert "Sections: 9/10\n" in health(library, project)

    def test_a_heading_in_the_front_matter_is_a_remark(self, library: Library) -> None:
        claude = "---\n# Context Map\na: 1\n---\n"
        project = library.project_of("other", {".claude/CLAUDE.md": claude})

        assert "✗ .claude/CLAUDE.md: Context Map or Orientation — missing" in health(
            library, project
        )

    @pytest.mark.parametrize(
        ("name", "old", "new"),
        [
            ("docs/intent.md", (INTENT, "## Outcome"), "## Desired Outcome"),
            ("docs/intent.md", (INTENT, "## Problem"), "## Problem/Opportunity"),
            (".claude/CLAUDE.md", (CLAUDE, "## Context Map"), "# Orientation"),
        ],
    )
    def test_other_words_for_a_heading_count(
        self, library: Library, name: str, old: tuple[str, str], new: str
    ) -> None:
        text, words = old
        project = library.project_of("other", {name: text.replace(words, new)})

        assert "Overall: healthy" in health(library, project)

    def test_the_status_may_lie_in_docs(self, library: Library) -> None:
        project = library.project(status_md=None, docs__status_md=PROJECT["status.md"])
        text = health(library, project)

        assert "✓ docs/status.md — valid\n" in text
        assert "✓ docs/status.md: Current State\n" in text

    def test_a_folder_in_place_of_a_file_is_no_failure(self, library: Library) -> None:
        project = library.project(docs__brief_md=None)
        (project / "docs/brief.md").mkdir()
        text = health(library, project)

        assert "✗ docs/brief.md — not a file\n" in text
        assert "Sections: 5/10\n" in text

    def test_a_change_is_seen_at_the_next_call(self, library: Library) -> None:
        project = library.project()
        before = health(library, project)
        (project / "README.md").unlink()

        assert HEALTHY == before
        assert "File presence: 7/8\n" in health(library, project)
