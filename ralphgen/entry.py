"""The console script: `serve` starts at once, every other command loads the command line."""

import sys


def main() -> None:
    """Run the command of `sys.argv`."""
    if sys.argv[1:2] == ["serve"] and "--help" not in sys.argv:
        from ralphgen.serving import serve

        sys.exit(serve(sys.argv[2:]))
    from ralphgen.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
