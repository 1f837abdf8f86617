"""Structured answers match the texts and the schemas of their tools."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dela_projects import BOTH_VERSIONS, HOLDING, Refusal, project_with, refusal, serving
from driving import Driver, quiet
from jsonschema import Draft202012Validator

from ralphgen.emit.workflows import regenerate

STRUCTURED = {
    "hold.sh": HOLDING,
    "code.sh": '#!/bin/sh\necho "out"\nexit "$1"\n',
    "killed.sh": "#!/bin/sh\nkill -KILL $$\n",
    "deaf.sh": "#!/bin/sh\ntrap '' TERM\necho started\nwhile :; do sleep 0.05; done\n",
    "much.sh": "#!/bin/sh\nseq 1 5000\n",
    "Makefile": "one:\ntwo:\n",
    "package.json": "{",
}


class TestStructured:
    """If a project requests structured answers, each of them matches its schema."""

    @pytest.fixture(scope="class", params=BOTH_VERSIONS)
    @classmethod
    def dela(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Driver]:
        root = project_with(tmp_path_factory.mktemp("structured"), STRUCTURED)
        config = 'kits = ["dela"]\nstructured_output = true\n'
        (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        with serving(root, tmp_path_factory.mktemp("home"), era=request.param) as driver:
            yield driver

    def held(self, dela: Driver, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured answer of a call; fails unless it matches text and schema."""
        (schema,) = (each.get("outputSchema", {}) for each in dela.tools() if tool == each["name"])
        text, structured = dela.both(tool, arguments)
        assert structured is not None
        assert json.loads(text) == structured
        if schema:
            Draft202012Validator({**schema, "additionalProperties": False}).validate(structured)
        return structured

    def test_listings_hold_their_schema(self, dela: Driver) -> None:
        whole = self.held(dela, "list_tasks")
        page = self.held(dela, "list_tasks", limit=1)

        assert (True, True) == (bool(whole["errors"]), "next_cursor" in page)
        assert whole["total"] == len(whole["tasks"])
        self.held(dela, "list_tasks", limit=1, cursor=page["next_cursor"])
        self.held(dela, "list_tasks", runner="gradle")

    @pytest.mark.parametrize(
        ("name", "state", "keys"),
        [
            ("code", "exited", {"exit_code"}),
            ("killed", "failed", {"exit_code", "signal", "error"}),
            ("much", "exited", {"exit_code", "pid", "output_truncated"}),
            ("hold", "running", {"pid"}),
        ],
    )
    def test_starts_and_what_is_told_of_them_hold_their_schemas(
        self, dela: Driver, name: str, state: str, keys: set[str]
    ) -> None:
        words, wait = (["3"] if "code" == name else []), (0 if "hold" == name else 60)
        start = {"unique_name": name, "args": words, "wait_for_exit_seconds": wait}
        answer = self.held(dela, "task_start", **start)
        assert (state, keys | {"state", "initial_output"}) == (answer["state"], set(answer))
        (told, *_) = self.held(dela, "task_status", unique_name=name)["jobs"]

        assert state == told["state"]
        self.held(dela, "task_status", pid=told["pid"])
        self.held(dela, "task_output", pid=told["pid"], show_truncation=True)
        self.held(dela, "task_output", pid=told["pid"], offset=0, lines=5000)
        running = self.held(dela, "status")["running"]
        assert (state == "running") == (told["pid"] in [each["pid"] for each in running])
        if state == "running":
            self.held(dela, "task_stop", pid=told["pid"])

    def test_a_stop_by_force_holds_its_schema_too(self, dela: Driver) -> None:
        start = {"unique_name": "deaf", "wait_for_exit_seconds": 1}
        pid = self.held(dela, "task_start", **start)["pid"]

        assert "killed" == self.held(dela, "task_stop", pid=pid, grace_period=0)["status"]

    def test_a_refusal_is_an_error_of_the_protocol_all_the_same(self, dela: Driver) -> None:
        data = "Use 'list_tasks' to see available tasks"
        expected = Refusal(-32012, "Task 'nothing' not found", data)

        assert expected == refusal(dela, "task_start", unique_name="nothing")
