"""What of the rows that were changed is shown to nobody."""

from pathlib import Path

from ralphgen.project.served_tables import hidden_columns
from ralphgen.trust.items import read_settings


def hidden_in(root: Path) -> frozenset[str]:
    """Return the columns that the config hides, as `table.column`, in lower case."""
    settings = read_settings(root)
    return frozenset(map(str.lower, (*settings.db_schema.hide, *hidden_columns(settings))))
