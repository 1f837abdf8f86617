"""A newcomer's questions are answered within two clicks from the start page, under a heading."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "README.md"
CLICKS = 2
QUESTIONS = {
    "How do I install it and see it work?": ("README.md", "Install"),
    "What do I type in the first hour?": ("docs/tutorial.md", "1. Create a project"),
    "My project has a database already: what can be served of it?": (
        "docs/tables.md",
        "Tools on your own tables",
    ),
    "How do I tell Claude Code, Cursor or Codex of the server?": (
        "README.md",
        "Use it on your project",
    ),
    "Which tools does a session get, and who decides?": (
        "docs/recipes.md",
        "What a session can change",
    ),
    "How do I write a recipe of my own?": ("docs/recipes.md", "Write your own recipe"),
    "What is an agent told when it begins?": ("docs/launch.md", "The brief"),
    "How do I keep an agent from saying done when it is not?": (
        "docs/checks.md",
        "Checks: when a task is done",
    ),
    "I changed a table: what now?": ("docs/tutorial.md", "7. Migrate the database"),
    "How do I let agents work over night?": ("docs/night.md", "Start the loop"),
    "How do several agents work at once without spoiling files?": (
        "docs/worktrees.md",
        "Run two tasks in parallel",
    ),
    "An agent did nonsense: how do I take it back?": ("docs/recovery.md", "Undo a session"),
    "How do I bring my tasks from another tool?": ("docs/import.md", "Import and export"),
    "How do we work as a team, on many machines?": ("docs/team.md", "2. Rows in PostgreSQL"),
    "How does an agent work without access to the database?": (
        "docs/http.md",
        "A session is a token",
    ),
    "What does continuous integration run?": ("docs/ci.md", "Continuous integration"),
    "Is this a sandbox? What can an agent still do?": ("docs/security.md", "The main limit"),
    "Why does it refuse to start the server of my clone?": ("docs/trust.md", ""),
    "What does this exit code mean?": ("docs/exit-codes.md", "Exit codes of launch"),
    "What does this word mean?": ("docs/concepts.md", "Glossary"),
    "Which settings are there?": ("docs/settings.md", "Settings"),
    "How do I let agents run make or npm?": ("docs/dela.md", ""),
}
ANSWERED = {  # readers' questions, with words that the answer must keep
    "How do I tell Claude Code, Cursor or Codex of the server?": "ralphgen connect claude",
    "I changed a table: what now?": "ralphgen regen",
    "How do I write a recipe of my own?": 'base = "',
    "An agent did nonsense: how do I take it back?": "ralphgen undo",
    "How do I bring my tasks from another tool?": "ralphgen init",
    "Why does it refuse to start the server of my clone?": "ralphgen trust",
    "How do I let agents run make or npm?": "ralphgen dela allow",
    "What does this exit code mean?": "| 4 |",
    "How does an agent work without access to the database?": "--token",
}


def test_twenty_questions_are_listed() -> None:
    assert len(QUESTIONS) >= 20
    assert {*ANSWERED} <= {*QUESTIONS}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(question: str) -> None:
    page, heading = QUESTIONS[question]
    text = section(page, heading)

    assert reached()[page] <= CLICKS
    assert len(text.split()) > 25
    assert ANSWERED.get(question, "") in text


def test_every_page_for_users_is_reached_within_two_clicks() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    found |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("**/*.md")}

    assert [] == sorted(page for page in found if reached().get(page, 9) > CLICKS)


def test_rows_without_a_link_are_not_reached() -> None:
    assert 0 == reached()[START]
    assert "CHANGELOG.md" in reached()
    assert "fixtures/dela/DIFFERENCES.md" not in reached()


def reached() -> dict[str, int]:
    """How many clicks lead from the start page to each page, by the links in their texts."""
    clicks, pages = {START: 0}, [START]
    for page in pages:
        for target in links(page):
            if target not in clicks:
                clicks[target] = clicks[page] + 1
                pages.append(target)
    return clicks


def links(page: str) -> Iterator[str]:
    """The pages of this repository that a page names; each one must be there."""
    path = ROOT / page
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            found = (path.parent / target).resolve()
            assert found.exists(), f"{page}: {target}"
            if found.suffix == ".md":
                yield found.relative_to(ROOT).as_posix()


def section(page: str, heading: str) -> str:
    """Return the text under a heading of a page, to the next one of its rank; or all of it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if not heading:
        return text
    plain = text.replace("`", "")
    found = re.search(
        rf"(?ms)^(#+) {re.escape(heading)}$\n(.*?)(?=^#{{1,6}} |\Z)",
        re.sub(r"(?m)^# (?=.* toml$|\.ralph)", " ", plain),
    )
    assert found is not None, f"{page}: {heading}"
    return found[2]
