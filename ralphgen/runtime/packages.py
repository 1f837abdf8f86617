"""Makes what is installed importable: a server starts with `-S`, which does not look for it."""

import sys


def add_packages() -> None:
    """Find what is installed, where that was not done; later calls cost nothing."""
    if "site" not in sys.modules:
        import site

        site.main()
