"""Parsing of search queries: meanings and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.rye.server.queries import Both, Either, Leaf, Without, parse_query
from ralphgen.runtime.errors import CodedError


def spelled(node: object) -> str:
    """Return the parsed query, with grouping parentheses and a plus after prefixes."""
    if isinstance(node, Leaf):
        field = f"{node.field}:" if node.field else ""
        return f"{field}{'_'.join(node.words)}{'+' if node.beginning else ''}"
    if isinstance(node, Without):
        return f"-{spelled(node.part)}"
    if isinstance(node, (Both, Either)):
        sign = " & " if isinstance(node, Both) else " | "
        return f"({sign.join(map(spelled, node.parts))})"
    return "everything"


def refusal(query: str) -> CodedError:
    with pytest.raises(CodedError) as caught:
        parse_query(query)
    return caught.value


def place_of_error(query: str) -> int:
    """Return the position of the error in a query, 0 if it is valid."""
    try:
        parse_query(query)
    except CodedError as error:
        place: int = error.facts["position"]
        return place
    return 0


class TestMeanings:
    """Words, operators, groups, phrases, wildcards and fields."""

    @pytest.mark.parametrize(
        ("query", "meaning"),
        [
            ("", "everything"),
            (" \n\t", "everything"),
            ("scrap", "scrap+"),
            ("Scrap Café", "(scrap+ & cafe+)"),
            ("a AND b", "(a+ & b+)"),
            ("a b OR c d", "((a+ & b+) | (c+ & d+))"),
            ("a OR b AND c", "(a+ | (b+ & c+))"),
            ("a (b OR c)", "(a+ & (b+ | c+))"),
            ("a(b)", "(a+ & b+)"),
            ("((a))", "a+"),
            ("NOT a", "-a+"),
            ("a NOT b", "(a+ & -b+)"),
            ("NOT NOT a", "a+"),
            ("NOT (a OR b)", "-(a+ | b+)"),
            ("search or replace and not that", "(search+ & or+ & replace+ & and+ & not+ & that+)"),
            ("ORDER ANDROID NOTE", "(order+ & android+ & note+)"),
            ('"Two Words"', "two_words"),
            ('a"b c"d', "(a+ & b_c & d+)"),
            ('"AND"', "and"),
            ("create_tool", "create_tool+"),
            ("http-client rye/core/x", "(http_client+ & rye_core_x+)"),
            ("1.2.3", "1_2_3+"),
            ("scr*", "scr+"),
            ("scr*per", "scr*per"),
            ("*per", "*per"),
            ("a**b*", "a*b+"),
            ("*", "*"),
            ("create_*", "create"),
            ("*/tool", "tool"),
            ("rye/*/tool", "rye_*_tool"),
            ('"a*b"', "a_b"),
            ("title:scrap", "title:scrap+"),
            ('title:"two words"', "title:two_words"),
            ("tags:(a OR body:b)", "(tags:a+ | body:b+)"),
            ("title:a:b", "title:a_b+"),
            ("other:a", "other_a+"),
            ("Title:a", "title_a+"),
            ("a & b -- c", "(a+ & b+ & c+)"),
            ("测试 ab", "(测_试+ & ab+)"),
        ],
    )
    def test_a_query_means_what_it_says(self, query: str, meaning: str) -> None:
        assert meaning == spelled(parse_query(query))


class TestRefusals:
    """Each error reports its position and a fix."""

    @pytest.mark.parametrize(
        ("query", "position", "words"),
        [
            ("a (b", 2, '"(" is not closed'),
            ("(", 0, '"(" is not closed'),
            ("a b)", 3, '")" has no matching'),
            (")", 0, '")" has no matching'),
            ("a ()", 2, "the group is empty"),
            ("a (-)", 2, "the group is empty"),
            ('a "b', 2, "the quote is not closed"),
            ('"', 0, "the quote is not closed"),
            ("a OR", 2, '"OR" has no word after it'),
            ("a AND OR b", 2, '"AND" has no word after it'),
            ("OR a", 0, '"OR" has no word before it'),
            ("a (AND b)", 3, '"AND" has no word before it'),
            ("(a OR)", 3, '"OR" has no word after it'),
            ("a NOT", 2, '"NOT" has no word after it'),
            ("NOT", 0, '"NOT" has no word after it'),
            ("title:", 0, 'no word after "title:"'),
            ("a title: b", 2, 'no word after "title:"'),
            ('title: "b"', 0, 'no word after "title:"'),
            ("title:--", 0, '"title:" is not followed by a letter'),
            ("?!", 0, "no letters or digits"),
            ("a" * 2001, 2000, "2,001 characters"),
            ("(" * 51 + "a" + ")" * 51, 50, "groups are nested more than 50"),
            ("a " * 201, 400, "more than 200 terms"),
            ("*a " * 21, 60, 'more than 20 "*" are not at the end of a term'),
            ("a*" * 22, 0, 'more than 20 "*" are not at the end of a term'),
            ("a*b " * 10 + "a*" * 11 + "a", 40, 'more than 20 "*" are not at the end'),
        ],
    )
    def test_a_query_without_meaning_is_refused(
        self, query: str, position: int, words: str
    ) -> None:
        error = refusal(query)

        assert ("INVALID_QUERY", {"position": position}) == (error.code, error.facts)
        assert f"at character {position}: " in str(error)
        assert words in str(error)

    def test_what_is_just_within_the_bounds_is_understood(self) -> None:
        for query in ("a" * 2000, "(" * 50 + "a" + ")" * 50, "a " * 200, "*a " * 20, "a* " * 200):
            assert parse_query(query) is not None

    @given(st.text(st.sampled_from("aé测 *()\"_-:\\'\n\0\ud800ANDORT") | st.characters()))
    def test_any_text_is_understood_or_refused_at_one_of_its_characters(self, text: str) -> None:
        assert 0 <= place_of_error(text) <= len(text)

    @given(
        st.lists(
            st.sampled_from(["AND", "OR", "NOT", "(", ")", '"', '"a b"', "a", "*", "title:", "-"])
        )
    )
    def test_any_order_of_pieces_is_understood_or_refused(self, pieces: list[str]) -> None:
        text = " ".join(pieces)

        assert 0 <= place_of_error(text) <= len(text)
