"""What a session is held to before a task is done, and the files as it found them."""

import json
from pathlib import Path
from typing import Any

from ralphgen.project.inspect import FACTS
from ralphgen.project.root import database_path, is_on_postgresql, project_home
from ralphgen.runtime.files.work_tree import (
    protected_elsewhere,
    protected_files,
    session_rules,
    tree_files,
    watched_files,
)
from ralphgen.runtime.values.encoding import sha256_hex
from ralphgen.sessions.store import CONTEXT, SNAPSHOT


def fixed_rules(
    root: Path, work_tree: Path, feature: str | None = None
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what the emitted server holds tasks to, for the context, and the file beside it.

    The rules are those of the project in `root`, the files those of `work_tree`, and ralphgen's own
    in the project's root and home. The context gets
    the rules under `done`; the file is a snapshot of files, by its name. The rules have the
    snapshot's digest: both are fixed by the digest of the session's context, so
    that no edit of the project loosens them. Both are empty in a project without checks. A spec
    that is called like the `feature` is one of the session's.
    """
    try:
        facts = json.loads((root / FACTS).read_bytes())["config"].get("done")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        facts = None  # the server is compared with its manifest, which lists this file
    if not facts:
        return {}, {}
    database = "" if is_on_postgresql(root) else str(database_path(root))
    rules = session_rules(str(work_tree), str(root), [feature] if feature else [], database)
    files = tree_files(str(work_tree), rules, facts["protect"])
    protected = protected_files(str(work_tree), facts["protect"], files)
    protected |= protected_elsewhere(str(work_tree), (str(root), str(project_home(root))))
    commands = [check["run"] for check in facts["checks"] if "run" in check]
    snapshot = {
        "protected": protected,
        "watched": watched_files(facts["watch"], commands, files),
        "rules": rules,
        "protect": facts["protect"],
    }
    # Names of files need not be text: each such byte is spelled as half of a surrogate pair.
    data = json.dumps(snapshot, indent=0).encode()
    return {"done": {**facts, "snapshot": sha256_hex(data)}}, {SNAPSHOT: data}


def read_snapshot(folder: Path) -> dict[str, Any]:
    """Return the snapshot of the session in a folder; empty without one of this ralphgen."""
    try:
        facts = json.loads((folder / CONTEXT).read_bytes())["done"]
        data = (folder / SNAPSHOT).read_bytes()
        snapshot: dict[str, Any] = json.loads(data)
        is_whole = sha256_hex(data) == facts["snapshot"] and "rules" in snapshot
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return snapshot if is_whole else {}
