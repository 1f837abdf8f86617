"""Imports SQLite's module without `functools`.

It takes nothing of that but `lru_cache`, which is written in C, while `functools` imports
`collections` and `operator` too: together twice as long as SQLite's own library.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["sqlite3"]


def _lru_cache(size: int) -> Callable[[Callable[..., Any]], Any]:
    """Return what `functools.lru_cache` does, less the names that it copies."""
    cache = vars(__import__("_functools"))["_lru_cache_wrapper"]
    return lambda function: cache(function, size, False, tuple)


if "functools" in sys.modules or sys.implementation.name != "cpython":
    import _sqlite3 as sqlite3
else:
    functools = type(sys)("functools")
    vars(functools)["lru_cache"] = _lru_cache
    sys.modules["functools"] = functools
    try:
        import _sqlite3 as sqlite3
    finally:
        del sys.modules["functools"]
