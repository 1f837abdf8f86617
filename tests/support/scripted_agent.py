"""A stand-in for Claude Code: it starts the server of its session, and follows a script.

It imports only the standard library, and is written as a program by `agent_program`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "scripted", "version": "1"},
}


def agent_program(folder: Path, script: str) -> None:
    """Write a program `claude` into a folder; `script` is run with an `agent`, its tools known."""
    path = folder / "claude"
    support = str(Path(__file__).parent)
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, signal, subprocess, sys, time\n"
        f"sys.path.insert(0, {support!r})\n"
        "from scripted_agent import Agent\n"
        f"agent = Agent(sys.argv)\n{script}\n",
        encoding="utf-8",
    )
    path.chmod(0o755)


class Agent:
    """An agent in a session; it writes the events that Claude Code writes."""

    def __init__(self, argv: list[str]) -> None:
        """Start the session's server `ralph`, and report its tools."""
        config = argv[argv.index("--mcp-config") + 1]
        entry = json.loads(Path(config).read_bytes())["mcpServers"]["ralph"]
        self._asked = 0
        self._server = subprocess.Popen(
            [entry["command"], *entry["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._ask("initialize", SHAKE)
        self._send({"method": "notifications/initialized"})
        tools = [f"mcp__ralph__{tool['name']}" for tool in self._ask("tools/list", {})["tools"]]
        servers = [{"name": "ralph", "status": "connected"}]
        self.write(type="system", subtype="init", model="m", tools=tools, mcp_servers=servers)

    def call(self, tool: str, **arguments: Any) -> str:
        """Return the text of a tool's answer or refusal; report it too."""
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(str(block.get("text", "")) for block in answer["content"])
        self.says(f"{tool}: {text}")
        return text

    def says(self, text: str) -> None:
        """Write a message of the model."""
        self.write(type="assistant", message={"content": [{"type": "text", "text": text}]})

    def ends(
        self,
        subtype: str = "success",
        *,
        is_error: bool = False,
        cost: float | None = 0.25,
        more: dict[str, Any] | None = None,
    ) -> None:
        """Write that the session has ended; `more` is added to the event unchanged."""
        models = {"m": {"inputTokens": 1_200, "outputTokens": 34}}
        self.write(
            type="result",
            subtype=subtype,
            is_error=is_error,
            num_turns=3,
            total_cost_usd=cost,
            modelUsage=models,
            **(more or {}),
        )

    def close(self) -> None:
        """End the server, as a client does that ends well."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    @staticmethod
    def write(**event: Any) -> None:
        """Write an event."""
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        assert self._server.stdout is not None
        for line in self._server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                result: dict[str, Any] = answer["result"]
                return result
        raise EOFError("the server has ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()
