"""Names and ids are completed from their beginning, and prompts are built from their arguments."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driving import Era, connected, context_for, create_project, on_context, query
from lanes import shortened
from mcp.types import PromptReference, ResourceTemplateReference
from wire import Speaker, running

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
FEATURES = "ralph://features/{name}"
DISCIPLINES = "ralph://disciplines/{name}"
TASKS = "ralph://tasks/{id}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("completion"))
    for name in ("Authors", "STRASSE", "100%", "_under"):
        sql = "INSERT INTO features (name, display_name, acronym) VALUES (?, 'F', ?)"
        query(root, sql, name, name)
    query(
        root,
        "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 249) "
        "INSERT INTO tasks (id, feature, discipline, title) "
        "SELECT i, 'auth', 'backend', 'Task ' || i FROM n",
    )
    return root


@pytest.fixture(scope="module", params=shortened(VERSIONS, VERSIONS[-1]))
def server(project: Path, request: pytest.FixtureRequest) -> Iterator["Asking"]:
    """A server in a session that is about no task yet, and may be about one."""
    context = context_for(project, "enrichment")
    with running(project, *on_context(context)) as wire:
        wire.shake_hands(request.param)
        yield Asking(wire, request.param)


class Asking(Speaker):
    """A session's requests for prompts, and for the values of their arguments."""

    def complete(self, template: str, argument: str, value: str) -> dict[str, Any]:
        reference = {"type": "ref/resource", "uri": template}
        return self._complete(reference, argument, value)

    def complete_prompt(self, prompt: str, argument: str, value: str) -> dict[str, Any]:
        return self._complete({"type": "ref/prompt", "name": prompt}, argument, value)

    def _complete(self, reference: object, argument: str, value: str) -> dict[str, Any]:
        named = {"name": argument, "value": value}
        return self.ask("completion/complete", ref=reference, argument=named)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("template", "argument", "value", "expected"),
    [
        (FEATURES, "name", "", ["100%", "Authors", "STRASSE", "_under", "auth", "search"]),
        (FEATURES, "name", "au", ["Authors", "auth"]),
        (FEATURES, "name", "AUTH", ["Authors", "auth"]),
        (FEATURES, "name", "straße", ["STRASSE"]),
        (FEATURES, "name", "%", []),
        (FEATURES, "name", "_", ["_under"]),
        (DISCIPLINES, "name", "F", ["frontend"]),
        (TASKS, "id", "24", [str(number) for number in range(240, 250)]),
        (TASKS, "id", "2", ["2", *(str(number) for number in range(200, 250))]),
        (TASKS, "id", "x", []),
    ],
)
def test_a_variable_of_a_template_is_completed_by_its_beginning(
    server: Asking, template: str, argument: str, value: str, expected: list[str]
) -> None:
    found = server.complete(template, argument, value)["result"]["completion"]

    assert {"values": expected, "total": len(expected), "hasMore": False} == found


@pytest.mark.thorough
def test_at_most_a_hundred_values_are_returned_with_their_number(server: Asking) -> None:
    found = server.complete(TASKS, "id", "")["result"]["completion"]

    assert ["1", "2", *(str(number) for number in range(100, 198))] == found["values"]
    assert (152, True) == (found["total"], found["hasMore"])


def test_arguments_of_a_prompt_are_completed_in_the_same_way(server: Asking) -> None:
    (prompt,) = server.ask("prompts/list")["result"]["prompts"]
    (argument,) = prompt["arguments"]

    assert "task" == argument["name"]
    found = server.complete_prompt(prompt["name"], "task", "10")["result"]["completion"]
    assert [str(number) for number in range(100, 110)] == found["values"]


@pytest.mark.parametrize(
    ("template", "argument"),
    [(FEATURES, "id"), (TASKS, "name"), ("ralph://features/auth", "name"), ("", ""), ("x", "name")],
)
def test_an_unknown_template_or_variable_is_refused(
    server: Asking, template: str, argument: str
) -> None:
    assert -32602 == server.complete(template, argument, "")["error"]["code"]


def test_an_unknown_prompt_or_argument_is_refused(server: Asking) -> None:
    (prompt,) = server.ask("prompts/list")["result"]["prompts"]
    for name, argument in (("no_such", "task"), (prompt["name"], "name"), (prompt["name"], "")):
        assert -32602 == server.complete_prompt(name, argument, "")["error"]["code"]


def test_a_prompt_mentions_the_row_that_its_argument_names(server: Asking) -> None:
    (prompt,) = server.ask("prompts/list")["result"]["prompts"]
    found = server.ask("prompts/get", name=prompt["name"], arguments={"task": "2"})["result"]
    (message,) = found["messages"]

    assert prompt["description"] == found["description"]
    assert ("user", "text") == (message["role"], message["content"]["type"])
    assert "```text\nShow the form\n```" in message["content"]["text"]


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("no_such", {}, '"no_such"'),
        ("enrichment", {"task": "99"}, "task 99"),
        ("enrichment", {"task": "two"}, "task two"),
        ("enrichment", {"tusk": "2"}, '"tusk"'),
    ],
)
def test_a_prompt_that_cannot_be_made_is_refused(
    server: Asking, name: str, arguments: dict[str, str], named: str
) -> None:
    error = server.ask("prompts/get", name=name, arguments=arguments)["error"]

    assert -32602 == error["code"]
    assert named in error["message"]


@pytest.mark.thorough
@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_sdks_client_completes_and_prompts(project: Path, era: Era) -> None:
    with connected(project, "enrichment", era=era) as driver:
        call, client = driver.portal.call, driver.client
        template = ResourceTemplateReference(type="ref/resource", uri=FEATURES)
        prompt = PromptReference(type="ref/prompt", name="enrichment")
        features = call(client.complete, template, {"name": "name", "value": "sea"})
        tasks = call(client.complete, prompt, {"name": "task", "value": "24"})
        text = call(client.get_prompt, "enrichment", {"task": "1"}).messages[0].content

    assert ["search"] == features.completion.values
    assert 10 == tasks.completion.total
    assert "```text\nLog in\n```" in getattr(text, "text", "")
