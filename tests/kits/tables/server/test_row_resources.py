"""Rows of custom tables as resources: templates, reading, completion and updates."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, made_here, on_context, query, quiet
from engines import ENGINES, project_on
from mcp.types import ResourceTemplateReference
from wire import MODERN, Wire, running

from ralphgen.emit.workflows import regenerate

SCHEMA = """
CREATE TABLE risks (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, feature TEXT REFERENCES features(name),
    notes TEXT, internal TEXT);
CREATE TABLE releases (product TEXT, number INTEGER, stable BOOLEAN, day TEXT,
    PRIMARY KEY (product, number, stable));
CREATE TABLE flags (value REAL PRIMARY KEY, word TEXT);
CREATE TABLE bare (a TEXT);
INSERT INTO risks VALUES (1, 'Fire', 'auth', NULL, 's3cret'), (12, 'Flood', NULL, NULL, NULL);
INSERT INTO releases VALUES ('a/b %', 7, true, 'today'), ('ärger', 7, false, NULL);
INSERT INTO flags VALUES (0.5, 'half')
"""
CONFIG = """
[tables.risks]
noun = "risk"
hide = ["internal"]
recipes = { ramble = ["list", "get"], yap = ["list"] }
[tables.releases]
noun = "release"
[tables.flags]
noun = "flag"
[tables.bare]
"""
RISK = "ralph://tables/risks/{id}"
RELEASE = "ralph://tables/releases/{product}/{number}/{stable}"
INVALID = -32602


class Asking:
    """Requests to a server, in the form of one revision."""

    def __init__(self, server: Wire, *, modern: bool = True) -> None:
        self.server = server
        self.more = {"_meta": MODERN} if modern else {}

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        return self.server.ask(method, {**params, **self.more})

    def templates(self) -> dict[str, dict[str, Any]]:
        listed = self.ask("resources/templates/list")["result"]["resourceTemplates"]
        return {one["uriTemplate"]: one for one in listed}

    def read(self, uri: str) -> Any:
        (content,) = self.ask("resources/read", uri=uri)["result"]["contents"]
        assert (uri, "application/json") == (content["uri"], content["mimeType"])
        return json.loads(content["text"])

    def refusal(self, uri: str) -> str:
        error = self.ask("resources/read", uri=uri)["error"]
        assert INVALID == error["code"], error
        message: str = error["message"]
        return message

    def completed(self, template: str, argument: str, value: str) -> Any:
        reference = {"type": "ref/resource", "uri": template}
        given = {"name": argument, "value": value}
        answer = self.ask("completion/complete", ref=reference, argument=given)
        return answer["result"]["completion"]["values"]


@pytest.fixture(scope="module", params=ENGINES)
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("resources") / "p"
    with project_on(str(request.param), folder, SCHEMA, config=CONFIG) as root:
        yield root


@pytest.fixture(scope="module")
def manual(project: Path) -> Iterator[Asking]:
    with running(project, *on_context(context_for(project, "manual"))) as server:
        server.shake_hands("2026-07-28")
        yield Asking(server)


@pytest.mark.thorough
def test_tables_with_get_have_a_template_and_rows_read_as_it_answers(manual: Asking) -> None:
    own = {uri for uri in manual.templates() if uri.startswith("ralph://tables/")}

    assert {RISK, RELEASE, "ralph://tables/flags/{value}"} == own
    assert "risk" == manual.templates()[RISK]["name"]
    assert {"id": 1, "title": "Fire", "feature": "auth"} == manual.read("ralph://tables/risks/1")
    assert "half" == manual.read("ralph://tables/flags/0.5")["word"]
    assert "today" == manual.read("ralph://tables/releases/a%2Fb%20%25/7/true")["day"]
    assert "ärger" == manual.read("ralph://tables/releases/%C3%A4rger/7/false")["product"]
    assert manual.read("ralph://tasks/1")["title"] == "Log in"


@pytest.mark.parametrize(
    "uri",
    [
        *(f"ralph://tables/{rest}" for rest in ("", "risks", "risks/", "risks/1/2", "risks/2")),
        *(f"ralph://tables/risks/{one}" for one in ("01", "x", "1.0", "9" * 19, "9" * 30, "%31%0")),
        *(f"ralph://tables/releases/{one}" for one in ("a", "a/7", "a/7/1", "a/7/true", "a b/7/x")),
        *(f"ralph://tables/flags/{one}" for one in ("nan", "inf", "1e999", "")),
        *("ralph://tables/tasks/1", "ralph://tables/bare/1", "ralph://tables/releases/%00/7/true"),
        *("tables://tables/risks/1", "ralph://tables/releases/%FF/7/true"),
    ],
)
def test_what_names_no_row_is_refused(manual: Asking, uri: str) -> None:
    assert manual.refusal(uri)


@pytest.mark.thorough
def test_keys_are_completed_by_their_beginning(manual: Asking) -> None:
    assert ["1", "12"] == manual.completed(RISK, "id", "1")
    assert [] == manual.completed(RISK, "id", "'; --")
    assert ["ärger"] == manual.completed(RELEASE, "product", "ä")
    assert ["7"] == manual.completed(RELEASE, "number", "")
    assert ["true"] == manual.completed(RELEASE, "stable", "t")
    assert ["1", "2"] == manual.completed("ralph://tasks/{id}", "id", "")


@pytest.mark.thorough
def test_resources_equal_the_answers_of_the_tools(project: Path) -> None:
    def seen(recipe: str, **facts: object) -> tuple[set[str], str]:
        context = context_for(project, recipe, **facts)
        with running(project, *on_context(context)) as server:
            server.shake_hands("2026-07-28")
            asking = Asking(server)
            answer = asking.ask("resources/read", uri="ralph://tables/risks/1")
            own = {uri for uri in asking.templates() if uri.startswith("ralph://tables/")}
            return own, answer.get("error", {}).get("message", "")

    assert ({RISK}, "") == seen("ramble")
    assert "no resource " in seen("yap")[1]
    assert "no resource " in seen("task_execution")[1]
    assert RISK not in seen("manual", disabled_tools={"ralph": ["get_risk"]})[0]
    bound = {"ralph": {"get_risk": {"id": 12}}}
    assert "works only on the row 12" in seen("manual", bindings=bound)[1]
    with running(project, *on_context(context_for(project, "manual", bindings=bound))) as server:
        server.shake_hands("2026-07-28")
        assert ["12"] == Asking(server).completed(RISK, "id", "")


def test_who_listens_hears_of_a_row_that_another_has_written(project: Path) -> None:
    uri = "ralph://tables/risks/12"
    with running(project, *on_context(context_for(project, "ramble"))) as server:
        server.shake_hands("2025-11-25")
        assert {} == Asking(server, modern=False).ask("resources/subscribe", uri=uri)["result"]
        query(project, "UPDATE risks SET internal = 'x' WHERE id = 12")
        query(project, "UPDATE risks SET notes = 'wet' WHERE id = 12")
        heard = server.read()

    assert ("notifications/resources/updated", uri) == (heard["method"], heard["params"]["uri"])


@pytest.mark.thorough
def test_a_server_of_tables_alone_has_them_under_its_own_name(tmp_path: Path) -> None:
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.executescript(
            "CREATE TABLE artists (artist_id INTEGER PRIMARY KEY, name TEXT);"
            "INSERT INTO artists VALUES (1, 'First')"
        )
    (root / ".ralph/ralphgen.toml").write_text(
        'kits = ["tables"]\n[database]\npath = "app.db"\n[tables.artists]\nnoun = "artist"\n',
        encoding="utf-8",
    )
    regenerate(root, force=False, say=quiet)
    with connected(made_here(root), kit="tables") as driver:
        client, call = driver.client, driver.portal.call
        (template,) = call(client.list_resource_templates).resource_templates
        (content,) = call(client.read_resource, "tables://tables/artists/1").contents
        reference = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        argument = {"name": "artist_id", "value": ""}
        completed = call(client.complete, reference, argument).completion.values

        assert "tables://tables/artists/{artist_id}" == template.uri_template
        assert {"artist_id": 1, "name": "First"} == json.loads(getattr(content, "text", ""))
        assert (["1"], []) == (completed, call(client.list_resources).resources)
    with running(root, "tables", *on_context(context_for(root, "manual"))) as server:
        server.shake_hands("2025-11-25")
        asking = Asking(server, modern=False)
        assert {} == asking.ask("resources/subscribe", uri="tables://tables/artists/1")["result"]
        with closing(sqlite3.connect(root / "app.db")) as connection:
            connection.execute("UPDATE artists SET name = 'Other'")
            connection.commit()
        assert "tables://tables/artists/1" == server.read()["params"]["uri"]
