"""The kits that ralphgen has, in the order in which they are emitted."""

from ralphgen.kits.kit import Kit
from ralphgen.kits.ralph import RALPH

KITS: tuple[Kit, ...] = (RALPH,)
