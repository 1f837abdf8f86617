"""Tasks, and a unique name for each task of a folder."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.files import NotAFileError, is_within, read_file
from ralphgen.runtime.loader import add_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any
    from xml.etree.ElementTree import Element

PATTERN = "*"  # in the name of a task of Task, a placeholder for any word
FEW = 3  # letters of a runner, if one letter is ambiguous


def is_word(name: str) -> bool:
    """Return whether a name fits on one line and does not look like an option."""
    return bool(name.strip()) and name.isprintable() and not name.startswith("-")


def one_line(value: object) -> str | None:
    """Return a text on one line, for a description; None if it is blank or not a string."""
    return " ".join(value.split()) or None if isinstance(value, str) else None


def with_names(text: str | None, variables: re.Pattern[str]) -> str | None:
    """Return a description with each variable replaced by its name, as <NAME>.

    `variables` finds the variables. The matching group is the name; a group called `text` is kept
    as literal text. Other expressions become <…>.
    """

    def name(found: re.Match[str]) -> str:
        if (plain := found.groupdict().get("text")) is not None:
            return plain
        return f"<{next(filter(None, found.groups()), '…')}>"

    return text and variables.sub(name, text)


class Task:
    """One task that a file of the project defines.

    `name` is the listed name, and `source_name` the name for its runner. `runner` is the short name
    of the program that runs it, and `argv` the command, word by word; a first word with a slash is
    a path below the folder of the task. `path` is the file that defines it, absolute and without
    links. `before_arguments` are the words between the command and further arguments. No other task
    of the folder has the same `unique_name`, which equals `name` until `name_tasks` has set it.
    """

    __slots__ = (
        "argv",
        "before_arguments",
        "description",
        "name",
        "path",
        "runner",
        "source_name",
        "unique_name",
    )

    def __init__(
        self,
        name: str,
        *,
        runner: str,
        argv: Sequence[str],
        path: str,
        source_name: str | None = None,
        description: str | None = None,
        before_arguments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.source_name = name if source_name is None else source_name
        self.runner = runner
        self.argv = tuple(argv)
        self.path = path
        self.description = description
        self.before_arguments = tuple(before_arguments)
        self.unique_name = name

    @property
    def command(self) -> str:
        """The command as one would type it."""
        from shlex import join

        return join(self.argv)


def name_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks in their order, without duplicates, each with its `unique_name`.

    Tasks with the same file and the same command are duplicates. A name that only one task has is
    its unique name. If several tasks have it, each gets `<name>-<prefix>`. The prefix is the first
    letter of its runner, else the first three, then one more each time, then the whole runner with
    a number. The first name that no task has is used. So the names depend only on the tasks and
    their order, not on the machine.
    """
    # A duplicate repeats the file and command of an earlier task.
    first: dict[tuple[str, tuple[str, ...]], Task] = {}
    for task in tasks:
        kept = first.setdefault((task.path, task.argv or (task.name,)), task)
        if kept.description is None:
            kept.description = task.description
    named = list(first.values())
    bearers: dict[str, int] = {}
    for task in named:
        bearers[task.name] = bearers.get(task.name, 0) + 1
    taken = set(bearers)
    for task in named:
        task.unique_name = task.name
        if bearers[task.name] > 1:
            task.unique_name = next(name for name in _suffixed(task) if name not in taken)
            taken.add(task.unique_name)
    return named


def find_task(tasks: Sequence[Task], name: str) -> tuple[Task | None, list[str]]:
    """Return the task of a unique name, else the only possible match of `<name>-<prefix>`.

    A prefix is any beginning of the runner's name, so a client can use a task's unique name from
    another folder. If there is no match, the second value holds the unique names of the tasks with
    the plain name, as suggestions.
    """
    exact = next((task for task in tasks if task.unique_name == name), None)
    if exact is not None:
        return exact, []
    plain, dash, prefix = name.rpartition("-")
    meant = [task for task in tasks if task.name == plain and _letters(task).startswith(prefix)]
    if dash and prefix and len(meant) == 1:
        return meant[0], []
    return None, [task.unique_name for task in tasks if task.name == name]


def find_instance(tasks: Iterable[Task], name: str) -> tuple[Task | None, list[str]]:
    """Return the task for the only pattern that a name matches, or None and all matching patterns.

    Its name is the pattern, so allowing the pattern allows the task. Its other two names are the
    given name, so that name can be denied. The text for `*` is not checked here.
    """
    fitting = [task for task in tasks if task.runner == "task" and parts_of(task.source_name, name)]
    if len(fitting) != 1:
        return None, [task.unique_name for task in fitting]
    pattern = fitting[0]
    made = Task(
        pattern.name,
        runner=pattern.runner,
        argv=(*pattern.argv[:-1], name),
        path=pattern.path,
        source_name=name,
        description=pattern.description,
        before_arguments=pattern.before_arguments,
    )
    made.unique_name = name
    return made, []


def parts_of(pattern: str, name: str) -> list[str]:
    """Return the text for each `*` of a pattern in a name, or [] if the name does not match."""
    first, *others = pattern.split(PATTERN)
    if not name.startswith(first):
        return []
    parts, at = [], len(first)
    for number, text in enumerate(others, 1):
        is_last = number == len(others)
        end = name.rfind(text, at + 1) if is_last else name.find(text, at + 1)
        if end < 0 or (is_last and end + len(text) != len(name)):
            return []
        parts.append(name[at:end])
        at = end + len(text)
    return parts


def _suffixed(task: Task) -> Iterator[str]:
    """Yield candidates for the name of a task, the best first, endlessly."""
    letters = _letters(task)
    for size in (1, *range(FEW, len(letters)), len(letters)):
        yield f"{task.name}-{letters[:size]}"
    number = 1
    while True:
        yield f"{task.name}-{letters}{number}"
        number += 1


def _letters(task: Task) -> str:
    """Return the runner's name in small letters, without the space that "docker compose" has."""
    return "".join(letter for letter in task.runner.lower() if letter.isalpha())


MAX_FILE = 1 << 20  # bytes of one file
# Limits of one discovery, however many files a project names: files and bytes to read, values to
# parse, and paths to check.
MOST = {"files": 2000, "bytes": 1 << 22, "values": 200_000, "paths": 20_000}
MOST_PROBLEMS = 50
LONGEST = 300  # characters of a path or a sentence in a problem
OUTSIDE = "is outside the project and was not read"
SPENT = "names too many files: the rest were not read"
Stamp = tuple[int, int, int, int]  # inode, mode, bytes and nanoseconds of the last change
MISSING: Stamp = (0, 0, 0, 0)


class UnreadableError(Exception):
    """A file of tasks cannot be used: its path and one sentence on why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


class Folder:
    """A folder that is searched for tasks.

    `path` is the folder, and `root` the upper limit of the search (the folder itself or one around
    it); both are absolute and without links. `problems` are the unusable files, as (path,
    sentence). `stamps` holds, by path, the state of every file and folder that was read or looked
    for: the result is valid while they are unchanged. `parsed` caches parsed files, by kind and
    real path. Each instance is for one discovery, within the limits `MOST`.
    """

    __slots__ = ("_left", "_listed", "parsed", "path", "problems", "root", "stamps")

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.problems: list[tuple[str, str]] = []
        self.stamps: dict[str, Stamp] = {}
        self.parsed: dict[tuple[str, str], Any] = {}
        self._left = dict(MOST)
        self._listed: dict[str, dict[str, None]] = {}

    def place(self, *parts: str) -> str:
        """Return the path of something below the folder."""
        return os.path.normpath(os.path.join(self.path, *parts))

    def entries(self, folder: str = "") -> list[str]:
        """Return the sorted names in a folder, given by its path; none if it does not exist.

        The default is the folder itself. A path outside the root is reported.
        """
        return [*self._names(folder or self.path)]

    def first(self, *names: str, folder: str = "") -> str | None:
        """Return the path of the first of the names that is a file, spelled exactly so.

        One before it that is something else, such as a folder, is reported.
        """
        place = folder or self.path
        there = self._names(place)
        found = (os.path.join(place, name) for name in names if name in there)
        return next(filter(self.is_usable, found), None)

    def is_usable(self, path: str) -> bool:
        """Return whether a name that is there is a file; anything else is reported."""
        is_file = self.is_file(path)
        if not is_file and self.is_inside(path):
            self.report(path, "is not a file" if os.path.exists(path) else "is a broken link")
        return is_file

    def is_file(self, path: str) -> bool:
        """Return whether a file or a link to one is there; a link out of the root is reported."""
        self.look(path)
        return self._is_ours(path) and os.path.isfile(path)

    def text(self, path: str, largest: int = MAX_FILE) -> str:
        r"""Return the text of a file, without a byte order mark and with "\n" as line ends.

        Raises `UnreadableError` if the file is missing, outside the root, larger than `largest`
        bytes or not UTF-8, or if a limit of the discovery is reached.
        """
        self.look(path)
        if not self._is_ours(path):
            raise UnreadableError(path, OUTSIDE)
        self.spend("files", 1)
        self.spend("bytes", 0)
        try:
            data, _ = read_file(os.path.realpath(path), largest + 1)
        except NotAFileError as error:
            raise UnreadableError(path, "is not a file") from error
        except OSError as error:
            raise UnreadableError(path, f"cannot be read: {error.strerror}") from error
        self.spend("bytes", len(data))
        if len(data) > largest:
            raise UnreadableError(path, f"is larger than {largest:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UnreadableError(path, f"line {line} is not UTF-8") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def report(self, path: str, why: str) -> None:
        """Note, once and in short, that a file cannot be used, while others are."""
        problem = _short(path), _short(why)
        if problem in self.problems or len(self.problems) == MOST_PROBLEMS:
            return
        if len(self.problems) == MOST_PROBLEMS - 1:
            problem = _short(self.path), "has more problems, not shown"
        self.problems.append(problem)

    def spend(self, what: str, count: int) -> None:
        """Consume part of one of the limits `MOST`.

        Raises `UnreadableError`, after a report, if the limit is exceeded.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            self.report(self.path, SPENT)
            raise UnreadableError(self.path, SPENT)

    def look(self, path: str) -> None:
        """Record the state of a path, so that a later change is noticed.

        Raises `UnreadableError` if the limit of paths is exceeded.
        """
        if path not in self.stamps:
            self.spend("paths", 1)
            self.stamps[path] = stamp(path)

    def upwards(self) -> Iterator[str]:
        """Yield the folder and those around it, up to the root."""
        place = self.path
        yield place
        while place != self.root:
            place = os.path.dirname(place)
            yield place

    def is_inside(self, path: str) -> bool:
        """Return whether a path, followed through links, leads to something within the root."""
        return is_within(os.path.realpath(path), self.root)

    def _is_ours(self, path: str) -> bool:
        """Return whether a path may be read: what leads out of the root is reported."""
        is_ours = self.is_inside(path)
        if not is_ours:
            self.report(path, OUTSIDE)
        return is_ours

    def _names(self, path: str) -> dict[str, None]:
        """Return the names in a folder, as it was when it was looked at first."""
        if path not in self._listed:
            self.look(path)
            try:
                names = sorted(os.listdir(path)) if self._is_ours(path) else []
            except OSError:
                names = []
            self._listed[path] = dict.fromkeys(names)
        return self._listed[path]


def stamp(path: str) -> Stamp:
    """Return the state of a path; a change of its content or permissions changes the state."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return MISSING
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def unchanged(stamps: Mapping[str, Stamp]) -> bool:
    """Return whether all these paths are unchanged."""
    return all(stamp(path) == before for path, before in stamps.items())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


DEEP = "is nested too deeply"
MAX_DOCUMENT = 1 << 18  # bytes of a file whose parser takes its time
LARGEST_JSON5 = 1 << 15  # characters of a file with comments, or with commas at the end
MOST_PARTS = 30  # of a key in TOML: the time that a key takes grows with their square
MOST_MEMBERS = 200  # of a mapping of facts

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:\.[ \t]*+{_PART}){{{MOST_PARTS}}}")


def read_yaml(folder: Folder, path: str) -> Any:
    """Return the first document of a YAML file, None if it is empty. Raises `UnreadableError`."""
    return next(iter(read_documents(folder, path)), None)


def read_documents(folder: Folder, path: str) -> list[Any]:
    """Return the documents of a YAML file, with every scalar as a string.

    The programs that read these files treat `on` and `yes` as strings too, and 3 is "3". Raises
    `UnreadableError`.
    """
    documents: list[Any] = _once("yaml", folder, path, lambda: _yaml(folder, path))[0]
    return documents


def has_tags(folder: Folder, path: str) -> bool:
    """Return whether a YAML file has a tag such as `!!binary`, which may change a value.

    Raises `UnreadableError`.
    """
    _, text = _once("yaml", folder, path, lambda: _yaml(folder, path))
    if "!" not in text:
        return False
    import yaml  # unsafe files were refused above

    events = yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    return any(getattr(event, "tag", None) is not None for event in events)


def _once(kind: str, folder: Folder, path: str, parse: Callable[[], object]) -> Any:
    """Return the parsed file, or raise `UnreadableError`; it is parsed once for each real path."""
    folder.look(path)
    key = kind, os.path.realpath(path)
    if key not in folder.parsed:
        try:
            folder.parsed[key] = parse()
        except UnreadableError as error:
            folder.parsed[key] = error
    found = folder.parsed[key]
    if isinstance(found, UnreadableError):
        raise UnreadableError(path, found.why)
    return found


def _yaml(folder: Folder, path: str) -> tuple[Any, str]:
    """Return the documents of a YAML file, and its text."""
    from ralphgen.runtime.files.yaml import YamlError, read_all

    text = folder.text(path, MAX_DOCUMENT)
    folder.spend("values", 0)
    try:
        documents = read_all(text)
    except YamlError as error:
        where = f"line {error.line}: " if error.line else ""
        raise UnreadableError(path, f"{where}{error}") from error
    folder.spend("values", sum(document.count for document in documents))
    return [document.value for document in documents], text


def read_json(folder: Folder, path: str) -> Any:
    """Return the value of a JSON file. Raises `UnreadableError`."""
    return _once("json", folder, path, lambda: _json(path, folder.text(path)))


def read_json5(folder: Folder, path: str) -> Any:
    """Return the value of a JSON file that may hold comments and trailing commas.

    Raises `UnreadableError`.
    """
    return _once("json5", folder, path, lambda: _json5(folder, path))


def _json5(folder: Folder, path: str) -> Any:
    text = folder.text(path, MAX_DOCUMENT)
    try:
        return _json(path, text)  # a thousand times as fast, and mostly enough
    except UnreadableError:
        if len(text) > LARGEST_JSON5:
            raise
    add_packages()
    import json5

    try:
        return json5.loads(text)
    except ValueError as error:
        raise UnreadableError(path, f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableError(path, DEEP) from error


def _json(path: str, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(
            path, f"line {error.lineno}: is not valid JSON: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_toml(folder: Folder, path: str) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises `UnreadableError`."""
    import tomllib

    text = folder.text(path, MAX_DOCUMENT)
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise UnreadableError(path, f"line {line}: has a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(path, f"is not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, DEEP) from error


def read_xml(folder: Folder, path: str) -> Element:
    """Return the root element of an XML file; entities are refused. Raises `UnreadableError`."""
    from xml.etree.ElementTree import ParseError

    text = folder.text(path)
    add_packages()
    from defusedxml import DefusedXmlException, EntitiesForbidden
    from defusedxml.ElementTree import fromstring

    try:
        root: Element = fromstring(text)
    except ParseError as error:
        raise UnreadableError(path, f"is not valid XML: {error}") from error
    except EntitiesForbidden as error:
        raise UnreadableError(
            path, f'defines the entity "{error.name}": replace it with its text'
        ) from error
    except DefusedXmlException as error:
        raise UnreadableError(path, "refers to another file, which was not read") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, f"is XML of an unsupported kind: {error}") from error
    return root


def mapping(value: object) -> dict[str, Any]:
    """Return the value with its string keys if it is a dictionary, else {}."""
    if not isinstance(value, dict):
        return {}
    return {key: member for key, member in value.items() if isinstance(key, str)}


def merged(value: object, most: int = MOST_MEMBERS) -> dict[str, Any]:
    """Return the members of a YAML mapping, including merged ones (`<<`); {} for other values.

    If a key occurs twice, the mapping's own member counts, then the first merged one. At most
    `most` members are returned, own members first, because thousands of mappings may merge one with
    thousands.
    """
    parts: list[dict[str, Any]] = []
    pending = [value] if isinstance(value, dict) else []
    seen: set[int] = set()
    while pending and most > 0 and len(seen) <= MOST_MEMBERS:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list):
            pending += reversed(part[:MOST_MEMBERS])
        own = [*_members(part, most)]
        most -= len(own)
        parts.append({key: member for key, member in own if key != "<<"})
        pending += [member for key, member in own if key == "<<"]
    members: dict[str, Any] = {}
    for earlier in reversed(parts):
        members |= earlier
    return members


def _members(value: object, most: int) -> Iterator[tuple[str, Any]]:
    """Yield the first members of a mapping, those whose keys are texts."""
    if isinstance(value, dict):
        for _, (key, member) in zip(range(most), value.items(), strict=False):
            if isinstance(key, str):
                yield key, member
