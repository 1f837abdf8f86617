"""Files, queries and values that are meant to block the server are refused quickly."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rye_attacks import OFF, code, ran
from rye_projects import MOST, Rye, directive, knowledge, python_tool, yaml_tool

SETTINGS = OFF

SOON = 10.0  # seconds; the slowest test takes one on an idle machine
ROOM = 1 << 20  # bytes of the largest item
ENTITIES = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
DOCTYPES = {
    "laughs": f'<!DOCTYPE directive [<!ENTITY e0 "ha">{ENTITIES}]>\n',
    "a file": '<!DOCTYPE directive [<!ENTITY e9 SYSTEM "file:///etc/passwd">]>\n',
    "an address": '<!DOCTYPE directive SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY e9 "x">]>\n',
    "a parameter": '<!DOCTYPE d [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>\n',
    "nothing": "<!DOCTYPE directive>\n",
}
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)
)
YAML = {
    "aliases": ALIASES,
    "merges": "a: &a {x: 1}\n" + "".join(f"b{n}: &a {{<<: [*a, *a]}}\n" for n in range(40)),
    "itself": "a: &a [*a]\n",
    "depth": "a: " + "[" * 5_000 + "]" * 5_000,
    "block depth": "a:\n" + "".join(" " * n + "- \n" for n in range(1, 500)),
    "code": "a: !!python/object/apply:os.system ['touch {marker}']\n",
    "names": "a: !!python/name:os.system\n",
    "a long number": f"a: {'9' * 100_000}\n",
    "a number of base 60": f"a: {'1:' * 10_000}1\n",
    "a long float": f"a: 1e{'9' * 10_000}\n",
    "a wrong date": "a: 2026-99-99\n",
    "binary": f"a: !!binary {'A' * 100_000}\n",
}
PYTHON = {
    "brackets": "CONFIG = " + "[" * 5_000 + "]" * 5_000,
    "signs": "CONFIG = " + "-" * 500_000 + "1",
    "sum": "CONFIG = " + "1+" * 300_000 + "1",
    "power": "CONFIG = 9**9**9**9",
    "shift": "CONFIG = 1 << 99999999999",
    "copies": "CONFIG = 'x' * (1 << 40)",
    "comprehension": "CONFIG = [x for x in range(1 << 40)]",
    "a long number": "CONFIG = " + "9" * 500_000,
    "calls": "CONFIG = f" + "()" * 300_000,
    "attributes": "CONFIG = a" + ".a" * 300_000,
    "functions": "CONFIG = " + "lambda: " * 100_000 + "1",
    "lines": "x = 1\n" * 150_000,
    "indents": "".join(" " * n + "if 1:\n" for n in range(99)) + " " * 99 + "pass",
    "nothing": "\0" * 500_000,
}
HOSTILE = [
    *(("knowledge", f"---\n{text}---\n") for text in YAML.values()),
    *(("tool", text) for text in PYTHON.values()),
    *(("directive", f"```xml\n{text}\n```\n") for text in ("<a>" * 200_000, "<a " * 300_000)),
    *(("directive", f"```xml\n<directive {text}/>\n```\n") for text in ("a='' " * 100_000, "&a;")),
    *(
        ("directive", text * 50_000)
        for text in ("```xml\n", "````\n```xml\n", "<![CDATA[", "{input:")
    ),
]
QUERIES = [
    "a" * 10_000,
    "*a" * 30 + "b",
    "a*" * 100,
    "(" * 1_000 + "a" + ")" * 1_000,
    "NOT " * 2_000 + "a",
    "a OR " * 2_000 + "a",
    '"' + "a " * 2_000 + '"',
    "a" * 60 + "~",
    " ".join("ab*cd*ef" for _ in range(50)),
    "(a+)+$",
    "^(a|a)*$",
    "%" * 5_000,
    "'; DROP TABLE shelf_1; --",
    "title:" * 500,
    "a NEAR/99999 b",
    "\0",
    "😀" * 3_000,
]


@pytest.fixture
def rye(shared: Rye) -> Iterator[Rye]:
    """Yield the shared session without items; fails if it answered too slowly or broke."""
    shared.clear()
    begun = time.monotonic()
    yield shared

    assert time.monotonic() - begun < SOON
    shared.clear()
    assert 9 == shared.says("search", item_type="all", query="", source="system")["total"]


@pytest.mark.parametrize("kind", DOCTYPES)
def test_a_directive_declares_no_entities(rye: Rye, kind: str) -> None:
    """S20: entities and doctypes are refused, neither read nor expanded."""
    body = "<description>&e9;</description>" if kind != "nothing" else ""
    text = directive("a").replace("<directive ", f"{DOCTYPES[kind]}<directive ", 1)
    rye.put("directive", "a", text.replace("<description>What a is for</description>", body))
    given = {"item_type": "directive", "item_id": "a"}
    codes = [code(rye, "execute", **given, parameters={"who": "x"}), code(rye, "sign", **given)]
    loaded = rye.load("directive", "a")

    assert ["PARSING_ERROR", "VALIDATION_FAILED"] == codes
    assert "root:" not in json.dumps(loaded)
    assert loaded["metadata"]["problems"]


@pytest.mark.parametrize("kind", YAML)
def test_yaml_makes_not_much_of_little(rye: Rye, kind: str) -> None:
    """S21: YAML of tools and knowledge neither expands nor runs code."""
    marker = rye.folder / "marker"
    text = YAML[kind].replace("{marker}", str(marker))
    rye.put("tool", "a", yaml_tool("a") + text, extension=".yaml")
    rye.put("knowledge", "a", f"---\n{text}---\n\nbody\n")
    for item_type in ("tool", "knowledge"):
        given = {"item_type": item_type, "item_id": "a"}
        found = {tool: code(rye, tool, **given) for tool in ("load", "execute", "sign")}

        assert "success" == found["load"]
        assert {*found.values()} <= {"success", "signed", "PARSING_ERROR", "VALIDATION_FAILED"}
    assert "a" in rye.found("", "knowledge", source="project")
    assert not marker.exists()


@pytest.mark.parametrize("kind", PYTHON)
def test_python_is_looked_at_and_not_computed(rye: Rye, kind: str) -> None:
    """S21: sources that are expensive to compile or evaluate are refused, never evaluated."""
    rye.put("tool", "a", f"{PYTHON[kind]}\n\ndef main(): return 1\n")
    given = {"item_type": "tool", "item_id": "a"}

    assert "success" == code(rye, "load", **given)
    assert "VALIDATION_FAILED" == code(rye, "sign", **given)
    assert ["a"] == rye.found("", "tool", source="project")
    assert "EXECUTION_FAILED" != ran(rye, "a")


def test_a_space_full_of_such_items_is_searched(rye: Rye) -> None:
    """S21: each item is found under its id and does not hide the others."""
    for number, (item_type, text) in enumerate(HOSTILE):
        rye.put(item_type, f"n{number}", text.encode()[:ROOM])
    rye.put("knowledge", "last", knowledge("last", "needle\n"))
    listed = rye.found("", source="project", limit=100)

    assert {*listed} == {"last", *(f"n{number}" for number in range(len(HOSTILE)))}
    assert ["last"] == rye.found("needle", source="project")


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_answered_or_refused_soon(rye: Rye, query: str) -> None:
    """S21: any query, on an item of maximal size with one letter."""
    rye.put("knowledge", "a", knowledge("a", "a" * (ROOM // 2) + " " + "ab " * (ROOM // 10)))
    given: dict[str, Any] = {"item_type": "all", "query": query}
    fuzzy = {"enabled": True, "max_distance": 3}
    found = {code(rye, "search", **given), code(rye, "search", **given, fuzzy=fuzzy)}

    assert found <= {"success", "INVALID_QUERY"}


def test_an_answer_is_no_longer_than_it_may_be(rye: Rye) -> None:
    """S21: the answer on an item of the largest size is cut, and reports the cut."""
    long = "long words " * (ROOM // 12)
    rye.put("knowledge", "a", knowledge("a", long))
    rye.put("directive", "a", directive("a", body=long))
    rye.put("tool", "a", python_tool("a", f"X = {long[:200_000]!r}\ndef main(): return X\n"))
    asked = [("load", each) for each in ("knowledge", "directive", "tool")]
    asked += [("execute", each) for each in ("knowledge", "directive", "tool")]
    for tool, item_type in asked:
        given = {"who": "x"} if (tool, item_type) == ("execute", "directive") else None
        more = {"parameters": given} if given else {}
        answer = rye.says(tool, item_type=item_type, item_id="a", **more)

        assert MOST // 2 < len(json.dumps(answer))
        assert answer["cut"]


def many(name: str) -> str:
    """Repeat a placeholder so often that the filled text would take gigabytes."""
    return name * 10_000


def test_a_short_text_does_not_become_a_long_one(rye: Rye) -> None:
    """S21: values are repeated only within limits, in defaults and in parameters."""
    long = "x" * 200_000
    inputs = f'<inputs><input name="p" default="{long}">x</input></inputs>'
    schema = {"type": "object", "properties": {"p": {"type": "string", "default": long}}}
    shown = {"command": "echo", "args": [many("{p}")]}
    asking = {"url": "https://127.0.0.1:9/", "method": "POST", "body": ["{p} "] * 5_000}
    texts = {
        "args": python_tool("args", executor_id="subprocess", CONFIG=shown, schema=schema),
        "input": python_tool(
            "input",
            executor_id="subprocess",
            CONFIG={"command": "true", "input_data": many("{p}")},
            schema=schema,
        ),
        "body": python_tool("body", executor_id="http_client", CONFIG=asking, schema=schema),
    }
    for item_id, text in texts.items():
        rye.put("tool", item_id, text)
    for item_id, where in (("text", "body"), ("step", "process")):
        parts = {where: many("{input:p}")}
        rye.put("directive", item_id, directive(item_id, inputs=inputs, **parts))
    asked = [("tool", item_id) for item_id in texts]
    asked += [("directive", "text"), ("directive", "step")]

    assert ["VALIDATION_FAILED"] * 5 == [
        code(rye, "execute", item_type=item_type, item_id=item_id) for item_type, item_id in asked
    ]


@pytest.mark.parametrize("kind", ["doubling", "many"])
def test_variables_do_not_grow_without_end(rye: Rye, kind: str) -> None:
    """S21: each variable of a chain may refer to the previous ones."""
    if kind == "doubling":
        variables = {"A0": "x" * 100}
        variables |= {f"A{n + 1}": f"${{A{n}}}${{A{n}}}" for n in range(24)}
    else:
        variables = {"A0": "x" * 100_000}
        variables |= {f"B{n}": "${A0}" * 100 for n in range(200)}
    text = yaml_tool("a", config={"command": "true"}, env_config={"env": variables})
    rye.put("tool", "a", text, extension=".yaml")

    assert "VALIDATION_FAILED" == ran(rye, "a")
