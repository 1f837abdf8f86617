"""A directive that is executed: its inputs are checked and put in, and nothing of it is lost."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rye_projects import Rye, directive, knowledge, put, python_tool, serving

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
BOMB = """\
<!DOCTYPE directive [
  <!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
  <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]>
"""
GREET = {"item_type": "directive", "item_id": "demo/greet"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A session for all tests of the module."""
    with serving(tmp_path_factory.mktemp("directives")) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """The same, without any item."""
    shared.clear()
    return shared


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

    def test_an_unknown_one_is_refused_with_the_one_that_was_meant(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        error = rye.refuses("execute", **GREET, parameters={"who": "Bob", "time": 3})

        assert ['unknown input "time": did you mean "times"?'] == error["issues"]

    def test_one_without_inputs_takes_no_parameters(self, rye: Rye) -> None:
        greeting(rye, inputs="")
        error = rye.refuses("execute", **GREET, parameters={"limit_overrides": {}})

        assert ['unknown input "limit_overrides": the directive takes none'] == error["issues"]

    def test_a_default_is_of_its_type_and_told(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        answer = rye.run("directive", "demo/greet", who="Bob")

        assert {"who": "Bob", "times": 2} == answer["parameters"]

    def test_a_text_becomes_a_value_of_the_type(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        given = {"times": "3", "loud": "yes", "names": '["A"]', "more": '{"a": 1}'}
        answer = rye.run("directive", "demo/greet", who=7, **given)
        expected = {"who": "7", "times": 3, "loud": True, "names": ["A"], "more": {"a": 1}}

        assert expected == answer["parameters"]

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"times": "often"}, '"times" must be a number'),
            ({"times": 2.5}, '"times" must be an integer'),
            ({"times": 6}, '"times" must be at most 5'),
            ({"times": 0}, '"times" must be at least 1'),
            ({"tone": "cold"}, '"tone" must be one of warm, dry'),
            ({"loud": "perhaps"}, '"loud" must be true or false'),
            ({"names": {"a": 1}}, '"names" must be a list'),
            ({"more": [1]}, '"more" must be an object'),
            ({"who": ["Bob"]}, '"who" must be a string'),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(
        self, rye: Rye, given: dict[str, Any], why: str
    ) -> None:
        greeting(rye, inputs=INPUTS)
        error = rye.refuses("execute", **GREET, parameters={"who": "Bob", **given})
        (issue,) = error["issues"]

        assert "VALIDATION_FAILED" == error["code"]
        assert issue.startswith(why)

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

    @pytest.mark.parametrize(
        "value", ["{input:who}", "${inputs.who}", "{env:HOME}", "${HOME}", "{project_path}"]
    )
    def test_what_was_put_in_is_not_looked_at_again(self, rye: Rye, value: str) -> None:
        greeting(
            rye,
            inputs='<inputs><input name="who"/><input name="what"/></inputs>',
            process="<process><step><action>{input:what} {input:who}</action></step></process>",
        )
        answer = rye.run("directive", "demo/greet", who="Bob", what=value)

        assert f"{value} Bob" == answer["data"]["steps"][0]["action"]

    def test_the_body_has_them_too_and_the_text_before_the_block(self, rye: Rye) -> None:
        text = directive("demo/greet", body="\nBe kind to {input:who}.\n")
        rye.put("directive", "demo/greet", text.replace("# greet", "# For {input:who}"))
        data = rye.run("directive", "demo/greet", who="Bob")["data"]

        assert ("# For Bob", "Be kind to Bob.") == (data["preamble"], data["body"])

    def test_a_value_that_is_no_text_is_json(self, rye: Rye) -> None:
        assert '["A", "B"]' == action(rye, "{input:names}", names=["A", "B"])


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

    def test_a_step_of_text_and_elements_keeps_their_order(self, rye: Rye) -> None:
        greeting(
            rye,
            process=(
                '<process><step name="a">First <b>this</b> then '
                "<action>that for {input:who}</action> at last</step></process>"
            ),
        )
        (step,) = rye.run("directive", "demo/greet", who="Bob")["data"]["steps"]
        told = json.dumps(step["content"])
        at = [told.index(word) for word in ("First", "this", "then", "that for Bob", "at last")]

        assert sorted(at) == at

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

    @pytest.mark.parametrize("tag", ["template", "example", "raw"])
    def test_a_section_that_is_no_xml_comes_back_as_it_is(self, rye: Rye, tag: str) -> None:
        section = "if a < b && c { {{ {input:who} }} } <br> &nbsp;"
        greeting(
            rye,
            process=f"<process><step name='a'><{tag}>{section}</{tag}></step></process>",
        )
        data = rye.run("directive", "demo/greet", who="Bob")["data"]
        ((placeholder, found),) = data["templates"].items()

        assert section == found.strip()
        assert placeholder in json.dumps(data["steps"])

    def test_line_ends_of_windows_change_nothing(self, rye: Rye) -> None:
        text = directive("demo/greet", body="\nBe kind.\n")
        rye.put("directive", "demo/greet", text)
        plain = rye.run("directive", "demo/greet", who="Bob")["data"]
        rye.put("directive", "demo/greet", text.replace("\n", "\r\n"))

        assert plain == rye.run("directive", "demo/greet", who="Bob")["data"]

    def test_a_signed_one_says_the_same(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        before = rye.run("directive", "demo/greet", who="Bob")
        rye.sign("directive", "demo/greet")
        after = rye.run("directive", "demo/greet", who="Bob")

        assert before["data"] == after["data"]
        assert ("unsigned", "valid") == (
            before["metadata"]["signature"],
            after["metadata"]["signature"],
        )
        assert "warnings" not in after["metadata"]


class TestWhatIsRefused:
    """With a code, and never with the inside of a parser."""

    @pytest.mark.parametrize(
        ("spoil", "word"),
        [
            (lambda text: text.replace("Who<", "Who & all<"), "line"),
            (lambda text: text.replace("</process>", ""), "line"),
            (lambda text: text.replace("```xml", "```"), "no XML block"),
            (lambda text: text.rpartition("```")[0], ""),
            (lambda text: text.replace("directive", "workflow"), "directive"),
        ],
    )
    def test_what_is_no_xml(self, rye: Rye, spoil: Any, word: str) -> None:
        rye.put("directive", "demo/greet", spoil(directive("demo/greet")))
        error = rye.refuses("execute", **GREET, parameters={"who": "Bob"})

        assert "PARSING_ERROR" == error["code"]
        assert word in error["message"]

    def test_entities_are_refused_and_never_grow(self, rye: Rye) -> None:
        text = directive("demo/greet", description="&c;")
        rye.put("directive", "demo/greet", text.replace("<directive", f"{BOMB}<directive", 1))
        error = rye.refuses("execute", **GREET, parameters={"who": "Bob"})

        assert "PARSING_ERROR" == error["code"]
        assert "aaaaaaaaaa" not in json.dumps(error)

    def test_an_entity_of_a_file_is_not_read(self, rye: Rye) -> None:
        put(rye.root / "secret.txt", "hush")
        declared = f'<!DOCTYPE directive [<!ENTITY x SYSTEM "file://{rye.root}/secret.txt">]>\n'
        text = directive("demo/greet", description="&x;")
        rye.put("directive", "demo/greet", text.replace("<directive", f"{declared}<directive", 1))
        error = rye.refuses("execute", **GREET, parameters={"who": "Bob"})

        assert "PARSING_ERROR" == error["code"]
        assert "hush" not in json.dumps(error)

    def test_what_is_not_there(self, rye: Rye) -> None:
        error = rye.refuses("execute", **GREET)

        assert "ITEM_NOT_FOUND" == error["code"]
        assert '"demo/greet"' in error["message"]

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

    def test_it_fails_as_the_real_one_does(self, rye: Rye) -> None:
        greeting(rye, inputs=INPUTS)
        errors = [rye.refuses("execute", **GREET, dry_run=dry) for dry in (True, False)]
        for error in errors:
            del error["metadata"]["duration_ms"]

        assert errors[0] == errors[1]
