"""A state is read as strictly as necessary, and written so that other tools can continue."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples
from specum_projects import FIRST_STATE as FRESH

from ralphgen.kits.specum.server.specs import (
    Corrupt,
    State,
    new_state,
    read_state,
    set_aside,
    write_state,
)
from ralphgen.kits.specum.server.store import Specs
from ralphgen.runtime.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "specs/auth/.ralph-state.json"
OF_THE_PLUGIN = {
    "phase": "execution",
    "taskIndex": 2,
    "totalTasks": 7,
    "taskIteration": 3,
    "maxTaskIterations": 5,
}
COUNTERS = [
    ("taskIndex", 0),
    ("totalTasks", 0),
    ("taskIteration", 1),
    ("maxTaskIterations", 1),
    ("globalIteration", 1),
    ("maxGlobalIterations", 1),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "specs/auth").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def specs(root: Path) -> Specs:
    return Specs(str(root), str(root))


def parse_state(root: Path, content: object) -> State | Corrupt | None:
    """Return the parsed state of a file with this content; an object is written as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (root / FILE).write_bytes(data)
    state = read_state(Specs(str(root), str(root)), "auth")
    assert data == (root / FILE).read_bytes()
    return state


def fields(root: Path, content: object) -> dict[str, Any]:
    state = parse_state(root, content)
    assert isinstance(state, State)
    return state.fields


def why(root: Path, content: object) -> str:
    state = parse_state(root, content)
    assert isinstance(state, Corrupt)
    return state.reason


class TestReading:
    """States of related tools are accepted; unreliable ones are reported and not moved."""

    def test_without_a_file_or_a_folder_there_is_none(self, specs: Specs) -> None:
        assert read_state(specs, "auth") is None
        assert read_state(specs, "gone") is None

    def test_a_name_that_does_not_fit_has_no_state(self, specs: Specs) -> None:
        with pytest.raises(ToolError, match="invalid spec name"):
            read_state(specs, "../auth")

    def test_a_complete_state_is_read(self, root: Path) -> None:
        state = parse_state(
            root, {**FRESH, "phase": "tasks", "taskIndex": 4, "lastServedTask": "1.2#2"}
        )

        assert isinstance(state, State)
        assert "tasks" == state.phase
        assert [4, 0, 1, 5, 1, 100] == [state.count(field) for field, _ in COUNTERS]
        assert "1.2#2" == state.last_served

    def test_a_quick_spec_is_committed_only_on_request(self, root: Path) -> None:
        assert fields(root, {"phase": "tasks", "source": "plan"})["commitSpec"] is False
        assert fields(root, {"phase": "tasks", "source": "direct"})["commitSpec"] is True
        assert fields(root, {"phase": "tasks", "source": "plan", "commitSpec": True})["commitSpec"]

    def test_an_integer_may_be_spelled_as_a_fraction_of_none(self, root: Path) -> None:
        found = fields(root, b'{"phase": "tasks", "taskIndex": 2.0, "totalTasks": 1e1}')

        assert ("2", "10") == (str(found["taskIndex"]), str(found["totalTasks"]))

    @pytest.mark.parametrize(
        "related",
        [
            [],
            [{"name": "billing", "goal": "Bill", "score": 3}],
            [{"name": "b", "relevance": "high", "reason": "shares", "mayNeedUpdate": True}],
        ],
    )
    def test_related_specs_have_a_name_and_whatever_else(
        self, root: Path, related: list[dict[str, Any]]
    ) -> None:
        state = parse_state(root, {**FRESH, "relatedSpecs": related})

        assert isinstance(state, State)
        assert related == state.fields["relatedSpecs"]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "is not valid JSON: expecting value (line 1)"),
            (
                b"{\n oops",
                "is not valid JSON: expecting property name enclosed in double quotes (line 2)",
            ),
            (b"\xff\xfe{}", "is not UTF-8"),
            (b"[]", "must be a JSON object"),
            (b"null", "must be a JSON object"),
            (b'"research"', "must be a JSON object"),
            (b"[" * 100_000, "contains a number that is too large or is nested too deeply"),
            (
                b'{"phase": "tasks", "x": NaN}',
                "contains a number that is too large or is nested too deeply",
            ),
            (b'{"x": -Infinity}', "contains a number that is too large or is nested too deeply"),
            (b'{"x": 1e999}', "contains a number that is too large or is nested too deeply"),
            (
                b'{"x": ' + b"9" * 5_000 + b"}",
                "contains a number that is too large or is nested too deeply",
            ),
        ],
    )
    def test_a_state_must_be_a_json_object(self, root: Path, content: bytes, reason: str) -> None:
        assert f'".ralph-state.json" {reason}' == why(root, content)

    @pytest.mark.parametrize("phase", ["done", "Research", "", None, 1, ["tasks"], {}])
    def test_an_unknown_phase_is_corrupt(self, root: Path, phase: object) -> None:
        expected = (
            '".ralph-state.json" must set "phase" to one of "research", "requirements", '
            '"design", "tasks", "execution"'
        )

        assert expected == why(root, {**FRESH, "phase": phase})
        assert expected == why(root, {key: FRESH[key] for key in FRESH if key != "phase"})

    @pytest.mark.parametrize(("key", "least"), COUNTERS)
    @pytest.mark.parametrize("value", ["1", -3, 1.5, True, [1]])
    def test_a_counter_must_be_an_integer_in_range(
        self, root: Path, key: str, least: int, value: object
    ) -> None:
        expected = f'".ralph-state.json" must set "{key}" to an integer of {least} or more'

        assert expected == why(root, {**FRESH, key: value})
        assert expected == why(root, {**FRESH, key: least - 1})
        assert least == fields(root, {**FRESH, key: least})[key]

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("source", "quick", 'one of "spec", "plan", "direct"'),
            ("source", ["spec"], 'one of "spec", "plan", "direct"'),
            ("name", 1, "a string"),
            ("basePath", [], "a string"),
            ("commitSpec", 1, "true or false"),
            ("awaitingApproval", "no", "true or false"),
            ("relatedSpecs", {"name": "a"}, 'a list of objects with a "name"'),
            ("relatedSpecs", ["a"], 'a list of objects with a "name"'),
            ("relatedSpecs", [{"name": 1}], 'a list of objects with a "name"'),
        ],
    )
    def test_a_field_of_the_wrong_kind_is_corrupt(
        self, root: Path, key: str, value: object, expected: str
    ) -> None:
        reason = f'".ralph-state.json" must set "{key}" to {expected}'

        assert reason == why(root, {**FRESH, key: value})

    def test_a_state_must_be_a_file_of_the_spec(self, root: Path, specs: Specs) -> None:
        (root / FILE).mkdir()
        folder = read_state(specs, "auth")
        (root / FILE).rmdir()
        (root / "outside.json").write_text(json.dumps(FRESH), encoding="utf-8")
        (root / FILE).symlink_to("../../outside.json")
        link = read_state(specs, "auth")

        assert isinstance(folder, Corrupt)
        assert isinstance(link, Corrupt)
        assert f'"{FILE}" is a symbolic link to a path outside' in link.reason
        assert 'cannot read "specs/auth/.ralph-state.json"' in folder.reason


class TestWriting:
    """A state that is written can be read by every tool of the family, and loses nothing."""

    def test_a_new_state_holds_every_field(self, root: Path, specs: Specs) -> None:
        write_state(specs, "auth", new_state("auth"))

        assert json.dumps(FRESH, indent=2) + "\n" == (root / FILE).read_text(encoding="utf-8")

    def test_a_quick_spec_begins_with_its_tasks(self) -> None:
        state = new_state("auth", quick=True)

        assert ("plan", "tasks") == (state.fields["source"], state.phase)
        assert state.fields["commitSpec"] is False

    def test_a_missing_folder_is_created(self, root: Path, specs: Specs) -> None:
        write_state(specs, "new", new_state("new"))

        assert [".ralph-state.json"] == [path.name for path in (root / "specs/new").iterdir()]

    def test_a_change_gives_another_state_and_keeps_the_order(self, root: Path) -> None:
        before = State(fields(root, {"epicName": "e", **OF_THE_PLUGIN}))
        after = before.changed(phase="tasks", lastServedTask="V4")

        assert ("execution", "tasks") == (before.phase, after.phase)
        assert (None, "V4") == (before.last_served, after.last_served)
        assert [*before.fields, "lastServedTask"] == list(after.fields)

    def test_letters_remain_letters_and_half_a_pair_is_escaped(
        self, root: Path, specs: Specs
    ) -> None:
        state = new_state("auth").changed(goal="Füße \U0001f600 \ud83d!")
        write_state(specs, "auth", state)

        assert '"goal": "Füße \U0001f600 \\ud83d!"' in (root / FILE).read_text(encoding="utf-8")
        assert state.fields == fields(root, (root / FILE).read_bytes())

    @settings(deadline=None, max_examples=examples(40))
    @given(data=st.data())
    def test_unknown_keys_survive_in_their_order(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        values = st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
            max_leaves=8,
        ).filter(lambda value: "Infinity" not in json.dumps(value))
        unknown = data.draw(st.dictionaries(TEXT.filter(lambda key: key not in FRESH), values))
        known = {key: FRESH[key] for key in FRESH if key == "phase" or data.draw(st.booleans())}
        keys = data.draw(st.permutations([*unknown, *known]))
        content = {key: ({**unknown, **known})[key] for key in keys}
        root = tmp_path_factory.mktemp("round")
        (root / "specs/auth").mkdir(parents=True)

        first = fields(root, content)
        write_state(Specs(str(root), str(root)), "auth", State(first))
        written = (root / FILE).read_bytes()
        second = fields(root, written)
        write_state(Specs(str(root), str(root)), "auth", State(second))

        assert list(content) == list(first)[: len(content)]
        assert content == {key: second[key] for key in content}
        assert [*first.items()] == [*second.items()]
        assert set(FRESH) <= set(second)
        assert written == (root / FILE).read_bytes()


TEXT = st.text(
    st.characters() | st.sampled_from(string.ascii_letters + '"\\\ud800\x00\u2028'), max_size=8
)


class TestSettingAside:
    """A state that cannot be used is kept, and so are all before it."""

    def test_a_gap_between_backups_is_filled(self, root: Path, specs: Specs) -> None:
        for name, content in (("", "now"), (".bak", "old"), (".bak.2", "oldest")):
            (root / f"{FILE}{name}").write_text(content, encoding="utf-8")
        set_aside(specs, "auth")

        backups = ["", ".1", ".2"]

        assert ["now", "old", "oldest"] == [
            (root / f"{FILE}.bak{backup}").read_text(encoding="utf-8") for backup in backups
        ]

    def test_anything_in_place_of_the_file_is_moved(self, root: Path, specs: Specs) -> None:
        (root / "outside").write_text("kept", encoding="utf-8")
        (root / FILE).symlink_to("../../outside")
        set_aside(specs, "auth")
        (root / FILE).mkdir()
        set_aside(specs, "auth")

        assert (root / f"{FILE}.bak").is_dir()
        assert (root / f"{FILE}.bak.1").is_symlink()
        assert "kept" == (root / "outside").read_text(encoding="utf-8")

    def test_without_a_file_nothing_is_moved(self, root: Path, specs: Specs) -> None:
        (root / f"{FILE}.bak").write_text("old", encoding="utf-8")

        with pytest.raises(ToolError, match="the file does not exist"):
            set_aside(specs, "auth")

        assert [".ralph-state.json.bak"] == [path.name for path in (root / "specs/auth").iterdir()]
