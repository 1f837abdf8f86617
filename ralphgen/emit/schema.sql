-- The database of a project that has none: what SPEC-070 describes, and overrides of a
-- discipline's tools.

-- One row: the project itself.
CREATE TABLE metadata (
    id                   INTEGER PRIMARY KEY CHECK (id = 1),
    schema_version       TEXT NOT NULL DEFAULT '1.0',
    project_title        TEXT NOT NULL,
    project_description  TEXT,
    project_created      TEXT  -- YYYY-MM-DD
) STRICT;

-- What the project is made of; its tasks belong to them.
CREATE TABLE features (
    name             TEXT PRIMARY KEY,
    display_name     TEXT NOT NULL,
    acronym          TEXT NOT NULL UNIQUE,
    description      TEXT,
    created          TEXT,  -- YYYY-MM-DD
    knowledge_paths  TEXT DEFAULT '[]',  -- JSON: documents
    context_files    TEXT DEFAULT '[]',  -- JSON: source files
    architecture     TEXT,
    boundaries       TEXT,  -- in and out of scope
    learnings        TEXT DEFAULT '[]',  -- JSON: objects with a text
    dependencies     TEXT DEFAULT '[]'  -- JSON: sentences
) STRICT;

-- The agent personas.
CREATE TABLE disciplines (
    name                TEXT PRIMARY KEY,
    display_name        TEXT NOT NULL,
    acronym             TEXT NOT NULL UNIQUE,
    icon                TEXT NOT NULL,  -- name of a Lucide icon
    color               TEXT NOT NULL,  -- #rrggbb
    system_prompt       TEXT,
    skills              TEXT DEFAULT '[]',  -- JSON: strings
    conventions         TEXT,
    mcp_servers         TEXT DEFAULT '[]',  -- JSON: name, command, args, env
    stack_id            INTEGER,
    image_path          TEXT,  -- relative to .ralph
    crops               TEXT,  -- JSON: boxes in the image
    description         TEXT,
    image_prompt        TEXT,  -- JSON: positive, negative
    mcp_tool_overrides  TEXT  -- JSON: {"additional_disabled": ["tool"]}
) STRICT;

-- The work; an id may return after the highest was deleted.
CREATE TABLE tasks (
    id                   INTEGER PRIMARY KEY,
    feature              TEXT NOT NULL REFERENCES features (name) ON DELETE RESTRICT,
    discipline           TEXT NOT NULL REFERENCES disciplines (name) ON DELETE RESTRICT,
    title                TEXT NOT NULL,
    description          TEXT,
    status               TEXT NOT NULL DEFAULT 'pending',
    priority             TEXT,  -- low, medium, high or critical
    tags                 TEXT DEFAULT '[]',  -- JSON: strings
    depends_on           TEXT DEFAULT '[]',  -- JSON: task ids
    blocked_by           TEXT,  -- a reason in words
    created              TEXT,  -- YYYY-MM-DD
    updated              TEXT,  -- YYYY-MM-DD
    completed            TEXT,  -- YYYY-MM-DD
    acceptance_criteria  TEXT DEFAULT '[]',  -- JSON: strings
    context_files        TEXT DEFAULT '[]',  -- JSON: source files
    output_artifacts     TEXT DEFAULT '[]',  -- JSON: files
    hints                TEXT,  -- prose
    estimated_turns      INTEGER,
    provenance           TEXT,  -- agent, human or system
    pseudocode           TEXT,
    enriched_at          TEXT  -- YYYY-MM-DD
) STRICT;

-- What was said about a task.
CREATE TABLE task_comments (
    id             INTEGER PRIMARY KEY,
    task_id        INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    author         TEXT NOT NULL,  -- a person or a discipline
    discipline     TEXT REFERENCES disciplines (name) ON DELETE SET NULL,
    agent_task_id  INTEGER,  -- the task of the agent that wrote
    priority       TEXT,
    body           TEXT NOT NULL,
    created        TEXT  -- YYYY-MM-DDTHH:MM:SSZ
) STRICT;

-- Kinds of session that a person made from one of the seven.
CREATE TABLE recipe_configs (
    name           TEXT PRIMARY KEY,
    base_recipe    TEXT NOT NULL,
    section_order  TEXT NOT NULL DEFAULT '[]',  -- JSON: section names
    sections       TEXT NOT NULL DEFAULT '{}',  -- JSON: section name to settings
    created        TEXT,  -- YYYY-MM-DDTHH:MM:SSZ
    updated        TEXT  -- YYYY-MM-DDTHH:MM:SSZ
) STRICT;

-- Indexes.
CREATE INDEX tasks_by_feature ON tasks (feature);
CREATE INDEX tasks_by_discipline ON tasks (discipline);
CREATE INDEX tasks_by_status ON tasks (status);
CREATE INDEX task_comments_by_task ON task_comments (task_id);
