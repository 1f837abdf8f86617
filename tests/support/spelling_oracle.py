"""Hostile texts, and ruff as the judge of their encodings."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

RUFF = str(Path(sys.executable).with_name("ruff"))
RULES = "E,F,W,Q,D,PLE,RUF001,RUF002,RUF003,ERA,FIX,TD,PGH,ISC"
OTHER_CONVENTION = "D107,D203,D213"
GOOGLE = 'lint.pydocstyle.convention = "google"'

HOSTILE = [
    *("'", '"', "\\", "\n", "\r", "\t", "\0", "\x1b", "\x85", "\xa0", " ", "  ", "{{ x }}", "{%"),
    *('"""', '""', "\\N{", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800"),
    *(
        "\udc00",
        "\u0430",
        "\u0441",
        "\u0416",
        "\u0416\u0430",
        "\u03b1",
        "\u03a9",
        "\uff10",
        "\ufb01",
    ),
    *("\u0301", "\xe9", "\xdf", "\xb2", "\u2192", "\u2705", "\U0001f680", "\u65e5\u672c", "\u30ce"),
    *("a", "word ", "a sentence. ", "x" * 45, "12", "#", "|", "`", "<b>", "%s", "/*"),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(HOSTILE), max_size=30).map("".join),
    st.text(st.characters(exclude_categories=()), max_size=30),
    st.integers(0, 120).map(lambda length: ("word " * 30)[:length]),
    st.integers(0, 250).map(lambda length: "x" * length),
)


def ruff(source: str, *arguments: str) -> str:
    """Return ruff's output for a module; empty if all is well."""
    if not Path(RUFF).exists():
        pytest.skip("ruff is not installed")
    done = subprocess.run(
        [RUFF, *arguments, "--isolated", "--no-cache", "--line-length=100", "--quiet", "-"],
        input=source.encode(),
        capture_output=True,
        check=False,
    )
    return (done.stdout + done.stderr).decode()


def formatting(source: str) -> str:
    """The diff that `ruff format` would make."""
    return ruff(source, "format", "--diff")


def findings(source: str, rules: str = RULES) -> str:
    """Return the findings of `ruff check`."""
    config = ("--config", GOOGLE, f"--ignore={OTHER_CONVENTION}", "--output-format=concise")
    return ruff(source, "check", f"--select={rules}", *config)
