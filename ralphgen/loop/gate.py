"""Judges the current files by the rules on done, for other loops, hooks and CI."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralphgen.agents.calls import open_server
from ralphgen.agents.sandbox import current_rules, open_sandbox
from ralphgen.emit.trust import Ask, check_items, require_trust, run_check_items
from ralphgen.errors import ProjectError, Say, UsageError, plain
from ralphgen.files import decoded
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.gate import checked_files, session_protected
from ralphgen.kits.registry import KITS, read_settings
from ralphgen.loop.git import Git, base_branch
from ralphgen.loop.merges import enter_commit
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.config import Config, config_model
from ralphgen.project.git import branch_in
from ralphgen.project.inspect import done_rules, settings_models
from ralphgen.project.model import done_facts
from ralphgen.project.root import ProjectPlace
from ralphgen.project.toml import parse_toml
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.checkout import TreeError, TreeGit, unlike_commit, write_tree
from ralphgen.runtime.files.main_tree import PROTECTED, RALPH, pattern_of, repository_of
from ralphgen.runtime.files.work_tree import protected_now
from ralphgen.runtime.system import launched_session
from ralphgen.runtime.tasks import prerequisites, task_row
from ralphgen.runtime.tasks.claims import met
from ralphgen.runtime.tasks.status import checks_for, quoted_names
from ralphgen.sessions.snapshot import worktree_git
from ralphgen.sessions.store import CONTEXT, session_folder

KIT, TOOL = "ralph", "run_checks"
IGNORE = ".gitignore"
CLOSED = ("done", "blocked", "skipped")
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


@dataclass(frozen=True, slots=True)
class GateRequest:
    """The subject of the verdict: a task, or the files alone.

    With `base`, the rules come from the merge base of that reference and `HEAD`. Changes of
    protected files that a glob in `allowed` matches are reported and do not count. With
    `is_of_commit`, the files must be those of a commit.
    """

    task: int | None = None
    base: str | None = None
    allowed: tuple[str, ...] = ()
    is_of_commit: bool = False


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Whether the files are proved.

    `commit` is the checked-out commit, None if the files differ from it, and `base` the merge base,
    None without `--base`. `tree` is the id of the tree that git would commit. `checks` have `name`,
    `exit_code` (None if the check was stopped), `seconds` and `tail`. `protected` are the changed
    protected files, `changed_checks` the checks that differ from those of the base and did not run
    as they are now. `depends_on` are the open tasks that the task waits for, and `lacking` has one
    sentence for each reason why nothing is proved. `rules` is the digest of the rules on done.
    """

    task: int | None
    commit: str | None
    base: str | None
    tree: str
    checks: Sequence[Mapping[str, Any]]
    protected: Sequence[str]
    changed_checks: Sequence[str]
    depends_on: Sequence[int]
    lacking: Sequence[str]
    rules: str

    @property
    def is_passed(self) -> bool:
        """Whether at least one check ran, and nothing is lacking."""
        return bool(self.checks) and not self.lacking

    def facts(self) -> dict[str, Any]:
        """Return the verdict as values of JSON."""
        return {
            "gate": 1,
            "passed": self.is_passed,
            "task": self.task,
            "commit": self.commit,
            "base": self.base,
            "tree": self.tree,
            "checks": self.checks,
            "protected": self.protected,
            "changed_checks": self.changed_checks,
            "depends_on": self.depends_on,
            "lacking": self.lacking,
        }

    def receipt(self) -> dict[str, Any]:
        """Return an in-toto statement on the commit, for a tool that signs it.

        Source: https://in-toto.io/Statement/v1 and its predicate test-result v0.1.
        """
        annotations = {"tree": self.tree, **({"task": self.task} if self.task else {})}
        rules = {"name": CONFIG, "digest": {"sha256": self.rules}, "annotations": annotations}
        return {
            "_type": STATEMENT,
            "subject": [{"name": "commit", "digest": {"gitCommit": self.commit}}],
            "predicateType": TEST_RESULT,
            "predicate": {
                "result": "PASSED" if self.is_passed else "FAILED",
                "configuration": [rules],
                "passedTests": [one["name"] for one in self.checks if one["exit_code"] == 0],
                "failedTests": [one["name"] for one in self.checks if one["exit_code"] != 0],
            },
        }


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The columns of a task that the rules on done use; without a task, all are empty."""

    discipline: object = None
    status: str = ""
    depends_on: Sequence[int] = field(default=())


class Gate:
    """Judges the files of one project for one request.

    Raises `UsageError` for a request that does not fit the project, and `ProjectError` if git, the
    database or the server cannot be used.
    """

    def __init__(self, place: ProjectPlace, request: GateRequest) -> None:
        self._place = place
        self._request = request
        self._session = launched_session()
        self._context = _context(place.root, self._session)
        if self._session and request.allowed:
            text = "--allow-protected is for the user, and this is an agent's session"
            raise UsageError(text, "run the command in your own terminal")
        own = self._context.get("task_id")
        if self._session and request.task not in (None, own):
            text = f'this shell belongs to the session "{plain(self._session)}"'
            raise UsageError(f"{text} of another task", "omit --task")
        self.task: int | None = own if request.task is None else request.task
        self._git = _repository(place)
        self._head = _commit(self._git, "HEAD")
        self._base = None if request.base is None else _merge_base(self._git, request.base)

    def tree(self) -> str:
        """Return the id of the tree that git would commit now."""
        try:
            return write_tree(self._git, self._head)[0]
        except TreeError as error:
            raise ProjectError(f"git cannot record the files: {error}") from error

    def task_facts(self) -> TaskFacts:
        """Read the task of the request; raise `ProjectError` if there is none of its number."""
        if self.task is None:
            return TaskFacts()
        with Project(self._place.root).task_rows() as (rows, _):
            tables, database = rows.stored, rows.connection
            columns = tables.tasks.available_columns(["discipline", "status", "depends_on"])
            try:
                values = task_row(database, tables, self.task, columns)
            except ToolError as error:
                raise ProjectError(str(error), 'list tasks with "ralphgen task list"') from error
            row = dict(zip(columns, values, strict=True))
            needed = prerequisites(row.get("depends_on"))
            closed = met(database, tables, needed)
            waits_for = [one for one in needed if one not in closed]
        return TaskFacts(row.get("discipline"), str(row["status"]), waits_for)

    def judge(self, ask: Ask, say: Say, *, trust_edited: bool = False) -> GateVerdict:
        """Run the checks and return the verdict.

        `ask` asks the user to trust the commands of the checks. Raises `UntrustedError` for a no.
        """
        done = self.approved_rules(ask)
        tree = self.tree()
        is_clean = tree == self._gate_message("rev-parse", f"{self._head}^{{tree}}")
        if self._request.is_of_commit and not is_clean:
            raise UsageError("only a commit can be proved so: files differ", "commit them first")
        task = self.task_facts()
        checks = checks_for(done, task.discipline)
        protected = self._protected(done)
        answer: dict[str, Any] = {"checks": []}
        if checks:
            with open_sandbox(Project(self._place.root), say, asked=False):
                answer = self._checked(done, checks, say, trust_edited=trust_edited)
        if self.tree() != tree:
            is_clean = False
            if self._request.is_of_commit:
                raise ProjectError("files changed during the checks: no commit is proved")
        lacking = [
            f'the check "{check["name"]}" '
            + (f"ended with exit code {code}" if code is not None else "was stopped")
            for check in answer["checks"]
            if (code := check["exit_code"]) != 0
        ]
        lacking += [answer["not_proved"]] if "not_proved" in answer else []
        allowed = [pattern_of(glob) for glob in self._request.allowed]
        refused = [path for path in protected if not any(one.match(path) for one in allowed)]
        if refused and not (self._session and "not_proved" in answer):
            lacking.append(f"protected files were changed: {quoted_names(refused)}")
        if task.depends_on:
            ids = ", ".join(map(str, task.depends_on))
            lacking.append(f"it depends on tasks that are not done: {ids}")
        return GateVerdict(
            self.task,
            self._head if is_clean else None,
            self._base,
            tree,
            answer["checks"],
            protected,
            self._changed_checks(),
            task.depends_on,
            lacking,
            sha256_hex(json.dumps(done, sort_keys=True).encode()),
        )

    def _gate_message(self, *words: str) -> str:
        try:
            return self._git.say(*words).decode("utf-8", "surrogateescape").strip()
        except TreeError as error:
            raise ProjectError(str(error)) from error

    def approved_rules(self, ask: Ask) -> Mapping[str, Any]:
        """Return the rules on done, once the user trusts their commands.

        It comes before `tree`, which adds the user's own edits to git.
        """
        if self._base is None and self._session:
            return self._context.get("done") or {"checks": ()}
        config = read_settings(self._place.root) if self._base is None else self._based()
        is_based = self._base is not None  # a job proves files that it does not trust
        items = (
            check_items(config.done)
            if is_based
            else run_check_items(config.done, self._place.work_tree)
        )
        require_trust(self._place.root, items, ask)
        rules = done_rules(config)
        return {"checks": ()} if rules is None else done_facts(rules)

    def _based(self) -> Config:
        """Return the settings at the merge base, the default ones without a file there."""
        path = f"{self._own()}{CONFIG}"
        try:
            data = self._git.say("cat-file", "blob", f"{self._base}:{path}")
        except TreeError:
            return Config()
        shown = f"{CONFIG} at {plain(str(self._request.base))}"
        return parse_toml(decoded(data, shown), config_model(settings_models(KITS)), shown).values

    def _changed_checks(self) -> list[str]:
        """Return the names of the checks that differ from those at the merge base, sorted.

        All differ if the settings of the checkout cannot be read.
        """
        if self._base is None:
            return []
        try:
            now = read_settings(self._place.root).done.checks
        except ProjectError:
            now = []
        before = self._based().done.checks
        return sorted({one.name for one in (*now, *before) if one not in now or one not in before})

    def _own(self) -> str:
        """Return the path of the project from the top of its repository, with a slash or empty."""
        inner = self._place.work_tree.resolve().relative_to(
            Path(self._git.repository.top).resolve()
        )
        return "" if inner == Path() else f"{inner.as_posix()}/"

    def _protected(self, done: Mapping[str, Any]) -> list[str]:
        """Return the changed protected files, from the project's directory, sorted."""
        globs = [*done.get("protect", ())]
        if self._base is None:
            if self._session and "checks" in done:
                folder = session_folder(self._place.root, self._session)
                if folder is not None:
                    return session_protected(self._place.root, self._place.work_tree, folder, done)
            globs += [f"{RALPH}/{name}" for name in PROTECTED]
        try:
            return self._unlike(self._base or self._head, globs)
        except TreeError as error:
            raise ProjectError(f"git cannot compare the protected files: {error}") from error

    def _unlike(self, commit: str, globs: Sequence[str]) -> list[str]:
        """Return the files that a glob matches and that are not as in a commit.

        A new file does not count if an ignore rule of the commit covers it, such as a test in
        `node_modules`; a changed `.gitignore` hides nothing.
        """
        work_tree, own = str(self._place.work_tree), self._own()
        patterns = [pattern_of(glob, work_tree) for glob in globs]
        paths = self._git.names("ls-tree", "-r", "--name-only", "--full-tree", commit)
        known = {path for path in paths if path.startswith(own)}
        present = {f"{own}{path}" for path in protected_now(work_tree, globs)}
        matching = [
            path
            for path in sorted(known | present)
            if any(one.match(path.removeprefix(own)) for one in patterns)
        ]
        differing = unlike_commit(self._git, commit, matching)
        new = [path for path in differing if path not in known]
        if new:
            rules = {path: [*_ignore_files(path)] for path in new}
            every = sorted({one for names in rules.values() for one in names})
            changed = {*unlike_commit(self._git, commit, every)}
            ignored = {
                *self._git.names(
                    *("ls-files", "--others", "--ignored", f"--exclude-per-directory={IGNORE}")
                )
            }
            hidden = {one for one in new if one in ignored and changed.isdisjoint(rules[one])}
            differing = [path for path in differing if path not in hidden]
        return sorted(path.removeprefix(own) for path in differing)

    def _checked(
        self,
        done: Mapping[str, Any],
        checks: Sequence[Mapping[str, Any]],
        say: Say,
        *,
        trust_edited: bool,
    ) -> dict[str, Any]:
        """Return the answer of `run_checks`; the server's stores the evidence for a task."""
        if self.task is None or self._base is not None:
            place = self._place
            return checked_files(place.root, place.work_tree, done, checks, current_rules())
        options: Any = {"trust_edited": trust_edited, "say": say, "sandbox": current_rules()}
        with open_server(self._place, KIT, TOOL, None, **options) as server:
            answer = server.call(TOOL, {"task": self.task})
        if answer.refused:
            return {"checks": [], "not_proved": answer.text}
        found: dict[str, Any] = json.loads(answer.text)
        return found


def refuse_loop_session(root: Path) -> None:
    """Raise `UsageError` in a session of `loop --worktrees`, whose loop enters its work itself."""
    done = _context(root, launched_session()).get("done") or {}
    if "tree" in done:
        hint = "set the task to done, and omit --enqueue"
        raise UsageError("the loop enters the work of this session itself", hint)


def enter_head(place: ProjectPlace, verdict: GateVerdict, base: str | None) -> tuple[int, str]:
    """Enter a proved commit into the merge queue; return the number of the entry and its target.

    The target is the branch of `base`, or else the branch of the project's own worktree.
    Raises `UsageError` if it is the branch of the commit itself, and for a task that is not done.
    """
    session = launched_session()
    if session and verdict.task is None:
        raise UsageError("this session holds no task", "run the command in your own terminal")
    if verdict.task is not None:
        with Project(place.root).task_rows() as (rows, _):
            (status,) = task_row(rows.connection, rows.stored, verdict.task, ["status"])
        if status != "done":
            hint = f'close it first: "ralphgen task status {verdict.task} done"'
            raise UsageError(f"task {verdict.task} is {plain(str(status))}, not done", hint)
    git, target = Git(place.root), base or base_branch(place.root)
    if base and git.commit(f"refs/heads/{base}") is None:
        target = base.partition("/")[2]  # after the name of a remote
        if git.commit(f"refs/heads/{target}") is None:
            raise UsageError(f'there is no branch "{plain(base)}" here', "use --base BRANCH")
    if branch_in(place.work_tree) == target:
        text = f'the commit is on "{target}" itself: there is nothing to merge'
        raise UsageError(text, "name the branch to merge into with --base")
    return enter_commit(place.root, str(verdict.commit), target, verdict.task, session), target


def _context(root: Path, session: str) -> Mapping[str, Any]:
    """Return the context of the session of this shell, empty without one."""
    if not session:
        return {}
    folder = session_folder(root, session)
    try:
        found: dict[str, Any] = (
            {} if folder is None else json.loads((folder / CONTEXT).read_bytes())
        )
    except (OSError, ValueError):
        found = {}
    if not found:
        raise UsageError(
            f'the session "{plain(session)}" of this shell does not belong to this project',
            "run the command in your own terminal",
        )
    return found


def _repository(place: ProjectPlace) -> TreeGit:
    if repository_of(str(place.work_tree)) is None:
        raise ProjectError(f'"{place.work_tree}" is not in a git repository', 'run "git init"')
    return worktree_git(place.root, place.work_tree)


def _commit(git: TreeGit, reference: str) -> str:
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
    try:
        return git.say(*words).decode("ascii").strip()
    except TreeError as error:
        if reference == "HEAD":
            raise ProjectError("the repository has no commits", "commit the project") from error
        hint = 'check the name; in a shallow clone, run "git fetch --unshallow"'
        raise UsageError(f'no commit "{plain(reference)}"', hint) from error


def _merge_base(git: TreeGit, reference: str) -> str:
    try:
        return git.say("merge-base", _commit(git, reference), "HEAD").decode("ascii").strip()
    except TreeError as error:
        text = f'"{plain(reference)}" and HEAD have no common commit'
        raise UsageError(text, 'in a shallow clone, run "git fetch --unshallow"') from error


def _ignore_files(path: str) -> Sequence[str]:
    """Return the ignore file of each directory above a path, from the top."""
    parts = path.split("/")[:-1]
    return [IGNORE, *("/".join([*parts[: at + 1], IGNORE]) for at in range(len(parts)))]
