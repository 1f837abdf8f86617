"""The commands of the kit dela: what agents may run is said by people, at a terminal."""

from ralphgen.cli.dela import commands

__all__ = ["commands"]
