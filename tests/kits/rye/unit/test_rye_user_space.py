"""USER_SPACE is the space itself or its parent directory; links are resolved."""

from pathlib import Path

import pytest

from ralphgen.kits.rye.server.workspace import user_space


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory for a home directory and other files."""
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("made", "named", "expected"),
    [
        ("", "", "home/.ai"),
        ("", "  ", "home/.ai"),
        ("", "~", "home/.ai"),
        ("", "~/.ai", "home/.ai"),
        ("", "{root}/else", "else/.ai"),
        ("else/tools", "{root}/else", "else"),
        ("else/knowledge", "{root}/else/", "else"),
        ("else/.ai", "{root}/else/.ai/", "else/.ai"),
        ("else/bin", "{root}/else", "else/.ai"),
    ],
)
def test_either_meaning_is_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch, made: str, named: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(root / "home"))
    (root / made).mkdir(parents=True, exist_ok=True)

    assert str(root / expected) == user_space(named.format(root=root))


@pytest.mark.parametrize("named", ["", "~", "~/.ai"])
def test_a_link_to_it_is_followed(root: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("HOME", str(root / "home"))
    (root / "home").mkdir()
    (root / "dotfiles").mkdir()
    (root / "home/.ai").symlink_to(root / "dotfiles")

    assert str(root / "dotfiles") == user_space(named)
