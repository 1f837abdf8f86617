"""A project's own server without its front: the SDK answers from the first line on.

python -I plain_sdk.py FOLDER ARGUMENTS; FOLDER is the emitted server's.
"""

import sys
from importlib import import_module


def main() -> int:
    """Start as `server.py` does, with a front that leaves everything to the SDK."""
    folder = sys.argv[1]
    sys.path.insert(0, folder)
    module = vars(import_module("runtime.protocol.connection"))
    base = module["Connection"]
    members = {"__slots__": (), "_take": vars(base)["_leave"]}
    module["Connection"] = type("Connection", (base,), members)
    kits = import_module("server").KITS
    code: int = import_module("runtime.start").start(sys.argv[2:], folder, kits)
    return code


if __name__ == "__main__":
    sys.exit(main())
