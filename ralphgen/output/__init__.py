"""The generated folder: the only code that writes it, finishes a broken write or compares it."""

from ralphgen.output.compare import Drift, compare, diff
from ralphgen.output.manifest import Files, seal
from ralphgen.output.stage import interrupted
from ralphgen.output.write import Written, finish_interrupted, write

__all__ = [
    "Drift",
    "Files",
    "Written",
    "compare",
    "diff",
    "finish_interrupted",
    "interrupted",
    "seal",
    "write",
]
