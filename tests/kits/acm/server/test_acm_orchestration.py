"""Stages, reviews and transitions: the documents verbatim, and obstacles to a step."""

from pathlib import Path
from typing import Any

import pytest
from acm_projects import BRIEF, REVIEWS, STAGES, STATUS, TRANSITIONS, Library

MET = """\
## Transition Validation

Transition: discover → design
Status file: status.md
Stage: Discover
Phase: review
Status: not set
Brief: docs/brief.md (status: Approved)
✓ Prerequisites met
Checked: stage in status.md, status of docs/brief.md
Not checked: phase, review results and the other exit criteria of the stage

---

"""
IN_DESIGN = "---\nstage: design\n---\n"


def validated(library: Library, project: Path, transition: str = "discover_to_design") -> str:
    """Return the answer to a validation of a project."""
    return library.says(
        "get_transition_prompt", transition=transition, validate=True, project_path=str(project)
    )


def refused(library: Library, project: Path) -> str:
    """Return the message of a validation that must fail."""
    return library.refuses(
        "get_transition_prompt",
        transition="discover_to_design",
        validate=True,
        project_path=str(project),
    )


class TestDocuments:
    """The returned document is the file, byte by byte."""

    @pytest.mark.parametrize(("key", "name"), REVIEWS.items())
    def test_a_review_is_its_prompt(
        self, library: Library, key: tuple[str, str], name: str
    ) -> None:
        expected = (library.documents / name).read_text(encoding="utf-8")

        assert expected == library.says("get_review_prompt", stage=key[0], phase=key[1])

    @pytest.mark.parametrize("more", [{}, {"validate": False}, {"project_path": "/nowhere"}])
    @pytest.mark.parametrize(("transition", "name"), TRANSITIONS.items())
    def test_a_transition_without_validation_is_its_prompt_and_looks_at_no_project(
        self, library: Library, transition: str, name: str, more: dict[str, Any]
    ) -> None:
        expected = (library.documents / name).read_text(encoding="utf-8")

        assert expected == library.says("get_transition_prompt", transition=transition, **more)

    @pytest.mark.parametrize(
        "data",
        [
            b"one\r\ntwo\r\n",
            b"\xef\xbb\xbf# Marked\n",
            b"no end of line",
            b"\n\n  spaces  \n\n",
            b"",
            "Grüße 😀\n".encode(),
        ],
    )
    def test_a_document_is_returned_unchanged(self, library: Library, data: bytes) -> None:
        library.write(STAGES["design"], data)

        assert data == library.says("get_stage", stage="design").encode()

    def test_invalid_utf8_is_shown_as_such(self, library: Library) -> None:
        library.write(STAGES["design"], b"caf\xe9\n")

        assert "caf\ufffd\n" == library.says("get_stage", stage="design")

    def test_a_change_is_seen_at_the_next_call(self, library: Library) -> None:
        before = library.says("get_stage", stage="design")
        library.write(STAGES["design"], "New.\n")

        assert "New.\n" != before
        assert "New.\n" == library.says("get_stage", stage="design")

    def test_a_long_document_is_cut_with_a_note_on_the_rest(self, library: Library) -> None:
        whole = "word " * 20_000
        library.write(STAGES["design"], whole)
        text = library.says("get_stage", stage="design")
        shown, _, note = text.partition("\n\n[cut here: ")

        assert whole.startswith(shown)
        left = f"{len(whole) - len(shown):,}"
        assert f'{left} more characters in "{STAGES["design"]}"]\n' == note


class TestTrouble:
    """Missing documents and wrong arguments."""

    @pytest.mark.parametrize(
        ("tool", "arguments", "kind", "name"),
        [
            ("get_stage", {"stage": "design"}, "stage spec", STAGES["design"]),
            (
                "get_review_prompt",
                {"stage": "design", "phase": "internal"},
                "review prompt",
                REVIEWS["design", "internal"],
            ),
            (
                "get_transition_prompt",
                {"transition": "design_to_develop"},
                "transition prompt",
                TRANSITIONS["design_to_develop"],
            ),
        ],
    )
    def test_a_missing_document_is_named_by_kind_and_place(
        self, library: Library, tool: str, arguments: dict[str, Any], kind: str, name: str
    ) -> None:
        (library.documents / name).unlink()

        expected = (
            f'the {kind} "{name}" does not exist: add the file, or set ACM_ROOT to documents '
            "that contain it"
        )
        assert expected == library.refuses(tool, **arguments)

    def test_a_folder_or_an_outside_link_is_not_a_document(self, library: Library) -> None:
        path = library.documents / STAGES["design"]
        path.unlink()
        path.mkdir()
        folder = library.refuses("get_stage", stage="design")
        path.rmdir()
        path.symlink_to(library.registry / "inventory.json")

        assert folder.startswith(f'the stage spec "{STAGES["design"]}" is not a file: ')
        assert " is a symbolic link to a path outside its directory: " in library.refuses(
            "get_stage", stage="design"
        )

    def test_a_link_within_the_documents_is_followed(self, library: Library) -> None:
        path = library.documents / STAGES["design"]
        path.unlink()
        path.symlink_to(STAGES["develop"])

        assert STAGES["develop"] in library.says("get_stage", stage="design")

    def test_deliver_is_refused_with_the_supported_stages(self, library: Library) -> None:
        expected = (
            'Stage "deliver" is not yet supported. Supported stages: discover, design, develop.'
        )

        assert expected == library.refuses("get_stage", stage="deliver")
        assert expected == library.refuses("get_review_prompt", stage="deliver", phase="internal")

    @pytest.mark.parametrize("stage", ["desing", "DESIGN"])
    def test_a_misspelled_stage_gets_the_nearest_name(self, library: Library, stage: str) -> None:
        refusal = library.refuses("get_stage", stage=stage)

        assert refusal.startswith(f'argument "stage" is "{stage}": expected one of "discover", ')
        assert refusal.endswith('; did you mean "design"?')


class TestValidation:
    """Validation of a project for its next stage."""

    def test_a_complete_project_may_continue(self, library: Library) -> None:
        prompt = (library.documents / TRANSITIONS["discover_to_design"]).read_text(encoding="utf-8")

        assert MET + prompt == validated(library, library.project())

    @pytest.mark.parametrize("stage", ["discover", "DISCOVER", "' Discover '"])
    def test_case_and_spaces_of_a_stage_do_not_count(self, library: Library, stage: str) -> None:
        project = library.project(status_md=f"---\nstage: {stage}\n---\n")

        assert "✓ Prerequisites met" in validated(library, project)

    @pytest.mark.parametrize(
        ("status", "issue"),
        [
            ("---\nstage: Design\n---\n", 'stage is Design, expected "discover"'),
            ("---\nstage: on\n---\n", 'stage is on, expected "discover"'),
            ("---\nphase: x\n---\n", 'stage is not set, expected "discover"'),
            ("---\nstage: [a]\n---\n", 'stage is not a string, expected "discover"'),
            ("# Status\n", "(status.md has no frontmatter)"),
            ("---\nstage: [\n---\n", "(status.md has invalid frontmatter)"),
            ("---\nstage: discover\n", "(status.md has invalid frontmatter)"),
            ("---\n---\n", "(status.md has no frontmatter)"),
            ("---\n- discover\n---\n", "(status.md has invalid frontmatter)"),
        ],
    )
    def test_another_stage_is_an_issue_and_no_failure(
        self, library: Library, status: str, issue: str
    ) -> None:
        text = validated(library, library.project(status_md=status))

        assert "✗ Prerequisites not met:\n- stage is " in text
        assert issue in text
        assert text.endswith("grüße.\n")

    def test_the_second_transition_requires_the_design(self, library: Library) -> None:
        none = validated(library, library.project("one", status_md=IN_DESIGN), "design_to_develop")
        folder = library.project("two", status_md=IN_DESIGN)
        (folder / "docs/design.md").mkdir()

        assert "✗ Prerequisites not met:\n- docs/design.md does not exist\nChecked: " in none
        assert "- docs/design.md is not a file\n" in validated(library, folder, "design_to_develop")

    @pytest.mark.parametrize("status", ["draft", "In-Review", "complete", "[approved]", ""])
    def test_design_requires_an_approved_brief(self, library: Library, status: str) -> None:
        brief = BRIEF.replace("Approved", status)
        shown = {"[approved]": "not a string", "": "not set"}.get(status, status)
        text = validated(library, library.project(docs__brief_md=brief))

        issue = f'- status of docs/brief.md is {shown}, expected "approved"\n'
        assert f"✗ Prerequisites not met:\n{issue}" in text

    def test_the_status_may_be_in_docs(self, library: Library) -> None:
        project = library.project(status_md=None, docs__status_md=STATUS)

        assert "Status file: docs/status.md\n" in validated(library, project)

    def test_the_first_brief_of_the_inbox_is_used_and_the_others_are_named(
        self, library: Library
    ) -> None:
        project = library.project(docs__brief_md=None)
        for name in ("b-brief.md", "a-brief.md", ".c-brief.md", "d-brief.txt", "brief.md"):
            (project / "docs/inbox" / name).write_text(BRIEF, encoding="utf-8")
        text = validated(library, project)

        assert "Brief: docs/inbox/a-brief.md (status: Approved)\n" in text
        assert "Other briefs, not checked: docs/inbox/b-brief.md\n" in text

    def test_without_status_or_brief_nothing_can_be_validated(self, library: Library) -> None:
        no_status = refused(library, library.project("one", status_md=None))
        no_brief = refused(library, library.project("two", docs__brief_md=None))

        assert no_status.startswith("cannot validate: no status.md")
        assert "no readable docs/brief.md or docs/inbox/*-brief.md" in no_brief

    def test_a_status_that_is_a_folder_or_leads_out_is_named(self, library: Library) -> None:
        folder = library.project("one", status_md=None)
        (folder / "status.md").mkdir()
        leaving = library.project("two", docs__brief_md=None)
        (leaving / "docs/brief.md").symlink_to(library.documents / STAGES["design"])

        expected = 'cannot validate: "status.md" is not a file; fix it, then call again'
        assert expected == refused(library, folder)
        assert '"docs/brief.md" is a symbolic link to a path outside its directory' in refused(
            library, leaving
        )

    @pytest.mark.parametrize(
        "path", ["nowhere", "status.md", "a\0b", "~\0", "~nobody-of-that-name"]
    )
    def test_a_project_must_be_a_directory(self, library: Library, path: str) -> None:
        text = library.refuses(
            "get_transition_prompt",
            transition="discover_to_design",
            validate=True,
            project_path=path,
        )

        assert text.startswith('argument "project_path" is "')
        assert "which is not a directory" in text

    @pytest.mark.parametrize("given", [{}, {"project_path": ""}, {"project_path": "."}])
    def test_the_default_is_this_project(self, library: Library, given: dict[str, str]) -> None:
        text = library.refuses(
            "get_transition_prompt", transition="discover_to_design", validate=True, **given
        )

        assert "no status.md in the project root" in text

    def test_a_relative_path_begins_at_this_project(self, library: Library) -> None:
        library.project("near")

        assert "✓ Prerequisites met" in library.says(
            "get_transition_prompt",
            transition="discover_to_design",
            validate=True,
            project_path="projects/near",
        )

    def test_values_of_others_break_no_line_and_no_limit(self, library: Library) -> None:
        status = f'---\nstage: "a\\nb\\e[31m"\nphase: {"x" * 4000}\n---\n'
        library.write(TRANSITIONS["discover_to_design"], "p" * 50_000)
        text = validated(library, library.project(status_md=status))

        assert "Stage: a b\\x1b[31m\n" in text
        assert f"Phase: {'x' * 200}…\n" in text
        assert "[cut here: " in text
