"""A copy has the id and the text of what was copied, and takes the place of nothing unasked."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import snapshot
from rye_projects import (
    EXTENSIONS,
    FOLDERS,
    HTTP_CLIENT,
    SYSTEM_ITEMS,
    TYPES,
    Rye,
    knowledge,
    put,
    python_tool,
    serving,
    well_formed,
    yaml_tool,
)

WAYS = [("project", "user"), ("user", "project")]
DEEP = "demo/very/deep/greet"
OTHERS = {
    "directive": "rye/create_tool",
    "knowledge": "rye/tool-format",
}
"""Of the system's items, those that may be copied."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A person's session on a project."""
    with serving(tmp_path_factory.mktemp("copying")) as found:
        yield found


@pytest.fixture
def rye(server: Rye) -> Rye:
    """The same, with nothing in the project and with the user."""
    server.clear()
    return server


def copy(rye: Rye, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.load(item_type, item_id, **given)


def refused(rye: Rye, item_type: str, item_id: str, **given: Any) -> dict[str, Any]:
    return rye.refuses("load", item_type=item_type, item_id=item_id, **given)


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize(("source", "destination"), WAYS)
def test_a_copy_lies_in_the_same_folder_of_the_other_space(
    rye: Rye, item_type: str, source: str, destination: str
) -> None:
    """Upstream lost the folders, and with them what the item was called."""
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


@pytest.mark.parametrize("item_id", SYSTEM_ITEMS["tool"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_the_systems_own_tools_are_not_copied(rye: Rye, item_id: str, overwrite: bool) -> None:
    for name in (item_id, item_id.rpartition("/")[2]):
        for destination in ("project", "user"):
            error = refused(rye, "tool", name, destination=destination, overwrite=overwrite)
            assert "READ_ONLY_SPACE" == error["code"]
    assert not rye.project.exists()
    assert not rye.user.exists()


@pytest.mark.parametrize("destination", ["system", "all", "registry", ""])
def test_there_is_no_other_destination(rye: Rye, destination: str) -> None:
    rye.put("tool", "greet")
    before = snapshot(rye.system)
    error = refused(rye, "tool", "greet", destination=destination)

    assert "VALIDATION_FAILED" == error["code"]
    assert '"project", "user"' in error["message"]
    assert before == snapshot(rye.system)


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize(("source", "destination"), WAYS)
def test_nothing_is_overwritten_unless_that_is_said(
    rye: Rye, item_type: str, source: str, destination: str
) -> None:
    path = rye.put(item_type, "greet", space=source)
    target = rye.put(item_type, "greet", "mine\n", space=destination)
    given = {"source": source, "destination": destination}
    errors = [refused(rye, item_type, "greet", **given)]
    errors.append(refused(rye, item_type, "greet", **given, overwrite=False))
    kept = target.read_bytes()
    copy(rye, item_type, "greet", **given, overwrite=True)

    assert [("EXISTS", True)] * 2 == [
        (error["code"], 'set "overwrite"' in error["message"]) for error in errors
    ]
    assert (b"mine\n", path.read_bytes()) == (kept, target.read_bytes())


def test_a_second_copy_of_the_same_is_refused_as_well(rye: Rye) -> None:
    """Upstream told it as a success."""
    rye.put("tool", "greet")
    copy(rye, "tool", "greet", destination="user")

    assert "EXISTS" == refused(rye, "tool", "greet", destination="user")["code"]


@pytest.mark.parametrize("space", ["project", "user"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_copy_to_where_it_lies_is_none_and_says_so(rye: Rye, space: str, overwrite: bool) -> None:
    path = rye.put("tool", "greet", space=space)
    before = snapshot(path.parents[1])
    answer = copy(rye, "tool", "greet", destination=space, overwrite=overwrite)

    assert f"it is already in the {space} space: nothing was written" == answer["noop"]
    assert not {"copied_to", "destination_path"} & {*answer}
    assert before == snapshot(path.parents[1])


def test_a_destination_is_compared_with_where_the_cascade_found_the_item(rye: Rye) -> None:
    rye.put("tool", "greet", space="user")
    told = [copy(rye, "tool", "greet", destination="user")]
    told.append(copy(rye, "tool", "greet", destination="project"))
    told.append(copy(rye, "tool", "greet", destination="project"))

    assert ["noop", "copied_to", "noop"] == [
        next(name for name in ("noop", "copied_to") if name in answer) for answer in told
    ]


def test_a_bare_name_is_copied_under_its_whole_id(rye: Rye) -> None:
    rye.put("tool", "demo/greet")
    answer = copy(rye, "tool", "greet", destination="user")

    assert str(rye.file("tool", "demo/greet", space="user")) == answer["destination_path"]


@pytest.mark.parametrize("item_type", TYPES)
def test_a_signature_goes_with_the_copy_and_holds_there(rye: Rye, item_type: str) -> None:
    path = rye.signed(item_type, "demo/greet")
    answer = copy(rye, item_type, "demo/greet", destination="user")
    there = rye.load(item_type, "demo/greet", source="user")

    assert path.read_text(encoding="utf-8") == there["content"]
    assert ("valid", "valid") == (answer["signature"]["state"], there["signature"]["state"])
    assert answer["resign_recommended"] is False


def test_a_changed_item_may_be_copied_and_stays_changed(rye: Rye) -> None:
    path = rye.signed("tool", "greet")
    path.write_bytes(path.read_bytes() + b"# more\n")
    answer = copy(rye, "tool", "greet", destination="user")

    assert ("modified", True) == (answer["signature"]["state"], answer["resign_recommended"])
    assert "modified" == rye.load("tool", "greet", source="user")["signature"]["state"]


@pytest.mark.parametrize("text", ["\ufeffx = 1\r\ny", "a\rb\n\n", "\x00\x01", "é" * 100_000, "\n"])
def test_any_text_is_copied_as_it_is(rye: Rye, text: str) -> None:
    rye.put("tool", "odd", text)
    copy(rye, "tool", "odd", destination="user")

    assert text.encode() == rye.file("tool", "odd", space="user").read_bytes()


def test_a_copy_does_not_take_over_that_it_may_be_executed(rye: Rye) -> None:
    rye.put("tool", "greet").chmod(0o755)
    copy(rye, "tool", "greet", destination="user")
    target = rye.file("tool", "greet", space="user")
    target.chmod(0o600)
    copy(rye, "tool", "greet", destination="user", overwrite=True)

    assert 0o600 == stat.S_IMODE(target.stat().st_mode)


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_copy_is_no_second_file_of_an_id(rye: Rye, overwrite: bool) -> None:
    rye.put("tool", "greet", python_tool("greet"))
    rye.put("tool", "greet", yaml_tool("greet"), space="user", extension=".yaml")
    given = {"source": "project", "destination": "user", "overwrite": overwrite}
    error = refused(rye, "tool", "greet", **given)

    assert "EXISTS" == error["code"]
    assert "one would hide the other" in error["message"]
    assert not rye.file("tool", "greet", space="user").exists()


@pytest.mark.parametrize("linked", ["", "tools", "tools/demo"])
@pytest.mark.parametrize("destination", ["project", "user"])
def test_nothing_is_copied_through_a_link(rye: Rye, destination: str, linked: str) -> None:
    outside = rye.folder / "outside"
    outside.mkdir(exist_ok=True)
    source = "user" if destination == "project" else "project"
    rye.put("tool", "demo/greet", space=source)
    way = (rye.user if destination == "user" else rye.project) / linked
    way.parent.mkdir(parents=True, exist_ok=True)
    way.symlink_to(outside)
    given = {"source": source, "destination": destination, "overwrite": True}
    failed, answer = rye.ask("load", item_type="tool", item_id="demo/greet", **given)
    found = [*outside.rglob("*")]

    assert (True, "SPACE_VIOLATION") == (failed, answer["error"]["code"])
    assert [] == found


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_the_place_of_a_copy_is_not_written_through(
    rye: Rye, item_type: str, there: bool
) -> None:
    name = f"victim{EXTENSIONS[item_type]}"
    victim = rye.folder / "victims" / name
    victim.parent.mkdir(exist_ok=True)
    victim.unlink(missing_ok=True)
    if there:
        put(victim, "precious\n")
    rye.put(item_type, "greet")
    link = rye.file(item_type, "greet", space="user")
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    error = refused(rye, item_type, "greet", destination="user", overwrite=True)

    assert "SPACE_VIOLATION" == error["code"]
    assert (there, True) == (victim.exists(), link.is_symlink())
    if there:
        assert "precious\n" == victim.read_text(encoding="utf-8")


@pytest.mark.parametrize("item_id", ["../README", "../../outside", "demo/../../x", "/etc/x", "*"])
def test_an_id_that_leads_out_is_neither_read_nor_written(rye: Rye, item_id: str) -> None:
    """Upstream copied a project's README to beside the user's space."""
    for item_type in TYPES:
        put(rye.project / FOLDERS[item_type] / f"../README{EXTENSIONS[item_type]}", "secret")
        error = refused(rye, item_type, item_id, destination="user", overwrite=True)
        assert "INVALID_ID" == error["code"]
    assert not rye.user.exists()


def test_what_cannot_be_written_leaves_nothing_behind(rye: Rye) -> None:
    rye.put("knowledge", "demo/note")
    put(rye.user / "knowledge", "a file where a folder must be")
    error = refused(rye, "knowledge", "demo/note", destination="user")

    assert "EXECUTION_FAILED" == error["code"]
    assert "a file is in the place of a directory" in error["message"]
    assert ["knowledge"] == [path.name for path in rye.user.iterdir()]


def test_a_long_item_is_copied_whole_though_its_text_is_shown_in_part(rye: Rye) -> None:
    path = rye.put("knowledge", "long", knowledge("long", "x\n" * 50_000))
    answer = copy(rye, "knowledge", "long", destination="user")

    assert ["content"] == answer["cut"]
    assert path.read_bytes() == rye.file("knowledge", "long", space="user").read_bytes()


def test_a_copy_is_found_at_once(rye: Rye) -> None:
    text = well_formed("tool", "demo/needle")
    rye.put("tool", "demo/needle", text)
    before = rye.found("needle", source="user")
    copy(rye, "tool", "demo/needle", destination="user")

    assert ([], ["demo/needle"]) == (before, rye.found("needle", source="user"))


def test_who_reads_alone_writes_nothing(rye: Rye, tmp_path: Path) -> None:
    with serving(tmp_path, "interactive") as looking:
        given = {"item_type": "tool", "item_id": HTTP_CLIENT}
        codes = {
            looking.refuses("load", **given, **more)["code"]
            for more in ({"destination": "user"}, {"overwrite": True})
        }

    assert {"VALIDATION_FAILED"} == codes
    assert not rye.user.exists()
