"""Results of a server by the official package of the tasks extension."""

import json
from pathlib import Path

from dela_projects import GATED, HOLDING, allow, at_home, entry, project_with
from driving import context_for, on_context
from long_calls import request_task, settled, start, task_state
from node_packages import NEEDED, modules, run_node
from wire import running

pytestmark = NEEDED


def test_the_official_package_takes_the_tasks_of_a_server(tmp_path: Path) -> None:
    root = project_with(tmp_path / "p", {"hold.sh": HOLDING, "gated.sh": GATED})
    gate = tmp_path / "go"
    with at_home(tmp_path / "home"):
        allow(tmp_path / "home", entry("Directory", root))
        with running(root, "dela", *on_context(context_for(root, "manual"))) as server:
            made = server.ask("tools/call", start("gated", str(gate)))["result"]
            working = task_state(server, made["taskId"])
            gate.touch()
            completed = settled(server, made["taskId"])
            other = server.ask("tools/call", start("hold"))["result"]["taskId"]
            request_task(server, "tasks/cancel", other)
            cancelled = task_state(server, other)
    frames = [made, working, completed, cancelled]
    found = run_node(Path(__file__).with_name("tasks.mjs"), str(modules()), json.dumps(frames))

    assert 0 == found.returncode, found.stderr
    assert ["working", "working", "completed", "cancelled"] == [one["status"] for one in frames]
    assert [[True, True], *[[False, True]] * 3] == json.loads(found.stdout)
