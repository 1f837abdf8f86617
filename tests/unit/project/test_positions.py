"""The line of a key is the one that a user would find, in any layout."""

import pytest

from ralphgen.project.toml import line_of

TEXT = '''# a comment with x = 1
"a.b" = 1
x = [  # three
  "p", "q",
  # between
  ["r",
   "s"]
]
m = """
kits = 1
"""
['u v'."w"]
k.l = 2
z = {a = ["1",
 "2"], b = 3}
[[list]]
k = 1
[[list]]
k = 2
[list.sub]
w = 1
'''
LINES = (
    (("a.b",), 2),
    (("x",), 3),
    (("x", 0), 4),
    (("x", 1), 4),
    (("x", 2), 6),
    (("x", 2, 0), 6),
    (("x", 2, 1), 7),
    (("m",), 9),
    (("u v",), 12),
    (("u v", "w"), 12),
    (("u v", "w", "k", "l"), 13),
    (("u v", "w", "z", "a", 0), 14),
    (("u v", "w", "z", "a", 1), 15),
    (("u v", "w", "z", "b"), 15),
    (("list", 0, "k"), 17),
    (("list", 1, "k"), 19),
    (("list", 1, "sub", "w"), 21),
)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("keys", "line"), LINES)
def test_every_kind_of_place_has_its_line(
    keys: tuple[str | int, ...], line: int, newline: str
) -> None:
    assert line == line_of(TEXT.replace("\n", newline), keys)


def test_a_missing_key_is_located_in_its_table() -> None:
    assert 12 == line_of(TEXT, ("u v", "w", "missing"))
    assert 1 == line_of(TEXT, ("missing",))
    assert 1 == line_of(TEXT, ("kits",))
    assert 1 == line_of("", ("any", 3))


def test_only_a_line_feed_ends_a_line() -> None:
    assert 2 == line_of('a = "\u2028\x85"\nb = 1\n', ("b",))
