"""The commands on features."""

from ralphgen.cli.completion import complete_features
from ralphgen.cli.fields import text_field
from ralphgen.cli.row_commands import add_creator, add_deleter, add_editor, add_readers
from ralphgen.terminal.app import App

app = App()
features = App(name="feature", help="Add, list, change and delete features.")
app.add_typer(features)
FIELDS = {
    "display_name": text_field("What people call it."),
    "acronym": text_field("A few capital letters."),
    "description": text_field("What it is."),
    "architecture": text_field("How it is built."),
    "boundaries": text_field("What is no part of it."),
}


add_creator(features, "feature", FIELDS, example="auth --display-name Accounts")
add_readers(
    features,
    "feature",
    about="Show all that is known of a feature, and its tasks counted by status.",
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
