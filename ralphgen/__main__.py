"""`python -m ralphgen` is the console script."""

from ralphgen.entry import main

main()
