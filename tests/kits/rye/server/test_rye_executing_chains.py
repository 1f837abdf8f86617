"""From a tool to its primitive: every step is looked up, checked and reported, at every call."""

from pathlib import Path
from typing import Any

import pytest
from rye_projects import HTTP_CLIENT, PYTHON_RUNTIME, SUBPROCESS, Rye, yaml_tool

SETTINGS = 'policy = { tool = "off" }'

SHOW = {"command": "sh", "args": ["-c", 'echo "$A|$B|$C"']}


def lay(rye: Rye, item_id: str, executor: object, *, space: str = "project", **more: Any) -> Path:
    """Write a tool with an executor."""
    text = yaml_tool(item_id, executor_id=executor, **more)
    return rye.put("tool", item_id, text, space=space, extension=".yaml")


def refusal(rye: Rye, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.refuses("execute", item_type="tool", item_id=item_id, **given)


def ids(answer: dict[str, Any]) -> list[str]:
    return [element["item_id"] for element in answer["chain"]]


class TestTheWay:
    """The answer lists the elements, each with its space and signature."""

    @pytest.mark.parametrize(
        ("item_id", "expected"),
        [
            (SUBPROCESS, [SUBPROCESS]),
            (HTTP_CLIENT, [HTTP_CLIENT]),
            (PYTHON_RUNTIME, [PYTHON_RUNTIME, SUBPROCESS]),
        ],
    )
    def test_a_part_of_the_system_has_a_chain_and_is_not_run(
        self, rye: Rye, item_id: str, expected: list[str]
    ) -> None:
        checked = rye.says("execute", item_type="tool", item_id=item_id, dry_run=True)
        error = refusal(rye, item_id)

        assert (expected, len(expected) - 1) == (ids(checked), checked["validated_pairs"])
        assert "VALIDATION_FAILED" == error["code"]

    def test_of_configs_the_one_nearer_to_the_tool_wins(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner", config={"args": ["tool"], "env": {"B": "tool"}})
        config = {**SHOW, "env": {"A": "runner", "B": "runner"}}
        lay(rye, "demo/runner", SUBPROCESS, config={**config, "args": ["-c", "env"]})
        lay(rye, "demo/shows", "demo/runner", config={**SHOW, "env": {"B": "tool"}})

        assert "runner|tool|\n" == rye.run("tool", "demo/shows")["data"]["stdout"]
        assert "EXECUTION_FAILED" == refusal(rye, "demo/t")["code"]  # "tool" is not a script


class TestNothingIsRemembered:
    """Upstream cached chains and missed new files that take precedence."""

    def test_a_changed_executor_counts_at_once(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner", config={})
        found = []
        for word in ("one", "two"):
            config = {"command": "echo", "args": [word]}
            lay(rye, "demo/runner", SUBPROCESS, config=config)
            found.append(rye.run("tool", "demo/t")["data"]["stdout"])

        assert ["one\n", "two\n"] == found

    def test_so_does_a_new_one_that_goes_before_it_and_one_that_is_gone(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner", config={})
        users = {"command": "echo", "args": ["user's"]}
        lay(rye, "demo/runner", SUBPROCESS, space="user", config=users)
        found = [rye.run("tool", "demo/t")["data"]["stdout"]]
        ours = {"command": "echo", "args": ["ours"]}
        path = lay(rye, "demo/runner", SUBPROCESS, config=ours)
        found.append(rye.run("tool", "demo/t")["data"]["stdout"])
        path.unlink()
        found.append(rye.run("tool", "demo/t")["data"]["stdout"])

        assert ["user's\n", "ours\n", "user's\n"] == found


class TestVariables:
    """Variables of a chain, and `${…}` in its author's text."""

    def test_a_variable_is_put_into_the_config_as_it_is(self, rye: Rye) -> None:
        value = "a(b) 'c' $(touch trapped) `d` ; ${B}"
        config = {"command": "printf", "args": ["%s|", "${A}", "x${A}", "${GONE:-else}", "${GONE}"]}
        env = {"A": value.replace("${B}", "$B")}
        lay(rye, "demo/t", SUBPROCESS, config=config, env_config={"env": env})
        answer = rye.run("tool", "demo/t", text="parameter")

        expected = env["A"]
        assert f"{expected}|x{expected}|else||" == answer["data"]["stdout"]
        assert any('"GONE"' in warning for warning in answer["metadata"]["warnings"])
