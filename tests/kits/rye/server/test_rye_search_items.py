"""A search covers the full, current text of all items and no other files."""

from pathlib import Path

import pytest
from rye_projects import (
    SYSTEM_ITEMS,
    TYPES,
    Rye,
    directive,
    knowledge,
    put,
    python_tool,
    serving,
    session,
    well_formed,
)

LINE = "words of no interest here\n"


def text_with(item_type: str, item_id: str, body: str) -> str:
    """Return the text of a well-formed item that ends with these lines."""
    if item_type == "directive":
        return directive(item_id, body=body)
    if item_type == "knowledge":
        return knowledge(item_id, body)
    lines = "\n".join(f"# {line}" for line in body.splitlines())
    return python_tool(item_id) + "\n" + lines + "\n"


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("space", ["project", "user"])
def test_an_item_of_every_type_is_found_in_every_space(
    rye: Rye, item_type: str, space: str
) -> None:
    path = rye.put(item_type, "demo/needle", space=space)
    (found,) = rye.says("search", item_type=item_type, query="needle")["results"]

    assert ("demo/needle", item_type, space, str(path), "demo") == tuple(
        found[name] for name in ("id", "type", "source", "path", "category")
    )


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("signed", [False, True])
def test_the_whole_text_is_searched_signed_or_not(rye: Rye, item_type: str, signed: bool) -> None:
    """Upstream searched the first 200 characters; a signature filled all of them."""
    text = text_with(item_type, "far", LINE * 2_000 + "the haystack's needle\n" + LINE * 2_000)
    path = rye.put(item_type, "far", text)
    if signed:
        rye.sign(item_type, "far")
    (found,) = rye.says("search", item_type=item_type, query="needle")["results"]

    assert ("far", "valid" if signed else "unsigned") == (found["id"], found["signature"])
    assert "the haystack's needle" in found["preview"]
    assert 100_000 < path.stat().st_size


def test_no_code_of_a_project_is_run_by_a_search(rye: Rye) -> None:
    """Upstream imported parsers from the project."""
    marker = rye.folder / "was-run"
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    for place in ("parsers/markdown.py", "processors/a.py", "tools/rye/core/extractors/tool.py"):
        put(rye.project / place, code)
    rye.put("tool", "sly", code)
    rye.put("directive", "a")
    rye.found("")

    assert not marker.exists()


@pytest.mark.parametrize("item_type", TYPES)
def test_a_change_is_noticed_by_the_next_search(rye: Rye, item_type: str) -> None:
    path = rye.put(item_type, "note", text_with(item_type, "note", "quokka"))
    before = rye.found("quokka", item_type), rye.found("wombat", item_type)
    rye.put(item_type, "note", text_with(item_type, "note", "wombat"))  # the same length
    after = rye.found("quokka", item_type), rye.found("wombat", item_type)
    path.rename(path.with_stem("other"))
    renamed = rye.found("wombat", item_type)
    path.with_stem("other").unlink()
    gone = rye.found("wombat", item_type)

    assert (["note"], []) == before
    assert ([], ["note"]) == after
    assert (["other"], []) == (renamed, gone)


@pytest.mark.parametrize("item_type", TYPES)
def test_the_systems_items_are_found_among_all_and_alone(rye: Rye, item_type: str) -> None:
    rye.put(item_type, "demo/own")
    everything = rye.says("search", item_type=item_type, query="")["results"]

    assert sorted([*SYSTEM_ITEMS[item_type], "demo/own"]) == sorted(hit["id"] for hit in everything)
    assert [*SYSTEM_ITEMS[item_type]] == sorted(rye.found("", item_type, source="system"))
    assert ["demo/own"] == rye.found("", item_type, source="project")


def test_the_index_lies_nowhere_that_can_be_found(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(tmp_path, environment={"TMPDIR": str(scratch)}) as rye:
        for number in range(300):
            rye.put("knowledge", f"n{number}", knowledge(f"n{number}", LINE * 100))
        found = rye.says("search", item_type="knowledge", query="interest")["total"]
        beside = [path for path in rye.root.rglob("*") if path.suffix in (".db", ".sqlite")]

        assert (300, []) == (found, [*scratch.iterdir()])
        assert [rye.root / ".ralph/db/ralph.db"] == beside
        assert not rye.user.exists()


@pytest.mark.parametrize("recipe", ["manual", "interactive", "task_execution"])
def test_every_kind_of_session_finds_the_same(tmp_path: Path, recipe: str) -> None:
    with serving(tmp_path) as rye:
        for item_type in TYPES:
            rye.put(item_type, "demo/needle", well_formed(item_type, "demo/needle"))
        expected = rye.says("search", item_type="all", query="needle OR rye")
        with session(tmp_path, rye.root, recipe) as other:
            found = other.says("search", item_type="all", query="needle OR rye")

    assert expected == found
