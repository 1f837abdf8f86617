"""The sources of the modules of an emitted runtime, and their emitted text."""

from pathlib import Path

import ralphgen
from ralphgen.rendering import UNFORMATTED

PACKAGE = Path(ralphgen.__file__).parent


def runtime_text(path: str) -> str:
    """Return the required text of `.ralph/mcp/<path>`, for a path that begins with `runtime/`.

    It is the source byte for byte, except for the formatters' mark at the top, and the prefix of
    the core in the import lines of kits.
    """
    _, first, *rest = Path(path).parts
    server = PACKAGE / "kits" / first / "server"
    source = server.joinpath(*rest) if server.is_dir() else PACKAGE / path
    lines = source.read_bytes().decode().splitlines(keepends=True)
    return UNFORMATTED + "".join(_as_emitted(line) for line in lines)


def _as_emitted(line: str) -> str:
    core = ("from ralphgen.runtime", "import ralphgen.runtime")
    return line.replace("ralphgen.", "", 1) if line.lstrip().startswith(core) else line
