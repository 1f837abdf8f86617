-- The least that tasks need, what claims and checks work with,, and "effort", which is this project's.
CREATE TABLE features (
    name TEXT PRIMARY KEY,
    description TEXT
);
CREATE TABLE disciplines (
    name TEXT PRIMARY KEY,
    display_name TEXT,
    system_prompt TEXT
);
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    feature TEXT NOT NULL REFERENCES features (name),
    discipline TEXT NOT NULL REFERENCES disciplines (name),
    title TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('draft', 'pending', 'in_progress', 'done', 'blocked', 'skipped')),
    priority TEXT CHECK (priority IN ('low', 'medium', 'high')),
    depends_on TEXT DEFAULT '[]',
    acceptance_criteria TEXT,
    effort TEXT CHECK (effort IN ('hours', 'days'))
);
CREATE TABLE task_comments (
    id INTEGER PRIMARY KEY,
    task_id INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    author TEXT,
    body TEXT NOT NULL,
    created TEXT
);

INSERT INTO features VALUES ('greetings', 'The greetings of the program.');
INSERT INTO disciplines VALUES
    ('python', 'Python', 'You write small functions, and the shortest code that is clear.');
INSERT INTO tasks (id, feature, discipline, title, priority, depends_on, effort) VALUES
    (1, 'greetings', 'python', 'Say hello', 'high', '[]', 'hours'),
    (2, 'greetings', 'python', 'Say goodbye', 'low', '[1]', 'hours');
