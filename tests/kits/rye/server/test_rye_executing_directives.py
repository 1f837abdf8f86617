"""A directive that is executed: its inputs are checked and put in, and nothing of it is lost."""

from typing import Any

import pytest
from rye_projects import Rye, directive, knowledge, python_tool

INPUTS = """
<inputs>
  <input name="who" required="true">Whom to greet</input>
  <input name="times" type="integer" default="2" min="1" max="5">How often</input>
  <input name="tone" type="string" enum="warm,dry">How</input>
  <input name="loud" type="boolean">Whether</input>
  <input name="names" type="array">Further ones</input>
  <input name="more" type="object">Anything else</input>
</inputs>
"""
GREET = {"item_type": "directive", "item_id": "demo/greet"}


def greeting(rye: Rye, **parts: str) -> None:
    """Lay down the directive of these parts."""
    rye.put("directive", "demo/greet", directive("demo/greet", **parts))


def action(rye: Rye, text: str, /, **given: Any) -> str:
    """What the action of a directive comes to that has this one."""
    greeting(rye, inputs=INPUTS, process=f"<process><step><action>{text}</action></step></process>")
    (step,) = rye.run("directive", "demo/greet", who="Bob", **given)["data"]["steps"]
    found: str = step["action"]
    return found


class TestItsInputs:
    """They are checked before anything is told, and an agent is told what there is."""

    def test_a_required_one_that_is_missing_is_named_with_all_that_are_declared(
        self, rye: Rye
    ) -> None:
        greeting(rye, inputs=INPUTS)
        error = rye.refuses("execute", **GREET)

        assert "VALIDATION_FAILED" == error["code"]
        assert ['"who" is missing'] == error["issues"]
        assert ["who", "times", "tone", "loud", "names", "more"] == [
            declared["name"] for declared in error["inputs"]
        ]
        assert [True, False, False, False, False, False] == [
            declared["required"] for declared in error["inputs"]
        ]

    def test_everything_that_is_wrong_is_named_at_once(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        error = rye.refuses("execute", **GREET, parameters={"times": 9, "wo": 1})

        assert [
            'unknown input "wo": did you mean "who"?',
            '"who" is missing',
            '"times" must be at most 5',
        ] == error["issues"]
        assert error["message"].endswith("(and 2 more)")


class TestWhatIsPutIn:
    """The eight references of upstream's suite, and what they must never do."""

    @pytest.mark.parametrize(
        ("author", "expected"),
        [
            ("Greet {input:who}", "Greet Bob"),
            ("Greet ${inputs.who}", "Greet Bob"),
            ("Greet {input:tone}", "Greet {input:tone}"),
            ("Greet{input:tone?}", "Greet"),
            ("Greet {input:who?}", "Greet Bob"),
            ("Greet {input:tone:kindly}", "Greet kindly"),
            ("Greet {input:tone|kindly}", "Greet kindly"),
            ("Greet {input:who:nobody}", "Greet Bob"),
            ("{input:times} x {input:who} ({input:tone:any}){input:loud?}", "2 x Bob (any)"),
            ("Greet everybody", "Greet everybody"),
            ("{env:HOME} ${HOME} {who} {other:x}", "{env:HOME} ${HOME} {who} {other:x}"),
        ],
    )
    def test_an_input_stands_where_it_is_named(self, rye: Rye, author: str, expected: str) -> None:
        assert expected == action(rye, author)


class TestWhatItSays:
    """All that its author wrote is told, in both dialects."""

    def test_a_step_keeps_its_name_its_description_and_its_action(self, rye: Rye) -> None:
        steps = (
            '<process><step name="one"><description>Why</description><action>How</action></step>'
            '<step name="two" tool="x">Only text</step></process>'
        )
        greeting(rye, process=steps)
        found = rye.run("directive", "demo/greet", who="Bob")["data"]["steps"]

        assert {"name": "one", "description": "Why", "action": "How"} == found[0]
        assert ("two", "Only text", {"tool": "x"}) == (
            found[1]["name"],
            found[1]["text"],
            found[1]["attributes"],
        )

    def test_its_metadata_are_all_there(self, rye: Rye) -> None:
        metadata = (
            '<model tier="general" fallback="fast" parallel="true"/>'
            '<permissions><read resource="filesystem" path="**"/>'
            '<execute resource="shell" action="run"/></permissions>'
            '<limits turns="3" spend="0.5"/><hooks><hook when="done">tell</hook></hooks>'
        )
        greeting(rye, metadata=metadata)
        data = rye.run("directive", "demo/greet", who="Bob")["data"]

        assert ("greet", "1.0.0", "demo", "tests") == tuple(
            data[name] for name in ("name", "version", "category", "author")
        )
        assert {"tier": "general", "fallback": "fast", "parallel": "true"} == data["model"]
        assert ["read", "execute"] == [each["tag"] for each in data["permissions"]]
        assert {"resource": "filesystem", "path": "**"} == data["permissions"][0]["attributes"]
        assert {"turns": "3", "spend": "0.5"} == data["limits"]
        assert "tell" == data["hooks"][0]["text"]
        assert [{"name": "greeting", "description": "A text"}] == data["outputs"]
        assert (
            "Follow this directive" in rye.run("directive", "demo/greet", who="B")["instructions"]
        )


class TestWhatIsRefused:
    """With a code, and never with the inside of a parser."""

    def test_an_item_of_another_type_is_not_there_either(self, rye: Rye) -> None:
        rye.put("tool", "demo/greet", python_tool("demo/greet"))
        rye.put("knowledge", "demo/greet", knowledge("demo/greet"))

        assert "ITEM_NOT_FOUND" == rye.refuses("execute", **GREET)["code"]


class TestADryRun:
    """It checks the same and tells less."""

    def test_it_passes_without_the_text(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        answer = rye.says("execute", **GREET, dry_run=True, parameters={"who": "Bob"})

        assert ("validation_passed", {"who": "Bob", "times": 2}) == (
            answer["status"],
            answer["parameters"],
        )
        assert {"data", "instructions"}.isdisjoint(answer)
