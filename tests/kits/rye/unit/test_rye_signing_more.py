"""Signing: spaces, the key, and patterns for several items."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rye_projects import knowledge, python_tool, well_formed, yaml_tool
from rye_workspaces import Workspace, refused, signed, state

from ralphgen.kits.rye.server.spaces import DIRECTIVE, KNOWLEDGE, TOOL
from ralphgen.kits.rye.server.trust import UNTRUSTED, VALID

NOWHERE = "/proc/rye/.ai"  # not even root can create a directory here
POLICIES = {"directive": "trusted", "tool": "trusted", "knowledge": "trusted"}
MOST = 40_000  # characters of an answer


class TestSpaces:
    """Items of the project and the user space are signed in the requested space."""

    @pytest.mark.parametrize(
        ("given", "code", "told"),
        [
            (
                {"source": "project", "parameters": {"location": "user"}},
                "VALIDATION_FAILED",
                "name different spaces",
            ),
            ({"source": "system"}, "READ_ONLY_SPACE", "come with the server"),
            ({"parameters": {"location": "system"}}, "READ_ONLY_SPACE", "come with the server"),
            ({"parameters": {"location": "there"}}, "VALIDATION_FAILED", '"parameters.location"'),
            ({"parameters": {"location": 1}}, "VALIDATION_FAILED", '"parameters.location"'),
            ({"parameters": {"force": True}}, "VALIDATION_FAILED", 'only "location"'),
        ],
    )
    def test_other_location_is_refused(
        self, workspace: Workspace, given: dict[str, Any], code: str, told: str
    ) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        error = refused(workspace, TOOL, "a", **given)

        assert code == error.code
        assert told in str(error)
        assert python_tool("a") == path.read_text(encoding="utf-8")

    def test_item_under_the_id_of_a_system_item_is_not_signed(self, workspace: Workspace) -> None:
        item_id = "rye/core/primitives/subprocess"
        workspace.put(TOOL, item_id, yaml_tool(item_id), extension=".yaml")

        error = refused(workspace, TOOL, item_id)

        assert "READ_ONLY_SPACE" == error.code
        assert "copy it" not in str(error)  # a copy is not allowed there


class TestTheKey:
    """The private key of the user, and signing without one."""

    def test_key_readable_by_others_signs_nothing(self, workspace: Workspace) -> None:
        for item_id in ("a", "b"):
            workspace.put(TOOL, item_id, python_tool(item_id))
        signed(workspace, TOOL, "a")
        (workspace.user / "keys/private_key.pem").chmod(0o644)
        errors = [refused(workspace, TOOL, item_id) for item_id in ("b", "*")]

        assert ["UNTRUSTED_KEY", "UNTRUSTED_KEY"] == [error.code for error in errors]
        assert all("cannot use your key: " in str(error) for error in errors)
        assert all('run "chmod 600 ' in str(error) for error in errors)
        assert python_tool("b") == (workspace.root / ".ai/tools/b.py").read_text(encoding="utf-8")

    def test_key_in_the_project_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("USER_SPACE", str(tmp_path / "project/.ai"))
        workspace = Workspace(tmp_path)
        path = workspace.put(TOOL, "a", python_tool("a"))
        error = refused(workspace, TOOL, "a")

        assert "SPACE_VIOLATION" == error.code
        assert "USER_SPACE set to a directory outside" in str(error)
        assert python_tool("a") == path.read_text(encoding="utf-8")
        assert not (workspace.root / ".ai/keys").exists()

    def test_key_that_cannot_be_trusted_signs_with_a_warning(self, workspace: Workspace) -> None:
        workspace.put(TOOL, "a", python_tool("a"))
        (workspace.user / "trusted_keys").mkdir(parents=True)
        (workspace.user / "trusted_keys").chmod(0o777)
        (warning,) = signed(workspace, TOOL, "a")["warnings"]

        assert "cannot add your key to the trusted keys: " in warning
        assert UNTRUSTED == state(workspace, TOOL, "a", ".py")

    def test_distrusted_key_remains_distrusted_and_signs_with_a_warning(
        self, workspace: Workspace
    ) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        fingerprint = signed(workspace, TOOL, "a")["signature_info"]["fingerprint"]
        trusted = workspace.user / f"trusted_keys/{fingerprint}.pem"
        trusted.unlink()
        path.write_text(python_tool("a") + "# changed\n", encoding="utf-8")
        answer = signed(workspace, TOOL, "a")
        (warning,) = answer["warnings"]

        assert not trusted.exists()
        assert fingerprint == answer["signature_info"]["fingerprint"]
        assert f"the key {fingerprint} is not trusted: to trust it" in warning
        assert f'"trusted_keys/{fingerprint}.pem" in the user space' in warning
        assert UNTRUSTED == state(workspace, TOOL, "a", ".py")

    def test_key_is_trusted_once_the_directory_is_fixed(self, workspace: Workspace) -> None:
        workspace.put(TOOL, "a", python_tool("a"))
        (workspace.user / "trusted_keys").mkdir(parents=True)
        (workspace.user / "trusted_keys").chmod(0o777)
        signed(workspace, TOOL, "a")
        (workspace.user / "trusted_keys").chmod(0o700)

        assert [] == signed(workspace, TOOL, "a")["warnings"]
        assert VALID == state(workspace, TOOL, "a", ".py")

    @pytest.mark.parametrize("item_type", [DIRECTIVE, KNOWLEDGE])
    def test_signature_without_a_key_detects_only_accidents(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item_type: str
    ) -> None:
        monkeypatch.setenv("USER_SPACE", NOWHERE)
        workspace = Workspace(tmp_path)
        path = workspace.put(item_type, "a", well_formed(item_type, "a"))
        answer = signed(workspace, item_type, "a")
        (warning,) = answer["warnings"]
        told = answer["signature_info"]

        assert f'cannot create a key in "{NOWHERE}"' in warning
        assert ("validated", None) == (told["form"], told["fingerprint"])
        assert f"rye:validated:{answer['timestamp']}:{told['hash']}" == answer["signature"]
        assert answer["signature"] in path.read_text(encoding="utf-8").splitlines()[0]
        assert UNTRUSTED == state(workspace, item_type, "a", path.suffix)

    def test_trusted_policy_signs_nothing_without_a_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("USER_SPACE", NOWHERE)
        workspace = Workspace(tmp_path, policy=POLICIES)
        path = workspace.put(TOOL, "a", python_tool("a"))
        errors = [refused(workspace, TOOL, item_id) for item_id in ("a", "*")]

        assert ["UNTRUSTED_KEY", "UNTRUSTED_KEY"] == [error.code for error in errors]
        assert all('the policy "trusted" for each tool requires one' in str(e) for e in errors)
        assert python_tool("a") == path.read_text(encoding="utf-8")

    def test_signature_of_a_key_is_kept_without_the_key(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = workspace.put(TOOL, "a", python_tool("a"))
        first = signed(workspace, TOOL, "a")
        before = path.read_bytes()
        monkeypatch.setenv("USER_SPACE", NOWHERE)
        answer = signed(Workspace(workspace.root.parent), TOOL, "a")

        assert (first["signature"], True) == (answer["signature"], answer["unchanged"])
        assert before == path.read_bytes()


class TestSeveral:
    """A pattern selects items; each is signed or refused separately."""

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("*", ["a", "demo/b", "demo/deep/c"]),
            ("**", ["a", "demo/b", "demo/deep/c"]),
            ("demo/*", ["demo/b"]),
            ("demo/**", ["demo/b", "demo/deep/c"]),
            ("?", ["a", "demo/b", "demo/deep/c"]),
        ],
    )
    def test_pattern_signs_the_matching_items(
        self, workspace: Workspace, pattern: str, expected: list[str]
    ) -> None:
        ids = ["a", "demo/b", "demo/deep/c"]
        paths = {each: workspace.put(KNOWLEDGE, each, knowledge(each)) for each in ids}
        answer = signed(workspace, KNOWLEDGE, pattern)
        changed = [
            each
            for each, path in paths.items()
            if "rye:signed:" in path.read_text(encoding="utf-8")
        ]

        assert {
            "status": "completed",
            "signed": expected,
            "failed": [],
            "total": len(expected),
            "summary": f"signed {len(expected)} of {len(expected)}",
            "warnings": [],
        } == answer
        assert expected == changed
        assert {VALID} == {state(workspace, KNOWLEDGE, each, ".md") for each in expected}

    def test_each_failed_item_names_its_reason(self, workspace: Workspace) -> None:
        workspace.put(TOOL, "a", python_tool("a"))
        workspace.put(TOOL, "b", yaml_tool("b", version="1", executor_id=None), extension=".yaml")
        before = (workspace.root / ".ai/tools/b.yaml").read_bytes()
        answer = signed(workspace, TOOL, "*")
        (failure,) = answer["failed"]

        assert ("partial", ["a"], 2) == (answer["status"], answer["signed"], answer["total"])
        assert ("b", "VALIDATION_FAILED") == (failure["item"], failure["error"]["code"])
        assert 2 == len(failure["issues"])
        assert failure["issues"][0] in failure["error"]["message"]
        assert before == (workspace.root / ".ai/tools/b.yaml").read_bytes()

    def test_warnings_name_their_item(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("USER_SPACE", NOWHERE)
        workspace = Workspace(tmp_path)
        workspace.rye.permissions.policy[TOOL] = "integrity"
        schema = {"type": "object", "properties": {"tool_path": {"type": "string"}}}
        for item_id in ("a", "b"):
            workspace.put(TOOL, item_id, python_tool(item_id, schema=schema))
        common, *others = signed(workspace, TOOL, "*")["warnings"]

        assert common.startswith("cannot create a key")
        assert ["a: the parameter", "b: the parameter"] == [each[:16] for each in others]

    def test_error_lists_the_items_if_none_is_signed(self, workspace: Workspace) -> None:
        for item_id in ("a", "b"):
            workspace.put(TOOL, item_id, "")
        error = refused(workspace, TOOL, "*")

        assert ("VALIDATION_FAILED", 'signed 0 of 2: see "failed" for the reasons') == (
            error.code,
            str(error),
        )
        assert ["a", "b"] == [each["item"] for each in error.facts["failed"]]
        assert ([], 2) == (error.facts["signed"], error.facts["total"])

    def test_pattern_without_matches_is_refused(self, workspace: Workspace) -> None:
        workspace.put(TOOL, "a", python_tool("a"), space="user")

        assert "ITEM_NOT_FOUND" == refused(workspace, TOOL, "*").code
        assert ["a"] == signed(workspace, TOOL, "*", source="user")["signed"]

    def test_pattern_does_not_follow_links(self, workspace: Workspace, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "b.py").write_text(python_tool("b"), encoding="utf-8")
        path = workspace.put(TOOL, "a", python_tool("a"))
        (path.parent / "out").symlink_to(outside)
        os.link(outside / "b.py", path.with_name("c.py"))
        answer = signed(workspace, TOOL, "**")

        assert ["a", "c"] == answer["signed"]
        assert python_tool("b") == (outside / "b.py").read_text(encoding="utf-8")

    @pytest.mark.thorough
    @pytest.mark.parametrize("fit", [True, False])
    def test_lists_fit_into_an_answer(self, workspace: Workspace, fit: bool) -> None:
        for number in range(400):
            item_id = f"{'long-' * 11}{number}/{'name-' * 11}{number}"
            workspace.put(TOOL, item_id, yaml_tool(item_id) if fit else "", extension=".yaml")
        told = signed(workspace, TOOL, "**") if fit else refused(workspace, TOOL, "**").facts

        assert len(json.dumps(told)) < MOST
        assert (400, ["signed" if fit else "failed"]) == (told["total"], told["cut"])
