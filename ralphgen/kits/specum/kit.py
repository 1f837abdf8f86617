"""The kit `specum` as the core sees it."""

from ralphgen.kits.specum.finding import find_specs
from ralphgen.kits.specum.plan import KEY, plan_specum
from ralphgen.kits.specum.settings import SpecumSettings
from ralphgen.kits.specum.tools import TOOLS
from ralphgen.planning.kit import Kit

SPECUM = Kit(
    key=KEY,
    tools=TOOLS,
    plan=plan_specum,
    settings=SpecumSettings,
    find=find_specs,
)
