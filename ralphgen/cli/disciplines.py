"""The commands on disciplines."""

from ralphgen.cli.completion import complete_disciplines
from ralphgen.cli.fields import list_field, text_field
from ralphgen.cli.row_commands import add_creator, add_deleter, add_editor, add_readers
from ralphgen.terminal.app import App

app = App()
disciplines = App(name="discipline", help="List and edit agent roles.")
app.add_typer(disciplines)
FIELDS = {
    "display_name": text_field("Display name."),
    "description": text_field("Description, in Markdown."),
    "system_prompt": text_field("System prompt of the agent."),
    "skills": list_field("A skill of the agent. Repeatable."),
    "conventions": text_field("Conventions that the agent follows."),
}
add_creator(
    disciplines,
    "discipline",
    {
        **FIELDS,
        "icon": text_field("Icon on the board."),
        "color": text_field("Color on the board.", "#RRGGBB"),
    },
    example="data --description 'Keeps the data.'",
)
add_readers(
    disciplines,
    "discipline",
    about="Show a discipline, its skills and its conventions.",
    example="backend",
    complete=complete_disciplines,
)
add_editor(
    disciplines,
    "discipline",
    FIELDS,
    example="backend --conventions 'No ORM.'",
    complete=complete_disciplines,
)
add_deleter(disciplines, "discipline", example="data", complete=complete_disciplines)
