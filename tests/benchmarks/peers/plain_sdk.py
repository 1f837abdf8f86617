"""A project's own server behind the official SDK, which answers from the first line on.

python -I plain_sdk.py FOLDER ARGUMENTS; FOLDER is the emitted server's.
"""

import sys
from importlib import import_module
from pathlib import Path

TESTS = Path(__file__).parents[2]


def main() -> int:
    """Start as `server.py` does, with the connection of the SDK."""
    folder = sys.argv[1]
    sys.path[:0] = [folder]
    sys.path += [str(TESTS / "support"), str(TESTS.parent)]
    connection, start = (
        import_module(f"runtime.{name}") for name in ("protocol.connection", "start")
    )
    kits = import_module("server").KITS
    import_module("runtime.loader").add_packages()
    import_module("emitted_runtime").use_emitted_runtime()
    vars(connection)["Connection"] = import_module("sdk_server").SdkConnection
    code: int = start.start(sys.argv[2:], folder, kits)
    return code


if __name__ == "__main__":
    sys.exit(main())
