"""The signature line: its grammar, its place, and the signed text."""

from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ralphgen.kits.rye.server.trust import (
    SIGNED,
    VALIDATED,
    Signature,
    digest_of,
    line_of,
    message_of,
    split,
    with_line,
    without_stale,
)

EXTENSIONS = (".md", ".py", ".yaml", ".yml")
HASH = sha256(b"text").hexdigest()
TIME = "2026-02-11T09:30:00Z"
BYTES = "A" * 85 + "Q=="
FINGERPRINT = "0123456789abcdef"
PLAIN = Signature(HASH, TIME)
KEYED = Signature(HASH, TIME, signature=BYTES, fingerprint=FINGERPRINT)
PAYLOAD = f"rye:signed:{TIME}:{HASH}:{BYTES}:{FINGERPRINT}"
LINE = f"# {PAYLOAD}"
HTML = f"<!-- {PAYLOAD} -->"
SHEBANGS = ("#!/usr/bin/env python", "#! /usr/bin/env python", "#!python", "#!")

# Fragments with syntactic meaning, so that random texts contain many of them.
PARTS = st.sampled_from(
    ["\ufeff", "#!", "\n", "\r\n", "\r", "# ", LINE, HTML, "rye:signed:", "-->", "\u2028", "x", ""]
)
TEXTS = st.lists(PARTS | st.text(max_size=4), max_size=8).map("".join)


def facts(signature: Signature | None) -> tuple[str, ...] | None:
    """Return the fields of a signature for comparison."""
    if signature is None:
        return None
    return (
        signature.form,
        signature.timestamp,
        signature.hash,
        signature.signature,
        signature.fingerprint,
    )


class TestTheLine:
    """The format of the line."""

    @pytest.mark.parametrize("extension", EXTENSIONS[1:])
    def test_it_is_a_comment_of_a_tool(self, extension: str) -> None:
        assert f"# rye:validated:{TIME}:{HASH}" == line_of(PLAIN, extension)
        assert LINE == line_of(KEYED, extension)

    def test_it_is_a_comment_of_markdown(self) -> None:
        assert f"<!-- rye:validated:{TIME}:{HASH} -->" == line_of(PLAIN, ".md")
        assert HTML == line_of(KEYED, ".md")

    def test_an_answer_tells_what_it_says(self) -> None:
        expected = {"form": SIGNED, "timestamp": TIME, "hash": HASH, "fingerprint": FINGERPRINT}

        assert expected == KEYED.info()
        assert {**expected, "form": VALIDATED, "fingerprint": None} == PLAIN.info()

    def test_a_key_signs_the_text_under_its_name_and_at_its_time(self) -> None:
        expected = f"rye-signature-1\ntool\na/b\n{HASH}\n{TIME}".encode()

        assert expected == message_of("tool", "a/b", HASH, TIME)


class TestThePlace:
    """The position of the line and its line ending."""

    @pytest.mark.parametrize(
        ("bare", "extension", "expected"),
        [
            ("text\n", ".md", f"{HTML}\ntext\n"),
            ("text", ".md", f"{HTML}\ntext"),
            ("", ".md", f"{HTML}\n"),
            ("\ufefftext\n", ".md", f"\ufeff{HTML}\ntext\n"),
            ("#!/bin/sh\ntext\n", ".md", f"{HTML}\n#!/bin/sh\ntext\n"),
            ("---\r\na: 1\n", ".md", f"{HTML}\r\n---\r\na: 1\n"),
            ("---\na: 1\r\n", ".md", f"{HTML}\n---\na: 1\r\n"),
            ("a\rb\n", ".py", f"{LINE}\na\rb\n"),
            ("\n", ".py", f"{LINE}\n\n"),
            ("\r\n", ".py", f"{LINE}\r\n\r\n"),
            *((f"{first}\nx = 1\n", ".py", f"{first}\n{LINE}\nx = 1\n") for first in SHEBANGS),
            ("#!x\r\ny: 1\r\n", ".yaml", f"#!x\r\n{LINE}\r\ny: 1\r\n"),
            ("\ufeff#!x\ny: 1\n", ".yml", f"\ufeff#!x\n{LINE}\ny: 1\n"),
            ("#!x\n", ".py", f"#!x\n{LINE}\n"),
            ("#!x", ".py", f"#!x\n{LINE}"),
            ("# !x\n", ".py", f"{LINE}\n# !x\n"),
            ("\n#!x\n", ".py", f"{LINE}\n\n#!x\n"),
        ],
    )
    def test_it_is_first_and_ends_as_the_text_does(
        self, bare: str, extension: str, expected: str
    ) -> None:
        assert expected == with_line(bare, extension, line_of(KEYED, extension))

    @given(TEXTS, st.sampled_from(EXTENSIONS), st.sampled_from([PLAIN, KEYED]))
    @example("#!x", ".py", KEYED)
    @example("#!x\r", ".py", KEYED)
    @example("#!\ufeff", ".py", KEYED)
    @example("\ufeff", ".py", PLAIN)
    @example(f"{LINE}\n#!x", ".py", PLAIN)
    def test_what_is_put_in_comes_out_and_leaves_the_text_as_it_was(
        self, bare: str, extension: str, signature: Signature
    ) -> None:
        found, rest = split(with_line(bare, extension, line_of(signature, extension)), extension)

        assert (facts(signature), bare) == (facts(found), rest)

    @given(TEXTS, st.sampled_from(EXTENSIONS))
    def test_what_is_taken_out_of_any_text_is_one_line_at_its_place(
        self, text: str, extension: str
    ) -> None:
        found, bare = split(text, extension)
        again = with_line(bare, extension, line_of(found, extension)) if found else bare

        assert text.replace("\r\n", "\n") == again.replace("\r\n", "\n")

    @pytest.mark.parametrize(
        ("text", "extension"),
        [
            (f"\n{HTML}\n", ".md"),
            (f"text\n{HTML}\n", ".md"),
            (f"---\na: 1\n---\n{HTML}\n", ".md"),
            (f"{LINE}\ntext\n", ".md"),
            (f"{HTML}\nx = 1\n", ".py"),
            (f"\n{LINE}\nx = 1\n", ".py"),
            (f"x = 1\n{LINE}\n", ".py"),
            (f"#!x\n\n{LINE}\n", ".py"),
            (f"#!x\n#!y\n{LINE}\n", ".py"),
            (f"{LINE}\n#!x\n", ".py"),
            (f"{LINE}\n\ufeffx = 1\n", ".py"),
            (f"{HTML}\n\ufefftext\n", ".md"),
            (f"\ufeff\ufeff{LINE}\n", ".py"),
            (LINE, ".py"),
            (HTML, ".md"),
        ],
    )
    def test_elsewhere_it_is_text(self, text: str, extension: str) -> None:
        assert (None, text) == split(text, extension)


class TestTheGrammar:
    """A line with any other content is not a signature, so it cannot hide code."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("# ", "#"),
            ("# ", "#  "),
            ("# ", " # "),
            ("# ", "// "),
            ("rye", "RYE"),
            ("rye:signed", "kiwi-mcp:validated"),
            ("signed", "validated"),
            ("signed", "sealed"),
            ("Z", "z"),
            ("T", " "),
            ("2026", "２０２６"),  # noqa: RUF001 - digits of another script
            ("2026", "02026"),
            ("Z", "+00:00"),
            (HASH, HASH.upper()),
            (HASH, HASH[:-1]),
            (HASH, f"{HASH}0"),
            ("Q==", "Q"),
            ("Q==", "R=="),
            ("Q==", "AQ=="),
            ("AQ==", "+Q=="),
            ("AQ==", "/Q=="),
            (f":{FINGERPRINT}", ""),
            (FINGERPRINT, FINGERPRINT.upper()),
            (FINGERPRINT, f"{FINGERPRINT}|somebody"),
            (FINGERPRINT, f"{FINGERPRINT} "),
            (FINGERPRINT, f"{FINGERPRINT}\t"),
            (FINGERPRINT, f"{FINGERPRINT}\r\r"),
            (FINGERPRINT, f"{FINGERPRINT}; import os"),
            (FINGERPRINT, f"{FINGERPRINT}\u2028"),
        ],
    )
    def test_another_spelling_is_text(self, old: str, new: str) -> None:
        text = f"{LINE.replace(old, new, 1)}\nx = 1\n"

        assert (None, text) == split(text, ".py")

    @pytest.mark.parametrize(
        "line",
        [
            HTML.replace("<!-- ", "<!--"),
            HTML.replace(" -->", "-->"),
            HTML.replace(" -->", " --> "),
            HTML.replace(" -->", " --> do this too <!-- -->"),
            HTML.replace(" -->", " do this too -->"),
            HTML.replace(" -->", ""),
            HTML.replace(" -->", "\n-->"),
            f" {HTML}",
        ],
    )
    def test_another_spelling_of_the_comment_is_text(self, line: str) -> None:
        assert (None, f"{line}\ntext\n") == split(f"{line}\ntext\n", ".md")

    def test_a_form_without_a_key_has_no_signature_in_it(self) -> None:
        text = f"# rye:validated:{TIME}:{HASH}:{BYTES}:{FINGERPRINT}\nx = 1\n"

        assert (None, text) == split(text, ".py")

    def test_only_the_first_of_two_lines_is_one(self) -> None:
        found, rest = split(f"{LINE}\n{LINE}\nx = 1\n", ".py")

        assert (facts(KEYED), f"{LINE}\nx = 1\n") == (facts(found), rest)


class TestStaleLines:
    """Signing replaces comments that look like a signature but are invalid."""

    @pytest.mark.parametrize(
        ("text", "extension", "expected"),
        [
            (f"{LINE} \nx = 1\n", ".py", "x = 1\n"),
            ("# rye:signed:\nx = 1\n", ".py", "x = 1\n"),
            ("#rye:validated:then\r\nx = 1\r\n", ".py", "x = 1\r\n"),
            ("# kiwi-mcp:validated:then:hash\nx: 1\n", ".yaml", "x: 1\n"),
            (f"{LINE}\n# rye:signed:x\nx = 1\n", ".py", "x = 1\n"),
            ("#!x\n# rye:signed:x\nx = 1\n", ".py", "#!x\nx = 1\n"),
            (f"{LINE}\n#!x\nx = 1\n", ".py", "#!x\nx = 1\n"),
            ("#!x\n# rye:signed:x", ".py", "#!x"),
            ("\ufeff# rye:signed:x\nx: 1\n", ".yml", "\ufeffx: 1\n"),
            ("<!-- rye:signed:x -->\ntext\n", ".md", "text\n"),
            ("<!--kiwi-mcp:validated:x|somebody@here--> \ntext\n", ".md", "text\n"),
        ],
    )
    def test_they_are_taken_out(self, text: str, extension: str, expected: str) -> None:
        assert expected == without_stale(text, extension)

    @pytest.mark.parametrize(
        ("text", "extension"),
        [
            ("x = 1\n# rye:signed:x\n", ".py"),
            ("\n# rye:signed:x\n", ".py"),
            ("# rye:signed:x\rimport os\n", ".py"),
            ("# rye:signed:x\u2028a: 1\n", ".yaml"),
            ("# rye:signed:x\x85a: 1\n", ".yaml"),
            ("# rye:other:x\n", ".py"),
            ("# rye-notes\n", ".py"),
            ("<!-- rye:signed:x -->\n", ".py"),
            ("<!-- rye:signed:x\nhidden -->\ntext\n", ".md"),
            ("<!-- rye:signed:x --> text\n", ".md"),
            ("<!-- rye:signed:x --> text <!-- -->\n", ".md"),
            ("# rye:signed:x\n", ".md"),
        ],
    )
    def test_what_may_be_text_stays(self, text: str, extension: str) -> None:
        assert text == without_stale(text, extension)


class TestTheDigest:
    """The text that the digest covers."""

    def test_it_is_the_sha256_of_the_text(self) -> None:
        assert sha256("\ufeffä\n".encode()).hexdigest() == digest_of("\ufeffä\n")

    def test_it_is_the_same_however_lines_end(self) -> None:
        assert 1 == len({digest_of("a\nb\n"), digest_of("a\r\nb\r\n"), digest_of("a\nb\r\n")})

    @pytest.mark.parametrize("other", ["a\rb\n", "a\nb", "a\n\nb\n", "a\r\r\nb\n", "\ufeffa\nb\n"])
    def test_everything_else_changes_it(self, other: str) -> None:
        assert digest_of("a\nb\n") != digest_of(other)
