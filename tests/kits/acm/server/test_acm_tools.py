"""The tools of the kit: names, read-only annotations and sessions."""

from pathlib import Path

import pytest
from acm_projects import KITS, Library, lay_registry, on_server, variables
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
