"""The names of the database's roles: one for each recipe, one that these have, one for servers."""

PREFIX = "ralphgen_"
AGENTS = f"{PREFIX}agents"  # what every recipe's role is a member of
SERVICE = f"{PREFIX}service"  # for the login of a server that many sessions share, over HTTP
LOGINS = "ralphgen_logins"  # the table that says which session a login is of
LONGEST = 63  # bytes of a name


def role(recipe: str) -> str:
    """Return the name of a recipe's role; one name serves all databases of a server."""
    return f"{PREFIX}{recipe}"
