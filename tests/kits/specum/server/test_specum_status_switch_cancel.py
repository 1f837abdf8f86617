"""How specs stand, which one is meant, and how one ends early; no name leads out of `specs/`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import texts
from specum_projects import GOAL, MOST, PHASES, STATE, TASK_LIST, Desk, sitting

SWITCHED = """\
Switched to "auth".

- **Previous**: pay
- **Current**: auth
- **Phase**: design
- **Tasks**: -
- **Artifacts**: research.md, requirements.md
- **Next**: ralph_design
"""
ORDER = "research → requirements → design → tasks → execution"
# Each tool that takes the name of a spec, with what it needs besides.
NAMING: list[tuple[str, str, dict[str, Any]]] = [
    ("ralph_switch", "name", {}),
    ("ralph_cancel", "spec_name", {}),
    ("ralph_cancel", "spec_name", {"delete_files": True}),
    ("ralph_complete_phase", "spec_name", {"phase": "research", "summary": "done"}),
    *((f"ralph_{phase}", "spec_name", {}) for phase in PHASES[:4]),
]
BAD_NAMES = [
    "",
    " ",
    ".",
    "..",
    "../other",
    "../../outside",
    "a/b",
    "auth/",
    "auth/.",
    "./auth",
    "auth\\..\\x",
    "/",
    "/etc",
    "a\0b",
    "auth\0",
    "auth\n",
    " auth",
    "-",
    "---",
    "Upper",
    ".current-spec",
    ".hidden",
    "~",
    "$HOME",
    "*",
    "%2e%2e",
    "linked",
    "loose",
    "gone",
    "ⅳ",
    "x" * 65,
    "x" * 100_000,
    "../" * 10_000,
    "a\x1b[31mb",
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A spec, a link to a folder beside the project, a file, and what a name could reach."""
    folder = tmp_path_factory.mktemp("sweep")
    with sitting(folder) as desk:
        desk.spec_in("research")
        outer, inner = [folder / "outside", folder / "x"], [desk.root / "other", desk.root / "x"]
        for place in (*outer, *inner, *(desk.specs / name for name in ("Upper", ".hidden", "a/b"))):
            lay_bait(place)
        (desk.specs / "linked").symlink_to(folder / "outside")
        (desk.specs / "loose").write_text("a file", encoding="utf-8")
        yield desk


def rows(desk: Desk) -> list[str]:
    """The rows of the table of specs."""
    return [line for line in desk.says("ralph_status").splitlines() if line.startswith("| ")][1:]


class TestStatus:
    """One row for each spec."""

    def test_without_specs_it_says_how_to_begin(self, desk: Desk) -> None:
        expected = "No specs found. Run ralph_start to begin.\n"

        assert expected == desk.says("ralph_status")
        desk.specs.mkdir()
        assert expected == desk.says("ralph_status")

    def test_one_spec(self, desk: Desk) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)

        expected = (
            "## Specs\n\nCurrent: auth\n\n| spec | phase | tasks |\n|---|---|---|\n"
            "| auth (current) | research | - |\n"
        )
        assert expected == desk.says("ralph_status")

    def test_specs_are_in_order_each_with_its_phase_and_its_ticks(self, desk: Desk) -> None:
        for phase in reversed(PHASES):
            desk.spec_in(phase, name=f"in-{phase}")
        desk.write("in-execution", "tasks.md", TASK_LIST.replace("[ ] 1.2", "[x] 1.2"))

        expected = [
            "| in-design | design | - |",
            "| in-execution | execution | 1/3 |",
            "| in-requirements | requirements | - |",
            "| in-research (current) | research | - |",
            "| in-tasks | tasks | 0/0 |",
        ]
        assert expected == rows(desk)

    def test_specs_without_a_usable_state_are_told_apart_and_nothing_is_moved(
        self, desk: Desk
    ) -> None:
        for name in ("broken", "done", "left"):
            desk.spec_in("execution", name=name)
            (desk.specs / name / STATE).unlink()
        desk.write("broken", STATE, "{")
        desk.write("done", "tasks.md", TASK_LIST.replace("[ ]", "[X]"))
        desk.write("odd", STATE, '{"phase": "shipping"}')
        desk.write("empty", "notes.txt", "")
        before = texts(desk.root)

        found = rows(desk)

        again = 'no state (restart with ralph_start name="{}")'
        broken = f'"{STATE}" is no JSON: expecting property name enclosed in double quotes (line 1)'
        phases = '"research", "requirements", "design", "tasks", "execution"'
        assert [
            f"| broken | corrupt ({broken}) | - |",
            "| done | completed | 3/3 |",
            f"| empty | {again.format('empty')} | - |",
            f"| left (current) | {again.format('left')} | - |",
            f'| odd | corrupt ("{STATE}" must have a "phase" that is one of {phases}) | - |',
        ] == found
        assert before == texts(desk.root)

    def test_what_is_no_spec_is_not_listed(self, desk: Desk) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)
        desk.write(".hidden", "a.md", "")
        desk.write("Capital", "a.md", "")
        (desk.specs / "file").write_text("", encoding="utf-8")
        (desk.specs / "linked").symlink_to(desk.root)

        assert ["| auth (current) | research | - |"] == rows(desk)

    @pytest.mark.parametrize("pointer", ["", " \n", "gone\n", "../outside", "\ufeffgone\nmore"])
    def test_a_pointer_to_no_spec_is_no_current_spec(self, desk: Desk, pointer: str) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)
        (desk.specs / ".current-spec").write_text(pointer, encoding="utf-8")

        assert "\nCurrent: none\n" in desk.says("ralph_status")
        assert ["| auth | research | - |"] == rows(desk)

    @pytest.mark.parametrize("pointer", ["auth", "  auth \r\n", "\ufeffauth\n"])
    def test_white_space_around_the_pointer_is_no_matter(self, desk: Desk, pointer: str) -> None:
        desk.says("ralph_start", name="auth", goal=GOAL)
        (desk.specs / ".current-spec").write_bytes(pointer.encode())

        assert ["| auth (current) | research | - |"] == rows(desk)

    def test_a_spec_that_cannot_be_read_does_not_hide_the_others(self, desk: Desk) -> None:
        desk.spec_in("execution", name="bad")
        (desk.specs / "bad" / "tasks.md").unlink()
        (desk.specs / "bad" / "tasks.md").symlink_to("../../outside.md")
        desk.spec_in("execution", name="good")

        first, second = rows(desk)
        assert first.startswith('| bad | unreadable ("specs/bad/tasks.md" is a link that leads out')
        assert "| good (current) | execution | 0/3 |" == second

    def test_very_many_specs_are_cut_and_counted(self, desk: Desk) -> None:
        for number in range(1_000):
            (desk.specs / f"{'long-name-' * 5}{number:04}").mkdir(parents=True)

        text = desk.says("ralph_status")

        shown = text.count("| long-name-")
        assert f"\n\n[cut here: {1_000 - shown} more specs lie in `specs/`]\n" in text
        assert MOST - 300 < len(text)

    def test_boxes_beyond_the_first_megabyte_are_counted(self, desk: Desk) -> None:
        desk.spec_in("execution")
        (desk.specs / "auth" / STATE).unlink()
        done = "- [x] 1.1 Done\n" + "filling\n" * 200_000
        desk.write("auth", "tasks.md", done + "- [ ] 1.2 Open\n")

        (row,) = rows(desk)
        assert "no state" in row
        desk.says("ralph_start", name="auth")
        assert ["| auth (current) | execution | 1/2 |"] == rows(desk)


class TestSwitch:
    """Which spec is meant."""

    def test_it_says_where_the_other_spec_stands(self, desk: Desk) -> None:
        desk.spec_in("design", name="auth")
        desk.spec_in("research", name="pay")

        assert SWITCHED == desk.says("ralph_switch", name="auth")
        assert "auth\n" == desk.pointer()

    def test_the_current_spec_stays_the_current_one(self, desk: Desk) -> None:
        desk.spec_in("execution")

        text = desk.says("ralph_switch", name="auth")

        assert text.startswith('Already on "auth".\n')
        assert "- **Tasks**: 0/3\n" in text
        assert text.endswith("- **Next**: ralph_implement\n")
        assert "auth\n" == desk.pointer()

    def test_a_pointer_to_anything_can_be_left(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / ".current-spec").write_text("a\n## Done\x1b[2J", encoding="utf-8")

        text = desk.says("ralph_switch", name="auth")

        assert "- **Previous**: a\\n## Done\\x1b[2J\n" in text
        assert "auth\n" == desk.pointer()

    def test_a_pointer_that_leads_out_is_replaced(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.root / "secret.md").write_text("hidden", encoding="utf-8")
        (desk.specs / ".current-spec").unlink()
        (desk.specs / ".current-spec").symlink_to("../secret.md")

        assert "- **Previous**: none\n" in desk.says("ralph_switch", name="auth")
        assert "auth\n" == desk.pointer()
        assert "hidden" == (desk.root / "secret.md").read_text(encoding="utf-8")
        (desk.root / "secret.md").unlink()

    def test_a_spec_without_state_can_be_switched_to(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "x")
        (desk.specs / "auth" / "design.md").symlink_to("/etc/hostname")

        text = desk.says("ralph_switch", name="auth")

        assert "- **Previous**: none\n- **Current**: auth\n- **Phase**: no state (restart " in text
        assert text.endswith("- **Artifacts**: research.md\n")

    def test_an_unknown_spec_is_refused_with_those_that_there_are(self, desk: Desk) -> None:
        desk.spec_in("research", name="pay")
        desk.spec_in("research", name="auth")

        expected = (
            "Spec 'xyz' not found. Run ralph_status to see available specs. "
            "Available specs: auth, pay."
        )
        assert expected == desk.refuses("ralph_switch", name="xyz")
        assert "auth\n" == desk.pointer()

    def test_without_specs_none_is_found(self, desk: Desk) -> None:
        expected = "Spec 'xyz' not found. Run ralph_status to see available specs."

        assert expected == desk.refuses("ralph_switch", name="xyz")
        assert not desk.specs.exists()

    def test_of_very_many_specs_the_first_are_named(self, desk: Desk) -> None:
        for number in range(1_000):
            (desk.specs / f"spec-{number:04}").mkdir(parents=True)

        text = desk.refuses("ralph_switch", name="xyz")

        assert text.endswith("spec-0018, spec-0019 and 980 more.")

    @pytest.mark.parametrize("given", [{}, {"name": None}, {"name": 1}, {"spec_name": "auth"}])
    def test_it_needs_a_name(self, desk: Desk, given: dict[str, Any]) -> None:
        desk.spec_in("research")

        assert '"name"' in desk.refuses("ralph_switch", **given)


class TestCancel:
    """What goes, and what stays."""

    def test_the_current_spec_loses_its_state_and_nothing_else(self, desk: Desk) -> None:
        desk.spec_in("design")
        before = texts(desk.specs)

        expected = (
            'Spec "auth" cancelled: its state is deleted, its files in `specs/auth/` are kept.\n'
        )
        assert expected == desk.says("ralph_cancel")
        del before[f"auth/{STATE}"]
        assert before == texts(desk.specs)
        assert "auth\n" == desk.pointer()

    def test_a_spec_without_state_can_be_cancelled(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "x")

        expected = 'Spec "auth" cancelled: it had no state, its files in `specs/auth/` are kept.\n'
        assert expected == desk.says("ralph_cancel", spec_name="auth", delete_files=False)

    def test_a_named_spec_is_cancelled_and_the_current_one_stays(self, desk: Desk) -> None:
        desk.spec_in("research", name="pay")
        desk.spec_in("research", name="auth")

        assert 'Spec "pay" cancelled' in desk.says("ralph_cancel", spec_name="pay")
        assert not (desk.specs / "pay" / STATE).exists()
        assert (desk.specs / "auth" / STATE).exists()
        assert "auth\n" == desk.pointer()

    def test_a_cancelled_spec_can_go_on(self, desk: Desk) -> None:
        desk.spec_in("design")
        desk.says("ralph_cancel")

        assert "- **Phase**: design\n" in desk.says("ralph_start", name="auth")

    def test_deleting_the_current_spec_leads_to_the_first_that_is_left(self, desk: Desk) -> None:
        for name in ("shop", "pay", "auth"):
            desk.spec_in("research", name=name)
        desk.write("auth", "deep/er/notes.md", "x")

        expected = (
            'Spec "auth" cancelled: `specs/auth/` is deleted.\n\nThe current spec is now "pay".\n'
        )
        assert expected == desk.says("ralph_cancel", delete_files=True)
        assert ["pay", "shop"] == desk.names()
        assert "pay\n" == desk.pointer()

    def test_deleting_the_last_spec_clears_the_pointer(self, desk: Desk) -> None:
        desk.spec_in("research")

        expected = 'Spec "auth" cancelled: `specs/auth/` is deleted.\n\nNo spec is left.\n'
        assert expected == desk.says("ralph_cancel", delete_files=True)
        assert [] == list(desk.specs.iterdir())
        assert "No specs found. Run ralph_start to begin.\n" == desk.says("ralph_status")

    def test_deleting_another_spec_keeps_the_pointer(self, desk: Desk) -> None:
        desk.spec_in("research", name="auth")
        desk.spec_in("research", name="pay")

        expected = 'Spec "auth" cancelled: `specs/auth/` is deleted.\n'
        assert expected == desk.says("ralph_cancel", spec_name="auth", delete_files=True)
        assert ["pay"] == desk.names()
        assert "pay\n" == desk.pointer()

    def test_links_in_a_spec_are_deleted_and_not_what_they_lead_to(self, desk: Desk) -> None:
        desk.spec_in("research")
        kept = desk.root.parent / "kept"
        kept.mkdir(exist_ok=True)
        (kept / "a.md").write_text("a", encoding="utf-8")
        (desk.specs / "auth" / "linked").symlink_to(kept)
        (desk.specs / "auth" / "file.md").symlink_to(kept / "a.md")

        desk.says("ralph_cancel", delete_files=True)

        assert [] == desk.names()
        assert "a" == (kept / "a.md").read_text(encoding="utf-8")

    def test_where_nothing_can_be_deleted_the_state_stays(self, desk: Desk) -> None:
        desk.spec_in("research")
        real = desk.root / "real"
        desk.specs.rename(real)
        desk.specs.symlink_to(real)
        try:
            before = texts(real)
            text = desk.refuses("ralph_cancel", delete_files=True)
            after = texts(real)
        finally:
            desk.specs.unlink()
            real.rename(desk.specs)

        expected = (
            '"specs" is a link to another folder, where nothing is deleted: delete "specs/auth" '
            "by hand"
        )
        assert expected == text
        assert before == after

    def test_without_a_current_spec_one_must_be_named(self, desk: Desk) -> None:
        assert "No current spec. Run ralph_start to begin." == desk.refuses("ralph_cancel")
        desk.spec_in("research")
        (desk.specs / ".current-spec").unlink()

        expected = "No current spec. Run ralph_start to begin. Available specs: auth."
        assert expected == desk.refuses("ralph_cancel", delete_files=True)
        assert (desk.specs / "auth" / STATE).exists()

    def test_a_pointer_to_a_spec_that_is_gone_is_none_found(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / ".current-spec").write_text("gone\n", encoding="utf-8")

        expected = (
            "Spec 'gone' not found. Run ralph_status to see available specs. Available specs: auth."
        )
        for tool in ("ralph_cancel", "ralph_research", "ralph_implement"):
            assert expected == desk.refuses(tool)

    @pytest.mark.parametrize("given", [{"delete_files": "true"}, {"delete_files": 1}, {"all": 1}])
    def test_wrong_arguments_delete_nothing(self, desk: Desk, given: dict[str, Any]) -> None:
        desk.spec_in("research")
        before = texts(desk.specs)
        (wrong,) = given

        assert f'"{wrong}"' in desk.refuses("ralph_cancel", **given)
        assert before == texts(desk.specs)


@pytest.fixture(scope="module")
def around(sweep: Desk) -> dict[str, tuple[bytes, int]]:
    """All around the specs, before any name is given."""
    return sweep.outside()


class TestNames:
    """A name never leads out of `specs/`, whatever it is."""

    @pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_what_is_no_spec_is_not_found_and_nothing_is_touched(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], name: str
    ) -> None:
        specs = texts(sweep.specs)

        for tool, argument, more in NAMING:
            text = sweep.refuses(tool, **{argument: name}, **more)

            assert text.startswith("Spec '")
            assert "' not found. Run ralph_status to see available specs. " in text
            assert text.endswith("Available specs: a, auth.")
            assert text.isprintable()
            assert 900 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)

    @pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_no_spec_is_started_under_a_name_that_does_not_fit(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], name: str
    ) -> None:
        if name in {"linked", "loose", "gone"}:  # these fit
            return
        specs = texts(sweep.specs)

        text = sweep.refuses("ralph_start", name=name, goal=GOAL)

        assert "spec name" in text
        assert text.isprintable()
        assert 900 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)

    @pytest.mark.parametrize("pointer", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_no_pointer_leads_there_either(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], pointer: str
    ) -> None:
        if pointer.strip() == "auth":  # white space around it is no matter
            return
        (sweep.specs / ".current-spec").write_bytes(pointer.encode())
        specs = texts(sweep.specs)

        for tool, _, more in [*NAMING[1:], ("ralph_implement", "", {})]:
            text = sweep.refuses(tool, **more)

            assert text.endswith("Available specs: a, auth.")
            assert text.isprintable()
            assert 1_500 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)


def lay_bait(folder: Path) -> None:
    """A folder that would be a spec if it lay in the right place."""
    folder.mkdir(parents=True)
    (folder / STATE).write_text(json.dumps({"phase": "research"}), encoding="utf-8")
    (folder / "research.md").write_text("secret\n", encoding="utf-8")
