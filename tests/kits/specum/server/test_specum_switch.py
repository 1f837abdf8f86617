"""Which spec is meant: the current one changes, and nothing else does."""

from specum_projects import Desk

SWITCHED = """\
Switched to "auth".

- **Previous**: pay
- **Current**: auth
- **Phase**: design
- **Tasks**: -
- **Artifacts**: research.md, requirements.md
- **Next**: ralph_design
"""


class TestSwitch:
    """The choice of the spec."""

    def test_a_switch_reports_the_phase_of_the_other_spec(self, desk: Desk) -> None:
        desk.spec_in("design", name="auth")
        desk.spec_in("research", name="pay")

        assert SWITCHED == desk.says("ralph_switch", name="auth")
        assert "auth\n" == desk.pointer()

    def test_the_current_spec_remains_the_current_one(self, desk: Desk) -> None:
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

    def test_a_spec_without_state_can_be_switched_to(self, desk: Desk) -> None:
        desk.write("auth", "research.md", "x")
        (desk.specs / "auth" / "design.md").symlink_to("/etc/hostname")

        text = desk.says("ralph_switch", name="auth")

        assert "- **Previous**: none\n- **Current**: auth\n- **Phase**: no state (restart " in text
        assert text.endswith("- **Artifacts**: research.md\n")

    def test_an_unknown_spec_is_refused_with_the_existing_ones(self, desk: Desk) -> None:
        desk.spec_in("research", name="pay")
        desk.spec_in("research", name="auth")

        expected = (
            "Spec 'xyz' not found. Run ralph_status to see available specs. "
            "Available specs: auth, pay."
        )
        assert expected == desk.refuses("ralph_switch", name="xyz")
        assert "auth\n" == desk.pointer()

    def test_of_very_many_specs_the_first_are_named(self, desk: Desk) -> None:
        for number in range(1_000):
            (desk.specs / f"spec-{number:04}").mkdir(parents=True)

        text = desk.refuses("ralph_switch", name="xyz")

        assert text.endswith("spec-0018, spec-0019 and 980 more.")
