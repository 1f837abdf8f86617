"""Clients see every current task of the project, with everything needed to start it."""

from pathlib import Path
from typing import Any

import pytest
from dela_projects import project_with, refusal, serving
from driving import Driver, connected, context_for, on_context
from wire import MODERN, running

FILES = {
    "Makefile": """\
        include more.mk
        build: ## Build it
        \t@echo built by make
        test:
        \t@true
        """,
    "more.mk": "included:\n\t@echo included\n",
    "package.json": '{"scripts": {"build": "echo built by npm", "start": "node ."}}',
    "package-lock.json": "{}",
    "compose.yaml": "services:\n  web:\n    image: web\n",
    "CMakeLists.txt": 'add_custom_target(image COMMENT "Make the image")\n',
    "hello.sh": "#!/bin/sh\n# Greet\necho hello\n",
    "sub/hello.sh": "#!/bin/sh\necho hello from below\n",
    "sub/deep/.keep": "",
}


def listed(dela: Driver, **arguments: Any) -> list[str]:
    """Return the unique names of a listing in order."""
    return [task["unique_name"] for task in dela.call("list_tasks", **arguments)["tasks"]]


def test_project_without_tasks_has_empty_answers(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", {"readme.txt": "nothing to run\n"})
    with serving(root, tmp_path / "home") as dela:
        assert {"tasks": [], "total": 0, "errors": []} == dela.call("list_tasks")
        assert {"running": [], "cwd": str(root)} == dela.call("status")
        assert {"jobs": []} == dela.call("task_status", unique_name="build")


def test_tasks_are_listed_by_format_then_in_file_order(dela: Driver) -> None:
    names = ["build-m", "test", "included", "build-n", "start", "up", "down", "web", "image"]

    assert [*names, "hello"] == listed(dela)


@pytest.mark.parametrize(
    ("runner", "names"),
    [
        ("make", ["build-m", "test", "included"]),
        ("docker compose", ["up", "down", "web"]),
        ("sh", ["hello"]),
        ("gradle", []),
    ],
)
def test_runner_filters_by_its_exact_name(dela: Driver, runner: str, names: list[str]) -> None:
    assert names == listed(dela, runner=runner)


@pytest.mark.parametrize("name", ["Make", "MAKE ", "docker-compose", "none", ""])
def test_unknown_runner_is_refused_with_the_runners(dela: Driver, name: str) -> None:
    code, message, data = refusal(dela, "list_tasks", runner=name)
    use = "Use 'make'. " if name.strip().lower() == "make" else ""
    expected = f"{use}Runners of the tasks found: make, npm, docker compose, cmake, sh"

    assert (-32602, f"Invalid arguments: unknown runner '{name}'") == (code, message)
    assert expected == data


def test_task_names_the_file_that_defines_it(dela: Driver, root: Path) -> None:
    tasks = {task["unique_name"]: task for task in dela.call("list_tasks")["tasks"]}

    assert str(root / "more.mk") == tasks["included"]["file_path"]
    assert "make included" == tasks["included"]["command"]
    assert ("hello.sh", "./hello.sh", "Greet") == tuple(
        tasks["hello"][key] for key in ("source_name", "command", "description")
    )
    assert tasks["test"]["description"] is None


def test_task_without_an_available_runner_is_listed_as_such(dela: Driver) -> None:
    (image,) = dela.call("list_tasks", runner="cmake")["tasks"]

    assert (False, True) == (image["runner_available"], image["allowlisted"])
    assert "Make the image" == image["description"]


def test_pages_follow_each_other_to_the_end(dela: Driver) -> None:
    names: list[str] = []
    given: dict[str, Any] = {"limit": 3}
    for size in (3, 3, 3, 1):
        answer = dela.call("list_tasks", **given)
        assert (size, 10) == (len(answer["tasks"]), answer["total"])
        names += [task["unique_name"] for task in answer["tasks"]]
        given["cursor"] = answer.get("next_cursor")

    assert given["cursor"] is None
    assert listed(dela) == names


@pytest.mark.parametrize("cursor", ["", "0", "10", "-1", "x", "1.0"])
def test_unknown_cursor_is_refused(dela: Driver, cursor: str) -> None:
    assert -32602 == refusal(dela, "list_tasks", cursor=cursor).code


def test_unreadable_file_is_named_next_to_the_other_tasks(dela: Driver, root: Path) -> None:
    path = root / "pyproject.toml"
    path.write_text("[project\n", encoding="utf-8")
    try:
        answer = dela.call("list_tasks")
    finally:
        path.unlink()

    assert [str(path)] == [error["file_path"] for error in answer["errors"]]
    assert answer["errors"][0]["error"]
    assert 10 == answer["total"]
    assert [] == dela.call("list_tasks")["errors"]


def test_next_call_sees_a_change_of_a_file(dela: Driver, root: Path) -> None:
    """A start sees it too, without a wait: nothing is cached."""
    path = root / "fresh.sh"
    assert -32012 == refusal(dela, "task_start", unique_name="fresh").code
    path.write_text("echo first\n", encoding="utf-8")
    path.chmod(0o755)
    try:
        assert "fresh" in listed(dela)
        path.write_text("#!/bin/sh\necho second\n", encoding="utf-8")
        answer = dela.call("task_start", unique_name="fresh", wait_for_exit_seconds=20)
    finally:
        path.unlink()

    assert "second\n" == answer["initial_output"]
    assert "fresh" not in listed(dela)


class TestFolders:
    """A folder of the project has its own tasks, and nothing outside of the project has any."""

    def test_tasks_of_a_directory_are_defined_there(self, dela: Driver, root: Path) -> None:
        (task,) = dela.call("list_tasks", cwd="sub")["tasks"]

        assert ("hello", str(root / "sub/hello.sh")) == (task["unique_name"], task["file_path"])
        assert [] == listed(dela, cwd=str(root / "sub/deep"))

    @pytest.mark.parametrize("tool", ["list_tasks", "task_start"])
    def test_directory_outside_is_refused_in_any_spelling(
        self, dela: Driver, root: Path, tool: str, tmp_path: Path
    ) -> None:
        link = root / "out"
        link.symlink_to(tmp_path)
        given = {"unique_name": "hello"} if tool == "task_start" else {}
        try:
            found = {
                refusal(dela, tool, cwd=cwd, **given).code
                for cwd in ("..", "sub/../..", "/", str(tmp_path), "out", str(root) + "-2")
            }
        finally:
            link.unlink()

        assert {-32603} == found

    def test_path_that_is_not_a_directory_is_refused(self, dela: Driver) -> None:
        for cwd in ("nowhere", "Makefile", "sub\0"):
            code, message, data = refusal(dela, "list_tasks", cwd=cwd)
            assert (-32603, True) == (code, message.startswith("Requested cwd '"))
            assert data


def test_root_of_the_settings_is_the_root_of_the_tasks(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", FILES, settings='root = "sub"')
    with serving(root, tmp_path / "home") as dela:
        assert ["hello"] == listed(dela)
        assert str(root / "sub") == dela.call("status")["cwd"]
        assert -32603 == refusal(dela, "list_tasks", cwd=str(root)).code


def test_both_eras_get_the_same_listing_and_are_offered_no_prompts(
    root: Path, dela: Driver
) -> None:
    """Tools, and processes as resources; extensions are for the stateless version."""
    with connected(root, kit="dela", era="legacy") as older:
        assert dela.call("list_tasks") == older.call("list_tasks")
        offered, earlier = (
            driver.client.server_capabilities.model_dump(exclude_none=True).keys()
            for driver in (dela, older)
        )
        assert {"tools", "resources", "completions"} == earlier
        assert {*earlier, "extensions"} == offered


@pytest.mark.thorough
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_every_error_of_wrong_arguments_has_data(root: Path, version: str) -> None:
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "list_tasks", "arguments": {"runer": "make"}}),
        ("tools/call", {"name": "list_tasks", "arguments": {"limit": 0}}),
        ("tools/call", {"name": "list_tasks", "arguments": {"cursor": "none"}}),
        ("tools/call", {"name": "task_status", "arguments": {}}),
        ("tools/call", {"name": "task_start", "arguments": {}}),
        ("tools/call", {"name": "task_output", "arguments": {"pid": "one"}}),
        ("tools/call", {"name": "nothing", "arguments": {}}),
        ("tools/list", {"cursor": "none"}),
        ("resources/list", {"cursor": "none"}),
        ("resources/read", {"uri": "job://1"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "job://{none}"},
                "argument": {"name": "none", "value": ""},
            },
        ),
    ]
    with running(root, "dela", *on_context(context_for(root, "manual"))) as server:
        server.shake_hands(version)
        errors = [server.ask(name, {**given, **envelope})["error"] for name, given in requests]
        server.leave()

    assert {-32602} == {error["code"] for error in errors}
    assert [] == [error for error in errors if not error.get("data")]
