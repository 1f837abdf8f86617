-- The entries of the state files, which all machines share in PostgreSQL. With SQLite they are
-- files.
CREATE TABLE ralphgen_entries (
    number  INTEGER PRIMARY KEY,  -- increases with each entry
    file    TEXT NOT NULL,  -- learnings.txt or progress.txt
    entry   TEXT NOT NULL  -- a line and the indented lines below it
) STRICT;

CREATE INDEX ralphgen_entries_file ON ralphgen_entries (file, number);
