"""The tasks of a Gradle build script that can be found without running it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.dela.server.formats.jvm import gradle_tasks
from ralphgen.kits.dela.server.task import Folder, Task, unchanged

GROOVY, KOTLIN = "build.gradle", "build.gradle.kts"
REPORTS = ["tasks", "projects", "properties", "dependencies"]
BASE = ["assemble", "build", "check", "clean"]
JAVA = [*BASE, "classes", "testClasses", "test", "jar", "javadoc"]
APPLICATION = [*JAVA, "run", "installDist", "distZip", "distTar"]
BOOT = ["bootRun", "bootJar", "bootBuildImage"]


def folder(root: Path, text: str, name: str) -> Folder:
    (root / name).write_text(text, encoding="utf-8")
    return Folder(str(root), str(root))


def listed(root: Path, text: str, name: str = KOTLIN) -> list[Task]:
    """Return the tasks of a script except the reports."""
    tasks = list(gradle_tasks(folder(root, text, name)))
    return [task for task in tasks if task.name not in REPORTS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task hello", [("hello", None)]),
        ("task hello {\n  description 'Says it.'\n}", [("hello", "Says it.")]),
        ("task hello(type: Copy, dependsOn: [\n  a\n]) { description = 'x' }", [("hello", "x")]),
        ("task hello(description: 'named', type: Exec) {\n}", [("hello", "named")]),
        ("task 'two-words' { setDescription('x') }", [("two-words", "x")]),
        ('task("quoted", type: Copy) { description("x") }', [("quoted", "x")]),
        ("task old << { println 'x' }", [("old", None)]),
        ("def t = task later; task other", [("later", None), ("other", None)]),
        ("project.task('mine')", [("mine", None)]),
        ("tasks.register('hello', Copy) {\n  description = 'x'\n}", [("hello", "x")]),
        ("tasks.register 'bare', Copy, { description = 'x' }", [("bare", "x")]),
        ('tasks.create(name: "map", type: Copy) { description = "x" }', [("map", "x")]),
        ("subprojects {\n  tasks.create('sub')\n}", [("sub", None)]),
        ("for (task in tasks) { println task }\nfor (task in (tasks)) {}", []),
        ("task(\"5'x'\ntask(/\"5/ + 'x')", []),
        ("tasks.each { task -> println task.name }\ntask.dependsOn x", []),
        ("tasks.named('test') { description = 'x' }", []),
    ],
)
def test_tasks_of_a_groovy_script_are_found(
    tmp_path: Path, text: str, expected: list[tuple[str, str | None]]
) -> None:
    assert expected == [(task.name, task.description) for task in listed(tmp_path, text, GROOVY)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('tasks.register("plain")', [("plain", None)]),
        ('tasks.register<Copy>("typed") { description = "x" }', [("typed", "x")]),
        ('tasks.register<Map<A, B>>(\n  "deep"\n) { description = "x" }', [("deep", "x")]),
        ('tasks.register("x", Copy::class) {\n  this.description = "y"\n}', [("x", "y")]),
        ('tasks.create("x").apply {\n description = "y" }', [("x", "y")]),
        ('task("x") { description = "y" }\ntask<Copy>("z")', [("x", "y"), ("z", None)]),
        ('val x by tasks.registering {\n  description = "y"\n}', [("x", "y")]),
        ('val x by tasks.registering(Copy::class) { description = "y" }', [("x", "y")]),
        ("val x: TaskProvider<Copy> by project.tasks.creating(Copy::class)", [("x", None)]),
        ("val `a-b` by tasks.creating", [("a-b", None)]),
        (
            'tasks {\n register<A>("a") { description = "x" }\n val b by registering\n}',
            [("a", "x"), ("b", None)],
        ),
        ('tasks { test { create("no") } }', []),
        ('sourceSets { create("no") }\nconfigurations { val no by creating }', []),
        ("val no by tasks.existing\nval no by tasks.getting", []),
        ('publications { create<MavenPublication>("maven") }', []),
    ],
)
def test_tasks_of_a_kotlin_script_are_found(
    tmp_path: Path, text: str, expected: list[tuple[str, str | None]]
) -> None:
    assert expected == [(task.name, task.description) for task in listed(tmp_path, text)]


@pytest.mark.parametrize(
    "text",
    [
        '// tasks.register("no")',
        '/* task("no")\n task no */',
        'println("tasks.register(no) task no")',
        'val s = """\ntask no\n tasks.register("no")\n"""',
        "def s = '''\ntask no\n'''",
        'tasks.register("${prefix}Copy")',
        "task \"$name\"\ntask ''\ntask ' '\ntask '-x'\ntask 'a:b'\ntask 'a\tb'",
        'plugins { id("java") apply false\n id("base") version "1"\n .apply(false) }',
        'dependencies { testImplementation(kotlin("test")) }',
        '// plugins { id("java") }\n"apply plugin: \'java\'"',
        "tasks\ntask\nplugins {\n}\n{ } } } {",
    ],
)
def test_comments_strings_and_computed_names_make_no_tasks(tmp_path: Path, text: str) -> None:
    assert [] == listed(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('task a\ndescription = "the project\'s"', None),
        ('tasks.register("a") { doLast { description = "inner" } }', None),
        ('tasks.register("a") { other.description = "other" }', None),
        ('description = "project"\ntasks.register("a")', None),
        ('tasks.register("a") { description = "" }', None),
        ('tasks.register("a") { /* { */ description = "b" }', "b"),
        ('tasks.register("a") { println("}"); description = "b" }', "b"),
        ('tasks.register("a") { println("${x("}")}"); description = "b" }', "b"),
        ('tasks.register("a") { description = "one " +\n  "two" }', "one two"),
        ('tasks.register("a") { description = """\n  one\n  two\n""" }', "one two"),
        (r'tasks.register("a") { description = "it\'s \"b\"\n" }', 'it\'s "b"'),
        ("task a { onlyIf { it =~ /it's/ }\n description = 'b' }", "b"),
        (
            'task a { description = "on ${"one"} ${two.x} $three ${4 + 5}" }',
            "on one <two.x> <three> <…>",
        ),
        ('task a { description = "first" }\ntasks.create("a") { description = "b" }', "first"),
    ],
)
def test_description_is_inside_the_braces_of_its_task(
    tmp_path: Path, text: str, expected: str | None
) -> None:
    assert [("a", expected)] == [(task.name, task.description) for task in listed(tmp_path, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins { id 'java' }", JAVA),
        ("plugins {\n  id 'org.gradle.base'\n}", BASE),
        ("plugins { application }", APPLICATION),
        ('plugins {\n  `java-library`\n  id("base")\n}', JAVA),
        ('plugins { kotlin("jvm") version "2.1.0" }', JAVA),
        ('plugins { kotlin("jvm") version "2.1.0" apply false }', []),
        ("plugins {\n id 'base'\n id 'org.springframework.boot' version '3.4.0'\n}", BASE + BOOT),
        ("apply plugin: 'java'", JAVA),
        ('apply(plugin = "base")', BASE),
        ('apply { plugin("base") }', BASE),
        ('pluginManager.apply("base")', BASE),
        ("plugins { id 'com.example.java-conventions' }", []),
    ],
)
def test_applied_plugin_adds_its_tasks(tmp_path: Path, text: str, expected: list[str]) -> None:
    """All ids of a block count, by full name."""
    found = listed(tmp_path, text)

    assert sorted(expected) == sorted(task.name for task in found)
    assert all(task.description for task in found)


def test_plugin_may_be_named_by_the_version_catalog(tmp_path: Path) -> None:
    catalog = tmp_path / "gradle/libs.versions.toml"
    catalog.parent.mkdir()
    text = "plugins { alias(libs.plugins.java.app)\n alias(libs.plugins.boot) }"
    before = folder(tmp_path, text, KOTLIN)
    assert REPORTS == [task.name for task in gradle_tasks(before)]

    lines = '[plugins]\njava-app = { id = "application" }\nboot = "org.springframework.boot:3"\n'
    catalog.write_text(lines, encoding="utf-8")

    assert not unchanged(before.stamps)
    assert APPLICATION + BOOT == [task.name for task in listed(tmp_path, text)]


@pytest.mark.parametrize(
    ("catalog", "why"),
    [("[plugins", "is not valid TOML"), ("plugins = 3\n", ""), ("[plugins]\na=1", "")],
)
def test_broken_catalog_does_not_hide_the_script(tmp_path: Path, catalog: str, why: str) -> None:
    path = tmp_path / "gradle/libs.versions.toml"
    path.parent.mkdir()
    path.write_text(catalog, encoding="utf-8")
    root = folder(tmp_path, "plugins { alias(libs.plugins.a) }\ntask('x')", KOTLIN)

    assert ["x", *REPORTS] == [task.name for task in gradle_tasks(root)]
    assert [why] * bool(why) == [words[: len(why)] for _, words in root.problems]


def test_each_name_is_listed_once_with_the_scripts_own_first(tmp_path: Path) -> None:
    text = "plugins { java; application }\ntasks.register('clean') { description = 'mine' }"

    tasks = listed(tmp_path, text)

    assert ["clean", *(name for name in APPLICATION if name != "clean")] == [t.name for t in tasks]
    assert "mine" == tasks[0].description


def test_every_project_has_the_reports(tmp_path: Path) -> None:
    tasks = list(gradle_tasks(folder(tmp_path, "", GROOVY)))

    assert [(name, ("gradle", name), "gradle") for name in REPORTS] == [
        (task.name, task.argv, task.runner) for task in tasks
    ]
    assert {str((tmp_path / GROOVY).resolve())} == {task.path for task in tasks}


def test_groovy_script_precedes_the_kotlin_script(tmp_path: Path) -> None:
    """Gradle itself looks for it first."""
    folder(tmp_path, 'task("kotlin")', KOTLIN)

    assert ["groovy"] == [task.name for task in listed(tmp_path, "task groovy", GROOVY)]


def test_the_wrapper_runs_the_project_once_it_is_executable(tmp_path: Path) -> None:
    wrapper = tmp_path / "gradlew"
    (tmp_path / "build.gradle").write_text("task x", encoding="utf-8")
    wrapper.write_text("#!/bin/sh\n", encoding="utf-8")
    root = Folder(str(tmp_path), str(tmp_path))
    assert {("gradle", "gradle")} == {(task.runner, task.argv[0]) for task in gradle_tasks(root)}

    wrapper.chmod(0o755)

    assert not unchanged(root.stamps)
    assert {("gradle", "./gradlew")} == {(task.runner, task.argv[0]) for task in gradle_tasks(root)}


def build(root: Path, files: dict[str, str]) -> Path:
    """Write a build of several modules, with an executable wrapper at its root."""
    for name, text in {"gradlew": "#!/bin/sh\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "gradlew").chmod(0o755)
    return root.resolve()


ANDROID = ["assembleDebug", "assembleRelease", "connectedAndroidTest", "lint", "installDebug"]
CATALOG = '[plugins]\nandroid-app = "com.android.application:8"\n'
FIVE = [*BASE, "test"]
BUILDS = {
    "settings alone": ({"settings.gradle.kts": 'include(":app")\ninclude(":lib:core")'}, FIVE),
    "computed modules": ({"settings.gradle": "file('.').eachDir { include it.name }"}, FIVE),
    "no module": ({"settings.gradle.kts": 'rootProject.name = "x"\nincludeBuild("y")'}, []),
    "a script that applies nothing": (
        {
            "settings.gradle.kts": 'include(":app")',
            "build.gradle.kts": "plugins { alias(libs.plugins.android.app) apply false }",
            "gradle/libs.versions.toml": CATALOG,
            "app/build.gradle.kts": "plugins { alias(libs.plugins.android.app) }",
        },
        [*FIVE, *ANDROID],
    ),
    "Groovy, modules below modules": (
        {
            "settings.gradle": "include ':one',\n  ':deep:two'\ninclude ':gone'",
            "build.gradle": "task own\nbuildscript { }",
            "one/build.gradle": "apply plugin: 'java-library'\ntask inner",
            "deep/two/build.gradle": "apply plugin: 'application'",
        },
        ["own", *FIVE, *(name for name in APPLICATION if name not in FIVE)],
    ),
    "modules outside": ({"settings.gradle": "include '..:x', '\0', ''"}, FIVE),
}


@pytest.mark.parametrize("case", BUILDS)
def test_root_of_a_build_runs_the_tasks_of_its_modules(tmp_path: Path, case: str) -> None:
    files, expected = BUILDS[case]
    root = build(tmp_path / "root", files)
    tasks = list(gradle_tasks(Folder(str(root), str(root))))
    found = [task.name for task in tasks if task.name not in REPORTS]

    assert sorted(expected) == sorted(found)
    assert {"./gradlew"} == {task.argv[0] for task in tasks}
    assert {str(root)} == {str(Path(task.path).parent) for task in tasks}


def test_unreadable_module_is_reported(tmp_path: Path) -> None:
    root = build(tmp_path, {"settings.gradle": "include 'a'", "a/build.gradle": ""})
    (root / "a/build.gradle").write_bytes(b"\xff")
    folder = Folder(str(root), str(root))

    assert [*FIVE, *REPORTS] == [task.name for task in gradle_tasks(folder)]
    assert [(str(root / "a/build.gradle"), "line 1 is not UTF-8")] == folder.problems


def test_module_uses_the_wrapper_and_the_catalog_of_a_parent_directory(
    tmp_path: Path,
) -> None:
    files = {"a/b/build.gradle.kts": "plugins { alias(libs.plugins.android.app) }"}
    root = build(tmp_path, {"gradle/libs.versions.toml": CATALOG, **files})
    folder = Folder(str(root / "a/b"), str(root))

    assert {"assembleDebug"} <= {task.name for task in gradle_tasks(folder)}
    assert {"../../gradlew"} == {task.argv[0] for task in gradle_tasks(folder)}

    (root / "a/gradlew").write_text("#!/bin/sh\n", encoding="utf-8")
    (root / "a/gradlew").chmod(0o755)
    assert not unchanged(folder.stamps)
    anew = Folder(str(root / "a/b"), str(root))
    assert {"../gradlew"} == {task.argv[0] for task in gradle_tasks(anew)}


def test_no_wrapper_above_the_root_is_run(tmp_path: Path) -> None:
    root = build(tmp_path, {"a/build.gradle": "task x"})

    folder = Folder(str(root / "a"), str(root / "a"))

    assert {"gradle"} == {task.argv[0] for task in gradle_tasks(folder)}
    assert [] == folder.problems
    assert all(path.startswith(folder.root) for path in folder.stamps)  # no path above the root


def test_directory_without_a_script_has_no_tasks(tmp_path: Path) -> None:
    assert [] == list(gradle_tasks(folder(tmp_path, "task x", "other.gradle")))


WORDS = ["task", " ", "x", "(", ")", "{", "}", '"', "'", '"""', "\\", "\n", "tasks", ".register"]
MORE = [
    "<",
    ">",
    "5",
    "description",
    "=",
    "//",
    "/*",
    "*/",
    "${",
    "val",
    "by",
    "plugins",
    "id",
    ";",
]


@given(st.lists(st.sampled_from(WORDS + MORE), max_size=60).map("".join))
def test_no_text_breaks_the_reader(text: str) -> None:
    with TemporaryDirectory() as root:
        names = [task.name for task in gradle_tasks(folder(Path(root), text, GROOVY))]

    assert REPORTS == [name for name in names if name in REPORTS]
    assert all(name.strip() and name.isprintable() for name in names)


@pytest.mark.parametrize(
    "line",
    [
        "apply from: 'gradle/more.gradle'",
        'apply from: "gradle/more.gradle"',
        'apply(from: "gradle/more.gradle")',
        'apply(from = "gradle/more.gradle")',
        'apply { from("gradle/more.gradle") }',
        "apply from: file('gradle/more.gradle')",
        'apply from: rootProject.file("gradle/more.gradle")',
        'apply from: "$rootDir/gradle/more.gradle"',
        'apply from: "${rootProject.projectDir}/gradle/more.gradle"',
        'apply from: "$projectDir/gradle/more.gradle"',
    ],
)
def test_tasks_of_an_applied_script_are_listed(tmp_path: Path, line: str) -> None:
    (tmp_path / "gradle").mkdir()
    more = tmp_path / "gradle/more.gradle"
    more.write_text(
        "task more { description 'More.' }\napply from: 'gradle/last.gradle'\n", encoding="utf-8"
    )
    last = tmp_path / "gradle/last.gradle"
    last.write_text(
        "task last\napply plugin: 'base'\napply from: 'gradle/more.gradle'\n", encoding="utf-8"
    )
    name = KOTLIN if "= " in line else GROOVY
    tasks = listed(tmp_path, f"{line}\ntask('own') {{}}\n", name)

    assert [("own", None), ("more", "More."), ("last", None)] == [
        (task.name, task.description) for task in tasks[:3]
    ]
    assert [name, "more.gradle", "last.gradle"] == [Path(task.path).name for task in tasks[:3]]
    assert BASE == [task.name for task in tasks[3:]]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../out.gradle", 'applies "../out.gradle", which is outside the project'),
        ("link.gradle", 'applies "link.gradle", which is outside the project'),
        ("https://a.b/c.gradle", 'applies "https://a.b/c.gradle", which is outside the project'),
        ("none.gradle", 'applies "none.gradle", which does not exist'),
        ("$x/a.gradle", 'applies "$x/a.gradle": only Gradle can resolve this file'),
        ("bad.gradle", "line 1 is not UTF-8"),
    ],
)
def test_unusable_applied_script_is_reported(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "out.gradle").write_text("task stolen\n", encoding="utf-8")
    root = tmp_path / "project"
    root.mkdir()
    (root / "bad.gradle").write_bytes(b"\xff")
    (root / "link.gradle").symlink_to("../out.gradle")
    place = folder(root, f'apply from: "{name}"\ntask own\n', GROOVY)

    assert ["own", *REPORTS] == [task.name for task in gradle_tasks(place)]
    assert [why] == [why for _, why in place.problems]
