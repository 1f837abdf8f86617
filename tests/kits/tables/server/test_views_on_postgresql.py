"""Hidden columns that a view on PostgreSQL passes on are detected, and refused."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from driving import quiet
from engines import CONFIG, VARIABLE
from postgresql import database, needs_postgresql

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError

pytestmark = needs_postgresql
SCHEMA = """
CREATE TABLE disciplines (name text PRIMARY KEY, mcp_servers text);
CREATE TABLE risks (id integer PRIMARY KEY, title text, internal text);
CREATE TABLE ralphgen_sessions (id text PRIMARY KEY);
CREATE VIEW plain AS SELECT name, mcp_servers AS them FROM disciplines;
CREATE VIEW whole AS SELECT to_jsonb(d) AS it FROM disciplines AS d;
CREATE VIEW nested AS SELECT count(it) AS n FROM whole;
CREATE VIEW chosen AS SELECT name FROM disciplines WHERE mcp_servers IS NULL;
CREATE VIEW inner_one AS SELECT name, (SELECT max(mcp_servers) FROM disciplines) AS x
    FROM disciplines;
CREATE MATERIALIZED VIEW kept AS SELECT mcp_servers FROM disciplines;
CREATE VIEW sessions AS SELECT id FROM ralphgen_sessions;
CREATE VIEW titles AS SELECT id, title FROM risks;
CREATE VIEW internals AS SELECT id FROM risks ORDER BY internal;
CREATE TABLE old_risks (id integer PRIMARY KEY) INHERITS (risks);
CREATE VIEW old AS SELECT id, internal AS it FROM old_risks;
CREATE TABLE notes (id integer PRIMARY KEY, body text);
CREATE FUNCTION slug(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE FUNCTION peek() RETURNS text LANGUAGE sql AS 'SELECT max(internal) FROM public.risks';
CREATE FUNCTION through() RETURNS text STABLE LANGUAGE plpgsql AS 'BEGIN RETURN peek(); END';
CREATE FUNCTION atomic() RETURNS text STABLE LANGUAGE sql
    BEGIN ATOMIC SELECT max(internal) FROM risks; END;
CREATE FUNCTION viewed() RETURNS bigint LANGUAGE sql AS 'SELECT max(id) FROM internals';
CREATE FUNCTION is_it(text, integer) RETURNS boolean STABLE LANGUAGE sql
    AS 'SELECT internal = $1 FROM risks WHERE id = $2';
CREATE OPERATOR @@@ (LEFTARG = text, RIGHTARG = integer, FUNCTION = is_it);
CREATE VIEW slugs AS SELECT id, slug(body) AS it FROM notes;
CREATE VIEW peeks AS SELECT peek() AS it;
CREATE VIEW passes AS SELECT through() AS it;
CREATE VIEW atoms AS SELECT atomic() AS it;
CREATE VIEW views AS SELECT viewed() AS it;
CREATE VIEW signs AS SELECT id FROM notes WHERE body @@@ id;
"""
HIDDEN = '"disciplines.mcp_servers", which is hidden'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("views")
    (folder / ".ralph").mkdir()
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        yield folder


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        *((f"[tables.{view}]", HIDDEN) for view in ("plain", "whole", "nested", "chosen")),
        *((f"[tables.{view}]", HIDDEN) for view in ("inner_one", "kept", "disciplines")),
        ("[tables.sessions]", '"sessions" reads "ralphgen_sessions"'),
        ('[tables.risks]\nhide = ["internal"]\n[tables.internals]', 'reads "risks.internal"'),
        ('[schema]\nhide = ["risks.internal"]\n[tables.internals]', 'reads "risks.internal"'),
        ('[tables.risks]\nhide = ["internal"]\n[tables.titles]', ""),
        ('[schema]\nhide = ["risks.internal"]\n[tables.slugs]', ""),
        *(
            (f'[schema]\nhide = ["risks.internal"]\n[tables.{name}]', 'reads "risks.internal"')
            for name in ("old", "old_risks", "peeks", "passes", "atoms", "views", "signs")
        ),
        ('[tables.risks]\nhide = ["internal"]\n[tables.old_risks]\nhide = ["internal"]', ""),
        ("[tables.peeks]\n[tables.old_risks]", ""),
        ("[tables.internals]", ""),
    ],
)
def test_a_view_of_hidden_columns_is_refused(root: Path, tables: str, told: str) -> None:
    text = f'kits = ["tables"]\n{CONFIG}{tables}\n'
    (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    if not told:
        regenerate(root, force=False, say=quiet, allow_removals=True)
        return
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=False, say=quiet, allow_removals=True)
    assert told in str(caught.value)
