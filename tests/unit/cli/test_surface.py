"""The surface of the command line: the common parts of all commands and lists of commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen

from ralphgen.cli.commands import load
from ralphgen.terminal.console import COMMANDS, HIDDEN, PANELS

LONGEST = 60  # characters of a summary
pytestmark = pytest.mark.slow
WITH_PATH = {"init", "regen", "check", "upgrade", "doctor"}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command and group with its whole name."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for part, one in getattr(command, "commands", {}).items():
            yield from below(f"{name} {part}", one)

    for name in COMMANDS:
        yield from below(name, load(name))


ALL = dict(commands())
RUN = {name: one for name, one in ALL.items() if not hasattr(one, "commands")}


@pytest.mark.parametrize("name", RUN)
def test_a_command_takes_the_project_as_an_option(name: str) -> None:
    options = {option for one in RUN[name].params for option in one.opts}
    assert {"--project", "-C"} <= options


@pytest.mark.parametrize("name", RUN)
def test_only_five_commands_take_a_path(name: str) -> None:
    assert (name in WITH_PATH) == ("path" in {one.name for one in RUN[name].params})


@pytest.mark.parametrize("name", RUN)
def test_every_question_can_be_answered_by_a_short_option(name: str) -> None:
    (yes,) = [{*one.opts} for one in RUN[name].params if one.name == "yes"] or [{"--yes", "-y"}]
    assert {"--yes", "-y"} == yes


@pytest.mark.parametrize("name", ALL)
def test_a_summary_fits_one_line(name: str) -> None:
    summary = ALL[name].help.partition("\n\n")[0].partition(". ")[0]
    assert 0 < len(summary.rstrip(".")) <= LONGEST


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_begins_with_the_summary_of_the_list(name: str) -> None:
    assert COMMANDS[name].summary == ALL[name].help.partition("\n\n")[0]


def test_the_list_fits_a_terminal() -> None:
    lines = ralphgen("--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(map(len, PANELS.values())) <= 30
    assert not [name for name in HIDDEN if any(line.startswith(f"  {name} ") for line in lines)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_the_named_shell(shell: str, tmp_path: Path) -> None:
    done = ralphgen("--install-completion", shell, more={"HOME": str(tmp_path)})

    assert done.stdout.startswith(f"{shell} completion installed in {tmp_path}"), done.stderr
    refused = ralphgen("--show-completion", "tcsh", more={"HOME": str(tmp_path)})
    assert 2 == refused.returncode
    assert 'invalid --show-completion "tcsh": use bash, zsh, fish' in refused.stderr
