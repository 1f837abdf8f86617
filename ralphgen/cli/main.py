"""The console script: `serve` and `call` start at once, the others load the command line."""

import sys

from ralphgen.terminal.console import show_crash
from ralphgen.terminal.streams import guard_streams


def main() -> None:
    """Run the command of `sys.argv`."""
    guard_streams()
    sys.excepthook = show_crash  # before Typer, which passes on to the one that it finds
    if sys.argv[1:2] == ["serve"] and "--help" not in sys.argv:
        from ralphgen.cli.serve import serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] == ["call"] and "--help" not in sys.argv:
        from ralphgen.cli.call import call

        sys.exit(call(sys.argv[2:]))
    from ralphgen.cli.commands import run

    sys.exit(run())


if __name__ == "__main__":
    main()
