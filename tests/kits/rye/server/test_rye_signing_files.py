"""What signing does to a file: one line more, at its place, and nothing else is changed."""

import re
from pathlib import Path

import pytest
from rye_projects import Rye, knowledge, put, python_tool, well_formed, yaml_tool

TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
PAYLOAD = rf"rye:signed:{TIME}:[0-9a-f]{{64}}:[A-Za-z0-9_-]{{86}}==:[0-9a-f]{{16}}"
LINES = {
    ".md": re.compile(rf"<!-- ({PAYLOAD}) -->\r?\n"),
    ".py": re.compile(rf"# ({PAYLOAD})\r?\n"),
    ".yaml": re.compile(rf"# ({PAYLOAD})\r?\n"),
    ".yml": re.compile(rf"# ({PAYLOAD})\r?\n"),
}
KINDS = (
    ("directive", ".md"),
    ("knowledge", ".md"),
    ("tool", ".py"),
    ("tool", ".yaml"),
    ("tool", ".yml"),
)


def text_of(item_type: str, extension: str) -> str:
    if extension.startswith(".y"):
        return yaml_tool("demo/a")
    return well_formed(item_type, "demo/a")


def lay(rye: Rye, kind: tuple[str, str], text: str | bytes = "") -> Path:
    return rye.put(kind[0], "demo/a", text or text_of(*kind), extension=kind[1])


def state(rye: Rye, item_type: str) -> str:
    found: str = rye.load(item_type, "demo/a")["signature"]["state"]
    return found


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    """Of item and of file."""

    def test_the_first_line_is_a_comment_of_its_language(
        self, rye: Rye, kind: tuple[str, str]
    ) -> None:
        path = lay(rye, kind)
        answer = rye.sign(kind[0], "demo/a")
        written = path.read_bytes().decode()
        found = LINES[kind[1]].match(written)

        assert found
        assert text_of(*kind) == written[found.end() :]
        assert found[1] == answer["signature"]

    def test_the_answer_says_what_where_when_and_by_whom(
        self, rye: Rye, kind: tuple[str, str]
    ) -> None:
        path = lay(rye, kind)
        answer = rye.sign(kind[0], "demo/a")
        info = answer["signature_info"]
        parts = answer["signature"].rsplit(":", 3)

        assert ("signed", "demo/a", kind[0], str(path), "project") == tuple(
            answer[name] for name in ("status", "item_id", "item_type", "path", "location")
        )
        assert ("signed", parts[1], parts[3]) == (info["form"], info["hash"], info["fingerprint"])
        assert answer["timestamp"] == info["timestamp"]
        assert re.fullmatch(TIME, answer["timestamp"])
        assert (rye.user / f"trusted_keys/{info['fingerprint']}.pem").is_file()

    def test_doing_it_again_changes_not_a_byte(self, rye: Rye, kind: tuple[str, str]) -> None:
        path = lay(rye, kind)
        first = rye.sign(kind[0], "demo/a")
        before = path.read_bytes(), path.stat().st_mtime_ns
        second = rye.sign(kind[0], "demo/a")

        assert before == (path.read_bytes(), path.stat().st_mtime_ns)
        assert {**first, "unchanged": True} == second

    def test_after_a_change_there_is_one_new_line_in_the_place_of_the_old(
        self, rye: Rye, kind: tuple[str, str]
    ) -> None:
        path = lay(rye, kind)
        first = rye.sign(kind[0], "demo/a")
        changed = path.read_text(encoding="utf-8").replace("1.0.0", "1.0.1")
        put(path, changed)
        assert "modified" == state(rye, kind[0])
        second = rye.sign(kind[0], "demo/a")
        written = path.read_text(encoding="utf-8")

        assert "unchanged" not in second
        assert first["signature"] != second["signature"]
        assert changed.replace(first["signature"], second["signature"]) == written
        assert "valid" == state(rye, kind[0])


def test_knowledge_is_signed_again_with_all_that_it_says(rye: Rye) -> None:
    """Upstream did not find its front matter below the signature any more."""
    path = rye.signed("knowledge", "demo/a", knowledge("demo/a", "Once.\n"))
    put(path, path.read_text(encoding="utf-8").replace("Once.", "Twice."))
    answer = rye.sign("knowledge", "demo/a")

    assert ("signed", []) == (answer["status"], answer["warnings"])
    assert "Twice." == rye.run("knowledge", "demo/a")["data"]["content"].strip()


def test_what_is_signed_is_executed_as_before(rye: Rye) -> None:
    path = rye.put("tool", "demo/a", f"#!/usr/bin/python3\n{python_tool('demo/a')}")
    path.chmod(0o755)
    rye.sign("tool", "demo/a")

    assert {"x": 1} == rye.run("tool", "demo/a", x=1)["data"]["params"]
