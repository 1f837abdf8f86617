"""Optional test packages: without one, the tests that need it are skipped and the others run."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
OPTIONAL = ("httptools", "hypothesis", "psycopg")


def missing_package(error: BaseException | None) -> str:
    """Return the optional package that an import did not find, or an empty string."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    return package if package in OPTIONAL else ""


def replace_hypothesis() -> None:
    """Let modules import Hypothesis if it is not installed: only its own tests are skipped."""
    if "hypothesis" not in sys.modules and importlib.util.find_spec("hypothesis") is None:
        module = ModuleType("hypothesis")
        names = {"given": _skip, "settings": _Unchanged, "example": _Unchanged}
        vars(module).update(names, __getattr__=lambda _: _Strategy())
        sys.modules["hypothesis"] = module


class _Strategy:
    """Every strategy and every way to make one; it is never drawn from."""

    def __getattr__(self, name: str) -> "_Strategy":
        return self

    def __call__(self, *_: object, **__: object) -> "_Strategy":
        return self

    def __getitem__(self, _: object) -> "_Strategy":
        return self

    def __or__(self, _: object) -> "_Strategy":
        return self


class _Unchanged:
    """A decorator with options that returns the function unchanged."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, function: Test) -> Test:
        return function

    @staticmethod
    def register_profile(*_: object, **__: object) -> None:
        """Ignore the options of a profile."""

    @staticmethod
    def load_profile(_: str) -> None:
        """Ignore the choice of a profile."""


def _skip(*_: object, **__: object) -> Callable[[Callable[..., Any]], Any]:
    """Skip a test, and a test's inner function when the test calls it."""

    def decorate(test: Callable[..., Any]) -> Any:
        @functools.wraps(test)
        def skip(*_: object, **__: object) -> None:
            pytest.skip("hypothesis is not installed")

        return pytest.mark.skip(reason="hypothesis is not installed")(skip)

    return decorate
