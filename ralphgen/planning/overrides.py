"""What a person should know of the disciplines' overrides: those that do nothing, or too much."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ralphgen.planning.catalog import Catalog
from ralphgen.planning.model import KitPlan, RecipePlan
from ralphgen.project.model import Removal
from ralphgen.runtime.policy import FULL


def override_warnings(
    removals: Iterable[Removal],
    recipes: Mapping[str, RecipePlan],
    kits: Sequence[KitPlan],
    catalog: Catalog,
) -> Iterator[tuple[str, str]]:
    """(discipline, sentence) for each override without effect, or that hinders closing.

    An override has an effect where some kind of session other than a person's own has the tool.
    """
    closing = {kit.key: kit.closing for kit in kits}
    seen = {
        (kit, tool)
        for name, recipe in recipes.items()
        if name != FULL
        for kit, tools in recipe.tools.items()
        for tool in tools
    }
    for removal in removals:
        for entry in removal.entries:
            taken = [pair for pair in catalog.resolved(entry) if pair in seen]
            if not taken:
                text = f'"{entry}" takes nothing away: no recipe but "{FULL}" has it here'
                yield removal.discipline, f"{removal.origin}: {text}"
            for kit, tool in taken:
                if tool in closing.get(kit, ()):
                    text = f'"{entry}" takes away a tool that sessions close their work with'
                    yield removal.discipline, f"{removal.origin}: {text}"
