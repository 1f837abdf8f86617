"""The knowledge base: the matches of a term, and their display."""

import os
import shutil

import pytest
from acm_projects import ENTRIES, Library, put

NOTHING = 'No KB entries match "xyzzy".'


def only(library: Library, **entries: str) -> None:
    """Replace the entries of the knowledge base."""
    shutil.rmtree(library.documents / "kb")
    for name, text in entries.items():
        put(library.documents / "kb" / f"{name}.md", text)


def paths(text: str) -> list[str]:
    """Return the paths of the entries in an answer."""
    prefix = "Path: "
    return [line.removeprefix(prefix) for line in text.split("\n") if line.startswith(prefix)]


def test_entries_are_shown_with_title_words_and_place_in_the_order_of_their_names(
    library: Library,
) -> None:
    expected = """\
Found 2 KB entries:

**Stripes**
> --- title: Stripes tags: [a] --- What zebras teach us on review loops.
Path: kb/Zebra.md

**broken**
> --- title: [ --- Review loops end.
Path: kb/broken.md"""

    assert expected == library.says("query_knowledge", query="REVIEW loops")


def test_a_name_that_holds_the_term_is_enough(library: Library) -> None:
    expected = """\
Found 2 KB entries:

**plain**
> # Plain No front matter here, but a tornado.
Path: kb/plain.md

**tornado-by-name**
Path: kb/tornado-by-name.md"""

    assert expected == library.says("query_knowledge", query=" tornado\n")


def test_a_term_is_plain_text(library: Library) -> None:
    only(library, a="What (.*) costs: 3 $ [sic]\n", b="What else\n")

    assert ["kb/a.md"] == paths(library.says("query_knowledge", query="(.*) COSTS"))


def test_nothing_found_and_nothing_there_are_two_sentences(library: Library) -> None:
    found = library.says("query_knowledge", query="xyzzy")
    only(library, README="xyzzy\n")
    empty = library.says("query_knowledge", query="xyzzy")

    assert NOTHING == found
    assert "The knowledge base has no entries." == empty


@pytest.mark.parametrize("term", ["", " ", "\n\t"])
def test_a_blank_term_is_asked_for(library: Library, term: str) -> None:
    expected = 'argument "query" is blank: use a word or a topic'

    assert expected == library.refuses("query_knowledge", query=term)


def test_a_missing_or_odd_knowledge_base_is_named(library: Library) -> None:
    shutil.rmtree(library.documents / "kb")
    missing = library.refuses("query_knowledge", query="a")
    (library.documents / "kb").write_text("x", encoding="utf-8")
    file = library.refuses("query_knowledge", query="a")
    (library.documents / "kb").unlink()
    (library.documents / "kb").symlink_to(library.registry)
    outside = library.refuses("query_knowledge", query="a")

    assert missing.startswith('the knowledge base "kb/" does not exist: ')
    assert file.startswith('the knowledge base "kb/" does not exist: ')
    assert outside.startswith(
        'the knowledge base "kb/" is a symbolic link to a path outside its directory: '
    )


def test_the_words_around_the_first_place_are_cut_on_both_sides(library: Library) -> None:
    before, after = "a" * 200, "b" * 200
    only(library, long=f"{before}\nTERM\r\n{after} term {after}\n")
    text = library.says("query_knowledge", query="term")

    expected = f"> ...{'a' * 79} TERM {'b' * 78}..."
    assert expected == text.split("\n")[3]


def test_small_letters_of_another_length_move_nothing(library: Library) -> None:
    only(library, a="İ" * 300 + " needle " + "x" * 300)
    line = library.says("query_knowledge", query="NEEDLE").split("\n")[3]

    assert f"> ...{'İ' * 79} needle {'x' * 79}..." == line


def test_a_title_is_one_line_of_the_front_matter(library: Library) -> None:
    titled = '---\ntitle: "A\\nB\\e[0m"\n---\nterm\n'
    only(library, a=titled, b="---\ntitle: ''\n---\nterm\n", c="---\ntitle: [x]\n---\nterm\n")
    text = library.says("query_knowledge", query="term")

    assert ["**A B\\x1b[0m**", "**b**", "**c**"] == [
        line for line in text.split("\n") if line.startswith("**")
    ]


def test_many_entries_are_shown_in_part(library: Library) -> None:
    only(library, **{f"n{number:03}": "term " * 100 for number in range(120)})
    text = library.says("query_knowledge", query="term")

    assert text.startswith("Found 120 KB entries:\n")
    assert 50 == len(paths(text))
    assert text.endswith("and 70 more: use a longer term")


def test_links_folders_and_pipes_are_harmless(library: Library) -> None:
    kb = library.documents / "kb"
    put(library.folder / "outside.md", "needle\n")
    (kb / "escaping.md").symlink_to(library.folder / "outside.md")
    (kb / "dangling.md").symlink_to("nowhere.md")
    (kb / "loop.md").symlink_to("loop.md")
    (kb / "folder.md").mkdir()
    os.mkfifo(kb / "pipe.md")
    put(kb / "real.md", "needle\n")
    (kb / "linked.md").symlink_to("real.md")

    assert ["kb/linked.md", "kb/real.md"] == paths(library.says("query_knowledge", query="needle"))


def test_bytes_and_names_that_are_not_utf8_are_shown_as_such(library: Library) -> None:
    kb = os.fsencode(library.documents / "kb")
    with open(os.path.join(kb, b"caf\xe9.md"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(b"needle \xff\r\n")
    text = library.says("query_knowledge", query="needle")

    assert "> needle \ufffd\n" in text
    assert "Path: kb/caf\\udce9.md" in text


def test_every_entry_can_be_found_by_each_of_its_words(library: Library) -> None:
    for name, text in ENTRIES.items():
        for word in text.split():
            found = paths(library.says("query_knowledge", query=word))
            assert (f"kb/{name}" in found) == (name != "README.md")


def test_the_place_of_an_entry_is_a_query_for_all_of_it(library: Library) -> None:
    for name, text in ENTRIES.items():
        if name != "README.md":
            assert text == library.says("query_knowledge", query=f" kb/{name}\n")


def test_every_place_that_is_shown_leads_to_its_entry(library: Library) -> None:
    names = ("a b", "x" * 240, "line\nend", "grüße")
    only(library, **{name: f"needle of {name}" for name in names})
    shown = paths(library.says("query_knowledge", query="needle"))
    found = [library.says("query_knowledge", query=path) for path in shown]

    assert {f"needle of {name}" for name in names} == {*found}


def test_a_place_without_an_entry_is_a_term(library: Library) -> None:
    only(library, a="see kb/none.md and kb/README.md\n", README="of the folder\n")
    put(library.documents / "secret.md", "secret\n")

    assert ["kb/a.md"] == paths(library.says("query_knowledge", query="kb/none.md"))
    assert ["kb/a.md"] == paths(library.says("query_knowledge", query="kb/README.md"))
    assert [] == paths(library.says("query_knowledge", query="kb/../secret.md"))


def test_a_long_entry_is_cut(library: Library) -> None:
    only(library, long="x" * 50_000)

    assert 'characters in "kb/long.md"]' in library.says("query_knowledge", query="kb/long.md")
