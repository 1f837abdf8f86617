"""The pages of the kits are true: their commands run, and print the shown output."""

from pathlib import Path

import pytest
from typed_pages import type_page

from ralphgen.kits.registry import KITS

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
DOCS = Path(__file__).parents[3] / "docs"
ALLOWLIST = '[[entries]]\npath = "{}/shop/Makefile"\nscope = "Task"\ntasks = ["build"]\n'


@pytest.mark.parametrize("name", ["kits", "acm", "dela", "ralph", "rye", "specum"])
def test_every_block_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    allowlist = tmp_path / "home/.config/dela/allowlist.toml"
    allowlist.parent.mkdir(parents=True)
    allowlist.write_text(ALLOWLIST.format(tmp_path), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("USER_SPACE", raising=False)

    assert type_page(page, tmp_path, tmp_path) > 3


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.key)
def test_every_kit_has_a_page_that_the_page_of_all_links(kit: object) -> None:
    name = f"{getattr(kit, 'key', '')}.md"

    assert (DOCS / name).is_file()
    assert f"]({name})" in (DOCS / "kits.md").read_text(encoding="utf-8")
