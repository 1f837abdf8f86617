"""Emitted code."""

import json
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tokenize import COMMENT

import pytest
from cases import FIXTURES, case_names, lay_down
from driving import quiet

from ralphgen.emit.workflows import checked, regenerate
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.project.root import FOLDER
from ralphgen.rendering import UNFORMATTED

ROOT = FIXTURES.parent
CASES = case_names(failing=False)
WHOLE = "whole"  # the tree with every kit, whose runtime serves the checks of all others
TELLING = ("hostile", "structured_output", "proved")  # the worst names, and every kind of answer
SILENCING = re.compile(r"noqa|type: ?ignore|mypy:|ruff:|fmt:|pylint|pragma|\bnosec")
IMPORT_ALL = """
import os, sys
sys.dont_write_bytecode = True
folder = sys.argv[1]
sys.path[:0] = sys.argv[1:]
for place, _, names in sorted(os.walk(folder)):
    for name in sorted(names):
        path = os.path.relpath(os.path.join(place, name), folder)
        if path.endswith(".py"):
            module = path[:-3].replace(os.sep, ".").removesuffix(".__init__")
            __import__(module)
            print(path)
            own = {} if module.startswith("runtime.") else vars(sys.modules[module])
            for tool in own.get("TOOLS", ()):
                assert callable(tool.function())
            kit = getattr(sys.modules[module], "KIT", None)
            if kit is not None:
                assert not kit.resources or kit.import_resources()
                assert not kit.services or kit.import_services()
"""


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the server of every case; not a dot folder, since linters skip those.

    The files in `runtime/` are written once, since they are the same everywhere.
    """
    trees = tmp_path_factory.mktemp("emitted") / "trees"
    trees.mkdir()
    root = lay_down("full", tmp_path_factory.mktemp("project") / WHOLE)
    config = root / ".ralph" / "ralphgen.toml"
    every = f"kits = {json.dumps([kit.key for kit in KITS if not kit.any_schema])}"
    text = config.read_text(encoding="utf-8").replace('kits = ["ralph"]', every)
    config.write_text(text, encoding="utf-8")
    whole = dict(Project(root).files)
    for case in CASES:
        root = lay_down(case, tmp_path_factory.mktemp("project") / case)
        files = Project(root).files
        runtime = {name: text for name, text in files.items() if name.startswith("runtime/")}
        assert all(whole.setdefault(name, text) == text for name, text in runtime.items())
        _write(trees / case, {name: files[name] for name in files.keys() - runtime.keys()})
    _write(trees / WHOLE, whole)
    (trees / "ruff.toml").write_text(_ruff_config(), encoding="utf-8")
    return trees


def test_emitted_code_passes_the_house_rules(trees: Path) -> None:
    done = _run(trees, sys.executable, "-m", "ruff", "check", "--no-cache", ".")

    assert (0, "All checks passed!\n") == (done.returncode, done.stdout), done.stdout


def test_emitted_code_is_already_formatted(trees: Path) -> None:
    done = _run(trees, sys.executable, "-m", "ruff", "format", "--no-cache", "--diff", ".")

    assert (0, "") == (done.returncode, done.stdout)


def test_the_linter_and_the_formatter_look_at_every_emitted_module(trees: Path) -> None:
    done = _run(trees, sys.executable, "-m", "ruff", "check", "--no-cache", "--show-files", ".")
    seen = [line for line in done.stdout.splitlines() if line.endswith(".py")]

    assert len(list(trees.rglob("*.py"))) == len(seen)


@pytest.mark.parametrize(
    "cases",
    [(WHOLE, *TELLING), pytest.param(CASES, marks=pytest.mark.soak)],
    ids=["telling", "all"],
)
def test_emitted_code_passes_the_strict_type_checker(trees: Path, cases: tuple[str, ...]) -> None:
    """Each tree by itself, since all have modules of the same names; they share the runtime.

    No settings of ours help: in a project there are none.
    """
    for case in cases:
        options = ("--strict", "--config-file", os.devnull, "--python-version", "3.11")
        cache = ("--cache-dir", str(trees.parent / "types"))
        found = {**os.environ, "MYPYPATH": str(trees / WHOLE)}
        done = _run(trees / case, sys.executable, "-m", "mypy", *options, *cache, ".", env=found)

        assert done.stdout.startswith("Success: no issues found"), f"{case}\n{done.stdout}"


def test_emitted_code_silences_no_checker(trees: Path) -> None:
    for path in (*trees.glob(f"{WHOLE}/**/*.py"), *trees.glob("*/*/*.py"), *trees.glob("*/*.py")):
        with path.open("rb") as file:
            comments = [
                token for token in tokenize.tokenize(file.readline) if token.type == COMMENT
            ]

        assert [] == [token.string for token in comments if SILENCING.search(token.string)], path


def test_every_emitted_module_and_name_can_be_imported_from_a_cold_start(trees: Path) -> None:
    """And the tables name functions that exist. The runtime is imported once."""
    for case in (WHOLE, *CASES):
        command = (sys.executable, "-I", "-W", "error", "-c", IMPORT_ALL)
        done = _run(trees, *command, str(trees / case), str(trees / WHOLE))

        assert (0, "") == (done.returncode, done.stderr), case
        assert "policy.py" in done.stdout
        assert "server.py" in done.stdout


def test_the_folder_itself_is_not_a_package(trees: Path) -> None:
    """`mcp/__init__.py` would shadow the SDK wherever `.ralph` is on `sys.path`."""
    assert [] == [str(path) for path in trees.glob("*/__init__.py")]


def test_git_hides_generated_files_and_keeps_line_ends(trees: Path) -> None:
    generated = ["runtime/**", "manifest.json", "project.json"]
    for case in CASES:
        text = (trees / case / ".gitattributes").read_text(encoding="utf-8")
        lock = ["requirements.lock"] if (trees / case / "requirements.lock").exists() else []
        marked = [f"{pattern} linguist-generated" for pattern in generated + lock]

        assert ["* text eol=lf", *marked] == text.splitlines()


def test_every_emitted_text_is_utf8_with_plain_line_ends(trees: Path) -> None:
    written = [path for path in trees.glob("*/**/*") if path.is_file() and path.suffix != ".pyc"]
    for path in written:
        text = path.read_bytes().decode("utf-8")

        assert text.endswith("\n"), path
        assert not {"\r", "\u2028", "\0", "\ufeff"} & set(text), path


def _ruff_config() -> str:
    """Return the rules of fixtures/ruff.toml, with the runtime's exceptions in the sources."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        rules = tomllib.load(file)["tool"]["ruff"]["lint"]["per-file-ignores"]
    moved: dict[str, list[str]] = {}
    for pattern, ignored in rules.items():
        place = re.sub(r"^ralphgen/kits/(\w+)/server/", r"runtime/\1/", pattern)
        place = place.removeprefix("ralphgen/")
        if place in {"**", "{runtime,kits/*/server}/**"}:
            place = "runtime/**"
        if place.startswith("runtime/"):
            moved.setdefault(f"**/{place}", []).extend(ignored)
    lines = [f"{json.dumps(pattern)} = {json.dumps(names)}" for pattern, names in moved.items()]
    base = json.dumps(str(FIXTURES / "ruff.toml"))
    return "\n".join([f"extend = {base}", "[lint.extend-per-file-ignores]", *lines, ""])


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files without the marks that make linters and formatters skip them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.removeprefix(UNFORMATTED).encode())
    (folder / "ruff.toml").unlink()


def _run(
    folder: Path, *command: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
        env=env,
    )


# Settings of a project with a different style: they would change each of our modules.
TASTE = """
[tool.black]
line-length = 60
[tool.ruff]
line-length = 60
[tool.ruff.lint]
select = ["ALL"]
[tool.ruff.format]
quote-style = "single"
"""
OURS = f"{FOLDER}/server.py"
RUNS = {
    "ruff format": (".",),
    "ruff check --fix --unsafe-fixes": (".",),
    "black": (".",),
    "ruff format ": (OURS,),  # as hooks do, which name the committed files
    "ruff check --fix --unsafe-fixes ": (OURS,),
    "black ": (OURS,),
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with every kind of value, and a module that every formatter changes."""
    root = lay_down("hostile", tmp_path / "project")
    regenerate(root, force=False, say=quiet)
    (root / "pyproject.toml").write_text(TASTE, encoding="utf-8")
    (root / "own.py").write_text("import sys,os\nx = {  'a':1}\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("tool", RUNS)
def test_python_formatters_and_linters_leave_servers_alone(tool: str, repository: Path) -> None:
    name, *options = tool.split()
    if name == "black":
        pytest.importorskip("black")
    own = (repository / "own.py").read_bytes()
    command = (sys.executable, "-m", name, *options, *RUNS[tool], "own.py")
    subprocess.run(command, cwd=repository, capture_output=True, check=False)

    assert own != (repository / "own.py").read_bytes()
    assert not checked(repository, say=quiet).drift
    assert [] == [*(repository / FOLDER).rglob(".ruff_cache")]
