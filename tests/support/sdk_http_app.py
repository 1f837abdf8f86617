"""A project's kit on the SDK's own streamable HTTP app, for comparison with ours.

    python sdk_http_app.py FOLDER [--stateless]

FOLDER is the emitted server's. With `--stateless` it keeps nothing between two requests, and each
answer is one piece of JSON, like ours. It reports its port in a line on standard error, ignores
tokens, and treats every request as part of the session `manual`.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import uvicorn
from emitted_runtime import use_emitted_runtime

SAID = {"jti": "sdk", "rec": "manual"}


async def serve(folder: str, *, stateless: bool) -> None:
    """Answer until the process is ended."""
    sys.path.insert(0, folder)
    sessions, errors = import_module("runtime.http.sessions"), import_module("runtime.errors")
    start = import_module("runtime.start")
    uses = import_module("http_settings").SETTINGS["kits"]
    kits = {name: import_module(name).KIT for name in uses}
    manifest = start.read_manifest(folder)
    policy = start.emitted_policy(manifest)
    session = sessions.OpenSession(
        sessions.Kits(folder, kits, policy, uses, manifest["ralphgen"]).handlers("ralph", SAID)
    )

    async def answered(work: Callable[[], Any], reads: bool, _token: Any) -> Any:
        try:
            return await session.waited(work, reads=reads)
        except errors.RefusedError as error:
            told = import_module("mcp").MCPError(error.code, error.message, error.data)
            raise told from error

    import_module("runtime.protocol.connection")
    use_emitted_runtime()
    server = import_module("sdk_server").KitServer(session.handlers, answered)
    app = server.streamable_http_app(
        streamable_http_path="/mcp/ralph", json_response=stateless, stateless_http=stateless
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stderr.write(f"{listening.getsockname()[1]}\n")
        sys.stderr.flush()
        config = uvicorn.Config(app, http="h11", log_config=None, access_log=False)
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], stateless="--stateless" in sys.argv))
