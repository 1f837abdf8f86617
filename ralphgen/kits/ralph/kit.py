"""The kit `ralph` as the core sees it."""

from ralphgen.kits.ralph.plan import KEY, plan_ralph
from ralphgen.kits.ralph.tools import TOOLS
from ralphgen.planning.kit import Kit

RALPH = Kit(key=KEY, tools=TOOLS, plan=plan_ralph)
