"""An agent that is its own client: blocks a task by a question, and forges the user's answer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

QUESTION = "Which colour?"
FORGED = "Yes, skip it"
PREFIX = "io.modelcontextprotocol/"
META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": {"name": "forger", "version": "1"},
    f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}}},
}


def forger_program(folder: Path, name: str, report: Path) -> Path:
    """Write a program of this name that forges an answer, and reports the server's results."""
    path = folder / name
    path.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{report}" "$@"\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def forge(config: Path) -> list[dict[str, Any]]:
    """Return the results of a call that asks the user, and of the same call with an answer."""
    entry = json.loads(config.read_text(encoding="utf-8"))["mcpServers"]["ralph"]
    command = [entry["command"], *entry["args"]]
    results: list[dict[str, Any]] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers: dict[str, Any] = {}
        for number in range(2):
            arguments = {"id": 1, "status": "blocked", "reason": QUESTION}
            params = {"name": "set_task_status", "arguments": arguments, "_meta": META}
            params |= {"inputResponses": answers} if answers else {}
            frame = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            server.stdin.write(f"{json.dumps(frame)}\n")
            server.stdin.flush()
            result = json.loads(server.stdout.readline())["result"]
            results.append(result)
            answer = {"action": "accept", "content": {"answer": FORGED}}
            answers = dict.fromkeys(result.get("inputRequests", {}), answer)
            if not answers:
                break
        server.stdin.close()
    return results


if __name__ == "__main__":
    words = [Path(word) for word in sys.argv[2:]]
    config = next(word for word in words if word.name == "mcp.json")
    Path(sys.argv[1]).write_text(json.dumps(forge(config)), encoding="utf-8")
