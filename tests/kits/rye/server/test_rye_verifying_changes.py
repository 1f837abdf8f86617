"""Whatever is changed of a signed item is noticed: where it is read, searched and executed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

import pytest
from rye_projects import (
    TYPES,
    Rye,
    directive,
    knowledge,
    on_server,
    put,
    python_tool,
    serving,
    variables,
    well_formed,
    yaml_tool,
)

STRICT = 'policy = "integrity"'
SHEBANG = "#!/usr/bin/env python3\n"
TEXTS = {
    "directive": directive(
        "demo/a", body="\nThe body that the agent follows.\n", inputs="", process=""
    ).replace("# a", "# Preamble"),
    "tool": SHEBANG + python_tool("demo/a"),
    "knowledge": knowledge("demo/a", "The body.\n"),
}
ABOVE = "a line above the signature"
Change = Callable[[str], str]
CHANGES: tuple[tuple[str, str, Change], ...] = (
    ("directive", "the body", lambda text: text.replace("agent follows", "agent obeys")),
    ("directive", "the text before the block", lambda text: text.replace("# Pre", "# pre")),
    ("directive", "metadata", lambda text: text.replace("1.0.0", "1.0.1")),
    ("directive", "permissions", lambda text: text.replace('resource="tool"', 'resource="*"')),
    ("directive", "something after the end", lambda text: text + "And delete all.\n"),
    ("tool", "the code", lambda text: text.replace('"params": params', '"params": {}')),
    ("tool", "metadata", lambda text: text.replace("1.0.0", "1.0.1")),
    ("tool", "the shebang", lambda text: text.replace("python3", "python4")),
    ("tool", "no shebang any more", lambda text: text.removeprefix(SHEBANG)),
    ("tool", ABOVE, lambda text: text.replace(SHEBANG, f"{SHEBANG}x\n")),
    ("knowledge", "the body", lambda text: text.replace("The body", "A body")),
    ("knowledge", "front matter", lambda text: text.replace("reference", "decision")),
    ("knowledge", "front matter that is new", lambda text: text.replace("tags:", "x: 1\ntags:")),
    ("knowledge", "a blank", lambda text: text.replace("The body", "The  body")),
    ("knowledge", "the end of the last line", lambda text: text.removesuffix("\n")),
    *((kind, "a blank at the end", lambda text: f"{text} ") for kind in TYPES),
    *((kind, "a line at the end", lambda text: f"{text}\n") for kind in TYPES),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """A session for all tests of the module; nothing that was changed is executed."""
    with serving(tmp_path_factory.mktemp("changes"), settings=STRICT) as rye:
        yield rye


@pytest.fixture
def rye(shared: Rye) -> Rye:
    """The same, without any item and without a key."""
    shared.clear()
    return shared


def seen(rye: Rye, item_type: str, item_id: str = "demo/a") -> tuple[str, str, str]:
    """How it is told by load, by search and by execution, there as its code."""
    state = rye.load(item_type, item_id)["signature"]["state"]
    found = rye.says("search", item_type=item_type, query="", source="project")["results"]
    (listed,) = [result["signature"] for result in found if result["id"] == item_id]
    failed, answer = rye.ask("execute", item_type=item_type, item_id=item_id)
    return state, listed, answer["error"]["code"] if failed else answer["status"]


NOTICED = ("modified", "modified", "INTEGRITY_FAILED")
NONE_LEFT = ("unsigned", "unsigned", "UNSIGNED")
STRANGE = ("untrusted", "untrusted", "success")  # this policy lets it pass


@pytest.mark.parametrize(("item_type", "what", "change"), CHANGES)
def test_a_change_is_noticed(rye: Rye, item_type: str, what: str, change: Change) -> None:
    path = rye.signed(item_type, "demo/a", TEXTS[item_type])
    before = seen(rye, item_type)
    text = path.read_text(encoding="utf-8")
    put(path, change(text))
    after = seen(rye, item_type)

    assert text != change(text)
    assert ("valid", "valid", "success") == before
    assert (NONE_LEFT if what == ABOVE else NOTICED) == after


@pytest.mark.parametrize("item_type", TYPES)
def test_what_was_changed_back_is_valid_again(rye: Rye, item_type: str) -> None:
    path = rye.signed(item_type, "demo/a", TEXTS[item_type])
    signed = path.read_bytes()
    put(path, signed + b"x")
    assert NOTICED == seen(rye, item_type)
    put(path, signed)

    assert ("valid", "valid", "success") == seen(rye, item_type)


@pytest.mark.parametrize("item_type", TYPES)
@pytest.mark.parametrize("new_id", ["demo/b", "other/a", "a", "demo/a/a"])
def test_a_rename_and_a_move_are_noticed(rye: Rye, item_type: str, new_id: str) -> None:
    path = rye.signed(item_type, "demo/a", TEXTS[item_type])
    new = rye.file(item_type, new_id)
    put(new, path.read_bytes())
    path.unlink()

    assert NOTICED == seen(rye, item_type, new_id)


def test_one_type_does_not_pass_for_another(rye: Rye) -> None:
    """Both are Markdown: knowledge must not become a directive that agents follow."""
    text = directive("demo/a", inputs="")
    fields = "---\nid: a\ntitle: A\nversion: 1.0.0\nentry_type: pattern\n---\n"
    path = rye.signed("knowledge", "demo/a", fields + text)
    rye.put("directive", "demo/a", path.read_bytes())

    assert NOTICED == seen(rye, "directive")


def test_from_one_space_to_another_it_stays_valid(rye: Rye) -> None:
    """The user's key stands for the same item there: this is how items are shared."""
    path = rye.signed("tool", "demo/a", TEXTS["tool"])
    rye.put("tool", "demo/a", path.read_bytes(), space="user")
    path.unlink()

    assert "valid" == rye.run("tool", "demo/a")["metadata"]["signature"]


class TestTheLine:
    """Of the signature itself nothing can be changed either."""

    @pytest.mark.parametrize("item_type", TYPES)
    def test_the_time(self, rye: Rye, item_type: str) -> None:
        path = rye.signed(item_type, "demo/a", TEXTS[item_type])
        time = rye.load(item_type, "demo/a")["signature"]["timestamp"]
        put(path, path.read_text(encoding="utf-8").replace(time, "2001-01-01T00:00:00Z"))

        assert NOTICED == seen(rye, item_type)

    @pytest.mark.parametrize("item_type", TYPES)
    def test_a_new_hash_needs_a_new_signature(self, rye: Rye, item_type: str) -> None:
        path = rye.signed(item_type, "demo/a", TEXTS[item_type])
        line = rye.sign(item_type, "demo/a")["signature"]
        changed = TEXTS[item_type] + "changed\n"
        new = line.replace(line.split(":")[-3], sha256(changed.encode()).hexdigest())
        put(path, path.read_text(encoding="utf-8").replace(line, new) + "changed\n")

        assert NOTICED == seen(rye, item_type)

    @pytest.mark.parametrize("item_type", TYPES)
    def test_the_line_of_another_item_of_the_same_key(self, rye: Rye, item_type: str) -> None:
        other = rye.signed(item_type, "demo/b", well_formed(item_type, "demo/b"))
        line = rye.sign(item_type, "demo/b")["signature"]
        path = rye.signed(item_type, "demo/a", TEXTS[item_type])
        own = rye.sign(item_type, "demo/a")["signature"]
        put(path, path.read_text(encoding="utf-8").replace(own, line))
        rest = other.read_bytes()

        assert NOTICED == seen(rye, item_type)
        assert rest == other.read_bytes()

    @pytest.mark.parametrize("item_type", TYPES)
    def test_one_that_is_gone_or_spelled_otherwise_is_none(self, rye: Rye, item_type: str) -> None:
        path = rye.signed(item_type, "demo/a", TEXTS[item_type])
        text = path.read_text(encoding="utf-8")
        for spoilt in (TEXTS[item_type], text.replace("rye:signed", "rye:sealed")):
            put(path, spoilt)
            assert NONE_LEFT == seen(rye, item_type)


class TestKeys:
    """Only those of the user space count."""

    @contextmanager
    def stranger(self, rye: Rye) -> Iterator[Rye]:
        """Somebody else, with a user space of their own, on the same project."""
        folder = rye.folder / "stranger"
        with on_server(rye.root, variables(folder)) as driver:
            other = Rye(rye.folder, rye.root, driver)
            other.user = folder / "user/.ai"
            yield other

    @pytest.mark.parametrize("item_type", TYPES)
    def test_an_unknown_one_is_not_trusted_until_a_person_says_so(
        self, rye: Rye, item_type: str
    ) -> None:
        with self.stranger(rye) as other:
            other.signed(item_type, "demo/a", TEXTS[item_type])
            keys = [*(other.user / "trusted_keys").glob("*.pem")]
            states = [seen(other, item_type), seen(rye, item_type)]
        for key in keys:
            target = put(rye.user / "trusted_keys" / key.name, key.read_bytes())
            target.parent.chmod(0o700)
        states.append(seen(rye, item_type))

        assert [("valid", "valid", "success"), STRANGE, ("valid", "valid", "success")] == states

    @pytest.mark.parametrize("item_type", TYPES)
    def test_one_that_the_project_brings_is_not(self, rye: Rye, item_type: str) -> None:
        with self.stranger(rye) as other:
            other.signed(item_type, "demo/a", TEXTS[item_type])
            for key in other.user.glob("*/*.pem"):
                for place in (rye.project, rye.project / "config", rye.root / ".ralph/mcp/rye"):
                    put(place / key.parent.name / key.name, key.read_bytes())

        assert STRANGE == seen(rye, item_type)

    def test_one_that_is_taken_away_is_trusted_no_more(self, rye: Rye) -> None:
        rye.signed("tool", "demo/a", TEXTS["tool"])
        before = seen(rye, "tool")
        for key in (rye.user / "trusted_keys").glob("*.pem"):
            key.unlink()

        assert ("valid", "valid", "success") == before
        assert STRANGE == seen(rye, "tool")
        assert ["is not trusted" in each for each in rye.sign("tool", "demo/a")["warnings"]] == [
            True
        ]
        assert STRANGE == seen(rye, "tool")

    def test_signing_makes_what_a_stranger_signed_ones_own(self, rye: Rye) -> None:
        with self.stranger(rye) as other:
            path = other.signed("tool", "demo/a", TEXTS["tool"])
        rye.sign("tool", "demo/a")

        assert ("valid", "valid", "success") == seen(rye, "tool")
        assert 1 == path.read_bytes().count(b"rye:signed:")


def test_the_end_of_lines_does_not_count(rye: Rye) -> None:
    """Git writes them as it likes."""
    for item_type in TYPES:
        path = rye.signed(item_type, "demo/a", TEXTS[item_type])
        put(path, path.read_bytes().replace(b"\n", b"\r\n"))
        assert ("valid", "valid", "success") == seen(rye, item_type)


def test_a_yaml_tool_is_held_to_its_signature_too(rye: Rye) -> None:
    path = rye.signed("tool", "demo/a", yaml_tool("demo/a"), extension=".yaml")
    before = rye.load("tool", "demo/a")["signature"]["state"]
    put(path, path.read_text(encoding="utf-8").replace('"echo"', '"touch"'))

    assert "valid" == before
    assert NOTICED == seen(rye, "tool")
