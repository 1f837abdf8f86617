"""A server that was edited, or that ralphgen did not write, starts only on purpose."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import idle_claude, ralphgen, ran
from driving import accept
from trusting import add, task_session

from ralphgen import __version__

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("how", ["unwritten", "foreign", "another version"])
def test_a_server_that_ralphgen_does_not_write_needs_a_record(clone: Path, how: str) -> None:
    """Its digests match its manifest, so that the files alone prove nothing."""
    folder = clone / ".ralph/mcp"
    if how == "another version":
        path = folder / "manifest.json"
        text = path.read_text(encoding="utf-8").replace(f'"{__version__}"', '"0.0.9"')
        path.write_text(text, encoding="utf-8")
    else:
        path = folder / ("policy.py" if how == "foreign" else "ralph/tasks.py")
        path.write_text(path.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
        accept(clone)
    differs = "the server in .ralph/mcp differs from the output of ralphgen"
    refused, doctor = task_session(clone), ralphgen("doctor", clone)
    assert (2, 1) == (refused.returncode, doctor.returncode)
    assert differs in refused.stderr
    (finding,) = [line for line in doctor.stdout.splitlines() if differs in line]
    assert finding.startswith("error trust        this project has not been approved")
    assert 'fix: review and approve with "ralphgen trust"' in doctor.stdout
    assert doctor.stdout.splitlines()[-1].startswith("2 errors, ")
    assert "" == doctor.stderr

    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    assert 0 == task_session(clone).returncode


@pytest.mark.parametrize("command", [("session", "create", "braindump"), ("launch", "braindump")])
def test_no_consent_is_asked_for_a_start_that_an_old_database_refuses(
    own: Path, tmp_path: Path, command: tuple[str, str]
) -> None:
    theirs = shutil.copytree(own, tmp_path / "theirs")
    add(theirs, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    assert 0 == ralphgen("regen", theirs, "--no-install").returncode
    shutil.rmtree(own / ".ralph/mcp")
    shutil.copytree(theirs / ".ralph/mcp", own / ".ralph/mcp")
    refused = ralphgen(*command, cwd=own, more=idle_claude(tmp_path))

    assert 1 == refused.returncode, refused.stderr
    assert 'the database is out of date: column "tasks.risk" is missing\n' in refused.stderr
    assert "trust" not in refused.stderr


def test_edited_files_stop_their_start_without_consent(clone: Path) -> None:
    mark = clone / "PWNED"
    edited = clone / ".ralph/mcp/runtime/start.py"
    text = edited.read_text(encoding="utf-8")
    edited.write_text(f"open({str(mark)!r}, 'w').close()\n{text}", encoding="utf-8")
    for refused in (task_session(clone), ralphgen("serve", "ralph", cwd=clone)):
        assert 2 == refused.returncode
        assert "runtime/start.py" in refused.stderr
    doctor = ralphgen("doctor", clone)
    assert 1 == doctor.returncode
    assert (
        "error trust        generated files in .ralph/mcp were edited: runtime/start.py"
        in doctor.stdout
    )
    assert not mark.exists()

    edited.write_text(f"{text}\nopen({str(mark)!r}, 'w').close()\n", encoding="utf-8")
    done = task_session(clone, "--trust-edited", "--json")

    assert 0 == done.returncode, done.stderr
    assert mark.exists()
    assert "--trust-edited" in json.loads(done.stdout)["argv"] or "--trust-edited" in done.stdout


@pytest.mark.parametrize("file", ["server.py", "runtime/loader.py"])
def test_serve_runs_nothing_that_was_edited(clone: Path, file: str) -> None:
    """This includes files that run before the server compares its own files."""
    mark = clone / "PWNED"
    edited = clone / ".ralph/mcp" / file
    added = f"open({str(mark)!r}, 'w').close()"
    edited.write_text(f"{edited.read_text(encoding='utf-8')}\n{added}\n", encoding="utf-8")
    done = ralphgen("serve", "ralph", cwd=clone)

    assert 2 == done.returncode
    assert f"generated files in .ralph/mcp were edited: {file}" in done.stderr
    assert not mark.exists()


def test_serve_installs_no_lock_that_was_added_or_edited(clone: Path, tmp_path: Path) -> None:
    lock = clone / ".ralph/mcp/requirements.lock"
    lock.write_text("nowhere==1\n", encoding="utf-8")
    home = {"RALPHGEN_HOME": str(tmp_path / "home")}
    added = ralphgen("serve", "--check", cwd=clone, more=home)
    assert 2 == added.returncode
    assert "manifest.json does not list requirements.lock" in added.stderr

    lock.unlink()
    ran("init", clone, "--kit", "dela", "--no-install")
    ran("trust", "-C", clone, "--yes")
    lock.write_text(lock.read_text(encoding="utf-8") + "#\n", encoding="utf-8")
    done = ralphgen("serve", "--check", cwd=clone, more=home)
    assert 2 == done.returncode
    assert "generated files in .ralph/mcp were edited: requirements.lock" in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_context_that_widens_what_clients_may_do_needs_a_record(clone: Path) -> None:
    """Also after the server itself is on record; the user's own command records its context."""
    context, usual = clone / ".ralph/mcp/context.json", ("serve", "ralph")
    assert 0 == ralphgen(*usual, cwd=clone).returncode
    facts = json.loads(context.read_text(encoding="utf-8"))
    for change in ({"recipe": "manual"}, {"base": "manual"}):
        context.write_text(json.dumps({**facts, **change}), encoding="utf-8")
        refused = ralphgen(*usual, cwd=clone)
        assert (2, True) == (refused.returncode, "context.json" in refused.stderr)
        assert 2 == ralphgen("call", "ralph:list_tasks", cwd=clone).returncode
    context.write_text(json.dumps(facts), encoding="utf-8")
    assert 0 == ralphgen(*usual, cwd=clone).returncode

    assert 0 == ralphgen("session", "create", "manual", "--default", cwd=clone).returncode
    assert 0 == ralphgen(*usual, cwd=clone).returncode


@pytest.mark.parametrize("how", ["illegal", "missing"])
def test_a_record_covers_every_file_that_starts(clone: Path, how: str) -> None:
    """A manifest that leaves files out would not change when they do."""
    path = clone / ".ralph/mcp/manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if how == "illegal":
        manifest["files"]["a\\b"] = "0"
    else:
        del manifest["files"]["server.py"]
    path.write_text(json.dumps(manifest), encoding="utf-8")

    assert 2 == ralphgen("trust", "-C", clone, "--yes").returncode
    for refused in (task_session(clone), ralphgen("serve", "ralph", cwd=clone)):
        assert 2 == refused.returncode
        assert "manifest.json does not list" in refused.stderr


def test_a_pipe_in_place_of_a_file_is_not_waited_for(clone: Path) -> None:
    path = clone / ".ralph/mcp/policy.py"
    path.unlink()
    os.mkfifo(path)
    done = task_session(clone)

    assert 1 == done.returncode
    assert '"policy.py" is a device' in done.stderr


def test_a_link_is_not_followed_to_write_the_default_context(clone: Path, tmp_path: Path) -> None:
    (clone / ".ralph/mcp/context.json").rename(tmp_path / "other")
    kept = (tmp_path / "other").read_bytes()
    (clone / ".ralph/mcp/context.json").symlink_to(tmp_path / "other")

    assert 1 == task_session(clone, "--default").returncode
    assert kept == (tmp_path / "other").read_bytes()
