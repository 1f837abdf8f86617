"""Only tasks that the user has allowed may be started; in doubt none."""

import os
from pathlib import Path

import pytest

from ralphgen.kits.dela.server.allowlist import Allowlist, read_rules

HOME_FILE = ".config/dela/allowlist.toml"
OLD_FILE = ".dela/allowlist.toml"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with two task files and a link to a directory outside."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (project / "Makefile").touch()
    (project / "sub/Makefile").touch()
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "project-2").mkdir()
    return project


def entry(path: object, scope: str, *tasks: str) -> str:
    """Return an entry of an allowlist."""
    names = f"tasks = {list(tasks)}\n" if tasks else ""
    return f'[[entries]]\npath = "{path}"\nscope = "{scope}"\n{names}'


def written(path: Path, *entries: str) -> Allowlist:
    """Write an allowlist with these entries and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(entries), encoding="utf-8")
    return listed_in(path)


def listed_in(path: Path) -> Allowlist:
    """Return the allowlist of a home with a link to a file."""
    place = Path(os.environ["HOME"], HOME_FILE)
    if path not in (place, Path(os.environ["HOME"], OLD_FILE)):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(path)
    return Allowlist()


class TestScopes:
    """Each scope has its documented range, for every spelling of its path."""

    @pytest.mark.parametrize(
        ("place", "scope", "tasks", "allowed"),
        [
            ("{project}/Makefile", "Task", ("build",), {"build"}),
            ("{project}/Makefile", "Task", ("build", "test"), {"build", "test"}),
            ("{project}/Makefile", "Task", (), set()),
            ("{project}", "Task", ("build",), set()),
            ("{project}/Makefile", "File", (), {"build", "test"}),
            ("{project}/Makefile", "File", ("build",), {"build", "test"}),
            ("{project}", "File", (), set()),
            ("{project}/justfile", "File", (), set()),
            ("{project}/Makefile", "Directory", (), {"build", "test"}),
            ("{project}", "Directory", (), {"build", "test", "sub"}),
            ("{project}/", "Directory", (), {"build", "test", "sub"}),
            ("/", "Directory", (), {"build", "test", "sub"}),
            ("{project}/sub", "Directory", (), {"sub"}),
            ("{project}/sub/../Makefile", "File", (), {"build", "test"}),
            ("{project}/./Makefile", "File", (), {"build", "test"}),
            ("{project}-2/../link/Makefile", "File", (), {"build", "test"}),
            ("{project}-2", "Directory", (), set()),
            ("{project}/Make", "Directory", (), set()),
            ("{project}/Makefile", "Once", ("build",), set()),
            ("{project}/*", "Directory", (), set()),
            ("$HOME/../project", "Directory", (), set()),
        ],
    )
    def test_an_entry_allows(
        self, project: Path, place: str, scope: str, tasks: tuple[str, ...], allowed: set[str]
    ) -> None:
        path = place.format(project=project)
        allowlist = written(project.parent / "list.toml", entry(path, scope, *tasks))
        top, below = str(project / "Makefile"), str(project / "sub/Makefile")
        found = {name for name in ("build", "test") if allowlist.current().allows(name, name, top)}

        assert allowed == found | (
            {"sub"} if allowlist.current().allows("sub", "sub", below) else set()
        )

    def test_the_file_of_a_task_may_be_given_through_a_link(self, project: Path) -> None:
        path = project / "Makefile"
        allowlist = written(project.parent / "list.toml", entry(path, "Task", "build"))

        assert allowlist.current().allows("build", "build", str(project.parent / "link/Makefile"))


class TestDeny:
    """A Deny always wins, at any position."""

    @pytest.mark.parametrize(
        ("place", "tasks", "denied"),
        [
            ("Makefile", ("build",), {"build"}),
            ("Makefile", ("build-m",), {"build"}),
            ("Makefile", (), {"build", "test"}),
            ("sub/../Makefile", ("build",), {"build"}),
            ("../link/Makefile", ("build",), {"build"}),
            ("../link", ("build",), {"build"}),
            (".", ("build",), {"build"}),
            (".", ("sub",), {"sub"}),
            (".", (), {"build", "test", "sub"}),
            ("sub", (), {"sub"}),
            ("../project-2", (), set()),
            ("nowhere/Makefile", (), set()),
            ("Makefile/below", (), set()),
            ("Makefile", ("Build", "buil", "m"), set()),
        ],
    )
    def test_it_is_on(
        self, project: Path, place: str, tasks: tuple[str, ...], denied: set[str]
    ) -> None:
        """On a folder it was ignored if it named tasks (R12), and links hid files (R11)."""
        top, below = str(project / "Makefile"), str(project / "sub/Makefile")
        rules = [
            entry("/", "Directory"),
            entry(top, "File"),
            entry(top, "Task", "build"),
            entry(project / place, "Deny", *tasks),
            entry(project, "Directory"),
        ]
        allowlist = written(project.parent / "list.toml", *rules)
        names = (("build", "build-m", top), ("test", "test", top), ("sub", "sub", below))

        assert denied == {name[0] for name in names if not allowlist.current().allows(*name)}

    def test_without_a_name_in_its_list_it_is_on_all_tasks(self, project: Path) -> None:
        rules = [entry("/", "Directory"), entry(project, "Deny") + "tasks = []\n"]
        allowlist = written(project.parent / "list.toml", *rules)

        assert not allowlist.current().allows("build", "build", str(project / "Makefile"))

    def test_a_link_that_moves_takes_it_along(self, project: Path) -> None:
        link = project.parent / "link"
        rules = [entry("/", "Directory"), entry(link, "Deny")]
        allowlist = written(project.parent / "list.toml", *rules)
        first = allowlist.current().allows("build", "build", str(project / "Makefile"))
        link.unlink()
        link.symlink_to(project.parent / "project-2")

        assert not first
        assert allowlist.current().allows("build", "build", str(project / "Makefile"))
        assert not allowlist.current().allows(
            "build", "build", str(project.parent / "project-2/Makefile")
        )

    def test_a_link_that_begins_to_lead_in_a_circle_ends_all_permission(
        self, project: Path
    ) -> None:
        link = project.parent / "link"
        rules = [entry("/", "Directory"), entry(link, "Deny")]
        allowlist = written(project.parent / "list.toml", *rules)
        task = ("a", "a", str(project.parent / "project-2/Makefile"))
        first = allowlist.current().allows(*task)
        link.unlink()
        link.symlink_to(link)

        assert first
        assert not allowlist.current().allows(*task)
        assert "cannot resolve" in allowlist.current().problems()[0][1]


BROKEN = {
    "not TOML": ("entries = [", "is not valid TOML"),
    "twice a key": ("a = 1\na = 2\n", "is not valid TOML"),
    "no list": ("entries = 3\n", '"entries" must be a list'),
    "a table": ("[entries]\n", '"entries" must be a list'),
    "an entry that is no table": (
        'entries = [{path = "/", scope = "Directory"}, 3]\n',
        "entry 2: must be a table",
    ),
    "no path": ('[[entries]]\nscope = "Deny"\n', 'entry 1: "path" is missing'),
    "a path that is no text": ('[[entries]]\npath = ["/"]\nscope = "Deny"\n', '"path" is missing'),
    "a path with NUL": ('[[entries]]\npath = "/\\u0000"\nscope = "Deny"\n', '"path" is missing'),
    "no scope": (
        '[[entries]]\npath = "/"\n',
        '"scope" must be one of Once, Task, File, Directory, Deny, found "None"',
    ),
    "another scope": (
        entry("/", "Allow"),
        '"scope" must be one of Once, Task, File, Directory, Deny, found "Allow"',
    ),
    "a scope in small letters": (entry("/", "deny"), 'found "deny"'),
    "a scope that is no text": (
        '[[entries]]\npath = "/"\nscope = ["Deny"]\n',
        '"scope" must be one of',
    ),
    "tasks that are a text": (
        entry("/", "Deny") + 'tasks = "a"\n',
        '"tasks" must be a list of names',
    ),
    "tasks that are no texts": (entry("/", "Deny") + "tasks = [1]\n", '"tasks" must be a list of'),
    "a relative Deny": (
        entry("p/Makefile", "Deny"),
        'entry 1: "path" must be an absolute path, found "p/Makefile"',
    ),
    "a Deny of nobody's home": (
        entry("~nobody-here/p", "Deny"),
        '"path" must be an absolute path, found "~nobody-here/p"',
    ),
    "an empty Deny": (entry("", "Deny"), 'entry 1: "path" must be an absolute path, found ""'),
    "a Deny too long": (entry("/" + "a" * 300, "Deny"), "File name too long"),
    "too deep": ("x = " + "[" * 5_000, "is nested too deeply"),
    "too large": ("#" * (1 << 20) + "#", "is larger than"),
}


class TestUnusable:
    """A file with an invalid entry allows nothing, and reports the reason."""

    @pytest.mark.parametrize("case", BROKEN)
    def test_nothing_is_allowed_where_any_of_it_is_unclear(
        self, project: Path, home: Path, case: str
    ) -> None:
        text, why = BROKEN[case]
        path = home / HOME_FILE
        more = "" if "entries" in text.partition("[[")[0] else entry("/", "Directory")
        allowlist = written(path, text + "\n", more)

        assert not allowlist.current().allows("build", "build", str(project / "Makefile"))
        ((place, sentence),) = allowlist.current().problems()
        assert str(path) == place
        assert why in sentence
        assert sentence.endswith(": no task is allowed")
        assert sentence.isprintable()

    def test_a_folder_a_pipe_and_what_is_not_utf8_allow_nothing(self, tmp_path: Path) -> None:
        folder, pipe, bytes_ = (tmp_path / name for name in ("folder", "pipe", "bytes"))
        folder.mkdir()
        os.mkfifo(pipe)
        bytes_.write_bytes(entry("/", "Directory").encode() + b"# \xff\n")
        found = [read_rules(str(path)) for path in (folder, pipe, bytes_)]

        assert [False] * 3 == [rules.allows("a", "a", "/p/Makefile") for rules in found]
        assert [
            "is not a file: no task is allowed",
            "is not a file: no task is allowed",
            "line 4 is not UTF-8: no task is allowed",
        ] == [why for rules in found for _, why in rules.problems()]

    def test_without_a_home_there_is_no_allowlist(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", "home")
        written(tmp_path / "home" / HOME_FILE, entry("/", "Directory"))

        assert not Allowlist().current().allows("a", "a", "/p/Makefile")

    def test_an_entry_that_allows_a_relative_path_is_left_out_with_a_word(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project)
        rules = [entry("Makefile", "File"), entry(project / "sub", "Directory")]
        allowlist = written(project.parent / "list.toml", *rules)

        assert not allowlist.current().allows("build", "build", str(project / "Makefile"))
        assert allowlist.current().allows("sub", "sub", str(project / "sub/Makefile"))
        assert ['entry 1 is ignored: "path" must be an absolute path, found "Makefile"'] == [
            why for _, why in allowlist.current().problems()
        ]

    def test_a_list_that_may_not_be_seen_is_not_passed_over(self, home: Path) -> None:
        """The older file would not contain its denials."""
        written(home / OLD_FILE, entry("/", "Directory"))
        (home / ".config").symlink_to(".config")
        allowlist = Allowlist()

        assert not allowlist.current().allows("a", "a", "/p/Makefile")
        assert "cannot be read" in allowlist.current().problems()[0][1]


class TestPlaces:
    """The current file, or else the older one; changes apply immediately."""

    TASK = ("a", "a", "/p/Makefile")

    def test_without_a_file_nothing_is_allowed_and_one_to_create_is_named(self, home: Path) -> None:
        allowlist = Allowlist()

        assert not allowlist.current().allows(*self.TASK)
        assert allowlist.current().missing
        assert str(home / HOME_FILE) == allowlist.current().path
        assert [] == allowlist.current().problems()

    def test_the_older_place_counts_until_there_is_a_file_in_the_newer(self, home: Path) -> None:
        written(home / OLD_FILE, entry("/", "Directory"))
        allowlist = Allowlist()
        older = allowlist.current().allows(*self.TASK)
        written(home / HOME_FILE)
        newer = allowlist.current().allows(*self.TASK)
        (home / HOME_FILE).unlink()

        assert (True, False, True) == (older, newer, allowlist.current().allows(*self.TASK))

    @pytest.mark.parametrize("newer", ["broken", "folder", "dangling"])
    def test_the_older_place_does_not_help_out(self, home: Path, newer: str) -> None:
        path = home / HOME_FILE
        written(home / OLD_FILE, entry("/", "Directory"))
        path.parent.mkdir(parents=True)
        if newer == "broken":
            path.write_text("entries = 3\n", encoding="utf-8")
        elif newer == "folder":
            path.mkdir()
        else:
            path.symlink_to("nowhere")
        allowlist = Allowlist()

        assert not allowlist.current().allows(*self.TASK)
        assert [str(path)] == [place for place, _ in allowlist.current().problems()]

    @pytest.mark.parametrize("how", ["file", "link"])
    def test_a_file_in_the_project_allows_nothing(
        self, home: Path, tmp_path: Path, how: str
    ) -> None:
        """A repository could contain it."""
        project = home if how == "file" else tmp_path / "clone"
        brought = home / HOME_FILE if how == "file" else project / "allow.toml"
        written(brought, entry("/", "Directory"))
        allowlist = Allowlist((os.path.realpath(project),))

        assert not allowlist.current().allows(*self.TASK)
        assert ["is inside the project, which could bring its own: no task is allowed"] == [
            why for _, why in allowlist.current().problems()
        ]

    def test_a_change_counts_at_once(self, tmp_path: Path) -> None:
        """If it were read only at the start, a later Deny would have no effect (R10)."""
        path = tmp_path / "list.toml"
        allowlist = listed_in(path)
        seen = [allowlist.current().allows(*self.TASK)]
        for text in (
            entry("/", "Directory"),
            entry("/", "Directory") + entry("/p", "Deny", "a"),
            "entries = 3\n",
            entry("/p/Makefile", "File"),
            "",
        ):
            written(path, text)
            seen.append(allowlist.current().allows(*self.TASK))
        path.unlink()
        seen.append(allowlist.current().allows(*self.TASK))

        assert [False, True, False, False, True, False, False] == seen

    def test_what_is_unchanged_is_not_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "list.toml"
        allowlist = written(path, entry("/p", "Directory"))

        assert allowlist.current() is allowlist.current()
