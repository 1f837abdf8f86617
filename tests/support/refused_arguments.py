"""Messages of the checker of arguments."""

from __future__ import annotations

from typing import Any

import pytest

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values import check_arguments


def refusal(
    schema: dict[str, Any], arguments: object, refusals: dict[str, str] | None = None
) -> str:
    """Return the checker's message about these arguments."""
    with pytest.raises(ToolError) as caught:
        check_arguments(schema, arguments, refusals)
    return str(caught.value)
