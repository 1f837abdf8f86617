"""Finds the tasks of Gradle builds, and the phases and goals of Maven builds.

Gradle is not run, because it would run the build script. The list contains the tasks that a script
declares with a literal name, the tasks of the well-known plugins that it applies and of the plugins
of included modules, and the reports of every project. One of these reports, `tasks`, prints the
tasks that a script adds in other ways.
"""

from __future__ import annotations

import os
import re

from ..runners import inherited, nearest_program
from ..task import (
    Task,
    UnreadableError,
    is_word,
    mapping,
    one_line,
    read_toml,
    read_xml,
    with_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from ..task import Folder

    _Goals = dict[tuple[str, str], list[tuple[str, str, bool]]]


_A_VALUE = 8  # characters of a script that take as long as a value of YAML
_REPORTS = {
    "tasks": "show the tasks of the project",
    "projects": "show the projects of the build",
    "properties": "show the properties of the project",
    "dependencies": "show the dependencies of the project",
}
_SETTINGS = ("settings.gradle", "settings.gradle.kts")
_SCRIPTS = ("build.gradle", "build.gradle.kts")
_MOST_SCRIPTS = 100  # of a build, whose scripts are read
_BASE = {
    "assemble": "build the outputs of the project, without tests",
    "build": "assemble and check the project",
    "check": "run all checks, including tests",
    "clean": "remove the output of earlier builds",
}
_OF_MODULES = _BASE | {"test": "run the tests"}  # with any plugins of the modules
_JAVA = _BASE | {
    "classes": "compile the sources",
    "testClasses": "compile the tests",
    "test": "run the tests",
    "jar": "package the classes as a jar",
    "javadoc": "generate the API documentation",
}
_APPLICATION = _JAVA | {
    "run": "run the application",
    "installDist": "install the application in the build directory",
    "distZip": "package the application as a zip file",
    "distTar": "package the application as a tar file",
}
_ANDROID = _BASE | {
    "assembleDebug": "build the debug variant",
    "assembleRelease": "build the release variant",
    "test": "run the unit tests",
    "connectedAndroidTest": "run the tests on a device",
    "lint": "run Android's lint",
}
_BOOT = {
    "bootRun": "run the Spring Boot application",
    "bootJar": "package the application and its dependencies as a jar",
    "bootBuildImage": "build a container image of the application",
}
_PLUGINS: dict[str, Mapping[str, str]] = {
    "base": _BASE,
    "java-platform": _BASE,
    **dict.fromkeys(("java", "java-library", "java-gradle-plugin", "groovy", "scala"), _JAVA),
    **dict.fromkeys(("groovy-gradle-plugin", "kotlin-dsl", "kotlin"), _JAVA),
    "war": _JAVA | {"war": "package the application as a war"},
    "application": _APPLICATION,
    "org.jetbrains.kotlin.jvm": _JAVA,
    "org.jetbrains.kotlin.multiplatform": _BASE | {"allTests": "run the tests of all targets"},
    "org.springframework.boot": _BOOT,
    "com.android.library": _ANDROID,
    "com.android.application": _ANDROID | {"installDebug": "install the debug variant"},
}

_LEXEME = re.compile(
    r"""
      //[^\n]* | /\*.*?(?:\*/|\Z)                              # comments
    | \"{3}(.*?)(?:\"{3}|\Z) | '{3}(.*?)(?:'{3}|\Z)
    | "((?>\\[^\n]|\$\{(?>[^{}"\n]|"[^"\\\n]*+"){0,500}+\}|[^"\\\n])*+)"
    | '((?>\\[^\n]|[^'\\\n])*+)'
    | ["'][^\n]*                                               # a quote in a pattern, no string
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")
_VARIABLES = re.compile(
    r'\$\{\s*(?:"(?P<text>[^"$]*)"|([\w.]+))\s*\}|\$\{[^{}]*\}|\$([A-Za-z_]\w*)'
)
_UNFIT = frozenset('/\\:<>"?*|$')  # invalid in a task name; `$` begins a reference

# Patterns for a script with a quoted number in place of each string.
_TYPE = r"(?:\s*+<[^\n(){}]{0,200}>)?"
_TOKEN = re.compile(
    rf"""
      (?P<tasks>\btasks\s*+\{{) | (?P<open>\{{) | (?P<close>\}})
    | (?P<left>\() | (?P<right>\)) | (?P<end>[\n;])
    | (?<![\w.])(?:(?:it|this)\.)?(?:description|setDescription)\s*+[=:(]?\s*+
      (?P<description>"\d+"(?:\s*+\+\s*+"\d+")*)
    | (?<!\w)(?:task|tasks\s*+\.\s*+(?:register|create|maybeCreate)){_TYPE}
      \s*+(?P<paren>\()?\s*+(?:name\s*+[:=]\s*+)?"(?P<string>\d+)"
    | (?<![\w.])(?:register|create|maybeCreate){_TYPE}\s*+\(\s*+"(?P<inner>\d+)"
    | (?<![\w.])task[ \t]+(?!(?:in|is|as|instanceof)\b)(?P<word>[A-Za-z_]\w*)
      (?=[ \t]*(?:[({{;<\n]|\Z))
    | \bval\s+`?(?P<value>(?<=`)[^`\n]+|\w+)`?\s*+(?::[^\n={{}}]{{0,200}})?
      \bby\s+(?P<from>(?:project\s*+\.\s*+)?tasks\s*+\.\s*+)?(?:registering|creating)\b
    """,
    re.VERBOSE,
)
_NOT_APPLIED = (
    r'\s*+\)?+(?!(?:\s*+\.?version\s*+\(?\s*+["\w.]+\s*+\)?)?\s*+\.?apply\s*+\(?\s*+false\b)'
)
_APPLIED = re.compile(
    rf"""
      \b(?:id|apply|plugin\s*+[:=]?)\s*+\(?\s*+"(?P<id>\d+)"{_NOT_APPLIED}
    | \bkotlin\s*+\(\s*+"(?P<kotlin>\d+)"{_NOT_APPLIED}
    | \balias\s*+\(?\s*+libs\s*+\.\s*+plugins\s*+\.\s*+(?P<alias>\w++(?:\.\w++)*+){_NOT_APPLIED}
    | \bplugins\s*+\{{(?=(?P<block>[^{{}}]*)\}})
    """,
    re.VERBOSE,
)
_SCRIPT_PLUGIN = re.compile(
    r'\bapply\s*+[({]?\s*+from\s*+[:=(]\s*+(?:(?:rootProject\s*+\.\s*+)?file\s*+\(\s*+)?"(\d+)"'
)
_TOP = re.compile(r"\$(?:\{(?:rootDir|rootProject\.(?:rootDir|projectDir))\}|rootDir\b)")
_PROJECT = re.compile(r"\$(?:\{(?:project\.)?projectDir\}|projectDir\b)")
_INCLUDE = re.compile(r"""(?<![\w.])include\b\s*+\(?((?:\s*+,?\s*+"\d+")*)""")
_ACCESSOR = re.compile(r"[ \t]*`?([\w-]+)`?[ \t]*")


def gradle_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks of the script, then of its plugins, then the reports, each name once.

    The scripts that it applies with `apply from` are read as well. If the directory's settings
    include modules, Gradle runs a task of their plugins in all of them; these tasks come after the
    tasks of the script's own plugins. Raises `UnreadableError`.
    """
    settings = folder.first(*_SETTINGS)
    path = folder.first(*_SCRIPTS) or settings
    if path is None:
        return
    tasks: dict[str, tuple[str, str | None]] = {}
    added: list[Mapping[str, str]] = []
    scripts = [path] if path != settings else []
    for script in scripts:
        try:
            text, strings = _script(folder, script)
        except UnreadableError as error:
            if script == path:
                raise
            folder.report(error.path, error.why)
            continue
        for name, description in _Declarations(strings).read(text).items():
            tasks.setdefault(name, (script, description))
        added += [_PLUGINS.get(plugin, {}) for plugin in _plugins(folder, text, strings)]
        named = [strings[int(number)] for number in _SCRIPT_PLUGIN.findall(text)]
        scripts += [
            applied
            for applied in dict.fromkeys(_applied(folder, script, named))
            if applied not in scripts and len(scripts) < _MOST_SCRIPTS
        ]
    if settings is not None:
        added += _of_modules(folder, settings)
    for name, description in [pair for more in (*added, _REPORTS) for pair in more.items()]:
        tasks.setdefault(name, (path, description))
    yield from _tasks(folder, "gradle", "gradlew", tasks)


def _tasks(
    folder: Folder, runner: str, wrapper: str, found: Mapping[str, tuple[str, str | None]]
) -> Iterator[Task]:
    """Yield the tasks of a build, by name the file and the description."""
    program = nearest_program(folder, wrapper, runner)
    for name, (file, text) in found.items():
        argv, real = (program, name), os.path.realpath(file)
        yield Task(name, runner=runner, argv=argv, path=real, description=text)


def _nearest(folder: Folder, *parts: str) -> str | None:
    """Return the nearest file of this path, from the folder up to the root."""
    places = (os.path.join(place, *parts) for place in folder.upwards())
    return next(filter(folder.is_file, places), None)


def _applied(folder: Folder, source: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the scripts that one applies, whose paths start at the project; others are reported."""
    around = (place for place in folder.upwards() if folder.first(*_SETTINGS, folder=place))
    top = next(around, folder.path)
    for name in names:
        given = _PROJECT.sub(lambda _: folder.path, _TOP.sub(lambda _: top, name))
        script = folder.place(given)
        if "$" in given or not given.isprintable():
            folder.report(source, f'applies "{name}": only Gradle can resolve this file')
        elif "://" in given or not folder.is_inside(script):
            folder.report(source, f'applies "{name}", which is outside the project')
        elif folder.is_file(script):
            yield script
        else:
            folder.report(source, f'applies "{name}", which does not exist')


def _script(folder: Folder, path: str) -> tuple[str, list[str]]:
    """Return a script as `_masked` does; raises `UnreadableError`."""
    script = folder.text(path)
    folder.spend("values", len(script) // _A_VALUE)
    return _masked(script)


def _of_modules(folder: Folder, settings: str) -> list[Mapping[str, str]]:
    """Return the tasks that plugins add to included modules; empty without modules.

    A module's script that cannot be read is reported. Raises `UnreadableError` for the settings.
    """
    text, strings = _script(folder, settings)
    included = _INCLUDE.findall(text)
    if not included:
        return []
    names = [strings[int(number)] for found in included for number in re.findall(r"\d+", found)]
    added: list[Mapping[str, str]] = []
    for name in [*dict.fromkeys(filter(is_word, names))][:_MOST_SCRIPTS]:
        place = folder.place(*name.split(":"))
        path = folder.first(*_SCRIPTS, folder=place) if folder.is_inside(place) else None
        if path is None:
            continue
        try:
            module = _script(folder, path)
        except UnreadableError as error:
            folder.report(error.path, error.why)
        else:
            added += [_PLUGINS.get(plugin, {}) for plugin in _plugins(folder, *module)]
    return [_OF_MODULES, *added]


def _masked(script: str) -> tuple[str, list[str]]:
    """Return the script without comments and with numbers in place of strings; and the strings."""
    strings: list[str] = []

    def shorten(lexeme: re.Match[str]) -> str:
        content = next((text for text in lexeme.groups() if text is not None), None)
        if content is None:
            return " " if lexeme[0].startswith("/") else re.sub("[\"']", " ", lexeme[0])
        strings.append(content)
        return f'"{len(strings) - 1}"'

    return _LEXEME.sub(shorten, script), strings


class _Declarations:
    """Reads the tasks that a script declares, and the description within each task's braces.

    `blocks` are the open braces: the task they belong to, "" for `tasks { … }`, else None. `owner`
    is the task whose braces may come next, `depth` the parentheses opened since.
    """

    __slots__ = ("blocks", "depth", "found", "owner", "strings")

    def __init__(self, strings: list[str]) -> None:
        self.strings = strings
        self.found: dict[str, str | None] = {}
        self.blocks: list[str | None] = []
        self.owner: str | None = None
        self.depth = 0

    def read(self, script: str) -> dict[str, str | None]:
        """Return the names and descriptions of the tasks of a masked script, in its order."""
        for token in _TOKEN.finditer(script):
            if token["description"]:
                self._describe(token["description"])
            elif name := self._name(token):
                self.owner, self.depth = None, 1 if token["paren"] or token["inner"] else 0
                if is_word(name) and not _UNFIT & set(name):
                    self.found.setdefault(name, None)
                    self.owner = name
            else:
                self._step(token.lastgroup)
        return self.found

    def _step(self, kind: str | None) -> None:
        """Follow the braces, parentheses and ends of statements."""
        if kind in {"open", "tasks"}:
            self.blocks.append("" if kind == "tasks" else self.owner)
            self.owner = None
        elif kind == "close":
            del self.blocks[-1:]
        elif kind == "end" and self.depth <= 0:
            self.owner = None
        self.depth += (kind == "left") - (kind == "right")

    def _name(self, token: re.Match[str]) -> str | None:
        """Return the name of the task that a token declares, or None."""
        inner = token["inner"] or (token["value"] if not token["from"] else None)
        if inner and self.blocks[-1:] != [""]:
            return None
        number = token["string"] or token["inner"]
        return self.strings[int(number)] if number else token["word"] or token["value"]

    def _describe(self, numbers: str) -> None:
        """Store a description, a sum of strings, for the surrounding task."""
        task = self.owner or next(iter(self.blocks[-1:]), None)
        if task and not self.found[task]:
            text = "".join(self.strings[int(number)] for number in re.findall(r"\d+", numbers))
            plain = _ESCAPED.sub(lambda found: " " if found[1] in "nrt" else found[1], text)
            self.found[task] = with_names(one_line(plain), _VARIABLES)


def _plugins(folder: Folder, script: str, strings: list[str]) -> Iterator[str]:
    """Yield the plugins that a masked script applies, by id."""
    aliases: dict[str, str] | None = None
    for found in _APPLIED.finditer(script):
        if found["id"]:
            yield strings[int(found["id"])].removeprefix("org.gradle.")
        elif found["kotlin"]:
            yield f"org.jetbrains.kotlin.{strings[int(found['kotlin'])]}"
        elif found["alias"]:
            aliases = _catalog(folder) if aliases is None else aliases
            yield aliases.get(found["alias"], "")
        elif found["block"]:
            words = map(_ACCESSOR.fullmatch, re.split("[\n;]", found["block"]))
            yield from (word[1] for word in words if word)


def _catalog(folder: Folder) -> dict[str, str]:
    """Return the ids of the nearest version catalog's plugins by what scripts call them."""
    path = _nearest(folder, "gradle", "libs.versions.toml")
    if path is None:
        return {}
    try:
        plugins = mapping(read_toml(folder, path).get("plugins"))
    except UnreadableError as error:
        folder.report(error.path, error.why)
        return {}
    ids: dict[str, str] = {}
    for alias, plugin in plugins.items():
        name = plugin.partition(":")[0] if isinstance(plugin, str) else mapping(plugin).get("id")
        if isinstance(name, str):
            ids[re.sub("[-_.]", ".", alias)] = name
    return ids


class Profiles:
    """The profiles and properties passed to Maven: by `.mvn/maven.config` and by MAVEN_ARGS."""

    __slots__ = ("_off", "_on", "properties")

    def __init__(self, folder: Folder) -> None:
        path = _nearest(folder, ".mvn", "maven.config")
        try:
            text = folder.text(path) if path else ""
        except UnreadableError as error:
            folder.report(error.path, error.why)
            text = ""
        text = f"{text}\n{inherited(folder).get('MAVEN_ARGS', '')}"
        words = re.sub(r"(?<!\S)(-P|--activate-profiles)[\s=]*", "-P", text).split()
        given = [word[2:].partition("=") for word in words if word.startswith("-D")]
        self.properties = {name: value for name, _, value in given}
        named = [name for word in words if word.startswith("-P") for name in word[2:].split(",")]
        self._off = {name[1:] for name in named if name.startswith(("!", "-"))}
        self._on = {name.lstrip("+?") for name in named} - {"", *self._off}

    def active(self, profiles: Sequence[Element]) -> list[Element]:
        """Return the profiles of a pom.xml that are active, or may be by an activation."""
        states = [(profile, self._state(profile)) for profile in profiles]
        is_any_active = any(state is True for _, state in states)
        return [
            profile
            for profile, state in states
            if state is not False and (state != "by default" or not is_any_active)
        ]

    def _state(self, profile: Element) -> bool | str | None:
        """Return whether a profile is active, or None if only Maven can evaluate it."""
        name = text_of(profile, "id")
        if name in self._on | self._off:
            return name in self._on
        parts = {tag_of(part): part for part in below(profile, "activation") for part in part}
        by_default = parts.pop("activeByDefault", None)
        if parts:
            return None
        is_default = by_default is not None and (by_default.text or "").strip() == "true"
        return "by default" if is_default else False


def below(element: Element, *names: str) -> list[Element]:
    """Return the elements at the end of a path of local names, in order."""
    found = [element]
    for name in names:
        found = [child for parent in found for child in parent if tag_of(child) == name]
    return found


def text_of(element: Element, name: str) -> str:
    """Return the text of the first child with a local name, or "" if there is none."""
    child = next(iter(below(element, name)), None)
    return "" if child is None else (child.text or "").strip()


def tag_of(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


_PHASES = {
    "clean": "remove the output of earlier builds",
    "validate": "validate the project",
    "compile": "compile the sources",
    "test": "run the unit tests",
    "package": "package the compiled code, such as into a jar",
    "verify": "run checks on the package",
    "install": "install the package in the local repository",
    "deploy": "deploy the package to the remote repository",
    "site": "generate the documentation site of the project",
}
_OWN_GROUP = "org.apache.maven.plugins"  # that of a plugin which names none
_GROUPS = frozenset((_OWN_GROUP, "org.codehaus.mojo"))  # groups whose plugins have short names
_PREFIX = re.compile(r"maven-(?P<own>.+)-plugin|(?P<other>.+)-maven-plugin")
_WORD = re.compile(r"[A-Za-z0-9_][\w.-]*")  # no option, and nothing that is still to be filled in
_PROPERTY = re.compile(r"\$\{([^${}]+)\}")
_DEEPEST = 20  # parents of a project, and properties within properties
_LONGEST = 1000  # characters of a name
_MOST_POMS = 200


class _Model:
    """The definitions of a pom.xml and its parents in the project.

    `plugins` are the goals of plugins, and `managed` the goals that the plugin management adds to
    declared plugins. Both map a plugin's group and artifact to a list of (name, file, is
    inherited); a declaration has no name.
    """

    __slots__ = ("managed", "modules", "plugins", "properties")

    def __init__(self) -> None:
        self.plugins: _Goals = {}
        self.managed: _Goals = {}
        self.properties: dict[str, str] = {}
        self.modules: list[str] = []

    def inherit(self, parent: _Model) -> None:
        """Add the definitions that a parent passes on to its children."""
        self.properties = parent.properties | self.properties
        for own, other in ((self.plugins, parent.plugins), (self.managed, parent.managed)):
            for key, goals in other.items():
                if passed_on := [goal for goal in goals if goal[2]]:
                    own.setdefault(key, []).extend(passed_on)

    def goals(self, known: _Model) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield each goal by the name that Maven accepts, with its file and description.

        `known` is the model of the project that Maven runs for. Maven supports the short name of
        any other plugin only if it is in one of Maven's default groups.
        """
        filled = {self._filled(key) for key in (*known.plugins, *known.managed)}
        for key, declared in self.plugins.items():
            plugin = self._filled(key)
            prefix = _prefix(*plugin, is_known=plugin in filled)
            for name, path, _ in [*declared, *self.managed.get(key, ())]:
                goal = self.fill(name)
                if prefix and _WORD.fullmatch(goal):
                    yield f"{prefix}:{goal}", (path, f"run the goal '{goal}' of {plugin[1]}")

    def fill(self, text: str) -> str:
        """Return a text with the properties of the project filled in."""
        for _ in range(_DEEPEST):
            if "${" not in text or len(text) > _LONGEST:
                break
            text = _PROPERTY.sub(lambda one: self.properties.get(one[1], one[0]), text)
        return text

    def _filled(self, key: tuple[str, str]) -> tuple[str, str]:
        return self.fill(key[0]), self.fill(key[1])


def maven_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the nine phases, then each goal of a plugin's executions once, as Maven accepts it.

    The goals of parents in the project belong to the project itself; the goals of modules follow.
    Raises `UnreadableError` if pom.xml is not a project; any other unusable file is reported.
    """
    path = folder.first("pom.xml")
    if path is None:
        return
    given = Profiles(folder)
    model = _model(folder, path, given, ())
    found: dict[str, tuple[str, str | None]] = {
        **{name: (path, text) for name, text in _PHASES.items()},
        **dict(model.goals(model)),
    }
    for module in _modules(folder, path, model, given):
        for name, goal in module.goals(model):
            found.setdefault(name, goal)
    yield from _tasks(folder, "mvn", "mvnw", found)


def _model(folder: Folder, path: str, given: Profiles, way: tuple[str, ...]) -> _Model:
    """Return the model of a pom.xml; `way` are its children. Raises `UnreadableError`."""
    project = read_xml(folder, path)
    if tag_of(project) != "project":
        raise UnreadableError(path, f"its root element is '{tag_of(project)}', not 'project'")
    way = (*way, os.path.realpath(path))
    active = given.active(below(project, "profiles", "profile"))
    model = _Model()
    for part in (project, *active):
        for goals, place in ((model.plugins, ()), (model.managed, ("pluginManagement",))):
            for plugin in below(part, "build", *place, "plugins", "plugin"):
                key = text_of(plugin, "groupId") or _OWN_GROUP, text_of(plugin, "artifactId")
                goals.setdefault(key, []).extend(_goals(plugin, path))
        for properties in below(part, "properties"):
            model.properties |= {tag_of(each): (each.text or "").strip() for each in properties}
        for kind in (("modules", "module"), ("subprojects", "subproject")):
            model.modules += [(module.text or "").strip() for module in below(part, *kind)]
    model.properties |= given.properties
    parent = next(iter(below(project, "parent")), None)
    for name in ("groupId", "artifactId", "version"):
        inherited = "" if parent is None else text_of(parent, name)
        model.properties[f"project.{name}"] = text_of(project, name) or inherited
        model.properties[f"project.parent.{name}"] = inherited
    above = None if parent is None or len(way) > _DEEPEST else _parent(folder, path, parent)
    if above is not None and os.path.realpath(above) not in way:
        try:
            model.inherit(_model(folder, above, given, way))
        except UnreadableError as error:
            folder.report(error.path, error.why)
    return model


def _goals(plugin: Element, path: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the declaration of a plugin, then the goals of its executions."""
    is_inherited = text_of(plugin, "inherited") != "false"
    yield "", path, is_inherited
    for execution in below(plugin, "executions", "execution"):
        for goal in below(execution, "goals", "goal"):
            is_passed_on = is_inherited and text_of(execution, "inherited") != "false"
            yield (goal.text or "").strip(), path, is_passed_on


def _parent(folder: Folder, path: str, parent: Element) -> str | None:
    """Return the parent's file, or None if Maven takes it from a repository."""
    written = next(iter(below(parent, "relativePath")), None)
    given = "../pom.xml" if written is None else (written.text or "").strip()
    file = _file(folder, path, given) if given else None
    if file is None:
        return None
    try:
        found = read_xml(folder, file)
    except UnreadableError as error:
        folder.report(error.path, error.why)
        return None
    return file if text_of(found, "artifactId") == text_of(parent, "artifactId") else None


def _modules(folder: Folder, path: str, model: _Model, given: Profiles) -> Iterator[_Model]:
    """Yield the models of the modules, recursively; report unusable ones."""
    pending = [(path, model)]
    seen = {os.path.realpath(path)}
    for source, outer in pending:
        for name in map(outer.fill, outer.modules):
            file = _file(folder, source, name) if name else None
            if file is None:
                folder.report(source, f'has the module "{name}", which is outside the project')
            elif os.path.realpath(file) not in seen and len(seen) < _MOST_POMS:
                seen.add(os.path.realpath(file))
                try:
                    inner = _model(folder, file, given, ())
                except UnreadableError as error:
                    folder.report(error.path, error.why)
                    continue
                pending.append((file, inner))
                yield inner


def _file(folder: Folder, source: str, given: str) -> str | None:
    """Return the pom.xml at a path relative to another, or None if it is not in the project."""
    place = os.path.normpath(os.path.join(os.path.dirname(source), given))
    if not given.isprintable() or not folder.is_inside(place):
        return None
    if folder.is_file(place):
        return place
    return folder.first("pom.xml", folder=place)


def _prefix(group: str, artifact: str, *, is_known: bool) -> str:
    """Return the prefix of a plugin's goals, or "" if it is unknown.

    Maven derives the short prefix from names of two kinds (`maven-X-plugin`, `X-maven-plugin`); any
    other plugin is named in full, and its version is the one in the project.
    """
    if not (_WORD.fullmatch(artifact) and _WORD.fullmatch(group)):
        return ""
    short = _PREFIX.fullmatch(artifact) if is_known or group in _GROUPS else None
    return short["own"] or short["other"] if short else f"{group}:{artifact}"
