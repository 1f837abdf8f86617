"""Finds the tasks of a Gradle build.

Gradle is not run: it would run the build script. Of that are listed the tasks that it declares
with a name written out, those that the well-known plugins it applies add, where settings include
modules those of the modules' plugins, and the reports that every project has; `tasks`, one of
these, prints what a script adds in other ways.
"""

from __future__ import annotations

import os
import re

from ..runners import nearest_program
from ..task import Task, UnreadableError, is_word, mapping, one_line, read_toml, with_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..task import Folder

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
_OF_MODULES = _BASE | {"test": "run the tests"}  # whatever plugins the modules have
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
_UNFIT = frozenset('/\\:<>"?*|$')  # in no name of a task; `$` begins what is still to be filled in

# These read a script in which each string is replaced by its number in quotes.
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

    The scripts that it applies with `apply from` are read as well.
    Where the folder's settings include modules, what their plugins add is run in all of them: it
    comes after what the script's own plugins add. Raises `UnreadableError`.
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
    program = nearest_program(folder, "gradlew", "gradle")
    for name, (file, described) in tasks.items():
        argv, real = (program, name), os.path.realpath(file)
        yield Task(name, runner="gradle", argv=argv, path=real, description=described)


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
    """Return what plugins add to the modules that settings include; some, where they include any.

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
    """Reads the tasks that a script declares, and the description within each one's own braces.

    `blocks` are the open braces: the task whose they are, "" for those of `tasks { … }`, else
    None. `owner` is the task whose braces may come next, `depth` the parentheses open since.
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
        """Return what a token declares, if it declares a task."""
        inner = token["inner"] or (token["value"] if not token["from"] else None)
        if inner and self.blocks[-1:] != [""]:
            return None
        number = token["string"] or token["inner"]
        return self.strings[int(number)] if number else token["word"] or token["value"]

    def _describe(self, numbers: str) -> None:
        """Take a description, a sum of strings, for the task in whose words or braces it is."""
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
    places = (os.path.join(place, "gradle", "libs.versions.toml") for place in folder.upwards())
    path = next(filter(folder.is_file, places), None)
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
