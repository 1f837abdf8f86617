"""The command `status`: summarizes tasks, branches, files and the last loop."""

from pathlib import Path

from ralphgen.terminal.app import App, Json, Project
from ralphgen.terminal.console import print_json, print_result

app = App()


@app.command(example="ralphgen status --json")
def status(project: Project = Path(), as_json: Json = False) -> None:
    """Summarize tasks, blocked work, branches and the last loop."""
    from ralphgen.emit.scaffold import serves_any_database
    from ralphgen.loop.summary import summarize, summary_lines
    from ralphgen.project.root import project_root

    root = project_root(project)
    facts = summarize(root)
    if as_json:
        print_json(facts)
        return
    has_tasks = not serves_any_database(root)
    for line in summary_lines(facts, last=True, has_tasks=has_tasks):
        print_result(line)
