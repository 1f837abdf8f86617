"""Every kit: its plan is legal and unique, and its emitted files equal their sources."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driving import SCHEMAS, create_database, create_project
from sources import runtime_text
from syntax_trees import KIT_KEYS, PACKAGE, RUNTIME, SERVERS, absolute, forget, imported, parsed

from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning import RECIPES, KitPlan, ServerPlan
from ralphgen.project.config import Config
from ralphgen.rendering import render_files

NAMES = {"jwt": "pyjwt", "yaml": "pyyaml"}  # packages by their modules, if these differ
TOGETHER = [kit.key for kit in KITS if not kit.any_schema]  # the kits of one project


def switching_on(*kits: str) -> str:
    """The config of a project with these kits."""
    listed = ", ".join(f'"{kit}"' for kit in kits)
    return f"kits = [{listed}]\n"


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """Keep no tree beyond these tests."""
    yield
    forget()


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServerPlan]:
    """The plans of the oldest, the usual and the newest schema that is served, all kits on."""
    found: dict[str, ServerPlan] = {}
    for schema in ("a0", "a8", "b6"):
        root = tmp_path_factory.mktemp(schema)
        create_database(root, (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8"))
        config = switching_on(*TOGETHER)
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        found[schema] = Project(root).plan
    return found


@pytest.fixture(scope="module")
def kit_plans(plans: dict[str, ServerPlan]) -> list[KitPlan]:
    return [kit for plan in plans.values() for kit in plan.kits]


class TestKits:
    """Every kit, in every schema that is served."""

    def test_keys_are_valid_in_the_config_as_folders_and_modules(self) -> None:
        """A kit's package is imported by its key, next to the SDK and the standard library."""
        config = {*Config.model_fields, *(f.alias for f in Config.model_fields.values())}
        taken = {*sys.stdlib_module_names, "mcp", "anyio", "runtime", "policy", "server"}
        taken |= {"launch", "title"}

        assert len(KIT_KEYS) == len({*KIT_KEYS})
        assert set() == {*KIT_KEYS} & taken
        assert set() == {kit.key for kit in KITS if kit.settings is not None} & config
        assert all(re.fullmatch("[a-z]+", key) for key in KIT_KEYS)

    def test_settings_refuse_unknown_keys_and_have_defaults(self) -> None:
        for kit in KITS:
            if kit.settings is not None:
                assert "forbid" == kit.settings.model_config.get("extra"), kit.key
                kit.settings()

    def test_tools_have_legal_names_that_are_theirs_alone(self, kit_plans: list[KitPlan]) -> None:
        for kit in kit_plans:
            names = [tool.name for tool in kit.tools]

            assert len(names) == len({*names})
            assert [] == [name for name in names if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)]

    def test_arguments_have_names_that_a_models_interface_accepts(
        self, kit_plans: list[KitPlan]
    ) -> None:
        """One illegal name makes it refuse the whole request, with every tool in it."""
        names = {
            argument.name for kit in kit_plans for tool in kit.tools for argument in tool.arguments
        }

        assert {name for name in names if re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)} == names

    def test_a_description_is_one_line_of_sentences(self, kit_plans: list[KitPlan]) -> None:
        """Every session pays for every character of it."""
        for kit in kit_plans:
            for tool in kit.tools:
                assert re.fullmatch(r"[A-Z][^\n]{5,198}\.", tool.description), tool.name

    def test_the_catalog_names_offered_and_absent_tools(self, plans: dict[str, ServerPlan]) -> None:
        """An override that names a tool of another schema is not a typo."""
        catalogs = {kit.key: sorted(kit.catalog) for kit in KITS}
        for plan in plans.values():
            for kit in plan.kits:
                offered = [tool.name for tool in kit.tools]

                assert catalogs[kit.key] == sorted([*offered, *kit.absent])

    def test_a_tool_names_recipes_that_there_are(self, kit_plans: list[KitPlan]) -> None:
        for kit in kit_plans:
            offered = [tool.name for tool in kit.tools]

            assert offered == [*kit.allowed("manual")]
            for tool in kit.tools:
                named = {
                    *tool.recipes,
                    *tool.loaded_first_in,
                    *tool.narrowed_arguments,
                    *tool.narrowed_values,
                }

                assert named <= {*RECIPES}, tool.name
                assert {*tool.loaded_first_in} <= {*tool.recipes}, tool.name
                assert {name for names in tool.reserved.values() for name in names} <= {*RECIPES}

    def test_every_tool_has_a_function_of_its_name(self, kit_plans: list[KitPlan]) -> None:
        for kit in kit_plans:
            for tool in kit.tools:
                tree = parsed(PACKAGE / "kits" / kit.key / "server" / f"{tool.module}.py")
                bound = {
                    name.asname or name.name
                    for node in tree.body
                    if isinstance(node, ast.ImportFrom)
                    for name in node.names
                } | {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

                assert tool.name in bound

    def test_a_kit_emits_into_its_own_folders_only(self, kit_plans: list[KitPlan]) -> None:
        for kit in kit_plans:
            own = [*(module.path for module in kit.modules), *kit.assets]

            assert [] == [
                path for path in own if not path.startswith((f"{kit.key}/", f"runtime/{kit.key}/"))
            ]


# Only commands import these: undo, and the claims that `launch` and `loop` take.
OF_COMMANDS = {"engine/stored_rows.py", "engine/sqlite/stored_rows.py"}


def test_the_runtime_is_emitted_unchanged(tmp_path: Path) -> None:
    """It equals the sources, except the prefix of the core in the import lines of kits.

    Only the project's engine is emitted.
    """
    config = switching_on(*TOGETHER) + '[http]\nurl = "https://mcp.example.com/mcp"\n'
    config += "[tables.notes]\n"
    queries = tmp_path / ".ralph" / "queries"
    queries.mkdir(parents=True)
    (queries / "a.sql").write_text("-- name: one :one\n-- One.\nSELECT 1 AS x", encoding="utf-8")
    (tmp_path / ".ralph/tools").mkdir(parents=True)
    own = 'def own(project: Project) -> str:\n    """Say so."""\n'
    (tmp_path / ".ralph/tools/own.py").write_text(own, encoding="utf-8")
    root = create_project(tmp_path, "CREATE TABLE notes (id INTEGER PRIMARY KEY)", config=config)
    emitted = root / ".ralph" / "mcp" / "runtime"
    names = {path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*.py")}
    names = {name for name in names if not name.startswith("engine/postgresql/")} - OF_COMMANDS
    for key, folder in zip(KIT_KEYS, SERVERS, strict=True):
        if key not in TOGETHER:
            continue
        names |= {f"{key}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}

    assert {name: runtime_text(f"runtime/{name}") for name in names} == {
        path.relative_to(emitted).as_posix(): path.read_bytes().decode()
        for path in emitted.rglob("*.py")
    }


@pytest.mark.thorough
@pytest.mark.parametrize("key", KIT_KEYS)
def test_a_kit_alone_brings_every_module_that_its_own_import(key: str, tmp_path: Path) -> None:
    """A module that only another kit brings would be missed at the first start without it."""
    create_database(tmp_path, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"))
    (tmp_path / ".ralph/ralphgen.toml").write_text(switching_on(key), encoding="utf-8")
    files = Project(tmp_path).files
    wanted = {
        absolute(PACKAGE / name, module).removeprefix("ralphgen.").replace(".", "/")
        for name, text in files.items()
        if name.startswith("runtime/") and name.endswith(".py")
        for module in imported(ast.walk(ast.parse(text)))
        if module.startswith((".", "runtime."))
    }

    assert {"runtime/errors"} <= wanted
    missing = [
        module for module in wanted if not {f"{module}.py", f"{module}/__init__.py"} & {*files}
    ]
    assert [] == [
        module
        for package, _, name in (one.rpartition("/") for one in missing)
        if (module := f"{package}/{name}")
        if not re.search(rf"\b{name}\b", files.get(f"{package}/__init__.py", ""))
    ]


@pytest.mark.parametrize(
    ("kits", "engine", "is_http", "packages"),
    [
        ("ralph specum acm", "sqlite", False, set()),
        ("ralph dela", "sqlite", False, {"pyyaml", "json5", "defusedxml"}),
        ("ralph rye", "sqlite", False, {"pyyaml", "cryptography", "jsonschema", "httpcore2"}),
        ("ralph", "sqlite", True, {"uvicorn", "httptools", "pyjwt", "cryptography"}),
        ("ralph", "postgresql", False, {"psycopg"}),
    ],
)
def test_a_server_imports_the_standard_library_and_its_lock(
    tmp_path: Path, kits: str, engine: str, is_http: bool, packages: set[str]
) -> None:
    create_database(tmp_path, (SCHEMAS / "b6.sql").read_text(encoding="utf-8"))
    config = switching_on(*kits.split())
    (tmp_path / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    plan = Project(tmp_path).plan
    files = render_files(replace(plan, engine=engine, http={} if is_http else None))
    top = {path.partition("/")[0].removesuffix(".py") for path in files}
    found = {
        module.partition(".")[0]
        for path, text in files.items()
        if path.endswith(".py")
        for module in imported(ast.walk(ast.parse(text)))
        if not module.startswith(".")
    } - {*sys.stdlib_module_names, *top, "_sha2"}  # from 3.12 on
    pinned = {*re.findall(r"(?m)^([\w-]+)==", files.get("requirements.lock", ""))}

    assert packages == {NAMES.get(module, module) for module in found} - {"referencing"}
    assert packages <= pinned
    assert bool(packages) == ("requirements.lock" in files)
    assert set() == pinned & {"mcp", "pydantic", "starlette", "anyio"}


def test_no_server_is_shadowed_by_a_package_around_it(plans: dict[str, ServerPlan]) -> None:
    """`.ralph/mcp/__init__.py` would hide the SDK if `.ralph` were on sys.path."""
    assert [] == [name for name, plan in plans.items() if "__init__.py" in render_files(plan)]
