"""A session in a worktree proves one tree of git: checks run on a private checkout of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from time import sleep, time

import pytest
from driving import Driver, query
from lanes import shortened
from making_sessions import client_of
from merging_projects import branches, merged, merging_project, say
from proved_projects import TESTS, check, git, python, write_files
from unprivileged import without_rights

from ralphgen.emit.trust import git_items
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import read_settings
from ralphgen.loop.merge import LOST, Merged, RedCheck, unqueued_merges
from ralphgen.loop.trees import Worktree, prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.runtime.files.checkout import discard, write_tree
from ralphgen.sessions.create import create_session, project_items
from ralphgen.sessions.decide import Request
from ralphgen.sessions.snapshot import worktree_git

pytestmark = pytest.mark.slow

RUN = check("t", "sh", "tests/run.sh")
PROTECTS = '[done]\nprotect = ["tests/**"]\n'
TEST = "grep -q 'return 1' src/mod.py || grep -q 'return 2' src/mod.py\n"
FILES = (("src/mod.py", "def f():\n    return 1\n"), ("tests/run.sh", TEST))


def project(folder: Path, config: str, *files: tuple[str, str]) -> Path:
    """A project with these files, all committed and trusted."""
    root = merging_project(folder / "p", config)
    if files:
        write_files(root, files)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "files")
    add_to_record(root, [item.digest for item in project_items(root)])
    return root


def loop_of(root: Path) -> LoopConfig:
    """The settings of the loop in a project."""
    return read_settings(root).loop


@contextmanager
def session(root: Path, task: int = 1) -> Iterator[tuple[Worktree, Driver, str]]:
    """The worktree, the client and the id of a session on a task, which holds it."""
    tree = prepare(root, 1, task, loop_of(root), say)
    asked = Request("task_execution", task=task)
    made = create_session(root, asked, say=say, ask=lambda _: False, work_tree=tree.root)
    query(
        root,
        "INSERT OR REPLACE INTO ralphgen_sessions (id, recipe, task_id, started, worktree) "
        "VALUES (?, 'task_execution', ?, '2026-02-10T00:00:00Z', ?)",
        *(made.session_id, task, str(tree.root)),
    )
    with client_of(made.mcp_config) as client:
        yield tree, client, made.session_id
    query(root, "UPDATE ralphgen_claims SET session = NULL")


def outcome_of(root: Path, tree: Worktree, task: int, session_id: str) -> object:
    return merged(root, tree, task, loop_of(root), session_id)


def close(client: Driver) -> None:
    client.call("set_task_status", status="done", summary="Done.")


@pytest.mark.thorough
@pytest.mark.parametrize("path", shortened(["src/mod.py", "tests/run.sh"], "src/mod.py"))
def test_files_that_flip_while_the_checks_run_prove_nothing_else(tmp_path: Path, path: str) -> None:
    """The agent's worktree has the good file only while the checks run."""
    wait = "while test -e {go}; do sleep 0.05; done; sh tests/run.sh"
    go = tmp_path / "go"
    config = check("t", "sh", "-c", wait.replace("{go}", str(go))) + PROTECTS
    test = "! grep -q BAD src/mod.py\n"
    root = project(tmp_path, config, ("src/mod.py", "1\n"), ("tests/run.sh", test))
    with session(root) as (tree, client, _):
        write_files(tree.root, [("src/mod.py", "BAD\n")])
        go.write_text("", encoding="utf-8")
        good = "1\n" if path == "src/mod.py" else "true\n"

        def flips() -> None:
            write_files(tree.root, [(path, good)])
            go.unlink()

        flip = Timer(2.0, flips)
        flip.start()
        answer = client.call("run_checks")
        flip.join()
        write_files(tree.root, [("src/mod.py", "BAD\n"), ("tests/run.sh", test)])

        assert not answer["passed"]
        assert 'check "t" ended with exit code 1' in client.refusal(
            "set_task_status", status="done", summary="Done."
        )


def test_done_is_refused_if_the_tree_is_another_than_the_proved_one(tmp_path: Path) -> None:
    root = project(tmp_path, RUN, *FILES)
    with session(root) as (tree, client, session_id):
        write_files(tree.root, [("src/mod.py", "return 2\n")])
        client.call("run_checks")
        write_files(tree.root, [("src/new.py", "x")])
        refusal = client.refusal("set_task_status", status="done", summary="Done.")
        (tree.root / "src/new.py").unlink()
        close(client)
        ((stored,),) = query(
            root,
            "SELECT DISTINCT tree FROM ralphgen_evidence WHERE session = ? AND tree <> ''",
            session_id,
        )

    assert 'check "t" has not passed on the current files' in refusal
    assert "tree" == git(root, "cat-file", "-t", stored).strip()
    assert "return 2\n" == git(root, "show", f"{stored}:src/mod.py")


@pytest.mark.parametrize("line", ["src/new/.gitignore", ".gitignore"])
def test_ignored_code_is_in_no_checkout(tmp_path: Path, line: str) -> None:
    test = "test -e src/new/impl.py\n"
    root = project(tmp_path, RUN, ("src/mod.py", "1"), ("tests/run.sh", test))
    with session(root) as (tree, client, _):
        rule = "*\n" if line != ".gitignore" else "src/new/\n"
        write_files(tree.root, [("src/new/impl.py", "x"), (line, rule)])
        answer = client.call("run_checks")

    assert not answer["passed"]


@pytest.mark.thorough
def test_ignored_files_that_are_added_by_force_are_part_of_the_tree(tmp_path: Path) -> None:
    root = project(tmp_path, check("t", "test", "-e", "out.log"))
    write_files(root, [("out.log", "base")])
    git(root, "add", "--force", "out.log")
    git(root, "commit", "--quiet", "--message", "log")
    with session(root) as (tree, client, session_id):
        write_files(tree.root, [("out.log", "changed"), ("more.log", "x")])
        git(tree.root, "add", "--force", "more.log")
        client.call("run_checks")
        close(client)

    assert isinstance(outcome_of(root, tree, 1, session_id), Merged)
    assert "changed" == git(root, "show", "HEAD:out.log")
    assert "x" == git(root, "show", "HEAD:more.log")


@pytest.mark.thorough
def test_checks_may_write_ignored_and_untracked_files_and_these_are_not_merged(
    tmp_path: Path,
) -> None:
    writes = "for name in ('coverage.xml', 'a.log'): open(name, 'a').write('x')"
    root = project(tmp_path, check("t", *python(writes)) + check("u", "test", "-e", "coverage.xml"))
    for task in (1, 2):
        with session(root, task) as (tree, client, session_id):
            write_files(tree.root, [(f"new-{task}.txt", "x")])
            first, second = client.call("run_checks"), client.call("run_checks")
            write_files(tree.root, [(f"more-{task}.txt", "x")])
            third = client.call("run_checks")
            close(client)

        assert [True] * 3 == [one["passed"] for one in (first, second, third)]
        assert isinstance(outcome_of(root, tree, task, session_id), Merged)
        assert "coverage.xml" not in git(root, "ls-files").split()
        assert not (tree.root / "coverage.xml").exists()


def test_check_that_rewrites_a_tracked_file_is_named_with_the_file(tmp_path: Path) -> None:
    appends = python("open('code.txt', 'a').write('0')")
    restores = python("open('code.txt', 'w').write('0')")
    root = project(tmp_path, check("format", *appends) + check("clean", *restores))
    root.joinpath("code.txt").write_text("0", encoding="utf-8")
    tree = prepare(root, 1, 1, loop_of(root), say)
    asked = Request("task_execution", task=1)
    made = create_session(root, asked, say=say, ask=lambda _: False, work_tree=tree.root)
    with client_of(made.mcp_config) as client:
        answer = client.call("run_checks")

    assert not answer["passed"]
    assert (
        'files were changed while the checks ran: "code.txt", by the check "format"'
        in (answer["not_proved"])
    )
    assert "0" == (tree.root / "code.txt").read_text(encoding="utf-8")


SETUP = (
    "import os, pathlib; p = pathlib.Path('node_modules'); p.mkdir(exist_ok=True); "
    "(p / 'runner').write_text('exit 1'); open({count!r}, 'a').write(os.getcwd()[-8:] + '.')"
)


def with_modules(folder: Path, test: str, *, source: bool = False) -> tuple[Path, Path]:
    """A project whose checks start a runner in ignored `node_modules`, and a counter of setups."""
    count = folder / "count"
    command = python(SETUP.replace("{count!r}", repr(str(count))))
    rules = 'copy = ["node_modules"]' if source else f"setup = {json.dumps([command])}"
    rules = rules.replace('["node_modules"]', '["node_modules/**"]')
    config = f'[loop]\n{rules}\nsetup_when = ["code.txt"]\n'
    files = [(".gitignore", "*.log\n/context-*.json\nnode_modules/\n"), ("tests/run.sh", test)]
    root = project(folder, RUN + config, *files)
    if source:
        write_files(root, [("node_modules/runner", "exit 1")])
    return root, count


TAMPERS = {
    "content": "echo 'exit 0' > node_modules/runner",
    "time": "cp -p node_modules/runner k.log; echo 'exit 0' > node_modules/runner; "
    "touch -r k.log node_modules/runner",
    "link": "mv node_modules n.log; mkdir node_modules; echo 'exit 0' > node_modules/runner",
    "index": "echo 'exit 0' > code.txt; git update-index --assume-unchanged tests/run.sh; "
    "echo 'exit 0' > tests/run.sh",
    "flag": "GIT_INDEX_FILE=$(git rev-parse --absolute-git-dir)/ralphgen-index "
    "git update-index --skip-worktree tests/run.sh; echo 'exit 0' > tests/run.sh",
    "planted": "echo 'exit 0' > node_modules/first",
    "modes": "rm node_modules/runner; chmod 0 node_modules",
    "repository": "git init -q tests; echo 'exit 0' > tests/run.sh",
}


@pytest.mark.thorough
@pytest.mark.parametrize("source", shortened([False, True], False))
@pytest.mark.parametrize("way", shortened(TAMPERS, "content"))
def test_code_under_test_changes_no_later_proof(tmp_path: Path, way: str, *, source: bool) -> None:
    test = (
        "test -e tamper && sh tamper && exit 0\n"
        "test -e node_modules/first && exec sh node_modules/first\n"
        "exec sh node_modules/runner\n"
    )
    root, count = with_modules(tmp_path, test, source=source)
    with session(root, 1) as (tree, client, _):
        write_files(tree.root, [("tamper", TAMPERS[way])])
        client.call("run_checks")
        (tree.root / "tamper").unlink()
        again = client.call("run_checks")
    with session(root, 2) as (tree, client, _):
        write_files(tree.root, [("new.txt", "x")])
        other = client.call("run_checks")

    assert not other["passed"]
    assert (way == "planted") == again["passed"]  # a task's own earlier run remains
    assert source or count.read_text(encoding="utf-8").count("1-checks.") <= 2


@pytest.mark.thorough
def test_a_protected_file_that_is_replaced_while_later_checks_run_proves_nothing(
    tmp_path: Path,
) -> None:
    """A process that the first check leaves behind puts it back before the end."""
    kept, flag = tmp_path / "kept", tmp_path / "flag"
    leaves = (
        f"(setsid sh -c 'while test ! -e {flag}; do sleep 0.05; done; cp -p tests/run.sh {kept}; "
        f"echo true > tests/run.sh; rm {flag}; while test ! -e {flag}; do sleep 0.05; done; "
        f"cp -p {kept} tests/run.sh; rm {flag}' > {tmp_path}/log 2>&1 &)\n"
    )
    waits = f"touch {flag}; while test -e {flag}; do sleep 0.05; done"
    second = f"{waits}; sh tests/run.sh; code=$?; {waits}; exit $code"
    config = check("a", "sh", "src/a.sh") + check("b", "sh", "-c", second) + PROTECTS
    root = project(tmp_path, config, ("src/a.sh", "true\n"), ("tests/run.sh", "false\n"))
    with session(root) as (tree, client, _):
        write_files(tree.root, [("src/a.sh", leaves)])
        answer = client.call("run_checks")

    assert [0, 0] == [one["exit_code"] for one in answer["checks"]]
    assert 'files were changed while the checks ran: "tests/run.sh"' in answer["not_proved"]


@pytest.mark.thorough
def test_a_check_that_writes_the_same_content_is_named(tmp_path: Path) -> None:
    root = project(tmp_path, check("t", *python("open('code.txt', 'r+').write('1')")))
    with session(root) as (tree, client, _):
        write_files(tree.root, [("code.txt", "1")])
        answer = client.call("run_checks")

    assert 'files were changed while the checks ran: "code.txt"' in answer["not_proved"]


@pytest.mark.thorough
def test_a_run_leaves_no_ignored_file_that_is_protected(tmp_path: Path) -> None:
    test = "test -e gen/helper.log && exit 0; sh src/a.sh; false\n"
    config = RUN + '[done]\nprotect = ["**/helper.log"]\n'
    root = project(tmp_path, config, ("src/a.sh", "true\n"), ("tests/run.sh", test))
    with session(root) as (tree, client, _):
        write_files(tree.root, [("src/a.sh", "mkdir gen; touch gen/helper.log\n")])
        client.call("run_checks")
        write_files(tree.root, [("src/a.sh", "true\n")])

        assert not client.call("run_checks")["passed"]


HIDING = """
import sys
from pathlib import Path
from merging_projects import SETTLED, base, say
from ralphgen.loop.trees import checkout

root, task = Path(sys.argv[1]), int(sys.argv[2])
with checkout(root, "1-checks", SETTLED, say) as place:
    place.set_to(base(root), base(root), task)
    hidden = Path(place.place, "__pycache__")
    print(hidden.exists())
    hidden.mkdir()
    (hidden / "x.pyc").touch()
    hidden.chmod(0o311)
"""


def test_a_run_hides_no_file_from_the_checks_of_the_next_task(tmp_path: Path) -> None:
    root = project(tmp_path, TESTS, (".gitignore", "__pycache__/\n"))
    words = [*without_rights(), sys.executable, "-c", HIDING, str(root)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    found = [
        subprocess.run([*words, task], env=environment, check=True, capture_output=True).stdout
        for task in ("1", "2")
    ]

    assert [b"False\n", b"False\n"] == found


@pytest.mark.thorough
def test_an_edit_within_the_second_of_a_look_is_recorded(tmp_path: Path) -> None:
    root = project(tmp_path, check("t", "true"))
    tree = prepare(root, 1, 1, loop_of(root), say)
    place = worktree_git(root, tree.path)
    sleep(1 - time() % 1)
    for text in ("0", "1"):  # git may know only the second of a change
        write_files(tree.root, [("code.txt", text)])
        if text == "0":
            write_tree(place, tree.began)
    sleep(1)
    found, _ = write_tree(place, tree.began)

    assert "1" == git(root, "show", f"{found}:code.txt")


@pytest.mark.thorough
def test_a_folder_that_becomes_a_link_is_recorded(tmp_path: Path) -> None:
    root = project(tmp_path, check("t", "test", "-L", "src"), *FILES)
    with session(root) as (tree, client, session_id):
        (tree.root / "src").rename(tree.root / "lib")
        (tree.root / "src").symlink_to("lib")
        assert client.call("run_checks")["passed"]
        close(client)

    assert isinstance(outcome_of(root, tree, 1, session_id), Merged)
    assert "lib" == git(root, "show", "HEAD:src")


@pytest.mark.thorough
def test_setup_that_fails_for_a_tree_is_reported_with_its_output(tmp_path: Path) -> None:
    program = (
        "import sys; t = open('code.txt').read(); sys.exit('no such package' if t > '0' else 0)"
    )
    loop = f'[loop]\nsetup = {json.dumps([python(program)])}\nsetup_when = ["code.txt"]\n'
    root = project(tmp_path, check("t", "true") + loop)
    with session(root, 1) as (tree, client, _):
        write_files(tree.root, [("code.txt", "1")])
        refusal = client.refusal("run_checks")

    assert "ended with exit code 1: no such package" in refusal


@pytest.mark.thorough
def test_protected_files_are_compared_with_the_base_and_ignored_ones_with_the_start(
    tmp_path: Path,
) -> None:
    rules = '[done]\nprotect = ["tests/**", "**/helper.py", "secret/**"]\n'
    rules += '[loop]\ncopy = ["secret/**"]\n'
    ignored = (".gitignore", "*.log\n/context-*.json\nsecret/\n")
    root = project(tmp_path, check("t", "true") + rules, ("tests/run.sh", "false"), ignored)
    write_files(root, [("secret/key", "1")])
    with session(root, 1) as (tree, client, _):
        for path in (
            "tests/run.sh",
            "tests/new.sh",
            "src/helper.py",
            "secret/key",
            ".ralph/prompts/a.md",
        ):
            former = (tree.root / path).read_bytes() if (tree.root / path).exists() else None
            write_files(tree.root, [(path, "true")])
            assert (
                f'protected files were changed, put them back: "{path}"'
                == (client.call("run_checks")["not_proved"])
            )
            if former is None:
                (tree.root / path).unlink()
            else:
                (tree.root / path).write_bytes(former)
        assert client.call("run_checks")["passed"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("attributes", "is_refused"),
    [
        ("tests/* ident", True),
        ("*.sh text eol=crlf", True),
        ("* working-tree-encoding=ISO-8859-1", True),
        ("src/* text eol=lf\n*.sh diff=x", False),
    ],
)
def test_attributes_that_check_out_a_protected_file_in_another_way(
    tmp_path: Path, attributes: str, *, is_refused: bool
) -> None:
    root = project(tmp_path, RUN + PROTECTS, *FILES)
    with session(root) as (tree, client, _):
        write_files(
            tree.root, [("src/mod.py", "return 2\n"), (".gitattributes", f"{attributes}\n")]
        )
        said = (
            ""
            if client.call("run_checks")["passed"]
            else client.refusal("set_task_status", status="done", summary="Done.")
        )

    assert is_refused == ("protected files were changed" in said), said
    assert is_refused == ('".gitattributes"' in said), said


@pytest.mark.thorough
def test_attributes_of_the_repository_that_an_agent_writes_convert_no_file(tmp_path: Path) -> None:
    test = "test $(wc -c < tests/data.txt) = 2\n"
    root = project(tmp_path, RUN + PROTECTS, ("tests/run.sh", test), ("tests/data.txt", "1\n"))
    with session(root) as (tree, client, _):
        lines = "tests/* text eol=crlf\n"
        (root / ".git/info/attributes").write_text(lines, encoding="utf-8")
        discard(f"{tree.path}-checks")
        assert client.call("run_checks")["passed"]

    assert [lines in item.shown for item in git_items(root, remote=False)] == [True]


@pytest.mark.thorough
def test_protected_ignored_file_that_checkouts_copy_is_compared(tmp_path: Path) -> None:
    rules = '[done]\nprotect = ["secret/**"]\n[loop]\ncopy = ["secret/**"]\n'
    ignored = (".gitignore", "*.log\n/context-*.json\nsecret/\n")
    root = project(tmp_path, check("t", "grep", "-q", "2", "secret/key") + rules, ignored)
    write_files(root, [("secret/key", "1")])
    with session(root, 1) as (_, client, _):
        sleep(1)  # the server records the beginning a moment after its start
        write_files(root, [("secret/key", "2")])
        os.mkfifo(root / "secret/pipe")
        answer = client.call("run_checks")

    assert 'protected files were changed, put them back: "/' in answer["not_proved"]
    with pytest.raises(ProjectError, match="secret/key"):
        prepare(root, 1, 1, loop_of(root), say)
    write_files(root, [("secret/key", "1")])
    prepare(root, 1, 1, loop_of(root), say)


@pytest.mark.thorough
def test_protected_change_of_an_earlier_session_is_not_the_next_baseline(tmp_path: Path) -> None:
    root = project(tmp_path, RUN + PROTECTS, *FILES)
    with session(root, 1) as (tree, _, _):
        write_files(tree.root, [("tests/run.sh", "true\n")])
        git(tree.root, "commit", "--quiet", "--all", "--message", "agent")
        made = create_session(
            root,
            Request("task_execution", task=1),
            say=say,
            ask=lambda _: False,
            work_tree=tree.root,
            claims=False,
        )
        with client_of(made.mcp_config) as again:
            answer = again.call("run_checks")

    assert 'protected files were changed, put them back: "tests/run.sh"' == answer["not_proved"]


def refs(root: Path) -> list[str]:
    """The refs of ralphgen besides branches."""
    return git(root, "for-each-ref", "--format=%(refname)", "refs/ralph").split()


@pytest.mark.thorough
def test_proved_tree_is_not_pruned_and_its_ref_is_local_until_the_merge(tmp_path: Path) -> None:
    root = project(tmp_path, RUN, *FILES)
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(root, "remote", "add", "origin", str(tmp_path / "origin"))
    with session(root, 1) as (tree, client, session_id):
        write_files(tree.root, [("src/mod.py", "return 2\n"), ("new.txt", "x")])
        client.call("run_checks")
        git(root, "gc", "--quiet", "--prune=now")
        close(client)
        write_files(tree.root, [("new.txt", "late")])
    git(root, "gc", "--quiet", "--prune=now")
    git(root, "push", "--quiet", "origin", "HEAD")
    git(root, "push", "--quiet", "--all", "origin")
    shared = git(root, "ls-remote", "origin")
    cloned = git(tmp_path, "clone", "--quiet", str(root), "clone")
    outcome = outcome_of(root, tree, 1, session_id)

    assert isinstance(outcome, Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")
    assert "refs/ralph/" not in shared + cloned + git(tmp_path / "clone", "for-each-ref")
    assert ["refs/ralph/branches/ralph/task-1-late"] == refs(root)


@pytest.mark.thorough
def test_tree_that_is_lost_is_named_as_the_cause(tmp_path: Path) -> None:
    root = project(tmp_path, RUN, *FILES)
    with session(root, 1) as (tree, client, session_id):
        write_files(tree.root, [("src/mod.py", "return 2\n")])
        client.call("run_checks")
        close(client)
        git(root, "update-ref", "-d", "refs/ralph/work/1")
        (tree.root / "src/mod.py").unlink()
    git(root, "worktree", "remove", "--force", f"{tree.path}-checks")
    git(root, "gc", "--quiet", "--prune=now")
    outcome = outcome_of(root, tree, 1, session_id)

    assert isinstance(outcome, RedCheck)
    assert LOST == outcome.tail


@pytest.mark.thorough
def test_refs_of_a_task_that_is_reopened_are_deleted(tmp_path: Path) -> None:
    root = project(tmp_path, RUN, *FILES)
    query(root, "UPDATE tasks SET depends_on = '[]'")
    for task in (1, 2):
        with session(root, task) as (_, client, session_id):
            client.call("run_checks")
            close(client)
        query(root, "UPDATE ralphgen_claims SET session = ? WHERE task_id = ?", session_id, task)
    kept = refs(root)
    query(root, "UPDATE tasks SET status = 'pending' WHERE id = 1")

    assert [2] == [task for _, task, _ in unqueued_merges(root)]
    assert {"refs/ralph/work/1", "refs/ralph/base/1"} <= {*kept}
    assert not [ref for ref in refs(root) if ref.endswith(("work/1", "base/1"))]

    prepare(root, 1, 2, loop_of(root), say)
    assert "refs/ralph/work/2" not in refs(root)


def test_project_without_checks_records_the_tree_at_the_close(tmp_path: Path) -> None:
    root = project(tmp_path, "")
    with session(root, 1) as (tree, client, session_id):
        write_files(tree.root, [("new.txt", "x")])
        close(client)
        write_files(tree.root, [("new.txt", "late")])
    outcome = outcome_of(root, tree, 1, session_id)

    assert isinstance(outcome, Merged)
    assert not outcome.is_checked
    assert "x" == git(root, "show", "HEAD:new.txt")
    assert ["ralph/task-1-late"] == branches(root)
