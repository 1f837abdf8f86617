"""Items that a pull may have brought require consent, even in the project's original folder."""

from pathlib import Path

import pytest
from command_line import ralphgen
from proved_projects import git
from trusting import MODE, add, braindump, commit, configure, task_session

pytestmark = pytest.mark.slow


def test_possible_changes_of_a_pull_need_consent_in_the_original_project_too(
    own: Path,
) -> None:
    """This includes items next to the user's own line, and repositories that git cannot read."""
    configure(own, MODE)
    commit(own)

    assert 2 == braindump(own)

    configure(own, '\n[disciplines.testing.mcp_servers.own]\ncommand = "id"\n')

    assert 2 == braindump(own)

    path = own / ".ralph/ralphgen.toml"
    path.write_text(path.read_text(encoding="utf-8").replace(MODE, ""), encoding="utf-8")

    assert 0 == braindump(own)


@pytest.mark.parametrize("how", ["no git", "broken", "link", "merge", "database"])
def test_a_pull_is_assumed_without_a_clear_answer_of_git(
    own: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(own, MODE)
    commit(own)
    if how == "no git":
        monkeypatch.setenv("PATH", str(own))
    elif how == "broken":
        (own / ".git/HEAD").write_text("?", encoding="utf-8")
    elif how == "link":
        (own / ".ralph/ralphgen.toml").rename(own / "elsewhere")
        (own / ".ralph/ralphgen.toml").symlink_to("../elsewhere")
        git(own, "add", "-f", ".ralph/ralphgen.toml", "elsewhere")
        git(own, "commit", "-qm", "y")
    elif how == "merge":
        git(own, "branch", "theirs")
        git(own, "rm", "-q", "--cached", ".ralph/ralphgen.toml")
        git(own, "commit", "-qm", "y")
        (own / ".git/MERGE_HEAD").write_bytes((own / ".git/refs/heads/theirs").read_bytes())
    else:
        git(own, "rm", "-q", ".ralph/ralphgen.toml")
        add(own, """UPDATE disciplines SET mcp_servers = '[{"name": "n", "command": "id"}]'""")
        git(own, "add", "-f", ".ralph/db/ralph.db")
        git(own, "commit", "-qm", "y")
        add(own, "INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'FF')")
        add(own, "INSERT INTO tasks (feature, discipline, title) VALUES ('f', 'testing', 'T')")

    assert 2 == (task_session(own).returncode if how == "database" else braindump(own))


def test_to_ask_git_runs_nothing_that_the_repository_names(own: Path, tmp_path: Path) -> None:
    commit(own)
    git(own, "config", "core.fsmonitor", f"touch {tmp_path}/PWNED; false")
    git(own, "config", "filter.x.clean", f"touch {tmp_path}/PWNED; cat")
    (own / ".gitattributes").write_text("* filter=x\n", encoding="utf-8")
    configure(own, MODE)

    assert 0 == ralphgen("regen", own, "--no-install").returncode
    assert 2 == braindump(own)  # git converts the settings, so they count as its own
    assert not (tmp_path / "PWNED").exists()
