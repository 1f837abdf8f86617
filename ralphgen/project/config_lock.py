"""The lock that holds for all that write the project's config."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralphgen.output.stage import explained
from ralphgen.output.write import exclusive
from ralphgen.project.root import FOLDER


@contextmanager
def config_lock(root: Path) -> Iterator[None]:
    """Let nobody else write the config of the project in `root`, from the look to the write.

    It is the lock of the generated folder, which is made if it is not there: `write` waits too, and
    must not be called inside. The database's locks are taken inside, never around it. Raises
    `ProjectError` where another process holds it too long, or the folder cannot be written.
    """
    folder = root / FOLDER
    with explained(folder, "written"), exclusive(folder):
        yield
