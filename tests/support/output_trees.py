"""Small generated trees that the tests of the generated folder start from."""

from pathlib import Path

from ralphgen.files import Files, seal

FACTS: dict[str, object] = {"ralphgen": "0.1.0", "plan": "0" * 64}


def sealed(**texts: str) -> Files:
    """Files from keywords: `ralph__tasks_py="…"` is `ralph/tasks.py`."""
    paths = {name.replace("__", "/").replace("_py", ".py"): text for name, text in texts.items()}
    return seal(paths, FACTS)


def tree(folder: Path) -> Files:
    """Every file below a folder but the lock: POSIX path → text, byte for byte."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


OLD = sealed(server_py="one\n", ralph__tasks_py="two\n", dela__tools_py="three\n")
NEW = sealed(server_py="one\n", ralph__tasks_py="2\n", acm__tools_py="four\n")
FILE = seal({"kit": "a file\n", "server.py": "1\n"}, FACTS)
FOLDER = seal({"kit/a.py": "below\n", "kit/b/c.py": "deeper\n", "server.py": "1\n"}, FACTS)
