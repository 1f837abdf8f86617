"""What a later ralphgen changes of a project, by kind, and the step to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ralphgen.emit.editor_schemas import write_schemas
from ralphgen.emit.scaffold import write_ignored
from ralphgen.emit.write import compare
from ralphgen.errors import ProjectError, Say
from ralphgen.files import MANIFEST
from ralphgen.generate.default_context import POLICY, Tools, tools_on_disk
from ralphgen.generate.removals import refuse_removals
from ralphgen.generate.workflows import generate, read_before, regenerate
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.tables import VERSION, add_indexes, read_state, upgrade_tables
from ralphgen.project.root import FOLDER, has_database
from ralphgen.project.versions import is_earlier
from ralphgen.runtime.policy import FULL

VENDORED = "vendored"
# What a file is, by its name or its folder; any other is of a kit, and so holds tools.
KINDS = {
    POLICY: "policy",
    "project.json": "facts",
    "runtime": VENDORED,
    "requirements.lock": VENDORED,
    MANIFEST: VENDORED,
    **dict.fromkeys(("server.py", "README.md", "ruff.toml"), "server"),
    **dict.fromkeys((".gitattributes", ".gitignore", ".prettierrc"), "server"),
}
ORDER = ("tools", "policy", "facts", "server", VENDORED)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What a project's server would become: `before` is the version that wrote it.

    `gained` and `lost` are tools, as `kit:tool`; `parts` is the diff of each file by its path.
    """

    before: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    parts: Mapping[str, str]

    def text(self) -> str:
        """Return one diff with a line above each kind of files; of vendored ones, the line alone.

        Nobody wrote these for the project: their number says enough.
        """
        whole = ""
        for kind in ORDER:
            paths = [path for path in self.parts if _kind(path) == kind]
            if not paths:
                continue
            said = [f"{len(paths)} {'file' if len(paths) == 1 else 'files'}"]
            if kind == "tools":
                said += [f"new: {', '.join(self.gained)}"] * bool(self.gained)
                said += [f"removed: {', '.join(self.lost)}"] * bool(self.lost)
            whole += f"# {kind}: {'; '.join(said)}\n"
            whole += "".join(self.parts[path] for path in paths if kind != VENDORED)
        return whole


def plan_upgrade(root: Path) -> Upgrade | None:
    """Return what this ralphgen would change of the project in `root`; writes nothing.

    None where an earlier release did not write the server. Raises `ProjectError` where there is
    none, and where something would go that the database lacks, and `VersionError` where another
    ralphgen has to write it.
    """
    before = read_before(root)
    before.refuse_other_versions(root)
    if not before.versions:
        raise ProjectError(f"there is no server in {FOLDER}", 'run "ralphgen init"')
    earlier = [version for version in before.versions if is_earlier(version)]
    if not earlier:
        return None
    generated = generate(root)
    refuse_removals(before.recorded, generated.project, generated.plan, ())
    old, new = tools_on_disk(root), generated.plan.policy.recipes[FULL].tools
    drift = compare(root / FOLDER, generated.files)
    return Upgrade(earlier[0], _only_in(new, old), _only_in(old, new), drift.parts)


def upgrade(root: Path, *, say: Say) -> None:
    """Write the server with this ralphgen, and bring along what the earlier one has left.

    These are the default context, which gets the tools that are new, git's list of what to ignore,
    the schemas for editors, and the ledger, after a backup. Raises what `regenerate` does.
    """
    regenerate(root, force=False, say=say)
    for written in write_ignored(root):
        say(f"wrote {written}")
    write_schemas(root)
    if not has_database(root):
        return
    found = read_state(root).version
    if found is None:
        say('no ledger; to record sessions, claims and evidence, run "ralphgen db ledger on"')
    elif found < VERSION:
        say(backed_up(root))
        upgrade_tables(root)
        say(f"upgraded the ledger from version {found} to {VERSION}")
    elif made := add_indexes(root):
        say(f"added {made} missing ledger {'index' if made == 1 else 'indexes'}")


def _kind(path: str) -> str:
    return KINDS.get(path) or KINDS.get(path.partition("/")[0], "tools")


def _only_in(some: Tools, others: Tools) -> tuple[str, ...]:
    return tuple(
        f"{kit}:{tool}"
        for kit, tools in some.items()
        for tool in tools
        if tool not in others.get(kit, ())
    )
