"""The documents that are counted or written when a project is set up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from acm_projects import STAGES, Library, variables
from driving import quiet

from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.kits.acm import ACM, corpus

STAGE = STAGES["design"]
FOUND = """\
from pathlib import Path
from ralphgen.kits.acm import ACM
import json, sys
found = ACM.find(Path(sys.argv[1]), json.loads(sys.argv[2]))
print(json.dumps([found.summary, sorted(ACM.setup), len(found.warnings)]))
"""


class TestFinding:
    """The report to users before the kit is on."""

    def test_the_documents_that_there_are_are_counted_and_setup_leaves_them_alone(
        self, library: Library
    ) -> None:
        (library.documents / STAGE).unlink()
        settings = json.dumps({"root": "", "registry": ""})
        done = subprocess.run(
            [sys.executable, "-c", FOUND, str(library.root), settings],
            env={**os.environ, **variables(library.folder)},
            capture_output=True,
            check=True,
        )

        assert ["30 documents, 4 capabilities", [], 1] == json.loads(done.stdout)


class TestLayingDown:
    """The files of `init --kit acm` besides the server."""

    def test_the_starter_documents_are_created_once_and_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {"HOME": str(tmp_path), "ACM_ROOT": "", "ACM_REGISTRY_ROOT": ""}.items():
            monkeypatch.setenv(name, value)
        root = tmp_path / "project"
        initialize(root, InitOptions(stack="empty", kits=("acm",)), say=quiet, agree=bool)
        laid = {
            path.relative_to(root / ".ralph/acm").as_posix(): path.read_text(encoding="utf-8")
            for path in (root / ".ralph/acm").rglob("*")
            if path.is_file()
        }
        (root / ".ralph/acm" / STAGE).write_text("Mine.\n", encoding="utf-8")
        initialize(root, InitOptions(kits=("acm",)), say=quiet, agree=bool)

        assert corpus() == laid
        assert "Mine.\n" == (root / ".ralph/acm" / STAGE).read_text(encoding="utf-8")

    def test_documents_elsewhere_on_the_machine_are_not_created(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("ACM_REGISTRY_ROOT", raising=False)
        monkeypatch.setenv("ACM_ROOT", str(tmp_path))
        by_variable = {*ACM.setup}
        monkeypatch.delenv("ACM_ROOT")
        whole = {*ACM.setup}
        (tmp_path / "code/_shared/acm").mkdir(parents=True)
        by_place = {*ACM.setup}
        (tmp_path / "code/_shared/capabilities-registry").mkdir()

        registry = {name for name in whole if name.startswith(".ralph/acm/registry/")}
        assert {f".ralph/acm/{name}" for name in corpus()} == whole
        assert registry == by_variable
        assert registry == by_place
        assert {} == {**ACM.setup}
