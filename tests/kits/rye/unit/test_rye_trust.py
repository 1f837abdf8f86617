"""Trusted keys, the manifest of the server, and policies."""

import re
from pathlib import Path

import pytest
from rye_projects import put
from rye_worlds import TIME, World

from ralphgen.kits.rye.server.spaces import DIRECTIVE, KNOWLEDGE, TOOL, TYPES, read_item
from ralphgen.kits.rye.server.trust import (
    MODIFIED,
    UNSIGNED,
    UNTRUSTED,
    VALID,
    Trust,
    own_key,
)
from ralphgen.runtime.errors import CodedError

POLICIES = ("off", "warn", "integrity", "trusted")
STATES = (VALID, UNSIGNED, MODIFIED, UNTRUSTED)
REFUSALS = {
    ("integrity", UNSIGNED): "UNSIGNED",
    ("integrity", MODIFIED): "INTEGRITY_FAILED",
    ("trusted", UNSIGNED): "UNSIGNED",
    ("trusted", MODIFIED): "INTEGRITY_FAILED",
    ("trusted", UNTRUSTED): "UNTRUSTED_KEY",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


class TestWhoIsTrusted:
    """Only keys in the user space are trusted, and the manifest for items of the server."""

    def test_key_outside_the_user_space_is_not_trusted(self, world: World, tmp_path: Path) -> None:
        other = own_key(str(tmp_path / "other"))
        text = world.signed(world.item(), "a = 1\n", other)
        verdict = world.trust().verdict(world.item(), text)

        assert (UNTRUSTED, other.fingerprint) == (verdict.state, verdict.fingerprint)
        assert f"the key {other.fingerprint} is not trusted" in verdict.reason

    def test_added_and_removed_keys_count_immediately(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        trust = world.trust()
        item = world.item()
        text = world.in_state(VALID, item)
        path = world.user / f"trusted_keys/{world.key.fingerprint}.pem"
        states = [trust.verdict(item, text).state]
        path.rename(path.with_suffix(".off"))
        states.append(trust.verdict(item, text).state)
        path.with_suffix(".off").rename(path)
        states.append(trust.verdict(item, text).state)

        assert [VALID, UNTRUSTED, VALID] == states

    def test_no_key_is_trusted_if_the_user_space_is_in_the_project(self, world: World) -> None:
        trust = Trust(dict.fromkeys(TYPES, "warn"), "", str(world.server))
        verdict = trust.verdict(world.item(), world.in_state(VALID, world.item()))

        assert UNTRUSTED == verdict.state
        assert "the user space is inside the project" in verdict.reason

    def test_signature_without_a_key_is_untrusted(self, world: World) -> None:
        verdict = world.trust().verdict(world.item(), world.in_state(UNTRUSTED, world.item()))

        assert {
            "state": "untrusted",
            "form": "validated",
            "timestamp": TIME,
            "reason": "its signature was made without a key, so anyone could have made it",
        } == verdict.entry()


class TestTheServersOwn:
    """Items of the server are valid only if unchanged since the server was written."""

    def test_system_item_is_valid_as_listed_in_the_manifest(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        item = world.emit("a: ä\r\n")

        assert {"state": "valid", "form": "manifest"} == (
            world.trust().verdict(item, read_item(item)).entry()
        )

    @pytest.mark.parametrize("listed", ["a: 2\n", "a: 1\r\n", ""])
    def test_changed_system_item_is_modified(self, tmp_path: Path, listed: str) -> None:
        world = World(tmp_path)
        item = world.emit("a: 1\n", listed)

        assert MODIFIED == world.trust().verdict(item, read_item(item)).state

    def test_signature_does_not_make_a_changed_system_item_valid(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        item = world.emit("a: 1\n")
        text = world.signed(item, "a: 2\n")

        assert MODIFIED == world.trust().verdict(item, text).state

    @pytest.mark.parametrize(
        "manifest", ["", "[]", "{}", '{"files": []}', "[" * 100_000, '{"files": {"a": 1}}', "\xff"]
    )
    def test_system_item_with_an_invalid_manifest_is_modified(
        self, tmp_path: Path, manifest: str
    ) -> None:
        world = World(tmp_path)
        item = world.emit("a: 1\n")
        put(world.server / "manifest.json", manifest.encode("latin-1"))

        assert MODIFIED == world.trust().verdict(item, "a: 1\n").state

    def test_system_item_without_a_manifest_is_modified(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        item = world.emit("a: 1\n")
        trust = world.trust()
        before = trust.verdict(item, "a: 1\n").state
        (world.server / "manifest.json").unlink()

        assert (VALID, MODIFIED) == (before, trust.verdict(item, "a: 1\n").state)


class TestPolicies:
    """The refusals and messages of each policy."""

    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("policy", POLICIES)
    def test_policy_refuses_exactly_its_states(self, world: World, policy: str, state: str) -> None:
        item = world.item()
        trust = world.trust(policy)
        text = world.in_state(state, item)
        refusal = REFUSALS.get((policy, state))

        if refusal is None:
            verdict = trust.require(item, text, signs=True)
            told = policy != "off" and state != VALID
            assert (state, told) == (verdict.state, bool(verdict.warnings))
            return
        with pytest.raises(CodedError, match=f'"demo/a" of the project space is {state}') as error:
            trust.require(item, text, signs=True)
        assert refusal == error.value.code
        facts = {name: error.value.facts[name] for name in ("item_type", "item_id", "policy")}
        assert {"item_type": TOOL, "item_id": "demo/a", "policy": policy} == facts
        assert state == error.value.facts["signature"]["state"]

    def test_each_type_has_a_separate_policy(self, world: World) -> None:
        trust = Trust({DIRECTIVE: "warn", TOOL: "integrity", KNOWLEDGE: "off"}, "", "")
        asked = [trust.policy_of(item_type) for item_type in TYPES]
        warnings = trust.require(world.item(DIRECTIVE), "text", signs=True).warnings

        assert ["warn", "integrity", "off"] == asked
        assert [
            'the directive "demo/a" of the project space is unsigned: it has no signature'
        ] == warnings

    @pytest.mark.parametrize("state", [UNSIGNED, MODIFIED, UNTRUSTED])
    @pytest.mark.parametrize("signs", [True, False])
    def test_refusal_names_only_available_tools(
        self, world: World, state: str, signs: bool
    ) -> None:
        item = world.item()
        with pytest.raises(CodedError) as error:
            world.trust("trusted").require(item, world.in_state(state, item), signs=signs)
        fix = 'sign it with "sign"' if signs else "ask the user to sign it"

        assert str(error.value).endswith(fix)
        assert signs == bool(re.search(r'"sign"', str(error.value)))

    @pytest.mark.parametrize("signs", [True, False])
    def test_refusal_does_not_advise_to_replace_another_signature(
        self, world: World, tmp_path: Path, signs: bool
    ) -> None:
        other = own_key(str(tmp_path / "other"))
        text = world.signed(world.item(), "a = 1\n", other)
        with pytest.raises(CodedError) as error:
            world.trust("trusted").require(world.item(), text, signs=signs)
        said = str(error.value)

        assert said.endswith(
            f"the key {other.fingerprint} is not trusted: to trust it, the user copies the "
            'signer\'s public key ("keys/public_key.pem") to '
            f'"trusted_keys/{other.fingerprint}.pem" in the user space'
        )
        assert "sign it" not in said

    @pytest.mark.parametrize("state", [UNSIGNED, MODIFIED, UNTRUSTED])
    def test_refusal_states_the_reason_once(self, world: World, state: str) -> None:
        item = world.item()
        with pytest.raises(CodedError) as error:
            world.trust("trusted").require(item, world.in_state(state, item), signs=True)
        reason = world.trust().verdict(item, world.in_state(state, item)).reason

        assert 1 == str(error.value).count(reason)
        assert "reason" not in error.value.facts["signature"]

    def test_unusable_key_is_named_with_its_path_once(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        item = world.item()
        text = world.in_state(VALID, item)
        key = world.user / f"trusted_keys/{world.key.fingerprint}.pem"
        key.chmod(0o666)
        with pytest.raises(CodedError) as error:
            world.trust("trusted").require(item, text, signs=True)
        told = f"{error.value} {error.value.facts}"

        assert "UNTRUSTED_KEY" == error.value.code
        assert 1 == told.count(str(world.user))
        assert "check its content" in told
        assert '"sign"' not in told

    def test_refusal_of_a_system_item_names_the_fix(self, tmp_path: Path) -> None:
        world = World(tmp_path)
        item = world.emit("a: 1\n", "a: 2\n")

        with pytest.raises(CodedError, match=r'run "ralphgen regen --force" in the project$'):
            world.trust("integrity").require(item, "a: 1\n", signs=True)
