"""The emitted files of each project of fixtures/, byte by byte, and the refusals of others."""

import hashlib
import json
from pathlib import Path
from typing import Any

import command_line
import pytest
from cases import FIXTURES, case_names, lay_down
from goldens import WHOLE, Goldens, as_json
from sources import PACKAGE, runtime_text

import ralphgen
from ralphgen.files import Files
from ralphgen.kits.project import Project
from ralphgen.planning import ServerPlan, session_tools

TEXTS = {
    "specum/prompts/": "specum/texts/prompts",
    "specum/templates/": "specum/texts/templates",
    "rye/system/": "rye/system",
}
"""Where texts of kits are emitted, and the folders of `ralphgen/kits` that hold them."""
COPIED = ("requirements.lock", "runtime/", *TEXTS)
"""Files without anything of the project: other tests prove their bytes, no fixture holds them."""
FURTHER = {
    "full": ["expected_matrix.json", "expected_skills"],
    "dela": ["expected_skills", "expected_tasks.json", "DIFFERENCES.md"],
    "specum": ["expected_skills"],
    "acm": ["expected_skills"],
    "rye": ["expected_skills"],
    "tables": ["expected_skills"],
}
"""What other tests hold a case against."""
SERVED = sorted(case_names(failing=False), key=lambda case: case not in WHOLE)
"""The cases with a server, first those that the others are compared with."""
REFUSED = case_names(failing=True)


@pytest.fixture(scope="module", params=SERVED)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Project]:
    case = str(request.param)
    return case, Project(lay_down(case, tmp_path_factory.mktemp("goldens") / case))


def test_rendered_files_equal_the_golden(served: tuple[str, Project], goldens: Goldens) -> None:
    case, generated = served

    goldens.check(f"{case}/expected", rendered(generated.files))


def test_the_tools_of_each_kind_of_session_equal_the_golden(
    served: tuple[str, Project], goldens: Goldens
) -> None:
    case, generated = served

    goldens.check(f"{case}/expected_tools.json", {".": as_json(lists(generated.plan))})


def test_other_files_are_copied(served: tuple[str, Project]) -> None:
    _, generated = served
    copied = {path: text for path, text in generated.files.items() if path.startswith("runtime/")}

    assert {path: runtime_text(path) for path in copied} == copied
    assert "runtime/start.py" in copied
    for emitted, folder in TEXTS.items():
        files = {path: text for path, text in generated.files.items() if path.startswith(emitted)}
        if emitted.partition("/")[0] in {kit.key for kit in generated.plan.kits}:
            assert kit_texts(emitted, PACKAGE / "kits" / folder) == files
        else:
            assert not files


def test_the_manifest_seals_every_other_file(served: tuple[str, Project]) -> None:
    _, generated = served
    files = dict(generated.files)
    manifest = json.loads(files.pop("manifest.json"))

    assert {"files", "plan", "ralphgen", "schema", "tools"} == manifest.keys()
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
    assert digests == manifest["files"]
    assert ralphgen.__version__ == manifest["ralphgen"]


@pytest.mark.parametrize("case", REFUSED)
def test_a_project_that_cannot_be_served_is_refused_in_these_words(
    case: str, tmp_path: Path, goldens: Goldens
) -> None:
    root = lay_down(case, tmp_path / "project")
    done = command_line.ralphgen("regen", "--no-install", root)

    goldens.check(f"{case}/stderr.txt", {".": done.stderr})
    assert (1, "") == (done.returncode, done.stdout)
    assert not (root / ".ralph" / "mcp" / "manifest.json").exists()


def test_every_fixture_is_described_in_one_line_of_the_readme() -> None:
    lines = (FIXTURES / "README.md").read_text(encoding="utf-8").splitlines()
    described = [line.split("`")[1] for line in lines if line.startswith("| `")]

    assert sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()) == sorted(described)


def test_a_fixture_holds_either_a_server_or_a_refusal() -> None:
    for case in SERVED:
        found = [name for name in contents(case) if name not in FURTHER.get(case, ())]
        assert ["expected", "expected_tools.json", "project"] == found, case
    for case in REFUSED:
        assert ["project", "stderr.txt"] == contents(case), case


def kit_texts(emitted: str, folder: Path) -> dict[str, str]:
    """Return the files of a kit's folder by their emitted path."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        emitted + path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files
    }


def contents(case: str) -> list[str]:
    """Return the names of a case; a text of differences has the name of its subject."""
    return sorted({path.name.removesuffix(".diff") for path in (FIXTURES / case).iterdir()})


def rendered(files: Files) -> dict[str, str]:
    kept = {path: text for path, text in files.items() if not path.startswith(COPIED)}
    del kept["manifest.json"]
    return kept


def lists(plan: ServerPlan) -> dict[str, Any]:
    """Return the tools in order, by kit and recipe: in full for the user, else the differences."""
    return {kit.key: by_recipe(plan, kit.key) for kit in plan.kits}


def by_recipe(plan: ServerPlan, key: str) -> dict[str, Any]:
    (kit,) = (kit for kit in plan.kits if kit.key == key)
    whole = {tool["name"]: tool for tool in session_tools(plan, "manual", kit)}
    told: dict[str, Any] = {"manual": list(whole.values())}
    for recipe in plan.policy.recipes:
        if recipe != "manual":
            tools = session_tools(plan, recipe, kit)
            told[recipe] = [differing(tool, whole[tool["name"]]) for tool in tools]
    return told


def differing(tool: dict[str, Any], whole: dict[str, Any]) -> Any:
    """Return the name of a tool if it equals the user's, else the name and the differences."""
    schema, full = tool["inputSchema"], whole["inputSchema"]
    given, known = schema["properties"], full["properties"]
    found: dict[str, Any] = {
        "without": [name for name in known if name not in given],
        "arguments": {name: rule for name, rule in given.items() if rule != known[name]},
    }
    if schema.get("required", []) != [name for name in full.get("required", []) if name in given]:
        found["required"] = schema.get("required", "nothing")
    if tool.get("_meta") != whole.get("_meta"):
        found["_meta"] = tool.get("_meta")
    if tool["annotations"] != whole["annotations"]:
        found["annotations"] = tool["annotations"]
    if tool.get("outputSchema") != whole.get("outputSchema"):
        found["outputSchema"] = tool.get("outputSchema", "nothing")
    rest = {"inputSchema": None, "_meta": None, "annotations": None, "outputSchema": None}
    assert {**whole, **rest} == {**tool, **rest}
    kept = {key: value for key, value in found.items() if value}
    return {"name": tool["name"], **kept} if kept else tool["name"]
