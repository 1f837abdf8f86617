"""The front matter of documents, compared with a full YAML parser."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import ralphgen
from ralphgen.kits.acm.server.front_matter import INVALID, VALID, read_front_matter

CORPUS = Path(ralphgen.__file__).with_name("kits") / "acm" / "corpus"
DOCUMENTS = [path for path in sorted(CORPUS.rglob("*.md")) if path.read_bytes()[:4] == b"---\n"]
WORDS = st.text("ab é:#-'\"\\[]{},?!&*|>%@`~=\t", max_size=8)
KEYS = st.sampled_from(("stage", "a b", "a:b", "'it''s'", '"\\u0041"', "- a", "", "a#", "? a"))


def by_parser(block: str) -> object:
    """Return the block with every scalar as text, None if it is not YAML."""
    try:
        return yaml.load(block, yaml.BaseLoader)  # noqa: S506 - makes only texts
    except yaml.YAMLError:
        return None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_document_of_the_corpus_reads_as_by_the_parser(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    block = by_parser(text.split("---\n", 2)[1])

    found = read_front_matter(text)
    assert isinstance(block, dict)
    assert VALID == found.state
    assert block.keys() == found.values.keys()
    assert {key: found.text(key) for key in block} == {
        key: value if isinstance(value, str) else "" for key, value in block.items()
    }


@pytest.mark.parametrize(
    "block",
    [
        "stage: design # really\n",
        'stage: "de\\x73ign \\"now\\""  # really\n',
        "stage: 'it''s # design'\n",
        "stage: de#sign:x\n",
        "stage: first\n  second\n",
        'stage: "first\n  second"\n',
        "stage: !!str design\n",
        "stage: &name design\nother: *name\n",
        "stage:\n- a\n- b\nnext: 1\n",
        "stage:\n  deep:\n    - deeper\nnext: 1\n",
        "stage: [a, 'b]', {c: d}]\nnext: [\n  1 ]\n",
        "stage:\nnext:\n",
        "stage: - 1\n",
        "stage: a: b\n",
        "stage: [a]]\n",
        "stage: 'open\n",
        'stage: "\\q"\n',
        "stage: @now\n",
        "\tstage: a\n",
        "stage : a\nstage: b\n",
    ],
)
def test_a_block_reads_as_by_the_parser(block: str) -> None:
    expected = by_parser(block)
    found = read_front_matter(f"---\n{block}---\n")

    assert (VALID if expected else INVALID) == found.state
    if isinstance(expected, dict) and "*" not in block:
        texts = {key: value for key, value in expected.items() if isinstance(value, str)}
        assert texts == {key: value for key, value in found.values.items() if value != ()}


def test_the_lines_of_a_block_scalar_are_its_text() -> None:
    assert "one\ntwo" == read_front_matter("---\nstage: >-\n  one\n  two\n---\n").text("stage")


@given(st.lists(st.tuples(KEYS, WORDS), max_size=3))
def test_a_text_that_both_read_is_the_same(pairs: list[tuple[str, str]]) -> None:
    block = "".join(f"{key}: {value}\n" for key, value in pairs)
    expected = by_parser(block)
    found = read_front_matter(f"---\n{block}---\n")

    if found.state == VALID and isinstance(expected, dict):
        for key, value in expected.items():
            if isinstance(value, str) and isinstance(found.values[key], str):
                assert value == found.values[key]
