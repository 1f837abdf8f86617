"""The project as resources: lists, contents, and refusals of missing ones."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from driving import Era, connected, context_for, create_project, on_context, query
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError
from wire import MODERN, Wire, running

from ralphgen.kits.ralph.server.resources import located, row_uri
from ralphgen.runtime.errors import NotThereError

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
ERAS = pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
SECRETS = json.dumps(
    [{"name": "db", "command": "run", "env": {"TOKEN": "s3cret"}, "headers": {"Key": "s3cret"}}]
)
HOSTILE = (
    "a/b", "a//b", "../x", "a?b#c", "100%", "%41", 'say "no"', "it's", "größe", "日本", "new\nline",
    "tab\t", " space ", "\u2028", "🙂", "{name}", "a+b&c=d", "NUL", "-", "...",
)  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("resources"))
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'frontend'", SECRETS)
    query(root, "UPDATE tasks SET description = ? WHERE id = 1", "long " * 4000)
    for number in range(30):
        query(
            root,
            "INSERT INTO task_comments (task_id, author, body, created) VALUES (1, 'me', ?, 'now')",
            f"comment {number}",
        )
    for name in HOSTILE:
        query(
            root,
            "INSERT INTO features (name, display_name, acronym) VALUES (?, ?, ?)",
            *(name, f"Feature {name}", name),
        )
    (root / ".ralph" / "progress.txt").write_bytes(b"- one\n\xff\xfetwo\r\n")
    return root


@pytest.fixture(scope="module")
def servers(project: Path) -> Iterator[Mapping[str, Wire]]:
    """A running server for each revision, in a session about task 1."""
    context = context_for(project, "task_execution")
    with ExitStack() as stack:
        found = {v: stack.enter_context(running(project, *on_context(context))) for v in VERSIONS}
        for version, server in found.items():
            server.shake_hands(version)
        yield found


def ask(server: Wire, version: str, method: str, **params: object) -> dict[str, Any]:
    """The answer to a request as the era of the version spells it."""
    return server.ask(method, {**params, "_meta": MODERN} if version >= "2026" else params)


def text_of(answer: dict[str, Any]) -> str:
    (contents,) = answer["result"]["contents"]
    text: str = contents["text"]
    return text


def uris(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["uri"] for entry in entries]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_list_names_the_state_files_the_own_task_and_each_row(
    servers: Mapping[str, Wire], version: str
) -> None:
    answer = ask(servers[version], version, "resources/list")["result"]

    first = ["ralph://progress", "ralph://learnings", "ralph://tasks/1"]
    rows = [
        *sorted(row_uri("features", name) for name in (*HOSTILE, "auth", "search")),
        *("ralph://disciplines/backend", "ralph://disciplines/frontend"),
    ]
    assert first == uris(answer["resources"])[:3]
    assert sorted(rows) == sorted(uris(answer["resources"])[3:])
    assert "nextCursor" not in answer


@ERAS
def test_each_listed_resource_can_be_read_as_described(
    servers: Mapping[str, Wire], version: str
) -> None:
    server = servers[version]
    for entry in ask(server, version, "resources/list")["result"]["resources"]:
        answer = ask(server, version, "resources/read", uri=entry["uri"])
        (contents,) = answer["result"]["contents"]
        assert (entry["uri"], entry["mimeType"]) == (contents["uri"], contents["mimeType"])
        if entry["name"].startswith(("feature", "discipline")):
            record = json.loads(contents["text"])
            assert entry["name"].endswith(record["name"])
            assert entry["title"] == record["display_name"]


@ERAS
def test_the_templates_are_the_three_forms_of_a_row(
    servers: Mapping[str, Wire], version: str
) -> None:
    found = ask(servers[version], version, "resources/templates/list")["result"]

    assert ["ralph://features/{name}", "ralph://disciplines/{name}", "ralph://tasks/{id}"] == [
        template["uriTemplate"] for template in found["resourceTemplates"]
    ]
    assert all(template["description"] for template in found["resourceTemplates"])


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_feature_and_a_discipline_read_as_the_tools_answer_them(project: Path, era: Era) -> None:
    with connected(project, era=era) as driver:
        portal = driver.portal
        for kind, tool, name in (
            ("features", "get_feature", "auth"),
            ("features", "get_feature", "a/b"),
            ("disciplines", "get_discipline", "frontend"),
        ):
            read = portal.call(driver.client.read_resource, row_uri(kind, name))
            (contents,) = read.contents
            assert driver.ask(tool, {"name": name}) == (False, getattr(contents, "text", None))


@ERAS
def test_no_secret_of_a_discipline_is_read(servers: Mapping[str, Wire], version: str) -> None:
    uri = "ralph://disciplines/frontend"
    text = text_of(ask(servers[version], version, "resources/read", uri=uri))

    assert "s3cret" not in text
    assert {"TOKEN": "***"} == json.loads(text)["mcp_servers"][0]["env"]


@ERAS
def test_a_task_is_read_whole_with_every_comment(servers: Mapping[str, Wire], version: str) -> None:
    server = servers[version]
    record = json.loads(text_of(ask(server, version, "resources/read", uri="ralph://tasks/1")))
    cut = ask(server, version, "tools/call", name="get_task", arguments={})["result"]["content"]

    assert "description" in json.loads(cut[0]["text"])["cut"]
    assert "cut" not in record
    assert "long " * 4000 == record["description"]
    assert [f"comment {n}" for n in range(30)] == [c["body"] for c in record["comments"]]


@ERAS
def test_the_state_files_are_read_unchanged(servers: Mapping[str, Wire], version: str) -> None:
    server = servers[version]
    progress = ask(server, version, "resources/read", uri="ralph://progress")
    learnings = ask(server, version, "resources/read", uri="ralph://learnings")

    assert "- one\n\ufffd\ufffdtwo\r\n" == text_of(progress)
    assert "text/plain" == progress["result"]["contents"][0]["mimeType"]
    assert "" == text_of(learnings)  # there is no such file yet


@ERAS
@pytest.mark.parametrize(
    "uri",
    [
        "", "x", "ralph:", "ralph://", "ralph:///", "file:///etc/passwd", "ralph://tasks",
        "ralph://tasks/", "ralph://tasks/99", "ralph://tasks/one", "ralph://tasks/01",
        "ralph://tasks/1/", "ralph://tasks/+1", "ralph://tasks/99999999999999999999",
        "ralph://tasks/\u0661", "ralph://features", "ralph://features/", "ralph://features/none",
        "ralph://features/AUTH", "ralph://features/auth/x", "ralph://features/auth?x",
        "ralph://features/au%t", "ralph://features/%FF", "ralph://features/%C0%AF",
        "ralph://features/gr\u00f6\u00dfe", "ralph://features/new\nline", "ralph://progress/",
        "ralph://progress/x", "ralph://project", "RALPH://progress", "ralph://disciplines/%00",
    ],
)  # fmt: skip
def test_a_missing_resource_is_an_error_that_names_the_uri(
    servers: Mapping[str, Wire], version: str, uri: str
) -> None:
    error = ask(servers[version], version, "resources/read", uri=uri)["error"]

    assert (-32602, {"uri": uri}) == (error["code"], error["data"])
    assert error["message"]


@ERAS
@pytest.mark.parametrize(
    ("method", "cursor"),
    [
        ("resources/list", "x"),
        ("resources/list", "tasks:41"),
        ("resources/list", "features:4"),
        ("resources/list", ""),
        ("resources/templates/list", "1"),
        ("prompts/list", "1"),
    ],
)
def test_an_invalid_cursor_is_refused(
    servers: Mapping[str, Wire], version: str, method: str, cursor: str
) -> None:
    error = ask(servers[version], version, method, cursor=cursor)["error"]

    assert -32602 == error["code"]
    assert f'ursor "{cursor}"' in error["message"].replace(": ", " ")


@ERAS
def test_pages_show_each_row_once_though_others_are_added_between_them(
    tmp_path: Path, version: str
) -> None:
    """Names that are not UTF-8 have no URI; they may fill a page without hiding others."""
    root = create_project(tmp_path)
    numbered = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 219)"
    columns = "INTO features (name, display_name, acronym)"
    query(root, f"{numbered} INSERT {columns} SELECT 'f' || i, 'F', 'F' || i FROM n")
    broken = "CAST(X'61FF' AS TEXT) || i"
    query(root, f"{numbered} INSERT {columns} SELECT {broken}, 'B', 'B' || i FROM n")
    seen: list[str] = []
    with running(root) as server:
        server.shake_hands(version)
        answer = ask(server, version, "resources/list")["result"]
        for number in range(1, 20):
            seen += uris(answer["resources"])
            assert len(answer["resources"]) <= 50
            if "nextCursor" not in answer:
                break
            for name in (f"a{number}", f"z{number}"):
                query(root, f"INSERT {columns} VALUES (?, 'X', ?)", name, name)
            cursor = answer["nextCursor"]
            answer = ask(server, version, "resources/list", cursor=cursor)["result"]

    old = [*(f"ralph://features/f{n}" for n in range(100, 220)), "ralph://disciplines/backend"]
    assert len(set(seen)) == len(seen)
    assert set(old) <= set(seen)
    assert not [uri for uri in seen if "FF" in uri or "EF" in uri]


def test_a_session_without_any_tool_reads_all_the_same(project: Path) -> None:
    with connected(project, "interactive", enabled_tools={"ralph": []}) as driver:
        assert [] == driver.names()
        read = driver.portal.call(driver.client.read_resource, "ralph://tasks/2")

    assert '"title":"Show the form"' in getattr(read.contents[0], "text", "")


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_the_sdks_client_raises_its_error_for_a_missing_resource(project: Path, era: Era) -> None:
    with connected(project, era=era) as driver, pytest.raises(MCPError) as caught:
        driver.portal.call(driver.client.read_resource, "ralph://features/auht")

    assert 'did you mean "auth"' in caught.value.error.message
    assert {"uri": "ralph://features/auht"} == caught.value.error.data


@ERAS
def test_an_unreadable_resource_gives_the_reason_and_the_uri(tmp_path: Path, version: str) -> None:
    root = create_project(tmp_path)
    (root / ".ralph" / "learnings.txt").mkdir()
    with running(root) as server:
        server.shake_hands(version)
        query(root, "DROP TABLE task_comments")
        task = ask(server, version, "resources/read", uri="ralph://tasks/1")["error"]
        file = ask(server, version, "resources/read", uri="ralph://learnings")["error"]
        listed = ask(server, version, "resources/list")["error"]
        server.leave()

        assert "" == server.errors().partition("\n")[2]  # only the notice about the missing context
    assert (-32603, {"uri": "ralph://tasks/1"}) == (task["code"], task["data"])
    assert 'table "task_comments" is gone' in task["message"]
    assert (-32603, {"uri": "ralph://learnings"}) == (file["code"], file["data"])
    assert '"learnings.txt"' in file["message"]
    assert -32603 == listed["code"]


@given(name=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_name_comes_back_from_its_uri(name: str) -> None:
    uri = row_uri("features", name)

    assert ("features", name) == located(uri)
    assert re.fullmatch(r"ralph://features/(?:[A-Za-z0-9._~-]|%[0-9A-F]{2})*", uri)


@given(segment=st.text())
def test_any_uri_is_a_name_or_is_refused(segment: str) -> None:
    """An invalid name is always refused in one line."""
    try:
        kind, name = located(f"ralph://features/{segment}")
    except NotThereError as error:
        kind, name, said = "features", "", str(error)
    else:
        said = "a name"

    assert said.isprintable()
    assert (kind, name) == located(row_uri("features", name or ""))
