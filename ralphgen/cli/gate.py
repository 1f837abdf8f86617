"""`ralphgen gate`: the proof of "done" for other loops, hooks and CI."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ralphgen.errors import RalphgenError, UsageError, harmless, plain
from ralphgen.files import put
from ralphgen.project.approvals import approvals_place
from ralphgen.project.root import project_place
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.terminal.app import App, Json, Project, TrustEdited
from ralphgen.terminal.console import print_json, say

if TYPE_CHECKING:
    from ralphgen.loop.gate import GateVerdict

NOT_PROVED, NOTHING_TO_PROVE = 1, 3
TRIES = 3
app = App()


@app.command(example="ralphgen gate --base origin/main")
def gate(
    task: Annotated[
        int | None, typer.Option(min=1, metavar="ID", help="The task to prove.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Take rules and protected files from the merge base."),
    ] = None,
    allow_protected: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Allow changes of these protected files. Repeatable."),
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an in-toto statement.")
    ] = None,
    hook: Annotated[
        bool, typer.Option("--hook", help="Answer a Stop hook of Claude Code or Codex.")
    ] = False,
    tries: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --hook: block at most N times.")
    ] = TRIES,
    enqueue: Annotated[
        bool, typer.Option("--enqueue", help="If proved, enter HEAD into the merge queue.")
    ] = False,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Prove the current files, for any loop or CI.

    Runs the checks and compares the protected files, as when a task is set to done. Exits with 0 if
    the files are proved, 1 if not, 2 for wrong usage, and 3 if no check applies.
    """
    from ralphgen.loop.gate import GateRequest, enter_head, refuse_loop_session

    of_commit = receipt is not None or enqueue
    request = GateRequest(task, base, tuple(allow_protected or ()), of_commit)
    if hook:
        if of_commit or as_json:
            text = "--hook cannot be combined with --receipt, --enqueue and --json"
            raise UsageError(text, "omit them")
        print(json.dumps(_hook_answer(project, request, sys.stdin.buffer.read(), tries)))
        return
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.loop.gate import Gate

    place = project_place(project)
    if enqueue:
        refuse_loop_session(place.root)
    gate = Gate(place, request)
    verdict = gate.judge(confirm_trust, say, trust_edited=trust_edited)
    if receipt is not None:
        put(receipt, json.dumps(verdict.receipt(), indent=2) + "\n")
    if as_json:
        print_json(verdict.facts())
    else:
        _show(verdict)
    if enqueue and verdict.is_passed:
        number, target = enter_head(place, verdict, base)
        say(plain(f'entered as merge {number} for "{target}"'))
    if not verdict.is_passed:
        raise typer.Exit(NOT_PROVED if verdict.lacking else NOTHING_TO_PROVE)


def _show(verdict: "GateVerdict") -> None:
    for check in verdict.checks:
        code = check["exit_code"]
        end = "ok" if code == 0 else "stopped" if code is None else f"exit code {code}"
        print(f"{plain(check['name'])}: {end}, {check['seconds']} s")
        if code != 0:
            for line in harmless(check["tail"]).splitlines():
                print(f"    {line}")
    refused = "; ".join(verdict.lacking)
    if verdict.protected and "protected files" not in refused:
        print(f"allowed changes of protected files: {plain(', '.join(verdict.protected))}")
    if verdict.changed_checks:
        print(f"changed checks, not run: {plain(', '.join(verdict.changed_checks))}")
    about = "" if verdict.task is None else f": task {verdict.task}"
    if verdict.lacking:
        print(f"not proved{about}: {plain(refused)}")
    else:
        print(f"proved{about}" if verdict.is_passed else f"nothing to prove{about}")


def _hook_answer(project: Path, request: Any, event: bytes, tries: int) -> dict[str, str]:
    """Return the answer to a Stop event; a gate that cannot run never blocks."""
    from ralphgen.loop.gate import CLOSED, Gate

    try:
        place = project_place(project)
        gate, count = Gate(place, request), Tries(place.root, _conversation(event))
        if gate.task is not None and gate.task_facts().status in CLOSED:
            return {}
        gate.approved_rules(lambda _shown: False)
        if count.tree == gate.tree():
            return {"systemMessage": "not proved, and no file changed since the last try"}
        reason = "; ".join(gate.judge(lambda _shown: False, say).lacking)
        if reason and count.number >= tries:
            return {"systemMessage": plain(f"not proved after {count.number} tries: {reason}")}
        if reason:
            count.add(gate.tree())  # checks may write files, such as the database of the evidence
    except RalphgenError as error:
        return {"systemMessage": f"the gate did not run: {error}"}
    return {"decision": "block", "reason": plain(f"not proved: {reason}")} if reason else {}


def _conversation(event: bytes) -> str:
    """Return the id of the conversation in an event; raise `UsageError` for an invalid event."""
    try:
        return str(json.loads(event)["session_id"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError("invalid event on standard input: session_id is missing") from error


class Tries:
    """How often the gate has blocked a conversation, and the tree of the last block.

    The count is in the user's directory, not in the project: checks see the same files again.
    """

    def __init__(self, root: Path, conversation: str) -> None:
        folder, record = approvals_place(root)
        digest = sha256_hex(f"{record}\n{conversation}".encode())
        self._path = Path(folder).with_name("gate") / f"{digest[:32]}.json"
        self.number, self.tree = 0, ""
        try:
            found = json.loads(self._path.read_bytes())
            self.number, self.tree = int(found["number"]), str(found["tree"])
        except (OSError, ValueError, LookupError, TypeError):
            pass

    def add(self, tree: str) -> None:
        """Count a block on a tree; raise `ProjectError` if the count cannot be stored."""
        self.number, self.tree = self.number + 1, tree
        put(self._path, json.dumps({"number": self.number, "tree": tree}))
