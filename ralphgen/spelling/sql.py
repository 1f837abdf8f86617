"""How names and texts are spelled in SQL."""


def sql_name(name: str) -> str:
    """Return a name of a table, a column or a role, in quotes."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(text: str) -> str:
    """Return a text as a literal of standard SQL, in which a backslash is one."""
    return "'" + text.replace("'", "''") + "'"
