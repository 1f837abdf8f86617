"""The console script: `serve` and `call` start at once, the others load the command line."""

import os
import sys

from ralphgen import __version__
from ralphgen.terminal.console import as_typed, guard_streams, show_crash
from ralphgen.terminal.table import OVERVIEW


def main() -> None:
    """Run the command of `sys.argv`."""
    guard_streams()
    sys.excepthook = show_crash
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"ralphgen {__version__}")
        return
    if not arguments and "_RALPHGEN_COMPLETE" not in os.environ:
        print(as_typed(OVERVIEW), end="")
        return
    if arguments[:1] == ["serve"] and "--help" not in arguments:
        from ralphgen.cli.serve import serve

        sys.exit(serve(arguments[1:]))
    if arguments[:1] == ["call"] and "--help" not in arguments:
        from ralphgen.cli.call import call

        sys.exit(call(arguments[1:]))
    from ralphgen.cli.commands import run

    sys.exit(run())


if __name__ == "__main__":
    main()
