"""Finds the environment of a lock, and builds it where it is missing."""

from ralphgen.environment.location import Environment, environment_for, is_complete
from ralphgen.errors import Say


def ensure_environment(lock: str, *, say: Say) -> Environment:
    """Return the environment for this lock, built if it is not there; `say` gets lines of progress.

    Of several processes one builds and the others wait. Raises `ProjectError` when it cannot be
    built; nothing half-made is kept or counts as complete.
    """
    environment = environment_for(lock)
    if not is_complete(environment):
        from ralphgen.environment.build import build

        build(environment, lock, say)
    return environment
