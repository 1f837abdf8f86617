"""The documents and their roots."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from acm_projects import (
    KITS,
    PROJECT,
    STAGES,
    Library,
    check_presentable,
    lay_documents,
    lay_project,
    lay_registry,
    on_server,
    put,
    variables,
)
from command_line import open_folder
from driving import create_project, quiet
from unprivileged import call_text, unprivileged

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


def call_tool(
    root: Path, environment: Mapping[str, str], tool: str = "get_stage", **given: str
) -> tuple[bool, str]:
    """Call a tool on a server with this environment; return whether it failed, and its text."""
    arguments = given or {"stage": "design"}
    with on_server(root, environment) as driver:
        failed, text = driver.ask(tool, arguments)
    check_presentable(text, failed=failed)
    return failed, text


def create_documents(folder: Path, mark: str) -> Path:
    """Write documents; one of them contains only this mark."""
    put(folder / STAGE, mark)
    return folder


def registered(folder: Path, mark: str) -> Path:
    """Write a registry with one capability; its file contains only this mark."""
    put(folder / "capabilities/tools/one/capability.yaml", mark)
    return folder


class TestOrder:
    """The variable, the setting, the shared place, the project's own."""

    def test_the_variable_goes_before_setting_shared_place_and_project(
        self, tmp_path: Path
    ) -> None:
        root = create_project(
            tmp_path / "project", config=f'{KITS}[acm]\nroot = "own"\nregistry = "reg"\n'
        )
        home = tmp_path / "home"
        shared = home / "code/_shared"
        places = (tmp_path / "documents", root / "own", shared / "acm", root / ".ralph/acm")
        for mark, place in zip("abcd", places, strict=True):
            create_documents(place, mark)
        registries = (tmp_path / "registry", root / "reg", shared / "capabilities-registry")
        for mark, place in zip("ab", registries, strict=False):
            registered(place, mark)
        detail = {"tool": "get_capability_detail", "capability_id": "one"}

        assert (False, "a") == call_tool(root, variables(tmp_path))
        assert (False, "a") == call_tool(root, variables(tmp_path), **detail)
        assert (False, "b") == call_tool(root, {"HOME": str(home)})
        assert (False, "b") == call_tool(root, {"HOME": str(home)}, **detail)

    def test_without_both_the_shared_place_counts_then_the_project(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "project", config=KITS)
        home = {"HOME": str(tmp_path / "home"), "ACM_ROOT": "", "ACM_REGISTRY_ROOT": " "}
        shared = tmp_path / "home/code/_shared"
        detail = {"capability_id": "one"}
        create_documents(shared / "acm", "c")
        registered(shared / "capabilities-registry", "c")
        create_documents(root / ".ralph/acm", "d")
        registered(root / ".ralph/acm/registry", "d")
        with on_server(root, home) as driver:
            asking = (("get_stage", {"stage": "design"}), ("get_capability_detail", detail))

            assert [(False, "c")] * 2 == [driver.ask(*call) for call in asking]
            shutil.rmtree(shared)  # checked at every call
            assert [(False, "d")] * 2 == [driver.ask(*call) for call in asking]
            shutil.rmtree(root / ".ralph/acm")
            texts = [driver.ask(*call) for call in asking]
        command = "ralphgen init --kit acm"
        expected = [
            f'"{place}" does not exist: ask the user to run "{command}" or to set {variable}'
            for place, variable in (
                (".ralph/acm", "ACM_ROOT"),
                (".ralph/acm/registry", "ACM_REGISTRY_ROOT"),
            )
        ]

        assert [(True, text) for text in expected] == texts

    @pytest.mark.parametrize("path", ["~/docs", "../home/docs", "~/docs/", "~/link"])
    def test_a_tilde_a_relative_path_and_a_link_are_followed(
        self, library: Library, path: str
    ) -> None:
        create_documents(library.folder / "home/docs", "here")
        (library.folder / "home/link").unlink(missing_ok=True)
        (library.folder / "home/link").symlink_to("docs")

        assert (False, "here") == call_tool(library.root, variables(library.folder, ACM_ROOT=path))

    @pytest.mark.parametrize("path", ["/nowhere/secret-place", "status.md", "~nobody-at-all/x"])
    def test_a_variable_that_names_no_directory_is_named_without_its_value(
        self, library: Library, path: str
    ) -> None:
        environment = variables(library.folder, ACM_ROOT=path, ACM_REGISTRY_ROOT=path)
        failed, text = call_tool(library.root, environment)
        search = call_tool(library.root, environment, "query_capabilities", query="a")

        assert (True, "the variable ACM_ROOT must name a directory: ask the user to fix it") == (
            failed,
            text,
        )
        assert search[1].startswith("the variable ACM_REGISTRY_ROOT must name a directory")

    def test_a_setting_that_names_no_directory_is_named(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "project", config=f'{KITS}[acm]\nroot = "a\\u0000b"\n')

        expected = (
            'the setting "root" of [acm] in .ralph/ralphgen.toml must name a directory: ask the '
            "user to fix it"
        )
        assert (True, expected) == call_tool(root, {"HOME": str(tmp_path)})


class TestOutside:
    """Nothing in a project makes the server read anything outside of it."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("kind", ["parent", "absolute", "home", "link", "linked folder"])
    def test_the_project_leads_to_no_other_folder(self, tmp_path: Path, kind: str) -> None:
        other = create_documents(tmp_path / "other", "secret")
        named = {"parent": "../other", "absolute": str(other), "home": "~", "link": "link"}
        setting = f'root = "{named[kind]}"\n' if kind in named else ""
        root = create_project(tmp_path / "project", config=f"{KITS}[acm]\n{setting}")
        (root / "link").symlink_to(other)
        if kind == "linked folder":
            (root / ".ralph/acm").symlink_to(other)
        failed, text = call_tool(root, {"HOME": str(other)})

        assert failed
        assert "secret" not in text


class TestLinks:
    """Links on the way to a document."""

    def test_linked_roots_serve_every_tool(self, library: Library) -> None:
        for name in ("documents", "registry"):
            place = library.folder / name
            place.rename(library.folder / f"real-{name}")
            place.symlink_to(f"real-{name}")
        try:
            assert STAGE in library.says("get_stage", stage="design")
            assert "Found 2 KB" in library.says("query_knowledge", query="tornado")
            assert "Found 4" in library.says("query_capabilities")
            assert "name: flat\n" == library.says("get_capability_detail", capability_id="flat")
        finally:
            for name in ("documents", "registry"):
                (library.folder / name).unlink()
                shutil.rmtree(library.folder / f"real-{name}")

    def test_a_folder_whose_name_only_begins_alike_is_outside(self, library: Library) -> None:
        beside = library.folder / "documents2"
        put(beside / "x.md", "secret\n")
        (library.documents / STAGE).unlink()
        (library.documents / STAGE).symlink_to(beside / "x.md")

        assert "is a symbolic link to a path outside its directory" in library.refuses(
            "get_stage", stage="design"
        )


class TestRights:
    """Files that the server may not read."""

    def test_unreadable_files_are_reported_in_words(self) -> None:
        with open_folder() as folder:
            root = create_project(folder / "project", config=KITS)
            lay_documents(folder / "documents")
            lay_registry(folder / "registry")
            project = lay_project(root / "other", PROJECT)
            closed = [
                folder / "documents" / STAGE,
                folder / "documents/kb/Zebra.md",
                folder / "registry/capabilities/tools/pdf-maker/capability.yaml",
                project / "docs/brief.md",
                project / "_archive",
            ]
            for path in closed:
                path.chmod(0)
            with unprivileged(root, "acm", variables(folder)) as wire:
                stage = call_text(wire, "get_stage", stage="design")
                found = call_text(wire, "query_knowledge", query="review loops")
                detail = call_text(wire, "get_capability_detail", capability_id="pdf-maker")
                search = call_text(wire, "query_capabilities", query="pdf")
                structure = call_text(wire, "check_project_structure", project_path=str(project))
                health = call_text(wire, "check_project_health", project_path=str(project))
                (folder / "registry/inventory.json").chmod(0)
                inventory = call_text(wire, "query_capabilities")
                (folder / "documents/kb").chmod(0)
                knowledge = call_text(wire, "query_knowledge", query="a")
            for path in (*closed, folder / "documents/kb"):
                path.chmod(0o755)

        assert (
            True,
            (
                f'the stage spec "{STAGE}" cannot be read: permission denied: ask the user to fix '
                "the file"
            ),
        ) == (stage)
        assert "Found 1 KB entry:" in found[1]
        assert found[1].endswith("Skipped because unreadable: 1")
        assert (
            '"capabilities/tools/pdf-maker/capability.yaml" cannot be read: permission denied'
            in detail[1]
        )
        assert "Install level: project" in search[1]
        assert (
            "✗ docs/brief.md — cannot be read: permission denied\n✓ docs/inbox/\n✗ _archive/ — "
            "cannot be" in (structure[1])
        )
        assert 3 == health[1].count("✗ docs/brief.md — cannot be read: permission denied\n")
        assert (True, True) == (inventory[0], knowledge[0])
        assert "cannot be read: permission denied" in inventory[1]
        assert "cannot be read: permission denied" in knowledge[1]
        check_presentable("\n".join((stage[1], detail[1], knowledge[1])), folder, failed=True)
