"""The tasks of a pom.xml: the phases of every project, and the goals of its plugins."""

from pathlib import Path

import pytest

from ralphgen.kits.dela.server.formats.jvm import maven_tasks
from ralphgen.kits.dela.server.task import Folder, UnreadableError

PHASES = ["clean", "validate", "compile", "test", "package", "verify", "install", "deploy", "site"]


def plugin(artifact: str, *goals: str, group: str = "") -> str:
    """Return a plugin with one execution of these goals."""
    named = f"<groupId>{group}</groupId>" if group else ""
    listed = "".join(f"<goal>{goal}</goal>" for goal in goals)
    execution = f"<executions><execution><goals>{listed}</goals></execution></executions>"
    return f"<plugin>{named}<artifactId>{artifact}</artifactId>{execution}</plugin>"


def pom(*plugins: str, attributes: str = "") -> str:
    listed = "".join(plugins)
    return f"<project {attributes}><build><plugins>{listed}</plugins></build></project>"


def inside(*names: str) -> str:
    """Return a project with its plugins inside these elements, not in the default place."""
    opened, closed = "><".join(names), "></".join(reversed(names))
    build = pom(plugin("exec-maven-plugin", "java")).replace("</build>", f"</build></{closed}>")
    return build.replace("<build>", f"<{opened}><build>")


def goals(root: Path, text: str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """Return the tasks except the phases, as (name, argv, description)."""
    (root / "pom.xml").write_text(text, encoding="utf-8")
    tasks = list(maven_tasks(Folder(str(root), str(root))))
    assert [task.name for task in tasks[: len(PHASES)]] == PHASES
    return [(task.name, task.argv, task.description) for task in tasks[len(PHASES) :]]


@pytest.mark.parametrize(
    "text",
    [
        pom(plugin("exec-maven-plugin", "${goal}", "", "-X", "two words")),
        pom(plugin("${artifact}", "do")),
        pom(plugin("some-plugin", "do", group="${group}")),
        pom(plugin("", "do")),
        inside("profiles", "profile"),
        pom(plugin("exec-maven-plugin", "java")).replace("plugins>", "pluginManagement>"),
        "<project><!-- no plugins --><build>text</build><build/></project>",
    ],
)
def test_goal_without_a_usable_name_is_not_listed(tmp_path: Path, text: str) -> None:
    assert [] == goals(tmp_path, text)


PARENT = "<parent><artifactId>top</artifactId>{}</parent>"
TOP = "<artifactId>top</artifactId>"


def built(plugins: str) -> str:
    return f"<build><plugins>{plugins}</plugins></build>"


def managed(plugins: str) -> str:
    return f"<build><pluginManagement><plugins>{plugins}</plugins></pluginManagement></build>"


EXEC = built(plugin("exec-maven-plugin", "java", group="org.codehaus.mojo"))
RUN = plugin("demo-maven-plugin", "run", group="com.example")
DEMO = built(RUN)
NO_MORE = "<inherited>false</inherited></plugin>"
FILES: dict[str, tuple[dict[str, str], list[str]]] = {
    "parent": ({"pom.xml": PARENT.format(""), "../pom.xml": TOP + EXEC}, ["exec:java"]),
    "parent elsewhere": (
        {
            "pom.xml": PARENT.format("<relativePath>../a/top.xml</relativePath>"),
            "../a/top.xml": TOP + EXEC,
        },
        ["exec:java"],
    ),
    "parent in a folder": (
        {
            "pom.xml": PARENT.format("<relativePath>../a</relativePath>") + DEMO,
            "../a/pom.xml": TOP + EXEC,
        },
        ["demo:run", "exec:java"],
    ),
    "parent of a parent": (
        {
            "pom.xml": PARENT.format(""),
            "../pom.xml": TOP + PARENT.format("<relativePath>b/pom.xml</relativePath>"),
            "../b/pom.xml": TOP + EXEC,
        },
        ["exec:java"],
    ),
    "parent of the repository": (
        {"pom.xml": PARENT.format("<relativePath/>"), "../pom.xml": TOP + EXEC},
        [],
    ),
    "another parent": (
        {"pom.xml": PARENT.format(""), "../pom.xml": "<artifactId>no</artifactId>" + EXEC},
        [],
    ),
    "parent of itself": (
        {"pom.xml": TOP + PARENT.format("<relativePath>pom.xml</relativePath>") + EXEC},
        ["exec:java"],
    ),
    "not inherited": (
        {"pom.xml": PARENT.format(""), "../pom.xml": TOP + EXEC.replace("</plugin>", NO_MORE)},
        [],
    ),
    "managed by the parent": (
        {
            "pom.xml": PARENT.format("") + built(plugin("demo-maven-plugin", group="com.example")),
            "../pom.xml": TOP + managed(RUN + plugin("exec-maven-plugin", "java")),
        },
        ["demo:run"],
    ),
    "properties": (
        {
            "pom.xml": PARENT.format("<relativePath/>")
            + "<properties><goal>java</goal><kind>${project.parent.artifactId}</kind></properties>"
            + built(plugin("${kind}-maven-plugin", "${goal}"))
        },
        ["top:java"],
    ),
    "modules": (
        {
            "pom.xml": "<modules><module>a</module><module>b/x.xml</module></modules>",
            "a/pom.xml": "<modules><module>../c</module></modules>" + EXEC,
            "b/x.xml": DEMO,
            "c/pom.xml": built(plugin("deep-maven-plugin", "do")),
        },
        ["exec:java", "com.example:demo-maven-plugin:run", "deep:do"],
    ),
    "module of a known plugin": (
        {"pom.xml": "<modules><module>a</module></modules>" + managed(RUN), "a/pom.xml": DEMO},
        ["demo:run"],
    ),
    "profile by default": (
        {
            "pom.xml": "<profiles><profile><id>a</id><activation><activeByDefault>true"
            f"</activeByDefault></activation>{EXEC}</profile><profile><id>b</id>{DEMO}</profile></profiles>"
        },
        ["exec:java"],
    ),
    "profile of the settings": (
        {
            ".mvn/maven.config": "-DG=run\n-P\nb\n",
            "pom.xml": "<profiles><profile><id>a</id><activation><activeByDefault>true"
            f"</activeByDefault></activation>{EXEC}</profile><profile><id>b</id>"
            f"{DEMO.replace('>run<', '>${G}<')}</profile></profiles>",
        },
        ["demo:run"],
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_parents_and_modules_count_as_in_maven(tmp_path: Path, case: str) -> None:
    files, names = FILES[case]
    project = tmp_path / "project"
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            text if "config" in name else f"<project>{text}</project>", encoding="utf-8"
        )
    folder = Folder(str(project), str(tmp_path))
    tasks = list(maven_tasks(folder))

    assert [*PHASES, *names] == [task.name for task in tasks]
    assert [] == folder.problems


ACTIVATIONS = {
    "on": "",
    "default": "<activeByDefault>true</activeByDefault>",
    "not": "<activeByDefault>false</activeByDefault>",
    "maybe": "<jdk>99</jdk>",
    "off": "<jdk>1</jdk>",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ["default", "maybe", "off"]),
        ("-Pon,!off", ["on", "maybe"]),
        ("--activate-profiles not -P -off", ["not", "maybe"]),
    ],
)
def test_an_activation_counts_unless_the_arguments_name_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, expected: list[str]
) -> None:
    monkeypatch.setenv("MAVEN_ARGS", arguments)
    profiles = [
        f"<profile><id>{name}</id><activation>{activation}</activation>"
        f"{built(plugin(f'{name}-maven-plugin', 'do'))}</profile>"
        for name, activation in ACTIVATIONS.items()
    ]
    found = goals(tmp_path, f"<project><profiles>{''.join(profiles)}</profiles></project>")

    assert [f"{name}:do" for name in expected] == [name for name, *_ in found]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<modules><module>../out</module></modules>", "has the module"),
        ("<modules><module>none</module></modules>", "has the module"),
        ("<modules><module>bad</module></modules>", "is not valid XML"),
    ],
)
def test_unusable_module_is_reported(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/pom.xml").write_text(f"<project>{EXEC}</project>", encoding="utf-8")
    (tmp_path / "project/bad").mkdir(parents=True)
    (tmp_path / "project/bad/pom.xml").write_text("<project>", encoding="utf-8")
    (tmp_path / "project/pom.xml").write_text(f"<project>{text}</project>", encoding="utf-8")
    folder = Folder(str(tmp_path / "project"), str(tmp_path / "project"))

    assert PHASES == [task.name for task in maven_tasks(folder)]
    assert [problem] == [why[: len(problem)] for _, why in folder.problems]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<project>", "is not valid XML: no element found"),
        ("<html/>", "its root element is 'html', not 'project'"),
        (
            '<!DOCTYPE p [<!ENTITY a "b">]><project/>',
            'defines the entity "a": replace it with its text',
        ),
        (
            '<!DOCTYPE p [<!ENTITY % one SYSTEM "file:///etc/passwd"> %one;]><project/>',
            'defines the entity "one": replace it with its text',
        ),
    ],
)
def test_file_that_is_not_a_project_is_named(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "pom.xml").write_text(text, encoding="utf-8")

    with pytest.raises(UnreadableError, match=why) as raised:
        list(maven_tasks(Folder(str(tmp_path), str(tmp_path))))

    assert str(tmp_path / "pom.xml") == raised.value.path


def test_directory_without_a_pom_has_no_tasks(tmp_path: Path) -> None:
    (tmp_path / "Pom.xml").write_text("<project/>", encoding="utf-8")

    assert [] == list(maven_tasks(Folder(str(tmp_path), str(tmp_path))))
