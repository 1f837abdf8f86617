"""Commits that listed keys sign need no question, whatever the repository says about signatures."""

import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from command_line import ralphgen
from proved_projects import check, git

from ralphgen.emit import delegation
from ralphgen.emit.delegation import (
    forget_delegation,
    keep_delegation,
    new_delegation,
    read_delegation,
)
from ralphgen.emit.trust import (
    check_items,
    content_items,
    database_items,
    settings_items,
    settings_of_items,
    untrusted,
)
from ralphgen.errors import UsageError
from ralphgen.kits.registry import read_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen"),
]
CONFIG = ".ralph/ralphgen.toml"
KEYGEN = str(shutil.which("ssh-keygen"))


class Team:
    """A repository with a project, and the keys of its members and of a stranger."""

    def __init__(self, folder: Path) -> None:
        """Make the repository, with one signed commit on the branch `main`, or find it."""
        self.folder = folder
        self.root, self.signers = folder / "p", folder / "signers"
        if (self.root / ".git").exists():
            return
        (self.root / ".ralph").mkdir(parents=True, exist_ok=True)
        git(self.root, "init", "--quiet", "--initial-branch=main")
        self.signers.write_text(self.line("member"), encoding="utf-8")
        self.public("stranger")
        self.commit("first")

    def public(self, name: str) -> str:
        key = self.folder / name
        if not key.exists():
            words = [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
            subprocess.run(words, check=True)
        return key.with_suffix(".pub").read_text(encoding="utf-8")

    def line(self, name: str, options: str = 'namespaces="git"') -> str:
        return f"{name}@example.org {options} {self.public(name)}"

    def commit(self, run: str, *, key: str = "member", words: tuple[str, ...] = ()) -> str:
        """Commit a check that runs a command; sign it unless the key has no name."""
        (self.root / CONFIG).write_text(check("tests", run), encoding="utf-8")
        git(self.root, "add", "--all")
        return self.sign("commit", "--quiet", "--allow-empty", "--message", run, *words, key=key)

    def sign(self, *words: str, key: str = "member") -> str:
        signing = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={self.folder / key}"]
        signing += ["-c", "commit.gpgSign=true", "-c", "gpg.ssh.program=ssh-keygen"]
        git(self.root, *(signing if key else []), *words)
        return git(self.root, "rev-parse", "HEAD").strip()

    def delegate(self, branch: str = "main") -> None:
        keep_delegation(self.root, new_delegation(self.root, self.signers, branch))

    def asks(self) -> bool:
        """Whether the check of the work tree needs a question."""
        return bool(untrusted(self.root, check_items(read_settings(self.root).done)))


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Team(tmp_path_factory.mktemp("team")).folder


@pytest.fixture
def team(founded: Path, tmp_path: Path) -> Team:
    """A team without a record here."""
    shutil.copytree(founded, tmp_path, dirs_exist_ok=True)
    return Team(tmp_path)


def test_a_signed_change_needs_no_question(team: Team) -> None:
    assert team.asks()

    team.delegate()
    assert not team.asks()  # the anchor is signed, too

    commit = team.commit("second")
    assert not team.asks()
    known = read_delegation(team.root)
    assert known is not None
    assert known.newest == commit

    (team.root / CONFIG).write_text(check("tests", "first"), encoding="utf-8")
    assert not team.asks()  # an earlier verified commit has it
    (team.root / CONFIG).write_text(check("tests", "edit"), encoding="utf-8")
    assert team.asks()

    assert forget_delegation(team.root)
    (team.root / CONFIG).write_text(check("tests", "second"), encoding="utf-8")
    assert team.asks()
    assert not forget_delegation(team.root)


def test_an_anchor_without_a_signature_says_nothing(team: Team) -> None:
    team.commit("unsigned", key="")
    team.delegate()
    assert team.asks()

    team.commit("signed")
    assert not team.asks()
    (team.root / CONFIG).write_text(check("tests", "unsigned"), encoding="utf-8")
    assert team.asks()


@pytest.mark.parametrize("key", ["", "stranger"])
def test_one_commit_without_a_listed_key_asks_for_all_later_ones(team: Team, key: str) -> None:
    team.delegate()
    team.commit("second", key=key)
    assert team.asks()
    team.commit("third")
    assert team.asks()


@pytest.mark.parametrize(
    "options", ['valid-before="20200101"', 'valid-after="20990101"', 'namespaces="file"']
)
def test_an_expired_key_and_one_for_something_else_ask(team: Team, options: str) -> None:
    team.signers.write_text(team.line("member", options), encoding="utf-8")
    team.delegate()
    team.commit("second")
    assert team.asks()


def test_a_signature_of_another_namespace_asks(team: Team) -> None:
    """A key that signs files signs no commit: the signature names its purpose."""
    team.delegate()
    commit = team.commit("second", key="")
    text = git(team.root, "cat-file", "commit", commit)
    (team.folder / "text").write_text(text, encoding="utf-8")
    words = ["-Y", "sign", "-q", "-n", "file", "-f", str(team.folder / "member")]
    subprocess.run([KEYGEN, *words, str(team.folder / "text")], check=True)
    signature = (team.folder / "text.sig").read_text(encoding="utf-8").strip()
    head, _, body = text.partition("\n\n")
    signed = f"{head}\ngpgsig {signature.replace(chr(10), chr(10) + ' ')}\n\n{body}"
    store(team, "commit", signed.encode())
    assert team.asks()


def store(team: Team, kind: str, data: bytes) -> str:
    """Store an object, and make a commit the one of the branch."""
    path = team.folder / "object"
    path.write_bytes(data)
    name = git(team.root, "hash-object", "-t", kind, "-w", str(path)).strip()
    if kind == "commit":
        git(team.root, "update-ref", "refs/heads/main", name)
    return name


def test_a_program_that_the_config_names_does_not_run(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.delegate()
    team.commit("second", key="stranger")
    liar = team.root / "ssh-keygen"
    said = f'touch "{team.folder}/RAN"; echo \'Good "git" signature for member with ED25519 key x\''
    liar.write_text(f"#!/bin/sh\n{said}\n", encoding="utf-8")
    liar.chmod(0o755)
    everyone = team.folder / "everyone"
    everyone.write_text(f"* {team.public('stranger')}", encoding="utf-8")
    values = {
        "gpg.ssh.program": str(liar),
        "gpg.program": str(liar),
        "gpg.x509.program": str(liar),
        "gpg.format": "x509",
        "gpg.ssh.allowedSignersFile": str(everyone),
    }
    for name, value in values.items():
        git(team.root, "config", name, value)
    shutil.copy(team.root / ".git/config", team.folder / "global")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(team.folder / "global"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(values)))
    for number, (name, value) in enumerate(values.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    monkeypatch.setenv("PATH", f"{team.root}:{os.environ['PATH']}")
    monkeypatch.setattr(delegation, "SYSTEM_FOLDERS", ())
    assert team.asks()
    assert not (team.folder / "RAN").exists()


def test_the_variables_of_git_lead_nowhere(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.delegate()
    other = Team(team.folder / "other")
    team.commit("second", key="stranger")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.root / ".git/objects"))
    monkeypatch.setenv("GIT_NAMESPACE", "x")
    monkeypatch.setenv("GIT_REPLACE_REF_BASE", "refs/x/")
    assert team.asks()


@pytest.mark.skipif(shutil.which("gpg") is None, reason="no gpg")
def test_a_good_signature_of_openpgp_asks(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forges sign merges with keys of theirs, which may be in the user's keyring."""
    home = team.folder / "gpg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    words = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "a@b", "ed25519"]
    subprocess.run(words, check=True)
    team.delegate()
    (team.root / CONFIG).write_text(check("tests", "second"), encoding="utf-8")
    git(team.root, "commit", "--quiet", "--all", "--message", "pgp", "--gpg-sign=a@b")
    assert "G" == git(team.root, "log", "-1", "--format=%G?").strip()
    assert team.asks()


def test_without_ssh_keygen_all_is_asked(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.delegate()
    team.commit("second")
    monkeypatch.setattr(delegation, "KEYGEN", "no-such-program")
    assert team.asks()


def test_a_program_that_others_can_write_is_not_used(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.delegate()
    team.commit("second")
    folder = team.folder / "bin"
    folder.mkdir()
    shutil.copy(str(shutil.which("ssh-keygen")), folder)
    monkeypatch.setattr(delegation, "SYSTEM_FOLDERS", (str(folder),))
    monkeypatch.setenv("PATH", str(Path(str(shutil.which("git"))).parent / "none"))
    (folder / "git").symlink_to(str(shutil.which("git", path="/usr/bin:/usr/local/bin")))
    monkeypatch.setenv("PATH", str(folder))
    (folder / "ssh-keygen").chmod(0o777)
    assert team.asks()
    (folder / "ssh-keygen").chmod(0o755)
    assert not team.asks()


def test_a_replaced_commit_does_not_count(team: Team) -> None:
    team.delegate()
    strange = team.commit("second", key="stranger")
    git(team.root, "reset", "--quiet", "--hard", "HEAD~1")
    good = team.commit("third")
    git(team.root, "update-ref", "refs/heads/main", strange)
    git(team.root, "replace", strange, good)
    assert team.asks()
    (team.root / CONFIG).write_text(check("tests", "second"), encoding="utf-8")
    assert team.asks()


def test_a_replaced_tree_and_file_do_not_count(team: Team) -> None:
    team.delegate()
    team.commit("second")
    bad = store(team, "blob", check("tests", "bad").encode())
    git(team.root, "replace", git(team.root, "rev-parse", f"HEAD:{CONFIG}").strip(), bad)
    (team.root / CONFIG).write_text(check("tests", "bad"), encoding="utf-8")
    assert team.asks()


@pytest.mark.parametrize("kind", ["blob", "commit"])
def test_an_object_with_the_content_of_another_does_not_count(team: Team, kind: str) -> None:
    """Git does not compare an object's content with its name when it reads it."""
    team.delegate()
    if kind == "blob":
        team.commit("second")
        name = git(team.root, "rev-parse", f"HEAD:{CONFIG}").strip()
        data = check("tests", "bad").encode()
    else:
        signed = team.commit("bad")
        data = git(team.root, "cat-file", "commit", signed).encode()
        git(team.root, "reset", "--quiet", "--hard", "HEAD~1")
        name = team.commit("second", key="stranger")
    path = team.root / ".git/objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data))
    (team.root / CONFIG).write_text(check("tests", "bad"), encoding="utf-8")
    assert team.asks()


def test_a_graft_and_a_cut_history_bring_nothing_in(team: Team) -> None:
    anchor = git(team.root, "rev-parse", "HEAD").strip()
    team.delegate()
    git(team.root, "checkout", "--quiet", "--orphan", "other")
    strange = team.commit("second")
    git(team.root, "update-ref", "refs/heads/main", strange)
    assert team.asks()
    (team.root / ".git/info").mkdir(exist_ok=True)
    (team.root / ".git/info/grafts").write_text(f"{strange} {anchor}\n", encoding="utf-8")
    assert team.asks()
    (team.root / ".git/info/grafts").unlink()
    (team.root / ".git/shallow").write_text(f"{strange}\n", encoding="utf-8")
    assert team.asks()


def test_a_shallow_history_asks(team: Team) -> None:
    team.delegate()
    team.commit("second")
    commit = team.commit("third")
    (team.root / ".git/shallow").write_text(f"{commit}\n", encoding="utf-8")
    assert team.asks()
    (team.root / ".git/shallow").unlink()
    assert not team.asks()


def test_a_branch_that_moves_backwards_or_is_rewritten_asks(team: Team) -> None:
    team.delegate()
    team.commit("second")
    third = team.commit("third")
    assert not team.asks()
    git(team.root, "reset", "--quiet", "--hard", "HEAD~1")
    assert team.asks()
    team.commit("fourth")
    assert team.asks()
    git(team.root, "reset", "--quiet", "--hard", third)
    assert not team.asks()
    git(team.root, "reset", "--quiet", "--hard", "HEAD~2")
    assert team.asks()


def test_a_branch_that_is_gone_asks(team: Team) -> None:
    git(team.root, "branch", "side")
    team.delegate("side")
    assert not team.asks()
    git(team.root, "branch", "-D", "side")
    assert team.asks()


def test_only_the_line_of_first_parents_counts(team: Team) -> None:
    """A merge vouches for its branch; a signed commit that was merged does not vouch for itself."""
    team.delegate()
    git(team.root, "checkout", "--quiet", "-b", "side")
    team.commit("side", key="stranger")
    team.commit("half")
    git(team.root, "checkout", "--quiet", "main")
    merged = team.sign("merge", "--quiet", "--no-ff", "--message", "merge", "side")
    assert not team.asks()
    for run in ("half", "side"):
        (team.root / CONFIG).write_text(check("tests", run), encoding="utf-8")
        assert team.asks() == (run == "side")

    git(team.root, "reset", "--quiet", "--hard", merged)
    git(team.root, "checkout", "--quiet", "-b", "turned", f"{merged}^2")
    team.sign("merge", "--quiet", "--no-ff", "--strategy=ours", "--message", "turned", "main")
    git(team.root, "update-ref", "refs/heads/main", "turned")
    assert team.asks()  # its first parents lead past the newest verified commit


def test_the_signers_in_the_project_are_only_copied(team: Team) -> None:
    inside = team.root / "allowed_signers"
    inside.write_text(team.line("member"), encoding="utf-8")
    keep_delegation(team.root, new_delegation(team.root, inside, "main"))
    inside.write_text(team.line("member") + team.line("stranger"), encoding="utf-8")
    team.commit("second", key="stranger")
    assert team.asks()


def test_files_count_at_their_place_and_links_do_not(team: Team) -> None:
    (team.root / "docs").mkdir()
    (team.root / "docs/AGENTS.md").write_text("a", encoding="utf-8")
    (team.root / "Makefile").write_text("b", encoding="utf-8")
    team.delegate()
    team.commit("second")

    def foreign() -> list[str]:
        left = untrusted(team.root, content_items(team.root))
        return sorted(os.path.relpath(item.file, team.root) for item in left)

    assert [] == foreign()
    (team.root / "AGENTS.md").symlink_to("docs/AGENTS.md")
    (team.root / "more").symlink_to("docs")
    (team.root / "Makefile").write_text("c", encoding="utf-8")
    (team.root / "justfile").write_text("b", encoding="utf-8")
    assert ["AGENTS.md", "Makefile", "justfile"] == foreign()
    (team.root / "moved").mkdir()
    (team.root / "docs").rename(team.root / "moved/docs")
    (team.root / "docs").symlink_to("moved/docs")
    git(team.root, "add", "--all")
    team.commit("third", key="stranger")
    assert "moved/docs/AGENTS.md" in foreign()


def test_what_is_outside_of_the_repository_asks(team: Team) -> None:
    config = team.root / CONFIG
    team.delegate()
    team.commit("second")
    outside = '[database]\npath = "../shop.db"\n'
    config.write_text(config.read_text(encoding="utf-8") + outside, encoding="utf-8")
    git(team.root, "add", "--all")
    team.sign("commit", "--quiet", "--message", "database")
    items = database_items(team.root)
    assert 1 == len(items)
    assert items == untrusted(team.root, items)
    assert not team.asks()


def test_a_record_that_others_can_write_does_not_count(team: Team, configuration: Path) -> None:
    team.delegate()
    assert not team.asks()
    (record,) = (configuration / "ralphgen/trust").glob("*.signers.json")
    assert 0o600 == record.stat().st_mode & 0o777
    record.chmod(0o666)
    assert team.asks()
    record.chmod(0o600)
    record.write_text("{}", encoding="utf-8")
    assert team.asks()


@pytest.mark.parametrize(
    "name",
    ["-x", "--output=x", "main~1", "main^", "HEAD", "refs/tags/v1", "", "no", "main:x", "v1"],
)
def test_only_a_branch_can_be_named(team: Team, name: str) -> None:
    team.commit("second")
    git(team.root, "tag", "v1")
    with pytest.raises(UsageError, match="no branch"):
        new_delegation(team.root, team.signers, name)
    assert not (team.root / "x").exists()


def test_a_branch_may_begin_with_a_dash(team: Team) -> None:
    git(team.root, "update-ref", "refs/heads/--output=x", "HEAD")
    team.delegate("--output=x")
    assert not team.asks()


def test_a_branch_of_a_remote_counts_before_a_branch_of_its_name(team: Team) -> None:
    git(team.root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(team.root, "update-ref", "refs/heads/origin/main", "HEAD")
    git(team.root, "update-ref", "refs/tags/origin/main", "HEAD")
    found = new_delegation(team.root, team.signers, "origin/main")
    assert "refs/remotes/origin/main" == found.branch


@pytest.mark.parametrize("text", ["", "# nothing\n\n", None, "\xff"])
def test_a_file_without_signers_is_refused(team: Team, text: str | None) -> None:
    if text is None:
        team.signers.unlink()
    else:
        team.signers.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError):
        new_delegation(team.root, team.signers, "main")


def test_settings_count_as_checks_do(team: Team) -> None:
    team.delegate()
    (team.root / CONFIG).write_text('[loop]\nremote = "origin"\n', encoding="utf-8")
    items = settings_items(team.root, read_settings(team.root))
    assert ["loop.remote"] == [*settings_of_items(untrusted(team.root, items))]
    git(team.root, "add", "--all")
    team.sign("commit", "--quiet", "--message", "remote")
    assert [] == untrusted(team.root, items)


def own_team(own: Path, tmp_path: Path) -> Team:
    """A team whose repository is a whole project, committed and signed."""
    shutil.rmtree(own.parent / "p", ignore_errors=True)
    own.rename(own.parent / "p")
    return Team(tmp_path)


def test_the_command_shows_the_signers_and_ends_a_delegation(own: Path, tmp_path: Path) -> None:
    team = own_team(own, tmp_path)
    words = ("trust", "--signers", team.signers, "--branch", "main", "-C", team.root)
    refused = ralphgen(*words)
    assert 2 == refused.returncode
    assert read_delegation(team.root) is None

    done = ralphgen(*words, "--yes")
    assert 0 == done.returncode, done.stderr
    assert "refs/heads/main" in done.stdout + done.stderr
    assert "member@example.org" in done.stdout + done.stderr

    team.commit("second")
    assert 0 == ralphgen("session", "create", "braindump", "-C", team.root).returncode
    team.commit("third", key="stranger")
    asked = ralphgen("session", "create", "braindump", "-C", team.root)
    assert 2 == asked.returncode
    assert 'check "tests" runs third' in asked.stderr

    assert 0 == ralphgen("trust", "--forget", "-C", team.root).returncode
    assert read_delegation(team.root) is None
    assert 0 == ralphgen("trust", "--forget", "-C", team.root).returncode


def test_a_pulled_server_starts_if_its_commit_is_verified(own: Path, tmp_path: Path) -> None:
    """Its manifest is of another version, so that it needs an approval."""
    team = own_team(own, tmp_path)
    words = ("trust", "--signers", team.signers, "--branch", "main", "-C", team.root)
    assert 0 == ralphgen(*words, "--yes").returncode
    manifest = team.root / ".ralph/mcp/manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"ralphgen": "', '"ralphgen": "9'), encoding="utf-8")
    assert text != manifest.read_text(encoding="utf-8")
    asked = ralphgen("session", "create", "braindump", "-C", team.root)
    assert 2 == asked.returncode, asked.stderr

    team.commit("second")
    done = ralphgen("session", "create", "braindump", "-C", team.root)
    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--signers", "x"),
        ("--branch", "main"),
        ("--forget", "--commit", "HEAD"),
        ("--signers", "x", "--branch", "main", "--forget"),
        ("--commit", "--yes"),
        ("--commit", "nowhere", "--yes"),
        ("--commit", "--output=x", "--yes"),
    ],
)
def test_options_that_do_not_fit_are_refused(team: Team, words: tuple[str, ...]) -> None:
    assert 2 == ralphgen("trust", *words, "-C", team.root).returncode


def test_the_rules_of_a_commit_are_recorded_and_no_others(team: Team) -> None:
    (team.root / "AGENTS.md").write_text("a", encoding="utf-8")
    (team.root / "Makefile").write_text("a", encoding="utf-8")
    base = team.commit("base")
    (team.root / "Makefile").write_text("b", encoding="utf-8")
    (team.root / ".ralph/prompts").mkdir()
    (team.root / ".ralph/prompts/all.md").write_text("do it", encoding="utf-8")
    team.commit("changed")

    assert 2 == ralphgen("trust", "--commit", base, "-C", team.root).returncode
    done = ralphgen("trust", "--commit", base, "--yes", "-C", team.root)
    assert 0 == done.returncode, done.stderr
    shown = done.stdout + done.stderr
    assert 'check "tests" runs base' in shown
    assert "AGENTS.md" in shown
    assert not [word for word in ("changed", "Makefile", "all.md") if word in shown]
    assert team.asks()
    (team.root / CONFIG).write_text(check("tests", "base"), encoding="utf-8")
    assert not team.asks()
