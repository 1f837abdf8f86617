"""The early end of a spec: it loses its state, or all of its files on request."""

from command_line import texts
from specum_projects import STATE, Desk


class TestCancel:
    """Removed and kept files."""

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

    def test_a_named_spec_is_cancelled_and_the_current_one_remains(self, desk: Desk) -> None:
        desk.spec_in("research", name="pay")
        desk.spec_in("research", name="auth")

        assert 'Spec "pay" cancelled' in desk.says("ralph_cancel", spec_name="pay")
        assert not (desk.specs / "pay" / STATE).exists()
        assert (desk.specs / "auth" / STATE).exists()
        assert "auth\n" == desk.pointer()

    def test_a_cancelled_spec_can_continue(self, desk: Desk) -> None:
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

        expected = 'Spec "auth" cancelled: `specs/auth/` is deleted.\n\nNo specs remain.\n'
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

    def test_the_state_remains_if_nothing_can_be_deleted(self, desk: Desk) -> None:
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
            '"specs" is a symbolic link, and files behind it are not deleted: delete '
            '"specs/auth" by hand'
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

    def test_a_pointer_to_a_deleted_spec_finds_nothing(self, desk: Desk) -> None:
        desk.spec_in("research")
        (desk.specs / ".current-spec").write_text("gone\n", encoding="utf-8")

        expected = (
            "Current spec 'gone' not found. Run ralph_status to see available specs. "
            "Available specs: auth."
        )
        for tool in ("ralph_cancel", "ralph_research", "ralph_implement"):
            assert expected == desk.refuses(tool)
