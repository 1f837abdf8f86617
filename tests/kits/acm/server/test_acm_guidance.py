"""Guidance for a type of project: excerpts of the specification, and missing parts."""

import pytest
from acm_projects import TYPES, TYPES_SPEC, Library

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


class TestGuidance:
    """Excerpts of the spec of project types."""

    def test_guidance_is_the_requested_section_rows_and_column(self, library: Library) -> None:
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

    def test_a_spec_without_the_section_is_handed_out_whole(self, library: Library) -> None:
        text = TYPES.replace("### 2. App\n", "### 2. Application\n")
        library.write(TYPES_SPEC, text)

        expected = (
            '## Project Type Guidance: app · mvp\n\nThe spec has no section on "app": the full '
            f"text follows.\n\n{text}"
        )
        assert expected == library.says("get_project_type_guidance", type="app", scope="mvp")

    def test_a_row_that_is_missing_is_pointed_out(self, library: Library) -> None:
        library.write(TYPES_SPEC, TYPES.replace("`mvp`", "`tiny`").replace("### Scale", "### Size"))
        text = library.says("get_project_type_guidance", type="app", scope="mvp", scale="personal")

        assert 'The spec has no scope "mvp".' in text
        assert 'The spec has no scale "personal".' in text

    @pytest.mark.parametrize("spec", ["", "## App", "## App\n|", "## Type Implications\n## App\n"])
    def test_a_spec_of_any_shape_is_accepted(self, library: Library, spec: str) -> None:
        library.write(TYPES_SPEC, spec)

        assert "## Project Type Guidance: app" in library.says(
            "get_project_type_guidance", type="app", scale="personal"
        )
