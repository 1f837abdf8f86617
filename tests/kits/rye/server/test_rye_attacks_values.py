"""Parameters are plain values: never options, templates, settings or secrets."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rye_attacks import OFF, ran, showing
from rye_projects import Rye, directive, put, python_tool, serving, yaml_tool

SECRET = "s3cr3t-of-the-server"  # noqa: S105
SECRETS = {
    "SECRET_TOKEN": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "LD_LIBRARY_PATH": f"/{SECRET}",
    "PYTHONPATH": f"/{SECRET}",
    "PYTHONSTARTUP": f"/{SECRET}",
    "RYE_PYTHON": f"/{SECRET}",
    "BASH_ENV": f"/{SECRET}",
    "GIT_SSH_COMMAND": SECRET,
}
NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("PWD", "RALPHGEN_TASK", "LC_CTYPE"),  # set by launchers and by Python itself
    )
)
SHELL = (
    "; touch {marker}",
    "$(touch {marker})",
    "`touch {marker}`",
    "| touch {marker}",
    "& touch {marker} &",
    "> {marker}",
    "\ntouch {marker}\n",
    "'; touch {marker}; '",
    '"; touch {marker}; "',
    "a(b) c",
    "*",
    "~",
    "$HOME",
    "!!",
    "\\",
)
TEMPLATES = (
    "${HOME}",
    "${SECRET_TOKEN}",
    "${SECRET_TOKEN:-x}",
    "${NOT_THERE:-x}",
    "{project_path}",
    "{tool_path}",
    "{shim}",
    "{params_json}",
    "{value}",
    "{other}",
    "{{value}}",
    "${{HOME}}",
    "{env:HOME}",
    "${inputs.value}",
    "{input:value}",
    "{value.__class__}",
    "%(HOME)s",
    "$HOME",
)
BUILT_IN = (
    *("params_json", "project_path", "shim", "tool_dir", "tool_neighbours", "tool_path"),
    "tool_sha256",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rye]:
    """Yield a session with secrets in its environment and no required signatures."""
    folder = tmp_path_factory.mktemp("values")
    with serving(folder, settings=OFF, environment=SECRETS) as rye:
        yield rye


@pytest.fixture
def rye(served: Rye) -> Rye:
    """Return the session without items."""
    served.clear()
    return served


def seen(rye: Rye, text: str, **parameters: Any) -> tuple[list[str], dict[str, str], str]:
    """Run a tool; return its command's arguments, environment variables and input."""
    rye.put("tool", "a", text, extension=".yaml")
    arguments, variables, given = rye.run("tool", "a", **parameters)["data"]["json"]
    return arguments, variables, given


@pytest.mark.parametrize("value", ["--exec-path", "-c", "--", "a b --c", "-x=1 -y", "", "\t"])
def test_an_argument_stays_one_argument(rye: Rye, value: str) -> None:
    """S5: it is never split; after an author's "--" it cannot be an option."""
    text = showing("a", "--", "{value}", "x{value}")

    assert ["--", value, f"x{value}"] == seen(rye, text, value=value)[0]


@pytest.mark.parametrize("value", SHELL)
def test_no_shell_reads_a_value(rye: Rye, value: str) -> None:
    """S6, S10: it arrives unchanged, without quotes and without effect."""
    marker = rye.folder / "marker"
    value = value.format(marker=marker)
    text = showing("a", "{value}", "v={value}", config={"input_data": "{value}"})

    assert ([value, f"v={value}"], value) == seen(rye, text, value=value)[::2]
    assert not marker.exists()


@pytest.mark.parametrize("value", TEMPLATES)
def test_a_value_is_not_filled_in(rye: Rye, value: str) -> None:
    """S7, S8: only the author's text is filled, once: arguments, input, variables, directives."""
    text = showing(
        "a",
        "{value}",
        "{value}{value}",
        config={"input_data": "{value}", "env": {"OWN": "{value}"}},
    )
    arguments, variables, given = seen(rye, text, value=value, other="else")
    rye.put("directive", "a", directive("a", body="{input:who} ${inputs.who}"))
    body = rye.run("directive", "a", who=value)["data"]["body"]

    assert [value, value * 2] == arguments
    assert (value, value) == (variables["OWN"], given)
    assert f"{value} {value}" == body


def test_a_python_tool_is_run_by_its_own_file(rye: Rye) -> None:
    """S9: parameters with such names are passed unchanged."""
    marker = rye.folder / "marker"
    evil = put(rye.folder / "evil.py", f"open({str(marker)!r}, 'w')\n")
    mine = {name: str(evil) for name in (*BUILT_IN, "tool", "command", "RYE_PYTHON")}
    rye.put("tool", "a", python_tool("a"))

    assert mine == rye.run("tool", "a", **mine)["data"]["params"]
    assert not marker.exists()


def test_a_tool_sees_nothing_of_the_servers_environment(rye: Rye) -> None:
    """S14: a command receives only the listed variables."""
    _, variables, _ = seen(rye, showing("a"))

    assert set() == {*variables} - NAMES
    assert SECRET not in json.dumps(variables)


@pytest.mark.parametrize("tool", ["load", "execute", "sign", "search"])
def test_no_answer_holds_a_secret(rye: Rye, tool: str) -> None:
    """S14: neither a dry run nor a refusal or failure."""
    names = "".join(f"${{{name}}}" for name in SECRETS)
    rye.put("tool", "a", showing("a", names, "{value}"), extension=".yaml")
    rye.put("tool", "b", yaml_tool("b", config={"command": names}), extension=".yaml")
    rye.put("tool", "c", yaml_tool("c", config={"command": "x", "cwd": names}), extension=".yaml")
    rye.put("directive", "d", directive("d", body=names + "{env:SECRET_TOKEN}"))
    answers = [
        rye.ask(tool, **given)
        for item_type, item_id in (("tool", "a"), ("tool", "b"), ("tool", "c"), ("directive", "d"))
        for given in (
            [{"item_type": item_type, "query": names}]
            if tool == "search"
            else [{"item_type": item_type, "item_id": item_id}]
        )
    ]
    if tool == "execute":
        answers += [
            rye.ask(tool, item_type="tool", item_id=item_id, dry_run=True) for item_id in "abc"
        ]

    assert SECRET not in json.dumps(answers)
    assert SECRET not in (rye.folder / "log.txt").read_text("utf-8")


def test_a_file_of_variables_in_the_project_is_not_read(rye: Rye) -> None:
    """S14: a repository can set variables only in a signed item."""
    for folder in (rye.root, rye.project):
        put(folder / ".env", "LD_PRELOAD=/mine.so\nEVIL=1\nexport PATH=/mine\n")
    _, variables, _ = seen(rye, showing("a"))

    assert set() == {"LD_PRELOAD", "EVIL"} & {*variables}
    assert os.environ["PATH"] == variables["PATH"]


@pytest.mark.parametrize("cwd", ["/", "..", "/tmp", "{value}", "way", "../project-beside", "\0"])  # noqa: S108
def test_a_command_runs_in_no_folder_outside(rye: Rye, cwd: str) -> None:
    """S9: neither its author nor its caller can choose such a directory."""
    if not (rye.root / "way").is_symlink():
        (rye.root / "way").symlink_to(rye.folder)
    put(rye.folder / "project-beside/x", "")
    args = ["-I", "-c", f"open({str(rye.folder / 'marker')!r}, 'w')"]
    config = {"command": sys.executable, "args": args, "cwd": cwd}
    rye.put("tool", "a", yaml_tool("a", config=config), extension=".yaml")

    assert ran(rye, "a", value="/etc") in ("SPACE_VIOLATION", "VALIDATION_FAILED")
    assert not (rye.folder / "marker").exists()


def test_a_relative_command_is_one_of_the_project(rye: Rye) -> None:
    """S1: `./own` is relative to `cwd`; a bare name is not searched in the project."""
    put(rye.root / "sub/own", "#!/bin/sh\necho own").chmod(0o755)
    put(rye.root / "own", "#!/bin/sh\necho theirs").chmod(0o755)
    config = {"command": "./own", "cwd": "sub"}
    rye.put("tool", "a", yaml_tool("a", config=config), extension=".yaml")
    rye.put("tool", "b", yaml_tool("b", config={**config, "command": "own"}), extension=".yaml")

    assert "own\n" == rye.run("tool", "a")["data"]["stdout"]
    assert "EXECUTION_FAILED" == ran(rye, "b")
