"""Lays out the site of the documentation: what is written, and a reference made from the code.

`python docs/build.py FOLDER` fills a folder that is not there yet; in it, `zensical build --strict`
makes the site.
"""

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from reference import reference_pages

ROOT = Path(__file__).parents[1]
# What is written lies at its own place on the site too, so that links between pages lead there.
WRITTEN = (
    ".github/CONTRIBUTING.md",
    ".github/SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "docs/*.md",
    "docs/*.svg",
    "docs/pictures/*.png",
    "examples/**/*",
    "fixtures/README.md",
    "ralphgen/README.md",
    "ralphgen/board/README.md",
    "ralphgen/kits/README.md",
    "tests/README.md",
    "tests/benchmarks/README.md",
)


def lay_out(folder: Path) -> None:
    """Fill a folder with the site's pages and settings; raises `FileExistsError` if it is there."""
    folder.mkdir(parents=True)
    pages = folder / "pages"
    for pattern in WRITTEN:
        for path in ROOT.glob(pattern):
            if path.is_file():
                place = pages / seen(path.relative_to(ROOT).as_posix())
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
                if path.suffix == ".md":
                    place.write_text(seen(path.read_text(encoding="utf-8")), encoding="utf-8")
    reference = pages / "docs" / "reference"
    reference.mkdir()
    for name, text in reference_pages().items():
        (reference / f"{name}.md").write_text(text, encoding="utf-8")
    settings = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    (folder / "zensical.toml").write_text(settings, encoding="utf-8")
    (pages / "llms.txt").write_text(
        index(pages, tomllib.loads(settings)["project"]), encoding="utf-8"
    )


def seen(text: str) -> str:
    """Return a path, or a text with links, without the folder that a site generator passes over."""
    return text.replace(".github/", "github/")


def index(pages: Path, project: dict[str, Any]) -> str:
    """Return `llms.txt`: what this is, then the pages by section, each with its first sentence."""
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for title, inner in (item for section in project["nav"] for item in section.items()):
        named = [(title, inner)] if isinstance(inner, str) else []
        named += [item for page in inner if isinstance(page, dict) for item in page.items()]
        lines += ["", f"## {title}", ""]
        lines += [f"- [{name}]({path}): {first_sentence(pages / path)}" for name, path in named]
    return "\n".join([*lines, ""])


def first_sentence(page: Path) -> str:
    """Return the first sentence that stands below the title of a page, on one line."""
    plain = re.split(r"\n\n(?=[\w`*\[-])(?!```)", page.read_text(encoding="utf-8"), maxsplit=1)[1]
    return re.split(r"(?<=[.:])\s", " ".join(plain.split()), maxsplit=1)[0]


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
