"""Reads the DSNs that other libraries write, as parameters of libpq."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

# Prisma, Heroku, SQLAlchemy, Django (dj-database-url, django-environ), Rails, and JDBC.
_SCHEME = re.compile(
    r"(?:jdbc:)?(?:postgres(?:ql)?|pgsql|psql|postgis|timescale(?:gis)?)(?:\+\w+)?://",
    re.IGNORECASE,
)
# Parameters that name a schema.
_SCHEMAS = ("schema", "currentschema")
# Parameters of pools and of other drivers: they do not change which database is meant.
_DROPPED = frozenset(
    {
        *("adapter", "async_fallback", "autosave", "checkout_timeout", "client_encoding"),
        *("command_timeout", "conn_health_checks", "conn_max_age", "connection_limit", "encoding"),
        *("advisory_locks", "idle_timeout", "max_idle", "max_overflow", "max_queries", "min_idle"),
        *("max_connections", "max_lifetime", "min_connections", "min_messages", "min_size"),
        *("max_size", "native_uuids", "pgbouncer", "pool", "pool_max", "pool_min"),
        *("pool_mode", "pool_pre_ping", "pool_recycle", "pool_size", "pool_timeout"),
        *("prepare_threshold", "preparethreshold", "prepared_statement_cache_size"),
        *("prepared_statement_name_func", "prepared_statements", "reaping_frequency"),
        *("reconnect", "rewritebatchedstatements", "single_sentence", "socket_timeout"),
        *("sockettimeout", "sslaccept", "statement_cache_mode", "statement_cache_size"),
        *("statement_limit", "stringtype", "tcpkeepalive", "timeout", "use_native_hstore"),
        *("variables", "default_auto_field", "disable_server_side_cursors", "supa"),
        *("max_cached_statement_lifetime", "max_cacheable_statement_size", "uselibpqcompat"),
        *("executemany_mode", "insertmanyvalues_page_size", "native_inet_types", "workaround"),
    }
)
# Other drivers' names for parameters of libpq.
_RENAMED = {
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "database": "dbname",
    "logintimeout": "connect_timeout",
    "ssl_ca": "sslrootcert",
    "sslidentity": "sslcert",
    "username": "user",
}
_TRUE, _FALSE = ("1", "on", "require", "t", "true", "yes"), ("0", "disable", "f", "false", "no")


class DsnError(ValueError):
    """A DSN that libpq cannot use: the message names the parameter, never a value."""


def is_url(dsn: str) -> bool:
    """Return whether a DSN is a URL rather than libpq's list of keywords."""
    return _SCHEME.match(dsn.strip()) is not None


def plain_dsn(dsn: str, known: Collection[str]) -> str:
    """Return the URL that libpq reads, without the parameters of pools and other drivers.

    `known` are the parameters of libpq. A list of keywords is returned unchanged. Raises
    `DsnError` for a parameter that is neither known nor safe to drop.
    """
    from urllib.parse import parse_qsl, quote

    text = dsn.strip()
    match = _SCHEME.match(text)
    if match is None:
        return text
    address, _, query = text[match.end() :].partition("?")
    kept: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        lower = name.lower()
        named = _RENAMED.get(lower, lower)
        if lower in ("ssl", "sslmode") and value.lower() in (*_TRUE, *_FALSE):
            kept.append(("sslmode", "require" if value.lower() in _TRUE else "disable"))
        elif lower in _DROPPED or lower in _SCHEMAS:
            continue
        elif named in known:
            kept.append((named, value))
        else:
            raise DsnError(f'unsupported parameter "{name[:60]}"')
    parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in kept)
    return f"postgresql://{address}{'?' * bool(parameters)}{parameters}"


def schema_of(dsn: str) -> str:
    """Return the schema that a URL names, empty without one."""
    if not is_url(dsn):
        return ""
    from urllib.parse import parse_qsl, urlsplit

    for name, value in parse_qsl(urlsplit(dsn.strip()).query):
        if name.lower() in _SCHEMAS:
            return value.split(",")[0].strip().strip('"')
    return ""
