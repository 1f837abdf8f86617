"""The commands on features."""

from ralphgen.cli.completion import complete_features
from ralphgen.cli.fields import text_field
from ralphgen.cli.row_commands import add_creator, add_deleter, add_editor, add_readers
from ralphgen.terminal.app import App

app = App()
features = App(name="feature", help="Add, list and edit features.")
app.add_typer(features)
FIELDS = {
    "display_name": text_field("Display name."),
    "acronym": text_field("Four capital letters or digits."),
    "description": text_field("Description, in Markdown."),
    "architecture": text_field("Architecture, in Markdown."),
    "boundaries": text_field("Limits of the feature, in Markdown."),
}


add_creator(features, "feature", FIELDS, example="auth --display-name Accounts")
add_readers(
    features,
    "feature",
    about="Show a feature, with the number of tasks by status.",
    example="auth",
    complete=complete_features,
)
add_editor(
    features,
    "feature",
    FIELDS,
    example="auth --boundaries 'no billing'",
    complete=complete_features,
)
add_deleter(features, "feature", example="auth", complete=complete_features)
