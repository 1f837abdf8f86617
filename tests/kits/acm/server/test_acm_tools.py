"""The tools of the kit acm."""

from pathlib import Path
from typing import Any

import pytest
from acm_projects import (
    CLAUDE_STUBS,
    KITS,
    LEVELS,
    PROJECT,
    SPECS,
    STUBS,
    TYPES,
    TYPES_SPEC,
    Library,
    lay_registry,
    on_server,
    variables,
)
from driving import create_project
from wire import running

from ralphgen.kits.acm import TOOLS

LISTED = [tool.name for tool in TOOLS]


class TestTools:
    """The tools of a session."""

    def test_the_server_has_its_own_version(self, library: Library) -> None:
        with running(library.root, "acm") as wire:
            assert {"name": "acm", "version": "1.0.0"} == wire.shake_hands()["serverInfo"]

    def test_a_session_learns_of_each_tool(self, library: Library) -> None:
        text = library.driver.client.instructions or ""

        assert [name for name in LISTED if f"{name}: " not in text] == []
        assert len(text) <= 2_000

    @pytest.mark.parametrize("recipe", ["braindump", "discuss", "opus_review", "interactive"])
    def test_every_recipe_has_them(self, library: Library, recipe: str) -> None:
        with on_server(library.root, variables(library.folder), recipe) as driver:
            assert LISTED == driver.names()

    def test_a_tool_removed_by_a_discipline_is_not_mentioned(self, tmp_path: Path) -> None:
        config = f'{KITS}[disciplines.backend]\ndisable = ["acm:query_capabilities"]\n'
        root = create_project(tmp_path / "project", config=config)
        lay_registry(tmp_path / "registry")
        with on_server(root, variables(tmp_path), discipline="backend") as driver:
            names = driver.names()
            told_of = driver.client.instructions or ""
            refusal = driver.refusal("get_capability_detail", capability_id="nothing")

        assert [name for name in LISTED if name != "query_capabilities"] == names
        assert "query_capabilities" not in told_of
        assert 'Capability "nothing" not found: check the spelling' == refusal


CASES = [
    *(("get_artifact_spec", {"artifact": value}, name) for value, name in SPECS.items()),
    *(("get_artifact_stub", {"artifact": value}, name) for value, name in STUBS.items()),
    *(
        ("get_artifact_stub", {"artifact": "claude_md", "project_type": value}, name)
        for value, name in CLAUDE_STUBS.items()
    ),
    *(("get_context_spec", {"level": value}, name) for value, name in LEVELS.items()),
    ("get_rules_spec", {}, SPECS["rules"]),
]
KINDS = {
    "get_artifact_spec": "artifact spec",
    "get_artifact_stub": "stub",
    "get_context_spec": "context spec",
    "get_rules_spec": "rules spec",
}


@pytest.mark.parametrize(("tool", "arguments", "name"), CASES)
def test_each_value_returns_its_document_or_names_the_missing_one(
    library: Library, tool: str, arguments: dict[str, Any], name: str
) -> None:
    path = library.documents / name
    expected = path.read_bytes().decode()

    assert expected == library.says(tool, **arguments)
    path.unlink()
    assert library.refuses(tool, **arguments).startswith(
        f'the {KINDS[tool]} "{name}" does not exist'
    )


def test_the_stub_of_claude_md_defaults_to_an_app(library: Library) -> None:
    assert CLAUDE_STUBS["app"] in library.says("get_artifact_stub", artifact="claude_md")


def test_other_stubs_ignore_the_project_type(library: Library) -> None:
    text = library.says("get_artifact_stub", artifact="brief", project_type="workflow")

    assert STUBS["brief"] in text


def test_a_document_with_two_names_is_the_same_under_both(library: Library) -> None:
    design = library.says("get_stage", stage="design")
    rules = library.says("get_rules_spec")

    assert design == library.says("get_artifact_spec", artifact="design")
    assert rules == library.says("get_artifact_spec", artifact="rules")


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("get_artifact_spec", {}, 'argument "artifact" is missing'),
        ("get_artifact_spec", {"artifact": "claude_md"}, '"folder_structure"'),
        ("get_artifact_spec", {"artifact": "BRIEF"}, 'did you mean "brief"?'),
        ("get_artifact_stub", {"artifact": "backlog"}, '"rules_constraints"'),
        ("get_artifact_stub", {"artifact": "brief", "project_type": "library"}, '"workflow"'),
        ("get_context_spec", {}, 'argument "level" is missing'),
        ("get_context_spec", {"level": "../../etc/passwd"}, '"global", "project"'),
        ("get_rules_spec", {"level": "project"}, "this tool takes no arguments"),
    ],
)
def test_wrong_arguments_are_named(
    library: Library, tool: str, arguments: dict[str, Any], named: str
) -> None:
    assert named in library.refuses(tool, **arguments)


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
