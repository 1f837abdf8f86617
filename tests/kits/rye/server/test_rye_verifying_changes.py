"""Every change to a signed item is detected by load, search and execute."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rye_projects import TYPES, Rye, directive, knowledge, on_server, put, python_tool, variables

STRICT = 'policy = "integrity"'

SETTINGS = STRICT
SHEBANG = "#!/usr/bin/env python3\n"
TEXTS = {
    "directive": directive(
        "demo/a", body="\nThe body that the agent follows.\n", inputs="", process=""
    ).replace("# a", "# Preamble"),
    "tool": SHEBANG + python_tool("demo/a"),
    "knowledge": knowledge("demo/a", "The body.\n"),
}


def seen(rye: Rye, item_type: str, item_id: str = "demo/a") -> tuple[str, str, str]:
    """Return the state reported by load and search, and the code of an execution."""
    state = rye.load(item_type, item_id)["signature"]["state"]
    found = rye.says("search", item_type=item_type, query="", source="project")["results"]
    (listed,) = [result["signature"] for result in found if result["id"] == item_id]
    failed, answer = rye.ask("execute", item_type=item_type, item_id=item_id)
    return state, listed, answer["error"]["code"] if failed else answer["status"]


STRANGE = ("untrusted", "untrusted", "success")  # this policy lets it pass


def test_from_one_space_to_another_it_stays_valid(rye: Rye) -> None:
    """A signature also holds in another space, which allows sharing items."""
    path = rye.signed("tool", "demo/a", TEXTS["tool"])
    rye.put("tool", "demo/a", path.read_bytes(), space="user")
    path.unlink()

    assert "valid" == rye.run("tool", "demo/a")["metadata"]["signature"]


class TestKeys:
    """Only keys in the user space count."""

    @contextmanager
    def stranger(self, rye: Rye) -> Iterator[Rye]:
        """Yield another user's session on the same project, with a separate user space."""
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
