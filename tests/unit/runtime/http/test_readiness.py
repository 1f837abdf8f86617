"""Whether a server should get requests: one thread looks at a time, in workspaces that it keeps."""

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ralphgen.runtime.engine.sqlite.revocations import FILE, RevokedSessions
from ralphgen.runtime.errors import INTERNAL_ERROR, RefusedError, StartError
from ralphgen.runtime.http import metrics as readiness
from ralphgen.runtime.http.metrics import UNSURE, Readiness

if TYPE_CHECKING:
    from ralphgen.runtime.http.sessions import Kits


class Opened:
    """The handlers of a session on a database that a test breaks, and its workspace."""

    def __init__(self, kits: "Project") -> None:
        """Takes what opened it."""
        self._kits = kits
        self.workspace = self
        self.methods = {"resources/list": self._listed}

    def _listed(self, _params: object) -> None:
        if self._kits.broken:
            raise RefusedError(INTERNAL_ERROR, "the database was replaced")

    def close(self) -> None:
        """Count that it was closed."""
        self._kits.closed += 1


class Project:
    """The kits of a server, which wait for `free` before they open a session."""

    names = ("ralph",)

    def __init__(self, folder: Path) -> None:
        """Takes the folder of the server."""
        (folder / "policy.py").write_text("POLICY = 1\n", encoding="utf-8")
        self.broken = False
        self.closed = self.opened = 0
        self.folder = str(folder)
        self.asked = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.digest = hashlib.sha256((folder / "policy.py").read_bytes()).hexdigest()

    def handlers(self, _kit: str, _claims: object) -> Opened:
        """Open one more."""
        self.asked.set()
        assert self.free.wait(60)
        self.opened += 1
        if self.broken:
            raise StartError("there is no database")
        return Opened(self)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def ready(project: Project, monkeypatch: pytest.MonkeyPatch) -> Readiness:
    monkeypatch.setattr(readiness, "KEPT", -1.0)  # each look is made
    (Path(project.folder) / FILE).touch()
    return Readiness(
        cast("Kits", project), project.digest, RevokedSessions(f"{project.folder}/ralph.db")
    )


def test_one_workspace_is_looked_at_again_and_again(project: Project, ready: Readiness) -> None:
    assert {""} == {ready.problem() for _ in range(5)}
    assert (1, 0) == (project.opened, project.closed)

    ready.close()
    assert 1 == project.closed


def test_a_database_that_comes_back_is_reopened(project: Project, ready: Readiness) -> None:
    ready.problem()
    project.broken = True
    assert "cannot be opened" in ready.problem()
    assert 1 == project.closed

    project.broken = False
    assert "" == ready.problem()


def test_who_asks_while_another_looks_does_not_wait(project: Project, ready: Readiness) -> None:
    project.free.clear()
    looking = threading.Thread(target=ready.problem)
    looking.start()
    try:
        assert project.asked.wait(60)
        assert UNSURE == ready.problem()
    finally:
        project.free.set()
        looking.join(60)

    assert 1 == project.opened


def test_without_the_list_of_ended_sessions_no_requests_should_come(
    project: Project, ready: Readiness
) -> None:
    (Path(project.folder) / FILE).unlink()

    assert "ended sessions" in ready.problem()
