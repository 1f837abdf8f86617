"""Directives with impossible or undeclared inputs are not signed."""

from typing import Any

import pytest

from ralphgen.kits.rye.server.formats.directives import KINDS
from ralphgen.kits.rye.server.formats.tools import issues_of, parse
from ralphgen.kits.rye.server.spaces import DIRECTIVE, PROJECT, Item, Space

ITEM = Item(DIRECTIVE, "demo/greet", ".md", Space(PROJECT, "/p/.ai"))
TEXT = """\
{preamble}

```xml
<directive name="greet" version="1.0.0">
  <metadata>
    <description>Greets</description>
    <category>demo</category>
    <author>team</author>
    <model tier="fast"/>
    <permissions><read/></permissions>
  </metadata>
  <inputs>
    <input {attributes}/>
  </inputs>
  <process>
    <step name="one"><action>{action}</action></step>
  </process>
</directive>
```

{body}
"""


def issues(attributes: str, *, preamble: str = "", action: str = "", body: str = "") -> list[str]:
    text = TEXT.format(attributes=attributes, preamble=preamble, action=action, body=body)
    found, _ = issues_of(ITEM, parse(ITEM, text))
    return found


@pytest.mark.parametrize(
    ("attributes", "issue"),
    [
        (
            'name="a" type="strng"',
            f'"type" of the input "a" must be {" or ".join(KINDS)}, found "strng"',
        ),
        ('name="a" min="few"', '"min" of the input "a" must be a number, found "few"'),
        ('name="a" max="nan"', '"max" of the input "a" must be a number, found "nan"'),
        (
            'name="a" type="integer" default="two"',
            '"default" of the input "a" contains "two": it must be a number, found "two"',
        ),
        (
            'name="a" type="integer" default="9" max="5"',
            '"default" of the input "a" contains "9": it must be at most 5',
        ),
        (
            'name="a" default="c" enum="a,b"',
            '"default" of the input "a" contains "c": it must be one of a, b',
        ),
        (
            'name="a" type="integer" enum="1,x"',
            '"enum" of the input "a" contains "x": it must be a number, found "x"',
        ),
        (
            'name="a" type="boolean" default="maybe"',
            '"default" of the input "a" contains "maybe": it must be true or false, found "maybe"',
        ),
    ],
)
def test_what_no_call_could_ever_give_is_an_issue(attributes: str, issue: str) -> None:
    assert [issue] == issues(attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        'name="a"',
        'name="a" type=" Integer " default="3" min="1" max="5"',
        'name="a" default="a" enum="a|b"',
        'name="a" type="array" default="[1, 2]" max="2"',
        'name="a" type="boolean" default="on"',
    ],
)
def test_what_a_call_can_give_is_none(attributes: str) -> None:
    assert [] == issues(attributes)


@pytest.mark.parametrize("place", ["preamble", "action", "body"])
@pytest.mark.parametrize(
    "written", ["{input:typo}", "{input:typo?}", "{input:typo:else}", "${inputs.typo}"]
)
def test_a_name_that_is_no_input_is_an_issue_wherever_it_stands(place: str, written: str) -> None:
    told: dict[str, Any] = {place: f"{written} and {{input:type}} and {written}"}

    assert ['the text uses an undeclared input "typo": did you mean "type"?'] == issues(
        'name="type"', **told
    )
