"""Authority needs a record of its content; content needs one only if git has it."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, started_beside
from proved_projects import git
from trusting import at_terminal, configure

pytestmark = pytest.mark.slow

CHECK = '\n[[done.checks]]\nname = "t"\nrun = ["touch", "PWNED"]\n'
HOOKS = json.dumps({"hooks": {"SessionStart": []}})
CLIENTS = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents/a.md",
    ".mcp.json",
    ".gemini/settings.json",
    ".codex/config.toml",
    "opencode.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".qwen/settings.json",
    ".kiro/settings/mcp.json",
    ".github/hooks/a.json",
    ".aider.conf.yml",
    "crush.json",
]
CONTENT = [
    *("Makefile", "AGENTS.md", "CLAUDE.md", "package.json", ".claude/skills/a/SKILL.md"),
    *("compose.yaml", "compose.override.yml", "docker-compose.override.yaml"),
    *(
        ".claude/CLAUDE.md",
        "src/AGENTS.md",
        "a/b/Claude.md",
        "docs/GEMINI.md",
        ".env",
        ".env.local",
        ".github/copilot-instructions.md",
    ),
    *("packages/x/.claude/skills/a/run.py", "packages/x/.ai/tools/a.py"),
]
BELOW = [
    *(".ralph/specum/prompts/design.md", ".ralph/acm/rules.md", ".ralph/notes.md"),
    *(
        ".ralph/queries/a.txt",
        ".ralph/tools/_a.py",
        ".ralph/tools/lib/a.py",
        ".ralph/recipes/old/a.toml",
        ".ralph/.x/y",
    ),
]
WAYS: dict[str, Callable[[Path], object]] = {
    "merge": lambda root: git(root, "merge", "-q", "--no-edit", "s/main"),
    "squash": lambda root: git(root, "merge", "-q", "--squash", "s/main"),
    "pick": lambda root: git(root, "cherry-pick", "-n", "s/main"),
    "restore": lambda root: git(root, "restore", "--source", "s/main", "--", "."),
    "checkout": lambda root: git(root, "checkout", "-q", "s/main", "--", "."),
    "read-tree": lambda root: git(root, "read-tree", "-m", "-u", "s/main"),
    "stash": lambda root: (
        git(root, "checkout", "-q", "s/main", "--", "."),
        git(root, "stash", "-q"),
        git(root, "stash", "pop", "-q"),
    ),
    "apply": lambda root: (
        (root / ".git/patch").write_text(git(root, "diff", "main", "s/main"), encoding="utf-8"),
        git(root, "apply", ".git/patch"),
    ),
    "remote removed": lambda root: (
        git(root, "restore", "--source", "s/main", "--", "."),
        git(root, "remote", "remove", "s"),
    ),
    "detached": lambda root: git(root, "checkout", "-q", "--detach", "s/main"),
    "fetch head": lambda root: (
        git(root, "remote", "remove", "s"),
        git(root, "fetch", "-q", str(root.parent / "theirs"), "main"),
        git(root, "merge", "-q", "--squash", "FETCH_HEAD"),
    ),
}


def write(root: Path, file: str, text: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text, encoding="utf-8")


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def session(root: Path) -> int:
    return ralphgen("session", "create", "braindump", "--project", root).returncode


def regen(root: Path) -> str:
    done = ralphgen("regen", root, "--no-install")
    assert 0 == done.returncode, done.stderr
    return done.stderr


@pytest.fixture
def shared(own: Path, tmp_path: Path) -> Path:
    """The user's project in a repository, and a stranger's branch of it that changes files."""
    git(own, "init", "-q", "-b", "main")
    git(own, "config", "user.name", "a")
    git(own, "config", "user.email", "a@b")
    write(own, ".gitignore", ".ralph/db/\n")
    commit(own)
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(own), str(theirs))
    git(own, "remote", "add", "s", str(theirs))
    return own


def take_over(root: Path, way: str, file: str, text: str) -> None:
    """Let a stranger change a file, and take that over in one of the ways of git."""
    theirs = root.parent / "theirs"
    if file.endswith("ralphgen.toml"):
        configure(theirs, text)
    else:
        write(theirs, file, text)
    commit(theirs)
    git(root, "fetch", "-q", "s")
    WAYS[way](root)


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_strangers_check_needs_a_question_before_and_after_regen(shared: Path, way: str) -> None:
    take_over(shared, way, ".ralph/ralphgen.toml", CHECK)
    assert 2 == session(shared)

    assert 'check "t" runs touch PWNED' in regen(shared)
    assert 2 == session(shared)

    assert 0 == ralphgen("trust", "-C", shared, "--yes").returncode
    assert 0 == session(shared)


@pytest.mark.parametrize("kit", [["dela"], []], ids=("by name", "as the first"))
def test_serve_starts_no_kit_that_runs_a_strangers_content(shared: Path, kit: list[str]) -> None:
    write(shared, ".ralph/ralphgen.toml", 'kits = ["dela"]\n')
    ran("regen", "--allow-removals", shared)
    commit(shared)
    assert 0 == ralphgen("serve", *kit, cwd=shared).returncode
    git(shared, "push", "-qf", "s", "HEAD:refs/heads/base")
    git(shared.parent / "theirs", "reset", "-q", "--hard", "base")
    take_over(shared, "squash", "Makefile", "all:\n\ttouch PWNED\n")

    refused = ralphgen("serve", *kit, cwd=shared)
    assert (2, True) == (refused.returncode, "Makefile" in refused.stderr), refused.stderr


@pytest.mark.thorough
def test_a_strangers_check_from_another_folder_of_a_repository_is_named(
    own: Path, tmp_path: Path
) -> None:
    shutil.copytree(own, tmp_path / "theirs")
    configure(tmp_path / "theirs", CHECK)
    for folder in (tmp_path / "theirs", own.parent):
        git(folder, "init", "-q", "-b", "main")
    commit(tmp_path / "theirs")
    git(own.parent, "fetch", "-q", str(tmp_path / "theirs"), "main")
    configure(own, CHECK + '\n[launch]\nallow = ["Bash(ls)"]\n')

    said = regen(own)
    assert 'check "t"' in said
    assert "Bash(ls)" not in said
    assert 2 == session(own)


@pytest.mark.thorough
@pytest.mark.parametrize("file", [*CLIENTS, *BELOW])
def test_settings_of_clients_and_files_below_ralph_need_a_record(own: Path, file: str) -> None:
    write(own, file, HOOKS)

    refused = ralphgen("session", "create", "braindump", "--project", own)
    assert (2, True) == (refused.returncode, file in refused.stderr)
    shown = ralphgen("trust", "-C", own, "--yes")
    assert file in shown.stderr
    assert 0 == session(own)
    write(own, file, HOOKS + " ")
    assert 2 == session(own)


@pytest.mark.thorough
@pytest.mark.parametrize("file", [*CONTENT, *CLIENTS, *BELOW])
def test_a_clone_without_a_record_asks_for_every_file(clone: Path, file: str) -> None:
    write(clone, file, HOOKS)
    assert 2 == session(clone)
    regen(clone)
    assert 2 == session(clone)


@pytest.mark.thorough
@pytest.mark.parametrize("file", CONTENT)
def test_the_users_edit_of_content_needs_no_question_also_once_committed(
    shared: Path, file: str
) -> None:
    write(shared, file, "x")
    assert 0 == session(shared)
    commit(shared)
    assert 0 == session(shared)


@pytest.mark.thorough
@pytest.mark.parametrize("file", [*CONTENT, *BELOW])
def test_a_strangers_file_needs_a_question_wherever_it_is(shared: Path, file: str) -> None:
    take_over(shared, "squash", file, "x")

    assert 2 == session(shared)
    assert file in regen(shared)
    assert 2 == session(shared)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "file", ["AGENTS.md", ".claude/CLAUDE.md", ".claude/skills/a/SKILL.md", ".agents/skills/a/x.py"]
)
def test_instructions_above_a_project_in_a_repository_count(own: Path, file: str) -> None:
    git(own.parent, "init", "-q", "-b", "main")
    write(own.parent, file, "x")
    assert 0 == session(own)

    write(own.parent, file, "y")
    git(own.parent, "add", file)
    assert 2 == session(own)


@pytest.mark.thorough
@pytest.mark.parametrize("file", [".codex/config.toml", ".gemini/settings.json", "opencode.json"])
def test_settings_of_clients_above_a_project_in_a_repository_count(own: Path, file: str) -> None:
    git(own.parent, "init", "-q", "-b", "main")
    write(own.parent, file, HOOKS)

    refused = ralphgen("session", "create", "braindump", "--project", own)
    assert (2, True) == (refused.returncode, file in refused.stderr)
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode
    assert 0 == session(own)
    write(own.parent, file, HOOKS + " ")
    assert 2 == session(own)


def test_state_that_ralphgen_writes_is_not_an_item(own: Path) -> None:
    for file in ("db/x", "backups/ralph.db", "worktrees/9/AGENTS.md", "learnings.txt"):
        write(own, f".ralph/{file}", "x")
    write(own, "node_modules/a/AGENTS.md", "x")

    assert 0 == session(own)
    assert "nothing to approve" in ralphgen("trust", "-C", own).stderr


def test_a_link_out_of_the_project_that_git_has_needs_a_question(shared: Path) -> None:
    (shared.parent / "outside.md").write_text("x", encoding="utf-8")
    theirs = shared.parent / "theirs"
    (theirs / "AGENTS.md").symlink_to("../outside.md")
    commit(theirs)
    git(shared, "fetch", "-q", "s")
    git(shared, "restore", "--source", "s/main", "--", ".")

    assert 2 == session(shared)


@pytest.mark.thorough
def test_the_users_own_links_need_no_question(shared: Path) -> None:
    write(shared, "AGENTS.md", "x")
    (shared / "CLAUDE.md").symlink_to("AGENTS.md")
    commit(shared)
    assert 0 == ralphgen("trust", "-C", shared, "--yes").returncode
    write(shared, "AGENTS.md", "y")

    assert 0 == session(shared)


@pytest.mark.thorough
def test_a_hard_link_is_asked_about_by_its_content(own: Path) -> None:
    write(own.parent, "other.json", HOOKS)
    (own / ".claude").mkdir()
    (own / ".claude/settings.json").hardlink_to(own.parent / "other.json")
    assert 2 == session(own)
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode
    assert 0 == session(own)
    write(own.parent, "other.json", HOOKS + " ")

    assert 2 == session(own)


@pytest.mark.thorough
def test_a_shallow_clone_is_asked_about_what_its_commits_have(shared: Path) -> None:
    write(shared, "Makefile", "all:\n")
    commit(shared)
    shallow = shared.parent / "shallow"
    git(shared.parent, "clone", "-q", "--depth", "1", f"file://{shared}", str(shallow))
    shutil.copytree(shared / ".ralph/db", shallow / ".ralph/db")
    assert 2 == session(shallow)
    assert 0 == ralphgen("trust", "-C", shallow, "--yes").returncode
    assert 0 == session(shallow)

    write(shared, "Makefile", "all:\n\ttouch PWNED\n")
    commit(shared)
    git(shallow, "fetch", "-q", "--depth", "1")
    git(shallow, "restore", "--source", "origin/main", "--", ".")
    assert 2 == session(shallow)
    assert "Makefile" in regen(shallow)
    assert 2 == session(shallow)


@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_regen_asks_once_at_a_terminal(own: Path, answer: str, code: int) -> None:
    configure(own, CHECK)
    write(own, "Makefile", "all:\n")
    said, returned = at_terminal(answer, "regen", own, "--no-install")

    assert 0 == returned, said
    assert 1 == said.count("y/N")
    assert said.index('check "t" runs touch PWNED') < said.index("y/N")
    assert "Makefile" in said
    assert code == session(own)
    asks_again = "y/N" in at_terminal("n", "regen", own, "--no-install")[0]
    assert asks_again == (answer == "n")


def test_watch_records_nothing(own: Path) -> None:
    with started_beside("regen", own, "--watch") as watching:
        assert watching.stderr is not None
        next(watching.stderr)
        configure(own, CHECK)
        assert any("changed" in line for line in watching.stderr)
        watching.send_signal(signal.SIGINT)
    assert 2 == session(own)


@pytest.mark.thorough
def test_a_project_unpacked_at_a_recorded_path_is_not_trusted(own: Path, tmp_path: Path) -> None:
    shutil.rmtree(own)
    other = initialized(tmp_path / "other")
    write(other, "Makefile", "all:\n")
    shutil.copytree(other, own)

    assert 2 == session(own)
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode
    assert 0 == session(own)


def test_init_in_a_folder_with_files_of_others_records_none_of_them(tmp_path: Path) -> None:
    root = tmp_path / "unpacked"
    write(root, "Makefile", "all:\n")
    done = ralphgen("init", root, "--no-install")
    assert f"\nNext:\n  cd {root}\n  ralphgen trust" in done.stderr

    assert 2 == session(root)


def test_a_plain_clone_answers_a_call_without_a_question(clone: Path) -> None:
    for file in CONTENT:
        write(clone, file, "{}")

    done = ralphgen("call", "ralph:list_tasks", cwd=clone)
    assert 0 == done.returncode, done.stderr


def test_check_needs_no_record(clone: Path) -> None:
    configure(clone, CHECK)
    regen(clone)

    assert 0 == ralphgen("check", clone).returncode


def test_kits_that_run_files_start_only_with_a_record(clone: Path) -> None:
    path = clone / ".ralph/ralphgen.toml"
    text = path.read_text(encoding="utf-8").replace('["ralph"]', '["ralph", "dela", "rye"]')
    path.write_text(text, encoding="utf-8")
    write(clone, "Makefile", "all:\n\ttouch PWNED\n")
    write(clone, ".ai/tools/hello.py", "open('PWNED', 'w')\n")
    regen(clone)
    for words in (
        ("dela:task_start", "unique_name=all"),
        ("rye:execute", "item_type=tool", "item_id=hello", f"project_path={clone}"),
    ):
        done = ralphgen("call", *words, cwd=clone)
        assert 2 == done.returncode, done.stderr
    assert not (clone / "PWNED").exists()


@pytest.mark.parametrize("table", ["[dela]\nallow_args = false", "[rye]\nhelp = false"])
def test_settings_of_kits_need_a_record(clone: Path, table: str) -> None:
    configure(clone, f"\n{table}\n")

    assert 2 == session(clone)


@pytest.mark.thorough
def test_files_that_a_command_writes_are_on_record(own: Path) -> None:
    kinds = ("--skills", "--agents-md", "--plugin")
    assert 0 == ralphgen("connect", "claude", *kinds, "--project", own).returncode
    assert 0 == ralphgen("connect", "gemini", "--project", own).returncode

    assert 0 == session(own)


def test_a_refused_file_does_not_keep_others_off_the_record(clone: Path) -> None:
    skill = ".claude/skills/ralph-project/SKILL.md"
    write(clone, skill, "mine\n")
    done = ralphgen("connect", "claude", "--skills", "--agents-md", "--project", clone)
    listed = ralphgen("trust", cwd=clone).stderr

    assert (1, True) == (done.returncode, (clone / "AGENTS.md").exists())
    assert (True, False) == (skill in listed, "AGENTS.md" in listed)
