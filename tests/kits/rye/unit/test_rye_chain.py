"""Executor chains of tools: links, ends, version limits and trust."""

from pathlib import Path
from typing import Any

import pytest
from rye_projects import HTTP_CLIENT, PYTHON_RUNTIME, SUBPROCESS, directive, python_tool, yaml_tool
from rye_workspaces import POLICY, Workspace, opened

from ralphgen.kits.rye.server.executing import ChainLink, is_part
from ralphgen.kits.rye.server.formats import Parsed
from ralphgen.kits.rye.server.spaces import Item, Space
from ralphgen.kits.rye.server.trust import Verdict

RUNTIME = {"tool_type": "runtime", "config": {}}


def put_yaml(workspace: Workspace, item_id: str, executor: object, **values: Any) -> Path:
    space = values.pop("space", "project")
    text = yaml_tool(item_id, executor_id=executor, **values)
    return workspace.put("tool", item_id, text, space=space, extension=".yaml")


def ids(answer: dict[str, Any]) -> list[str]:
    return [link["item_id"] for link in answer["chain"]]


class TestLinks:
    """The next element of a chain."""

    @pytest.mark.parametrize(
        "executor", ["python_runtime", PYTHON_RUNTIME, "rye/core/runtimes/python/function"]
    )
    def test_python_tool_reaches_the_primitive_through_its_runtime(
        self, workspace: Workspace, executor: str
    ) -> None:
        workspace.put("tool", "demo/x", python_tool("demo/x", executor_id=executor))
        answer = workspace.execute("tool", "demo/x", dry_run=True)

        assert ["demo/x", PYTHON_RUNTIME, SUBPROCESS] == ids(answer)
        assert 2 == answer["validated_pairs"]
        assert {
            "item_id": SUBPROCESS,
            "source": "system",
            "tool_type": "primitive",
            "executor_id": None,
            "signature": "valid",
        } == answer["chain"][-1]

    def test_project_file_cannot_replace_a_primitive(self, workspace: Workspace) -> None:
        put_yaml(workspace, "subprocess", None)
        put_yaml(workspace, SUBPROCESS, None)
        put_yaml(workspace, "demo/x", "subprocess")
        answer = workspace.execute("tool", "demo/x", dry_run=True)

        assert "system" == answer["chain"][-1]["source"]

    def test_project_file_cannot_replace_a_runtime(self, workspace: Workspace) -> None:
        put_yaml(workspace, "rye/core/runtimes/python/function", "subprocess", **RUNTIME)
        tool = python_tool("demo/x", executor_id="rye/core/runtimes/python/function")
        workspace.put("tool", "demo/x", tool)
        answer = workspace.execute("tool", "demo/x", dry_run=True)

        assert ["project", "system", "system"] == [link["source"] for link in answer["chain"]]


class TestEnds:
    """Chains that do not end in a primitive."""

    def test_missing_executor_is_named(self, workspace: Workspace) -> None:
        put_yaml(workspace, "demo/x", "demo/none")
        error = workspace.refuses("tool", "demo/x")

        assert "EXECUTOR_NOT_FOUND" == error.code
        assert '"demo/none"' in str(error)
        assert ("demo/x", "project", "demo/none") == tuple(
            error.facts[name] for name in ("item_id", "source", "executor_id")
        )

    def test_ambiguous_executor_keeps_the_executed_tool_in_the_answer(
        self, workspace: Workspace
    ) -> None:
        for item_id in ("a/run", "b/run"):
            put_yaml(workspace, item_id, "subprocess", **RUNTIME)
        put_yaml(workspace, "demo/x", "run")
        error = workspace.refuses("tool", "demo/x")

        assert ("AMBIGUOUS_ID", ["a/run", "b/run"]) == (error.code, error.facts["candidates"])
        assert ("demo/x", "run") == (error.facts["item_id"], error.facts["executor_id"])

    def test_circular_chain_is_refused(self, workspace: Workspace) -> None:
        put_yaml(workspace, "demo/a", "demo/b")
        put_yaml(workspace, "demo/b", "demo/c")
        put_yaml(workspace, "demo/c", "demo/b")
        error = workspace.refuses("tool", "demo/a")

        assert "CIRCULAR_DEPENDENCY" == error.code
        assert "demo/a → demo/b → demo/c → demo/b" in str(error)

    def test_tool_cannot_execute_itself(self, workspace: Workspace) -> None:
        put_yaml(workspace, "demo/a", "demo/a")

        assert "CIRCULAR_DEPENDENCY" == workspace.refuses("tool", "demo/a").code

    def test_chain_has_at_most_ten_elements(self, workspace: Workspace) -> None:
        for number in range(10):
            following = f"demo/s{number + 1}" if number < 9 else "subprocess"
            put_yaml(workspace, f"demo/s{number}", following)
        error = workspace.refuses("tool", "demo/s0", dry_run=True)

        assert 10 == len(workspace.execute("tool", "demo/s1", dry_run=True)["chain"])
        assert "CHAIN_TOO_DEEP" == error.code
        assert "more than 10 elements" in str(error)

    @pytest.mark.parametrize("executor", [None, "", ...])
    @pytest.mark.parametrize("item_id", ["demo/run", "demo/x"])
    def test_every_tool_of_a_chain_must_name_an_executor(
        self, workspace: Workspace, item_id: str, executor: object
    ) -> None:
        put_yaml(workspace, "demo/run", executor)
        put_yaml(workspace, "demo/x", "demo/run")
        error = workspace.refuses("tool", item_id)

        assert "VALIDATION_FAILED" == error.code
        assert '"demo/run" is not valid: ' in str(error)
        assert '"executor_id"' in str(error)

    @pytest.mark.parametrize("source", ["project", "user"])
    def test_id_alone_does_not_make_a_primitive(self, source: str) -> None:
        item = Item("tool", SUBPROCESS, ".yaml", Space(source, "/x"))
        link = ChainLink(item, Parsed({}, ""), Verdict("valid"), "")

        assert not is_part(link)

    @pytest.mark.parametrize("item_id", [SUBPROCESS, HTTP_CLIENT, PYTHON_RUNTIME])
    def test_built_in_executor_is_checked_but_not_run(
        self, workspace: Workspace, item_id: str
    ) -> None:
        answer = workspace.execute("tool", item_id, dry_run=True)
        error = workspace.refuses("tool", item_id)

        assert "validation_passed" == answer["status"]
        assert "VALIDATION_FAILED" == error.code
        assert "execute a tool with that executor_id, or set dry_run to check it" in str(error)

    def test_python_runtime_runs_only_python(self, workspace: Workspace) -> None:
        put_yaml(workspace, "demo/x", "python_runtime", config={})
        error = workspace.refuses("tool", "demo/x", dry_run=True)

        assert "VALIDATION_FAILED" == error.code
        assert "is a .yaml file" in str(error)


class TestTrust:
    """The policy must accept every element of a chain."""

    def test_unsigned_element_in_the_middle_is_refused(self, tmp_path: Path) -> None:
        with opened(tmp_path, policy={**POLICY, "tool": "integrity"}) as workspace:
            put_yaml(workspace, "demo/x", "subprocess")
            error = workspace.refuses("tool", "demo/x", dry_run=True)

            assert "UNSIGNED" == error.code

    @pytest.mark.parametrize("kind", ["tool", "directive"])
    def test_wrong_parameters_are_named_before_a_missing_signature(
        self, tmp_path: Path, kind: str
    ) -> None:
        with opened(tmp_path, policy=dict.fromkeys(POLICY, "integrity")) as workspace:
            schema = {"type": "object", "required": ["who"]}
            tool = python_tool("demo/x", schema=schema)
            workspace.put(kind, "demo/x", tool if kind == "tool" else directive("demo/x"))
            wrong = workspace.refuses(kind, "demo/x")
            right = workspace.refuses(kind, "demo/x", parameters={"who": "a"})

            assert ("VALIDATION_FAILED", "UNSIGNED") == (wrong.code, right.code)
            assert "who" in wrong.facts["issues"][0]
            assert "unsigned" == wrong.facts["signature"]["state"]

    def test_changed_system_item_is_refused(self, tmp_path: Path) -> None:
        with opened(tmp_path, policy={**POLICY, "tool": "integrity"}) as workspace:
            path = workspace.system / f"tools/{SUBPROCESS}.yaml"
            path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
            error = workspace.refuses("tool", PYTHON_RUNTIME, dry_run=True)

            assert "INTEGRITY_FAILED" == error.code
            assert SUBPROCESS == error.facts["item_id"]

    def test_warning_policy_reports_each_element(self, tmp_path: Path) -> None:
        with opened(tmp_path, policy={**POLICY, "tool": "warn"}) as workspace:
            put_yaml(workspace, "demo/run", "subprocess", **RUNTIME)
            put_yaml(workspace, "demo/x", "demo/run")
            warnings = workspace.execute("tool", "demo/x", dry_run=True)["metadata"]["warnings"]

            assert ['"demo/x"', '"demo/run"'] == [text.split()[2] for text in warnings]
