"""Prettier, run over a whole repository, does not change its servers."""

from pathlib import Path

from cases import lay_down
from driving import quiet
from node_packages import NEEDED, program, run_node

from ralphgen.emit.workflows import checked, regenerate

pytestmark = NEEDED


def test_prettier_leaves_servers_alone(tmp_path: Path) -> None:
    root = lay_down("hostile", tmp_path / "project")
    regenerate(root, force=False, say=quiet)
    own = root / "own.json"
    own.write_text('{"a":    1}', encoding="utf-8")
    done = run_node(program("prettier"), "--write", str(root))

    assert 0 == done.returncode, done.stderr
    assert '{ "a": 1 }\n' == own.read_text(encoding="utf-8")
    assert not checked(root, say=quiet).drift
