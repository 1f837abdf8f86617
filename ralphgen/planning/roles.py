"""The names of PostgreSQL's roles of sessions: one for each recipe, and one that all have."""

PREFIX = "ralphgen_"
AGENTS = f"{PREFIX}agents"  # what every recipe's role is a member of
LOGINS = "ralphgen_logins"  # the table that says which session a login is of
LONGEST = 63  # bytes of a name


def role(recipe: str) -> str:
    """Return the name of a recipe's role; one name serves all databases of a server."""
    return f"{PREFIX}{recipe}"
