"""The imports of custom tools, in an editor and in the server: see docs/custom-tools.md."""

from ralphgen.runtime.own_tools.api import OwnProject as Project
from ralphgen.runtime.own_tools.api import ToolError, reads, writes

__all__ = ["Project", "ToolError", "reads", "writes"]
