"""The commands by panel, each with its summary and the module that is imported to run it."""

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: its summary in lists, and the module whose `app` has it."""

    summary: str
    module: str


PANELS = {
    "Get started": {
        "init": CommandEntry("Set up a project.", "ralphgen.cli.project"),
        "connect": CommandEntry(
            "Add the project's servers to Claude Code, Codex, Cursor, …", "ralphgen.cli.connect"
        ),
        "doctor": CommandEntry(
            "Find problems in the setup and explain how to fix them.", "ralphgen.cli.project"
        ),
        "status": CommandEntry(
            "Summarize tasks, blocked work, branches and the last loop.", "ralphgen.cli.project"
        ),
    },
    "Plan": {
        "task": CommandEntry("Add, list, edit and close tasks.", "ralphgen.cli.tasks"),
        "feature": CommandEntry("Add, list and edit features.", "ralphgen.cli.tasks"),
        "discipline": CommandEntry("List and edit agent roles.", "ralphgen.cli.tasks"),
        "project": CommandEntry(
            "Show and edit the project's title and description.", "ralphgen.cli.project"
        ),
        "import": CommandEntry(
            "Import tasks: exports, beads, task-master, Backlog.md, …", "ralphgen.cli.exchange"
        ),
        "export": CommandEntry("Export all visible rows as JSON Lines.", "ralphgen.cli.exchange"),
        "sync": CommandEntry(
            "Merge tasks with other clones, on a branch of git.", "ralphgen.cli.exchange"
        ),
    },
    "Run agents": {
        "loop": CommandEntry("Run agents on ready tasks until none are left.", "ralphgen.cli.loop"),
        "launch": CommandEntry("Run one agent session.", "ralphgen.cli.launch"),
        "session": CommandEntry(
            "Create, list and end sessions for other MCP clients.", "ralphgen.cli.sessions"
        ),
        "worker": CommandEntry(
            "Let other machines take tasks without the database.", "ralphgen.cli.workers"
        ),
        "trust": CommandEntry(
            "Review and approve the commands a project runs.", "ralphgen.cli.trust"
        ),
    },
    "Review": {
        "log": CommandEntry("Show every change, with old and new values.", "ralphgen.cli.history"),
        "undo": CommandEntry("Undo the changes of a session.", "ralphgen.cli.history"),
        "merges": CommandEntry(
            "List work that waits to be merged, and the run in progress.", "ralphgen.cli.merges"
        ),
        "gate": CommandEntry("Prove the current files, for any loop or CI.", "ralphgen.cli.gate"),
        "notify": CommandEntry("Send a line of text to your phone or chat.", "ralphgen.cli.notify"),
        "board": CommandEntry("Open the project board in a browser.", "ralphgen.cli.board"),
    },
    "Maintain": {
        "regen": CommandEntry(
            "Regenerate the server after a migration or settings change.", "ralphgen.cli.project"
        ),
        "check": CommandEntry(
            "Exit with 1 if the generated server is out of date (for CI).", "ralphgen.cli.project"
        ),
        "upgrade": CommandEntry(
            "Upgrade a project to this version of ralphgen.", "ralphgen.cli.project"
        ),
        "db": CommandEntry("Back up, tune and prune the database.", "ralphgen.cli.ledger"),
    },
    "Advanced": {
        "tools": CommandEntry(
            "Show, compare and add the tools of each recipe.", "ralphgen.cli.tools"
        ),
        "call": CommandEntry("Call one tool and print its result.", "ralphgen.cli.server_commands"),
        "serve": CommandEntry(
            "Run the MCP server over stdio or HTTP.", "ralphgen.cli.server_commands"
        ),
        "dela": CommandEntry(
            "Choose the project commands agents may run.", "ralphgen.kits.dela.commands"
        ),
    },
}
HIDDEN = {
    "inspect": CommandEntry(
        "Show the facts that decide the generated server.", "ralphgen.cli.project"
    ),
    "schema": CommandEntry("Print the JSON Schema of a settings file.", "ralphgen.cli.project"),
}
COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()} | HIDDEN
RENAMED = {
    "agents": "connect claude --subagents",
    "allow": "dela allow",
    "backup": "db backup",
    "brief": "session brief",
    "config": "connect",
    "deny": "dela deny",
    "ledger": "db ledger",
    "plugin": "connect claude --plugin",
    "policy": "tools diff",
    "report": "board --export",
    "skill": "connect claude --skills",
    "sql": "db indexes",
    "session braindump": "session create braindump",
    "session discuss": "session create discuss",
    "session enrichment": "session create enrichment",
    "session interactive": "session create interactive",
    "session manual": "session create manual",
    "session opus_review": "session create opus_review",
    "session ramble": "session create ramble",
    "session task_execution": "session create task_execution",
    "session yap": "session create yap",
    "tables": "tools add",
}
OVERVIEW = """\
ralphgen generates an MCP server from your project's schema and runs agents on its tasks.

Start a project     init · connect · doctor · status
Plan work           task · feature · discipline
Run agents          launch · loop · trust
Review              log · undo · board
Stay current        regen · check

Try: ralphgen init
All commands: ralphgen --help    Help on one: ralphgen COMMAND --help
"""
