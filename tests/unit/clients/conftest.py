"""Clients are tested without the home and the programs of the developer."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_home_of_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's files and PATH from the tests."""
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
