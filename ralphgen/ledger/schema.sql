-- What ralphgen itself keeps in a project's database. No foreign keys lead from here to the tables
-- of the app, and none of them is changed. Times are ISO 8601 in UTC.

-- One row. The default is the version of all of these tables, which so is a part of the schema.
CREATE TABLE ralphgen_ledger (
    version        INTEGER NOT NULL DEFAULT 2,
    created        TEXT NOT NULL,
    rows_imported  TEXT,  -- the commit of the rows' branch that was last merged into the tables
    rows_exported  TEXT,  -- the commit of that branch that the tables were last written to
    rows_skipped   TEXT  -- rows of the merged commit that the tables lack, as rows of its base
) STRICT;

-- The sessions: who worked on what, when, at what cost, and how it ended.
CREATE TABLE ralphgen_sessions (
    id             TEXT PRIMARY KEY,
    recipe         TEXT NOT NULL,
    discipline     TEXT,
    task_id        INTEGER,
    feature        TEXT,
    agent          TEXT,  -- the program that worked in it
    model          TEXT,
    started        TEXT NOT NULL,
    ended          TEXT,
    outcome        TEXT,  -- done, blocked, asked, skipped, open, out of time or budget, failed,
                          -- stopped, rate limited, ended
    turns          INTEGER,
    input_tokens   INTEGER,
    output_tokens  INTEGER,
    cost_usd       REAL,
    estimated_usd  REAL,  -- by its time, if the agent reported no cost
    base_commit    TEXT,  -- of the work tree when it began
    worktree       TEXT,  -- its folder, where it is not the project's own
    merged         TEXT,  -- the commit that brought its work into the base branch
    worker         TEXT  -- the worker that it ran on, without the database
) STRICT;

-- Who holds a task: at most one row a task, which stays for its token when nobody does.
CREATE TABLE ralphgen_claims (
    task_id    INTEGER PRIMARY KEY,
    session    TEXT,
    token      INTEGER NOT NULL,  -- only ever grows
    taken      TEXT,
    expires    TEXT,
    host       TEXT,
    boot       TEXT,
    namespace  TEXT,
    pid        INTEGER,
    started    TEXT,  -- when the process was, as its system tells
    began      TEXT,  -- when the session set the task in_progress
    attempts   INTEGER NOT NULL DEFAULT 0  -- sessions that ended without closing the task
) STRICT;

-- What was changed, row by row; in a row of a state file's name, one line of it.
CREATE TABLE ralphgen_journal (
    number      INTEGER PRIMARY KEY,
    time        TEXT NOT NULL,
    session     TEXT,
    tool        TEXT,
    table_name  TEXT NOT NULL,
    row_key     TEXT NOT NULL,
    before      TEXT,  -- JSON: the changed columns; null for a new row
    after       TEXT  -- JSON: the changed columns; null for a deleted one
) STRICT;

-- What has yet to be done to a state file, because an undo was stopped: nothing, as a rule.
CREATE TABLE ralphgen_unfinished (
    number  INTEGER PRIMARY KEY,  -- of the journal: a line that was put back or taken out
    copy    TEXT NOT NULL  -- the file that takes the place of the state file: gone once it has
) STRICT;

-- What was proved: one run of one check on one content of the work tree.
CREATE TABLE ralphgen_evidence (
    number      INTEGER PRIMARY KEY,
    task_id     INTEGER,
    session     TEXT,
    check_name  TEXT NOT NULL,
    definition  TEXT NOT NULL,  -- the digest of what was run
    exit_code   INTEGER,  -- null where it was stopped
    started     TEXT NOT NULL,
    seconds     REAL NOT NULL,
    tree        TEXT NOT NULL,  -- the digest of the work tree's content
    protected   TEXT NOT NULL DEFAULT '[]',  -- JSON: protected files that had changed
    watched     TEXT NOT NULL DEFAULT '[]',  -- JSON: watched files that had changed
    tail        TEXT NOT NULL DEFAULT '',  -- the end of its output
    run         INTEGER,  -- of the merge queue, which ran it
    worker      TEXT  -- the worker whose token reported it
) STRICT;

CREATE INDEX ralphgen_claims_held ON ralphgen_claims (session) WHERE session IS NOT NULL;
CREATE INDEX ralphgen_journal_row ON ralphgen_journal (table_name, row_key);
CREATE INDEX ralphgen_journal_session ON ralphgen_journal (session) WHERE session IS NOT NULL;
CREATE INDEX ralphgen_evidence_task ON ralphgen_evidence (task_id);
CREATE INDEX ralphgen_evidence_tree ON ralphgen_evidence (tree);

-- What agents have asked the user: open until `answered`, then answered or withdrawn.
-- Version 2 added the rest of this file.
CREATE TABLE ralphgen_questions (
    number    INTEGER PRIMARY KEY,
    task_id   INTEGER,  -- null once the task is deleted: ids come back
    session   TEXT NOT NULL,
    asked     TEXT NOT NULL,
    question  TEXT NOT NULL,
    options   TEXT NOT NULL DEFAULT '[]',  -- JSON: the suggested answers
    answered  TEXT,  -- when it was answered or withdrawn
    answer    TEXT,  -- null for a withdrawn one
    by        TEXT  -- the session that answered it or withdrew it
) STRICT;

CREATE INDEX ralphgen_questions_task ON ralphgen_questions (task_id);

-- The merge queue: work that waits to be merged into a branch, and its end.
CREATE TABLE ralphgen_merges (
    number    INTEGER PRIMARY KEY,
    task_id   INTEGER,  -- null for a branch without a task
    session   TEXT,
    worker    TEXT,  -- null for a session of this database's own loops
    work      TEXT NOT NULL,  -- the commit to merge
    tree      TEXT,  -- its tree, if the session proved it
    target    TEXT NOT NULL,  -- the branch to merge it into
    state     TEXT NOT NULL DEFAULT 'waiting',  -- waiting, merged, returned, dropped
    entered   TEXT NOT NULL,
    ended     TEXT,
    batch     INTEGER,  -- that decided it
    runner    TEXT,  -- who ran the queue then: a worker, or a machine and a process
    merged    TEXT,  -- the commit that brought it into the branch
    reason    TEXT,  -- why it was returned or dropped, or still waits
    tail      TEXT  -- the end of the failing output
) STRICT;

CREATE UNIQUE INDEX ralphgen_merges_waiting ON ralphgen_merges (task_id) WHERE state = 'waiting';

-- The runs of checks on several merges together; one without an end is in progress, or was killed.
CREATE TABLE ralphgen_runs (
    number   INTEGER PRIMARY KEY,
    batch    INTEGER NOT NULL,
    target   TEXT NOT NULL,
    base     TEXT NOT NULL,  -- the commit of the branch that the head descends from
    head     TEXT NOT NULL,  -- the commit that was checked
    tree     TEXT NOT NULL,
    members  TEXT NOT NULL,  -- JSON: the numbers of the merges in it; none for the branch alone
    started  TEXT NOT NULL,
    ended    TEXT,
    passed   INTEGER,
    worker   TEXT
) STRICT;

-- Who runs the merge queue of a branch, until its lease ends.
CREATE TABLE ralphgen_runner (
    target   TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    expires  TEXT NOT NULL,  -- empty if the lease was ended
    batch    INTEGER NOT NULL DEFAULT 0  -- the number of its last batch
) STRICT;

-- What the user decided on finished work.
CREATE TABLE ralphgen_reviews (
    number   INTEGER PRIMARY KEY,
    task_id  INTEGER,  -- null once the task is deleted: ids come back
    session  TEXT,  -- that finished the task; null if none did
    verdict  TEXT NOT NULL,  -- accepted, sent back, undone
    author   TEXT NOT NULL,
    time     TEXT NOT NULL,
    note     TEXT,
    reverts  TEXT,  -- the commit that took the work out of the base branch
    by       TEXT NOT NULL  -- the session of the decision
) STRICT;

CREATE INDEX ralphgen_reviews_task ON ralphgen_reviews (task_id);

-- The tasks that the user put in order: agents take them before all others.
CREATE TABLE ralphgen_order (
    task_id   INTEGER PRIMARY KEY,
    position  INTEGER NOT NULL
) STRICT;

-- The machines that take tasks without the database, each by a token.
CREATE TABLE ralphgen_workers (
    name     TEXT PRIMARY KEY,
    token    TEXT NOT NULL,  -- its id, not the token itself
    merge    INTEGER NOT NULL DEFAULT 0,  -- 1 for a worker that may run the merge queue
    expires  TEXT NOT NULL,
    seen     TEXT,  -- when it last took or renewed
    host     TEXT,
    revoked  TEXT
) STRICT;
