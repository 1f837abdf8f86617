"""Says what work trees there are, and what waits in them for a person."""

from collections.abc import Iterator
from pathlib import Path

from ralphgen.project.root import project_home
from ralphgen.runtime.files.checkout import SUFFIX
from ralphgen.worktrees.git import Git, tree_at
from ralphgen.worktrees.record import unmerged
from ralphgen.worktrees.trees import BRANCH, FOLDER, KEPT, MERGE


def worktree_notes(root: Path) -> Iterator[str]:
    """Yield a sentence each on work trees, kept branches and merges that wait; nothing for none.

    Raises `ProjectError` where git or the database cannot be asked.
    """
    folder = project_home(root) / FOLDER
    paths = [path for path in sorted(folder.glob("*")) if not path.name.endswith(SUFFIX)]
    trees = [tree for path in paths if (tree := tree_at(root, path))]
    waiting = unmerged(root)
    if waiting:
        tasks = ", ".join(str(one.task) for one in waiting)
        yield f'done but not merged: task {tasks}; "ralphgen loop --worktrees" continues the merge'
    if not trees:
        return
    yield f"{len(trees)} in {FOLDER}, kept for the next loop"
    for tree in trees:
        words = ("--porcelain", "--ignore-submodules=all")
        is_agents = tree.folder.name != MERGE
        if is_agents and tree.asked("--no-optional-locks", "status", *words).output:
            yield f'"{tree.folder}" contains uncommitted work'
    kept = [name for name in Git(root).branches(f"{BRANCH}*") if KEPT.match(name)]
    if kept:
        yield f"unmerged branches: {', '.join(kept)}"
