"""Which versions `requires` means: the release part of this ralphgen is compared, no more."""

from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project import config
from ralphgen.project.config import (
    FILE,
    VersionError,
    contains,
    is_specifier,
    read_config,
    refuse_unwanted,
    release,
)


@pytest.mark.parametrize(
    ("specifier", "inside", "outside"),
    [
        (">=0.2,<0.3", ["0.2", "0.2.9", "0.2.0.dev1", "0.2.0rc1"], ["0.1.9", "0.3", "0.3.0.dev1"]),
        ("~=0.2", ["0.2", "0.10"], ["0.1", "1.0"]),
        ("~=0.2.1", ["0.2.1", "0.2.9"], ["0.2.0", "0.3"]),
        ("==0.2.*", ["0.2", "0.2.7"], ["0.20", "0.3"]),
        ("== 0.2.0", ["0.2", "0.2.0.0"], ["0.2.1"]),
        ("!=0.2.*, >0.1", ["0.3"], ["0.2", "0.2.1", "0.1"]),
        (">=0.2.0.dev0", ["0.2"], ["0.1.9"]),
    ],
)
def test_releases_are_compared_as_packages_do(
    specifier: str, inside: list[str], outside: list[str]
) -> None:
    assert is_specifier(specifier)
    for version in inside:
        assert contains(specifier, release(version) or ())
    for version in outside:
        assert not contains(specifier, release(version) or ())


@pytest.mark.parametrize("text", ["", "0.2", "=>0.2", ">=", ">=0.2,", "~=1", ">=0.2.*", "===0.2"])
def test_an_invalid_specifier_is_an_error_at_its_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text(f'# mine\nrequires = "{text}"\n', encoding="utf-8")
    refuse_unwanted(tmp_path, FILE)
    with pytest.raises(ProjectError) as caught:
        read_config(tmp_path, ("ralph",))

    assert str(caught.value).startswith(f'{FILE}:2: "requires" is "{text}", expected versions of')


@pytest.mark.parametrize("text", ["<0.3,", ",<0.3", ">=0.2,,<0.3"])
def test_a_comma_with_nothing_next_to_it_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text(f'requires = "{text}"\n', encoding="utf-8")
    with pytest.raises(ProjectError, match="versions of ralphgen on both sides of each comma"):
        read_config(tmp_path, ("ralph",))


def test_a_range_without_this_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "__version__", "0.2.0.dev3")
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text('requires = ">=0.2"\n', encoding="utf-8")
    refuse_unwanted(tmp_path, FILE)
    path.write_text('requires = "<0.2"\n[later]\nkey = 1\n', encoding="utf-8")
    with pytest.raises(VersionError, match="this is ralphgen"):
        refuse_unwanted(tmp_path, FILE)
