"""A pytest plugin: Hypothesis stops at the first example that fails, none smaller is sought."""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Change the profile that the suite has chosen."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("without shrinking", settings.default, phases=phases)
    settings.load_profile("without shrinking")
