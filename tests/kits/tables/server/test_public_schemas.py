"""Well-known schemas, reworded: every tool takes any arguments without failing.

A shop of music, a trader, a rental of films, and what Django, Trac and Rails keep.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from any_arguments import arguments_for
from driving import connected, made_here, quiet
from lanes import shortened

from ralphgen.emit.workflows import regenerate

SCHEMAS: Mapping[str, str] = {
    "music": """
CREATE TABLE artist (artist_id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(120));
CREATE TABLE album (album_id INTEGER NOT NULL PRIMARY KEY, title NVARCHAR(160) NOT NULL,
    artist_id INTEGER NOT NULL REFERENCES artist (artist_id) ON DELETE NO ACTION);
CREATE TABLE genre (genre_id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(120));
CREATE TABLE track (track_id INTEGER NOT NULL PRIMARY KEY, name NVARCHAR(200) NOT NULL,
    album_id INTEGER REFERENCES album, genre_id INTEGER REFERENCES genre, bytes INTEGER,
    milliseconds INTEGER NOT NULL CHECK (milliseconds > 0), unit_price NUMERIC(10, 2) NOT NULL);
CREATE TABLE playlist_track (playlist_id INTEGER NOT NULL, track_id INTEGER NOT NULL,
    PRIMARY KEY (playlist_id, track_id), FOREIGN KEY (track_id) REFERENCES track);
CREATE TABLE employee (employee_id INTEGER NOT NULL PRIMARY KEY, last_name NVARCHAR(20) NOT NULL,
    reports_to INTEGER REFERENCES employee, birth_date DATETIME);
""",
    "trade": """
CREATE TABLE [Categories] ([CategoryID] INTEGER PRIMARY KEY AUTOINCREMENT, [CategoryName] TEXT,
    [Picture] BLOB);
CREATE TABLE [Products] ([ProductID] INTEGER PRIMARY KEY AUTOINCREMENT, [ProductName] TEXT NOT NULL,
    [CategoryID] INTEGER, [UnitPrice] NUMERIC DEFAULT 0 CHECK ([UnitPrice] >= 0),
    [Discontinued] TEXT NOT NULL DEFAULT '0',
    FOREIGN KEY ([CategoryID]) REFERENCES [Categories] ([CategoryID]));
CREATE TABLE [Orders] ([OrderID] INTEGER PRIMARY KEY, [CustomerID] TEXT, [OrderDate] DATETIME);
CREATE TABLE [Order Details] ([OrderID] INTEGER NOT NULL, [ProductID] INTEGER NOT NULL,
    [Quantity] INTEGER NOT NULL DEFAULT 1, [Discount] REAL NOT NULL DEFAULT 0,
    PRIMARY KEY ([OrderID], [ProductID]), FOREIGN KEY ([OrderID]) REFERENCES [Orders],
    FOREIGN KEY ([ProductID]) REFERENCES [Products] ([ProductID]));
CREATE VIEW [Products by Category] AS SELECT CategoryName, count(*) AS n
    FROM Categories JOIN Products USING (CategoryID) GROUP BY CategoryName;
""",
    "films": """
CREATE TABLE film (film_id INTEGER PRIMARY KEY, title VARCHAR(255) NOT NULL,
    rating TEXT DEFAULT 'G' CHECK (rating IN ('G', 'PG', 'PG-13', 'R', 'NC-17')),
    special_features VARCHAR(100), last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE film_actor (actor_id INT NOT NULL, film_id INT NOT NULL,
    last_update TIMESTAMP NOT NULL, PRIMARY KEY (actor_id, film_id),
    FOREIGN KEY (film_id) REFERENCES film ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE film_text (film_id SMALLINT NOT NULL, title VARCHAR(255) NOT NULL, description BLOB,
    PRIMARY KEY (film_id));
CREATE TRIGGER stamp AFTER UPDATE ON film BEGIN
    UPDATE film SET last_update = datetime('now') WHERE rowid = new.rowid; END;
CREATE VIEW film_list AS SELECT film_id AS fid, title, rating FROM film;
""",
    "django": """
CREATE TABLE "django_content_type" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "app_label" varchar(100) NOT NULL, "model" varchar(100) NOT NULL);
CREATE UNIQUE INDEX "label_model" ON "django_content_type" ("app_label", "model");
CREATE TABLE "auth_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "is_superuser" bool NOT NULL, "username" varchar(150) NOT NULL UNIQUE,
    "date_joined" datetime NOT NULL);
CREATE TABLE "polls_choice" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "votes" integer unsigned NOT NULL CHECK ("votes" >= 0), "extra" text NOT NULL
    CHECK ((JSON_VALID("extra") OR "extra" IS NULL)),
    "user_id" integer NOT NULL REFERENCES "auth_user" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY,
    "session_data" text NOT NULL, "expire_date" datetime NOT NULL);
""",
    "tickets": """
CREATE TABLE ticket (id integer PRIMARY KEY, type text, time int, summary text, keywords text);
CREATE TABLE ticket_custom (ticket integer, name text, value text, UNIQUE (ticket, name));
CREATE TABLE ticket_change (ticket integer, time int, field text, oldvalue text,
    UNIQUE (ticket, time, field));
CREATE TABLE system (name text PRIMARY KEY, value text);
CREATE TABLE permission (username text, action text, PRIMARY KEY (username, action)) WITHOUT ROWID;
CREATE TABLE "enum" (type text, name text, value text, UNIQUE (type, name));
""",
    "rails": """
CREATE TABLE "ar_internal_metadata" ("key" varchar NOT NULL PRIMARY KEY, "value" varchar,
    "created_at" datetime(6) NOT NULL);
CREATE TABLE "posts" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL, "title" varchar,
    "published" boolean DEFAULT 0 NOT NULL, "settings" json DEFAULT '{}', "score" decimal(8, 2),
    "slug" varchar GENERATED ALWAYS AS (lower("title")) VIRTUAL);
CREATE TABLE "comments" ("id" integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    "post_id" integer NOT NULL, "body" text,
    CONSTRAINT "fk" FOREIGN KEY ("post_id") REFERENCES "posts" ("id"));
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL, at REAL, any ANY) STRICT;
""",
}
TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"


@pytest.mark.parametrize("name", shortened(tuple(SCHEMAS), "trade"))
def test_every_table_has_its_tools_and_no_call_is_an_internal_error(
    name: str, tmp_path: Path
) -> None:
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.executescript(SCHEMAS[name])
        tables = [
            table for (table,) in connection.execute(TABLES) if not table.startswith("sqlite_")
        ]
    config = 'kits = ["tables"]\n[database]\npath = "app.db"\n'
    config += "".join(f"[tables.{json.dumps(table)}]\n" for table in tables)
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    random = Random(name)  # noqa: S311
    answered = 0
    with connected(made_here(root), kit="tables") as driver:
        for _ in range(8):
            for tool in driver.tools():
                given = arguments_for(tool["inputSchema"], random)
                failed, text = driver.ask(tool["name"], given)
                assert "inside the server" not in text, (tool["name"], given)
                assert "Traceback" not in text
                answered += not failed

    assert answered
    with closing(sqlite3.connect(root / "app.db")) as connection:
        assert [] == connection.execute("PRAGMA foreign_key_check").fetchall()
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
