"""`python -m ralphgen` is the console script."""

from ralphgen.cli.main import main

main()
