"""The kit `rye` as the core sees it."""

from ralphgen.kits.rye.finding import find_items
from ralphgen.kits.rye.plan import KEY, plan_rye
from ralphgen.kits.rye.settings import RyeSettings
from ralphgen.kits.rye.tools import TOOLS
from ralphgen.planning.kit import Kit

RYE = Kit(
    key=KEY,
    tools=TOOLS,
    plan=plan_rye,
    settings=RyeSettings,
    find=find_items,
)
