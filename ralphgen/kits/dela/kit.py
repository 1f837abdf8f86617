"""The kit `dela` as the core sees it."""

from ralphgen.kits.dela.plan import KEY, plan_dela
from ralphgen.kits.dela.settings import DelaSettings
from ralphgen.kits.dela.task_lookup import find_tasks
from ralphgen.kits.dela.tools import TOOLS
from ralphgen.planning.kit import Kit

DELA = Kit(
    key=KEY,
    tools=TOOLS,
    plan=plan_dela,
    settings=DelaSettings,
    find=find_tasks,
)
