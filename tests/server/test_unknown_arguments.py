"""Every kit refuses an argument that its tool does not have, and names the nearest one."""

from pathlib import Path

import pytest
from driving import Driver, connected, create_project
from mcp import MCPError

from ralphgen.kits.registry import KITS

KEYS = [kit.key for kit in KITS if not kit.any_schema]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every kit that goes with others."""
    kits = ", ".join(f'"{key}"' for key in KEYS)
    return create_project(tmp_path_factory.mktemp("kits") / "p", config=f"kits = [{kits}]\n")


def refusal(driver: Driver, tool: str, **arguments: object) -> str:
    """Return the refusal of a call, as a result, an object or an error."""
    try:
        failed, text = driver.ask(tool, arguments)
    except MCPError as error:
        return error.error.message
    assert failed or '"error"' in text, text
    return text.replace('\\"', '"')


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
def test_a_misspelt_argument_is_refused_with_the_nearest_name(project: Path, key: str) -> None:
    """The originals of acm and specum ignore it: a typo must not pass in silence."""
    plans = {tool.name: tool for kit in KITS if kit.server.key == key for tool in kit.server.tools}
    with connected(project, kit=key) as driver:
        names = [name for name in driver.names() if name in plans]
        told = {name: refusal(driver, name, nonsense=1) for name in names}
        near = {
            (name, argument.name): refusal(driver, name, **{argument.name + "x": "a"})
            for name in names
            for argument in plans[name].arguments[:1]
        }

    assert names
    assert [] == [name for name, text in told.items() if 'unknown argument "nonsense"' not in text]
    assert [] == [
        (place, text)
        for place, text in near.items()
        if f'unknown argument "{place[1]}x": did you mean "{place[1]}"?' not in text
    ]
