"""What the skill of the kit rye says beyond the schemas of its tools."""

from ralphgen.planning.model import SkillPlan, Step, Workflow

ITEM = {"item_type": None, "item_id": None, "project_path": None}
QUERY = {"item_type": "all", "query": None, "project_path": None}
WORKFLOWS = (
    Workflow(
        "Use an existing item",
        (
            Step("Search for an item.", "search", QUERY),
            Step("Read its requirements.", "load", ITEM),
            Step("Check everything.", "execute", {**ITEM, "dry_run": True}),
            Step("Run it; if it is a directive, follow its steps.", "execute", ITEM),
        ),
        needs=("search", "execute"),
    ),
    Workflow(
        "Write an item",
        (
            Step("Check whether one exists.", "search", QUERY),
            Step(
                "Get the directive that creates one: rye/create_directive, rye/create_tool or "
                "rye/create_knowledge.",
                "execute",
                {**ITEM, "item_type": "directive", "parameters": None},
            ),
            Step("Write the file as described, below .ai/ in the project."),
            Step("Sign it; fix the reported issues, and sign again.", "sign", ITEM),
            Step("Check that it would run.", "execute", {**ITEM, "dry_run": True}),
        ),
        needs=("execute", "sign"),
    ),
    Workflow(
        "Change an item of the user or the system for this project",
        (
            Step(
                "Copy it into the project, where it shadows the original.",
                "load",
                {**ITEM, "destination": "project"},
            ),
            Step("Change the copy."),
            Step("Sign it.", "sign", ITEM),
        ),
        needs=("load", "sign"),
    ),
)
SKILL = SkillPlan(
    name="rye-items",
    title="Directives, tools and knowledge",
    description=(
        "Finds, reads, executes and signs the items below .ai/: directives (workflows to "
        "follow), tools (programs to run) and knowledge (lessons learned). Use when a workflow, "
        "a tool or an entry may exist for the current work, to run or follow one, or to write, "
        "change, copy or sign an item."
    ),
    overview={
        "Items": (
            "| type | file | result of execute |\n|---|---|---|\n| a directive | "
            ".ai/directives/…/name.md | returns steps to follow |\n| a tool | "
            ".ai/tools/…/name.py or .yaml | runs |\n| knowledge | .ai/knowledge/…/name.md | "
            "returns its text |\n\nAn id is the path below the type's folder without the "
            "extension, such as demo/greet. Items of the project take precedence over the "
            "user's, and the user's over the system's."
        ),
        "Trust": (
            "An item that is unsigned, or changed after it was signed, may be refused. Read it "
            "first: its author decides what it does. Sign only items that you have read and "
            "agree with, never to get around a refusal."
        ),
    },
    workflows=WORKFLOWS,
    variables={
        "USER_SPACE": "directory of the user's items, or its parent (with .ai)",
        "RYE_DEBUG": "set to 1, true, yes or on to log each call with its duration",
        "RYE_PORT": "ignored: the server uses standard streams and has no port",
    },
)
