"""Measure how far the English of a checkout is from idiomatic technical English.

    python prose.py [PATH ...] [--by room|kind|file] [--worst 20] [--log 200] [--goal]

The tool reads the text of a project: docstrings, comments, string literals that form a sentence
(messages, hints, help), test names, Markdown and reStructuredText, Jinja templates and, with --log,
commit subjects. It counts the patterns below per 1,000 words. Native technical prose rarely shows
them. A single hit proves nothing; a high rate does.

Exit codes: 0; 1 if --goal is given and a rate exceeds its goal; 2 for a usage error.
"""

import argparse
import ast
import collections
import io
import random
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED = {
    ".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "build", "dist", "_build",
    "locale", "vendor", "site-packages", ".tox", ".mypy_cache", ".ruff_cache", ".pytest_cache",
}  # fmt: skip
MESSAGE_KEYWORDS = {
    "help",
    "short_help",
    "epilog",
    "hint",
    "message",
    "msg",
    "description",
    "summary",
}
SQL = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE [a-z_\"{]+ SET|DELETE FROM|CREATE|ALTER|DROP|WITH \w+ AS|PRAGMA)\b"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)
STRINGS = (ast.Constant, ast.JoinedStr)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, cell, heading, comment or string, with the place it comes from."""

    path: str
    line: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One match of a pattern in a text."""

    pattern: str
    text: Text
    match: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, the rate to stay below, and a test for legitimate uses."""

    name: str
    regex: re.Pattern[str]
    goal: float
    advice: str
    allow: Callable[[re.Match[str]], bool] = lambda match: False


def _before(match: re.Match[str], count: int = 1) -> list[str]:
    return [
        word.lower()
        for word in WORD.findall(match.string[max(0, match.start() - 40) : match.start()])[-count:]
    ]


def _is_question(match: re.Match[str]) -> bool:
    end = re.search(r"[.?!;]", match.string[match.end() :])
    return bool(end and end.group() == "?")


# Verbs after which "what ..." is an indirect question, which is idiomatic.
ASKING = set(
    [
        "see",
        "know",
        "knows",
        "knowing",
        "understand",
        "determine",
        "determines",
        "decide",
        "decides",
        "explain",
        "explains",
        "describe",
        "describes",
        "describing",
        "check",
        "checks",
        "choose",
        "find",
        "figure",
        "out",
        "about",
        "matter",
        "matters",
        "exactly",
        "clear",
        "sure",
        "define",
        "defines",
        "control",
        "controls",
        "specify",
        "specifies",
        "tell",
        "on",
        "from",
        "guess",
        "inspect",
        "learn",
        "review",
        "show",
        "shows",
        "showing",
        "like",
        "just",
        "is",
        "was",
        "than",
    ]
)
PLACES = set(
    [
        "place",
        "places",
        "case",
        "cases",
        "situation",
        "situations",
        "location",
        "locations",
        "directory",
        "directories",
        "position",
        "point",
        "points",
        "is",
        "to",
        "from",
        "and",
        "or",
        "instances",
        "example",
        "examples",
        "instance",
        "scenario",
        "scenarios",
        "environment",
        "environments",
        "line",
        "lines",
        "spot",
        "know",
        "exactly",
        "module",
        "page",
        "pages",
        "section",
        "areas",
        "world",
        "url",
        "path",
        "somewhere",
        "everywhere",
        "know",
        "see",
    ]
)
EXISTENTIAL = {"there", "if", "when"}
PEOPLE = set(
    [
        "you",
        "user",
        "users",
        "we",
        "i",
        "he",
        "she",
        "they",
        "people",
        "reader",
        "anyone",
        "everyone",
        "who",
        "maintainers",
        "doc",
        "docs",
    ]
)
SAID = "told|shown|said|listed|named|found|left|kept|given|meant|held|taken|made|asked|written|missing|next|stale|known"
FREE = (
    "is are was were has had have can could may must should would will cannot it they a an the each every no some "
    "all nobody somebody another came comes follows stands lies ran runs goes one its their others other only this "
    "that these those who which you your we an agent client session person git tool was not there belongs remains "
    "passed passes fits counts holds differs changed happens happened keeps left gets makes looks"
)


def _pattern(
    name: str,
    regex: str,
    goal: float,
    advice: str,
    allow: Callable[[re.Match[str]], bool] | None = None,
) -> Pattern:
    return Pattern(
        name, re.compile(regex, re.IGNORECASE), goal, advice, allow or (lambda match: False)
    )


PATTERNS = (
    _pattern(
        "what-clause", rf"\bwhat(ever)? (?:{'|'.join(dict.fromkeys(FREE.split()))})\b", 1.2,
        "name the thing: 'the result', 'the settings', 'the changed files'",
        lambda m: _is_question(m) or bool(ASKING & set(_before(m))),
    ),
    _pattern(
        "those-that", r"\b(?:those|all|one|ones) (?:that|which|who)\b|\bthose (of|in|it|with|for|from)\b|\ball else\b", 0.6,
        "repeat the noun: 'columns that ...', 'every other ...'",
    ),
    _pattern(
        "where-for-if", r"\bwhere (it|they|there|a|an|the|no|none|nothing|nobody|one|each|that|this|git|you|what|its|any|all|both|agents?|tasks?)\b", 0.7,
        "write 'if' or 'when'",
        lambda m: bool(PLACES & set(_before(m))) or _is_question(m),
    ),
    _pattern(
        "is-no", r"\b(?:is|are|was|were|be) (?:no(?! (?:longer|different|more|way|need|point|problem|guarantee|doubt|reason|one|such|exception))|none) \w+", 0.5,
        "write 'is not a ...' or name the valid values",
        lambda m: "None" in m.group() or bool(EXISTENTIAL & set(_before(m))) or _before(m)[-1:] in (["should"], ["must"]),
    ),
    _pattern(
        "stand-lie", r"\b(stands?|stood|lies|lie|lay|lain|laid|stays?|stayed)\b(?! (for|alone|out|up|in for|by|still|away|within|on top|ahead|informed|tuned|up to date))", 0.4,
        "write 'is', 'contains', 'remains'",
        lambda m: bool({"and", "it", "long", "must", "to"} & set(_before(m))) and m.group().lower() in {"stay", "stays"},
    ),
    _pattern(
        "say-tell-want", r"\b(says?|said|tells|told|wants|wanted|knows|speaks|spoken|hears|forgets)\b", 1.0,
        "software reports, prints, states, requires, expects, supports",
        lambda m: m.group() == "Say" or bool(PEOPLE & set(_before(m, 2))) or m.string[m.end() :].startswith((" about", " how to")),
    ),
    _pattern(
        "of-its-own", r"\bof (its|their|your|his|one's|our|my|a|the|another|each) (\w+'s )?own\b|\b(an)?other's\b|\bown (one|ones)\b", 0.3,
        "write 'its own ...' before the noun, or 'a separate ...'",
    ),
    _pattern(
        "old-words",
        r"\b(anew|afresh|unasked|in vain|beside|thither|therewith|over night|as it is|as they (?:are|were)|is at it|but for|nothing but|"
        r"(?:take|takes|taken|took|taking) (?:\w+ )?(?:away|back)|(?:give|gives|given|gave|giving) (?:\w+ )?back|(?:set|sets|setting) (?:\w+ )?back|"
        r"(?:go|goes|went|going) on\b(?! to)|(?:look|looks) over|(?:come|comes|came|bring|brings|brought) along|belongs? into|give free|"
        r"came of it|made anew|put back|keeps? apart|each for itself|by the way|taken over|so that)\b",
        0.6, "use the plain verb: regenerate, revert, release, continue, restore, inspect",
        lambda m: m.group().lower() == "so that" or (m.group().lower().startswith("as the") and "soon" in _before(m)),
    ),
    _pattern(
        "person", r"\b(?:a|the|one|that|another|every|each|no|its|which|by) persons?\b|\bpersons?'s?\b|\bnobody\b|\bsomebody\b|\bwhoever\b|\bpersons\b", 0.2,
        "write 'you', 'the user', 'no one', 'another session'",
    ),
    _pattern("is-to-be", r"\b(is|are|was|were) to be \w+|\bhow it is (made|called|told)\b", 0.2, "write 'must', 'should', or the active verb"),
    _pattern("prep-which", r"\b(of|in|by|with|to|from|on|for|at|under|behind|after) (?:which|whom|whose)\b(?! case\b)", 0.9, "split the sentence, or put the verb first"),
    _pattern(
        "inversion",
        rf"(?:^|[.;:] )(?:{SAID}) (?:is|are|was|were) (?:what|that|those|a|an|the|it|its|each|every|make)\b|\b(?:so|nor|neither) (?:does|do|is|are|did) (?:it|they|the|a|each|what)\b|"
        r"(?:^|\. )(?:with|in|on|of|from|without|behind|beside|between) [\w-]+(?: [\w-]+){0,2} (?:is|are|stands|goes|comes|lies|go) (?:what|the|a|an|those|its)\b",
        0.15, "put the subject first",
    ),
    _pattern(
        "headless", r"^(?:What|How|Whether|Who|Whose|When|Where|Which|That|As|Its|Of|So|Whatever)\b(?! to\b)[^?]{3,90}\.?$", 0.5,
        "start with a verb (function) or a noun (class, option)",
        lambda m: bool(re.search(r"[,:;]", m.group())) or m.string.rstrip().endswith("?") or len(WORD.findall(m.group())) > 12,
    ),
)  # fmt: skip
TOTAL_GOAL = 5.0
ENOUGH_WORDS = 5_000
GROUP_GOAL = 8.0
GROUP_WORDS = 1_000
PARTICIPLES = set(
    [
        "told",
        "shown",
        "said",
        "listed",
        "named",
        "given",
        "made",
        "kept",
        "held",
        "left",
        "found",
        "taken",
        "asked",
        "meant",
        "written",
        "put",
        "known",
        "seen",
        "read",
        "spoken",
        "brought",
        "gone",
        "lost",
        "sent",
        "got",
        "become",
        "begun",
        "borne",
        "bound",
        "chosen",
        "drawn",
        "laid",
        "lent",
        "spelled",
        "stated",
        "stood",
        "tied",
        "turned",
        "wanted",
        "weighed",
        "worded",
        "marked",
        "missing",
        "standing",
        "lying",
        "having",
    ]
)


def clean(text: str) -> str:
    """Return a text without markup: code, links, placeholders and repeated spaces are reduced."""
    text = re.sub(
        r"``[^`]+``|`[^`]*`(?:_+)?|\{\{.*?\}\}|\{%.*?%\}|<[^<>]{1,80}>",
        " CODE ",
        text,
        flags=re.DOTALL,
    )
    text = re.sub(r":[a-z:]+: ?CODE", " CODE ", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", " URL ", text)
    return re.sub(r"\s+", " ", text.replace("*", "")).strip()


def paragraphs(block: str) -> Iterator[tuple[int, str]]:
    """Yield the offset and text of each paragraph, list item, cell or heading of a markup block."""
    fenced, literal = False, None
    held: list[str] = []
    begun = 0
    for number, line in enumerate([*block.splitlines(), ""]):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if re.match(r"(```|~~~)", stripped):
            fenced = not fenced
            stripped = ""
        elif fenced or stripped.startswith((">>>", "... ", ".. ", "$ ", "@")):
            literal = (
                indent
                if stripped.startswith(".. ") and not stripped.startswith(".. note")
                else literal
            )
            stripped = ""
        elif literal is not None:
            if stripped and indent <= literal:
                literal = None
            else:
                stripped = ""
        if stripped.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", stripped):
                if len(WORD.findall(clean(cell))) > 1:
                    yield number, cell
            stripped = ""
        starts = re.match(r"([-*+]|\d+\.|#+|:\w+[^:]*:|\w+ ?(\([^)]*\))?:\s)\s*", stripped)
        if (not stripped or starts or re.fullmatch(r"[=\-~^#*+]{3,}", stripped)) and held:
            yield begun, " ".join(held)
            held = []
        if stripped and not re.fullmatch(r"[=\-~^#*+|: ]{3,}", stripped):
            begun = begun if held else number
            held.append(stripped[starts.end() :] if starts else stripped)
            if stripped.endswith("::"):
                literal = indent
                yield begun, " ".join(held)
                held = []


def _literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else " CODE " for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _literal(node.left) + _literal(node.right)
    return ""


def _docstring(statement: ast.stmt) -> ast.Constant | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _is_sentence(text: str) -> bool:
    words = WORD.findall(text)
    lower = [word for word in words if word.islower()]
    return (
        len(lower) >= 4
        and " " in text.strip()
        and not SQL.match(text)
        and len(" ".join(words)) > 0.6 * len(text.strip())
    )


def python_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the docstrings, comments and sentence-like strings of a Python module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    nodes = list(ast.walk(tree))
    documented: set[int] = set()
    for node in nodes:
        if isinstance(node, FUNCTIONS) and node.name.startswith("test_"):
            yield Text(path, node.lineno, "test", node.name.removeprefix("test_").replace("_", " "))
        if isinstance(node, DOCUMENTED) and node.body and (docstring := _docstring(node.body[0])):
            documented.add(id(docstring))
            for offset, words in paragraphs(ast.get_docstring(node) or ""):
                yield Text(path, docstring.lineno + offset, "docstring", clean(words))
    keywords = [
        node for node in nodes if isinstance(node, ast.keyword) and node.arg in MESSAGE_KEYWORDS
    ]
    helps = {id(part) for keyword in keywords for part in ast.walk(keyword.value)}
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, STRINGS) and id(node) not in documented and id(node) not in inner:
            value, is_help = _literal(node), id(node) in helps
            if _is_sentence(value) or (is_help and len(WORD.findall(value)) > 1):
                for offset, words in paragraphs(value):
                    yield Text(
                        path, node.lineno + offset, "help" if is_help else "message", clean(words)
                    )
    yield from _comments(path, source)


def _comments(path: str, source: str) -> Iterator[Text]:
    held: list[str] = []
    begun = last = 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT and not re.match(
            r"#!|# ?(fmt|noqa|type|ruff|pragma|mypy|pyright|pylint)\b", token.string
        ):
            if held and token.start[0] != last + 1:
                yield Text(path, begun, "comment", clean(" ".join(held)))
                held = []
            begun, last = (begun if held else token.start[0]), token.start[0]
            held.append(token.string.lstrip("#: ").strip())
    if held:
        yield Text(path, begun, "comment", clean(" ".join(held)))


def template_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the fixed words of a Jinja template; code between its words is left out."""
    source = re.sub(
        r"\{#(.*?)#\}", lambda match: match.group().count("\n") * "\n", source, flags=re.DOTALL
    )
    source = re.sub(
        r"\{[{%].*?[%}]\}",
        lambda match: " CODE " + match.group().count("\n") * "\n",
        source,
        flags=re.DOTALL,
    )
    if ".py." in path or path.endswith(".py"):
        found = re.finditer(r'"""(.*?)"""|#\s+(\w.*)|"([^"\n]{12,})"', source, re.DOTALL)
        for match in found:
            words = next(group for group in match.groups() if group is not None)
            if _is_sentence(words):
                yield Text(path, source.count("\n", 0, match.start()) + 1, "template", clean(words))
        return
    if ".htm" in path or ".svg" in path:
        source = re.sub(r"<(script|style)\b.*?</\1>", "", source, flags=re.DOTALL)
        source = re.sub(r"<[^>]*>", "\n\n", source)
    for offset, words in paragraphs(source):
        if len(WORD.findall(words)) > 2:
            yield Text(path, offset + 1, "template", clean(words))


def file_texts(file: Path, name: str) -> Iterator[Text]:
    """Yield the texts of one file, by its suffix."""
    source = file.read_text(encoding="utf-8", errors="replace")
    if file.suffix in {".jinja", ".j2", ".jinja2"} or (file.suffix == ".html" and "{%" in source):
        yield from template_texts(name, source)
    elif file.suffix == ".py":
        yield from python_texts(name, source)
    elif file.suffix in {".md", ".rst"}:
        for offset, words in paragraphs(source):
            yield Text(name, offset + 1, "page", clean(words))


def collect(paths: list[Path], log: int) -> Iterator[Text]:
    """Yield every text below the paths, and the subjects of the newest commits if asked for."""
    for root in paths:
        files = [root] if root.is_file() else sorted(root.rglob("*"))
        for file in files:
            inside = file.relative_to(root) if root.is_dir() else file
            if file.is_file() and not SKIPPED & set(inside.parts):
                for text in file_texts(file, inside.as_posix()):
                    if WORD.search(text.words):
                        yield text
        if log and root.is_dir():
            command = ["git", "-C", str(root), "log", f"-{log}", "--format=%h%x09%s"]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            for number, line in enumerate(answer.stdout.splitlines(), 1):
                yield Text(
                    "git log " + line.split("\t")[0],
                    number,
                    "commit",
                    clean(line.split("\t", 1)[1]),
                )


def find(text: Text) -> Iterator[Hit]:
    """Yield the hits of every pattern in a text."""
    for pattern in PATTERNS:
        if pattern.name == "headless" and text.kind not in {"docstring", "help", "comment"}:
            continue
        for match in pattern.regex.finditer(text.words):
            if not pattern.allow(match):
                yield Hit(pattern.name, text, match.group())


def room_of(path: str) -> str:
    """Return the part of a path that a table groups by: the first two folders."""
    parts = path.split("/")
    return "/".join(parts[: min(2, len(parts) - 1)]) or path.split(" ", maxsplit=1)[0]


GROUPS: dict[str, Callable[[Text], str]] = {
    "room": lambda text: room_of(text.path),
    "kind": lambda text: text.kind,
    "file": lambda text: text.path,
}


def names(paths: list[Path]) -> collections.Counter[str]:
    """Count functions whose name is a bare participle, such as told or kept_rows."""
    found: collections.Counter[str] = collections.Counter()
    for root in paths:
        for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
            if SKIPPED & set(file.parts[len(root.parts) :]) or file.suffix != ".py":
                continue
            try:
                tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
            except (SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, FUNCTIONS):
                    found["functions"] += 1
                    words = node.name.strip("_").split("_")
                    if PARTICIPLES & {words[0], words[-1]} and words[0] not in {
                        "is",
                        "has",
                        "test",
                        "was",
                        "are",
                        "read",
                        "put",
                    }:
                        found[
                            next(word for word in (words[0], words[-1]) if word in PARTICIPLES)
                        ] += 1
    return found


def group_counts(
    texts: list[Text], hits: list[Hit], by: str
) -> tuple[collections.Counter[str], collections.Counter[tuple[str, str]]]:
    """Return the words of each group, and its hits by pattern and in total."""
    group = GROUPS[by]
    words: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for text in texts:
        words[group(text)] += len(WORD.findall(text.words))
    for hit in hits:
        counts[group(hit.text), hit.pattern] += 1
        counts[group(hit.text), "total"] += 1
    return words, counts


def table(texts: list[Text], hits: list[Hit], by: str) -> Iterator[str]:
    """Yield the lines of a table of rates per 1,000 words."""
    words, counts = group_counts(texts, hits, by)
    columns = [pattern.name for pattern in PATTERNS]
    width = max([len(name) for name in words] + [8])
    yield f"{'':{width}} {'words':>8} {'total':>6} " + " ".join(
        f"{name[:9]:>9}" for name in columns
    )
    for name, size in sorted(
        words.items(), key=lambda item: -counts[item[0], "total"] / max(item[1], 1)
    ):
        rates = " ".join(f"{1000 * counts[name, column] / max(size, 1):9.2f}" for column in columns)
        yield f"{name:{width}} {size:8,} {1000 * counts[name, 'total'] / max(size, 1):6.1f} {rates}"
    size = sum(words.values()) or 1
    everything = collections.Counter(hit.pattern for hit in hits)
    rates = " ".join(f"{1000 * everything[column] / size:9.2f}" for column in columns)
    yield f"{'all':{width}} {size:8,} {1000 * len(hits) / size:6.1f} {rates}"
    yield f"{'goal':{width}} {'':8} {TOTAL_GOAL:6.1f} " + " ".join(
        f"{pattern.goal:9.2f}" for pattern in PATTERNS
    )


def failures(texts: list[Text], hits: list[Hit], by: str) -> list[str]:
    """Return a sentence for each rate that exceeds its goal.

    Short texts are exempt: a group counts from `GROUP_WORDS` words on, a pattern from `ENOUGH_WORDS`.
    """
    size = sum(len(WORD.findall(text.words)) for text in texts) or 1
    counts = collections.Counter(hit.pattern for hit in hits)
    rates = {"total": (1000 * len(hits) / size, TOTAL_GOAL)}
    if size >= ENOUGH_WORDS:
        for pattern in PATTERNS:
            rates[pattern.name] = 1000 * counts[pattern.name] / size, pattern.goal
    words, grouped = group_counts(texts, hits, by)
    for name, number in words.items():
        if number >= GROUP_WORDS:
            rates[name] = 1000 * grouped[name, "total"] / number, GROUP_GOAL
    return [
        f"{name}: {rate:.2f} per 1,000 words, goal {goal:.2f}"
        for name, (rate, goal) in rates.items()
        if rate > goal
    ]


def worst(hits: list[Hit], count: int) -> Iterator[str]:
    """Yield the texts with the most hits, densest first."""
    grouped: dict[Text, list[Hit]] = collections.defaultdict(list)
    for hit in hits:
        grouped[hit.text].append(hit)
    ranked = sorted(grouped.items(), key=lambda item: (-len(item[1]), len(item[0].words)))
    for text, found in ranked[:count]:
        yield f"{text.path}:{text.line} [{', '.join(sorted({hit.pattern for hit in found}))}]"
        yield f"    {text.words[:220]}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Count un-English patterns per 1,000 words.")
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        default=[Path()],
        help="Folders or files to read (default: .).",
    )
    parser.add_argument(
        "--by",
        choices=["room", "kind", "file"],
        default="room",
        help="Group the table by room, kind or file.",
    )
    parser.add_argument(
        "--kind",
        action="append",
        help="Only texts of this kind: docstring, comment, message, help, test, page, template, commit.",
    )
    parser.add_argument(
        "--worst", type=int, default=0, metavar="N", help="List the N texts with the most hits."
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="List N random hits, to judge the precision of the patterns.",
    )
    parser.add_argument("--seed", type=int, default=1, help="Seed of --sample (default: 1).")
    parser.add_argument(
        "--log",
        type=int,
        default=0,
        metavar="N",
        help="Also read the subjects of the newest N commits.",
    )
    parser.add_argument(
        "--goal", action="store_true", help="Exit with 1 if a rate exceeds its goal."
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="NAME",
        help="Skip folders of this name. Repeatable.",
    )
    options = parser.parse_args()
    SKIPPED.update(options.skip)
    missing = [str(path) for path in options.paths if not path.exists()]
    if missing:
        print(f"prose: no such file or folder: {', '.join(missing)}", file=sys.stderr)
        return 2
    texts = [
        text
        for text in collect(options.paths, options.log)
        if not options.kind or text.kind in options.kind
    ]
    hits = [hit for text in texts for hit in find(text)]
    print("\n".join(table(texts, hits, options.by)))
    counted = names(options.paths)
    odd = counted.total() - counted["functions"]
    top = ", ".join(
        f"{name} {count}" for name, count in counted.most_common(13) if name != "functions"
    )
    print(
        f"\nparticiple names: {odd} of {counted['functions']:,} functions ({100 * odd / max(counted['functions'], 1):.1f} %): {top}"
    )
    if options.worst:
        print("\n" + "\n".join(worst(hits, options.worst)))
    for hit in random.Random(options.seed).sample(hits, min(options.sample, len(hits))):
        print(
            f"{hit.pattern:13} {hit.match!r:32} {hit.text.path}:{hit.text.line}\n    {hit.text.words[:200]}"
        )
    above = failures(texts, hits, options.by) if options.goal else []
    for line in above:
        print(f"above the goal: {line}", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
