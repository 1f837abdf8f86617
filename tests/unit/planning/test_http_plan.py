"""The plan for serving a project over HTTP."""

from dataclasses import replace
from pathlib import Path

from http_servers import http_project

from ralphgen.kits.registry import KITS
from ralphgen.planning.server import plan_server
from ralphgen.project.inspect import inspect_project
from ralphgen.project.root import DatabasePlace


def test_the_server_gets_the_engine_and_the_place_of_the_database(tmp_path: Path) -> None:
    project = inspect_project(http_project(tmp_path / "p"), KITS)
    ours = plan_server(project, KITS).http
    theirs = plan_server(replace(project, place=DatabasePlace()), KITS).http
    assert ours is not None
    assert theirs is not None

    assert ("sqlite", ".ralph/db/ralph.db") == (ours["engine"], ours["database"])
    assert ("postgresql", "RALPH_DSN/public") == (theirs["engine"], theirs["database"])
