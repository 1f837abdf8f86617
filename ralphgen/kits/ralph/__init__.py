"""The ralph kit: the project's own database as tools (SPEC-070)."""

from pathlib import Path

from ralphgen.kits.kit import Kit
from ralphgen.kits.ralph.plan import KEY, plan_ralph
from ralphgen.kits.ralph.tools import SPECS

CATALOG = tuple(spec.name for spec in SPECS)


def survey(_root: Path) -> str:
    """Nothing: what this kit needs stands in the database, which is read for every project."""
    return ""


RALPH = Kit(key=KEY, catalog=CATALOG, survey=survey, plan=plan_ralph)
