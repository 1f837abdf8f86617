"""A server that starts while `regen` replaces its files waits, and never serves a mixture."""

import json
import time
from pathlib import Path
from threading import Thread

import pytest
from driving import create_project
from settled import settle
from wire import checked, refused, running

from ralphgen.emit.write import finish, stage, write
from ralphgen.files import MANIFEST, Files, seal
from ralphgen.kits.project import Project

COMMITS = 5


@pytest.fixture(params=[0, 3], ids=["cold", "warm"])
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A project without a record of verified bytecode, and one that has been started."""
    monkeypatch.setenv("RALPHGEN_HOME", str(tmp_path / "home"))
    root = create_project(tmp_path / "project")
    settle()
    for _ in range(request.param):
        checked(root)
    return root


def other(files: Files, number: int) -> Files:
    """The files of another server: two that differ, and one with the number in its name."""
    changed = {path: f"{files[path]}# {number}\n" for path in ("policy.py", "runtime/start.py")}
    more = {f"more_{number}.py": ""}
    return seal({**files, **changed, **more}, json.loads(files[MANIFEST]))


def test_it_waits_for_the_end_of_the_commit(own: Path) -> None:
    folder, files = own / ".ralph/mcp", other(Project(own).files, 1)
    stage(folder, {path: text.encode() for path, text in files.items()})
    (folder / ".commit/policy.py").replace(folder / "policy.py")
    with running(own) as server:
        time.sleep(0.5)
        assert server.process.poll() is None
        finish(folder)
        server.shake_hands()
        server.leave()

        assert 0 == server.end()
        assert "no context" in server.errors()


def test_an_edited_file_is_refused_without_a_wait(own: Path) -> None:
    begun = time.monotonic()
    (own / ".ralph/mcp/policy.py").write_text("# mine\n", encoding="utf-8")

    assert 'policy.py" was changed after it was generated' in refused(own)
    assert time.monotonic() - begun < 2


def test_every_start_among_commits_succeeds(own: Path) -> None:
    folder, files = own / ".ralph/mcp", Project(own).files

    def commit() -> None:
        for number in range(COMMITS):
            write(folder, other(files, number))
            time.sleep(1)

    writer = Thread(target=commit)
    writer.start()
    while writer.is_alive():
        checked(own)
