"""Builds the environment of a project's server if it is missing."""

from ralphgen.environment.location import Environment, environment_for, is_complete
from ralphgen.errors import ProjectError, Say


def ensure_environment(lock: str, *, say: Say | None) -> Environment:
    """Return the environment for this lock, built if it is missing; `say` gets lines of progress.

    Of several processes one builds and the others wait. Raises `ProjectError` if it cannot be
    built, or is missing without `say`; nothing half-made is kept or counts as complete.
    """
    environment = environment_for(lock)
    if not is_complete(environment):
        if say is None:
            raise ProjectError("the server's environment is not built yet", 'run "ralphgen regen"')
        from ralphgen.environment.build import build

        build(environment, lock, say)
    return environment
