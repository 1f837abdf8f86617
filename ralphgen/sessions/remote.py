"""Which kits of a project are reached over HTTP, and where."""

from ralphgen.errors import UsageError
from ralphgen.kits.registry import KITS
from ralphgen.planning.server import plan_server
from ralphgen.project.config_values import is_public_url
from ralphgen.project.model import Project


def remote_kits(project: Project, url: str) -> dict[str, str]:
    """Return, by kit, the address of those that the server at `url` serves.

    The other kits work on files, and stay where these are. Raises `UsageError` for a URL that can
    have no kits below it, and `ProjectError` where the project cannot be planned.
    """
    if not is_public_url(url):
        text = f'"{url}" is no address of a server'
        raise UsageError(text, "write the url of [http], such as https://mcp.example.com/mcp")
    served = plan_server(project, KITS).kits
    return {kit.key: f"{url}/{kit.key}" for kit in served if kit.http is not None}
