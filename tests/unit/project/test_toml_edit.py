"""An edit of a TOML text changes one value: every other byte is kept."""

from typing import Any

import pytest

from ralphgen.project.toml_edit import edited

TABLES = "[[e]]\nx = 1\n[[e.s]]\ny = 1 # y\n[[e]]\nx = 2 # last"
CASES: dict[str, tuple[str, tuple[str | int, ...], Any, str]] = {
    "a key of no table": (
        "# c\n\n# about\n[t]\na = []\n",
        ("k",),
        [1],
        "# c\n\nk = [1]\n\n# about\n[t]\na = []\n",
    ),
    "a key in an empty text": ("", ("k",), "v", 'k = "v"\n'),
    "a key beside dotted ones": ("a.b = 1\n", ("a", "c"), 2, "a.b = 1\na.c = 2\n"),
    "a table": ("a = 1", ("t", "u"), {"b": {"c": 2}}, "a = 1\n\n[t.u]\nb = {c = 2}"),
    "a key in an item": (TABLES, ("e", 0, "z"), 7, TABLES.replace("= 1\n", "= 1\nz = 7\n", 1)),
    "a key in an item's item": (TABLES, ("e", 0, "s", 0, "y"), 5, TABLES.replace("y = 1", "y = 5")),
    "the last value": (TABLES, ("e", 1, "x"), 3, TABLES.replace("2", "3")),
    "one more item": (TABLES, ("e", 2), {"x": 3}, f"{TABLES}\n\n[[e]]\nx = 3"),
    "one more item of a list": (
        "e = [\n  {x = 1}, # one\n]\n",
        ("e", 1),
        {"x": 2},
        "e = [\n  {x = 1}, # one\n  {x = 2},\n]\n",
    ),
    "fewer items and more": (
        'k = [\n  "a", # a\n  "b", # b\n]\n',
        ("k",),
        ["b", "c"],
        'k = [\n  "b", # b\n  "c",\n]\n',
    ),
    "a key that goes": ("a = 1 # a\nb = 2\n", ("a",), None, "b = 2\n"),
    "a table that goes": ("a = 1\n[t]\n# in\nb = 2", ("t",), None, "a = 1"),
    "a dotted key that goes": ("a.b = 1 # b\na.c = 2 # c\n", ("a", "b"), None, "a.c = 2 # c\n"),
    "a key in braces": (
        "# e\ne = { x = 1, y = 'y' } # end\n",
        ("e", "x"),
        2,
        "# e\ne = { x = 2, y = 'y' } # end\n",
    ),
    "a key in braces that goes": (
        "e = {x = 1, y = 2} # end\n",
        ("e", "x"),
        None,
        "e = { y = 2} # end\n",
    ),
    "an item of an item that goes": (
        TABLES,
        ("e", 0, "s"),
        None,
        TABLES.replace("[[e.s]]\ny = 1 # y\n", ""),
    ),
    "a table above another's comment": (
        "[a]\nb = 1\n\n# about c\n[c]\nd = 1\n",
        ("a",),
        None,
        "\n# about c\n[c]\nd = 1\n",
    ),
    "a byte order mark": ("\ufeff# c\na = 1\r\n", ("a",), 2, "\ufeff# c\na = 2\r\n"),
    "mixed line ends": ("a = 1\r\nb = 2\n", ("b",), 3, "a = 1\r\nb = 3\n"),
    "line ends of Windows": ("a = 1\r\n", ("t", "b"), 2, "a = 1\r\n\r\n[t]\r\nb = 2\r\n"),
}
REFUSED: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "no TOML": ("a = ", ("b",)),
    "below a value": ("a = 1\n", ("a", "b")),
    "past the end of a list": ("a = [1]\n", ("a", 3)),
    "a value that is not itself": ("a = nan\n", ("b",)),
    "too deep": (f"a = {'[' * 5000}{']' * 5000}\n", ("b",)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_edit_changes_nothing_else(case: str) -> None:
    before, path, value, after = CASES[case]

    assert after == edited(before, [(path, value)])
    assert value is None or after == edited(after, [(path, value)])


@pytest.mark.parametrize("case", REFUSED)
def test_a_lossy_edit_is_refused(case: str) -> None:
    text, path = REFUSED[case]

    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        edited(text, [(path, 1)])
