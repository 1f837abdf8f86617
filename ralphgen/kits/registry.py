"""The kits that ralphgen has, in the order in which they are emitted."""

from ralphgen.kits.acm.kit import ACM
from ralphgen.kits.dela.kit import DELA
from ralphgen.kits.ralph.kit import RALPH
from ralphgen.kits.rye.kit import RYE
from ralphgen.kits.specum.kit import SPECUM
from ralphgen.planning.kit import Kit

KITS: tuple[Kit, ...] = (RALPH, DELA, SPECUM, ACM, RYE)
