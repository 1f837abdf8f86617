"""Documents are read only within their directory and up to a maximal length."""

from pathlib import Path

import pytest

from ralphgen.kits.acm.server.workspace import LARGEST, UnreadableDocumentError, read_text


def test_a_file_that_is_too_long_is_not_a_document(tmp_path: Path) -> None:
    with (tmp_path / "long.md").open("wb") as file:
        file.truncate(LARGEST + 1)
    with (tmp_path / "most.md").open("wb") as file:
        file.truncate(LARGEST)

    assert LARGEST == len(read_text(str(tmp_path), "most.md"))
    with pytest.raises(UnreadableDocumentError, match="is larger than 8,388,608 bytes"):
        read_text(str(tmp_path), "long.md")
