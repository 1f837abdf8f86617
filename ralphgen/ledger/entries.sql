-- The entries of the state files, in PostgreSQL: its rows are those of all machines. In a project on
-- SQLite they are files.
CREATE TABLE ralphgen_entries (
    number  INTEGER PRIMARY KEY,  -- in which order they were added
    file    TEXT NOT NULL,  -- learnings.txt or progress.txt
    entry   TEXT NOT NULL  -- a line with those that belong to it
) STRICT;

CREATE INDEX ralphgen_entries_file ON ralphgen_entries (file, number);
