"""JSON Schemas of the config and of recipes, by which an editor completes and checks them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ralphgen.kits.registry import KITS
from ralphgen.output.files import put, refuse_irregular
from ralphgen.project.config import config_model
from ralphgen.project.inspect import settings_models
from ralphgen.project.recipes import RecipeFile

FOLDER = ".ralph/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DESCRIPTIONS = {
    "AgentSettings.command": "The program and its arguments, run without a shell.",
    "AgentSettings.reports_cost": "Whether its last line tells what it has cost.",
    "BoardSettings.port": "The port of the board on this machine: its pages can be bookmarked.",
    "BriefConfig.features": "Knowledge of the feature in the brief, or the resource to read.",
    "BriefConfig.max_characters": "The most that agents are told when a session begins.",
    "CheckSettings.dela": "A task of the kit dela, in place of run.",
    "CheckSettings.disciplines": "Those whose tasks need it: all, if left out.",
    "CheckSettings.name": "What it is called.",
    "CheckSettings.run": "The program and its arguments, run without a shell.",
    "CheckSettings.timeout": "The most seconds that it may take.",
    "ClaimsConfig.lease": "Seconds for which a session holds a task, unless it works on.",
    "Config.board": "Where the board listens.",
    "Config.brief": "What agents are told when a session begins.",
    "Config.claims": "How sessions hold tasks.",
    "Config.database": "Where the project's rows are.",
    "Config.describe": "Your own words, by kit:tool and kit:tool.argument.",
    "Config.disciplines": "What disciplines take away, and which MCP servers they bring along.",
    "Config.done": "What proves that a task is done.",
    "Config.environment": "Which variables the programs of the project get.",
    "Config.http": "How sessions on other machines reach the project's rows.",
    "Config.kits": "The servers to write.",
    "Config.launch": "What Claude Code may do besides the session's own tools.",
    "Config.loop": "How the loop goes on.",
    "Config.own_tools": "Who has the tools of .ralph/tools, by name.",
    "Config.policy": "Rules over which tools sessions have.",
    "Config.queries": "How long named queries take, how much they show, and who has which.",
    "Config.requires": "The versions of ralphgen that may write this project's server.",
    "Config.schema": "What of the database the server must not know.",
    "Config.sessions": "What is kept of sessions.",
    "Config.structured_output": "Whether answers are given as structured content too.",
    "Config.tables": "Tools on tables and views of the project's own, by name.",
    "DatabaseSettings.dsn_env": "The variable that holds the DSN of PostgreSQL.",
    "DatabaseSettings.engine": "The kind of database.",
    "DatabaseSettings.path": "The database of SQLite, from the project's folder.",
    "DatabaseSettings.schema": "The schema of PostgreSQL that has the tables.",
    "DisciplineSettings.disable": "Tools that it takes away, as tool or kit:tool.",
    "DisciplineSettings.mcp_servers": "MCP servers that it brings along, by name.",
    "DoneSettings.checks": "Commands that have to end well before a task is done.",
    "DoneSettings.protect": "Files that a session may not change.",
    "DoneSettings.watch": "Files of which it is told that a session has changed them.",
    "EnvironmentSettings.variables": "The variables that checks, setups and agents get.",
    "HttpSettings.algorithm": "How tokens are signed.",
    "HttpSettings.allowed_hosts": "Values of the header Host that are taken besides that of url.",
    "HttpSettings.allowed_origins": "Values of the header Origin that are taken; none without it.",
    "HttpSettings.drain": "Seconds in which what runs may end before the server stops.",
    "HttpSettings.id": "What tokens name the project by; regen writes it.",
    "HttpSettings.key_env": "The variable that has the key of the tokens.",
    "HttpSettings.max_body": "The most bytes of a request.",
    "HttpSettings.pool": "The sessions that a worker holds open.",
    "HttpSettings.rate": "The requests in a second that a worker takes of one session.",
    "HttpSettings.timeout": "The most seconds that a request may take.",
    "HttpSettings.url": "The public address, which the name of a kit is added to.",
    "HttpSettings.workers": "The processes that answer.",
    "LaunchConfig.allow": "Rules of permission, such as Bash(npm run *).",
    "LaunchConfig.permission_mode": "The mode in which Claude Code starts.",
    "LoopConfig.agents": "Programs that work in sessions, by name.",
    "LoopConfig.attempts": "How many may fail, until a task is blocked.",
    "LoopConfig.copy": "Ignored files that a new work tree gets.",
    "LoopConfig.message": "The message of its commits, such as chore: {title} (#{task}).",
    "LoopConfig.no_progress": "Tasks in a row that nobody closed, until the loop stops.",
    "LoopConfig.remote": "The remote of git that has the base branch.",
    "LoopConfig.setup": "What makes a new work tree ready.",
    "LoopConfig.setup_when": "Files after whose change it is made ready again.",
    "LoopConfig.timeout": "The most seconds of a session.",
    "McpServer.args": "Its arguments.",
    "McpServer.command": "The program that speaks over its streams.",
    "McpServer.env": "Variables that it gets.",
    "OwnToolSettings.bind": "By argument, the kind of row that is the session's own.",
    "OwnToolSettings.interactive": "Whether it is where only reading is allowed, if it only reads.",
    "OwnToolSettings.recipes": "Those whose sessions have it besides.",
    "OwnToolSettings.seconds": "The most that it may run.",
    "PolicySettings.rules": "By recipe, what sessions of it may never have.",
    "QueriesSettings.rows": "The most rows of an answer.",
    "QueriesSettings.seconds": "The most seconds that a query may take.",
    "QuerySettings.bind": "By parameter, the row of the session that it is.",
    "QuerySettings.interactive": "Whether interactive sessions have it, where it reads.",
    "QuerySettings.recipes": "The recipes that have it.",
    "RecipeFile.allow": "By kit, the tools that it keeps of its base's.",
    "RecipeFile.base": "The recipe that it is made from.",
    "RecipeFile.bind": "The rows that a session of it needs.",
    "RecipeFile.description": "A sentence for people and agents.",
    "RecipeFile.model": "The model that is used where no other is asked for.",
    "RecipeFile.narrow": "By tool, the arguments that it keeps.",
    "RecipeFile.prompt": "What agents do, in place of the steps of its base.",
    "RemoteServer.headers": "Headers that are sent to it.",
    "RemoteServer.type": "How it is spoken to.",
    "RemoteServer.url": "Its address.",
    "RuleSettings.never": "Tools, as tool or kit:tool; * and ? stand for any characters.",
    "SchemaSettings.hide": "Columns, as table.column.",
    "SessionsConfig.keep_days": "Days for which sessions with a record are kept.",
    "SessionsConfig.transcripts": "Whether what agents wrote is kept.",
    "TableSettings.bind": "By column, which row of the session it is.",
    "TableSettings.describe": "By column, a sentence for agents.",
    "TableSettings.filter": "Columns that the list can be filtered by.",
    "TableSettings.hide": "Columns that no tool shows or takes.",
    "TableSettings.interactive": "Whether sessions that only read have its reading tools.",
    "TableSettings.key": "The columns that tell the rows of a view.",
    "TableSettings.noun": "What a row is called in the names of tools.",
    "TableSettings.recipes": "By recipe, the tools that it has.",
    "TableSettings.search": "Columns that a text is looked for in.",
    "TableSettings.tools": "The tools to make: all that there can be, if left out.",
}
"""What keys are for, by model and key, for whoever edits a file."""


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
    """Write the schemas to a folder that git ignores, where they are not there as they are to be.

    Raises `ProjectError` where that cannot be.
    """
    files = {f"{name}.json": schema_text(name) for name in SCHEMAS} | {".gitignore": "*\n"}
    refuse_irregular(root, [f"{FOLDER}/{name}" for name in files])
    for name, text in files.items():
        path = root / FOLDER / name
        if not path.is_file() or path.read_bytes() != text.encode():
            put(path, text)


def schema_text(name: str) -> str:
    """Return one of the schemas as it is printed and written."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    schema = {"$schema": DIALECT, **model.model_json_schema()}
    for title, part in {**schema.get("$defs", {}), name: schema}.items():
        for key, value in part.get("properties", {}).items():
            if description := DESCRIPTIONS.get(f"{title}.{key}"):
                value["description"] = description
    return schema
