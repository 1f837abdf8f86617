"""JSON Schemas of the settings and recipes, for completion and validation in editors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.files import put, refuse_irregular
from ralphgen.kits.registry import KITS
from ralphgen.project.config import config_model
from ralphgen.project.inspect import RecipeFile, settings_models

SCHEMAS_FOLDER = ".ralph/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DESCRIPTIONS = {
    "AgentSettings.command": "Program and arguments, run without a shell.",
    "AgentSettings.reports_cost": "Whether the last line of its output reports the cost.",
    "BoardSettings.port": "Port of the board on this machine (fixed, to bookmark pages).",
    "BriefConfig.features": "Feature knowledge in the brief: inline text or a resource to read.",
    "BriefConfig.max_characters": "Maximum length of the brief, in characters.",
    "CheckSettings.dela": "A task of the kit dela to run instead of run.",
    "CheckSettings.disciplines": "Disciplines whose tasks need this check (default: all).",
    "CheckSettings.name": "Name of the check.",
    "CheckSettings.run": "Program and arguments, run without a shell.",
    "CheckSettings.timeout": "Time limit in seconds.",
    "ClaimsConfig.lease": "Seconds until the claim of an inactive session expires.",
    "Config.board": "Address of the board.",
    "Config.brief": "Content of the brief that a session starts with.",
    "Config.claims": "Claims of sessions on tasks.",
    "Config.database": "Location of the project's database.",
    "Config.describe": "Custom descriptions, by kit:tool or kit:tool.argument.",
    "Config.disciplines": "Tools that disciplines remove and MCP servers that they add.",
    "Config.done": "Checks that prove a task done, and protected files.",
    "Config.environment": "Environment variables for the project's programs.",
    "Config.git": "Tasks in git.",
    "Config.http": "Access for sessions on other machines.",
    "Config.kits": "Servers to generate.",
    "Config.launch": "Permissions of Claude Code besides the session's tools.",
    "Config.loop": "Settings of the loop.",
    "Config.notify": "Lines that loops send to you.",
    "Config.sandbox": "What contained agents see.",
    "Config.own_tools": "Access to the tools in .ralph/tools, by name.",
    "Config.policy": "Rules that restrict the tools of sessions.",
    "Config.queries": "Limits of named queries and access to them.",
    "Config.requires": "Versions of ralphgen that may generate this server.",
    "Config.schema": "Columns to hide from the server.",
    "Config.sessions": "Retention of sessions.",
    "Config.structured_output": "Structured answers; auto: for clients that use them.",
    "Config.tables": "Tools for your own tables and views, by name.",
    "DatabaseSettings.dsn_env": "Environment variable with the PostgreSQL DSN.",
    "DatabaseSettings.engine": "Database engine.",
    "DatabaseSettings.path": "Path of the SQLite database, relative to the project.",
    "DatabaseSettings.schema": "PostgreSQL schema of the tables.",
    "DisciplineSettings.disable": "Tools to remove, as tool or kit:tool.",
    "DisciplineSettings.mcp_servers": "MCP servers to add, by name.",
    "DoneSettings.checks": "Commands that must succeed before a task is done.",
    "DoneSettings.protect": "Files that a session must not change.",
    "DoneSettings.watch": "Files whose changes are reported to the session.",
    "EnvironmentSettings.variables": "Variables that checks, setups and agents receive.",
    "GitSettings.rows": "Branch for the project's rows, such as ralphgen/rows (default: none).",
    "HttpSettings.algorithm": "Signature algorithm of tokens.",
    "HttpSettings.allowed_hosts": "Accepted values of the Host header, besides the host of url.",
    "HttpSettings.allowed_origins": "Accepted values of the Origin header (default: none).",
    "HttpSettings.drain": "Seconds for running requests to finish before the server stops.",
    "HttpSettings.id": "Id of the project in tokens; written by regen.",
    "HttpSettings.key_env": "Environment variable with the signing key.",
    "HttpSettings.max_body": "Maximum size of a request in bytes.",
    "HttpSettings.pool": "Number of open sessions per worker.",
    "HttpSettings.rate": "Requests per second and session for each worker.",
    "HttpSettings.timeout": "Time limit of a request in seconds.",
    "HttpSettings.url": "Public base URL; the name of the kit is appended.",
    "HttpSettings.workers": "Number of worker processes.",
    "LaunchConfig.allow": "Permission rules, such as Bash(npm run *).",
    "LaunchConfig.cost_per_hour": "US dollars per hour of agents that report no cost, by name.",
    "LaunchConfig.permission_mode": "Permission mode of Claude Code.",
    "LoopConfig.agents": "Programs that work in sessions, by name.",
    "LoopConfig.attempts": "Failed attempts before a task is blocked.",
    "LoopConfig.copy": "Ignored files to copy into a new worktree.",
    "LoopConfig.longest_wait": "Seconds to a reset of a usage limit before the loop stops.",
    "LoopConfig.message": "Commit message, such as chore: {title} (#{task}).",
    "LoopConfig.no_progress": "Unclosed tasks in a row before the loop stops.",
    "LoopConfig.remote": "Git remote of the base branch.",
    "LoopConfig.setup": "Command that prepares a new worktree.",
    "LoopConfig.setup_when": "Files that trigger the setup again if they change.",
    "LoopConfig.timeout": "Time limit of a session in seconds.",
    "McpServer.args": "Arguments of the program.",
    "McpServer.command": "Program that serves over its standard streams.",
    "McpServer.env": "Environment variables of the program.",
    "NotifyConfig.command": "Program to run; {text} is replaced by the line.",
    "NotifyConfig.json": "Whether the body is an object with the key text.",
    "NotifyConfig.on": "Occasions on which a loop sends a line.",
    "NotifyConfig.url_env": "Environment variable with the URL to post to.",
    "OwnToolSettings.bind": "By argument, the kind of row to fix to the session's row.",
    "OwnToolSettings.interactive": "Whether read-only sessions have it, if it only reads.",
    "OwnToolSettings.recipes": "Additional recipes that have it.",
    "OwnToolSettings.seconds": "Time limit in seconds.",
    "PolicySettings.rules": "By recipe, tools that its sessions must never have.",
    "QueriesSettings.rows": "Maximum number of rows in an answer.",
    "QueriesSettings.seconds": "Time limit of a query in seconds.",
    "QuerySettings.bind": "By parameter, the kind of row to fix to the session's row.",
    "QuerySettings.interactive": "Whether read-only sessions have it, if it only reads.",
    "QuerySettings.recipes": "Recipes that have it.",
    "RecipeFile.allow": "By kit, the tools to keep from its base.",
    "RecipeFile.base": "Recipe that this one restricts.",
    "RecipeFile.bind": "Rows that a session of it requires.",
    "RecipeFile.description": "One sentence for users and agents.",
    "RecipeFile.model": "Default model.",
    "RecipeFile.narrow": "By tool, the arguments to keep.",
    "RecipeFile.prompt": "Instructions that replace the steps of its base.",
    "RemoteServer.headers": "Headers to send.",
    "RemoteServer.type": "Transport.",
    "RemoteServer.url": "URL of the server.",
    "RuleSettings.never": "Tools, as tool or kit:tool; * and ? are wildcards.",
    "SandboxSettings.env": "Environment variables that pass.",
    "SandboxSettings.hosts": "Hosts besides the model's API, with a port unless it is 443.",
    "SandboxSettings.read": "Visible folders and files, read-only.",
    "SandboxSettings.use": "Whether to contain the agents of launch and loop.",
    "SandboxSettings.write": "Writable folders and files.",
    "SchemaSettings.hide": "Columns, as table.column.",
    "SessionsConfig.keep_days": "Days to keep sessions that have recorded changes.",
    "SessionsConfig.transcripts": "Whether to keep transcripts of agents.",
    "TableSettings.bind": "By column, the kind of row to fix to the session's row.",
    "TableSettings.describe": "By column, a sentence for agents.",
    "TableSettings.filter": "Columns to filter the list by.",
    "TableSettings.hide": "Columns that no tool shows or accepts.",
    "TableSettings.interactive": "Whether read-only sessions have its reading tools.",
    "TableSettings.key": "Columns that identify a row of a view.",
    "TableSettings.noun": "Singular noun for the names of tools.",
    "TableSettings.recipes": "By recipe, its tools.",
    "TableSettings.search": "Columns to search for text.",
    "TableSettings.tools": "Tools to generate (default: all possible).",
}
"""Descriptions of the keys, by model and key."""


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of `.ralph/ralphgen.toml`, with the tables of all kits.

    The kits of ralphgen are suggested, and any other name is allowed.
    """
    schema = _schema(config_model(settings_models(KITS)), "Config")
    known = [kit.key for kit in KITS]
    schema["properties"]["kits"]["items"] = {
        "anyOf": [{"enum": known}, {"type": "string", "minLength": 1}]
    }
    for key in settings_models(KITS):
        schema["properties"][key]["description"] = f"Settings of the kit {key}."
    return schema


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema of `.ralph/recipes/*.toml`."""
    return _schema(RecipeFile, "RecipeFile")


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "config": config_schema,
    "recipe": recipe_schema,
}


def write_schemas(root: Path) -> None:
    """Write missing or outdated schemas to a folder that git ignores.

    Raises `ProjectError` if that fails.
    """
    files = {f"{name}.json": schema_text(name) for name in SCHEMAS} | {".gitignore": "*\n"}
    refuse_irregular(root, [f"{SCHEMAS_FOLDER}/{name}" for name in files])
    for name, text in files.items():
        path = root / SCHEMAS_FOLDER / name
        if not path.is_file() or path.read_bytes() != text.encode():
            put(path, text)


def schema_text(name: str) -> str:
    """Return the text of a schema, as printed and written."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    schema = {"$schema": DIALECT, **model.model_json_schema()}
    for title, part in {**schema.get("$defs", {}), name: schema}.items():
        for key, value in part.get("properties", {}).items():
            if description := DESCRIPTIONS.get(f"{title}.{key}"):
                value["description"] = description
    return schema
