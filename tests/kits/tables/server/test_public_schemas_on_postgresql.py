"""Well-known schemas on PostgreSQL, reworded: every tool takes any arguments.

A shop of music, and a rental of films with PostgreSQL's own features: enums, domains, arrays,
ranges, partitions, triggers and a search vector.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

import psycopg
import pytest
from any_arguments import arguments_for
from driving import connected, made_here, quiet
from engines import CONFIG, VARIABLE
from lanes import shortened
from postgresql import database, needs_postgresql

from ralphgen.emit.workflows import regenerate

pytestmark = [needs_postgresql, pytest.mark.thorough]
SCHEMAS: Mapping[str, str] = {
    "music": """
CREATE TABLE artist (artist_id int PRIMARY KEY, name varchar(120));
CREATE TABLE album (album_id int PRIMARY KEY, title varchar(160) NOT NULL,
    artist_id int NOT NULL REFERENCES artist);
CREATE TABLE media_type (media_type_id int PRIMARY KEY, name varchar(120));
CREATE TABLE track (track_id int PRIMARY KEY, name varchar(200) NOT NULL,
    album_id int REFERENCES album, media_type_id int NOT NULL REFERENCES media_type,
    milliseconds int NOT NULL CHECK (milliseconds > 0), bytes int,
    unit_price numeric(10, 2) NOT NULL);
CREATE INDEX track_of_album ON track (album_id);
CREATE TABLE employee (employee_id int PRIMARY KEY, last_name varchar(20) NOT NULL,
    reports_to int REFERENCES employee, birth_date timestamp, "Fax No." varchar(24));
CREATE TABLE customer (customer_id int PRIMARY KEY, email varchar(60) NOT NULL UNIQUE,
    support_rep_id int REFERENCES employee);
CREATE TABLE invoice (invoice_id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer,
    invoice_date timestamp NOT NULL, total numeric(10, 2) NOT NULL);
CREATE TABLE invoice_line (invoice_line_id int PRIMARY KEY,
    invoice_id int NOT NULL REFERENCES invoice, track_id int NOT NULL REFERENCES track,
    unit_price numeric(10, 2) NOT NULL, quantity int NOT NULL);
CREATE TABLE playlist (playlist_id int PRIMARY KEY, name varchar(120));
CREATE TABLE playlist_track (playlist_id int REFERENCES playlist, track_id int REFERENCES track,
    PRIMARY KEY (playlist_id, track_id));
CREATE VIEW sales AS SELECT artist.name, sum(invoice_line.quantity) AS sold
    FROM artist JOIN album USING (artist_id) JOIN track USING (album_id)
    JOIN invoice_line USING (track_id) GROUP BY artist.name;
""",
    "films": """
CREATE TYPE rating AS ENUM ('G', 'PG', 'PG-13', 'R', 'NC-17');
CREATE DOMAIN year AS integer CHECK (VALUE >= 1901 AND VALUE <= 2155);
CREATE SEQUENCE actor_numbers;
CREATE TABLE actor (actor_id integer PRIMARY KEY DEFAULT nextval('actor_numbers'),
    first_name text NOT NULL, last_update timestamptz NOT NULL DEFAULT now());
CREATE TABLE language (language_id serial PRIMARY KEY, name character(20) NOT NULL);
CREATE TABLE film (film_id serial PRIMARY KEY, title text NOT NULL, description text,
    release_year year, language_id smallint NOT NULL REFERENCES language,
    rental_rate numeric(4, 2) NOT NULL DEFAULT 4.99, length smallint, rating rating DEFAULT 'G',
    last_update timestamptz NOT NULL DEFAULT now(), special_features text[], fulltext tsvector,
    seasons int4range, gap interval, details jsonb, place point);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.last_update = now(); RETURN NEW; END';
CREATE TRIGGER stamped BEFORE UPDATE ON film FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE TABLE film_actor (actor_id integer NOT NULL REFERENCES actor ON DELETE RESTRICT,
    film_id integer NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE CASCADE,
    last_update timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (actor_id, film_id));
CREATE TABLE staff (staff_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), picture bytea,
    active boolean NOT NULL DEFAULT true, email citext_like);
CREATE TABLE payment (payment_id integer GENERATED ALWAYS AS IDENTITY, paid timestamptz NOT NULL,
    amount numeric(5, 2) NOT NULL, PRIMARY KEY (paid, payment_id)) PARTITION BY RANGE (paid);
CREATE TABLE payment_early PARTITION OF payment FOR VALUES FROM ('2000-01-01') TO ('2022-02-01');
CREATE TABLE payment_late PARTITION OF payment DEFAULT;
CREATE VIEW film_list AS SELECT film_id AS fid, title, rating, array_agg(first_name) AS actors
    FROM film LEFT JOIN film_actor USING (film_id) LEFT JOIN actor USING (actor_id)
    GROUP BY film_id;
CREATE MATERIALIZED VIEW rental_by_rating AS SELECT rating, count(*) AS n FROM film GROUP BY 1;
""".replace("citext_like", "text CHECK (email LIKE '%@%')"),
}
TABLES = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace "
    "AND relkind IN ('r', 'p', 'v', 'm') ORDER BY 1"
)
BROKEN_KEYS = (
    "SELECT count(*) FROM film_actor AS a LEFT JOIN film AS f USING (film_id) "
    "WHERE f.film_id IS NULL"
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", shortened(tuple(SCHEMAS), "films"))
def test_every_table_has_its_tools_and_no_call_is_an_internal_error(
    name: str, tmp_path: Path
) -> None:
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    random = Random(name)  # noqa: S311
    answered = 0
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMAS[name].encode())
            tables = [table for (table,) in connection.execute(TABLES.encode())]
        config = f'kits = ["tables"]\n{CONFIG}'
        config += "".join(f"[tables.{json.dumps(table)}]\n" for table in tables)
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        with connected(made_here(root), kit="tables", env={VARIABLE: dsn}) as driver:
            assert {f"list_{table}" for table in tables} <= {*driver.names()}
            for _ in range(8):
                for tool in driver.tools():
                    given = arguments_for(tool["inputSchema"], random)
                    failed, text = driver.ask(tool["name"], given)
                    assert "inside the server" not in text, (tool["name"], given, text)
                    assert "cannot be used" not in text, (tool["name"], given, text)
                    assert "Traceback" not in text
                    answered += not failed
        if name == "films":
            with psycopg.connect(dsn) as connection:
                assert (0,) == connection.execute(BROKEN_KEYS.encode()).fetchone()

    assert answered > len(tables)
