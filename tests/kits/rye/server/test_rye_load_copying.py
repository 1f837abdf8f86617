"""A copy keeps the id and the text of the item, and overwrites only on request."""

import stat
from pathlib import Path
from typing import Any

import pytest
from command_line import snapshot
from rye_projects import HTTP_CLIENT, TYPES, Rye, serving

WAYS = [("project", "user"), ("user", "project")]
DEEP = "demo/very/deep/greet"
OTHERS = {"directive": "rye/create_tool", "knowledge": "rye/tool-format"}
"""Items of the system that may be copied."""


def copy(rye: Rye, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.load(item_type, item_id, **given)


def refused(rye: Rye, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.refuses("load", item_type=item_type, item_id=item_id, **given)


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize(("source", "destination"), WAYS)
def test_a_copy_lies_in_the_same_folder_of_the_other_space(
    rye: Rye, item_type: str, source: str, destination: str
) -> None:
    """Upstream lost the directories, and with them the id of the item."""
    path = rye.put(item_type, DEEP, space=source)
    answer = copy(rye, item_type, DEEP, destination=destination)
    target = rye.file(item_type, DEEP, space=destination)

    assert (destination, str(target)) == (answer["copied_to"], answer["destination_path"])
    assert (source, str(path)) == (answer["source"], answer["path"])
    assert path.read_bytes() == target.read_bytes() == answer["content"].encode()
    assert 0o644 == stat.S_IMODE(target.stat().st_mode)
    assert [target.name] == [found.name for found in target.parent.iterdir()]
    assert destination == rye.load(item_type, DEEP, source=destination)["source"]


@pytest.mark.parametrize("item_type", OTHERS)
@pytest.mark.parametrize("destination", ["project", "user"])
def test_an_item_of_the_system_is_copied_and_must_be_signed_anew(
    rye: Rye, item_type: str, destination: str
) -> None:
    item_id = OTHERS[item_type]
    answer = copy(rye, item_type, item_id, destination=destination)
    state = rye.load(item_type, item_id)["signature"]["state"]
    rye.sign(item_type, item_id, source=destination)

    assert ("system", "valid", True, "unsigned") == (
        answer["source"],
        answer["signature"]["state"],
        answer["resign_recommended"],
        state,
    )
    assert "valid" == rye.load(item_type, item_id, source=destination)["signature"]["state"]


@pytest.mark.parametrize("destination", ["system", "all", "registry", ""])
def test_there_is_no_other_destination(rye: Rye, destination: str) -> None:
    rye.put("tool", "greet")
    before = snapshot(rye.system)
    error = refused(rye, "tool", "greet", destination=destination)

    assert "VALIDATION_FAILED" == error["code"]
    assert '"project", "user"' in error["message"]
    assert before == snapshot(rye.system)


@pytest.mark.parametrize("item_type", TYPES)
def test_a_signature_goes_with_the_copy_and_holds_there(rye: Rye, item_type: str) -> None:
    path = rye.signed(item_type, "demo/greet")
    answer = copy(rye, item_type, "demo/greet", destination="user")
    there = rye.load(item_type, "demo/greet", source="user")

    assert path.read_text(encoding="utf-8") == there["content"]
    assert ("valid", "valid") == (answer["signature"]["state"], there["signature"]["state"])
    assert answer["resign_recommended"] is False


def test_a_copy_does_not_take_over_that_it_may_be_executed(rye: Rye) -> None:
    rye.put("tool", "greet").chmod(0o755)
    copy(rye, "tool", "greet", destination="user")
    target = rye.file("tool", "greet", space="user")
    target.chmod(0o600)
    copy(rye, "tool", "greet", destination="user", overwrite=True)

    assert 0o600 == stat.S_IMODE(target.stat().st_mode)


def test_who_reads_alone_writes_nothing(rye: Rye, tmp_path: Path) -> None:
    with serving(tmp_path, "interactive") as looking:
        given = {"item_type": "tool", "item_id": HTTP_CLIENT}
        codes = {
            looking.refuses("load", **given, **more)["code"]
            for more in ({"destination": "user"}, {"overwrite": True})
        }

    assert {"VALIDATION_FAILED"} == codes
    assert not rye.user.exists()
