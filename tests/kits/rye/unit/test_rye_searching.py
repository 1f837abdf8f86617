"""Answers of a search: results, order, pages and previews."""

import json
import time
from typing import Any

import pytest
from rye_projects import SYSTEM_ITEMS, directive, knowledge, python_tool, yaml_tool
from rye_searching import answer, put, search_ids
from rye_workspaces import Workspace
from waiting import reading_requests

from ralphgen.kits.rye.server import searching
from ralphgen.kits.rye.server.signing import sign
from ralphgen.runtime.errors import DeferError
from ralphgen.runtime.values import MAX_CHARACTERS, size


def only(workspace: Workspace, query: str, **given: Any) -> dict[str, Any]:
    """Return the only result of a search."""
    (result,) = answer(workspace, query, **given)["results"]
    told: dict[str, Any] = result
    return told


class TestAnswers:
    """The fields of an answer and of its results."""

    def test_answer_repeats_the_search_options(self, workspace: Workspace) -> None:
        place = {"item_type": "tool", "project_path": str(workspace.root)}

        assert {
            "status": "success",
            "results": [],
            "total": 0,
            "query": "needle",
            "search_type": "keyword",
            "item_type": "tool",
            "source": "all",
            "limit": 10,
            "offset": 0,
            "hint": '"fuzzy": {} also finds misspelled words',
        } == answer(workspace, "needle", **place, source=None, limit=None)

    def test_result_describes_its_item(self, workspace: Workspace) -> None:
        file = put(
            workspace, "area/one", "The needle.", title="On needles", created_at="2026-01-02"
        )
        result = only(workspace, "needle")

        assert result.pop("score") > 0
        assert {
            "id": "area/one",
            "type": "knowledge",
            "name": "one",
            "title": "On needles",
            "category": "area",
            "source": "project",
            "path": str(file),
            "preview": "The needle.",
            "signature": "unsigned",
            "metadata": {
                "version": "1.0.0",
                "entry_type": "reference",
                "created_at": "2026-01-02",
                "tags": ["sample"],
            },
        } == result

    @pytest.mark.parametrize(
        ("item_type", "text", "extension"),
        [
            ("directive", directive("area/one", description="Finds a needle"), ".md"),
            ("tool", python_tool("area/one", tool_description="Finds a needle"), ".py"),
            ("tool", yaml_tool("area/one", description="Finds a needle"), ".yaml"),
            ("knowledge", knowledge("area/one", description="Finds a needle"), ".md"),
        ],
        ids=["directive", "Python tool", "YAML tool", "knowledge"],
    )
    def test_description_of_every_type_is_found_and_shown(
        self, workspace: Workspace, item_type: str, text: str, extension: str
    ) -> None:
        workspace.put(item_type, "area/one", text, extension=extension)
        result = only(workspace, "description:needle")

        assert (item_type, "Finds a needle") == (result["type"], result["description"])

    def test_invalid_item_is_found_with_its_problems(self, workspace: Workspace) -> None:
        workspace.put("directive", "broken", "a needle without any XML")
        result = only(workspace, "needle")

        assert ("broken", "broken") == (result["id"], result["title"])
        assert len(result["problems"]) == 1

    def test_signature_is_reported_but_not_searched(self, workspace: Workspace) -> None:
        file = workspace.put("directive", "one", directive("one"))
        place = {"item_type": "directive", "item_id": "one", "project_path": str(workspace.root)}
        sign(workspace.rye, place)
        fingerprint = file.read_text(encoding="utf-8").splitlines()[0].split(":")[-1][:16]

        assert ["valid"] == [only(workspace, "greet")["signature"]]
        assert "rye" not in only(workspace, "greet")["preview"]
        assert [] == search_ids(workspace, "signed")
        assert [] == search_ids(workspace, fingerprint)
        with file.open("a", encoding="utf-8") as stream:
            stream.write("more")
        assert "modified" == only(workspace, "more")["signature"]

    def test_metadata_shows_only_short_json_values(self, workspace: Workspace) -> None:
        text = (
            f"---\nid: one\ntitle: T\nversion: 1.0.0\nentry_type: x\nlong: '{'y' * 5_000}'\n"
            "nested: {a: 1}\nlist: [a, [b], 3, true]\nfloat: .nan\nempty: ''\n"
            f"big: {'9' * 30}\n---\n\nneedle\n"
        )
        workspace.put("knowledge", "one", text)
        metadata = only(workspace, "needle")["metadata"]

        assert 500 == len(metadata.pop("long"))
        assert {"version", "entry_type"} <= metadata.keys()
        assert not {"nested", "empty"} & metadata.keys()
        json.dumps(metadata, allow_nan=False)

    def test_answer_has_a_maximum_size(self, workspace: Workspace) -> None:
        tags = [f"tag{number}-{'x' * 50}" for number in range(50)]
        for number in range(100):
            title = f"needle {number} {'t' * 600}"
            put(workspace, f"n{number:03d}", f"needle {'ö' * 500}", title=title, tags=tags)
        told = answer(workspace, "needle")
        shown = [result["id"] for result in told["results"]]
        more = search_ids(workspace, "needle", offset=told["next_offset"])

        assert size(told) <= MAX_CHARACTERS
        assert (100, len(shown)) == (told["total"], told["next_offset"])
        assert 0 < len(shown) < 100
        assert not {*shown} & {*more}

    def test_slow_results_are_deferred(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(workspace, "one", "needle")
        monkeypatch.setattr(searching, "LONG", -1.0)
        with reading_requests(), pytest.raises(DeferError):
            search_ids(workspace, "needle")

        assert ["one"] == search_ids(workspace, "needle")


class TestPages:
    """Pages and sort orders."""

    def lay(self, workspace: Workspace) -> None:
        dates = {"c": "2026-01-03", "a": "2026-01-02T10:00:00Z", "b": None, "x/a": "2026-01-03"}
        for item_id, date in dates.items():
            values = {"created_at": date} if date else {}
            put(workspace, item_id, "needle", title="t", **values)
        workspace.put("directive", "d", directive("d", body="needle"))
        workspace.put("knowledge", "c", knowledge("c", "needle", title="t"), space="user")

    def test_an_empty_query_lists_all_by_source_type_and_id(self, workspace: Workspace) -> None:
        self.lay(workspace)
        everything = search_ids(workspace, "  ", source="all")
        system = [name for names in SYSTEM_ITEMS.values() for name in sorted(names)]

        assert ["d", "a", "b", "c", "x/a", "c", *system] == everything

    def test_results_can_be_sorted_by_name_and_by_date(self, workspace: Workspace) -> None:
        self.lay(workspace)

        assert ["a", "x/a", "b", "c", "d"] == search_ids(workspace, "needle", sort_by="name")
        assert ["c", "x/a", "a", "d", "b"] == search_ids(workspace, "needle", sort_by="date")


class TestPreviews:
    """Previews of the first match."""

    def preview(self, workspace: Workspace, body: str, query: str) -> str:
        put(workspace, "one", body)
        told = str(only(workspace, query)["preview"])
        assert len(told) <= 200
        return told

    def test_preview_shows_the_words_around_the_first_match(self, workspace: Workspace) -> None:
        body = f"{'before ' * 100}the\n\tNeedle\x07 {'after ' * 100}"
        told = self.preview(workspace, body, "needle")

        assert told.startswith("…before ")
        assert " before the Needle after after " in told
        assert told.endswith("…")

    def test_preview_starts_with_the_body_if_only_the_metadata_match(
        self, workspace: Workspace
    ) -> None:
        assert "What was learned." == self.preview(workspace, "What was learned.\n", "name:one")
        assert "What was learned." == self.preview(workspace, "What was learned.\n", "")

    @pytest.mark.parametrize(
        ("before", "expected"),
        [("# Welcome\n\n", "# Welcome ```xml <directive"), ("", "…Says welcome</description>")],
    )
    def test_preview_of_a_directive_starts_with_its_purpose(
        self, workspace: Workspace, before: str, expected: str
    ) -> None:
        text = directive("x/one", description="Says welcome", body="Last words.")
        workspace.put("directive", "x/one", before + text[text.index("```xml") :])
        result = only(workspace, "", item_type="directive")

        assert result["preview"].startswith(expected)
        assert "preamble" not in result["metadata"]

    def test_long_query_on_long_texts_is_fast(self, workspace: Workspace) -> None:
        """Ten such items once took half a minute and blocked all other calls."""
        for number in range(3):
            put(workspace, f"x{number}", f"first {'other words ' * 80_000} zebra")
        query = " OR ".join(("zebra", *(f"n{number}" for number in range(190))))
        assert 3 == answer(workspace, "zebra")["total"]
        begun = time.process_time()
        results = answer(workspace, query)["results"]

        assert time.process_time() - begun < 2
        assert ["first other words"] * 3 == [result["preview"][:17] for result in results]

    def test_preview_shows_any_matching_word_of_a_long_query(self, workspace: Workspace) -> None:
        query = " OR ".join((*(f"n{number}" for number in range(100)), "needle", "h*y", "*"))

        assert "the needle" in self.preview(workspace, f"{'- ' * 300}the needle", query)
        assert "the hxy" in self.preview(workspace, f"{'- ' * 300}the hxy", query)

    def test_preview_cuts_one_long_word(self, workspace: Workspace) -> None:
        told = self.preview(workspace, "x" * 5_000, "name:one")

        assert "x" * 199 + "…" == told
