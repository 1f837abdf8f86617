"""Finds tasks of services: GitHub workflows, Travis and Compose files."""

from __future__ import annotations

import os
import re

from ..runners import inherited
from ..task import (
    Task,
    UnreadableError,
    mapping,
    merged,
    one_line,
    read_documents,
    read_yaml,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..task import Folder

_SINGLE = ("workflow.yml", "workflow.yaml", ".github/workflow.yml", ".github/workflow.yaml")
_MORE = ("workflows", "custom/workflows", ".gitlab/workflows")

_RULES = ("include", "exclude", "allow_failures", "fast_finish")  # reserved keys of `jobs`


def workflow_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each workflow file, named after it; report files without jobs."""
    for place in _places(folder):
        name = os.path.splitext(os.path.basename(place))[0]
        path = folder.place(place)
        if not name.strip() or not name.isprintable() or not folder.is_usable(path):
            continue
        try:
            workflow = mapping(read_yaml(folder, path))
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        if not mapping(workflow.get("jobs")):
            folder.report(path, "is not a workflow: it has no jobs")
            continue
        real, text = os.path.realpath(path), one_line(workflow.get("name"))
        yield Task(name, runner="act", argv=("act", "-W", place), path=real, description=text)


def _places(folder: Folder) -> Iterator[str]:
    """Yield possible places of workflows, as paths within the folder."""
    yield from _inside(folder, ".github/workflows")
    for name in _SINGLE:
        if os.path.basename(name) in folder.entries(folder.place(os.path.dirname(name))):
            yield name
    for name in _MORE:
        yield from _inside(folder, name)


def _inside(folder: Folder, name: str) -> Iterator[str]:
    for entry in folder.entries(folder.place(name)):
        if entry.endswith((".yml", ".yaml")) and not entry.startswith("."):
            yield f"{name}/{entry}"


def travis_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each named job, without a command; `travis` if there is none.

    A job's description is its script. Raises `UnreadableError` if the file is not a mapping.
    """
    path = folder.first(".travis.yml")
    if path is None:
        return
    build = read_yaml(folder, path)
    if build is not None and not isinstance(build, dict):
        raise UnreadableError(path, "must be a mapping")
    shared = _script(mapping(build))
    for name, job in (_jobs(mapping(build)) or {"travis": {}}).items():
        text, real = _script(mapping(job)) or shared, os.path.realpath(path)
        yield Task(name, runner="travis", argv=(), path=real, description=text)


def _jobs(build: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs by name; of two jobs with one name the first counts.

    They are listed below `jobs` or, in older files, `matrix`, or are members of `jobs` by name.
    """
    jobs, matrix = build.get("jobs"), build.get("matrix")
    found: dict[str, Any] = {}
    named = [(_name(key), job) for key, job in mapping(jobs).items() if key not in _RULES]
    for name, job in [*_job_entries(jobs)] or [*_job_entries(matrix)] or named:
        if name:
            found.setdefault(name, job)
    return found


def _job_entries(jobs: object) -> Iterator[tuple[str, Any]]:
    """Yield the jobs of a list or of its `include`; a job without a name gets its number."""
    listed = jobs if isinstance(jobs, list) else mapping(jobs).get("include")
    for number, job in enumerate(listed if isinstance(listed, list) else (), 1):
        if isinstance(job, dict):
            yield _name(job.get("name")) or f"job-{number}", job


def _name(value: object) -> str:
    """Return the value if it can name a task, else ""."""
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def _script(job: dict[str, Any]) -> str | None:
    """Return the commands of a job in one line."""
    script = job.get("script")
    commands = script if isinstance(script, list) else [script]
    lines = (" ".join(command.split()) for command in commands if isinstance(command, str))
    return " && ".join(filter(None, lines)) or None


# The files that Compose finds, in its own order, and the override files that it merges.
_FOUND = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_OVERRIDES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)
_OTHER = re.compile(r"docker-compose\..+\.ya?ml")
MOST_SERVICES = 5000
MOST_FILES = 200
_DEEPEST = 20  # chain of files that include each other
_SERVICE = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")  # Compose's rule, except options
_REMOTE = re.compile(r"\w+://|git@|[\w.-]+\.git(?:#|$)|github\.com/|oci:")
_LINE = re.compile(
    r"""^[^\S\n]*+(?:export[^\S\n]+)?([\w.-]+)[^\S\n]*[=:][^\S\n]*+
    (?:'([^']*+)'|"((?>[^"\\]|\\.)*+)"|([^\n]*))""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+?])([^{}]*))?\})")
_SIGN = "\0"  # in place of a "$" that begins no variable


def compose_tasks(folder: Folder) -> Iterator[Task]:
    """Yield `up` and `down`, then one task for each service of the project.

    If one of several files cannot be used, it is reported. Raises `UnreadableError` if the first is
    not a Compose file.
    """
    environment = _environment(folder, [folder.place(".env")], inherited(folder))
    paths, options = _files(folder, environment)
    if not paths:
        return
    if not read_documents(folder, paths[0]):
        raise UnreadableError(paths[0], "is not a Compose file: it is empty")
    place = os.path.dirname(paths[0])
    project = _Project(folder)
    project.read(paths, place, _environment(folder, [os.path.join(place, ".env")], environment))
    commands: list[tuple[str, str, tuple[str, ...], str | None]] = [
        ("up", paths[0], ("up",), "create and start all services"),
        ("down", paths[0], ("down",), "stop and remove all services"),
        *(
            (name, path, ("run", name), _origin(body))
            for name, (path, body) in project.services.items()
            if _SERVICE.fullmatch(name)
        ),
    ]
    for name, path, words, text in commands:
        argv, real = ("docker", "compose", *options, *words), os.path.realpath(path)
        yield Task(name, runner="docker compose", argv=argv, path=real, description=text)


def _files(folder: Folder, environment: Mapping[str, str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the files of the project, and the options of Compose for them."""
    if (named := environment.get("COMPOSE_FILE")) is not None:
        separator = environment.get("COMPOSE_PATH_SEPARATOR") or os.pathsep
        paths = [folder.place(name) for name in named.split(separator)]
        return _usable(folder, folder.path, "COMPOSE_FILE", paths), ()
    if path := folder.first(*_FOUND):
        override = folder.first(*_OVERRIDES)
        return [path, *([override] if override else ())], ()
    path = folder.first(*filter(_OTHER.fullmatch, folder.entries()))
    return ([path], ("-f", os.path.basename(path))) if path else ([], ())


def _usable(folder: Folder, source: str, what: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that are files of the project; the others are reported for `source`."""
    usable: list[str] = []
    for path in paths:
        if not path.isprintable() or not folder.is_inside(path):
            folder.report(source, f'{what} names "{path}", which is outside the project')
        elif folder.is_file(path):
            usable.append(path)
        else:
            folder.report(source, f'{what} names "{path}", which does not exist')
    return usable


class _Project:
    """The services that files define, with the first file of each and its merged body."""

    __slots__ = ("_files", "_folder", "services")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = 0
        self.services: dict[str, tuple[str, dict[str, Any]]] = {}

    def read(self, paths: Sequence[str], place: str, environment: Mapping[str, str]) -> None:
        """Read the files of the project; relative paths of includes start at `place`.

        Raises `UnreadableError` if the first is not a Compose file.
        """
        self.services = self._merged(paths, place, environment, ())

    def _merged(
        self, paths: Sequence[str], place: str, environment: Mapping[str, str], way: tuple[str, ...]
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the services of merged files, then the services of their includes."""
        services: dict[str, tuple[str, dict[str, Any]]] = {}
        includes: list[tuple[str, object]] = []
        for number, path in enumerate(paths):
            self._files += 1
            if self._files > MOST_FILES:
                self._folder.report(path, f"was not read: there are more than {MOST_FILES} files")
                break
            try:
                includes += [(path, entry) for entry in self._merge(path, services)]
            except UnreadableError as error:
                if not number:
                    raise
                self._folder.report(error.path, error.why)
        way = (*way, *map(os.path.realpath, paths))
        for path, entry in includes:
            for name, service in self._included(path, entry, place, environment, way).items():
                services.setdefault(name, service)
        return services

    def _merge(self, path: str, services: dict[str, tuple[str, dict[str, Any]]]) -> list[object]:
        """Merge the services of a file into the earlier ones, and return its includes."""
        includes: list[object] = []
        for project in read_documents(self._folder, path):
            if not isinstance(project, dict):
                raise UnreadableError(path, "is not a Compose file: it must be a mapping")
            found, more = project.get("services") or {}, project.get("include") or []
            if not isinstance(found, dict):
                raise UnreadableError(path, "is not a Compose file: its services must be a mapping")
            for name, written in merged(found, MOST_SERVICES).items():
                body = merged(written)
                first, before = services.get(name, (path, {}))
                services[name] = first, {**before, **body, **_merged_build(before, body)}
            if not isinstance(more, list):
                raise UnreadableError(path, "is not a Compose file: its includes must be a list")
            includes += [*more]
        return includes

    def _included(
        self,
        source: str,
        entry: object,
        place: str,
        environment: Mapping[str, str],
        way: tuple[str, ...],
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the services of an include; an unusable one is reported."""
        fields = {"path": entry} if isinstance(entry, str) else merged(entry)
        names = [_filled(name, environment) for name in _texts(fields.get("path"))]
        if any(map(_REMOTE.match, names)):
            self._folder.report(source, f'includes "{names[0]}", which is outside the project')
            return {}
        paths = [os.path.normpath(os.path.join(place, name)) for name in names]
        usable = _usable(self._folder, source, "its include", paths)
        if not usable or usable[0] != paths[0]:
            return {}
        if os.path.realpath(usable[0]) in way or len(way) > _DEEPEST:
            self._folder.report(source, f'includes "{names[0]}", which includes it again')
            return {}
        directory = fields.get("project_directory")
        base = os.path.dirname(usable[0])
        if isinstance(directory, str) and directory:
            base = os.path.normpath(os.path.join(place, _filled(directory, environment)))
        named = [_filled(name, environment) for name in _texts(fields.get("env_file"))]
        files = [os.path.normpath(os.path.join(place, name)) for name in named]
        inner = _environment(self._folder, files or [os.path.join(base, ".env")], environment)
        try:
            return self._merged(usable, base, inner, way)
        except UnreadableError as error:
            self._folder.report(error.path, error.why)
            return {}


def _merged_build(before: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return how an override changes a service's build: two mappings are merged."""
    builds = [
        {"context": part["build"]} if isinstance(part["build"], str) else mapping(part["build"])
        for part in (before, body)
        if part.get("build")
    ]
    return (
        {"build": {key: value for build in builds for key, value in build.items()}}
        if builds
        else {}
    )


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text]


def _environment(folder: Folder, files: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a project, completed from its files of variables.

    Unreadable files are reported.
    """
    own: dict[str, str] = {}
    for path in files:
        if not folder.is_inside(path):
            folder.report(path, "is outside the project: its variables were not read")
        elif folder.is_file(path):
            try:
                own |= _variables(folder.text(path), before)
            except UnreadableError as error:
                folder.report(error.path, error.why)
    return {**own, **before}


def _variables(text: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a file; a value may use those above it and those `before`."""
    found: dict[str, str] = {}
    for name, verbatim, quoted, plain in _LINE.findall(text):
        value = quoted or re.sub(r"(?:^|\s+)#.*", "", plain).strip()
        found[name] = verbatim or _filled(value, {**found, **before})
    return found


def _filled(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with its variables filled in, as Compose does; `$$` is a `$`."""

    def value(found: re.Match[str]) -> str:
        plain, name, operator, word = found.groups()
        known = environment.get(plain or name)
        is_there = bool(known) if operator and operator.startswith(":") else known is not None
        if operator and operator.endswith("+"):
            return (word or "") if is_there else ""
        if operator and operator.endswith("-") and not is_there:
            return word or ""
        return (known or "").replace("$", _SIGN)  # values are not expanded

    text = text.replace("$$", _SIGN)
    for _ in range(_DEEPEST):  # the innermost first: "${A:-${B}}"
        text = _VARIABLE.sub(value, text)
    return text.replace(_SIGN, "$")


def _origin(service: Mapping[str, Any]) -> str | None:
    """Return the image or build context of a service, if it has one."""
    image, build = service.get("image"), service.get("build")
    context = mapping(build).get("context", ".") if isinstance(build, dict) else build
    found = (
        f"{word} {' '.join(text.split())}"
        for word, text in (("image", image), ("built from", context))
        if isinstance(text, str) and text.strip()
    )
    return ", ".join(found) or None
