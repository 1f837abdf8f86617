"""Reads SQL as tokens: as far as it takes to find its parameters, its end and what is near them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralphgen.errors import Problem, ProjectError
from ralphgen.runtime.engine.schema import fold

# In this order: a comment may hold quotes, a text may hold "--", and "::" is no parameter.
_FORMS = {
    "comment": r"--[^\n]*|/\*.*?\*/",
    "text": r"'(?:[^']|'')*'",
    "name": r'"(?:[^"]|"")*"',
    "cast": r"::",
    "parameter": r":[A-Za-z_]\w*",
    "number": r"0[xX][0-9A-Fa-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "word": r"[^\W\d]\w*",
    "space": r"\s+",
    "sign": r"->>|->|<=|>=|<>|!=|==|\|\||.",
}
# SQLite has other ways to quote a name, and takes more characters without quotes.
_SQLITE = {
    "bracketed": r"\[[^\]]*\]|`(?:[^`]|``)*`",
    "word": r"[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL: its kind, its text, and the line of its file where it begins."""

    kind: str
    text: str
    line: int

    @property
    def name(self) -> str:
        """The name that it stands for, without quotes; empty where it is none."""
        if self.kind == "word":
            return self.text
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "bracketed":
            return self.text[1:-1].replace("``", "`") if self.text[0] == "`" else self.text[1:-1]
        return ""

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these words, given in upper case, without quotes."""
        return self.kind == "word" and self.text.upper() in words

    def is_named(self, name: str) -> bool:
        """Return whether it stands for this name, whatever the case of its ASCII letters."""
        return self.name != "" and fold(self.name) == fold(name)


def read_tokens(text: str, where: str, line: int, *, sqlite: bool) -> tuple[Token, ...]:
    """Return the tokens of a text that begins in a line of the file `where`, spaces included.

    Raises `ProjectError` for quotes and comments that do not end, and for forms in which the text
    could end elsewhere than it seems.
    """
    forms = {**_SQLITE, **_FORMS, **_SQLITE} if sqlite else _FORMS
    pattern = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in forms.items()), re.DOTALL)
    tokens: list[Token] = []
    for found in pattern.finditer(text):
        token = Token(found.lastgroup or "", found[0], line)
        problem = _problem(token, tokens[-1] if tokens else None, sqlite=sqlite)
        if problem:
            raise ProjectError(f"{where}:{line}: {problem}")
        tokens.append(token)
        line += token.text.count("\n")
    return tuple(tokens)


def _problem(token: Token, before: Token | None, *, sqlite: bool) -> str:
    """Return what is wrong with a token, behind the one before it; empty where nothing is."""
    problem = ""
    if token.kind == "sign" and token.text in (("'", '"', "`") if sqlite else ("'", '"')):
        problem = f"unterminated {token.text}"
    elif token.text == "*" and before is not None and before.text == "/":
        problem = "unterminated comment"
    elif token.kind == "comment" and "/*" in token.text[2:]:
        problem = "nested comment: remove the inner /*"
    elif token.kind == "text" and before is not None and before.is_word("E"):
        problem = "unsupported string E'…': use plain quotes"
    elif token.text == "$" and not sqlite:
        problem = 'unexpected "$": use single quotes for strings, and :name for parameters'
    elif token.kind == "sign" and token.text in ("?", "@", "$") and sqlite:
        problem = f'unsupported parameter "{token.text}": use :name'
    return problem


def without_comments(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens that mean something: without comments and spaces."""
    return tuple(token for token in tokens if token.kind not in ("comment", "space"))


def one_line(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens without comments, each run of spaces between them as one space."""
    pending = False
    begun = False
    for token in tokens:
        if token.kind in ("comment", "space"):
            pending = begun
            continue
        if pending:
            yield Token("space", " ", token.line)
        yield token
        pending, begun = False, True


def refuse_further(tokens: Sequence[Token], where: str) -> tuple[Token, ...]:
    """Return the tokens of the one statement that there is, without what ends it.

    Raises `ProjectError` where there is another behind it, or none at all.
    """
    ends = [at for at, token in enumerate(tokens) if token.text == ";"]
    if not ends:
        return tuple(tokens)
    further = without_comments(tokens[ends[0] + 1 :])
    if further:
        place = f"{where}:{further[0].line}"
        raise ProjectError.of(
            [Problem(f"{place}: second statement, expected one", "give it its own name line")]
        )
    return tuple(tokens[: ends[0]])
