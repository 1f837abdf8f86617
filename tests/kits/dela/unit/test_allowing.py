"""The allowlist is changed entry by entry, without any other change."""

from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.kits.dela.commands import plan_change, write
from ralphgen.kits.dela.server.allowlist import Rule, read_rules

TASK = Rule(0, "/p/Makefile", "Task", ["b", "c"])
DENY = Rule(0, "/p/Makefile", "Deny", ["b"])
NEW = '[[entries]]\npath = "/p/Makefile"\nscope = "Task"\ntasks = ["b", "c"]\n'
NEW_DENY = NEW.replace("Task", "Deny").replace(', "c"', "")
HEAD = '[[entries]]\npath = "/p/Makefile"\n'
CHANGES = {
    "an empty file": ("", TASK, NEW),
    "comments": ("# mine\n", TASK, f"# mine\n\n{NEW}"),
    "other tables": ("[x]\na = 1 # a\n", TASK, f"[x]\na = 1 # a\n\n{NEW}"),
    "names to an entry": (
        f'# top\n{HEAD}scope = "Task" # s\ntasks = [\n  "a", # why\n  "b",\n]\n# end\n',
        TASK,
        f'# top\n{HEAD}scope = "Task" # s\ntasks = [\n  "a", # why\n  "b",\n  "c",\n]\n# end\n',
    ),
    "an entry without names": (
        f'{HEAD}scope = "Task"\n',
        TASK,
        f'{HEAD}scope = "Task"\ntasks = ["b", "c"]\n',
    ),
    "another scope of the path": (
        f'{HEAD}scope = "Deny"\ntasks = ["x"]\n',
        TASK,
        f'{HEAD}scope = "Deny"\ntasks = ["x"]\n\n{NEW}',
    ),
    "a list": (
        'entries = [\n  {path = "/q", scope = "File"}, # q\n]\n',
        DENY,
        (
            'entries = [\n  {path = "/q", scope = "File"}, # q\n  '
            '{path = "/p/Makefile", scope = "Deny", tasks = ["b"]},\n]\n'
        ),
    ),
    "names to an entry of a list": (
        'entries = [{path = "/p/Makefile", scope = "Task", tasks = ["a"]}]\n',
        TASK,
        'entries = [{path = "/p/Makefile", scope = "Task", tasks = ["a", "b", "c"]}]\n',
    ),
    "an allowed file": (f'{HEAD}scope = "File"\n', TASK, ""),
    "an allowed folder": (HEAD.replace("/Makefile", "") + 'scope = "Directory"\n', TASK, ""),
    "names that are there": (f'{HEAD}scope = "Task"\ntasks = ["c", "b"]\n', TASK, ""),
    "a Deny on all tasks": (f'{HEAD}scope = "Deny"\n', DENY, ""),
    "a Deny with an empty list": (f'{HEAD}scope = "Deny"\ntasks = []\n', DENY, ""),
    "a Deny on the folder": ('[[entries]]\npath = "/p"\nscope = "Deny"\n', DENY, ""),
    "names to a Deny": (
        f'{HEAD}scope = "Deny"\ntasks = ["a"]\n',
        DENY,
        f'{HEAD}scope = "Deny"\ntasks = ["a", "b"]\n',
    ),
    "a Deny where all is allowed": (
        f'{HEAD}scope = "File"\n',
        DENY,
        f'{HEAD}scope = "File"\n\n{NEW_DENY}',
    ),
    "all tasks where one is denied": (
        f'{HEAD}scope = "Deny"\ntasks = ["b"]\n',
        Rule(0, "/p/Makefile", "Deny"),
        f'{HEAD}scope = "Deny"\ntasks = ["b"]\n\n{HEAD}scope = "Deny"\n',
    ),
    "a file where a task is allowed": (
        f'{HEAD}scope = "Task"\ntasks = ["b"]\n',
        Rule(0, "/p/Makefile", "File"),
        f'{HEAD}scope = "Task"\ntasks = ["b"]\n\n{HEAD}scope = "File"\n',
    ),
    "a folder where a file is allowed": (
        f'{HEAD}scope = "File"\n',
        Rule(0, "/p", "Directory"),
        f'{HEAD}scope = "File"\n\n[[entries]]\npath = "/p"\nscope = "Directory"\n',
    ),
    "tables in between": (
        f'{HEAD}scope = "File"\n[x]\na = 1\n[[entries]]\npath = "/q"\nscope = "Once"\n',
        DENY,
        f'{HEAD}scope = "File"\n[x]\na = 1\n[[entries]]\npath = "/q"\nscope = "Once"\n\n{NEW_DENY}',
    ),
    "line ends of Windows": (
        "# mine\r\nother = 1\r\n",
        DENY,
        "# mine\r\nother = 1\r\n\r\n" + NEW_DENY.replace("\n", "\r\n"),
    ),
}


class TestFile:
    """The file gets the new entries, and keeps every other byte."""

    @pytest.mark.parametrize("case", CHANGES)
    def test_an_entry_comes_to(self, tmp_path: Path, case: str) -> None:
        before, wanted, after = CHANGES[case]
        path = tmp_path / "list.toml"
        path.write_bytes(before.encode())
        change = plan_change(str(path), [wanted])
        write(change)

        assert (after or before) == path.read_bytes().decode()
        assert bool(after) == bool(change.entries)
        assert not plan_change(str(path), [wanted]).entries

    def test_several_entries_come_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "list.toml"
        path.write_text(f'{HEAD}scope = "Task"\ntasks = ["a"]\n', encoding="utf-8")
        more = [TASK, Rule(0, "/q", "Directory"), Rule(0, "/r", "Task", ["x"])]
        write(plan_change(str(path), more))
        rules = read_rules(str(path))

        assert [(1, "/p/Makefile", 3), (2, "/q", 0), (3, "/r", 1)] == [
            (rule.number, rule.path, len(rule.tasks)) for rule in rules.entries
        ]

    def test_a_file_keeps_its_rights_and_a_link_stays_one(self, tmp_path: Path) -> None:
        path, link = tmp_path / "list.toml", tmp_path / "link.toml"
        path.touch(0o640)
        path.chmod(0o640)
        link.symlink_to("list.toml")
        write(plan_change(str(link), [TASK]))

        assert 0o640 == path.stat().st_mode & 0o777
        assert link.is_symlink()
        assert NEW == path.read_text(encoding="utf-8")

    def test_what_somebody_else_wrote_meanwhile_is_not_lost(self, tmp_path: Path) -> None:
        path = tmp_path / "list.toml"
        change = plan_change(str(path), [TASK])
        path.write_text(NEW_DENY, encoding="utf-8")

        with pytest.raises(ProjectError, match="changed in the meantime"):
            write(change)
        assert NEW_DENY == path.read_text(encoding="utf-8")

    @pytest.mark.parametrize("text", ["entries = 3\n", "x = [", HEAD, f'{HEAD}scope = "All"\n'])
    def test_a_file_that_is_not_understood_is_not_changed(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "list.toml"
        path.write_text(text, encoding="utf-8")

        with pytest.raises(ProjectError, match="no task is allowed"):
            plan_change(str(path), [TASK])

    def test_a_relative_list_is_refused(self) -> None:
        with pytest.raises(ProjectError, match="is not an absolute path"):
            plan_change("list.toml", [TASK])

    def test_a_diff_shows_control_characters_as_escapes(self, tmp_path: Path) -> None:
        change = plan_change(str(tmp_path / "x"), [Rule(0, "/p\u202ex", "Task", ["a\x1b"])])

        assert all(line.isprintable() for line in change.diff())
        assert [("/p\u202ex", ("a\x1b",))] == [(one.path, one.tasks) for one in change.entries]
