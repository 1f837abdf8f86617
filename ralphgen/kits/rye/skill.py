"""What the skill of the kit rye says beyond the schemas of its tools."""

from ralphgen.planning.skill import SkillPlan, Step, Workflow

ITEM = {"item_type": None, "item_id": None, "project_path": None}
QUERY = {"item_type": "all", "query": None, "project_path": None}
WORKFLOWS = (
    Workflow(
        "Do something that there is an item for",
        (
            Step("Look for it.", "search", QUERY),
            Step("Read what it asks for.", "load", ITEM),
            Step("Have everything checked.", "execute", {**ITEM, "dry_run": True}),
            Step("Run it; where it is a directive, follow its steps.", "execute", ITEM),
        ),
        needs=("search", "execute"),
    ),
    Workflow(
        "Write an item",
        (
            Step("Look whether there is one already.", "search", QUERY),
            Step(
                "Get the directive that creates one: rye/create_directive, rye/create_tool or "
                "rye/create_knowledge.",
                "execute",
                {**ITEM, "item_type": "directive", "parameters": None},
            ),
            Step("Write the file as it says, below .ai/ in the project."),
            Step("Sign it; fix what is said of it, and sign again.", "sign", ITEM),
            Step("See whether it would run.", "execute", {**ITEM, "dry_run": True}),
        ),
        needs=("execute", "sign"),
    ),
    Workflow(
        "Change an item of the user or the system for this project",
        (
            Step(
                "Copy it into the project, where it shadows the one it was copied from.",
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
        "Finds, reads, executes and signs the items below .ai/: directives (workflows to follow), "
        "tools (programs to run) and knowledge (what was learned). Use when there may be a "
        "workflow, a tool or an entry for the work at hand, when one is to be run or followed, or "
        "when an item is to be written, changed, copied or signed."
    ),
    overview={
        "Items": (
            "| type | file | when it is executed |\n"
            "|---|---|---|\n"
            "| a directive | .ai/directives/…/name.md | its steps come back, to be followed |\n"
            "| a tool | .ai/tools/…/name.py or .yaml | it runs |\n"
            "| knowledge | .ai/knowledge/…/name.md | its text comes back |\n\n"
            "An id is the path below the type's folder without the extension, such as demo/greet. "
            "Items of the project go before the user's, and those before the system's."
        ),
        "Whom to trust": (
            "An item that was changed after it was signed, or that nobody has signed, may be "
            "refused when it is executed. Read it before anything else: whoever wrote it decides "
            "what it does. Sign only what was read and is meant, never to get around a refusal."
        ),
    },
    workflows=WORKFLOWS,
    variables={
        "USER_SPACE": "the folder of the user's items, or the folder that holds it as .ai",
        "RYE_DEBUG": "what is logged: with 1, true, yes or on each call and its milliseconds",
        "RYE_PORT": "nothing here: the server speaks over its standard streams and has no port",
    },
)
