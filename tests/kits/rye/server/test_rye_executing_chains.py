"""From a tool to its primitive: every step is looked up, checked and reported, at every call."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rye_projects import (
    HTTP_CLIENT,
    PYTHON_RUNTIME,
    SUBPROCESS,
    Rye,
    put,
    python_tool,
    serving,
    yaml_tool,
)

SHOW = {"command": "sh", "args": ["-c", 'echo "$A|$B|$C"']}
LONGEST = 10


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A session for all tests of the module; its tools need no signature."""
    with serving(tmp_path_factory.mktemp("chains"), settings='policy = { tool = "off" }') as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """The same, without any item."""
    shared.clear()
    return shared


def lay(rye: Rye, item_id: str, executor: object, *, space: str = "project", **more: Any) -> Path:
    """A tool that another one carries out."""
    text = yaml_tool(item_id, executor_id=executor, **more)
    return rye.put("tool", item_id, text, space=space, extension=".yaml")


def lay_chain(rye: Rye, length: int) -> None:
    """Tools t1, t2 and so on, each the next one's, so many with the primitive."""
    for number in range(1, length):
        lay(rye, f"t{number}", f"t{number + 1}" if number < length - 1 else SUBPROCESS)


def refusal(rye: Rye, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.refuses("execute", item_type="tool", item_id=item_id, **given)


def ids(answer: dict[str, Any]) -> list[str]:
    return [element["item_id"] for element in answer["chain"]]


class TestTheWay:
    """It is told element by element, each with its space and its signature."""

    @pytest.mark.thorough
    def test_a_python_tool_goes_by_the_runtime(self, rye: Rye) -> None:
        rye.put("tool", "demo/t", python_tool("demo/t"))
        chain = rye.run("tool", "demo/t")["chain"]

        assert [
            ("demo/t", "project", PYTHON_RUNTIME, "unsigned"),
            (PYTHON_RUNTIME, "system", SUBPROCESS, "valid"),
            (SUBPROCESS, "system", None, "valid"),
        ] == [
            tuple(element[key] for key in ("item_id", "source", "executor_id", "signature"))
            for element in chain
        ]

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

    @pytest.mark.parametrize("name", ["subprocess", SUBPROCESS])
    def test_a_primitive_is_named_by_its_stem_or_its_id(self, rye: Rye, name: str) -> None:
        lay(rye, "demo/t", name)

        assert ["demo/t", SUBPROCESS] == ids(rye.run("tool", "demo/t", text="x"))

    def test_of_configs_the_one_nearer_to_the_tool_wins(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner", config={"args": ["tool"], "env": {"B": "tool"}})
        config = {**SHOW, "env": {"A": "runner", "B": "runner"}}
        lay(rye, "demo/runner", SUBPROCESS, config={**config, "args": ["-c", "env"]})
        lay(rye, "demo/shows", "demo/runner", config={**SHOW, "env": {"B": "tool"}})

        assert "runner|tool|\n" == rye.run("tool", "demo/shows")["data"]["stdout"]
        assert "EXECUTION_FAILED" == refusal(rye, "demo/t")["code"]  # no script is called "tool"


class TestWhatCannotBeCarriedOut:
    """Each has its code, and says how far it came."""

    def test_a_circle(self, rye: Rye) -> None:
        lay(rye, "demo/a", "demo/b")
        lay(rye, "demo/b", "demo/c")
        lay(rye, "demo/c", "demo/a")
        error = refusal(rye, "demo/a")

        assert "CIRCULAR_DEPENDENCY" == error["code"]
        assert "demo/a → demo/b → demo/c → demo/a" in error["message"]
        assert ["demo/a", "demo/b", "demo/c"] == ids(error)

    def test_a_tool_that_names_itself(self, rye: Rye) -> None:
        lay(rye, "demo/a", "demo/a")

        assert "CIRCULAR_DEPENDENCY" == refusal(rye, "demo/a")["code"]

    def test_an_executor_that_is_not_there(self, rye: Rye) -> None:
        lay(rye, "demo/a", "demo/nothing")
        error = refusal(rye, "demo/a")

        assert "EXECUTOR_NOT_FOUND" == error["code"]
        assert '"demo/nothing"' in error["message"]
        assert ["demo/a"] == ids(error)

    def test_a_primitive_that_the_server_does_not_have(self, rye: Rye) -> None:
        lay(rye, "demo/a", None)
        error = refusal(rye, "demo/a")

        assert "VALIDATION_FAILED" == error["code"]
        assert "must name the tool that runs this one" in error["message"]

    def test_an_executor_that_is_not_said(self, rye: Rye) -> None:
        """It is not the same as none, which only primitives have."""
        lay(rye, "demo/a", ...)

        assert "VALIDATION_FAILED" == refusal(rye, "demo/a")["code"]

    def test_ten_elements_are_the_most(self, rye: Rye) -> None:
        lay_chain(rye, LONGEST)
        ten = rye.run("tool", "t1", text="x")
        lay_chain(rye, LONGEST + 1)
        error = refusal(rye, "t1")

        assert (LONGEST, "x\n") == (len(ten["chain"]), ten["data"]["stdout"])
        assert "CHAIN_TOO_DEEP" == error["code"]
        assert "more than 10 elements" in error["message"]

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_a_dry_run_finds_the_same(self, rye: Rye, dry_run: bool) -> None:
        lay(rye, "demo/a", "demo/nothing")

        assert "EXECUTOR_NOT_FOUND" == refusal(rye, "demo/a", dry_run=dry_run)["code"]

    @pytest.mark.parametrize("name", ["../../outside", "{root}/outside", "demo//runner", "demo/*"])
    def test_an_executor_leads_nowhere_but_to_items(self, rye: Rye, name: str) -> None:
        trap = yaml_tool("outside", config={"command": "touch", "args": ["trapped"]})
        put(rye.root / "outside.yaml", trap)
        rye.put("tool", "demo/runner", trap, extension=".yaml")
        lay(rye, "demo/a", name.format(root=rye.root), config={})

        assert "EXECUTOR_NOT_FOUND" == refusal(rye, "demo/a")["code"]
        assert not (rye.root / "trapped").exists()

    @pytest.mark.parametrize(
        ("limits", "fits"),
        [
            ({"min_version": "1.0.0"}, True),
            ({"min_version": "0.9.10", "max_version": "1.0.0"}, True),
            ({"min_version": "1.0.1"}, False),
            ({"max_version": "0.10.0"}, False),
        ],
    )
    def test_a_version_that_the_executor_does_not_take(
        self, rye: Rye, limits: dict[str, str], fits: bool
    ) -> None:
        lay(rye, "demo/a", "demo/runner")
        lay(rye, "demo/runner", SUBPROCESS, child_constraints={"demo/a": limits})
        failed, answer = rye.ask(
            "execute", item_type="tool", item_id="demo/a", parameters={"text": "x"}
        )

        assert fits != failed
        assert fits or "VALIDATION_FAILED" == answer["error"]["code"]


class TestSpaces:
    """Each is looked for from the space of the one before it downwards, and never upwards."""

    @pytest.mark.parametrize(("space", "expected"), [("project", "project"), ("user", "user")])
    def test_a_tool_finds_those_of_its_own_space_first(
        self, rye: Rye, space: str, expected: str
    ) -> None:
        lay(rye, "demo/t", "demo/runner", space=space)
        for name in ("project", "user"):
            config = {"command": "echo", "args": [name]}
            lay(rye, "demo/runner", SUBPROCESS, space=name, config=config)
        # a tool's own config would win
        lay(rye, "demo/t", "demo/runner", space=space, config={})

        assert f"{expected}\n" == rye.run("tool", "demo/t")["data"]["stdout"]

    def test_a_tool_of_the_project_may_use_one_of_the_user(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner")
        lay(rye, "demo/runner", SUBPROCESS, space="user")
        answer = rye.run("tool", "demo/t", text="x")

        assert ["project", "user", "system"] == [each["source"] for each in answer["chain"]]

    def test_a_tool_of_the_user_may_not_use_one_of_the_project(self, rye: Rye) -> None:
        lay(rye, "demo/t", "demo/runner", space="user")
        lay(rye, "demo/runner", SUBPROCESS)
        error = refusal(rye, "demo/t")

        assert "EXECUTOR_NOT_FOUND" == error["code"]

    @pytest.mark.parametrize("space", ["project", "user"])
    @pytest.mark.parametrize("item_id", [SUBPROCESS, PYTHON_RUNTIME, "subprocess"])
    def test_the_system_never_uses_one_of_another_space(
        self, rye: Rye, space: str, item_id: str
    ) -> None:
        """Whatever is written under the id of a primitive is not run, nor is its bare name."""
        trap = {"command": "sh", "args": ["-c", "touch trapped"]}
        lay(rye, item_id, None, space=space, config=trap)
        rye.put("tool", "demo/t", python_tool("demo/t"))
        lay(rye, "demo/say", "subprocess")
        answers = [rye.run("tool", "demo/t"), rye.run("tool", "demo/say", text="x")]

        assert [["project", "system", "system"], ["project", "system"]] == [
            [element["source"] for element in answer["chain"]] for answer in answers
        ]
        assert not (rye.root / "trapped").exists()

    def test_source_says_which_one_is_meant(self, rye: Rye) -> None:
        for space in ("project", "user"):
            config = {"command": "echo", "args": [space]}
            lay(rye, "demo/t", SUBPROCESS, space=space, config=config)
        answer = rye.says("execute", item_type="tool", item_id="demo/t", source="user")

        assert ("user", "user\n") == (answer["source"], answer["data"]["stdout"])
        assert "ITEM_NOT_FOUND" == refusal(rye, "demo/t", source="system")["code"]


class TestNothingIsRemembered:
    """Upstream kept chains, and did not notice a new file that goes before one of them."""

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
    """What the chain says of its environment, and `${…}` in its author's text."""

    def test_each_element_may_use_what_the_one_behind_it_has_set(self, rye: Rye) -> None:
        env = {"A": "a", "B": "${A}${NOT_THERE:-b}", "C": "runner"}
        lay(rye, "demo/runner", SUBPROCESS, config=SHOW, env_config={"env": env})
        lay(rye, "demo/t", "demo/runner", config={}, env_config={"env": {"C": "tool's ${C}"}})

        assert "a|ab|tool's runner\n" == rye.run("tool", "demo/t")["data"]["stdout"]

    def test_a_variable_is_put_into_the_config_as_it_is(self, rye: Rye) -> None:
        value = "a(b) 'c' $(touch trapped) `d` ; ${B}"
        config = {"command": "printf", "args": ["%s|", "${A}", "x${A}", "${GONE:-else}", "${GONE}"]}
        env = {"A": value.replace("${B}", "$B")}
        lay(rye, "demo/t", SUBPROCESS, config=config, env_config={"env": env})
        answer = rye.run("tool", "demo/t", text="parameter")

        expected = env["A"]
        assert f"{expected}|x{expected}|else||" == answer["data"]["stdout"]
        assert any('"GONE"' in warning for warning in answer["metadata"]["warnings"])

    def test_an_interpreter_is_found_and_told_by_a_dry_run(self, rye: Rye) -> None:
        interpreter = {"type": "system_binary", "binary": "sh", "var": "SHELL_FOUND"}
        config = {"command": "${SHELL_FOUND}", "args": ["-c", "echo found"]}
        lay(rye, "demo/t", SUBPROCESS, config=config, env_config={"interpreter": interpreter})
        checked = rye.says("execute", item_type="tool", item_id="demo/t", dry_run=True)

        assert "found\n" == rye.run("tool", "demo/t")["data"]["stdout"]
        assert checked["resolved"]["interpreters"]["SHELL_FOUND"].endswith("/sh")

    def test_a_python_tool_runs_in_the_environment_of_the_project(self, rye: Rye) -> None:
        code = "import os\n\ndef execute(params, project_path): return os.environ.get('MARK')"
        rye.put("tool", "demo/t", python_tool("demo/t", code))
        found = [rye.run("tool", "demo/t")["data"]]
        script = f'#!/bin/sh\nMARK=ours exec "{sys.executable}" "$@"\n'
        put(rye.root / ".venv/bin/python", script).chmod(0o755)
        found.append(rye.run("tool", "demo/t")["data"])
        shutil.rmtree(rye.root / ".venv")

        assert [None, "ours"] == found
