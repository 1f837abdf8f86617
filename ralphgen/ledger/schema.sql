-- The ledger: ralphgen's tables in a project's database. They have no foreign keys to the tables of
-- the app, and change none of them. Times are ISO 8601 in UTC.

-- One row. The default of `version` is the version of all these tables.
CREATE TABLE ralphgen_ledger (
    version        INTEGER NOT NULL DEFAULT 2,
    created        TEXT NOT NULL,
    rows_imported  TEXT,  -- the last merged commit of the branch with rows
    rows_exported  TEXT,  -- the last commit of that branch with the rows of these tables
    rows_skipped   TEXT  -- JSON: rows of the merged commit that were not merged, as in its base
) STRICT;

-- The sessions: their work, time, cost and outcome.
CREATE TABLE ralphgen_sessions (
    id             TEXT PRIMARY KEY,
    recipe         TEXT NOT NULL,
    discipline     TEXT,
    task_id        INTEGER,
    feature        TEXT,
    agent          TEXT,  -- the program
    model          TEXT,
    started        TEXT NOT NULL,
    ended          TEXT,
    outcome        TEXT,  -- done, blocked, asked, skipped, open, out of time or budget, failed,
                          -- stopped, rate limited, ended
    turns          INTEGER,
    input_tokens   INTEGER,
    output_tokens  INTEGER,
    cost_usd       REAL,
    estimated_usd  REAL,  -- the estimate, if the agent reported no cost
    base_commit    TEXT,  -- the commit at its start
    worktree       TEXT,  -- the directory of its git worktree, if it had one
    merged         TEXT,  -- the merge commit of its work on the base branch
    worker         TEXT  -- the worker without the database that ran it
) STRICT;

-- The claims of sessions on tasks, one row for each task. A row remains after its claim ends, so
-- that the token never decreases.
CREATE TABLE ralphgen_claims (
    task_id    INTEGER PRIMARY KEY,
    session    TEXT,
    token      INTEGER NOT NULL,  -- increases with each claim
    taken      TEXT,
    expires    TEXT,
    host       TEXT,
    boot       TEXT,
    namespace  TEXT,
    pid        INTEGER,
    started    TEXT,  -- the start time of the process, in the format of its system
    began      TEXT,  -- when the session set the task to in_progress
    attempts   INTEGER NOT NULL DEFAULT 0  -- sessions that ended without closing the task
) STRICT;

-- The journal: each changed row, and each changed line of a state file (`table_name` is its name).
CREATE TABLE ralphgen_journal (
    number      INTEGER PRIMARY KEY,
    time        TEXT NOT NULL,
    session     TEXT,
    tool        TEXT,
    table_name  TEXT NOT NULL,
    row_key     TEXT NOT NULL,
    before      TEXT,  -- JSON: the changed columns; null for a new row
    after       TEXT  -- JSON: the changed columns; null for a deleted row
) STRICT;

-- The changes of state files that an interrupted undo has not finished; usually empty.
CREATE TABLE ralphgen_unfinished (
    number  INTEGER PRIMARY KEY,  -- of the journal entry of a restored or removed line
    copy    TEXT NOT NULL  -- the file that replaces the state file; it is missing afterwards
) STRICT;

-- The evidence: one run of one check on one state of the work tree.
CREATE TABLE ralphgen_evidence (
    number      INTEGER PRIMARY KEY,
    task_id     INTEGER,
    session     TEXT,
    check_name  TEXT NOT NULL,
    definition  TEXT NOT NULL,  -- the digest of the check's definition
    exit_code   INTEGER,  -- null if the check was stopped
    started     TEXT NOT NULL,
    seconds     REAL NOT NULL,
    tree        TEXT NOT NULL,  -- the digest of the work tree's content
    protected   TEXT NOT NULL DEFAULT '[]',  -- JSON: protected files that had changed
    watched     TEXT NOT NULL DEFAULT '[]',  -- JSON: watched files that had changed
    tail        TEXT NOT NULL DEFAULT '',  -- the end of its output
    run         INTEGER,  -- the run of the merge queue that ran it
    worker      TEXT  -- the worker that reported it
) STRICT;

CREATE INDEX ralphgen_claims_held ON ralphgen_claims (session) WHERE session IS NOT NULL;
CREATE INDEX ralphgen_journal_row ON ralphgen_journal (table_name, row_key);
CREATE INDEX ralphgen_journal_session ON ralphgen_journal (session) WHERE session IS NOT NULL;
CREATE INDEX ralphgen_evidence_task ON ralphgen_evidence (task_id);
CREATE INDEX ralphgen_evidence_tree ON ralphgen_evidence (tree);

-- The questions of agents to the user; `answered` is null while a question is open.
-- Version 2 added the rest of this file.
CREATE TABLE ralphgen_questions (
    number    INTEGER PRIMARY KEY,
    task_id   INTEGER,  -- null if the task was deleted, because its id can be reused
    session   TEXT NOT NULL,
    asked     TEXT NOT NULL,
    question  TEXT NOT NULL,
    options   TEXT NOT NULL DEFAULT '[]',  -- JSON: the suggested answers
    answered  TEXT,  -- when it was answered or withdrawn
    answer    TEXT,  -- null for a withdrawn question
    by        TEXT  -- the session that answered or withdrew it
) STRICT;

CREATE INDEX ralphgen_questions_task ON ralphgen_questions (task_id);

-- The merge queue: work to merge into a branch, and the results.
CREATE TABLE ralphgen_merges (
    number    INTEGER PRIMARY KEY,
    task_id   INTEGER,  -- null for a branch without a task
    session   TEXT,
    worker    TEXT,  -- null if a loop with this database ran the session
    work      TEXT NOT NULL,  -- the commit to merge
    tree      TEXT,  -- its tree, if the session proved it
    target    TEXT NOT NULL,  -- the branch to merge it into
    state     TEXT NOT NULL DEFAULT 'waiting',  -- waiting, merged, returned, dropped
    entered   TEXT NOT NULL,
    ended     TEXT,
    batch     INTEGER,  -- the batch that decided it
    runner    TEXT,  -- the worker, or the machine and process, that ran the queue
    landing   TEXT,  -- its merge commit, recorded before the branch moves; empty if it needs none
    merged    TEXT,  -- the merge commit
    reason    TEXT,  -- why it was returned or dropped, or is still waiting
    tail      TEXT  -- the end of the failing output
) STRICT;

CREATE UNIQUE INDEX ralphgen_merges_waiting ON ralphgen_merges (task_id) WHERE state = 'waiting';

-- The runs of checks on merges. A run without an end is in progress or was killed.
CREATE TABLE ralphgen_runs (
    number   INTEGER PRIMARY KEY,
    batch    INTEGER NOT NULL,
    target   TEXT NOT NULL,
    base     TEXT NOT NULL,  -- the commit of the target branch below the head
    head     TEXT NOT NULL,  -- the checked commit
    tree     TEXT NOT NULL,
    members  TEXT NOT NULL,  -- JSON: the numbers of its merges; empty for the branch alone
    started  TEXT NOT NULL,
    ended    TEXT,
    passed   INTEGER,
    worker   TEXT
) STRICT;

-- The process that runs the merge queue of a branch, until its lease expires.
CREATE TABLE ralphgen_runner (
    target   TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    expires  TEXT NOT NULL,  -- empty if the owner ended the lease
    batch    INTEGER NOT NULL DEFAULT 0  -- the number of its last batch
) STRICT;

-- The user's decisions on finished work.
CREATE TABLE ralphgen_reviews (
    number   INTEGER PRIMARY KEY,
    task_id  INTEGER,  -- null if the task was deleted, because its id can be reused
    session  TEXT,  -- the session that finished the task, or null
    verdict  TEXT NOT NULL,  -- accepted, sent back, undone
    author   TEXT NOT NULL,
    time     TEXT NOT NULL,
    note     TEXT,
    reverts  TEXT,  -- the commit that reverted the work on the base branch
    by       TEXT NOT NULL  -- the session of the decision
) STRICT;

CREATE INDEX ralphgen_reviews_task ON ralphgen_reviews (task_id);

-- The order of the tasks that agents take first, set by the user.
CREATE TABLE ralphgen_order (
    task_id   INTEGER PRIMARY KEY,
    position  INTEGER NOT NULL
) STRICT;

-- The workers: machines that take tasks without the database, each with a token.
CREATE TABLE ralphgen_workers (
    name     TEXT PRIMARY KEY,
    token    TEXT NOT NULL,  -- the id of the token, not the token itself
    merge    INTEGER NOT NULL DEFAULT 0,  -- 1 for a worker that may run the merge queue
    expires  TEXT NOT NULL,
    seen     TEXT,  -- when it last claimed a task or renewed a claim
    host     TEXT,
    revoked  TEXT
) STRICT;
