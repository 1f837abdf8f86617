"""Many items signed by a pattern: each on its own, none outside of the space, and all are told."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rye_projects import (
    TYPES,
    Rye,
    directive,
    on_server,
    put,
    python_tool,
    rye_project,
    serving,
    variables,
    well_formed,
    yaml_tool,
)

NOWHERE = Path("/proc/rye/.ai")  # where nobody can make a folder, not even root
IDS = ("a", "demo/a", "demo/b", "demo/deep/c", "other/a")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A session for all tests of the module."""
    with serving(tmp_path_factory.mktemp("batches")) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """The same, without any item and without a key."""
    shared.clear()
    return shared


def is_signed(path: Path) -> bool:
    return b"rye:signed:" in path.read_bytes()


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("demo/*", ["demo/a", "demo/b"]),
        ("demo/**", ["demo/a", "demo/b", "demo/deep/c"]),
        ("*", [*IDS]),
        ("**", [*IDS]),
        ("a*", ["a", "demo/a", "other/a"]),
        ("*/a", ["demo/a", "other/a"]),
        ("demo/?", ["demo/a", "demo/b"]),
        ("**/c", ["demo/deep/c"]),
    ],
)
def test_those_that_it_means_are_signed_and_no_others(
    rye: Rye, item_type: str, pattern: str, expected: list[str]
) -> None:
    paths = {item_id: rye.put(item_type, item_id) for item_id in IDS}
    users = rye.put(item_type, "demo/a", space="user")
    answer = rye.sign(item_type, pattern)

    assert ("completed", expected, [], len(expected)) == (
        answer["status"],
        answer["signed"],
        answer["failed"],
        answer["total"],
    )
    assert expected == [item_id for item_id, path in paths.items() if is_signed(path)]
    assert not is_signed(users)
    assert f"signed {len(expected)} of {len(expected)}" == answer["summary"]


def test_of_those_that_are_not_each_says_why_and_the_others_are(rye: Rye) -> None:
    good = rye.put("directive", "demo/good")
    bad = rye.put("directive", "demo/bad", directive("demo/bad", version="1", author=""))
    broken = rye.put("directive", "demo/broken", "nothing\n")
    answer = rye.sign("directive", "demo/*")
    failed = {entry["item"]: entry for entry in answer["failed"]}

    assert ("partial", ["demo/good"], 3) == (answer["status"], answer["signed"], answer["total"])
    assert {"demo/bad", "demo/broken"} == {*failed}
    assert 2 == len(failed["demo/bad"]["issues"])
    assert {"VALIDATION_FAILED"} == {entry["error"]["code"] for entry in failed.values()}
    assert [True, False, False] == [is_signed(path) for path in (good, bad, broken)]


def test_where_none_can_be_it_is_an_error_that_lists_them(rye: Rye) -> None:
    for name in ("demo/a", "demo/b"):
        rye.put("tool", name, "x = 1\n")
    error = rye.refuses("sign", item_type="tool", item_id="demo/*")

    assert ("VALIDATION_FAILED", 2, []) == (error["code"], error["total"], error["signed"])
    assert ["demo/a", "demo/b"] == [entry["item"] for entry in error["failed"]]


@pytest.mark.parametrize("item_type", TYPES)
def test_a_pattern_that_means_nothing_says_where_it_was_looked_for(
    rye: Rye, item_type: str
) -> None:
    rye.put(item_type, "demo/a")
    error = rye.refuses("sign", item_type=item_type, item_id="nothing/*")

    assert "ITEM_NOT_FOUND" == error["code"]
    assert "the project space" in error["message"]
    assert '"nothing/*"' in error["message"]


def test_the_user_space_has_patterns_too(rye: Rye) -> None:
    ours = rye.put("tool", "demo/a")
    users = [rye.put("tool", name, space="user") for name in ("demo/a", "demo/b")]
    answer = rye.sign("tool", "demo/*", parameters={"location": "user"})

    assert ["demo/a", "demo/b"] == answer["signed"]
    assert [False, True, True] == [is_signed(path) for path in (ours, *users)]


@pytest.mark.parametrize(
    "pattern",
    ["../*", "../../**", "/**", "/etc/*", "demo/../*", "**/../*", "[a-z]*", "~/*", "{a,b}*"],
)
def test_a_pattern_never_leads_out_of_the_space(rye: Rye, pattern: str) -> None:
    text = python_tool("a")
    outside = [
        put(path, text)
        for path in (rye.root / "a.py", rye.root / ".ai/a.py", rye.folder / "outside/a.py")
    ]
    rye.put("tool", "demo/a")
    error = rye.refuses("sign", item_type="tool", item_id=pattern)

    assert "INVALID_ID" == error["code"]
    assert [text] * 3 == [path.read_text(encoding="utf-8") for path in outside]


def test_files_that_are_no_items_are_left_alone(rye: Rye) -> None:
    folder = rye.project / "tools"
    text = python_tool("a")
    others = [
        put(folder / name, text)
        for name in ("_a.py", ".a.py", "__pycache__/a.py", ".git/a.py", "A.py", "demo/_x/a.py")
    ]
    others += [put(folder / "demo/a.txt", text), put(folder / "core.json", "{}")]
    rye.put("tool", "demo/a")
    answer = rye.sign("tool", "**")

    assert ["demo/a"] == answer["signed"]
    assert [] == [path for path in others if is_signed(path)]


def test_both_kinds_of_tools_are_meant(rye: Rye) -> None:
    rye.put("tool", "demo/a")
    rye.put("tool", "demo/b", yaml_tool("demo/b"), extension=".yaml")
    rye.put("tool", "demo/c", yaml_tool("demo/c"), extension=".yml")

    assert ["demo/a", "demo/b", "demo/c"] == rye.sign("tool", "demo/*")["signed"]


def test_the_second_time_nothing_is_written(rye: Rye) -> None:
    paths = [rye.put("tool", item_id) for item_id in IDS]
    rye.sign("tool", "**")
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    answer = rye.sign("tool", "**")

    assert ("completed", [*IDS]) == (answer["status"], answer["signed"])
    assert before == [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]


def test_warnings_say_of_which_item_they_are(rye: Rye) -> None:
    rye.put("directive", "demo/a", directive("demo/a", metadata=""))
    rye.put("directive", "demo/b")
    answer = rye.sign("directive", "demo/*")

    assert [
        'demo/a: no "model"',
        'demo/a: no "permissions"',
    ] == answer["warnings"]


def test_the_answer_fits_however_many_there_are(rye: Rye) -> None:
    for number in range(300):
        rye.put("tool", f"demo/{'x' * 50}{number}", "x = 1\n")
    rye.put("tool", "demo/y")
    answer = rye.sign("tool", "**")

    assert ("partial", 301, ["demo/y"]) == (answer["status"], answer["total"], answer["signed"])
    assert "failed" in answer["cut"]


@contextmanager
def with_user_space(folder: Path, place: Path, policy: str) -> Iterator[Rye]:
    """A session on a new project whose user space is to be at a place."""
    root = rye_project(folder / "project", f'policy = "{policy}"')
    environment = {**variables(folder), "USER_SPACE": str(place)}
    with on_server(root, environment) as driver:
        yield Rye(folder, root, driver)


class TestWithoutAKey:
    """None can be made where nobody can write."""

    @pytest.mark.parametrize("policy", ["off", "warn", "integrity"])
    def test_the_line_only_tells_of_accidents(self, tmp_path: Path, policy: str) -> None:
        kinds = ("directive", "knowledge")
        with with_user_space(tmp_path, NOWHERE, policy) as rye:
            paths = {kind: rye.put(kind, "demo/a") for kind in kinds}
            answers = {kind: rye.sign(kind, "demo/a") for kind in kinds}
            states = {kind: rye.load(kind, "demo/a")["signature"]["state"] for kind in kinds}

        assert {"untrusted"} == {*states.values()}
        for kind, path in paths.items():
            assert "rye:validated:" in path.read_text(encoding="utf-8").splitlines()[0]
            assert ("validated", None) == (
                answers[kind]["signature_info"]["form"],
                answers[kind]["signature_info"]["fingerprint"],
            )
            assert "anyone could renew it" in json.dumps(answers[kind]["warnings"])

    @pytest.mark.parametrize("item_id", ["demo/a", "demo/*"])
    def test_where_the_policy_asks_for_one_nothing_is_signed(
        self, tmp_path: Path, item_id: str
    ) -> None:
        with with_user_space(tmp_path, NOWHERE, "trusted") as rye:
            path = rye.put("tool", "demo/a")
            error = rye.refuses("sign", item_type="tool", item_id=item_id)

        assert "UNTRUSTED_KEY" == error["code"]
        assert well_formed("tool", "demo/a") == path.read_text(encoding="utf-8")

    def test_nothing_is_signed_where_the_user_space_lies_in_the_project(
        self, tmp_path: Path
    ) -> None:
        """A repository could bring the key that its tools are signed with."""
        with with_user_space(tmp_path, tmp_path / "project/mine", "warn") as rye:
            path = rye.put("tool", "demo/a")
            error = rye.refuses("sign", item_type="tool", item_id="demo/a")

        assert "USER_SPACE set to a directory outside" in error["message"]
        assert well_formed("tool", "demo/a") == path.read_text(encoding="utf-8")
        assert [] == [*rye.root.rglob("*.pem")]
