"""The kit of the kits' README, as the page has it: `python readme_kit.py COMMAND...`.

Runs ralphgen's command line with that kit after its own ones.
"""

import re
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import ralphgen.kits
import ralphgen.kits.registry
from ralphgen.cli.main import main as run

README = Path(ralphgen.kits.__path__[0]) / "README.md"
BLOCK = re.compile(r"`(notes/[\w/]+\.py)`[^`]*```python\n(.*?)```", re.DOTALL)


def readme_kit() -> Mapping[str, str]:
    """The modules of the example, by path below the kits' folder."""
    modules = dict(BLOCK.findall(README.read_text(encoding="utf-8")))
    folders = {str(Path(path).parent) for path in modules}
    return {**{f"{folder}/__init__.py": '"""Notes."""\n' for folder in folders}, **modules}


def write_kit(folder: Path) -> None:
    """Write the example's modules below a folder."""
    for name, text in readme_kit().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Run the command of `sys.argv` as `ralphgen` does."""
    with tempfile.TemporaryDirectory() as folder:
        write_kit(Path(folder))
        ralphgen.kits.__path__.append(folder)
        notes = import_module("ralphgen.kits.notes").NOTES
        ralphgen.kits.registry.KITS = (*ralphgen.kits.registry.KITS, notes)
        run()


if __name__ == "__main__":
    main()
