"""The console script: `serve` and `call` start at once, the others load the command line."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def main() -> None:
    """Run the command of `sys.argv`."""
    sys.excepthook = _show_crash
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"] and "--help" not in arguments:
        from ralphgen.cli.serve import serve

        sys.exit(serve(arguments[1:]))
    from ralphgen.terminal.console import guard_streams

    guard_streams()
    if arguments == ["--version"]:
        from ralphgen import __version__

        print(f"ralphgen {__version__}")
        return
    if not arguments and "_RALPHGEN_COMPLETE" not in os.environ:
        from ralphgen.terminal.console import OVERVIEW, as_typed

        print(as_typed(OVERVIEW), end="")
        return
    if arguments[:1] == ["call"] and "--help" not in arguments:
        from ralphgen.cli.call import call

        sys.exit(call(arguments[1:]))
    from ralphgen.cli.commands import run

    sys.exit(run())


def _show_crash(
    kind: type[BaseException], error: BaseException, trace: "TracebackType | None"
) -> None:
    from ralphgen.terminal.console import guard_streams, show_crash

    guard_streams()
    show_crash(kind, error, trace)


if __name__ == "__main__":
    main()
