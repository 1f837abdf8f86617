"""Problems have the line number that an editor shows."""

import pytest
from rye_workspaces import Workspace

from ralphgen.kits.rye import find_items
from ralphgen.kits.rye.server.loading import load
from ralphgen.kits.rye.server.searching import search
from ralphgen.kits.rye.server.signing import sign
from ralphgen.kits.rye.server.trust import Signature, line_of, with_line
from ralphgen.runtime.errors import CodedError

SIGNATURE = Signature("0" * 64, "2026-02-03T04:05:06Z")
STALE = "kiwi-mcp:validated:x"  # removed when the item is signed again
BROKEN = {
    "directive": (".md", "# A\n\n```xml\n<directive>\n&a;</directive>\n```\n", "&a;</directive>"),
    "knowledge": (".md", "---\nid: a\nid: b\n---\n\nText.\n", "id: b"),
    "tool": (".py", '#!/usr/bin/env python3\n"""A."""\n\ndef f(:\n', "def f(:"),
}


def told(workspace: Workspace, item_type: str) -> dict[str, str]:
    """Return the first problem of item "a" as reported by each tool."""
    place = {"item_type": item_type, "project_path": str(workspace.root)}
    named = {**place, "item_id": "a"}
    with pytest.raises(CodedError) as refused:
        sign(workspace.rye, named)
    found = search(workspace.rye, {**place, "query": "", "source": "project"})
    return {
        "sign": refused.value.facts["issues"][0],
        "execute": workspace.refuses(item_type, "a").facts["problems"][0],
        "load": load(workspace.rye, named)["metadata"]["problems"][0],
        "search": found["results"][0]["problems"][0],
        "inspect": find_items(workspace.root, {}).warnings[0].partition(": ")[2],
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("item_type", list(BROKEN))
def test_a_problem_is_at_the_line_of_the_file(
    workspace: Workspace, item_type: str, end: str, *, signed: bool
) -> None:
    extension, text, line = BROKEN[item_type]
    text = text.replace("\n", end)
    if signed:
        text = with_line(text, extension, line_of(SIGNATURE, extension))
    workspace.put(item_type, "a", text, extension=extension)
    number = text.replace("\r\n", "\n").split("\n").index(line) + 1
    said = told(workspace, item_type)

    expected = f'line {number} ("{line}"): '

    assert dict.fromkeys(said, expected) == {
        key: problem[: len(expected)] for key, problem in said.items()
    }


def test_what_signing_leaves_out_is_counted_too(workspace: Workspace) -> None:
    workspace.put("tool", "a", f"# {STALE}\n# {STALE}\ndef f(:\n")

    assert told(workspace, "tool")["sign"].startswith('line 3 ("def f(:"): ')
