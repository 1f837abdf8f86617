"""The check of a project's health: its files, their front matter and their headings."""

from pathlib import Path

import pytest
from acm_projects import BRIEF, CLAUDE, INTENT, PROJECT, Library

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


def health(library: Library, project: Path) -> str:
    """Return the text of a check without the title."""
    text = library.says("check_project_health", project_path=str(project))
    title, _, rest = text.partition("\n\n")
    assert f"Project Health Check: {project.resolve()}" == title
    return rest


class TestHealth:
    """Files, front matter and sections."""

    def test_an_empty_project_is_not_a_failure(self, library: Library) -> None:
        library.projects.mkdir()
        text = health(library, library.projects)

        for name in ("docs/intent.md", "docs/brief.md", "status.md", ".claude/CLAUDE.md"):
            assert 2 == text.count(f"✗ {name} — file missing\n")
        assert text.endswith("Overall: needs attention (0/22 checks passed)")

    @pytest.mark.parametrize(
        ("text", "state"),
        [
            ("# No block\n", "no frontmatter"),
            ("---\n---\n", "no frontmatter"),
            ("---\n{}\n---\n", "no frontmatter"),
            ("----\na: 1\n----\n", "no frontmatter"),
            ("---\na: 1\n", "invalid frontmatter"),
            ("---\n- a\n---\n", "invalid frontmatter"),
            ("---\na: \x07\n---\n", "invalid frontmatter"),
            ("---\na: " + "[" * 60_000 + "\n---\n", "invalid frontmatter"),
            ("---\n" + "- " * 9_000 + "\n---\n", "invalid frontmatter"),
            ("---\na: !!python/object:os.system x\n---\n", "valid"),
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
    def test_a_false_heading_does_not_count(self, library: Library, heading: str) -> None:
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
            ("docs/intent.md", (INTENT, "## Outcome"), "## Outcomes"),
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

    def test_the_status_may_be_in_docs(self, library: Library) -> None:
        project = library.project(status_md=None, docs__status_md=PROJECT["status.md"])
        text = health(library, project)

        assert "✓ docs/status.md — valid\n" in text
        assert "✓ docs/status.md: Current State\n" in text
