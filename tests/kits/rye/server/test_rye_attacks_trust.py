"""Files of a repository are trusted and run only as the user's policy permits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rye_attacks import TRUSTED, code, marking, ran, tree
from rye_projects import Rye, put, python_tool, rye_project, serving, session

BYPASSES = {
    **dict.fromkeys(("RYE_DEV_MODE", "RYE_DEV", "RYE_UNSAFE", "RALPHGEN_DEV", "CI"), "1"),
    **dict.fromkeys(("RYE_POLICY", "RYE_SIGNATURE_POLICY", "RYE_VERIFY", "POLICY"), "off"),
    "RYE_SIGNING_KEY_DIR": "/",
}
CODE = (
    "parsers/markdown_xml.py",
    "parsers/__init__.py",
    "processors/p.py",
    "extractors/tool/extractor.py",
    "tools/rye/core/parsers/p.py",
    "tools/conftest.py",
    "tools/demo/json.py",
    "tools/demo/__init__.py",
    "lib/python/module_loader.py",
    "../json.py",
    "../yaml.py",
    "../cryptography.py",
    "../sitecustomize.py",
    "../usercustomize.py",
    "../conftest.py",
    "../runtime/__init__.py",
)
SETTINGS = {
    "extractors/tool/x.yaml": "extensions: ['.sh', '.txt']\n",
    "extractors/x.py": "EXTENSIONS = ['.txt']\n",
    "validators/x.yaml": "fields: {version: {required: false}}\n",
    "config/rye.yaml": "policy: off\n",
    "config.toml": '[rye]\npolicy = "off"\n',
    "ralphgen.toml": '[rye]\npolicy = "off"\n',
    "manifest.json": "{}",
    "collection.yaml": "name: x\n",
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session that trusts only signed items, with variables that try to bypass that."""
    folder = tmp_path_factory.mktemp("strict")
    with serving(folder, settings=TRUSTED, environment=BYPASSES) as rye:
        yield rye


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session with the default settings."""
    with serving(tmp_path_factory.mktemp("usual"), environment=BYPASSES) as rye:
        yield rye


@pytest.fixture
def rye(usual: Rye) -> Rye:
    """Return a session with the default settings and no items."""
    usual.clear()
    (usual.folder / "marker").unlink(missing_ok=True)
    return usual


@pytest.fixture
def wary(strict: Rye) -> Rye:
    """Return the strict session, without items."""
    strict.clear()
    return strict


def signed_tool(rye: Rye, item_id: str = "demo/a") -> Path:
    text = "#!/usr/bin/env python\n" + python_tool(item_id, "def main(): return 1\n")
    return rye.signed("tool", item_id, text)


def test_no_code_of_a_space_runs_in_the_server(rye: Rye) -> None:
    """S15: the server imports no parsers or modules of a repository."""
    marker = rye.folder / "marker"
    signed_tool(rye)
    for name in CODE:
        put(rye.project / name, marking(marker))
    try:
        for item_type in ("directive", "knowledge"):
            rye.signed(item_type, "demo/a")
            rye.run(item_type, "demo/a", **({"who": "x"} if item_type == "directive" else {}))
        rye.found("a*")
        rye.load("tool", "demo/a")
        rye.says("execute", item_type="tool", item_id="demo/a", dry_run=True)
        rye.sign("tool", "demo/a")
        rye.says("help")
        found = rye.run("tool", "demo/a")["data"]
        with session(rye.folder, rye.root) as later:
            later.found("a*")
            later.run("tool", "demo/a")
    finally:
        for name in CODE:
            (rye.project / name).unlink()

    assert 1 == found
    assert not marker.exists()


def test_a_space_within_the_project_brings_no_keys(tmp_path: Path) -> None:
    """S16: not even if the environment declares it the user space."""
    root = rye_project(tmp_path / "project", TRUSTED)
    with session(tmp_path / "theirs", root) as theirs:
        theirs.signed("tool", "a", python_tool("a", marking(tmp_path / "marker")))
        assert "success" == ran(theirs, "a")
        keys = {
            path.relative_to(theirs.user): path.read_bytes() for path in theirs.user.rglob("*.pem")
        }
    (tmp_path / "marker").unlink()
    homes = {"HOME": str(root), "USER_SPACE": ""}
    for surroundings in (homes, *({"USER_SPACE": str(root / name)} for name in ("", "x", "x/.ai"))):
        for space in (root / ".ai", root / "x/.ai"):
            for name, data in keys.items():
                put(space / name, data).chmod(0o600)
        before = tree(root / ".ai")
        with session(tmp_path, root, environment=surroundings, permits=False) as rye:
            found = ran(rye, "a"), code(rye, "sign", item_type="tool", item_id="a")

        assert ("UNTRUSTED_KEY", "SPACE_VIOLATION") == found
        assert before == tree(root / ".ai")
    assert not (tmp_path / "marker").exists()


def test_what_keys_hold_is_told_by_no_answer(wary: Rye) -> None:
    """S28: neither the answer of a signing nor that of a refusal."""
    signed_tool(wary)
    key = wary.user / "keys/private_key.pem"
    inner = key.read_text("utf-8").split("\n")[1]
    answers = [wary.ask("sign", item_type="tool", item_id="demo/a")]
    key.write_text(key.read_text("utf-8").replace("PRIVATE", "PRIVTE"), "utf-8")
    answers.append(wary.ask("sign", item_type="tool", item_id="demo/a"))

    assert [False, True] == [failed for failed, _ in answers]
    assert inner not in json.dumps(answers)
