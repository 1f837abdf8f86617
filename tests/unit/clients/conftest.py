"""Clients are tested without a home or a program of whoever runs the tests."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_home_of_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may touch the files of whoever runs the tests, nor depend on their PATH."""
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "")
