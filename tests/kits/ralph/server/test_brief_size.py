"""The length of a brief: the order of cuts, and texts that are never cut."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from briefs import FULL, TASK, assign, brief, full_project, sections
from command_line import ralphgen, refused
from driving import connected, made_here, query
from making_sessions import client_of, opened


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_project(tmp_path_factory.mktemp("brief") / "p")


@pytest.fixture
def own(project: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(project, tmp_path / "own"))


# The sections of the large brief, the first cut first.
ORDER = [
    "Comments",
    "Learnings of the feature",
    "Description of the feature",
    "Architecture of the feature",
    "Boundaries of the feature",
    "Hints",
    "Pseudocode",
    "Description",
]


class TestSize:
    """Cuts, and texts that are never cut."""

    def large(self, root: Path, *, criteria: int = 10) -> None:
        text = "word " * 2_000
        for table in ("features", "tasks"):
            columns = {"features": FULL["features"], "tasks": TASK}[table]
            prose = [name for name, value in columns.items() if not value.startswith("[")]
            assign(root, table, dict.fromkeys(prose, text))
        listed = json.dumps([f"criterion {number} holds" for number in range(criteria)])
        assign(root, "tasks", {"acceptance_criteria": listed}, "WHERE id = 2")
        learnings = [{"text": f"learning {at} " + "x" * 300, "source": "human"} for at in range(60)]
        assign(root, "features", {"learnings": json.dumps(learnings)})
        for number in range(60):
            sql = "INSERT INTO task_comments (task_id, author, body) VALUES (2, 'human', ?)"
            query(root, sql, f"comment {number} " + "y" * 300)

    def test_a_large_brief_is_cut_and_names_the_place_of_the_rest(self, own: Path) -> None:
        self.large(own)
        found = brief(own, "task_execution", task=2)
        quoted = sections(found["task"])
        cut = {one["title"]: one["cut"] for one in found["sections"] if "cut" in one}

        assert 15_000 < found["characters"] <= 16_000
        assert quoted["Acceptance criteria"].count("criterion") == 10
        assert {
            "Comments (20 of 61), the newest last": "ralph://tasks/2?cursor=comments",
            "Learnings of the feature (20 of 60)": "ralph://features/auth",
            "Files of the feature": "ralph://features/auth",
            "Description of the feature": "ralph://features/auth",
            "Architecture of the feature": "ralph://features/auth",
            "Boundaries of the feature": "ralph://features/auth",
            "Dependencies and their outcomes": ("ralph://tasks/2?cursor=dependencies"),
            "Hints": "ralph://tasks/2?cursor=hints",
            "Pseudocode": "ralph://tasks/2?cursor=pseudocode",
        }.items() >= cut.items()
        assert all(f"the whole is in {resource})" in found["task"] for resource in cut.values())
        with connected(own, "task_execution", task_id=2) as driver:
            for resource in {*cut.values()}:
                read = driver.portal.call(driver.client.read_resource, resource)
                assert getattr(read.contents[0], "text", "")

    def test_the_config_sets_the_length_of_a_brief(self, own: Path) -> None:
        self.large(own)
        config = own / ".ralph/ralphgen.toml"
        for most in (5_000, 100_000):
            config.write_text(f"[brief]\nmax_characters = {most}\n", encoding="utf-8")
            found = brief(own, "task_execution", task=2)

            assert (most, True) == (found["max_characters"], found["characters"] <= most)
            assert (most == 5_000) == any("cut" in one for one in found["sections"])

    def test_comments_go_before_learnings_and_these_before_descriptions(self, own: Path) -> None:
        self.large(own)
        last: list[str] = []
        for most in (60_000, 52_000, 46_000, 40_000, 12_000, 6_000):
            config = f"[brief]\nmax_characters = {most}\n"
            (own / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
            found = brief(own, "task_execution", task=2)
            cut = {one["title"] for one in found["sections"] if "cut" in one}
            shown = sections(found["task"])
            touched = [
                title for title in ORDER if any(name.partition(" (")[0] == title for name in cut)
            ]

            assert ORDER[: len(touched)] == touched
            for title in touched[:-1]:  # nothing remains of these
                assert not [name for name in shown if name.partition(" (")[0] == title]
            assert len(last) <= len(touched)
            last = touched
        assert 5 < len(last)

    def test_neither_criteria_nor_the_system_part_are_ever_cut(self, own: Path) -> None:
        self.large(own, criteria=2_000)
        assign(own, "disciplines", {"conventions": "c " * 9_000})
        done = ralphgen("session", "brief", "task_execution", "--task", "2", "--project", own)
        found = brief(own, "task_execution", task=2)

        assert sections(found["task"])["Acceptance criteria"].count("criterion") == 2_000
        assert 9_000 == sections(found["system"])["Conventions of your discipline"].count("c")
        assert found["characters"] > 16_000
        over = (
            f"warning: {found['characters'] - 16_000:,} more than max_characters of [brief] allows"
        )
        assert over in done.stderr

    @pytest.mark.parametrize("value", ["1999", '"many"', "true", "1_000_001"])
    def test_a_size_that_makes_no_sense_is_refused(self, own: Path, value: str) -> None:
        config = own / ".ralph/ralphgen.toml"
        config.write_text(f"[brief]\nmax_characters = {value}\n", encoding="utf-8")
        said = refused("session", "brief", "yap", "--project", own, code=1)

        assert '.ralph/ralphgen.toml:2: "brief.max_characters" is' in said


class TestFeaturesAsResources:
    """With `features = "resource"` the brief names the resource, which the session can read."""

    def told(self, root: Path, mode: str, recipe: str, **rows: Any) -> tuple[str, str]:
        """Return the task part of a session's brief and the resource that it names."""
        config = f'[brief]\nfeatures = "{mode}"\n'
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        session = opened(made_here(root), recipe, **rows)
        assert session.brief is not None
        with client_of(session.mcp_config) as driver:
            return session.brief.task, driver.read("ralph://features/auth")

    @pytest.mark.parametrize(
        ("recipe", "rows"), [("task_execution", {"task": 2}), ("ramble", {"feature": "auth"})]
    )
    def test_brief_names_the_resource_and_its_sizes(
        self, own: Path, recipe: str, rows: dict[str, Any]
    ) -> None:
        inline, _ = self.told(own, "inline", recipe, **rows)
        named, resource = self.told(own, "resource", recipe, **rows)

        knowledge = ("Who may come in", "A hexagon", "No payment here", "cookies expire")
        assert all(text in inline and text in resource for text in knowledge)
        assert not [text for text in knowledge if text in named]
        assert "Read the resource ralph://features/auth (about " in named
        assert "- description: 15 characters\n- architecture: 9 characters" in named
        assert "- context_files: 1\n- learnings: 1 of 1, " in named
        assert "ralph://features" not in inline

    def test_a_feature_without_knowledge_is_named_alone(self, own: Path) -> None:
        query(own, "UPDATE features SET description = NULL, architecture = NULL")
        query(own, "UPDATE features SET boundaries = NULL, learnings = '[]', context_files = '[]'")
        named, _ = self.told(own, "resource", "task_execution", task=2)

        assert "The feature is ralph://features/auth." in named

    def test_another_value_is_refused(self, own: Path) -> None:
        config = '[brief]\nfeatures = "links"\n'
        (own / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")

        assert '.ralph/ralphgen.toml:2: "brief.features" is' in refused("regen", own, code=1)
