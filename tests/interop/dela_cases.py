"""Projects, calls and allowlists that are given to dela and to our server alike."""

import json
from pathlib import Path
from typing import Any

from dela_projects import HOLDING, entry

PLAIN = {
    "GNUmakefile": "include more.mk\nbuild:\n\t@echo Build\ntype: build\n",
    "more.mk": "extra:\n\t@echo More\n",
    "yarn.lock": "",
    "package.json": '{"scripts": {"start": "node .", "lint": "eslint ."}}',
    "Taskfile.yml": """\
        version: "3"
        includes:
          docs: ./docs.yml
        tasks:
          watch:
            desc: Watch the files
            cmds: [echo watching]
          hidden:
            internal: true
            cmds: [echo hidden]
          pack:
            cmds: [echo packing]
        """,
    "docs.yml": "version: '3'\ntasks:\n  site:\n    cmds: [echo one, echo two]\n",
    "turbo.json": '{"tasks": {"dev": {}, "preview": {}}}',
    "build.gradle": "apply plugin: 'java'\ntask hello { description 'Greet' }\n",
    "docker-compose.yml": "services:\n  web:\n    image: web:1\n  api:\n    build: ./api\n",
    ".travis.yml": "language: python\n",
    "justfile": "# Sweep up\nsweep:\n    echo sweeping\n\nmop floor:\n    echo {{ floor }}\n",
    "hello.sh": "#!/bin/sh\necho hello\n",
}
"""Files as plain as dela wants them in every format; those of the fixture go beyond that."""
CALLED = {
    "Makefile": """\
        quick: ; @echo quick
        fail: ; @exit 3
        needs: ; @test "$(X)" = "a b"
        variable: ; @test "$$Y" = "a b"
        deploy: ; @echo never
        both: ; @true
        """,
    "package-lock.json": "{}",
    "package.json": json.dumps(
        {"scripts": {"both": "true", "build prod": "true", "loud": "sh -c 'test $0 = --loud'"}}
    ),
    "CMakeLists.txt": "add_custom_target(image)\n",
    ".travis.yml": "jobs:\n  check:\n    script: ./check\n",
    "compose.yaml": "services:\n  web:\n    image: web\n",
    "run all.sh": "#!/bin/sh\nexit 0\n",
    "killed.sh": "#!/bin/sh\nkill -KILL $$\n",
    "plain.sh": "exit 0\n",
    "hold.sh": HOLDING,
    "below/.keep": "",
}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a task that ends well": ("task_start", {"unique_name": "quick"}),
    "a task that fails": ("task_start", {"unique_name": "fail"}),
    "a task that a signal ends": ("task_start", {"unique_name": "killed"}),
    "an argument with a space": ("task_start", {"unique_name": "needs", "args": ["X=a b"]}),
    "a variable with a space": ("task_start", {"unique_name": "variable", "env": {"Y": "a b"}}),
    "a task that is not allowed": ("task_start", {"unique_name": "deploy"}),
    "an unknown task": ("task_start", {"unique_name": "nothing"}),
    "a name of two tasks": ("task_start", {"unique_name": "both"}),
    "a task by its suffix": ("task_start", {"unique_name": "both-m"}),
    "a task by a longer suffix": ("task_start", {"unique_name": "both-mak"}),
    "a target of CMake": ("task_start", {"unique_name": "image"}),
    "a job of Travis": ("task_start", {"unique_name": "check"}),
    "Compose without its plugin": ("task_start", {"unique_name": "web"}),
    "no name": ("task_start", {}),
    "a name that is a number": ("task_start", {"unique_name": 1}),
    "an unknown argument": ("task_start", {"unique_name": "quick", "shell": True}),
    "an unknown tool": ("task_run", {"unique_name": "quick"}),
    "a wait of 301 seconds": ("task_start", {"unique_name": "quick", "wait_for_exit_seconds": 301}),
    "a wait of 3601 seconds": (
        "task_start",
        {"unique_name": "quick", "wait_for_exit_seconds": 3601},
    ),
    "a folder outside of the project": ("task_start", {"unique_name": "quick", "cwd": ".."}),
    "a missing folder": ("task_start", {"unique_name": "quick", "cwd": "none"}),
    "a task of the root from a subfolder": (
        "task_start",
        {"unique_name": "killed", "cwd": "below"},
    ),
    "an option for make": ("task_start", {"unique_name": "quick", "args": ["--always-make"]}),
    "PATH for a task": ("task_start", {"unique_name": "quick", "env": {"PATH": "/bin:/usr/bin"}}),
    "an npm script with a space in its name": ("task_start", {"unique_name": "build prod"}),
    "an option for an npm script": ("task_start", {"unique_name": "loud", "args": ["--loud"]}),
    "a script with a space in its name": ("task_start", {"unique_name": "run all"}),
    "a script that is not executable": ("task_start", {"unique_name": "plain"}),
    "the listing of a runner": ("list_tasks", {"runner": "make"}),
    "the listing of an unknown runner": ("list_tasks", {"runner": "none"}),
    "the listing of a folder outside": ("list_tasks", {"cwd": "/"}),
    "the status of a task by its name": ("task_status", {"unique_name": "quick"}),
    "the status of an unknown PID": ("task_status", {"pid": 4_000_000}),
    "the output of an unknown PID": ("task_output", {"pid": 4_000_000}),
    "the stop of an unknown PID": ("task_stop", {"pid": 4_000_000}),
    "an output without a PID": ("task_output", {}),
    "an output of -1 lines": ("task_output", {"pid": 4_000_000, "lines": -1}),
}
RULED = {
    "Makefile": "include more.mk\nbuild: ; @true\ntest: ; @true\n",
    "more.mk": "extra: ; @true\n",
    "package-lock.json": "{}",
    "package.json": '{"scripts": {"test": "true"}}',
    "sub/.keep": "",
}


def allowlists(root: Path) -> dict[str, list[str]]:
    """Return allowlists that a user may have written for the tasks of a project."""
    makefile, link = root / "Makefile", root.parent / "link"
    build = entry("Task", makefile, "build")
    return {
        "nothing": [],
        "a folder": [entry("Directory", root)],
        "a folder above": [entry("Directory", root.parent)],
        "a file": [entry("File", makefile)],
        "an included file": [entry("File", root / "more.mk")],
        "a task": [build],
        "two tasks": [entry("Task", makefile, "build", "test")],
        "a task once": [entry("Once", makefile, "build")],
        "a folder except a file": [entry("Directory", root), entry("Deny", makefile)],
        "a file that a folder is denied around": [entry("File", makefile), entry("Deny", root)],
        "a file except a task": [entry("Deny", makefile, "test"), entry("File", makefile)],
        "one list for all entries": [
            f'entries = [{{ path = "{makefile}", scope = "File", note = "mine" }}]'
        ],
        "a path with a dot": [entry("File", f"{root}/./Makefile")],
        "a file as if it were a folder": [entry("Directory", makefile)],
        "a folder as if it were a file": [entry("File", root)],
        "a task without its name": [entry("Task", makefile)],
        "a task by its unique name": [entry("Task", makefile, "test-m")],
        "a path from here": [entry("File", "Makefile")],
        "a path that goes up": [entry("File", f"{root}/sub/../Makefile")],
        "a path through a link": [entry("File", link / "Makefile")],
        "a path with `~`": [entry("File", f"~/{root.name}/Makefile")],
        "a folder except a task in it": [entry("Directory", root), entry("Deny", root, "build")],
        "a folder except a task by its unique name": [
            entry("Directory", root),
            entry("Deny", makefile, "test-m"),
        ],
        "a scope in small letters": [entry("file", makefile)],
        "an entry without a path": [build, '[[entries]]\nscope = "File"\n'],
        "invalid TOML": ["[[entries"],
    }
