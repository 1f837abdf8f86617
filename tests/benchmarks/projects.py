"""Projects of a chosen size, with a server, on the schema that `ralphgen init` lays down."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from cases import INIT_SCHEMA
from driving import context_for, create_database, made_here, on_context, quiet
from processes import HANDSHAKE, Server, conversation

from ralphgen.emit.workflows import regenerate
from ralphgen.environment import INTERPRETER_OPTIONS

PLAIN_SDK = Path(__file__).parent / "peers" / "plain_sdk.py"
ROWS = """
INSERT INTO metadata (id, project_title, project_created) VALUES (1, 'Shop', '2026-02-10');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {disciplines})
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    SELECT 'd' || i, 'D ' || i, printf('D%03d', i), 'Code', '#068d87' FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {features})
INSERT INTO features (name, display_name, acronym)
    SELECT 'f' || i, 'F ' || i, char(65 + i / 676 % 26, 65 + i / 26 % 26, 65 + i % 26, 90) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {tasks})
INSERT INTO tasks (feature, discipline, title, description, status, priority, depends_on)
    SELECT 'f' || (i % {features} + 1), 'd' || (i % {disciplines} + 1), 'Task ' || i,
        'Do number ' || i || ': what is asked for, in a sentence or two of the usual length.',
        CASE i % 3 WHEN 0 THEN 'done' WHEN 1 THEN 'pending' ELSE 'draft' END,
        CASE i % 4 WHEN 0 THEN 'high' ELSE 'medium' END,
        CASE WHEN i > 10 THEN '[' || (i - 1) || ',' || (i - 7) || ']' ELSE '[]' END FROM n;
INSERT INTO task_comments (task_id, author, body, created)
    SELECT id, 'd1', 'Done as agreed.', '2026-02-10T10:00:00Z' FROM tasks WHERE id % 10 = 1;
"""


def project(
    root: Path,
    *,
    tasks: int = 200,
    features: int = 20,
    disciplines: int = 8,
    columns: int = 0,
    wal: bool = True,
    more: str = "",
) -> Path:
    """Return a project of so many rows, with extra columns on its tasks, and `more` SQL."""
    added = "".join(
        f"ALTER TABLE tasks ADD COLUMN own_{number} TEXT;\n" for number in range(columns)
    )
    rows = ROWS.format(tasks=tasks, features=features, disciplines=disciplines)
    path = create_database(root, INIT_SCHEMA.read_text(encoding="utf-8"), added, rows, more)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {'wal' if wal else 'delete'}")
    regenerate(root, force=False, say=quiet)
    return made_here(root)


def database(root: Path) -> Path:
    """Return the path of a project's database."""
    return root / ".ralph" / "db" / "ralph.db"


def ours(root: Path, *, recipe: str = "manual", era: str = HANDSHAKE) -> Server:
    """The project's server, started as a session starts it."""
    server = str(root / ".ralph" / "mcp" / "server.py")
    context = on_context(context_for(root, recipe))
    return Server(
        f"ralphgen, {era}", (sys.executable, *INTERPRETER_OPTIONS, server, *context), era=era
    )


def plain_sdk(root: Path, *, era: str = HANDSHAKE) -> Server:
    """The same server behind the official SDK."""
    folder = str(root / ".ralph" / "mcp")
    context = on_context(context_for(root, "manual"))
    command = (sys.executable, *INTERPRETER_OPTIONS, str(PLAIN_SDK), folder, *context)
    return Server(f"the same kit, SDK, {era}", command, era=era)


def tools_file(root: Path) -> Path:
    """Our own `tools/list` as JSON, which the peers offer too."""
    path = root / "tools.json"
    if not path.exists():
        with conversation(ours(root)) as talk:
            talk.shake_hands()
            path.write_text(json.dumps(talk.ask("tools/list")["tools"]), encoding="utf-8")
    return path
