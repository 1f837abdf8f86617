"""Signing checks an item, adds one line to its file and changes nothing else."""

import re
from pathlib import Path

import pytest
from rye_projects import directive, knowledge, put, python_tool, well_formed, yaml_tool
from rye_workspaces import Workspace, item_at, refused, signed, state

from ralphgen.kits.rye.server.signing import replace_unchanged
from ralphgen.kits.rye.server.spaces import DIRECTIVE, KNOWLEDGE, TOOL, TYPES
from ralphgen.kits.rye.server.trust import MODIFIED, VALID, digest_of, own_key
from ralphgen.runtime.errors import CodedError

TIME = "2026-02-11T09:30:00Z"
PAYLOAD = re.compile(
    "rye:signed:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z:[0-9a-f]{64}:[A-Za-z0-9_-]{86}==:[0-9a-f]{16}"
)


class TestOneItem:
    """The signed file and the answer."""

    @pytest.mark.parametrize(
        ("item_type", "text", "extension", "comment"),
        [
            (DIRECTIVE, directive("demo/a"), ".md", "<!-- {} -->"),
            (KNOWLEDGE, knowledge("demo/a"), ".md", "<!-- {} -->"),
            (TOOL, python_tool("demo/a"), ".py", "# {}"),
            (TOOL, yaml_tool("demo/a"), ".yaml", "# {}"),
            (TOOL, yaml_tool("demo/a"), ".yml", "# {}"),
        ],
    )
    def test_signature_is_the_first_line(
        self, workspace: Workspace, item_type: str, text: str, extension: str, comment: str
    ) -> None:
        path = workspace.put(item_type, "demo/a", text, extension=extension)
        answer = signed(workspace, item_type, "demo/a")
        key = own_key(str(workspace.user))

        assert PAYLOAD.fullmatch(answer["signature"])
        assert f"{comment.format(answer['signature'])}\n{text}" == path.read_text(encoding="utf-8")
        assert VALID == state(workspace, item_type, "demo/a", extension)
        assert {
            "status": "signed",
            "item_id": "demo/a",
            "item_type": item_type,
            "path": str(path),
            "location": "project",
            "timestamp": answer["signature"][11:31],
            "signature_info": {
                "form": "signed",
                "timestamp": answer["timestamp"],
                "hash": digest_of(text),
                "fingerprint": key.fingerprint,
            },
        } == {name: part for name, part in answer.items() if name not in {"signature", "warnings"}}

    def test_first_signature_creates_and_trusts_the_key(self, workspace: Workspace) -> None:
        workspace.put(TOOL, "a", python_tool("a"))
        before = (workspace.user / "keys").exists()
        answer = signed(workspace, TOOL, "a")
        fingerprint = answer["signature_info"]["fingerprint"]
        files = {str(path.relative_to(workspace.user)) for path in workspace.user.glob("*/*")}

        assert not before
        assert [] == answer["warnings"]
        assert {
            "keys/private_key.pem",
            "keys/public_key.pem",
            f"trusted_keys/{fingerprint}.pem",
        } == files

    @pytest.mark.parametrize("shebang", ["#!/usr/bin/env python", "#! /usr/bin/env python"])
    def test_shebang_byte_order_mark_and_line_ends_are_kept(
        self, workspace: Workspace, shebang: str
    ) -> None:
        text = f"\ufeff{shebang}\n{python_tool('a')}".replace("\n", "\r\n")
        path = put(workspace.put(TOOL, "a", ""), text.encode())
        line = f"# {signed(workspace, TOOL, 'a')['signature']}\r\n"
        expected = text.replace(f"{shebang}\r\n", f"{shebang}\r\n{line}", 1)

        assert expected.encode() == path.read_bytes()
        assert VALID == state(workspace, TOOL, "a", ".py")

    @pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
    def test_signed_file_keeps_its_mode(self, workspace: Workspace, mode: int) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        path.chmod(mode)
        signed(workspace, TOOL, "a")

        assert mode == path.stat().st_mode & 0o7777
        assert [path] == [*path.parent.iterdir()]


class TestAgain:
    """Signing an item repeatedly leaves one signature line."""

    @pytest.mark.parametrize("item_type", TYPES)
    def test_signed_item_is_unchanged(self, workspace: Workspace, item_type: str) -> None:
        path = workspace.put(item_type, "demo/a", well_formed(item_type, "demo/a"))
        first = signed(workspace, item_type, "demo/a")
        before = path.read_bytes(), path.stat()
        second = signed(workspace, item_type, "demo/a")

        assert {**first, "unchanged": True} == second
        assert before == (path.read_bytes(), path.stat())

    @pytest.mark.parametrize("item_type", TYPES)
    def test_changed_item_gets_a_new_signature(self, workspace: Workspace, item_type: str) -> None:
        path = workspace.put(item_type, "demo/a", well_formed(item_type, "demo/a"))
        first = signed(workspace, item_type, "demo/a")["signature"]
        with path.open("a", encoding="utf-8") as file:
            file.write("\n# more\n")
        second = signed(workspace, item_type, "demo/a")["signature"]
        text = path.read_text(encoding="utf-8")

        assert (0, 1, 1) == (text.count(first), text.count(second), text.count("rye:signed:"))
        assert VALID == state(workspace, item_type, "demo/a", path.suffix)

    def test_renamed_item_is_signed_under_its_new_name(self, workspace: Workspace) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        first = signed(workspace, TOOL, "a")["signature"]
        path = path.rename(path.with_name("b.py"))
        before = state(workspace, TOOL, "b", ".py")
        second = signed(workspace, TOOL, "b")["signature"]

        assert (MODIFIED, VALID) == (before, state(workspace, TOOL, "b", ".py"))
        assert first != second
        assert f"# {second}\n{python_tool('b')}".replace("b does", "a does") == path.read_text(
            encoding="utf-8"
        )

    @pytest.mark.parametrize(
        "line", ["# rye:signed:then", "# kiwi-mcp:validated:then:hash", "#rye:validated:x|y@z"]
    )
    def test_stale_signature_line_is_replaced(self, workspace: Workspace, line: str) -> None:
        path = workspace.put(TOOL, "a", f"#!x\n{line}\n{python_tool('a')}")
        answer = signed(workspace, TOOL, "a")

        assert f"#!x\n# {answer['signature']}\n{python_tool('a')}" == path.read_text(
            encoding="utf-8"
        )

    def test_signature_of_another_key_is_replaced(
        self, workspace: Workspace, tmp_path: Path
    ) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        theirs = signed(workspace, TOOL, "a")["signature_info"]["fingerprint"]
        (workspace.user / "keys").rename(tmp_path / "theirs")
        ours = signed(workspace, TOOL, "a")["signature_info"]["fingerprint"]

        assert theirs != ours
        assert 1 == path.read_text(encoding="utf-8").count("rye:signed:")
        assert VALID == state(workspace, TOOL, "a", ".py")


class TestRefusals:
    """A refused item is unchanged."""

    @pytest.mark.parametrize(
        ("item_type", "text", "extension", "issue"),
        [
            (TOOL, "", ".py", "it is empty"),
            (TOOL, "\ufeff \n\r\n", ".yaml", "it is empty"),
            (KNOWLEDGE, f"<!-- rye:validated:{TIME}:{'0' * 64} -->\n", ".md", "it is empty"),
            (TOOL, python_tool("a", "def execute(:\n"), ".py", "syntax"),
            (TOOL, "a: [\n", ".yaml", ""),
            (TOOL, python_tool("a", category="b"), ".py", "category"),
            (TOOL, yaml_tool("a", version="1.0"), ".yaml", "version"),
            (DIRECTIVE, directive("a", name="b"), ".md", "name"),
            (DIRECTIVE, "# No fence\n", ".md", ""),
            (KNOWLEDGE, knowledge("a", title=...), ".md", "title"),
        ],
    )
    def test_item_with_issues_is_not_signed(
        self, workspace: Workspace, item_type: str, text: str, extension: str, issue: str
    ) -> None:
        path = workspace.put(item_type, "a", "", extension=extension)
        put(path, text.encode())
        error = refused(workspace, item_type, "a")

        assert "VALIDATION_FAILED" == error.code
        assert [] != error.facts["issues"]
        assert issue in " ".join(error.facts["issues"]).lower()
        assert str(error).startswith(f'the {item_type} "a" cannot be signed: ')
        assert (text.encode(), False) == (path.read_bytes(), (workspace.user / "keys").exists())

    def test_every_issue_is_named(self, workspace: Workspace) -> None:
        workspace.put(DIRECTIVE, "a", directive("a", name="b", version="1", author=""))

        assert 3 == len(refused(workspace, DIRECTIVE, "a").facts["issues"])

    def test_issues_are_limited_to_the_size_of_an_answer(self, workspace: Workspace) -> None:
        names = "".join(f'<input name="{"-" * 300}{number}"/>' for number in range(2_000))
        workspace.put(DIRECTIVE, "a", directive("a", inputs=f"<inputs>{names}</inputs>"))
        error = refused(workspace, DIRECTIVE, "a")

        assert len(str(error)) + len(repr(error.facts)) < 40_000
        assert "issues" in error.facts["cut"][0]

    def test_signing_does_not_follow_links(self, workspace: Workspace, tmp_path: Path) -> None:
        outside = put(tmp_path / "outside.py", python_tool("a"))
        link = workspace.root / ".ai/tools/a.py"
        link.parent.mkdir(parents=True)
        link.symlink_to(outside)

        assert "ITEM_NOT_FOUND" == refused(workspace, TOOL, "a").code
        assert (python_tool("a"), True) == (outside.read_text(encoding="utf-8"), link.is_symlink())

    def test_concurrent_change_is_not_overwritten(self, workspace: Workspace) -> None:
        path = workspace.put(TOOL, "a", "new\n")
        item = item_at(workspace, TOOL, "a", ".py")

        with pytest.raises(CodedError, match="changed while it was signed") as error:
            replace_unchanged(item, "old\n", "# line\nold\n")
        assert ("INTEGRITY_FAILED", "new\n") == (error.value.code, path.read_text(encoding="utf-8"))


class TestElsewhere:
    """Items in other spaces: the error proposes the next call."""

    def test_system_item_must_be_copied_before_signing(self, workspace: Workspace) -> None:
        error = refused(workspace, "directive", "rye/create_tool")

        assert ("READ_ONLY_SPACE", "system") == (error.code, error.facts["source"])
        assert str(error).endswith('copy it with "load", destination "project", and sign the copy')

    def test_hint_to_copy_requires_a_session_that_can_copy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("USER_SPACE", str(tmp_path / "user"))
        alone = Workspace(tmp_path, tools=("sign",))
        error = refused(alone, "directive", "rye/create_tool")

        assert "READ_ONLY_SPACE" == error.code
        assert '"load"' not in str(error)

    @pytest.mark.parametrize(("space", "other"), [("user", "project"), ("project", "user")])
    def test_item_in_another_space_is_named(
        self, workspace: Workspace, space: str, other: str
    ) -> None:
        workspace.put(TOOL, "a", python_tool("a"), space=space)
        error = refused(workspace, TOOL, "a", source=other)

        assert "ITEM_NOT_FOUND" == error.code
        assert str(error).endswith(f'set source "{space}" to sign it there')
