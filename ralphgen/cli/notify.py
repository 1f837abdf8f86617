"""The command `notify`: sends a line of text to the user."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import ProjectError, UsageError
from ralphgen.terminal.app import App, Project

app = App()


@app.command(example='ralphgen notify "the backup is done"')
def notify(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, one line.")],
    project: Project = Path(),
) -> None:
    """Send a line of text to your phone or chat.

    It goes where [notify] of the settings sends it, cut after 200 characters. Exits with 1 if the
    line was not sent.
    """
    from ralphgen.cli.trust import asked
    from ralphgen.emit.trust import notify_items, require_trust
    from ralphgen.kits.registry import read_settings
    from ralphgen.loop.notify import address, one_line, send
    from ralphgen.project.root import CONFIG, project_root
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("notify")
    root = project_root(project)
    config = read_settings(root).notify
    if not (line := one_line(text)):
        raise UsageError("the text is empty", 'pass a text, such as "the night is over"')
    if not config.is_set:
        raise ProjectError(f"no [notify] in {CONFIG}", "set its command or its url_env")
    require_trust(root, notify_items(config), asked)
    send(root, config, address(config), line)
