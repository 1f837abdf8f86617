"""Makes the page of the reference on resources and prompts, from what a kit's server answers."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from ralphgen.spelling import markdown_cell

INTRODUCTION = """\
# Resources and prompts

The resources and prompts of each kit in a new project. A client that subscribes to a resource gets
a notification after a change. Rows of [your own tables](../tables.md) are resources too:
`ralph://tables/TABLE/KEY`, or `tables://tables/TABLE/KEY` of the server `tables`. A session of
`ralph` has one prompt: [its brief][1], with the name of its recipe. The recipes `manual` and
`interactive` have no prompt.

[1]: ../launch.md#the-brief
"""
Named = list[tuple[str, str]]
"""Names of resources or prompts, each with its description."""


def resources_page(root: Path, kits: Iterable[str]) -> str:
    """Return the page as Markdown; asks the servers of a project that was generated."""
    parts = [INTRODUCTION]
    for kit in kits:
        templates, listed, prompts = asyncio.run(_asked(root, kit))
        parts.append(f"## {kit}\n")
        parts += [*_rows("resource", [*templates, *listed]), *_rows("prompt", prompts)]
        if not (templates or listed or prompts):
            parts.append("It has none.\n")
    return "\n".join(parts)


async def _asked(root: Path, kit: str) -> tuple[Named, Named, Named]:
    """Return the templates, resources and prompts of a kit's server."""
    server = str(root / ".ralph/mcp/server.py")
    started = StdioServerParameters(command=sys.executable, args=["-I", server, kit], cwd=root)
    async with Client(stdio_client(started)) as client:
        has = client.server_capabilities
        templates, listed, prompts = [], [], []
        if has.resources is not None:
            more = (await client.list_resource_templates()).resource_templates
            templates = [(one.uri_template, one.description or one.name) for one in more]
            found = (await client.list_resources()).resources
            listed = [(str(one.uri), one.description or one.name) for one in found]
        if has.prompts is not None:
            offered = (await client.list_prompts()).prompts
            prompts = [(one.name, one.description or "") for one in offered]
    return templates, listed, prompts


def _rows(head: str, rows: Named) -> Iterator[str]:
    if rows:
        yield f"| {head} | |\n|---|---|"
        yield from (f"| `{name}` | {markdown_cell(words)} |" for name, words in rows)
        yield ""
