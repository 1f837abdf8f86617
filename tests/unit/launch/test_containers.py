"""An agent in a container works with the server outside, by the command that the page shows."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from http_servers import KEY, http_project, serving, token
from proved_projects import git
from syntax_trees import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
BASH = str(shutil.which("bash"))
PAGE = ROOT / "docs/containers.md"
LIMITS = "--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"  # not above those of the tests
CALL = """
import json, os, sys, urllib.request
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
headers = {
    "Authorization": "Bearer " + os.environ["RALPH_TOKEN"],
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
request = urllib.request.Request(sys.argv[1], json.dumps(body).encode(), headers)
tools = json.load(urllib.request.urlopen(request, timeout=30))["result"]["tools"]
print("tools:", *sorted(tool["name"] for tool in tools))
"""


def podman(image: Path) -> str:
    """Return the words that run a container on a root directory of this machine.

    Skips the test on a machine that cannot run one.
    """
    runtime = "--runtime runc --cgroup-manager cgroupfs " if shutil.which("runc") else ""
    for name in ("etc", "proc", "sys", "dev", "tmp", "run", "usr", "src"):
        (image / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (image / name).symlink_to(f"usr/{name}")
    words = f"podman {runtime}run --rm --volume /usr:/usr:ro {LIMITS}"
    probe = [BASH, "-c", f"{words} --rootfs {image} true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no container runs here: {done.stderr.strip()[-200:]}")
    return words


def test_the_container_of_the_page_has_the_tools_and_no_database(tmp_path: Path) -> None:
    run = podman(tmp_path / "image")
    root = http_project(tmp_path / "p")
    (root / ".ralph/db/note").touch()
    (root / "call.py").write_text(CALL, encoding="utf-8")
    git(root, "init", "-q")
    shown = re.search(r"```text\n(export .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    with serving(root) as server:
        attack = (
            f"python3 call.py {server.url}; echo x > new.txt; find .ralph -mindepth 1;"
            " echo x > .git/hooks/pre-commit; umount .ralph .git; rm -rf .git/config"
        )
        script = (
            shown[1]
            .split("\n", 1)[1]
            .replace("docker run --rm -it", run)
            .replace("your-image your-agent", f'--rootfs {tmp_path}/image bash -c "{attack}"')
        )
        done = subprocess.run(
            [BASH, "-c", script],
            cwd=root,
            env={**os.environ, "RALPH_TOKEN": token(root)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.stdout.startswith("tools: "), done.stderr
    assert "list_tasks" in done.stdout
    assert 1 == len(done.stdout.splitlines())
    assert "x\n" == (root / "new.txt").read_text(encoding="utf-8")
    assert not (root / ".git/hooks/pre-commit").exists()
    assert (root / ".git/config").exists()
    assert KEY not in done.stdout + done.stderr
