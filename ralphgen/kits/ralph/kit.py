"""The kit `ralph` as the core sees it."""

from ralphgen.kits.ralph.plan import KEY, plan_ralph
from ralphgen.kits.ralph.tools import SPECS
from ralphgen.planning.kit import Kit

CATALOG = tuple(spec.name for spec in SPECS)
RALPH = Kit(key=KEY, catalog=CATALOG, plan=plan_ralph)
