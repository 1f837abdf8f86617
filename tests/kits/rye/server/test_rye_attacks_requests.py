"""HTTP requests reach only allowed hosts, leak no data, and fail with readable errors."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_hosts import Host, answering, host
from rye_attacks import OFF, TRUSTED, code, ran, tree
from rye_projects import TYPES, Rye, serving, well_formed, yaml_tool

SECRET = "s3cr3t-of-the-server"  # noqa: S105
WRONG: tuple[Any, ...] = (None, 1, "", "\0", [], {}, {"a": []}, True, "x" * 100_000, -1, 1e308, "…")


def asking(item_id: str, url: str, **config: Any) -> str:
    return yaml_tool(item_id, executor_id="http_client", config={"url": url, **config})


@pytest.fixture(scope="module")
def local() -> Iterator[Host]:
    """Yield a host on this machine, which no repository should reach."""
    with host(answering(b"inner")) as found:
        yield found


@pytest.fixture(scope="module")
def open_session(tmp_path_factory: pytest.TempPathFactory, local: Host) -> Iterator[Rye]:
    """Open a session without allowed hosts and without required signatures."""
    proxies = {
        name: f"http://{local.name}"
        for each in ("http_proxy", "https_proxy", "all_proxy")
        for name in (each, each.upper())
    }
    folder = tmp_path_factory.mktemp("requests")
    with serving(folder, settings=OFF, environment={**proxies, "TOKEN": SECRET}) as rye:
        yield rye


@pytest.fixture
def rye(open_session: Rye, local: Host) -> Rye:
    """Return the session without items."""
    open_session.clear()
    local.asked.clear()
    return open_session


def test_only_the_hosts_that_are_named_are_reached(tmp_path: Path, local: Host) -> None:
    """S23: redirects are not followed either."""
    local.asked.clear()
    moved = f"Location: http://{local.name}/inner\r\n"
    with (
        host(answering(status=302, more=moved)) as named,
        serving(tmp_path, settings=f'{OFF}\nhosts = ["{named.name}"]') as rye,
    ):
        rye.put("tool", "a", asking("a", "{url}"), extension=".yaml")
        found = rye.run("tool", "a", url=f"http://{named.name}/x")["data"]
        others = [
            ran(rye, "a", url=url)
            for url in (
                f"http://{local.name}/",
                f"http://127.0.0.1:{named.port + 1}/",
                f"http://{named.name}@{local.name}/",
                f"http://localhost:{named.port}/",
                f"https://{named.name}.example.com/",
                "file:///etc/passwd",
            )
        ]

        assert (302, 1) == (found["status_code"], len(named.asked))
        assert {"EXECUTION_FAILED", "VALIDATION_FAILED"} >= {*others}
    assert [] == local.asked


def test_a_request_says_only_what_its_author_wrote(tmp_path: Path) -> None:
    """S7, S14, S23: values cannot insert variables or headers, nor read withheld variables."""
    with (
        host(answering(b"{}")) as named,
        serving(
            tmp_path, settings=f'{OFF}\nhosts = ["{named.name}"]', environment={"TOKEN": SECRET}
        ) as rye,
    ):
        text = asking(
            "a",
            f"http://{named.name}/{{value}}?q={{value}}",
            method="POST",
            headers={"X-Value": "{value}", "X-Token": "<${TOKEN}>"},
            body={"value": "{value}", "all": ["{value}${TOKEN}"]},
        )
        rye.put("tool", "a", text, extension=".yaml")
        values = ["${TOKEN}", "{project_path}", "x\r\nX-Evil: 1", "..", "a/../b?x#y", "%2e%2e", "é"]
        found = {value: ran(rye, "a", value=value) for value in values}
        wire = json.dumps([(a.line, a.headers, a.body.decode()) for a in named.asked])
        bodies = [json.loads(asked.body)["value"] for asked in named.asked]

    assert SECRET not in wire
    assert "x-evil" not in wire
    assert {"success", "VALIDATION_FAILED"} == {*found.values()}
    assert ["success"] * 2 == [found[value] for value in values[:2]]
    assert [value for value in values if found[value] == "success"] == bodies
    assert all(
        asked.line.startswith("POST /") and "/../" not in asked.line for asked in named.asked
    )


@pytest.mark.parametrize("tool", ["search", "load", "execute", "sign", "help"])
def test_wrong_arguments_are_refused_in_words(rye: Rye, tool: str) -> None:
    """S25: no wrong argument leads to a traceback or an internal error."""
    (listed,) = (entry for entry in rye.driver.tools() if entry["name"] == tool)
    for item_type in TYPES:
        rye.put(item_type, "a")
    right = {"item_type": "tool", "item_id": "a", "query": "a", "topic": "overview"}
    names = [*listed["inputSchema"]["properties"]]
    right = {name: value for name, value in right.items() if name in names}
    codes = set()
    for name in (*names, "further"):
        for wrong in WRONG:
            given = {**right, name: wrong}
            codes.add(code(rye, tool, **given))

    assert "UNKNOWN_ERROR" not in codes
    assert "VALIDATION_FAILED" in codes
    assert "Traceback" not in (rye.folder / "log.txt").read_text("utf-8")


@pytest.mark.parametrize("item_type", TYPES)
def test_to_sign_changes_one_line_and_nothing_else(tmp_path: Path, item_type: str) -> None:
    """S27: in UTF-8 under any locale, preserving line ends, mode and neighbouring files."""
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    extension = {"tool": ".py"}.get(item_type, ".md")
    text = well_formed(item_type, "a").replace("\n", "\r\n") + "# é 😀\r\n\r\n"
    with serving(tmp_path, settings=TRUSTED, environment=plain) as rye:
        path = rye.put(item_type, "a", text.encode())
        path.chmod(0o755)
        before = tree(rye.project)
        rye.sign(item_type, "a")
        first, *rest = path.read_bytes().split(b"\r\n")
        given = {"parameters": {"who": "x"}} if item_type == "directive" else {}
        found = code(rye, "execute", item_type=item_type, item_id="a", **given)

        assert text.encode() == b"\r\n".join(rest)
        assert b"rye:signed:" in first
        assert 0o755 == stat.S_IMODE(path.stat().st_mode)
        assert {*before} == {*tree(rye.project)}
        assert "success" == found
        assert extension == path.suffix
