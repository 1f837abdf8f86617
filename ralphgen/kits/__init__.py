"""The kits that ralphgen has, in the order in which they are emitted."""

from ralphgen.kits.acm import ACM
from ralphgen.kits.dela import DELA
from ralphgen.kits.ralph import RALPH
from ralphgen.kits.rye import RYE
from ralphgen.kits.specum import SPECUM
from ralphgen.planning.kit import Kit

KITS: tuple[Kit, ...] = (RALPH, DELA, SPECUM, ACM, RYE)
