"""A project's kit on the SDK's own streamable HTTP app, without ours: what we are compared with.

    python -I sdk_http_app.py FOLDER

FOLDER is the emitted server's. It says its port in a line on standard error, knows no tokens, and
takes every request for one of the session `manual`.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import uvicorn

SAID = {"jti": "sdk", "rec": "manual"}


async def serve(folder: str) -> None:
    """Answer until the process is ended."""
    sys.path.insert(0, folder)
    sessions, errors = import_module("runtime.http.sessions"), import_module("runtime.errors")
    start = import_module("runtime.start")
    uses = import_module("http_settings").SETTINGS["kits"]
    kits = {name: import_module(name).KIT for name in uses}
    policy = start.emitted_policy(start.read_manifest(folder))
    session = sessions.OpenSession(
        sessions.Kits(folder, kits, policy, uses, "0").handlers("ralph", SAID)
    )

    async def answered(work: Callable[[], Any], reads: bool, _token: Any) -> Any:
        try:
            return await session.waited(work, reads=reads)
        except errors.RefusedError as error:
            told = import_module("mcp").MCPError(error.code, error.message, error.data)
            raise told from error

    server = import_module("runtime.protocol.sdk_server").KitServer(session.handlers, answered)
    app = server.streamable_http_app(streamable_http_path="/mcp/ralph")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stderr.write(f"{listening.getsockname()[1]}\n")
        sys.stderr.flush()
        config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
